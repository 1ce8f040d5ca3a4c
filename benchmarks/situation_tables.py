"""Tables of the eight situations, from the records of the benchmarks.

The default is scored with prior weights that were chosen on the other datasets: for every dataset
the candidate of ``situation_weights.jsonl`` with the lowest log loss on datasets that share no row
with it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import mean
from typing import Any

from speed_tables import table

from paper.statistics import half_width

RESULTS = Path(__file__).parent.parent / "results" / "default"
SITUATIONS = "default/situations.jsonl"
#: titles of situations; those of two kinds are split
TITLES = {
    "A": "5 % linked labels, all views at hand",
    "B": "the same models, one view at hand",
    "C": "labels in one view, 20 or 40 linked rows without; another view at hand",
    "D": "5 % labels in every view, nobody linked; one view at hand",
    "E": "rows with some of the views, 5 or 20 % labels",
    "F, 0.45": "each class 0.45 of the one before, 10 % linked labels",
    "F, 95 to 5": "two classes, 95 to 5, 20 % linked labels",
    "G": "20 or 50 % linked labels, all views at hand",
    "H, other table": "two tables with different class mixes, labels in the other one",
    "H, both tables": "the same, labels in both",
}
SIMPLE = (
    "majority",
    "logistic regression",
    "PCA + logistic regression",
    "label propagation",
    "random forest",
    "gradient boosting",
)
TRANSFER = ("ridge over links", "CCA over links", "fused Gromov-Wasserstein")
UNEQUAL = {
    "default": "default",
    "balanced": '`class_weight="balanced"`',
    "logistic regression": "logistic regression",
    "logistic regression, balanced": 'the same, `class_weight="balanced"`',
    "majority": "majority class",
}
MARGIN = 0.01  # a difference that counts
LEVEL = 0.90  # of the interval that is to lie below −1

Key = tuple[str, str, str, str]
Values = dict[int, float]


@dataclass(frozen=True)
class Cell:
    """One cell of a dataset and setting: scores of all methods by trial.

    Parameters
    ----------
    accuracy, log_loss : dict of str to dict of int to float
        Scores by method and trial.
    """

    accuracy: dict[str, Values]
    log_loss: dict[str, Values]

    def add(self, method: str, trial: int, accuracy: float, log_loss: float) -> None:
        """Enter the scores of one trial."""
        self.accuracy.setdefault(method, {})[trial] = accuracy
        self.log_loss.setdefault(method, {})[trial] = log_loss

    def best(self, scores: dict[str, Values], sign: int = 1) -> str:
        """The simple tool with the highest mean score, or with the lowest for a sign of −1."""
        tools = [tool for tool in SIMPLE if tool in scores]
        return max(tools, key=lambda tool: sign * mean(scores[tool].values()))

    def over_best(self, method: str) -> list[float]:
        """Differences in accuracy to the best simple tool, by trial."""
        return _differences(self.accuracy[method], self.accuracy[self.best(self.accuracy)])

    def over_majority(self, method: str) -> float:
        """Mean difference in accuracy to the majority class."""
        return mean(_differences(self.accuracy[method], self.accuracy["majority"]))

    def log_loss_over_best(self, method: str) -> float:
        """Mean difference of the log loss to that of the tool with the lowest."""
        best = self.best(self.log_loss, -1)
        return mean(_differences(self.log_loss[method], self.log_loss[best]))


def _differences(ours: Values, others: Values) -> list[float]:
    return [ours[trial] - others[trial] for trial in sorted(ours.keys() & others.keys())]


def _key(line: dict[str, Any]) -> Key:
    """Situation, dataset, setting and cell; models of A with one view at hand are B."""
    situation = line["situation"]
    if situation == "A" and line["cell"] != "all views":
        situation = "B"
    elif situation in "FH":
        situation = f"{situation}, {line['setting']}"
    return situation, line["dataset"], line["setting"], line["cell"]


@cache
def _cells(text: str) -> dict[Key, Cell]:
    """Cells that the default was fitted to; it is also there with chosen prior weights."""
    cells: dict[Key, Cell] = {}
    for line in map(json.loads, text.splitlines()):
        key = _key(line)
        of_key = _candidates().get(key)
        if of_key is None or line["trial"] not in of_key.accuracy["default"]:
            continue  # fit refused the tables
        chosen = _choose(key[1])
        own = {"chosen": of_key.accuracy[chosen]}, {"chosen": of_key.log_loss[chosen]}
        cell = cells.setdefault(key, Cell(*own))
        cell.add(line["method"], line["trial"], line["accuracy"], line["log_loss"])
    return cells


@cache
def _candidates() -> dict[Key, Cell]:
    """The cells again, with prior weights in the place of methods."""
    cells: dict[Key, Cell] = {}
    for line in map(json.loads, (RESULTS / "situation_weights.jsonl").read_text().splitlines()):
        cell = cells.setdefault(_key(line), Cell({}, {}))
        for name, accuracy in line["accuracy"].items():
            cell.add(name, line["trial"], accuracy, line["log_loss"][name])
    return cells


def _family(dataset: str) -> str:
    """Datasets that share rows, as caltech7 and caltech20, or the way they were made."""
    found = re.match("[a-z_]+", dataset)
    assert found is not None
    return found[0]


@cache
def _choose(dataset: str) -> str:
    """The prior weights with the lowest log loss on all other datasets."""
    others = {
        key: cell for key, cell in _candidates().items() if _family(key[1]) != _family(dataset)
    }
    names = next(iter(others.values())).log_loss
    return min(names, key=lambda name: _overall(others, "log_loss", name))


def _overall(cells: dict[Key, Cell], what: str, method: str) -> float:
    """Mean over situations of means over their cells."""
    by_situation: dict[str, list[float]] = {}
    for key, cell in cells.items():
        values = getattr(cell, what)[method].values()
        by_situation.setdefault(key[0][0], []).append(mean(values))
    return mean(map(mean, by_situation.values()))


def _of(cells: dict[Key, Cell], situation: str) -> dict[Key, Cell]:
    return {key: cell for key, cell in cells.items() if key[0] == situation}


def _upper(values: list[float]) -> float:
    """Upper end of the interval of a mean over splits that overlap."""
    return mean(values) + half_width(values, level=LEVEL)


def _points(x: float) -> str:
    return f"{100 * x:+.1f}".replace("-", "−")


def _loss(x: float) -> str:
    return f"{x:+.2f}".replace("-", "−")


def _percent(values: Iterable[float]) -> str:
    return f"{100 * mean(values):.1f}"


def _name(key: Key) -> str:
    """Dataset, setting and cell in words."""
    situation, dataset, setting, cell = key
    parts = [dataset, "" if setting in situation else setting, cell]
    return ", ".join(part for part in parts if part and part != "all views")


def situations(text: str) -> str:
    """The default beside the best simple tool of every cell."""
    header = ["situation", "cells", "difference, points", "with its own prior weights"]
    header += ["below −1", "interval below −1", "worst cell", "log loss", "below the majority"]
    cells, rows = _cells(text), []
    for situation, title in TITLES.items():
        found = _of(cells, situation)
        differences = {key: cell.over_best("chosen") for key, cell in found.items()}
        worst = min(differences, key=lambda key: mean(differences[key]))
        rows.append(
            [
                f"{situation[0]}: {title}",
                str(len(found)),
                f"**{_points(mean(map(mean, differences.values())))}**",
                _points(mean(mean(cell.over_best("default")) for cell in found.values())),
                str(sum(mean(values) < -MARGIN for values in differences.values())),
                str(sum(_upper(values) < -MARGIN for values in differences.values())),
                f"{_points(mean(differences[worst]))} ({_name(worst)})",
                _loss(mean(cell.log_loss_over_best("chosen") for cell in found.values())),
                str(sum(cell.over_majority("chosen") < -MARGIN for cell in found.values())),
            ]
        )
    return table(header, rows)


def short(text: str) -> str:
    """The same for the README."""
    header = ["labels, links and views at hand", "cells", "difference, points", "worst cell"]
    cells, rows = _cells(text), []
    for situation, title in TITLES.items():
        means = [mean(cell.over_best("chosen")) for cell in _of(cells, situation).values()]
        worst = _points(min(means))
        rows.append([title, str(len(means)), f"**{_points(mean(means))}**", worst])
    return table(header, rows)


def tools(text: str) -> str:
    """Mean accuracy of every tool."""
    methods = {tool: tool for tool in (*SIMPLE, *TRANSFER)}
    methods["majority"] = "majority class"
    methods |= {"without coupling": '`coupling="none"`', "default": "default"}
    methods["chosen"] = "default, weights of others"
    cells = _cells(text)
    rows = []
    for method, title in methods.items():
        means = []
        for situation in TITLES:
            of_method = [cell.accuracy.get(method) for cell in _of(cells, situation).values()]
            complete = [values for values in of_method if values is not None]
            ran = len(complete) == len(of_method)
            means.append(_percent(mean(x.values()) for x in complete) if ran else "")
        rows.append([title, *means])
    return table(["accuracy, %", *TITLES], rows)


def losses(text: str) -> str:
    """Cells in which the best simple tool is more than a point ahead."""
    header = [
        "situation",
        "dataset, setting, view",
        "best simple tool",
        "",
        "default",
        "difference",
    ]
    found = []
    for key, cell in _cells(text).items():
        best, difference = cell.best(cell.accuracy), mean(cell.over_best("chosen"))
        scores = [_percent(cell.accuracy[method].values()) for method in (best, "chosen")]
        row = [key[0], _name(key), best, *scores, _points(difference)]
        found.append((difference, row))
    found.sort(key=lambda pair: pair[0])
    lines = table(header, [row for difference, row in found if difference < -MARGIN]).splitlines()
    lines[1] = "|---|---|---|--:|--:|--:|"
    return "\n".join(lines)


def unequal(text: str) -> str:
    """The cells with two classes, 95 to 5."""
    scores: dict[str, dict[str, list[dict[str, Any]]]] = {}
    for line in map(json.loads, text.splitlines()):
        if line["setting"] == "95 to 5" and "auc" in line and line["method"] in UNEQUAL:
            scores.setdefault(line["dataset"], {}).setdefault(line["method"], []).append(line)
    header = ["data", "method", "accuracy, %", "balanced accuracy, %", "AUC, %"]
    header += ["mean P(rare class), %", "its share, %"]
    names = ("accuracy", "balanced_accuracy", "auc", "mean_rare", "prevalence")
    rows = [
        [dataset, title, *(_percent(line[name] for line in by_method[method]) for name in names)]
        for dataset, by_method in scores.items()
        for method, title in UNEQUAL.items()
        if method in by_method
    ]
    lines = table(header, rows).splitlines()
    lines[1] = "|---|---|" + "--:|" * len(names)
    return "\n".join(lines)


def prior_weights(text: str) -> str:
    """How much every candidate changes the mean scores."""
    cells, rows = _candidates(), []
    datasets = sorted({key[1] for key in cells})
    names = next(iter(cells.values())).accuracy
    for name in names:
        accuracy, log_loss = (
            _overall(cells, what, name) - _overall(cells, what, "default")
            for what in ("accuracy", "log_loss")
        )
        chosen = sum(_choose(dataset) == name for dataset in datasets)
        change = f"{100 * accuracy:+.2f}".replace("-", "−")
        rows.append([name, change, f"{log_loss:+.4f}".replace("-", "−"), str(chosen)])
    return table(["prior weights", "accuracy, points", "log loss", "chosen for datasets"], rows)


def _lost_disagreement() -> str:
    """How much lower the AUC of the disagreement for errors is, mean over cells and splits."""
    found: dict[tuple[Key, int], dict[str, float]] = {}
    for line in map(json.loads, (RESULTS / "situations.jsonl").read_text().splitlines()):
        if line["method"] in ("default", "all neighbors") and "disagreement_auc" in line:
            of_cell = found.setdefault((_key(line), line["trial"]), {})
            of_cell[line["method"]] = line["disagreement_auc"]
    both = [x for x in found.values() if len(x) == 2]
    return f"{mean(x['all neighbors'] - x['default'] for x in both):.3f}"


def number(what: str) -> str:
    """A number of a sentence: of cells, runs, runs that `fit` refused, or lost disagreement."""
    if what == "disagreement":
        return _lost_disagreement()
    text = (RESULTS / "situations.jsonl").read_text()
    if what == "cells":
        return f"{len(_cells(text)):,}"
    lines = [json.loads(line) for line in text.splitlines()]
    ours = ["error" in line for line in lines if line["method"] == "default"]
    return f"{sum(ours) if what == 'refused' else len(ours):,}"


TABLES = {
    "situations": (SITUATIONS, situations),
    "situations-short": (SITUATIONS, short),
    "situations-tools": (SITUATIONS, tools),
    "situations-losses": (SITUATIONS, losses),
    "unequal": (SITUATIONS, unequal),
    "prior-weights": (SITUATIONS, prior_weights),
}


def gains(situation: str, others: str | None = None) -> list[float]:
    """The default over another method in a situation, means over cells in points, split by split.

    Parameters
    ----------
    situation : str
        One of `TITLES`.
    others : str or None, default=None
        The other method; None is the best simple tool of every cell.

    Returns
    -------
    list of float
        Their mean is that of the table: a cell without a trial counts with its mean there.
    """
    cells: list[Values] = []
    for cell in _of(_cells((RESULTS / "situations.jsonl").read_text()), situation).values():
        ours = cell.accuracy["chosen" if others is None else "default"]
        theirs = cell.accuracy.get(cell.best(cell.accuracy) if others is None else others, {})
        cells.append({t: 100 * (ours[t] - theirs[t]) for t in ours.keys() & theirs.keys()})
    trials = sorted({trial for of_cell in cells for trial in of_cell})
    return [mean(x.get(trial, mean(x.values())) for x in cells) for trial in trials]


def gain_in(situation: str, dataset: str) -> list[float]:
    """The default over the best simple tool on one dataset, in points, split by split."""
    cells = _of(_cells((RESULTS / "situations.jsonl").read_text()), situation)
    (cell,) = (cell for key, cell in cells.items() if key[1] == dataset)
    return [100 * x for x in cell.over_best("chosen")]
