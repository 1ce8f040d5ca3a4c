"""Scores and comparisons from the result files, for tables and sentences of the docs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from paper.rows import shared_rows
from paper.statistics import TEST_TO_TRAIN, Difference, paired_difference

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results"
#: names of datasets in sentences
LABELS = {
    "handwritten": "Handwritten",
    "caltech7": "Caltech7",
    "caltech20": "Caltech20",
    "msrc": "MSRC-v1",
    "synthetic": "synthetic views",
    "snareseq": "SNARE-seq",
    "scgem": "scGEM",
}
SIMPLE = ("logistic regression", "PCA + logistic regression", "label propagation per view")
#: method → trial → scores
Methods = dict[str, dict[int, dict[str, Any]]]


@cache
def read(path: str) -> str:
    """Text of a result file."""
    return (RESULTS / path).read_text()


@cache
def paper_cells(table: str) -> list[dict[str, Any]]:
    """Cells of an experiment of the paper."""
    cells: list[dict[str, Any]] = json.loads(read(f"paper/{table}.json"))["cells"]
    return cells


def paper_scores(
    table: str, dataset: str, method: str, settings: str, task: str = "", **own: Any
) -> dict[str, list[float]]:
    """Scores of the one cell that is meant, by kind."""
    usual = {"without": None, "split": None, "overrides": None, **own}
    (found,) = (
        entry
        for entry in paper_cells(table)
        if all(entry["cell"].get(name) == value for name, value in usual.items())
        and (entry["cell"]["dataset"], entry["cell"]["method"]) == (dataset, method)
        and entry["cell"]["settings"] == settings
        and task in ("", entry["cell"]["task"])
    )
    scores: dict[str, list[float]] = found["scores"]
    return scores


def accuracies(text: str) -> dict[tuple[str, float], Methods]:
    """Lines by dataset and share of labels, method, and trial; without those of one class."""
    found: dict[tuple[str, float], Methods] = {}
    for line in map(json.loads, text.splitlines()):
        methods = found.setdefault((line["dataset"], line["share"]), {})
        if "accuracy" in line:
            methods.setdefault(line["method"], {})[line["trial"]] = line
    return found


def values(lines: dict[int, dict[str, Any]], what: str = "accuracy") -> list[float]:
    """Scores of a method, trial by trial."""
    return [lines[trial][what] for trial in sorted(lines)]


def same_splits(methods: Methods, first: str, second: str) -> list[list[float]]:
    """Accuracies of two methods on the splits that both have."""
    common = methods[first].keys() & methods[second].keys()
    return [values({t: methods[name][t] for t in common}) for name in (first, second)]


def best_simple(methods: Methods) -> str:
    """The simple method with the highest mean accuracy on the test rows."""
    return max(SIMPLE, key=lambda name: mean(values(methods[name])))


def signed(x: float, digits: int = 1) -> str:
    """A number with its sign, and with a minus that is one."""
    return f"{round(x, digits) + 0.0:+.{digits}f}".replace("-", "−")


def written(difference: Difference, digits: int = 1) -> str:
    """A difference with its interval."""
    ends = (signed(x, digits) for x in (difference.low, difference.high))
    return f"{signed(difference.mean, digits)} [{', '.join(ends)}]"


def side(difference: Difference) -> str:
    """Where the interval of a difference lies: above zero, below it, or around it."""
    return "above" if difference.low > 0 else "below" if difference.high < 0 else "around"


class Evidence:
    """What a sentence rests on: it reads result files, and keeps what was read.

    Attributes
    ----------
    files : dict of str to None
        Result files, in order.
    numbers : dict of str to str
        What was read or compared, and the number.
    """

    def __init__(self) -> None:
        self.files: dict[str, None] = {}
        self.numbers: dict[str, str] = {}

    def read(self, path: str) -> str:
        """Text of a result file."""
        self.files[path] = None
        return read(path)

    def note(self, name: str, number: str) -> str:
        """Keep a number under a name, and return it."""
        self.numbers[name] = number
        return number

    def scores(
        self,
        table: str,
        dataset: str,
        method: str,
        settings: str,
        task: str = "",
        kind: str = "test",
        **own: Any,
    ) -> list[float]:
        """Accuracies in percent, trial by trial."""
        self.files[f"paper/{table}.json"] = None
        found = paper_scores(table, dataset, method, settings, task, **own)[kind]
        percent = [100 * score for score in found]
        where = ", ".join(
            str(x)
            for x in (table, dataset, method, settings, task, kind, *own.values())
            if x not in ("", None)
        )
        self.note(where, f"{mean(percent):.2f} ± {stdev(percent):.2f}")
        return percent

    def has(self, table: str, dataset: str, method: str, settings: str, **own: Any) -> bool:
        """Whether there is such a cell."""
        self.files[f"paper/{table}.json"] = None
        try:
            paper_scores(table, dataset, method, settings, **own)
        except ValueError:
            return False
        return True

    def compare(
        self,
        name: str,
        ours: Sequence[float],
        others: Sequence[float],
        test_to_train: float = TEST_TO_TRAIN,
    ) -> Difference:
        """Difference of two lists of scores of the same trials."""
        found = paired_difference(ours, others, test_to_train=test_to_train)
        self.note(name, f"{written(found, 2)}, n = {found.n}")
        return found

    def gap(
        self,
        table: str,
        dataset: str,
        first: str,
        second: str,
        settings: str,
        task: str = "",
        kind: str = "test",
    ) -> Difference:
        """Difference of two rows of the paper's tables, in points."""
        pair = [self.scores(table, dataset, name, settings, task, kind) for name in (first, second)]
        name = ", ".join(x for x in (table, dataset, settings, task, kind) if x)
        ratio = shared_rows(dataset)
        return self.compare(f"{name}: {first} − {second}", *pair, test_to_train=ratio)


def listed(words: Iterable[str]) -> str:
    """Join words as in a sentence."""
    *most, end = words
    return f"{', '.join(most)} and {end}" if most else end


#: the word for where the interval of ours − others lies
VERDICT = {"above": "ahead of", "around": "level with", "below": "behind"}
#: makes a sentence
Make = Callable[[Evidence], str]
#: all sentences, by name
SENTENCES: dict[str, Make] = {}


def sentence(make: Make) -> Make:
    """Register a sentence under the name of its function."""
    SENTENCES[make.__name__.replace("_", "-")] = make
    return make


def control(method: str) -> str:
    return f"no coupling{' + AE' * method.endswith('AE')}"


def count(n: int, of: int) -> str:
    return f"all {of}" if n == of else f"none of {of}" if n == 0 else f"{n} of {of}"


def trend(sides: Counter[str]) -> str:
    """What a number of differences say together, and where their intervals lie."""
    if sides["above"] and sides["below"]:
        more = sides["below"] > sides["above"]
        first, second = ("costs", "gains") if more else ("gains", "costs")
        words = f"{first} accuracy more often than it {second} it"
    elif sides["below"]:
        words = "costs accuracy, where it makes a difference"
    elif sides["above"]:
        words = "gains accuracy, where it makes a difference"
    else:
        words = "makes no measurable difference"
    return f"{words} ({intervals(sides)})"


def count_sides(differences: Iterable[Difference]) -> Counter[str]:
    return Counter(side(difference) for difference in differences)


def intervals(found: Counter[str]) -> str:
    """Where intervals lie, in words."""
    return (
        f"of {found.total()} intervals, {found['above']} lie above 0, {found['below']} below, "
        f"{found['around']} hold 0"
    )


def by_verdict(differences: dict[str, Difference]) -> str:
    """What is ahead on which data, with numbers."""
    parts = []
    for where, verdict in VERDICT.items():
        names = [f"{k} ({written(d)})" for k, d in differences.items() if side(d) == where]
        if names:
            parts.append(f"{verdict} it on {listed(names)}")
    return listed(parts)
