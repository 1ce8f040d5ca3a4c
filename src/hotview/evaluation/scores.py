"""Scores of a classifier on aligned rows: views hidden or permuted, and beside baselines."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import clone
from sklearn.utils import _safe_indexing

from hotview._types import Array, IntArray, View
from hotview.data.labels import number_labels, read_labels
from hotview.evaluation.assessment import Assessment, assess, class_counts
from hotview.evaluation.baseline_rows import read_rows
from hotview.evaluation.baselines import (
    Baseline,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.importance import PermutationImportance, permutation_importance
from hotview.evaluation.metrics import (
    Difference,
    Proportion,
    accuracy_with_interval,
    compare_accuracies,
)
from hotview.losses.specifications import as_coupling

#: Name of the baseline that always predicts the most frequent class of the training labels.
MAJORITY = "majority class"
#: Maximum number of rows of each table that a baseline is fitted on; of more, a random sample.
MAX_BASELINE_ROWS = 50_000
#: Maximum number of subsets of each size, and of predictions over all their rows.
_SUBSETS, _PREDICTIONS = 10, 50_000
_BINS = 10
#: Permutations of a view or column, columns that are permuted by themselves, and rows.
_REPEATS, _COLUMNS, _ROWS = 3, 20, 300
#: Name of all classes that were not in training.
OTHER_CLASS = "any other class"

_BASELINES: dict[str, type[Baseline]] = {
    "logistic regression": ConcatenatedLogisticRegression,
    "logistic regression on principal components": PCALogisticRegression,
    "label propagation in each view": PerViewLabelPropagation,
}
_CONTROL = 'the same model with coupling="none"'

#: Iterates over items and shows progress under a description.
Track = Callable[[Iterable[Any], str], Iterable[Any]]


@dataclass(frozen=True)
class ViewScore:
    """Accuracy without a view, the drop caused by hiding it, and accuracy with it alone."""

    view: str
    n_present: int
    without: Proportion | None
    drop: Difference | None
    alone: Proportion | None


@dataclass(frozen=True)
class SubsetScore:
    """Accuracy with subsets of `n_views` views: mean, minimum and maximum over subsets."""

    n_views: int
    mean: float
    low: float
    high: float
    n_subsets: int
    n_possible: int

    @property
    def is_sample(self) -> bool:
        """Whether there are more subsets than were scored."""
        return self.n_subsets < self.n_possible


@dataclass(frozen=True)
class Bin:
    """Mean confidence and accuracy of the rows in a bin of the confidence."""

    confidence: float
    accuracy: Proportion


@dataclass(frozen=True)
class Scores:
    """Scores of a classifier on labeled rows: metrics, and accuracies by view and confidence."""

    metrics: Assessment
    views: list[ViewScore]
    subsets: list[SubsetScore]
    bins: list[Bin]

    @property
    def accuracy(self) -> Proportion:
        """Proportion of correct rows."""
        return self.metrics.accuracy

    @property
    def true_classes(self) -> list[str]:
        """The classes and, last, if such rows occur, all that were not in training as one."""
        return [str(name) for name in self.metrics.classes]

    @property
    def confusion(self) -> list[list[int]]:
        """Rows by true class, in the order of `true_classes`, and predicted class."""
        return [row[: len(self.metrics.by_class)] for row in self.metrics.confusion]

    @property
    def errors(self) -> list[tuple[int, int, int]]:
        """Rows, true and predicted class of all kinds of errors, the most frequent first."""
        cells = [(n, i, j) for i, row in enumerate(self.confusion) for j, n in enumerate(row)]
        return sorted((x for x in cells if x[0] and x[1] != x[2]), key=lambda x: (-x[0], *x[1:]))

    @property
    def is_overconfident(self) -> bool:
        """Whether the mean confidence is above the accuracy."""
        return sum(b.accuracy.n * (b.confidence - b.accuracy.value) for b in self.bins) > 0


@dataclass(frozen=True)
class BaselineScore:
    """Accuracy of a baseline; `difference` is the model's accuracy minus the baseline's.

    Both are None if the baseline could not be fitted or scored, for the given `reason`.
    """

    name: str
    accuracy: Proportion | None
    difference: Difference | None
    reason: str = ""


@dataclass(frozen=True)
class Predictions:
    """Predictions for rows from any subset of their views, each computed once.

    Parameters
    ----------
    estimator : MultiViewClassifier
        The fitted classifier.
    views : dict of str to 2-D array-like
        Aligned rows of the given views.
    present : dict of str to ndarray of bool
        Rows that have each view.
    truth : ndarray of int64
        Class codes; −1 where unknown, and the number of classes for any other class.
    """

    estimator: Any
    views: Mapping[str, View]
    present: Mapping[str, Array]
    truth: IntArray
    _cache: dict[frozenset[str], Array] = field(default_factory=dict, init=False, repr=False)

    def probabilities(self, names: Iterable[str]) -> Array:
        """Return class probabilities from the named views; NaN for rows that have none of them."""
        key = frozenset(names)
        if key not in self._cache:
            chosen = [name for name in self.views if name in key]
            has = np.any([self.present[name] for name in chosen], axis=0)
            P: Array = np.full((len(has), len(self.estimator.classes_)), math.nan)
            if has.any():
                P[has] = self.estimator.predict_proba(
                    {name: select_rows(self.views[name], has) for name in chosen}
                )
            self._cache[key] = P
        return self._cache[key]

    def correct(self, names: Iterable[str], rows: IntArray) -> Array:
        """Return whether the prediction from the named views is correct, for the given rows."""
        best: Array = self.probabilities(names)[rows].argmax(axis=1)
        return np.asarray(best == self.truth[rows])

    def labeled_rows(self, *, all_of: Iterable[str] = (), any_of: Iterable[str] = ()) -> IntArray:
        """Return labeled rows that have all views in `all_of` and at least one in `any_of`."""
        kept = self.truth >= 0
        for name in all_of:
            kept = kept & self.present[name]
        if others := list(any_of):
            kept = kept & np.any([self.present[name] for name in others], axis=0)
        return np.flatnonzero(kept)


def encode_truth(estimator: Any, y: Any, n: int) -> IntArray:
    """Return class codes: −1 where unknown, the number of classes for classes not in training."""
    truth = np.full(n, -1, dtype=np.int64)
    if y is not None:
        found = read_labels("y", y, n, estimator.unlabeled_marker)
        codes = number_labels(found.values, estimator.classes_)
        truth[found.known] = np.where(codes < 0, len(estimator.classes_), codes)
    return truth


def select_rows(view: Any, kept: Array) -> Any:
    """Return the kept rows of a table of any kind; the table itself if all are kept."""
    if kept.all():
        return view
    table = sparse.csr_array(view) if sparse.issparse(view) else view  # type: ignore[call-overload]
    return _safe_indexing(table, np.flatnonzero(kept))


def score_rows(
    predictions: Predictions,
    track: Track,
    *,
    groups: Any = None,
    **settings: Any,
) -> Scores:
    """Score predictions with all views, without each, with each alone and with subsets of views.

    Views are hidden at prediction; nothing is retrained.

    Parameters
    ----------
    predictions : Predictions
        Predictions for rows, some of them labeled.
    track : callable
        Iterates over items and may show progress.
    groups : 1-D array-like or None, default=None
        Ids or groups of all rows.
    **settings : Any
        As for :func:`hotview.evaluation.assess`.

    Returns
    -------
    Scores
        Scores on the labeled rows.
    """
    names, rows = list(predictions.views), predictions.labeled_rows()
    P, truth = predictions.probabilities(names)[rows], predictions.truth[rows]
    confidence, predicted = P.max(axis=1), P.argmax(axis=1)
    correct = predicted == truth
    classes = predictions.estimator.classes_.tolist()
    labels = [*classes, OTHER_CLASS]
    metrics = assess(
        [labels[k] for k in truth],
        P,
        classes,
        groups=None if groups is None else np.asarray(groups)[rows],
        prior=class_counts(predictions.estimator),
        **settings,
    )
    bins = np.minimum((confidence * _BINS).astype(int), _BINS - 1)
    inside = [bins == b for b in np.unique(bins)]
    return Scores(
        metrics,
        [_score_view(predictions, name) for name in track(names, "hiding views")],
        _score_subsets(predictions, track),
        [Bin(float(confidence[i].mean()), accuracy_with_interval(correct[i])) for i in inside],
    )


def _score_view(predictions: Predictions, view: str) -> ViewScore:
    names = list(predictions.views)
    others = [name for name in names if name != view]
    rows = predictions.labeled_rows(all_of=[view])
    alone = accuracy_with_interval(predictions.correct([view], rows)) if len(rows) > 0 else None
    shared = predictions.labeled_rows(all_of=[view], any_of=others) if others else rows[:0]
    without, drop = None, None
    if len(shared) > 0:
        hidden = predictions.correct(others, shared)
        without = accuracy_with_interval(hidden)
        drop = compare_accuracies(predictions.correct(names, shared), hidden)
    return ViewScore(view, int(predictions.present[view].sum()), without, drop, alone)


def _score_subsets(predictions: Predictions, track: Track) -> list[SubsetScore]:
    """Accuracy by number of views, over all subsets or a random sample of them."""
    names = list(predictions.views)
    n_most = max(1, min(_SUBSETS, _PREDICTIONS // len(predictions.truth)))
    random = np.random.default_rng(0)
    subsets = [s for k in range(len(names)) for s in _draw_subsets(names, k + 1, n_most, random)]
    values: dict[int, list[float]] = {}
    for subset in track(subsets, "scoring subsets of views"):
        if len(rows := predictions.labeled_rows(all_of=subset)) > 0:
            accuracy = float(predictions.correct(subset, rows).mean())
            values.setdefault(len(subset), []).append(accuracy)
    return [
        SubsetScore(k, float(np.mean(x)), min(x), max(x), len(x), math.comb(len(names), k))
        for k, x in values.items()
    ]


def _draw_subsets(
    names: list[str], k: int, n_most: int, random: np.random.Generator
) -> list[tuple[str, ...]]:
    """Return all subsets of k views, or `n_most` random ones, in lexicographic order."""
    if math.comb(len(names), k) <= n_most:
        return list(combinations(names, k))
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < n_most:
        drawn.add(tuple(sorted(random.choice(len(names), k, replace=False).tolist())))
    return [tuple(names[s] for s in subset) for subset in sorted(drawn)]


def name_views(views: Any, names: Iterable[str]) -> dict[str, Any]:
    """Return the given views by name, without those that are None."""
    pairs = views.items() if isinstance(views, Mapping) else zip(names, views, strict=False)
    return {name: view for name, view in pairs if view is not None}


def score_baselines(
    predictions: Predictions,
    training: Mapping[str, Any] | None,
    track: Track,
    *,
    control: bool = True,
) -> list[BaselineScore]:
    """Compare the accuracy of a model with those of simple methods on the same rows.

    The majority class is known from the model. Other methods are fitted on its training rows, in
    the views of the rows to score on, or in all views if these have no labels.

    Parameters
    ----------
    predictions : Predictions
        The model's predictions for the rows to score on.
    training : dict or None
        Arguments of the model's `fit`: ``Xs``, ``y`` and optionally ``unaligned``,
        ``unaligned_y``. None for the majority class alone.
    track : callable
        Iterates over items and may show progress.
    control : bool, default=True
        Whether to train the model without coupling, too.

    Returns
    -------
    list of BaselineScore
        The majority class first, if the model has recorded its labels.
    """
    model, names = predictions.estimator, list(predictions.views)
    labeled = predictions.labeled_rows()
    truth, ours = predictions.truth[labeled], predictions.correct(names, labeled)
    scores = []
    if counts := class_counts(model):
        scores.append(_compare(MAJORITY, ours, truth == np.argmax(counts)))
    if training is None:
        return scores
    views = {s: select_rows(X, predictions.truth >= 0) for s, X in predictions.views.items()}
    arguments = (training.get(name) for name in ("Xs", "y", "unaligned", "unaligned_y"))
    rows = read_rows(*arguments, marker=model.unlabeled_marker, max_rows=MAX_BASELINE_ROWS)
    if set(names) & set(rows.labeled_views()):
        rows = rows.select(names)
    fits = {name: partial(method()._fit_rows, rows) for name, method in _BASELINES.items()}
    if control and as_coupling(model.coupling).label != "none":
        other = clone(model).set_params(coupling="none", verbose=False, callbacks=None)
        if other.random_state is None:  # its file stored none
            other.set_params(random_state=0)
        fits[_CONTROL] = partial(other.fit, **training)
    for name, fit in track(list(fits.items()), "fitting baselines"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of solvers; the model's own fit has warned already
            try:
                fitted = fit()
                best = fitted.predict_proba(views).argmax(axis=1)
            except ValueError as error:
                scores.append(BaselineScore(name, None, None, str(error)))
                continue
        correct = np.searchsorted(model.classes_, fitted.classes_)[best] == truth
        scores.append(_compare(name, ours, correct))
    return scores


def _compare(name: str, ours: Array, correct: Array) -> BaselineScore:
    difference = compare_accuracies(ours, correct)
    return BaselineScore(name, accuracy_with_interval(correct), difference)


def measure_importance(predictions: Predictions) -> PermutationImportance | None:
    """Return the importance of views and columns, of at most 300 rows; None with fewer than two."""
    classes, truth = predictions.estimator.classes_, predictions.truth
    known = (truth >= 0) & (truth < len(classes))
    if known.sum() < 2:
        return None
    y = np.full(len(known), None, dtype=object)
    y[known] = classes[truth[known]]
    limits: dict[str, Any] = {"n_repeats": _REPEATS, "max_columns": _COLUMNS, "max_rows": _ROWS}
    return permutation_importance(predictions.estimator, dict(predictions.views), y, **limits)
