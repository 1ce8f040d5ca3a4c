"""False alarms of the drift check on held-out rows, and errors of unit that it names.

    python benchmarks/drift.py --data PATH [--trials 5] [--out results/default/drift.json]

Rows of every dataset are split at random, four fifths to fit ranges; no model is trained. Held-out
rows are compared in batches of 1, 20 and 200: `notes` is the share of batches with any note,
`unusual` the share of rows with an unusual value. Then one random column at a time, of those with
ten different values or more in the batch, is multiplied by 100, 1/100, 1000 or 10: `named` is the
share of batches in which a note names this column, `unit` in which it names the factor.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from situation_data import DATASETS, load

from hotview._files import atomic_write
from hotview._validation import ViewTable
from hotview.preprocessing.column_scaler import WIDE, looks_like_counts
from hotview.preprocessing.drift import ColumnRanges, ViewDrift, compare_view, fit_ranges

OUT = Path(__file__).parent.parent / "results" / "default" / "drift.json"
BATCHES = (1, 20, 200)
FACTORS = (100.0, 0.01, 1000.0, 10.0)
N_BATCHES = 20  # of every size, view and trial
N_COLUMNS = 10


def compare(X: Any, ranges: ColumnRanges, is_counts: bool) -> ViewDrift:
    return compare_view(ViewTable(X), ranges, is_counts=is_counts, names=None)


def measure(dataset: str, data: Path | None, trials: int) -> dict[str, float]:
    """All measurements of one dataset."""
    views, _ = load(dataset, data)
    found: dict[str, list[float]] = defaultdict(list)
    for trial in range(trials):
        random = np.random.default_rng(trial)
        n = len(next(iter(views.values())))
        order = random.permutation(n)
        train, test = order[n // 5 :], order[: n // 5]
        for X in views.values():
            is_counts = X.shape[1] > WIDE and looks_like_counts(X[train])
            ranges = fit_ranges(X[train], is_counts=is_counts)
            for size in BATCHES:
                for _ in range(N_BATCHES):
                    rows = random.permutation(test)[:size]
                    alarms(found, size, X[rows], ranges, is_counts)
            errors(found, X[test[:200]], ranges, is_counts, random)
    return {key: round(float(np.mean(values)), 4) for key, values in sorted(found.items())}


def alarms(
    found: dict[str, list[float]], size: int, X: Any, ranges: ColumnRanges, is_counts: bool
) -> None:
    drift = compare(X, ranges, is_counts)
    found[f"notes of {size} rows"].append(len(_texts(drift)) > 0)
    found["unusual"].append(float((drift.n_unusual > 0).mean()))


def errors(
    found: dict[str, list[float]], X: Any, ranges: ColumnRanges, is_counts: bool, random: Any
) -> None:
    """One column in another unit."""
    many = [j for j in range(X.shape[1]) if len(np.unique(X[:, j])) >= 10]
    for j in random.permutation(many)[:N_COLUMNS]:
        for factor in FACTORS:
            for size in BATCHES:
                wrong = X[:size].copy()
                wrong[:, j] *= factor
                columns = [
                    c for c in compare(wrong, ranges, is_counts).columns if c.column == str(j + 1)
                ]
                key = f"× {factor:g}, {size} rows"
                found[f"named, {key}"].append(len(columns) > 0)
                is_unit = [c.kind == "unit" and np.isclose(c.factor, factor) for c in columns]
                found[f"unit, {key}"].append(any(is_unit))


def _texts(drift: ViewDrift) -> list[str]:
    from hotview.preprocessing.drift import DriftReport

    return DriftReport({"view": drift}).summary()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", type=Path)
    parser.add_argument("--trials", type=int, default=5)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    datasets = given.datasets if given.data else ["handwritten"]
    found = {name: measure(name, given.data, given.trials) for name in datasets}
    with atomic_write(given.out) as draft:
        draft.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
    for name, values in found.items():
        shown = {k: x for k, x in values.items() if "rows" not in k or "notes" in k}
        print(name, shown)
        print("   ", {k: x for k, x in values.items() if k not in shown})


if __name__ == "__main__":
    main()
