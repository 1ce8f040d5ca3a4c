"""What a classifier makes of aligned rows when it is shown some of their views only."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils import _safe_indexing

from hotview._types import Array, IntArray, View
from hotview.evaluation.metrics import expected_calibration_error
from hotview.evaluation.record.intervals import compare, share
from hotview.evaluation.record.schema import Bin, NumberScore, Proportion, Scores, ViewScore

__all__ = ["Judgments", "score_rows"]

#: Subsets of views of one size that are tried, and for how many rows at most.
_SUBSETS, _PREDICTIONS = 10, 50_000
_BINS = 10

#: What may show progress while it hands on what it is given.
Track = Callable[[Iterable[Any], str], Iterable[Any]]


class Judgments:
    """Predictions for labeled rows from any of their views, each made once.

    Parameters
    ----------
    estimator : MultiViewClassifier
        The fitted classifier.
    views : dict of str to 2-D array-like
        Aligned rows of the views that are there.
    present : dict of str to ndarray of bool
        Which rows have each view.
    truth : ndarray of int64
        Their classes by number; −1 where unknown, and the number of classes for any other class.
    """

    def __init__(
        self,
        estimator: Any,
        views: Mapping[str, View],
        present: Mapping[str, Array],
        truth: IntArray,
    ) -> None:
        self.estimator, self.views, self.present, self.truth = estimator, views, present, truth
        self._found: dict[frozenset[str], Array] = {}

    def probabilities(self, names: Iterable[str]) -> Array:
        """Probabilities of the classes from these views alone; NaN for rows that have none."""
        key = frozenset(names)
        if key not in self._found:
            self._found[key] = self._predict([name for name in self.views if name in key])
        return self._found[key]

    def _predict(self, names: list[str]) -> Array:
        has = np.any([self.present[name] for name in names], axis=0)
        P: Array = np.full((len(has), len(self.estimator.classes_)), math.nan)
        if has.any():
            rows = np.flatnonzero(has)
            views = {name: _take(self.views[name], rows, all_of_them=has.all()) for name in names}
            P[has] = self.estimator.predict_proba(views)
        return P

    def right(self, names: Iterable[str], rows: IntArray) -> Array:
        """Whether the most probable class is the true one, of rows that have such a view."""
        best: Array = self.probabilities(names)[rows].argmax(axis=1)
        return np.asarray(best == self.truth[rows])

    def rows(self, *, every: Iterable[str] = (), some: Iterable[str] = ()) -> IntArray:
        """Labeled rows that have all of some views, and at least one of others."""
        kept = self.truth >= 0
        for name in every:
            kept = kept & self.present[name]
        if others := list(some):
            kept = kept & np.any([self.present[name] for name in others], axis=0)
        return np.flatnonzero(kept)


def _take(view: Any, rows: IntArray, *, all_of_them: bool) -> Any:
    if all_of_them:
        return view
    table = sparse.csr_array(view) if sparse.issparse(view) else view  # type: ignore[call-overload]
    return _safe_indexing(table, rows)


def score_rows(judgments: Judgments, track: Track) -> Scores:
    """Accuracy with all views, without each, with each alone, and with any number of them.

    Nothing is trained again: views are only hidden.

    Parameters
    ----------
    judgments : Judgments
        Predictions for rows, some of them labeled.
    track : callable
        Takes what there is to do and what to call it, and may show progress.

    Returns
    -------
    Scores
        Of the labeled rows.
    """
    names, rows = list(judgments.views), judgments.rows()
    P, truth = judgments.probabilities(names)[rows], judgments.truth[rows]
    classes = [str(c) for c in judgments.estimator.classes_]
    others = ["any other class"] if (truth == len(classes)).any() else []
    confusion = np.zeros((len(classes) + len(others), len(classes)), dtype=int)
    np.add.at(confusion, (truth, P.argmax(axis=1)), 1)
    return Scores(
        share(P.argmax(axis=1) == truth),
        [_score_view(judgments, name) for name in track(names, "hiding views")],
        _score_numbers(judgments, track),
        _bins(P, truth),
        expected_calibration_error(P, truth, np.arange(len(classes))),
        classes + others,
        confusion.tolist(),
    )


def _score_view(judgments: Judgments, view: str) -> ViewScore:
    names = list(judgments.views)
    rest = [name for name in names if name != view]
    alone = judgments.rows(every=[view])
    both = judgments.rows(every=[view], some=rest) if rest else alone[:0]
    without, fall = None, None
    if len(both) > 0:
        hidden = judgments.right(rest, both)
        without, fall = share(hidden), compare(judgments.right(names, both), hidden)
    found = share(judgments.right([view], alone)) if len(alone) > 0 else None
    return ViewScore(view, int(judgments.present[view].sum()), without, fall, found)


def _score_numbers(judgments: Judgments, track: Track) -> list[NumberScore]:
    names = list(judgments.views)
    n_most = max(1, min(_SUBSETS, _PREDICTIONS // len(judgments.truth)))
    random = np.random.default_rng(0)
    chosen = [_some_subsets(names, k, n_most, random) for k in range(1, len(names) + 1)]
    found = {
        subset: _score_subset(judgments, subset)
        for subset in track([s for subsets in chosen for s in subsets], "taking subsets of views")
    }
    sizes = []
    for k, subsets in enumerate(chosen, start=1):
        values = [one.value for s in subsets if (one := found[s]) is not None]
        if values:
            mean, low, high = float(np.mean(values)), min(values), max(values)
            possible = math.comb(len(names), k)
            sizes.append(NumberScore(k, mean, low, high, len(values), possible))
    return sizes


def _score_subset(judgments: Judgments, subset: tuple[str, ...]) -> Proportion | None:
    rows = judgments.rows(every=subset)
    return share(judgments.right(subset, rows)) if len(rows) > 0 else None


def _some_subsets(
    names: list[str], k: int, n_most: int, random: np.random.Generator
) -> list[tuple[str, ...]]:
    """All subsets of k views, or so many of them at random, in order."""
    n, S = math.comb(len(names), k), len(names)
    if n <= n_most:
        return list(combinations(names, k))
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < n_most:
        drawn.add(tuple(sorted(random.choice(S, k, replace=False).tolist())))
    return [tuple(names[s] for s in subset) for subset in sorted(drawn)]


def _bins(P: Array, truth: IntArray) -> list[Bin]:
    """Rows by confidence, in bins of equal width; empty ones are left out."""
    confidence, right = P.max(axis=1), P.argmax(axis=1) == truth
    where = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    inside = [where == b for b in np.unique(where)]
    return [Bin(float(confidence[rows].mean()), share(right[rows])) for rows in inside]
