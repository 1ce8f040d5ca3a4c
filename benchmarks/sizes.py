"""What a fit takes of wide, long and small tables, beside what one would do instead.

    python benchmarks/sizes.py                                   # an hour and a half on two cores
    python benchmarks/sizes.py --cases cells digits --methods hotview majority
    python benchmarks/sizes.py --device cuda --limit-seconds 300
    python benchmarks/sizes.py --quick                           # the digits alone

The data are those of ``benchmarks/size_data.py``: 10,000 cells in two sparse views of 20,000 and
60,000 columns; 100,000 and 1,000,000 rows of four views of 64 columns; the digits. 200 rows (60 of
the digits) are linked and labeled, the others have neither links nor labels, and the accuracy is
that on test rows that have every view.

- *hotview*: `MultiViewClassifier(random_state=0)`.
- *SVD + logistic regression*: in every view the 50 leading components of all rows (counts:
  divided by the sum of their row, log1p, `TruncatedSVD`; other columns: standardized, `PCA`), then
  logistic regression on those of the linked rows, all views side by side.
- *label propagation*: scikit-learn's `LabelSpreading` on the 10 nearest neighbors, in every view by
  itself on its 20 leading components, log-probabilities summed over the views.
- *gradient boosting on the outer join*: `HistGradientBoostingClassifier` on all columns side by
  side. In the outer join an unlinked row has one view and no label, so that the linked rows are
  what it learns from. It takes no sparse matrices and gets the 50 components of the cells.
- *majority class*: the control.
- *truncated SVD alone*: 50 components of both sparse views as they are, the unit of a target.

Each method runs in a process of its own with the machine's default number of threads: the data are
drawn, then the clock starts. Memory is the most that the process has of its own during the fit less
what it had before, looked at every 20 ms. Where a process takes longer than the limit, or is killed
because memory is short, that is the result. With ``--device cuda`` hotview is fitted twice in its
process, on the GPU, and the second fit counts; the other methods use the CPU of that machine. Of
several repetitions, in turns, the shortest time counts, and the largest memory.

The result is ``results/bench/sizes.json``. A case is replaced as a whole; cases that were not run
stay where the record is of the same machine and the same versions.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import math
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measuring import RESULTS, wait_for, write_part
from scipy import sparse
from size_data import CASES, Sample
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.semi_supervised import LabelSpreading
from stored_views import PeakMemory, own_memory

OUT = RESULTS / "sizes.json"
PACKAGES = ("scipy", "scikit-learn")
N_COMPONENTS, N_PROPAGATED, N_NEIGHBORS = 50, 20, 10
SVD = "truncated SVD alone"
#: most seconds and megabytes of a fit of hotview, by device and case
MOST_SECONDS = {
    "cpu": {"rows-100000": 40, "rows-1000000": 360, "digits": 4},
    "cuda": {"rows-100000": 5, "rows-1000000": 40, "digits": 4},
}
MOST_MEGABYTES = {"cells": 1500, "rows-1000000": 4000}
MOST_SVDS = 4
MOST_WARM_UP = 3  # seconds that the first fit of a process on a GPU may take more than the second
GROWTH = "growth, 100,000 to 1,000,000 rows: 1 over the slope"
Predict = Callable[[Mapping[str, Any]], np.ndarray]


def fit_hotview(sample: Sample, device: str) -> Predict:
    from hotview import MultiViewClassifier

    model = MultiViewClassifier(random_state=0, device=device, verbose=False)
    return model.fit(sample.linked, sample.y, unaligned=sample.unaligned).predict


def fit_logistic_regression(sample: Sample, device: str) -> Predict:
    return fit_on_components(LogisticRegression(max_iter=1000), sample)


def fit_boosting(sample: Sample, device: str) -> Predict:
    model = HistGradientBoostingClassifier(random_state=0)
    if any(sparse.issparse(X) for X in sample.linked.values()):
        return fit_on_components(model, sample)
    model.fit(np.hstack(list(sample.linked.values())), sample.y)
    return lambda views: model.predict(np.hstack(list(views.values())))


def fit_on_components(model: Any, sample: Sample) -> Predict:
    """Fit a classifier to the leading components of all views, side by side."""
    reductions = {name: fit_components(sample, name, N_COMPONENTS) for name in sample.linked}

    def components(views: Mapping[str, Any]) -> np.ndarray:
        return np.hstack([reductions[name].transform(X) for name, X in views.items()])

    model.fit(components(sample.linked), sample.y)
    return lambda views: model.predict(components(views))


def fit_components(sample: Sample, name: str, n_components: int) -> Pipeline:
    """Components of all training rows of a view."""
    X = all_rows(sample, name)
    if sparse.issparse(X):
        reduction = TruncatedSVD(n_components, random_state=0)
        return make_pipeline(FunctionTransformer(normalize_counts), reduction).fit(X)
    reduction = PCA(min(n_components, X.shape[1]), random_state=0)
    return make_pipeline(StandardScaler(), reduction).fit(X)


def all_rows(sample: Sample, name: str) -> Any:
    parts = sample.linked[name], sample.unaligned[name]
    return sparse.vstack(parts, format="csr") if sparse.issparse(parts[0]) else np.vstack(parts)


def normalize_counts(X: Any) -> Any:
    """Counts per 10,000 of their row, as log1p."""
    X = X.copy()
    sums = np.asarray(X.sum(axis=1)).ravel()
    X.data *= np.repeat((1e4 / np.maximum(sums, 1)).astype(np.float32), np.diff(X.indptr))
    np.log1p(X.data, out=X.data)
    return X


def fit_propagation(sample: Sample, device: str) -> Predict:
    classes, labels = np.unique(sample.y, return_inverse=True)
    models = {}
    for name, X in sample.unaligned.items():
        reduction = fit_components(sample, name, N_PROPAGATED)
        rows = [reduction.transform(sample.linked[name]), reduction.transform(X)]
        y = np.concatenate((labels, np.full(X.shape[0], -1)))
        model = LabelSpreading(kernel="knn", n_neighbors=N_NEIGHBORS, n_jobs=-1)
        models[name] = reduction, model.fit(np.vstack(rows), y)

    def predict(views: Mapping[str, Any]) -> np.ndarray:
        total = np.zeros(len(classes))
        for name, (reduction, model) in models.items():
            found = model.predict_proba(reduction.transform(views[name]))
            found = np.nan_to_num(found, nan=1 / len(classes))  # rows that no label reaches
            total = total + np.log(np.maximum(found, 1e-3))
        return classes[total.argmax(axis=1)]

    return predict


def fit_majority(sample: Sample, device: str) -> Predict:
    model = DummyClassifier(strategy="most_frequent").fit(np.zeros((len(sample.y), 1)), sample.y)
    return lambda views: model.predict(np.zeros((next(iter(views.values())).shape[0], 1)))


def fit_svd(sample: Sample, device: str) -> None:
    for name in sample.linked:
        TruncatedSVD(N_COMPONENTS, random_state=0).fit(all_rows(sample, name))


METHODS: dict[str, tuple[str, Callable[[Sample, str], Predict | None]]] = {
    "hotview": ("hotview", fit_hotview),
    "svd-logistic": ("SVD + logistic regression", fit_logistic_regression),
    "propagation": ("label propagation", fit_propagation),
    "boosting": ("gradient boosting on the outer join", fit_boosting),
    "majority": ("majority class", fit_majority),
    "svd": (SVD, fit_svd),
}


def measure(case: str, method: str, device: str, scale: float) -> dict[str, float]:
    """Draw the data, fit, and predict the test rows, in this process."""
    import hotview.estimators.fit  # noqa: F401  (imports are measured by start_up.py)

    warnings.simplefilter("ignore")
    be_killed_first()
    sample = CASES[case](scale)
    give_memory_back()
    before = own_memory()
    fit = METHODS[method][1]
    seconds = []
    with PeakMemory() as peak:
        for _ in range(2 if (method, device) == ("hotview", "cuda") else 1):
            predict = None  # the model before, whose memory is not to be counted
            start = time.perf_counter()
            predict = fit(sample, device)
            if method == "hotview":
                wait_for(device)
            seconds.append(time.perf_counter() - start)
        peak.bytes = max(peak.bytes, own_memory())
    found: dict[str, float] = {"seconds": seconds[-1], "megabytes": (peak.bytes - before) / 1e6}
    if len(seconds) > 1:
        found["first_seconds"] = seconds[0]
        found["gpu_megabytes"] = torch.cuda.max_memory_allocated() / 1e6
    if predict is not None:
        start = time.perf_counter()
        found["accuracy"] = float((predict(sample.test) == sample.test_y).mean())
        found["predict_seconds"] = time.perf_counter() - start
    return found


def be_killed_first() -> None:
    """Where memory is short, let the system end this process before any other."""
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")


def give_memory_back() -> None:
    """Return freed memory to the system, which otherwise would not count when it is used again."""
    if sys.platform == "linux":
        getattr(ctypes.CDLL(None), "malloc_trim", lambda n: 0)(0)


def measure_alone(case: str, method: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """Measure in a process of its own; what it did not finish is said."""
    job = json.dumps([case, method, arguments.device, arguments.scale])
    command = [sys.executable, __file__, "--one", job]
    try:
        done = subprocess.run(
            command, stdout=subprocess.PIPE, text=True, timeout=arguments.limit_seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"not_finished": f"longer than {arguments.limit_seconds:,.0f} s"}
    if done.returncode == -9:
        return {"not_finished": "out of memory"}
    if done.returncode != 0:
        return {"not_finished": "failed"}
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def run(case: str, arguments: argparse.Namespace) -> dict[str, Any]:
    """What every method takes in one case, in turns."""
    turns: dict[str, list[dict[str, Any]]] = {}
    for repetition in range(arguments.repetitions):
        for method in arguments.methods:
            if method == "svd" and case != "cells":
                continue
            earlier = turns.setdefault(METHODS[method][0], [])
            if any("not_finished" in one for one in earlier):
                continue
            earlier.append(measure_alone(case, method, arguments))
            print(f"{case}, {METHODS[method][0]}, {repetition + 1}: {tell(earlier[-1])}")
            sys.stdout.flush()
    return {name: best(found) for name, found in turns.items()}


def best(turns: list[dict[str, Any]]) -> dict[str, Any]:
    """The shortest times and the largest memory; the first that did not finish, where one did."""
    for found in turns:
        if "not_finished" in found:
            return found
    together = dict(turns[0])
    for what in together:
        if what.endswith("seconds"):
            together[what] = min(found[what] for found in turns)
    together["megabytes"] = max(found["megabytes"] for found in turns)
    return together


def tell(found: dict[str, Any]) -> str:
    if "not_finished" in found:
        return str(found["not_finished"])
    words = [f"{found['seconds']:.2f} s", f"{found['megabytes']:,.0f} MB"]
    if "first_seconds" in found:
        words[0] += f" (the first fit {found['first_seconds']:.2f} s)"
    if "accuracy" in found:
        words.append(f"accuracy {found['accuracy']:.3f}")
    return ", ".join(words)


def judge(cases: dict[str, Any], device: str) -> dict[str, float]:
    """Ratios, the larger the better: what is allowed over what hotview takes.

    A fit that did not finish takes infinitely long, and all memory.
    """
    ratios = {}
    unfinished = {"seconds": math.inf, "megabytes": math.inf}
    fits = {case: unfinished | one["hotview"] for case, one in cases.items() if "hotview" in one}
    for case, fit in fits.items():
        if "seconds" in (svd := cases[case].get(SVD, {})):
            name = f"{case}: {MOST_SVDS} truncated SVDs over the fit"
            ratios[name] = MOST_SVDS * svd["seconds"] / fit["seconds"]
        if seconds := MOST_SECONDS[device].get(case):
            ratios[f"{case}: {seconds} s over the fit"] = seconds / fit["seconds"]
        if megabytes := MOST_MEGABYTES.get(case):
            name = f"{case}: {megabytes:,} MB over its memory"
            ratios[name] = megabytes / max(fit["megabytes"], 1)
        if "first_seconds" in fit:
            name = f"{case}: {MOST_WARM_UP} s over what the first fit takes more"
            ratios[name] = MOST_WARM_UP / max(fit["first_seconds"] - fit["seconds"], 0.01)
    long, longer = (fits.get(case, {}).get("seconds") for case in ("rows-100000", "rows-1000000"))
    if long and longer and math.isfinite(long):
        ratios[GROWTH] = 1 / max(math.log10(longer / long), 0.01)
    return ratios


def kept_cases(path: Path, device: str) -> dict[str, Any]:
    """Cases of the record there is, of this machine and these versions."""
    from machine import machine

    part = json.loads(path.read_text()).get(device) if path.exists() else None
    if part is None or part["machine"] != machine(*PACKAGES, device=device):
        return {}
    cases: dict[str, Any] = part["cases"]
    return cases


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--repetitions", type=int, default=1)
    parser.add_argument("--limit-seconds", type=float, default=900)
    parser.add_argument("--quick", action="store_true", help="the digits alone")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows; for tests")
    parser.add_argument("--one", help=argparse.SUPPRESS)  # what a process of its own measures
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(*json.loads(arguments.one))))
        return
    if arguments.scale != 1 and arguments.out == OUT:
        parser.error("Expected another --out for data of another scale.")
    if arguments.quick:
        arguments.cases = ["digits"]
    for case in arguments.cases:
        merged = {**kept_cases(arguments.out, arguments.device), case: run(case, arguments)}
        cases = {name: merged[name] for name in CASES if name in merged}
        ratios = judge(cases, arguments.device)
        targets = {name: 0.9 if name == GROWTH else 1.0 for name in ratios}
        write_part(
            arguments.out,
            arguments.device,
            *PACKAGES,
            ratios=ratios,
            targets=targets,
            cases=cases,
        )
    for name, ratio in ratios.items():
        print(f"{name}: {ratio:.2f}")


if __name__ == "__main__":
    main()
