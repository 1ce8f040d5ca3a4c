"""How much each judgment counts: weights from labels that those who judge did not see."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import log_softmax
from torch import Tensor, tensor

from hotview._types import Array, IntArray

__all__ = ["LogOpinionPool", "OutOfFold", "fit_pool"]

_SHRINKAGE = 0.5  # of the logarithms of weights to equal ones: a prior worth a few rows
_TOGETHER = 1.5  # what equal weights add up to
_JOINT = 0.3  # weight of the joint judgment to begin with, as a share of a view's
_ALONE = 3.0  # weight of a view that is alone, if it were the only one at all
_POWER, _POWER_SHRINKAGE = 0.7, 4.0
_N_SUBSETS = 8  # of the views, by which a row is judged when some are absent


@dataclass(frozen=True)
class OutOfFold:
    """What one replica says about rows whose labels it has not seen.

    Parameters
    ----------
    said : ndarray of shape (n_rows, n_judges, n_classes)
        Logarithms of probabilities by every view and, last, by all views jointly.
    speaks : ndarray of bool, shape (n_rows, n_judges)
        Which of them are about anything.
    target : ndarray of int64
        The classes.
    """

    said: Array
    speaks: Array
    target: IntArray


@dataclass(frozen=True)
class LogOpinionPool:
    r"""Weights of judgments: :math:`p \propto \prod_e p_e^{w_e}`.

    Parameters
    ----------
    complete : tuple of float
        Weights of the views and, last, of their joint judgment, for rows with all of them.
    partial : tuple of float
        Weights of the views for other rows.
    power : float
        By which power of their number the judgments on such a row are divided.
    """

    complete: tuple[float, ...]
    partial: tuple[float, ...]
    power: float

    def scores(self, said: Tensor, speaks: Tensor) -> Tensor:
        """Logarithms of probabilities, (rows, classes), from (rows, judges, classes).

        Parameters
        ----------
        said : Tensor of shape (n_rows, n_judges, n_classes)
            As of `OutOfFold`.
        speaks : Tensor of bool, shape (n_rows, n_judges)
            Which of them count.

        Returns
        -------
        Tensor
            Of rows about which nobody speaks, equal for all classes.
        """
        n = len(self.partial)
        few = speaks[:, :n]
        alone = few * tensor(self.partial, dtype=said.dtype, device=said.device)
        alone = alone / few.sum(1, keepdim=True).clamp_min(1) ** self.power
        found = (said[:, :n] * alone.unsqueeze(2)).sum(1)
        if said.shape[1] > n:
            every = tensor(self.complete, dtype=said.dtype, device=said.device)
            joint = (said * (speaks * every).unsqueeze(2)).sum(1)
            found = found.where(~speaks[:, -1:], joint)
        return found.log_softmax(1)


def fit_pool(held: list[OutOfFold], n_views: int, random: np.random.Generator) -> LogOpinionPool:
    """Find the weights under which labels that were held out are most probable.

    Weights are drawn toward equal ones, the more so the fewer labels there are; without any they
    are equal.

    Parameters
    ----------
    held : list of OutOfFold
        From replicas that left different labels out.
    n_views : int
        Number of views.
    random : numpy Generator
        Which views are taken away, to learn how to do without.

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
    >>> said = np.stack([right, np.zeros((40, 2)), right], axis=1)
    >>> held = OutOfFold(said, np.ones((40, 3), dtype=bool), y)
    >>> pool = fit_pool([held], 2, np.random.default_rng(0))
    >>> pool.complete[0] > pool.complete[1]
    True
    """
    equal = np.r_[np.ones(n_views), _JOINT]
    equal *= _TOGETHER / equal.sum()
    alone = np.full(n_views, _ALONE / np.sqrt(n_views))
    if sum(len(one.target) for one in held) == 0:
        return LogOpinionPool(tuple(equal.tolist()), tuple(alone.tolist()), _POWER)
    said = log_softmax(np.concatenate([one.said for one in held]), axis=2)
    speaks = np.concatenate([one.speaks for one in held])
    target = np.concatenate([one.target for one in held])
    whole = speaks[:, -1]
    complete, _ = _fit(said[whole], speaks[whole], target[whole], equal, 0.0)
    views, some = said[:, :n_views], _take_away(speaks[:, :n_views], random)
    rows = np.repeat(np.arange(len(target)), _N_SUBSETS)
    partial, power = _fit(views[rows], some, target[rows], alone, _POWER, 1 / _N_SUBSETS)
    return LogOpinionPool(tuple(complete.tolist()), tuple(partial.tolist()), power)


def _take_away(speaks: Array, random: np.random.Generator) -> Array:
    """Some of the views of every row, several times: at least one, and any number alike often."""
    several = np.repeat(speaks, _N_SUBSETS, axis=0)
    order = random.random(several.shape).argsort(axis=1)
    kept = order < random.integers(1, several.shape[1] + 1, size=(len(several), 1))
    some: Array = several & kept
    return np.where(some.any(axis=1, keepdims=True), some, several)


def _fit(
    said: Array, speaks: Array, target: IntArray, equal: Array, power: float, counts: float = 1.0
) -> tuple[Array, float]:
    """Weights, and the power of the number of those who speak; 0 stays 0."""
    n_judges, rows = said.shape[1], np.arange(len(target))
    start = np.r_[np.log(equal), power]
    number = np.maximum(speaks.sum(axis=1), 1).astype(np.float64)
    heard = said * speaks[:, :, None]

    def loss(x: Array) -> tuple[float, Array]:
        w, divisor = np.exp(x[:-1]), number ** -x[-1]
        z = np.einsum("nek,e->nk", heard, w) * divisor[:, None]
        log_p = log_softmax(z, axis=1)
        off = x - start
        strength = np.r_[np.full(n_judges, _SHRINKAGE), _POWER_SHRINKAGE]
        value = -counts * log_p[rows, target].sum() + (strength * off * off).sum()
        slope = np.exp(log_p)
        slope[rows, target] -= 1
        slope *= counts
        by_weight = np.einsum("nek,nk->e", heard, slope * divisor[:, None]) * w
        by_power = -(slope * z).sum(axis=1) @ np.log(number)
        return value, np.r_[by_weight, by_power * (power > 0)] + 2 * strength * off

    found = minimize(loss, start, jac=True, method="L-BFGS-B").x
    return np.exp(found[:-1]), float(found[-1])
