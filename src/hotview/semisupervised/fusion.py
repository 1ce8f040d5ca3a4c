"""Log-linear opinion pool of predictors, with weights from out-of-fold predictions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from hotview._codec import require, shorten
from hotview._types import Array, IntArray
from hotview.ot._backend import constant

__all__ = ["LogOpinionPool", "OutOfFold", "fit_pool"]

_SHRINKAGE = 0.5  # of log-weights toward equal weights: a prior worth a few rows
_TOTAL = 1.5  # sum of the equal weights of complete rows
_JOINT = 0.3  # equal weight of the joint predictor, relative to a view's
_SINGLE = 3.0  # equal weight of a view in partial rows, if there were only one view
_POWER, _POWER_SHRINKAGE = 0.7, 4.0
_MAX_WEIGHT = 1e6  # of a predictor; fits give about 1
_MAX_POWER = 16  # fits give about 1
_N_SUBSETS = 8  # random subsets of the views of a row, from which partial weights are fitted


@dataclass(frozen=True)
class OutOfFold:
    """Predictions of one ensemble member for rows whose labels it was not trained on.

    Parameters
    ----------
    log_probs : ndarray of shape (n_rows, n_predictors, n_classes)
        Log-probabilities by every view and, last, by all views jointly.
    present : ndarray of bool, shape (n_rows, n_predictors)
        Which of the predictions exist.
    target : ndarray of int64
        The true classes.
    """

    log_probs: Array
    present: Array
    target: IntArray


@dataclass(frozen=True)
class LogOpinionPool:
    r"""Weights of predictors: :math:`p \propto \prod_e p_e^{w_e}`.

    Parameters
    ----------
    complete : tuple of float
        Weights of the views and, last, of the joint predictor, for rows with all views.
    partial : tuple of float
        Weights of the views for other rows.
    power : float
        The weighted sum of such a row is divided by this power of its number of predictors.
    """

    complete: tuple[float, ...]
    partial: tuple[float, ...]
    power: float

    def check(self, n_views: int) -> None:
        """Raise an error unless these are weights that predict, of as many views.

        Parameters
        ----------
        n_views : int
            Number of views.
        """
        sizes = (len(self.complete), len(self.partial))
        require(sizes == (n_views + 1, n_views), "its pool is of other views than it has")
        weights = (*self.complete, *self.partial)
        fits = all(0 <= w <= _MAX_WEIGHT for w in weights) and abs(self.power) <= _MAX_POWER
        require(fits, f"its pool cannot be {shorten(self)}")

    def combine(self, log_probs: Tensor, present: Tensor) -> Tensor:
        """Pooled log-probabilities, (n_rows, n_classes).

        Parameters
        ----------
        log_probs : Tensor of shape (n_rows, n_predictors, n_classes)
            As of `OutOfFold`.
        present : Tensor of bool, shape (n_rows, n_predictors)
            Which of them count.

        Returns
        -------
        Tensor
            Equal for all classes in rows without any prediction.
        """
        n = len(self.partial)
        of_views = present[:, :n]
        weight = of_views * constant(self.partial, log_probs.device, log_probs.dtype)
        weight = weight / of_views.sum(1, keepdim=True).clamp_min(1) ** self.power
        pooled = (log_probs[:, :n] * weight.unsqueeze(2)).sum(1)
        if log_probs.shape[1] > n:
            weight = constant(self.complete, log_probs.device, log_probs.dtype)
            joint = (log_probs * (present * weight).unsqueeze(2)).sum(1)
            pooled = pooled.where(~present[:, -1:], joint)
        return pooled.log_softmax(1)


def fit_pool(
    folds: Sequence[OutOfFold], n_views: int, random: np.random.Generator
) -> LogOpinionPool:
    """Fit pool weights by maximum likelihood of the out-of-fold labels.

    Weights are shrunk toward equal ones, the more so the fewer labels there are; without labels
    they are equal.

    Parameters
    ----------
    folds : sequence of OutOfFold
        Predictions of ensemble members that left out different labels.
    n_views : int
        Number of views.
    random : numpy Generator
        Source of the random subsets of views from which the weights of partial rows are fitted.

    Returns
    -------
    LogOpinionPool
        The weights.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.fusion import OutOfFold, fit_pool
    >>> y = np.arange(40) % 2
    >>> right = np.log(np.where(np.eye(2)[y] > 0, 0.9, 0.1))
    >>> log_probs = np.stack([right, np.zeros((40, 2)), right], axis=1)
    >>> fold = OutOfFold(log_probs, np.ones((40, 3), dtype=bool), y)
    >>> pool = fit_pool([fold], 2, np.random.default_rng(0))
    >>> pool.complete[0] > pool.complete[1]
    True
    """
    from scipy.special import log_softmax

    equal = np.r_[np.ones(n_views), _JOINT]
    equal *= _TOTAL / equal.sum()
    equal_partial = np.full(n_views, _SINGLE / np.sqrt(n_views))
    if sum(len(fold.target) for fold in folds) == 0:
        return LogOpinionPool(tuple(equal.tolist()), tuple(equal_partial.tolist()), _POWER)
    log_probs = log_softmax(np.concatenate([fold.log_probs for fold in folds]), axis=2)
    present = np.concatenate([fold.present for fold in folds])
    target = np.concatenate([fold.target for fold in folds])
    whole = present[:, -1]
    complete, _ = _fit_weights(log_probs[whole], present[whole], target[whole], equal, 0.0)
    subsets = _random_subsets(present[:, :n_views], random)
    rows = np.repeat(np.arange(len(target)), _N_SUBSETS)
    partial, power = _fit_weights(
        log_probs[:, :n_views][rows], subsets, target[rows], equal_partial, _POWER, 1 / _N_SUBSETS
    )
    return LogOpinionPool(tuple(complete.tolist()), tuple(partial.tolist()), power)


def _random_subsets(present: Array, random: np.random.Generator) -> Array:
    """Random subsets of the views of every row: at least one view, all sizes equally likely."""
    repeated = np.repeat(present, _N_SUBSETS, axis=0)
    order = random.random(repeated.shape).argsort(axis=1)
    kept = order < random.integers(1, repeated.shape[1] + 1, size=(len(repeated), 1))
    subset: Array = repeated & kept
    return np.where(subset.any(axis=1, keepdims=True), subset, repeated)


def _fit_weights(
    log_probs: Array,
    present: Array,
    target: IntArray,
    equal: Array,
    power: float,
    row_weight: float = 1.0,
) -> tuple[Array, float]:
    """Weights, and the power of the number of predictors; a power of 0 stays 0."""
    from scipy.optimize import minimize
    from scipy.special import log_softmax

    n_predictors, rows = log_probs.shape[1], np.arange(len(target))
    start = np.r_[np.log(equal), power]
    strength = np.r_[np.full(n_predictors, _SHRINKAGE), _POWER_SHRINKAGE]
    number = np.maximum(present.sum(axis=1), 1).astype(np.float64)
    masked = log_probs * present[:, :, None]

    def loss(x: Array) -> tuple[float, Array]:
        w, divisor = np.exp(x[:-1]), number ** -x[-1]
        z = np.einsum("nek,e->nk", masked, w) * divisor[:, None]
        log_p = log_softmax(z, axis=1)
        off = x - start
        value = -row_weight * log_p[rows, target].sum() + (strength * off * off).sum()
        slope = np.exp(log_p)
        slope[rows, target] -= 1
        slope *= row_weight
        by_weight = np.einsum("nek,nk->e", masked, slope * divisor[:, None]) * w
        by_power = -(slope * z).sum(axis=1) @ np.log(number)
        return value, np.r_[by_weight, by_power * (power > 0)] + 2 * strength * off

    x = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return np.exp(x[:-1]), float(x[-1])
