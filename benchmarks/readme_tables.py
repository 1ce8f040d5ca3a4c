"""Put the numbers of the result files into the tables of the README and the docs.

python benchmarks/readme_tables.py
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from statistics import mean, pstdev
from typing import Any

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
PAGES = (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
#: rows of the table of accuracies
ROWS = {
    "logistic regression": "logistic regression on the linked rows",
    "PCA + logistic regression": "PCA in each view, then logistic regression",
    "label propagation": "label propagation in each view",
    "hotview, default": "`MultiViewClassifier()`",
    "hotview, no coupling": '`MultiViewClassifier(coupling="none")`',
    "hotview, no coupling, no regularizer": 'the same, also `view_regularizer="none"`',
    "paper settings, no coupling": "the paper's settings, no coupling",
    "LSCCA": "the paper's LSCCA (aligned)",
    "DGCCA": "the paper's DGCCA (aligned)",
    "AECCA": "the paper's AECCA (aligned)",
    "SW (8)": "the paper's SW (8)",
    "SW (9)": "the paper's SW (9)",
    "HOT (10)": "the paper's HOT (10)",
    "HOT (11)": "the paper's HOT (11)",
    "SW (8) + AE": "the paper's SW (8) + autoencoder",
    "SW (9) + AE": "the paper's SW (9) + autoencoder",
    "HOT (10) + AE": "the paper's HOT (10) + autoencoder",
    "HOT (11) + AE": "the paper's HOT (11) + autoencoder",
}
WHO = {
    "ours": "hotview",
    "pot": "POT, `sinkhorn`",
    "pot_log": "POT, `sinkhorn_log`",
    "geomloss": "geomloss",
    "ott": "OTT-JAX, compiled and warm",
}


def sliced(record: dict[str, Any]) -> str:
    lines = ["| clouds, points, directions | forward | forward + backward |", "|---|--:|--:|"]
    lines += [
        f"| {r['name']} | {r['ratio_forward']:.0f}× | **{r['ratio_both']:.0f}×** |"
        for r in record["sliced_cost"]
    ]
    return "\n".join(lines)


def sinkhorn(record: dict[str, Any]) -> str:
    """Their time over ours, in float64."""
    (r,) = (r for r in record["sinkhorn"] if r["name"].endswith("float64"))
    lines = ["| their time over ours, float64 | forward | forward + backward |", "|---|--:|--:|"]
    for who, name in WHO.items():
        ratios = [r[f"{who}_{pass_}_us"] / r[f"ours_{pass_}_us"] for pass_ in ("forward", "both")]
        lines.append(f"| {name} | " + " | ".join(f"{x:.2g}×" for x in ratios) + " |")
    return "\n".join(lines)


def handwritten(record: dict[str, Any]) -> str:
    """Mean and standard deviation of the test accuracy over the splits, in percent."""
    lines = ["| method | accuracy, % | the paper reports |", "|---|--:|--:|"]
    for name, title in ROWS.items():
        scores = [100 * score for score in record["accuracy"][name]]
        ours = f"{mean(scores):.1f} ± {pstdev(scores):.1f}"
        figures = record["paper"].get(name)
        reported = "{:.1f} ± {:.1f}".format(*figures) if figures else ""
        lines.append(f"| {title} | {ours} | {reported} |")
    return "\n".join(lines)


def planted(record: dict[str, Any]) -> str:
    """In how many trials the groups were found, and the null rejected."""
    n = record["trials"]
    lines = [
        "| views | found, `hot-pairwise` | found, `hot-reference` | p ≤ 0.05 |",
        "|---|--:|--:|--:|",
    ]
    for scene, by_coupling in record["results"].items():
        pairwise, reference = by_coupling["hot-pairwise"], by_coupling["hot-reference"]
        grouped = "groups" in scene
        found = [
            f"{sum(t['rand_index'] == 1 for t in trials)}/{n}" if grouped else "–"
            for trials in (pairwise, reference)
        ]
        small = sum(t["p_value"] <= 0.05 for t in (*pairwise, *reference))
        lines.append(f"| {scene} | {found[0]} | {found[1]} | {small}/{2 * n} |")
    return "\n".join(lines)


#: table → file, and what makes it
TABLES = {
    "sliced": ("bench/ot_core.json", sliced),
    "sinkhorn": ("bench/ot_core.json", sinkhorn),
    "handwritten": ("handwritten.json", handwritten),
    "planted": ("planted_groups.json", planted),
    "planted-fresh": ("planted_groups_fresh.json", planted),
}


def fill(text: str) -> str:
    """Put every table that a text has a place for into it."""
    for name, (path, make) in TABLES.items():
        start, end = f"<!-- table:{name} -->", f"<!-- /table:{name} -->"
        found = re.compile(f"{re.escape(start)}.*?{re.escape(end)}", re.DOTALL)
        table = make(json.loads((RESULTS / path).read_text()))
        text = found.sub(f"{start}\n{table}\n{end}".replace("\\", r"\\"), text)
    return text


if __name__ == "__main__":
    for page in PAGES:
        page.write_text(fill(page.read_text()))
