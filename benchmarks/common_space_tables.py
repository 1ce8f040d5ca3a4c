"""Tables of the common space, from the record of `common_space.py`."""

from __future__ import annotations

import json
import math
from statistics import mean, stdev
from typing import Any

from common_space import DATASETS, LINKS, METHODS, SCOT
from scipy.special import stdtrit
from speed_tables import table

RIVALS = ("CCA", "DGCCA", "ridge", "fused GW")
OURS = "hotview"
RATIO = 1 / 3  # test rows to training rows, of Nadeau and Bengio (2003)

Lines = list[dict[str, Any]]


def read(text: str) -> Lines:
    """Lines of the record without the methods that failed."""
    lines = [json.loads(line) for line in text.splitlines()]
    return [line for line in lines if "error" not in line]


def values(lines: Lines, method: str, links: int, dataset: str, what: str) -> list[float]:
    """One number per split."""
    where = {"method": method, "links": links, "dataset": dataset}
    found = [line for line in lines if all(line[key] == x for key, x in where.items())]
    return [line[what] for line in sorted(found, key=lambda line: int(line["split"]))]


def over_datasets(lines: Lines, method: str, links: int, what: str) -> float | None:
    """Mean over datasets of means over splits."""
    means = [mean(x) for name in DATASETS if (x := values(lines, method, links, name, what))]
    return mean(means) if means else None


def difference(lines: Lines, links: int, a: str, b: str, what: str) -> tuple[float, float, float]:
    """Mean difference over datasets and the ends of its 95 % interval.

    Splits of a dataset share rows (Nadeau and Bengio); new ones of the simulation do not, which is
    not made use of. Datasets are fixed.
    """
    means, variances = [], []
    for name in DATASETS:
        pairs = zip(
            values(lines, a, links, name, what), values(lines, b, links, name, what), strict=True
        )
        gaps = [x - y for x, y in pairs]
        if gaps:
            means.append(mean(gaps))
            variances.append((1 / len(gaps) + RATIO) * stdev(gaps) ** 2)
    half = float(stdtrit(4, 0.975)) * math.sqrt(sum(variances)) / len(variances)
    return mean(means), mean(means) - half, mean(means) + half


def by_links(text: str) -> str:
    """FOSCTTM and accuracy of all methods, means over datasets, by the number of links."""
    lines = read(text)
    rows = []
    for method in METHODS:
        row = [method]
        for links in LINKS:
            found = [over_datasets(lines, method, links, what) for what in ("foscttm", "accuracy")]
            row.append("–" if None in found else f"{found[0]:.3f} / {100 * (found[1] or 0):.0f}")
        rows.append(row)
    return table(["FOSCTTM / accuracy in %", *(f"{n} links" for n in LINKS)], rows)


def by_dataset(text: str) -> str:
    """FOSCTTM and accuracy with 20 and 50 links by dataset, beside the best rival of each."""
    lines = read(text)
    rows = []
    for links in (20, 50):
        for name in DATASETS:
            row = [name, str(links)]
            for what, best in (("foscttm", min), ("accuracy", max)):
                ours = mean(values(lines, OURS, links, name, what))
                theirs = {m: mean(values(lines, m, links, name, what)) for m in RIVALS}
                rival = best(theirs, key=lambda m: theirs[m])
                scale, digits = (1, 3) if what == "foscttm" else (100, 1)
                row += [f"{scale * ours:.{digits}f}", f"{scale * theirs[rival]:.{digits}f} {rival}"]
            rows.append(row)
    header = ["dataset", "links", "FOSCTTM", "best rival", "accuracy, %", "best rival"]
    return table(header, rows)


def transport(text: str) -> str:
    """What transport adds to the aligned term, and structure and mixing."""
    lines = read(text)
    rows = []
    for links in LINKS[1:]:
        row = [str(links)]
        for method in ("hotview", "hotview, pairwise"):
            for what, scale, digits in (("foscttm", 1, 3), ("accuracy", 100, 1)):
                found = difference(lines, links, method, "hotview, no transport", what)
                m, low, high = (f"{scale * x:+.{digits}f}" for x in found)
                row.append(f"{m} [{low}, {high}]".replace("-", "−"))
        rows.append(row)
    header = ["links", "`hot-reference`: FOSCTTM", "accuracy, points"]
    return table([*header, "`sw-pairwise`: FOSCTTM", "accuracy, points"], rows)


def structure(text: str) -> str:
    """Mixing of the views and neighbors kept within a view, with 50 links."""
    lines = read(text)
    rows = []
    for method in METHODS:
        found = [over_datasets(lines, method, 50, what) for what in ("mixing", "kept")]
        rows.append([method, *(f"{x:.2f}" for x in found if x is not None)])
    return table(["50 links", "mixing of views (LISI, 1 to 2)", "neighbors kept"], rows)


def published(text: str) -> str:
    """FOSCTTM without links and with some, beside what the notebooks of SCOT print."""
    lines = read(text)
    rows = []
    for name, foscttm in SCOT.items():
        row = [name, f"{foscttm:.3f}"]
        for links in (0, 20, 50):
            row.append(f"{mean(values(lines, OURS, links, name, 'foscttm')):.3f}")
        rows.append(row)
    header = ["FOSCTTM", "SCOT, its notebooks, all rows, no link"]
    return table([*header, "hotview, no link", "20 links", "50 links"], rows)


RECORD = "default/common_space.jsonl"
TABLES = {
    "common-space": (RECORD, by_links),
    "common-space-datasets": (RECORD, by_dataset),
    "common-space-transport": (RECORD, transport),
    "common-space-structure": (RECORD, structure),
    "common-space-published": (RECORD, published),
}
