"""Coverage and size of prediction sets, and the scale of disagreement, on the development data.

    python benchmarks/conformal.py --data PATH [--jobs 2] [--trials 3] [--situations A E G]
        [--datasets webkb] [--out results/default/conformal.jsonl]

PATH is a folder with the files that `situation_data.DATASETS` names; without it only Handwritten
is run. One line of the output is one cell of one split: rows with all views, or with one at hand.
`coverage` is the share of test rows whose set holds the true class, `size` the mean number of
classes in a set, `above_95` the share of rows whose members disagree more than about 95 % of the
training rows. Rows of classes without a label, `n_other`, are left out: no set can hold these.
Lines that are there are not run again. The summary counts the cells in which
coverage is missed by more than two standard errors, of calibration and test rows together.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import warnings
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # trials run side by side

import numpy as np
from joblib import Parallel, delayed
from situation_data import DATASETS, draw

from hotview import MultiViewClassifier

OUT = Path(__file__).parent.parent / "results" / "default" / "conformal.jsonl"
SETTINGS = {"A": ("",), "C": ("40 linked",), "E": ("20 %",), "G": ("20 %", "50 %")}
ALPHAS = (0.1, 0.2)
KEYS = ("situation", "setting", "dataset", "trial")


def run(where: dict[str, Any], data: Path | None) -> list[dict[str, Any]]:
    """All cells of one split."""
    warnings.simplefilter("ignore")
    lines = []
    for task in draw(*where.values(), data):
        model = MultiViewClassifier(random_state=where["trial"], device="cpu", verbose=False)
        try:
            model.fit(**task.arguments())
        except ValueError:  # labels of one class alone, say
            continue
        lines += [
            {**where, "cell": cell, **measure(model, views, y)}
            for cell, (views, y) in task.tests.items()
        ]
    return lines


def measure(model: Any, views: dict[str, Any], y: Any) -> dict[str, Any]:
    """Accuracy of one cell, and coverage and size of its sets."""
    known = np.isin(y, model.classes_)
    views, y = {name: X[known] for name, X in views.items()}, y[known]
    P, disagreement, groups = model._predict_both(views)
    true = np.searchsorted(model.classes_, y)
    scores = model.model_.set_scores
    sizes = [len(scores.of(g)) for g in groups.tolist()] if scores else [0]
    found: dict[str, Any] = {
        "n_test": len(y),
        "n_other": int((~known).sum()),
        "n_calibration": int(np.median(sizes)),
    }
    found["n_classes"] = len(model.classes_)
    found["accuracy"] = round(float((P.argmax(axis=1) == true).mean()), 4)
    percentile = model.model_.percentiles(disagreement, groups)
    found["above_95"] = round(float((percentile > 95).mean()), 4)
    for alpha in ALPHAS:
        sets = model.model_.predict_sets(P, groups, alpha)
        found[f"coverage_{alpha}"] = round(float(sets[np.arange(len(y)), true].mean()), 4)
        found[f"size_{alpha}"] = round(float(sets.sum(axis=1).mean()), 3)
    return found


def kind_of(line: dict[str, Any]) -> str:
    """Which views test rows have."""
    if line["situation"] == "C":
        return "one view, without labels"
    return line["cell"] if line["cell"] in ("all views", "partial rows") else "one view"


def summarize(lines: list[dict[str, Any]]) -> list[str]:
    """Means over the cells of every kind, and how many miss their coverage."""
    texts = []
    for kind in sorted({kind_of(line) for line in lines}):
        cells = [line for line in lines if kind_of(line) == kind]
        for alpha in ALPHAS:
            coverage = np.array([line[f"coverage_{alpha}"] for line in cells])
            n = [(max(line["n_calibration"], 1), line["n_test"]) for line in cells]
            error = np.array([math.sqrt(alpha * (1 - alpha) * (1 / a + 1 / b)) for a, b in n])
            missed = int((coverage < 1 - alpha - 2 * error).sum())
            size = np.mean([line[f"size_{alpha}"] for line in cells])
            texts.append(
                f"{kind}, alpha {alpha}: coverage {coverage.mean():.3f} (lowest "
                f"{coverage.min():.3f}), {size:.2f} classes, missed in {missed} of {len(cells)}"
            )
        above = np.mean([line["above_95"] for line in cells])
        texts.append(f"{kind}: {above:.3f} of the rows above the 95th percentile of disagreement")
    return texts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--situations", nargs="+", default=["A", "E", "G"], choices=SETTINGS)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    lines = (
        [json.loads(x) for x in given.out.read_text().splitlines()] if given.out.exists() else []
    )
    done = {tuple(line[key] for key in KEYS) for line in lines}
    splits = [
        dict(zip(KEYS, split, strict=True))
        for s in given.situations
        for setting in SETTINGS[s]
        for dataset in (given.datasets if given.data else ["handwritten"])
        for trial in range(given.trials)
        if (split := (s, setting, dataset, trial)) not in done
    ]
    parallel = Parallel(n_jobs=given.jobs, return_as="generator")
    for found in parallel(delayed(run)(where, given.data) for where in splits):
        lines += found
        with given.out.open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in found)
    print("\n".join(summarize(lines)))


if __name__ == "__main__":
    main()
