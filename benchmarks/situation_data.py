"""Eight situations in which people have tables of different people, made from aligned datasets.

`draw(situation, dataset, trial, data)` returns one training set and the tests of every cell of it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from hotview.datasets import load_handwritten, make_views, read_views, split_rows

SITUATIONS = {
    "A": "5 % linked labels, all views at hand",
    "B": "trained as A, one view at hand",
    "C": "labels in one view, 20 or 40 linked without labels; another view at hand",
    "D": "every view has 5 % labels of its own, nobody is linked; one view at hand",
    "E": "rows with some of the views, 5 or 20 % labels",
    "F": "unequal classes: each 0.45 of the one before, 10 % linked labels; or 95 to 5, 20 %",
    "G": "20 or 50 % linked labels, all views at hand",
    "H": "two tables with different class mixes: labels in the other table, or in both",
}
FILES = ("snareseq", "scgem", "msrc_v1", "webkb", "cora", "prokaryotic", "wikipedia", "mnist4")
DATASETS = ("handwritten", "caltech7", "caltech20", *FILES)
SYNTHETIC = ("synthetic", "synthetic, nonlinear")  # in H alone
LINKED = (20, 40)
RATIO, N_UNEQUAL = 0.45, 5
TRIES = 20
TILT = 9.0  # class mixes of H: the first class to the last in A, reversed in B


@dataclass
class Task:
    """A training set, and rows to predict, by cell.

    Parameters
    ----------
    linked : dict of str to ndarray
        Rows of the same individuals in all views, NaN throughout where one is absent.
    y : ndarray of int64
        Their classes, −1 without a label.
    unaligned, unaligned_y : dict
        Other rows of some views, and their classes, −1 without a label.
    tests : dict of str to (dict of str to ndarray, ndarray)
        Views and classes of rows to predict, by name of the cell.
    """

    linked: dict[str, Any]
    y: Any
    unaligned: dict[str, Any] = field(default_factory=dict)
    unaligned_y: dict[str, Any] = field(default_factory=dict)
    tests: dict[str, tuple[dict[str, Any], Any]] = field(default_factory=dict)

    def arguments(self) -> dict[str, Any]:
        """Arguments of `MultiViewClassifier.fit`."""
        has_linked = len(self.y) > 0
        return {
            "Xs": self.linked if has_linked else None,
            "y": self.y if has_linked else None,
            "unaligned": self.unaligned or None,
            "unaligned_y": self.unaligned_y or None,
        }


def load(name: str, data: Path) -> tuple[dict[str, Any], Any]:
    """Aligned views, dense and in float64, and classes from 0."""
    if name in SYNTHETIC:
        found = make_views(
            1200,
            n_views=2,
            n_groups=1,
            n_classes=5,
            class_sep=2.5,
            noise=0.3,
            nonlinear="nonlinear" in name,
            labeled=1.0,
            random_state=11,
        )
        return dict(found.linked), np.asarray(found.linked_target)
    if name == "handwritten":
        digits = load_handwritten()
        return dict(digits.views), np.asarray(digits.target)
    path = data / f"{'caltech101_reextracted' if name.startswith('caltech') else name}.npz"
    views = {v: np.asarray(X, dtype=np.float64) for v, X in read_views(path).items()}
    with np.load(path, allow_pickle=False) as arrays:
        if name == "caltech7":
            return {v: X[arrays["rows_7"]] for v, X in views.items()}, arrays["y_7"]
        return views, arrays["y"]


def settings(situation: str, dataset: str) -> Iterator[str]:
    """Variants of a situation that need training sets of their own."""
    if situation == "C":
        yield from (f"{n} linked" for n in LINKED)
    elif situation == "E":
        yield from ("5 %", "20 %")
    elif situation == "F":
        yield from ("0.45", "95 to 5")
    elif situation == "G":
        yield from ("20 %", "50 %")
    elif situation == "H":
        yield from ("other table", "both tables")
    else:
        yield ""


def draw(situation: str, setting: str, dataset: str, trial: int, data: Path) -> list[Task]:
    """Training sets of one trial: several where every pair of views is one."""
    views, y = load(dataset, data)
    make = {
        "A": linked_labels,
        "B": linked_labels,
        "C": labels_in_one_view,
        "D": own_labels,
        "E": partial_rows,
        "F": unequal_classes,
        "G": linked_labels,
        "H": two_populations,
    }
    return make[situation](views, y, setting, trial)


def linked_labels(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """A share of the training rows linked and labeled; tests with all views and with each."""
    share = float(setting.rstrip(" %")) / 100 if setting else 0.05
    split = split_rows(len(y), labeled=share, random_state=trial)
    task = Task(take(views, split.labeled), y[split.labeled])
    random = np.random.default_rng(trial)
    task.unaligned = {v: X[random.permutation(split.unlabeled)] for v, X in views.items()}
    test = take(views, split.test)
    task.tests["all views"] = test, y[split.test]
    if not setting:
        task.tests |= {v: ({v: X}, y[split.test]) for v, X in test.items()}
    return [task]


def labels_in_one_view(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """One task per pair of consecutive views, A to B, and back where there are two."""
    n, names, tasks = int(setting.split()[0]), list(views), []
    for A, B in zip(names, names[1:] + names[:1], strict=True):
        split = split_rows(len(y), random_state=trial)
        first, second = np.array_split(split.train, 2)
        n_labeled = len(split.labeled)
        linked = first[n_labeled : n_labeled + n]
        rest = np.concatenate([first[:n_labeled], first[n_labeled + n :]])
        task = Task({A: views[A][linked], B: views[B][linked]}, np.full(len(linked), -1))
        task.unaligned = {A: views[A][rest], B: views[B][second]}
        task.unaligned_y = {A: np.where(np.arange(len(rest)) < n_labeled, y[rest], -1)}
        task.tests[f"{A} to {B}"] = {B: views[B][split.test]}, y[split.test]
        tasks.append(task)
    return tasks


def own_labels(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """Every view has rows of its own, with labels for 5 % of all training rows."""
    split = split_rows(len(y), random_state=trial)
    task, n_labeled = Task({}, np.empty(0, np.int64)), max(len(split.labeled), 2)
    for (v, X), rows in zip(views.items(), np.array_split(split.train, len(views)), strict=True):
        # A part of the rows of a view is other people's; the rest, without labels, all have.
        rest = np.setdiff1d(split.train, rows[:n_labeled])
        rows = np.concatenate([rows[:n_labeled], rest])
        task.unaligned[v] = X[rows]
        task.unaligned_y[v] = np.where(np.arange(len(rows)) < n_labeled, y[rows], -1)
        task.tests[v] = {v: X[split.test]}, y[split.test]
    return [task]


def partial_rows(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """An outer join: every row has half of the views on average, and at least one."""
    share = float(setting.rstrip(" %")) / 100
    split = split_rows(len(y), labeled=share, random_state=trial)
    random = np.random.default_rng(trial)
    has = random.random((len(y), len(views))) < 0.5
    has[np.arange(len(y)), random.integers(len(views), size=len(y))] = True
    joined = {v: np.where(has[:, [s]], X, np.nan) for s, (v, X) in enumerate(views.items())}
    labels = np.concatenate([y[split.labeled], np.full(len(split.unlabeled), -1)])
    task = Task(take(joined, split.train), labels)
    task.tests["partial rows"] = take(joined, split.test), y[split.test]
    return [task]


def unequal_classes(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """Rows of five classes, each 0.45 of the one before; or of two, 95 to 5."""
    random = np.random.default_rng(1000 + trial)
    counts = np.bincount(y)
    order = random.permutation(len(counts))[:N_UNEQUAL]
    if setting == "0.45":
        sizes = RATIO ** np.arange(len(order))
    else:
        order, sizes = np.argsort(-counts, kind="stable")[:2], np.array([0.95, 0.05])
    sizes = np.floor((counts[order] / sizes).min() * sizes).astype(int)
    rows = np.concatenate(
        [random.permutation(np.flatnonzero(y == c))[:n] for c, n in zip(order, sizes, strict=True)]
    )
    rows = random.permutation(rows)
    codes = np.unique(y[rows], return_inverse=True)[1]
    share = "10 %" if setting == "0.45" else "20 %"
    for seed in range(trial, trial + 100 * TRIES, 100):  # the first with two labels of two classes
        tasks = linked_labels(take(views, rows), codes, share, seed)
        if np.sum(np.bincount(tasks[0].y) > 1) > 1:
            break
    return tasks


def two_populations(views: dict[str, Any], y: Any, setting: str, trial: int) -> list[Task]:
    """Two tables, of people with different class mixes; those of B are to be predicted."""
    (A, XA), (B, XB) = list(views.items())[:2]
    random = np.random.default_rng(2000 + trial)
    split = split_rows(len(y), random_state=trial)
    first, second = np.array_split(split.train, 2)
    classes = random.permutation(np.unique(y))
    mix = np.geomspace(1, 1 / TILT, len(classes))
    of_a = draw_mix(first, y, dict(zip(classes, mix, strict=True)), random)
    weights = dict(zip(classes, mix[::-1], strict=True))
    of_b, test = draw_mix(second, y, weights, random), draw_mix(split.test, y, weights, random)
    n_labeled, n_linked = max(len(split.labeled), 10), 40
    codes = np.where(np.arange(len(of_a)) < n_labeled, y[of_a], -1)
    if setting == "both tables":
        task = Task({}, np.empty(0, np.int64), {A: XA[of_a], B: XB[of_b]})
        task.unaligned_y[B] = np.where(np.arange(len(of_b)) < n_labeled, y[of_b], -1)
    else:
        linked, rest = of_b[:n_linked], of_b[n_linked:]
        task = Task({A: XA[linked], B: XB[linked]}, np.full(len(linked), -1))
        task.unaligned = {A: XA[of_a], B: XB[rest]}
    task.unaligned_y[A] = codes
    task.tests[B] = {B: XB[test]}, y[test]
    return [task]


def draw_mix(rows: Any, y: Any, weights: dict[int, float], random: Any) -> Any:
    """As many rows as possible whose classes are in given proportions, in random order."""
    counts = {c: np.sum(y[rows] == c) for c in weights}
    size = min(counts[c] / w for c, w in weights.items() if counts[c] > 0)
    size = max(size, len(rows) / 4 / sum(weights.values()))  # rare classes may run out
    parts = [
        random.permutation(rows[y[rows] == c])[: max(1, round(size * w))]
        for c, w in weights.items()
    ]
    return random.permutation(np.concatenate(parts))


def take(views: dict[str, Any], rows: Any) -> dict[str, Any]:
    """Some rows of all views."""
    return {v: X[rows] for v, X in views.items()}
