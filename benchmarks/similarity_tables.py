"""Tables of the similarity of views, from the records of the benchmarks."""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from similarity_uses import interval, pool
from speed_tables import table

RESULTS = Path(__file__).parent.parent / "results" / "default"
SIMILARITY, USES = "default/view_similarity.jsonl", "default/similarity_uses.jsonl"
DATASETS = {
    "handwritten": "Handwritten",
    "caltech7": "Caltech7 (re-extracted)",
    "caltech20": "Caltech20 (re-extracted)",
    "msrc_v1": "MSRC-v1",
    "prokaryotic": "prokaryotic",
    "mnist4": "MNIST, four digits",
}
Line = dict[str, Any]


def _lines(text: str, part: str) -> list[Line]:
    return [line for line in map(json.loads, text.splitlines()) if line["part"] == part]


def _share(letters: str, letter: str) -> str:
    """Share of draws in percent."""
    return f"{100 * letters.count(letter) / len(letters):.0f}" if letters else "–"


def planted(text: str) -> str:
    """Right and wrong groups, by kind of data and number of linked rows."""
    lines = [line for line in _lines(text, "planted") if "views" in line]
    plans, rows = _lines(text, "plan"), []
    for variant in ("plain", "noise 0.4", "nonlinear", "unequal widths"):
        of_plan = [line for line in plans if line["variant"] == variant]
        for n in (20, 60, 200):
            cells = [x for x in lines if x["variant"] == variant and x["linked"] == n]
            row = [variant, str(n)]
            for key in ("labels", "no_labels"):
                letters = "".join(line[key] for line in cells)
                row += [_share(letters, "r"), _share(letters, "w")]
            for name in ("hot-pairwise", "hot-reference"):
                letters = "".join(line[name] for line in of_plan)
                row.append(_share(letters, "r") if n == 20 else "")
            rows.append(row)
    header = ["data", "linked rows", "right", "wrong", "right, no labels", "wrong, no labels"]
    return table([*header, "`hot-pairwise`, right", "`hot-reference`, right"], rows)


def controls(text: str) -> str:
    """Groups where there are none, and pairs that are called dependent."""
    rows = []
    for line in _lines(text, "planted"):
        if "control" in line:
            cells = [line["control"], str(line["linked"])]
            for key in ("labels", "no_labels"):
                groups = sum(line[key].count(letter) for letter in "rw")
                cells += [f"{groups}", str(line[f"significant_{key}"].count("y"))]
            rows.append(cells)
    order = list(dict.fromkeys(row[0] for row in rows))
    rows.sort(key=lambda row: (order.index(row[0]), int(row[1])))
    return table(
        ["views", "linked rows", "groups", "p ≤ 0.05 within classes", "groups, no labels",
         "p ≤ 0.05 in total"], rows
    )  # fmt: skip


def real(text: str) -> str:
    """Agreement of disjoint draws of linked rows."""
    rows = []
    for line in _lines(text, "real"):
        if line["dataset"] in DATASETS and line["n_draws"] > 0:
            found = Counter(str(g) for g in line["groups"] if g is not None)
            groups = f"{sum(found.values())} ({len(found)})" if len(line["pairs"]) > 3 else "–"
            ranks = [line[f"rank_{what}"] for what in ("all_rows", "draws", "prediction")]
            numbers = ["–" if x is None else f"{x:.2f}" for x in ranks]
            where = [DATASETS[line["dataset"]], str(line["linked"]), str(line["n_draws"])]
            rows.append([*where, *numbers, f"{100 * line['coverage']:.0f} %", groups])
    order = list(DATASETS.values())
    rows.sort(key=lambda row: (order.index(row[0]), int(row[1])))
    header = ["data", "linked rows", "draws", "all rows", "other draws", "prediction"]
    return table([*header, "covered", "with groups (different ones)"], rows)


def seeds(text: str) -> str:
    """Spread over ten seeds."""
    rows = []
    for line in sorted(_lines(text, "seeds"), key=lambda x: list(DATASETS).index(x["dataset"])):
        groups, plans = (len({_partition(g) for g in line[k]}) for k in ("groups", "plan_groups"))
        numbers = [line["similarity_std"], line["end_std"], line["plan_std_members"],
                   line["plan_std_seeds"], line["plan_std_seeds_mean_of_plans"]]  # fmt: skip
        similarity, end, *of_plan = (f"{x:.3f}" for x in numbers)
        name = DATASETS[line["dataset"]]
        rows.append([name, similarity, end, str(groups), *of_plan, str(plans)])
    header = ["data", "similarity", "lower ends", "different answers", "W, members", "W, seeds"]
    return table([*header, "W, mean of plans", "different groups of W"], rows)


def _partition(groups: list[int] | None) -> tuple[int, ...]:
    """Groups by the first view of each, whatever they are numbered."""
    return () if groups is None else tuple(groups.index(g) for g in groups)


def costs(text: str) -> str:
    """Time of the similarity beside that of the fit."""
    rows = [
        [f"{line['data']}, {line['linked']} linked rows", f"{100 * line['share']:.0f} %"]
        for line in _lines(text, "time")
    ]
    return table(["default fit", "share of its time"], rows)


def _cells(text: str, part: str) -> dict[tuple, dict[str, dict[int, Any]]]:
    cells: dict[tuple, dict[str, dict[int, Any]]] = {}
    for line in map(json.loads, text.splitlines()):
        if line["part"] == part:
            cell = cells.setdefault((part, line["dataset"], line["setting"]), {})
            scores = np.array([line["accuracy"], line["log_loss"]])
            cell.setdefault(line["method"], {})[line["trial"]] = scores
    return pool(cells)


def transfer(text: str) -> str:
    """Weights of sources in label transfer, where most are junk: means of four cases."""
    return _uses(text, "transfer", "current", ["sources", "weights", *_less("the current ones")])


def coupling(text: str) -> str:
    """A coupling whose weights know the linked rows: means of datasets."""
    return _uses(text, "coupling", "none", ["classifier", "coupling, weight", *_less("none")])


def _uses(text: str, part: str, control: str, header: list[str]) -> str:
    rows = []
    for (_, _, setting), methods in _cells(text, part).items():
        for method, runs in methods.items():
            accuracy, loss = np.mean(list(runs.values()), axis=0)
            against = _differences(runs, methods[control], method == control)
            rows.append([setting, method, f"{100 * accuracy:.2f}", f"{loss:.4f}", *against])
    return table(header, rows)


def _less(what: str) -> list[str]:
    less = f"less that of {what}"
    return ["accuracy", "log loss", f"accuracy {less}", f"log loss {less}"]


def _differences(runs: dict[int, Any], others: dict[int, Any], same: bool) -> list[str]:
    """Differences on the same splits, with the reach of their intervals."""
    if same:
        return ["", ""]
    trials = sorted(runs.keys() & others.keys())
    found = []
    for i, (scale, digits) in enumerate(((100, 1), (1, 3))):
        mean_, reach = interval([scale * float(runs[k][i] - others[k][i]) for k in trials])
        found.append(f"{mean_:+.{digits}f} ± {reach:.{digits}f}".replace("-", "−"))
    return found


@cache
def _read() -> str:
    return (RESULTS / "view_similarity.jsonl").read_text()


def number(what: str, *rest: str) -> str:
    """A number of a sentence: shares of planted draws in percent, or a mean rank correlation."""
    lines = [line for line in _lines(_read(), "planted") if "views" in line]
    if what == "wrong":
        letters = "".join(line[rest[0]] for line in lines)
        return f"{100 * letters.count('w') / len(letters):.1f}"
    if what in ("right", "apart"):
        key, letter = (rest[0], "r") if what == "right" else (f"apart_{rest[0]}", "y")
        least, most = (60, 200) if len(rest) == 1 else (int(rest[1]),) * 2
        letters = "".join(line[key] for line in lines if least <= line["linked"] <= most)
        return f"{100 * letters.count(letter) / len(letters):.0f}"
    if what == "wrong-of-told":
        letters = "".join(line[rest[0]] for line in lines)
        return f"{100 * letters.count('w') / (letters.count('w') + letters.count('r')):.1f}"
    if what == "called":  # dependent, where views are junk or independent
        letters = "".join(
            line["significant_labels"] + line["significant_no_labels"]
            for line in _lines(_read(), "planted")
            if line.get("control") in ("junk", "independent")
        )
        return f"{100 * letters.count('y') / len(letters):.1f}"
    n = int(rest[0])
    return f"{_pooled(n):.2f}"


def _pooled(n: int) -> float:
    """Mean over draws of the rank correlation with prediction, over pairs of all datasets."""
    lines = [x for x in _lines(_read(), "real") if x["linked"] == n and x["n_draws"] > 0]
    lines = [line for line in lines if len(line["pairs"]) > 2]
    predicted = np.concatenate([line["prediction"] for line in lines])
    found = []
    for i in range(max(line["n_draws"] for line in lines)):
        similarity = [line["similarity"][i % line["n_draws"]] for line in lines]
        found.append(float(spearmanr(np.concatenate(similarity), predicted).statistic))
    return mean(found)


TABLES = {
    "planted": (SIMILARITY, planted),
    "planted-controls": (SIMILARITY, controls),
    "similarity-real": (SIMILARITY, real),
    "similarity-seeds": (SIMILARITY, seeds),
    "similarity-time": (SIMILARITY, costs),
    "similarity-transfer": (USES, transfer),
    "similarity-coupling": (USES, coupling),
}
