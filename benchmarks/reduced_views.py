"""What the preprocessing of wide views, counts and components does to the accuracy of the default.

    python benchmarks/reduced_views.py --data PATH [--jobs 2]

PATH is a folder with webkb.npz, cora.npz and the other files of `FILES`. Splits are those of the
paper's protocol with 5 % labels, seeds 0 to 9; of the 1,200 simulated cells for training, 200 are
linked and labeled. The cells have eight types of unequal sizes, some close to each other;
*components* are 30 principal components of log-normalized counts of genes, and 30 of the TF-IDF of
peaks.

What chose the settings: the files in `CHOSEN_ON`, and simulated cells of other seeds. WebKB and
Cora were looked at once before their scale was chosen, and once after it. One line of
``results/default/reduced_views.jsonl`` is one method on one split.
"""

from __future__ import annotations

import argparse
import json
import os
import warnings
from pathlib import Path
from typing import Any

for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(name, "1")  # trials run side by side

import numpy as np
from joblib import Parallel, delayed
from sklearn.decomposition import PCA, TruncatedSVD

from hotview import MultiViewClassifier
from hotview.datasets import read_views, unalign
from hotview.evaluation import ConcatenatedLogisticRegression, PerViewLabelPropagation

OUT = Path(__file__).parent.parent / "results" / "default" / "reduced_views.jsonl"
CHOSEN_ON = ("prokaryotic", "mnist4", "wikipedia", "caltech101_reextracted")
FILES = ("webkb", "cora", "snareseq", "msrc_v1", "scgem", *CHOSEN_ON)
SIMULATED = ("cells, counts", "cells, components")
TRIALS, N_CELLS, N_TYPES = 10, 2000, 8
METHODS: dict[str, Any] = {
    "as before: every column standardized": {"preprocessing": "standardize"},
    "reduced, counts and components not recognized": {"preprocessing": "pca"},
    "default": {},
    "logistic regression": ConcatenatedLogisticRegression,
    "label propagation per view": PerViewLabelPropagation,
}


def simulate_cells(seed: int) -> dict[str, Any]:
    """Counts of genes and peaks of the same cells, and their types."""
    random = np.random.default_rng(seed)
    shares = np.maximum(random.dirichlet(np.full(N_TYPES, 2.0)), 0.03)
    y = random.choice(N_TYPES, N_CELLS, p=shares / shares.sum())
    depth = np.exp(0.5 * random.normal(size=(N_CELLS, 1)))
    views = {}
    for name, n_columns, total, size in (("rna", 2000, 2000, 1.0), ("atac", 8000, 1200, 0.9)):
        logs = random.normal(0, 1.2, n_columns) + _changes(4, n_columns, 0.05, size, random)[y % 4]
        logs += _changes(N_TYPES, n_columns, 0.025, size, random)[y]
        rates = np.exp(logs)
        rates *= total * depth / rates.sum(axis=1, keepdims=True)
        if name == "rna":
            rates *= random.gamma(2.0, 0.5, rates.shape)
        views[name] = random.poisson(rates).astype(np.float32)
    return {"views": views, "y": y}


def _changes(n: int, n_columns: int, share: float, size: float, random: Any) -> np.ndarray:
    """Changes of the logarithms of a share of the rates."""
    return random.normal(0, size, (n, n_columns)) * (random.random((n, n_columns)) < share)


def components_of(views: dict[str, Any]) -> dict[str, Any]:
    """The usual 30 components of counts of genes and of peaks."""
    shares = {name: X / np.maximum(X.sum(axis=1, keepdims=True), 1) for name, X in views.items()}
    rna = PCA(30, random_state=0).fit_transform(np.log1p(1e4 * shares["rna"]))
    rarity = len(rna) / np.maximum((views["atac"] > 0).sum(axis=0), 1)
    tfidf = np.log1p(1e4 * shares["atac"] * rarity)
    return {"rna": rna, "atac": TruncatedSVD(30, random_state=0).fit_transform(tfidf)}


def load(name: str, trial: int, data: Path) -> tuple[dict[str, Any], Any, float]:
    """Views, classes and the share of labels; simulated cells are others in every trial."""
    if name in SIMULATED:
        cells = simulate_cells(1000 + trial)
        views = cells["views"] if name == "cells, counts" else components_of(cells["views"])
        return views, cells["y"], 1 / 6
    with np.load(data / f"{name}.npz", allow_pickle=False) as arrays:
        y = arrays["y"]
    return read_views(data / f"{name}.npz"), y, 0.05


def run(name: str, trial: int, method: str, data: Path) -> dict[str, Any]:
    """One method on one split: accuracy with all views, and the mean of each view alone."""
    warnings.simplefilter("ignore")
    views, y, share = load(name, trial, data)
    split = unalign(views, y, labeled=share, random_state=trial)
    options = METHODS[method]
    model = options() if callable(options) else None
    if model is None:
        model = MultiViewClassifier(random_state=trial, device="cpu", verbose=False, **options)
    model.fit(split.linked, split.target, unaligned=split.unaligned)
    line = {"dataset": name, "trial": trial, "method": method}
    line["accuracy"] = round(float(_accuracy(model, split.test, split.test_target)), 6)
    if not callable(options):
        alone = [_accuracy(model, {v: X}, split.test_target) for v, X in split.test.items()]
        line["one_view"] = round(float(np.mean(alone)), 6)
    return line


def _accuracy(model: Any, views: dict[str, Any], target: Any) -> float:
    return np.mean(model.classes_[model.predict_proba(views).argmax(axis=1)] == target)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--trials", type=int, default=TRIALS)
    arguments = parser.parse_args()
    lines = [json.loads(line) for line in OUT.read_text().splitlines()] if OUT.exists() else []
    done = {(line["dataset"], line["trial"], line["method"]) for line in lines}
    names = [*FILES, *SIMULATED]
    todo = [(n, t, m) for t in range(arguments.trials) for n in names for m in METHODS]
    todo = [job for job in todo if job not in done]
    print(f"{len(todo)} to run, on {arguments.jobs} cores")
    found = Parallel(n_jobs=arguments.jobs, return_as="generator_unordered")(
        delayed(run)(*job, arguments.data) for job in todo
    )
    for line in found:
        lines.append(line)
        print(json.dumps(line), flush=True)
        lines.sort(key=lambda x: (names.index(x["dataset"]), x["trial"], x["method"]))
        OUT.write_text("".join(json.dumps(x) + "\n" for x in lines))


if __name__ == "__main__":
    main()
