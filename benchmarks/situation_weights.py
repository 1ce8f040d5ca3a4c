"""Prior weights of the default's predictors, chosen without the dataset that they are judged on.

    python benchmarks/situation_weights.py --cache FOLDER [--jobs 2]

FOLDER is one that ``situations.py --cache FOLDER`` has filled. Every candidate is fitted to the
out-of-fold scores there and judged on the test rows, without fitting any network again. Of every
dataset, ``results/default/situation_weights.jsonl`` then holds the scores of all candidates; the
tables take for each dataset the candidate with the lowest mean log loss on all *others*.
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # files are read side by side

import numpy as np
import torch
from joblib import Parallel, delayed
from situations import KEYS, score

from hotview._files import atomic_write
from hotview.semisupervised.super_learner import PriorWeights, ScoresOutOfFold, fit_super_learner

OUT = Path(__file__).parent.parent / "results" / "default" / "situation_weights.jsonl"
FACTORS = {"neighbors": 0, "ridge": 1, "head": 2}


def candidates() -> dict[str, PriorWeights]:
    """The default's prior weights, and each of them halved and doubled."""
    base = PriorWeights()
    found = {"default": base}
    for name, i in FACTORS.items():
        for factor in (0.5, 2.0):
            labeled, transferred = list(base.labeled), list(base.transferred)
            labeled[i] *= factor
            transferred[i] *= factor
            changed = replace(base, labeled=tuple(labeled), transferred=tuple(transferred))
            found[f"{name} × {factor:g}"] = changed
    for name in ("joint", "power", "shrinkage"):
        for factor in (0.5, 2.0):
            value = getattr(base, name) * factor
            found[f"{name} × {factor:g}"] = replace(base, **{name: value})
    return found


def judge(path: Path) -> list[dict[str, Any]]:
    """All candidates on the cells of one file."""
    with np.load(path, allow_pickle=False) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    where = json.loads(str(found["where"]))
    folds = []
    if "fold.scores" in found:
        names = ("scores", "joint", "present", "target")
        folds = [ScoresOutOfFold(*(found[f"fold.{name}"] for name in names))]
    cells = where.pop("cells")
    lines = [{**where, "cell": cell, "accuracy": {}, "log_loss": {}} for cell in cells]
    for name, prior in candidates().items():
        random = np.random.default_rng(where["trial"])
        learner = fit_super_learner(
            folds, found["log_prior"], found["known"].tolist(), random, prior
        )
        for i, line in enumerate(lines):
            scores = torch.from_numpy(found[f"test.{i}.scores"]).double()
            joint = found.get(f"test.{i}.joint")
            present, y = torch.from_numpy(found[f"test.{i}.present"]), found[f"test.{i}.y"]
            P = torch.stack(
                [
                    learner.combine(
                        one, None if joint is None else torch.from_numpy(joint).double(), present
                    ).exp()
                    for one in scores
                ]
            ).mean(0)
            scored = score(P.numpy(), found["classes"], y)
            line["accuracy"][name] = scored["accuracy"]
            line["log_loss"][name] = scored["log_loss"]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    paths = sorted(arguments.cache.glob("*.npz"))
    found = Parallel(n_jobs=arguments.jobs, batch_size=8)(delayed(judge)(path) for path in paths)
    keys = [name for name in KEYS if name != "method"]
    lines = sorted(
        (line for lines in found for line in lines), key=lambda line: tuple(line[k] for k in keys)
    )
    with atomic_write(arguments.out) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))
    print(f"{len(lines)} cells of {len(paths)} files")


if __name__ == "__main__":
    main()
