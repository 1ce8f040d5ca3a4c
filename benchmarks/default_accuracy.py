"""The default beside simple methods, and features of the encoder, on the same splits.

    python benchmarks/default_accuracy.py --data PATH [--jobs 2] [--datasets snareseq msrc ...]

PATH is a folder with caltech101_reextracted.npz, snareseq.npz, scgem.npz and msrc_v1.npz; without
it only Handwritten is run. One line of ``results/default/accuracy.jsonl`` tells of one method on
one split; lines that are there are not run again. Splits are those of the paper's protocol with
5 % labels, seeds 0 to 19: a method sees no test row before it is judged by all of them. Other
shares of labels are in situations.py, and what each part of the default adds in parts.py.
"""

from __future__ import annotations

import argparse
import json
import os
import time
import warnings
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # trials run side by side

import numpy as np
from joblib import Parallel, delayed
from sklearn.linear_model import LogisticRegression

from hotview import DiffusionSpec, MultiViewClassifier, MultiViewEncoder
from hotview._files import atomic_write
from hotview.datasets import load_handwritten, read_views, unalign
from hotview.evaluation import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
    expected_calibration_error,
)
from paper.caltech import load_caltech

OUT = Path(__file__).parent.parent / "results" / "default" / "accuracy.jsonl"
SHARE = 0.05  # of the training rows, linked and labeled
TRIALS = 20
SIMPLE = {
    "logistic regression": ConcatenatedLogisticRegression,
    "PCA + logistic regression": PCALogisticRegression,
    "label propagation per view": PerViewLabelPropagation,
}
DEFAULT = "default"
ENCODERS: dict[str, dict[str, Any]] = {
    "features, default": {},
    "features, diffusion": {
        "view_regularizer": DiffusionSpec(1.0),
        "learning_rate": 0.003,
    },
    "features, diffusion, without coupling": {
        "view_regularizer": DiffusionSpec(1.0),
        "learning_rate": 0.003,
        "coupling": "none",
    },
}


def load(name: str, data: Path | None) -> tuple[dict[str, Any], Any]:
    """Aligned views and classes."""
    if name == "handwritten":
        found = load_handwritten()
    elif name.startswith("caltech"):
        found = load_caltech(int(name[7:]), path=data / "caltech101_reextracted.npz")
    else:
        views = read_views(data / FILES[name])
        with np.load(data / FILES[name], allow_pickle=False) as arrays:
            return views, arrays["y"]
    return found.views, found.target


FILES = {"snareseq": "snareseq.npz", "scgem": "scgem.npz", "msrc": "msrc_v1.npz"}
DATASETS = ("handwritten", "caltech7", "caltech20", *FILES)


def jobs(datasets: list[str], done: set[tuple]) -> Iterator[tuple[str, float, int, str]]:
    """What is to be run."""
    for name, method, trial in product(datasets, (*SIMPLE, DEFAULT, *ENCODERS), range(TRIALS)):
        if (job := (name, SHARE, trial, method)) not in done:
            yield job


def run(name: str, share: float, trial: int, method: str, data: Path | None) -> dict[str, Any]:
    """One method on one split."""
    warnings.simplefilter("ignore")
    split = unalign(*load(name, data), labeled=share, random_state=trial)
    known = np.unique(split.target)
    found: dict[str, Any] = {"dataset": name, "share": share, "trial": trial, "method": method}
    found["cap"] = float(np.isin(split.test_target, known).mean())
    if len(known) < 2:  # nothing to tell apart
        return found
    began = time.perf_counter()
    if method in ENCODERS:
        return found | judge_features(split, trial, ENCODERS[method])
    model = make(method, trial).fit(split.linked, split.target, unaligned=split.unaligned)
    found["seconds"] = round(time.perf_counter() - began, 2)
    found |= judge(model, split.test, split.test_target)
    if method == DEFAULT:
        found |= judge_missing(model, split.test, split.test_target)
    return found


def make(method: str, trial: int) -> Any:
    """A classifier by name."""
    if method in SIMPLE:
        return SIMPLE[method]()
    return MultiViewClassifier(random_state=trial, device="cpu", verbose=False)


def judge(model: Any, views: dict[str, Any], target: Any) -> dict[str, float]:
    P = model.predict_proba(views)
    right = model.classes_[P.argmax(axis=1)] == target
    error = expected_calibration_error(P, target, model.classes_)
    return {"accuracy": round(float(right.mean()), 6), "ece": round(error, 4)}


def judge_missing(model: Any, views: dict[str, Any], target: Any) -> dict[str, float]:
    """Calibration where one view is missing, and where only one is there, means over the views."""
    alone = [judge(model, {v: X}, target)["ece"] for v, X in views.items()]
    rest = [{v: X for v, X in views.items() if v != out} for out in views]
    without = [judge(model, some, target)["ece"] for some in rest]
    return {
        "ece_one_view": round(float(np.mean(alone)), 4),
        "ece_one_missing": round(float(np.mean(without)), 4),
    }


def judge_features(split: Any, trial: int, options: dict[str, Any]) -> dict[str, float]:
    """Logistic regression, as it is, on features that were learned without any label."""
    rows = {v: np.vstack([X, split.unaligned[v]]) for v, X in split.linked.items()}
    encoder = MultiViewEncoder(random_state=trial, device="cpu", verbose=False, **options).fit(rows)
    few, test = (
        np.hstack(list(encoder.transform(part).values())) for part in (split.linked, split.test)
    )
    model = LogisticRegression(max_iter=10_000).fit(few, split.target)
    return {"accuracy": round(float(model.score(test, split.test_target)), 6)}


def read() -> list[dict[str, Any]]:
    """What was run before."""
    return [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []


def key(line: dict[str, Any]) -> tuple:
    return line["dataset"], line["share"], line["trial"], line["method"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--datasets", nargs="*", choices=DATASETS)
    arguments = parser.parse_args()
    datasets = arguments.datasets or (DATASETS if arguments.data else DATASETS[:1])
    todo = list(jobs(list(datasets), {key(line) for line in read()}))
    OUT.parent.mkdir(parents=True, exist_ok=True)
    print(f"{len(todo)} to run, on {arguments.jobs} cores")
    began = time.perf_counter()
    found = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*job, arguments.data) for job in todo
    )
    for i, line in enumerate(found, start=1):
        with OUT.open("a") as file:
            file.write(json.dumps(line) + "\n")
        if i % 50 == 0 or i == len(todo):
            print(f"{i} of {len(todo)}, {time.perf_counter() - began:.0f} s", flush=True)
    lines = sorted(read(), key=key)
    with atomic_write(OUT) as draft:
        draft.write_text("".join(json.dumps(line) + "\n" for line in lines))


if __name__ == "__main__":
    main()
