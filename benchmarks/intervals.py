"""How often 95 % intervals of `assess` hold the value of the population, with few and rare rows.

    python benchmarks/intervals.py [--samples 300] [--out results/default/intervals.json]

Samples are drawn from populations whose classes have normal scores, at distance 1.7, and whose
probabilities are right. The population is a sample of 300,000 rows. Intervals that are missing,
because a class is, do not count.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from speed_tables import table

from hotview._files import atomic_write
from hotview.evaluation import assess

OUT = Path(__file__).parent.parent / "results" / "default" / "intervals.json"
#: number of classes, share of the last one, numbers of rows
POPULATIONS = ((2, 0.5, (5, 20, 100)), (2, 0.03, (20, 100, 500)), (5, 0.2, (5, 20, 100)))
DISTANCE = 1.7
NAMES = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "macro-F1",
    "log_loss": "log loss",
    "calibration_error": "calibration error",
    "class_calibration_error": "the same of a class",
    "excess": "mean probability minus prevalence",
    "auc": "AUC",
    "average_precision": "average precision",
    "cost": "cost",
}


def draw(random: Any, n: int, n_classes: int, share: float) -> tuple[Any, NDArray[np.float64]]:
    """Classes, and their probabilities given scores."""
    prior = np.append(np.full(n_classes - 1, (1 - share) / (n_classes - 1)), share)
    y = random.choice(n_classes, size=n, p=prior)
    scores = random.normal(size=(n, n_classes))
    scores[np.arange(n), y] += DISTANCE
    P = prior * np.exp(DISTANCE * scores)
    return y, P / P.sum(axis=1, keepdims=True)


def measure(y: Any, P: NDArray[np.float64], share: float) -> dict[str, Any]:
    """Metrics with their intervals."""
    n_classes = P.shape[1]
    prior = [1 - share, share] if n_classes == 2 else [1] * n_classes
    found = assess(y, P, range(n_classes), prior=prior, cost=5 if n_classes == 2 else None)
    last, of_two = found.by_class[-1], found.binary
    own = {"class_calibration_error": last.calibration_error, "excess": last.excess}
    if of_two is not None and of_two.chosen is not None:
        own |= {"auc": of_two.auc, "average_precision": of_two.average_precision}
        own["cost"] = of_two.chosen.cost
    return {name: own[name] if name in own else getattr(found, name, None) for name in NAMES}


def cover(n_classes: int, share: float, n: int, n_samples: int) -> dict[str, float | None]:
    """Share of intervals that hold the value of the population, by metric."""
    population = draw(np.random.default_rng(2**32), 300_000, n_classes, share)
    truth = measure(*population, share)
    hits: dict[str, list[bool]] = {name: [] for name in NAMES}
    for sample in range(n_samples):
        y, P = draw(np.random.default_rng(sample), n, n_classes, share)
        for name, x in measure(y, P, share).items():
            if x is not None and not np.isnan(x.low):
                hits[name].append(x.low - 1e-9 <= truth[name].value <= x.high + 1e-9)
    return {name: round(float(np.mean(x)), 3) if x else None for name, x in hits.items()}


def intervals(record: list[dict[str, Any]]) -> str:
    """Coverage in per cent, by metric."""
    header = [f"{r['classes']} classes, {100 * r['share']:g} %, {r['rows']} rows" for r in record]
    rows = []
    for name, title in NAMES.items():
        shares = [r["coverage"][name] for r in record]
        rows.append([title, *("–" if x is None else f"{100 * x:.0f}" for x in shares)])
    return table(["population and sample", *header], rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--out", type=Path, default=OUT)
    given = parser.parse_args()
    record = [
        {"classes": k, "share": share, "rows": n, "coverage": cover(k, share, n, given.samples)}
        for k, share, sizes in POPULATIONS
        for n in sizes
    ]
    with atomic_write(given.out) as draft:
        draft.write_text(json.dumps(record, indent=1) + "\n")
    print(intervals(record))


if __name__ == "__main__":
    main()
