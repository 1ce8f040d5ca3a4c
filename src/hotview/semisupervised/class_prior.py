"""Prior probabilities of the classes, from few labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from sklearn.utils.class_weight import compute_class_weight

from hotview._types import Array, IntArray

__all__ = [
    "class_priors",
    "replace_prior",
    "share_evidence",
    "shift_prior",
    "shrink_shares",
    "weigh_classes",
]

_MIN_PRIOR = 1e-12  # of a class of weight 0
_ROUNDING = 1e-6


def share_evidence(counts: npt.ArrayLike, expected: Array) -> float:
    r"""How much shares of labels say beyond chance: a James-Stein factor from 0 to 1.

    .. math:: λ = \max(0, 1 - (K - 1) / χ^2)

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of labels of every class.
    expected : ndarray of shape (n_classes,)
        Expected shares, all positive; :math:`χ^2` is the statistic of their test.

    Returns
    -------
    float
        0 where chance would give such differences.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.class_prior import share_evidence
    >>> share_evidence([5, 7], np.array([0.5, 0.5])), share_evidence([5, 95], np.array([0.5, 0.5]))
    (0.0, 0.987...)
    """
    n_k = np.asarray(counts, dtype=np.float64)
    n = max(n_k.sum(), 1.0)
    chi2 = ((n_k - n_k.sum() * expected) ** 2 / n / expected).sum()
    return float(max(0.0, 1 - (len(n_k) - 1) / chi2)) if chi2 > 0 else 0.0


def shrink_shares(counts: npt.ArrayLike) -> Array:
    r"""Class probabilities by few labels: their shares, shrunk to equal ones.

    .. math:: π_k = λ \frac{n_k}{n} + \frac{1 - λ}{K}, \qquad λ = \frac{χ^2}{χ^2 + K - 1}

    :math:`χ^2` is the statistic of the test of equal classes, whose mean is K − 1 where they are
    equal. (The James-Stein factor of `share_evidence` would ignore a majority that the labels show
    weakly.)

    Parameters
    ----------
    counts : array-like of shape (n_classes,)
        Number of labels of every class.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        Positive probabilities; equal ones without any label.

    Examples
    --------
    >>> from hotview.semisupervised.class_prior import shrink_shares
    >>> shrink_shares([5, 7]).round(2), shrink_shares([5, 95]).round(2)
    (array([0.48, 0.52]), array([0.06, 0.94]))
    """
    n_k = np.asarray(counts, dtype=np.float64)
    n, n_classes = max(n_k.sum(), 1.0), len(n_k)
    chi2 = ((n_k - n_k.sum() / n_classes) ** 2).sum() * n_classes / n
    kept = chi2 / (chi2 + n_classes - 1)
    shares: Array = kept * n_k / n + (1 - kept) / n_classes
    return shares


def _move_shares(counts: Array, expected: Array) -> Array:
    """Shares of labels, as far as they differ from expected ones beyond chance."""
    kept = share_evidence(counts, expected)
    shares: Array = kept * counts / max(counts.sum(), 1.0) + (1 - kept) * expected
    return shares


def class_priors(codes: Sequence[IntArray], n_classes: int) -> Array:
    """Prior probabilities of the classes in every view, by labels of all views.

    Parameters
    ----------
    codes : sequence of ndarray of int64
        Class of every row of every view, −1 where it is unknown.
    n_classes : int
        Number of classes.

    Returns
    -------
    ndarray of float64, shape (n_views, n_classes)
        Those of all labels, shrunk to equal ones; in a view whose labels have other shares beyond
        chance, moved to these.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.class_prior import class_priors
    >>> class_priors([np.repeat([0, 1], [5, 95]), np.array([-1])], 2).round(2)
    array([[0.06, 0.94],
           [0.06, 0.94]])
    """
    counts = np.array([np.bincount(c[c >= 0], minlength=n_classes) for c in codes])
    common = shrink_shares(counts.sum(axis=0) / np.maximum((counts.sum(axis=1) > 0).sum(), 1))
    return np.array([_move_shares(of_view, common) for of_view in counts])


def shift_prior(posterior: Array, population: Array, prior: Array) -> Array:
    r"""Prior probabilities of rows that may have another mix of classes than the labels.

    .. math:: π'_k ∝ π_k \, \hat h_k / h_k

    h are mean class probabilities in the population of the labels, :math:`\hat h` those of the
    rows, shrunk to h like shares of as many labels. Comparing two means of predictions, the errors
    that these have everywhere cancel; because they are soft, a shift is underestimated.

    Parameters
    ----------
    posterior : ndarray of shape (n_rows, n_classes)
        Class probabilities of the rows.
    population : ndarray of shape (n_classes,)
        h: mean class probabilities in the population of the labels.
    prior : ndarray of shape (n_classes,)
        π: prior probabilities of the labels.

    Returns
    -------
    ndarray of float64, shape (n_classes,)
        π'; π itself where the difference may be chance.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.class_prior import shift_prior
    >>> rows = np.array([[0.9, 0.1]] * 80 + [[0.1, 0.9]] * 20)
    >>> shift_prior(rows, np.array([0.5, 0.5]), np.array([0.5, 0.5])).round(2)
    array([0.73, 0.27])
    """
    shrunk = _move_shares(posterior.sum(axis=0), population)
    shifted: Array = prior * shrunk / population
    shifted /= shifted.sum()
    return shifted


def replace_prior(log_prior: Array, class_prior: Any, class_weight: Any, classes: Array) -> Array:
    """Prior probabilities by which rows are predicted, in the place of those of the labels.

    Parameters
    ----------
    log_prior : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the labels, by view.
    class_prior : {None, "uniform"} or dict
        The parameter of the estimator; None keeps those of the labels.
    class_weight : {None, "balanced"} or dict
        The parameter of the estimator: weights that multiply the prior; ``"balanced"`` makes it
        uniform.
    classes : ndarray
        The classes, sorted.

    Returns
    -------
    ndarray of shape (n_views, n_classes)
        Logarithms of probabilities.
    """
    prior = np.exp(log_prior)
    is_uniform = isinstance(class_prior, str) and class_prior == "uniform"
    if is_uniform or (class_prior is None and class_weight == "balanced"):
        prior = np.ones_like(prior)
    elif class_prior is not None:
        prior = np.ones_like(prior) * _read_prior(class_prior, classes)
    if isinstance(class_weight, Mapping):
        prior = prior * [class_weight.get(label, 1.0) for label in classes.tolist()]
    replaced: Array = np.log(np.maximum(prior, _MIN_PRIOR) / prior.sum(axis=1, keepdims=True))
    return replaced


def _read_prior(class_prior: Any, classes: Array) -> Array:
    """Validate prior probabilities by class."""
    names = classes.tolist()
    fits = isinstance(class_prior, Mapping) and set(class_prior) == set(names)
    values = [class_prior[name] for name in names] if fits else []
    are_shares = all(isinstance(p, int | float | np.floating) and 0 < p <= 1 for p in values)
    if not fits or not are_shares or abs(sum(values) - 1) > _ROUNDING:
        raise ValueError(
            f"Expected class_prior to be None, 'uniform' or positive probabilities of the classes "
            f"{names} that add up to 1, but it is {class_prior!r}. Pass a dict of class to "
            "probability."
        )
    return np.array(values, dtype=np.float64)


def weigh_classes(class_weight: Any, codes: IntArray, classes: Array) -> Array | None:
    """Weights of the classes by the labels to train on; None where none are given."""
    if class_weight is None:
        return None
    known = codes[codes >= 0]
    weights: Array = np.ones(len(classes))
    present = np.unique(known)  # labels of other classes may all be held out
    weights[present] = compute_class_weight(
        class_weight, classes=classes[present], y=classes[known]
    )
    if not (weights >= 0).all() or not 0 < weights.sum() < np.inf:
        raise ValueError(
            "Expected class_weight to hold finite numbers of at least 0, not all 0, but the "
            f"weights of {classes.tolist()} are {weights.tolist()}. Use 'balanced'."
        )
    return weights
