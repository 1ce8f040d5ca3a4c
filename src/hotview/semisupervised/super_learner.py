"""Super learner: predictors of the views, calibrated and weighted by out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from scipy.special import log_softmax
from torch import Tensor

from hotview._codec import require, shorten
from hotview._types import Array, IntArray
from hotview.ot._backend import constant
from hotview.semisupervised.predictors import PREDICTORS

__all__ = [
    "PriorWeights",
    "ScoresOutOfFold",
    "ScoresWithout",
    "SuperLearner",
    "average_predictors",
    "fit_super_learner",
]

_MAX_WEIGHT, _MAX_POWER = 1e6, 16.0
_N_SUBSETS = 8  # random subsets of the views of a complete row
_MIN_ROWS = 10  # with a label, to find that a view is worse than the prior


@dataclass(frozen=True)
class PriorWeights:
    """Weights before any label was seen, and how many labels they are worth.

    Parameters
    ----------
    labeled : tuple of float
        Weights of the `PREDICTORS` of a view with labels.
    transferred : tuple of float
        Those of a view without labels.
    joint : float
        Weight of the ridge regression on all views of a row.
    power : float
        The views of a row are weighted by their number to the power of −`power`.
    shrinkage : float
        Penalty of squared differences between logarithms of weights and of these.
    """

    labeled: tuple[float, ...]
    transferred: tuple[float, ...]
    joint: float = 0.25
    power: float = 0.5
    shrinkage: float = 1.0

    @classmethod
    def of(cls, names: Sequence[str]) -> PriorWeights:
        """Those of some predictors by their names; 1 of a predictor that is alone."""
        if len(names) == 1:
            return cls((1.0,), (1.0,))
        weights = [PREDICTORS[name].prior_weights for name in names]
        labeled, transferred = zip(*weights, strict=True)
        return cls(labeled, transferred)


@dataclass(frozen=True)
class ScoresOutOfFold:
    """Scores of rows whose labels were left out.

    Parameters
    ----------
    scores : ndarray of shape (n_rows, n_views, n_predictors, n_classes)
        Log-likelihoods of the classes by the predictors of every view.
    joint : ndarray of shape (n_rows, n_classes)
        Those by the joint predictor; 0 without one.
    present : ndarray of bool, shape (n_rows, n_views)
        Which views count in a row.
    target : ndarray of int64
        The true classes.
    """

    scores: Array
    joint: Array
    present: Array
    target: IntArray

    @classmethod
    def concatenate(cls, folds: Sequence[ScoresOutOfFold]) -> ScoresOutOfFold:
        """The rows of all folds."""
        return cls(*(np.concatenate([getattr(f, x.name) for f in folds]) for x in fields(cls)))

    def take(self, rows: IntArray) -> ScoresOutOfFold:
        """Some of the rows, by number."""
        return ScoresOutOfFold(*(getattr(self, x.name)[rows] for x in fields(self)))


@dataclass(frozen=True)
class ScoresWithout:
    """What differs in `ScoresOutOfFold` of the same rows where one of their views is left out.

    Parameters
    ----------
    joint : ndarray of shape (n_rows, n_views, n_classes)
        Log-likelihoods by the joint predictor without view s, in ``[:, s]``; 0 without one.
    present : ndarray of bool, shape (n_rows, n_views, n_views)
        Which views count in a row without view s, in ``[:, s]``; none where the row has no view s.
    """

    joint: Array
    present: Array


@dataclass(frozen=True)
class SuperLearner:
    r"""Weights of predictors, whose log-likelihoods are added to the logarithm of one prior.

    .. math:: \log p = \log π + \sum_s u_s n^{-a} \sum_m w_{sm} \ell_{sm} + u_0 \ell_0

    Parameters
    ----------
    predictors : tuple of tuple of float
        w: weights of the `PREDICTORS` of every view.
    complete : tuple of float
        u of the views and, last, of the joint predictor, for rows with all views (a is 0).
    partial : tuple of float
        The same for rows with some of the views.
    power : float
        a; n is the number of views of such a row. A row of one view has no other weights than w.
    log_prior : tuple of tuple of float
        log π of the rows of every view; that of a row is the mean over its views.
    """

    predictors: tuple[tuple[float, ...], ...]
    complete: tuple[float, ...]
    partial: tuple[float, ...]
    power: float
    log_prior: tuple[tuple[float, ...], ...]

    def check(self, n_views: int, n_classes: int, n_predictors: int) -> None:
        """Raise an error unless these weigh as many views, classes and predictors."""
        sizes = (len(self.predictors), len(self.complete), len(self.partial), len(self.log_prior))
        fits = sizes == (n_views, n_views + 1, n_views + 1, n_views)
        fits = fits and all(len(row) == n_predictors for row in self.predictors)
        fits = fits and all(len(row) == n_classes for row in self.log_prior)
        require(fits, "its super learner is of other views or classes than it has")
        weights = (*self.complete, *self.partial, *(w for row in self.predictors for w in row))
        fits = all(0 <= w <= _MAX_WEIGHT for w in weights) and abs(self.power) <= _MAX_POWER
        fits = fits and all(abs(x) <= _MAX_WEIGHT for row in self.log_prior for x in row)
        require(fits, f"its super learner cannot be {shorten(self)}")

    def combine(self, scores: Tensor, joint: Tensor | None, present: Tensor) -> Tensor:
        """Log-probabilities of the classes, (n_rows, n_classes).

        Parameters
        ----------
        scores : Tensor of float64, shape (n_rows, n_views, n_predictors, n_classes)
            As of `ScoresOutOfFold`.
        joint : Tensor of float64, shape (n_rows, n_classes), or None
            Scores of the joint predictor, if there is one.
        present : Tensor of bool, shape (n_rows, n_views)
            Which views count.

        Returns
        -------
        Tensor
            Equal for all classes in rows in which no view counts.
        """
        weight, of_joint, log_prior = self.weigh_views(present)
        predictors = constant(self.predictors, scores.device, scores.dtype)
        by_view = (scores * predictors.unsqueeze(2)).sum(2)
        pooled = (by_view * weight.unsqueeze(2)).sum(1) + log_prior
        if joint is not None:
            pooled = pooled + joint * of_joint
        return pooled.log_softmax(1)

    def weigh_views(self, present: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Weights of every row's views and of its joint predictor, and its prior.

        Parameters
        ----------
        present : Tensor of bool, shape (n_rows, n_views)
            Which views count.

        Returns
        -------
        views : Tensor of float64, shape (n_rows, n_views)
            u_s n^(−a); 0 for views that do not count.
        joint : Tensor of float64, shape (n_rows, 1)
            u_0; 0 in rows of one view.
        log_prior : Tensor of float64, shape (n_rows, n_classes)
            The mean of log π over the views that count.
        """
        device = present.device
        number = present.sum(1, keepdim=True).clamp_min(1).double()
        log_prior = present.double() / number @ constant(self.log_prior, device)
        n_views = present.shape[1]
        partial, complete = constant(self.partial, device), constant(self.complete, device)
        weight = partial[:n_views] * number**-self.power
        weight = complete[:n_views].where(number == n_views, weight)
        of_joint = complete[-1].where(number == n_views, partial[-1])
        weight = weight.where(number > 1, torch.ones_like(weight))
        return weight * present, of_joint * (number > 1), log_prior


def fit_super_learner(
    folds: Sequence[ScoresOutOfFold],
    log_prior: Array,
    has_labels: Sequence[bool],
    random: np.random.Generator,
    prior: PriorWeights,
) -> SuperLearner:
    """Fit weights by maximum likelihood of left-out labels, shrunk to prior weights.

    First the predictors of every view are weighted for rows that have this view, then views against
    each other and the joint predictor. A view whose predictions are worse than the prior
    probabilities by more than one standard error gets no weight.

    Parameters
    ----------
    folds : sequence of ScoresOutOfFold
        Scores by ensemble members that left out different labels.
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities, by view.
    has_labels : sequence of bool
        Which views have labels; others get theirs from these.
    random : numpy Generator
        Source of random subsets of the views of complete rows.
    prior : PriorWeights
        The prior weights.

    Returns
    -------
    SuperLearner
        The weights.
    """
    n_views = len(log_prior)
    start = [prior.labeled if known else prior.transferred for known in has_labels]
    equal = np.r_[np.full(n_views, n_views**-prior.power), prior.joint]
    equal_partial = np.r_[np.ones(n_views), prior.joint]
    log_pi = tuple(map(tuple, log_prior.tolist()))
    if sum(len(fold.target) for fold in folds) == 0:
        return SuperLearner(
            tuple(map(_floats, start)), _floats(equal), _floats(equal_partial), prior.power, log_pi
        )
    rows = ScoresOutOfFold.concatenate(folds)
    w = np.array(start, dtype=np.float64)
    for s, log_pi_s in enumerate(log_prior):
        has = rows.present[:, s]
        scores, target = rows.scores[has, s], rows.target[has]
        if len(target) > 0:
            w[s] = fit_weights(scores, target, log_pi_s, w[s], prior.shrinkage)
            log_p = log_softmax(np.einsum("nmk,m->nk", scores, w[s]) + log_pi_s, axis=1)
            loss = log_softmax(log_pi_s)[target] - log_p[np.arange(len(target)), target]
            if len(target) >= _MIN_ROWS and loss.mean() > loss.std() / np.sqrt(len(target)):
                w[s] = 0.0
    by_view = np.einsum("nsmk,sm->nsk", rows.scores, w)
    # The joint predictor is one more: rows of one view do not ask it.
    by_view = np.concatenate([by_view, rows.joint[:, None]], axis=1)
    # As in `weigh_views`, the prior of a row is the mean over its views.
    number = np.maximum(rows.present.sum(axis=1, keepdims=True), 1)
    offset = (rows.present / number) @ log_prior
    whole: Array = np.all(rows.present, axis=1)
    present = np.c_[rows.present, rows.present.sum(axis=1) > 1]
    complete, _ = _fit_views(by_view, present, rows.target, offset, equal, 0.0, whole, prior)
    subsets, source = _partial_rows(present, whole, random)
    weight = 1 / np.bincount(source, minlength=len(whole)).clip(1)[source]
    number = np.maximum(subsets[:, :-1].sum(axis=1, keepdims=True), 1)
    partial, power = _fit_views(
        by_view[source],
        subsets,
        rows.target[source],
        (subsets[:, :-1] / number) @ log_prior,
        equal_partial,
        prior.power,
        subsets[:, :-1].sum(axis=1) > 1,
        prior,
        weight,
    )
    predictors = tuple(map(_floats, w))
    return SuperLearner(predictors, _floats(complete), _floats(partial), power, log_pi)


def average_predictors(log_prior: Array, *, joint: bool, joint_only: bool = False) -> SuperLearner:
    """Equal weights that add up to 1, of views with one predictor each.

    Parameters
    ----------
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities, by view.
    joint : bool
        Whether there is a joint predictor of rows that have all views.
    joint_only : bool, default=False
        Whether it alone predicts these rows.
    """
    n_views, log_pi = len(log_prior), tuple(map(tuple, log_prior.tolist()))
    complete = np.full(n_views + 1, 1 / (n_views + joint))
    if joint_only:
        complete = np.r_[np.zeros(n_views), 1.0]
    partial = np.r_[np.ones(n_views), 0.0]
    return SuperLearner(((1.0,),) * n_views, _floats(complete), _floats(partial), 1.0, log_pi)


def fit_weights(
    scores: Array, target: IntArray, offset: Array, start: Array, shrinkage: float
) -> Array:
    """Positive weights of predictors whose log-likelihoods are added to an offset.

    `scores` are log-likelihoods (n_rows, n_predictors, n_classes); `shrinkage` is the penalty of
    squared differences between the logarithms of weights and of prior ones, `start`.
    """
    x, _ = _minimize(scores, target, offset, np.asarray(start), 0.0, shrinkage)
    return x


def _fit_views(
    by_view: Array,
    present: Array,
    target: IntArray,
    offset: Array,
    start: Array,
    power: float,
    chosen: Array,
    prior: PriorWeights,
    row_weight: Array | None = None,
) -> tuple[Array, float]:
    """Weights of views and, last, of the joint predictor, from chosen rows."""
    if not chosen.any():
        return start, power
    number = np.maximum(present[:, :-1].sum(axis=1), 1).astype(np.float64)
    return _minimize(
        by_view[chosen] * present[chosen][:, :, None],
        target[chosen],
        offset[chosen],
        start,
        power,
        prior.shrinkage,
        number[chosen],
        None if row_weight is None else row_weight[chosen],
    )


def _minimize(
    scores: Array,
    target: IntArray,
    offset: Array,
    start: Array,
    power: float,
    shrinkage: float,
    number: Array | None = None,
    row_weight: Array | None = None,
) -> tuple[Array, float]:
    """Weights, and the power of the number of views; a power of 0 stays 0."""
    from scipy.optimize import minimize

    rows, n = np.arange(len(target)), len(target)
    log_n = np.zeros(n) if number is None else np.log(number)
    count = np.ones(n) if row_weight is None else row_weight
    x0 = np.r_[np.log(start), power]
    strength = np.full(len(x0), shrinkage)
    has_joint = number is not None  # the last predictor, which the power does not concern

    def loss(x: Array) -> tuple[float, Array]:
        w = np.exp(x[:-1])[None] * np.ones((n, 1))
        scale = np.exp(-x[-1] * log_n)
        w[:, : len(start) - has_joint] *= scale[:, None]
        weighted = scores * w[:, :, None]
        log_p = log_softmax(weighted.sum(axis=1) + offset, axis=1)
        off = x - x0
        value = -(count * log_p[rows, target]).sum() + (strength * off * off).sum()
        slope = np.exp(log_p)
        slope[rows, target] -= 1
        slope *= count[:, None]
        each = np.einsum("nek,nk->ne", weighted, slope)
        by_power = -(each[:, : len(start) - has_joint].sum(axis=1) @ log_n) * (power > 0)
        return value, np.r_[each.sum(axis=0), by_power] + 2 * strength * off

    x = minimize(loss, x0, jac=True, method="L-BFGS-B").x
    return np.exp(x[:-1]), float(x[-1])


def _partial_rows(
    present: Array, whole: Array, random: np.random.Generator
) -> tuple[Array, IntArray]:
    """Rows that lack views, and random subsets of the views of others; and whose they are.

    The joint predictor of a complete row says nothing about subsets of its views.
    """
    lacking = np.flatnonzero(~whole)
    repeated = np.repeat(np.flatnonzero(whole), _N_SUBSETS)
    n_views = present.shape[1] - 1
    order = random.random((len(repeated), n_views)).argsort(axis=1)
    kept = order < random.integers(1, n_views + 1, size=(len(repeated), 1))
    subsets = np.c_[kept, np.zeros(len(repeated), dtype=bool)]
    return np.vstack([present[lacking], subsets]), np.concatenate([lacking, repeated])


def _floats(values: Iterable[float]) -> tuple[float, ...]:
    return tuple(float(x) for x in values)
