"""Tables of intervals, prediction sets and the drift check, from records of their benchmarks."""

from __future__ import annotations

import json
from statistics import mean
from typing import Any

from conformal import ALPHAS, kind_of
from intervals import intervals
from speed_tables import table

#: kinds of test rows
KINDS = ("all views", "partial rows", "one view")


def coverage(text: str) -> str:
    """Coverage and size of sets by dataset: means over cells and splits."""
    lines = [json.loads(line) for line in text.splitlines()]
    rows = []
    for dataset in dict.fromkeys(line["dataset"] for line in lines):
        row = [dataset, str(max(x["n_classes"] for x in lines if x["dataset"] == dataset))]
        for kind in KINDS:
            cells = [x for x in lines if x["dataset"] == dataset and kind_of(x) == kind]
            for alpha in ALPHAS if kind == "all views" else ALPHAS[:1]:
                held = 100 * mean(x[f"coverage_{alpha}"] for x in cells)
                row.append(f"{held:.0f} ({mean(x[f'size_{alpha}'] for x in cells):.1f})")
        rows.append(row)
    header = ["dataset", "classes", "all views, 90 %", "all views, 80 %"]
    return table([*header, "some views, 90 %", "one view, 90 %"], rows)


def drift(record: dict[str, dict[str, Any]]) -> str:
    """False alarms, and columns in another unit that are named, by dataset."""
    rows = []
    for dataset, found in record.items():
        alarms = [found[f"notes of {n} rows"] for n in (1, 20, 200)]
        named = [found.get(f"named, × 100, {n} rows") for n in (1, 20, 200)]
        shares = [*alarms, found["unusual"], *named]
        rows.append([dataset, *("–" if x is None else f"{100 * x:.0f}" for x in shares)])
    header = ["dataset", "false notes: 1 row", "20 rows", "200 rows", "unusual rows"]
    return table([*header, "× 100 named: 1 row", "20 rows", "200 rows"], rows)


TABLES = {
    "coverage": ("default/conformal.jsonl", coverage),
    "intervals": ("default/intervals.json", intervals),
    "drift": ("default/drift.json", drift),
}
