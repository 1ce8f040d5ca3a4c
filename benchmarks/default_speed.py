"""What the default costs: its time to fit against that of a plain network without coupling.

    python benchmarks/default_speed.py [--repetitions 7]

Handwritten, split as in the paper's protocol, on the CPU with the default number of threads.
Contestants take turns, after a turn each that does not count. Every repetition gives a ratio to the
plain network of the same repetition, and the median of these counts. The result is
``results/bench/default_speed.json``.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from pathlib import Path
from statistics import median
from typing import Any

from machine import machine

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from paper.json_files import write_json
from paper.models import PLAIN

OUT = Path(__file__).parent.parent / "results" / "bench" / "default_speed.json"
CONTESTANTS: dict[str, dict[str, Any]] = {
    "plain network": {"coupling": "none", "view_regularizer": "none", **PLAIN},
    "default": {},
    "without coupling": {"coupling": "none"},
    "one replica": {"n_estimators": 1},
}


def measure(split: Any, options: dict[str, Any]) -> float:
    model = MultiViewClassifier(random_state=0, device="cpu", verbose=False, **options)
    start = time.perf_counter()
    model.fit(split.linked, split.target, unaligned=split.unaligned)
    return time.perf_counter() - start


def contest(split: Any, repetitions: int) -> dict[str, list[float]]:
    times: dict[str, list[float]] = {name: [] for name in CONTESTANTS}
    for repetition in range(repetitions + 1):
        order = list(CONTESTANTS)
        if repetition % 2:  # whoever else uses the machine should not always meet the same one
            order.reverse()
        for name in order:
            times[name].append(measure(split, CONTESTANTS[name]))
            print(f"repetition {repetition}, {name}: {times[name][-1]:.2f} s", flush=True)
    return {name: all_times[1:] for name, all_times in times.items()}


def summarize(times: dict[str, list[float]]) -> dict[str, Any]:
    found = {}
    for name, seconds in times.items():
        ratios = [s / p for s, p in zip(seconds, times["plain network"], strict=True)]
        found[name] = {
            "seconds": [round(s, 3) for s in seconds],
            "median_seconds": round(median(seconds), 3),
            "ratios": [round(r, 3) for r in ratios],
            "median_ratio": round(median(ratios), 3),
        }
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=7)
    parser.add_argument("--out", type=Path, default=OUT)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    digits = load_handwritten()
    split = unalign(digits.views, digits.target, random_state=0)
    load = [os.getloadavg()[0]]
    found = summarize(contest(split, arguments.repetitions))
    load.append(os.getloadavg()[0])
    for name, line in found.items():
        print(f"{name}: {line['median_ratio']:.2f} times the plain network")
    record = {
        "machine": machine("scipy", "scikit-learn"),
        "load_before_and_after": [round(x, 2) for x in load],
        "what": "seconds to fit Handwritten; ratios to the plain network of the same repetition",
        "repetitions": arguments.repetitions,
        "options": CONTESTANTS,
        "contestants": found,
    }
    write_json(arguments.out, record)


if __name__ == "__main__":
    main()
