"""Ridge regression on the columns of all views, which knows how wrong it is on rows left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import log_softmax

from hotview._types import Array, IntArray

__all__ = ["Ridge", "fit_ridge"]

_PENALTIES = 10.0 ** np.arange(-4, 2)  # as shares of the mean squared length of a row
_SHARPNESS = np.exp(np.linspace(-1, 4, 26))


@dataclass(frozen=True)
class Ridge:
    """Class scores that are linear in the columns of all views.

    Parameters
    ----------
    weights : list of ndarray of shape (n_columns, n_classes)
        Of the standardized columns of every view.
    intercept : ndarray of shape (n_classes,)
        Of all classes.
    """

    weights: list[Array]
    intercept: Array


def fit_ridge(Xs: Sequence[Array], target: IntArray, class_weight: Array) -> Ridge:
    r"""NetworkFit one-hot classes by least squares, every view counting alike.

    .. math:: \min_B \sum_i w_i \|y_i - \tfrac1K - x_i B\|^2 + λ \|B\|^2

    The penalty λ, and a factor that makes probabilities of the scores, are those for which rows
    that are left out, one at a time, are most probable; no row needs to be left out for that, the
    diagonal of the projection tells.

    Parameters
    ----------
    Xs : sequence of ndarray of shape (n_rows, n_columns)
        Standardized rows of every view; row i is the same individual in all of them.
    target : ndarray of int64
        Their classes, each of which occurs.
    class_weight : ndarray of shape (n_classes,)
        What each class weighs in all.

    Returns
    -------
    Ridge
        Scores whose softmax are probabilities.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.ridge import fit_ridge
    >>> X = np.array([[-1.0], [-0.9], [0.9], [1.0]])
    >>> ridge = fit_ridge([X, -X], np.array([0, 0, 1, 1]), np.ones(2))
    >>> (X @ ridge.weights[0] - X @ ridge.weights[1] + ridge.intercept).argmax(axis=1)
    array([0, 0, 1, 1])
    """
    some = class_weight[target] > 0  # nothing is learned from a class of weight 0
    Xs, target = [X[some] for X in Xs], target[some]
    n, n_classes = len(target), len(class_weight)
    # Divided by the root of their number, the columns of every view weigh 1 together.
    X = np.hstack([X.astype(np.float64) / np.sqrt(X.shape[1]) for X in Xs])
    length = np.sqrt(max(float((X * X).sum()) / n, np.finfo(np.float64).tiny))
    X = np.hstack([X / length, np.ones((n, 1))])
    counts = np.bincount(target, minlength=n_classes)
    w = np.sqrt(class_weight[target] / counts[target])
    w *= np.sqrt(n / (w * w).sum())
    Y = np.eye(n_classes)[target] - 1 / n_classes
    B = _best(X * w[:, None], Y * w[:, None], w, target)
    parts = np.split(B[:-1] / length, np.cumsum([X.shape[1] for X in Xs])[:-1])
    weights = [part / np.sqrt(X.shape[1]) for part, X in zip(parts, Xs, strict=True)]
    return Ridge(weights, B[-1])


def _best(X: Array, Y: Array, w: Array, target: IntArray) -> Array:
    """Coefficients for the penalty and sharpness under which rows left out are most probable."""
    n, wide = len(X), X.shape[1] > len(X)
    values, V = np.linalg.eigh(X @ X.T if wide else X.T @ X)
    values = np.maximum(values, 0.0)
    U = V if wide else X @ V  # else columns of U carry the singular values
    seen = U.T @ Y
    best, penalty, sharpness = np.inf, 0.0, 0.0
    for lam in _PENALTIES * n:
        shrink = values / (values + lam) if wide else 1 / (values + lam)
        kept = np.minimum(((U * U) * shrink).sum(axis=1), 1 - 1e-9)
        out = (Y - (Y - (U * shrink) @ seen) / (1 - kept)[:, None]) / w[:, None]
        for t in _SHARPNESS:
            loss = -log_softmax(t * out, axis=1)[np.arange(n), target].mean()
            if loss < best:
                best, penalty, sharpness = loss, lam, t
    solved = seen / (values + penalty)[:, None]
    B: Array = X.T @ (U @ solved) if wide else V @ solved
    return sharpness * B
