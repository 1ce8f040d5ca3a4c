"""The common space in two dimensions."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotview._types import Array, IntArray
from hotview.evaluation.record.schema import Layout, Space

__all__ = ["LatentRows", "project"]

_POINTS = 2400  # that a page can hold and a person can look at
_DIGITS = 4
_NEIGHBORS = 15  # of UMAP


@dataclass(frozen=True)
class LatentRows:
    """Rows of one view in the common space.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        Their latents; NaN for absent rows.
    ids : list of str
        Who they are; rows of different views with one id are one individual.
    truth, predicted : ndarray of int64
        Their classes by number; −1 where unknown.
    """

    Z: Array
    ids: list[str]
    truth: IntArray
    predicted: IntArray


def project(views: Mapping[int, LatentRows], *, linked: bool, umap: bool) -> Space:
    """Lay out points of all views, by principal components of all rows and, if wanted, by UMAP.

    Parameters
    ----------
    views : dict of int to LatentRows
        Rows by the number of their view.
    linked : bool
        Whether equal ids mean the same individual; otherwise every row is its own.
    umap : bool
        Whether to lay out by UMAP too, where umap-learn is installed.

    Returns
    -------
    Space
        Up to 2,400 points; individuals are drawn at random where there are more.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.evaluation.record.embedding import LatentRows, project
    >>> none = np.full(3, -1)
    >>> rows = LatentRows(np.eye(3), ["a", "b", "c"], none, none)
    >>> space = project({0: rows, 1: rows}, linked=True, umap=False)
    >>> space.individuals, [layout.name for layout in space.layouts]
    ([0, 1, 2, 0, 1, 2], ['PCA'])
    """
    there = {s: np.flatnonzero(~np.isnan(rows.Z).any(axis=1)) for s, rows in views.items()}
    Z = np.vstack([rows.Z[there[s]] for s, rows in views.items()]).astype(np.float64)
    view = np.concatenate([np.full(len(kept), s) for s, kept in there.items()])
    ids = [rows.ids[i] for s, rows in views.items() for i in there[s]]
    truth = np.concatenate([rows.truth[there[s]] for s, rows in views.items()])
    predicted = np.concatenate([rows.predicted[there[s]] for s, rows in views.items()])
    who = _individuals(ids) if linked else np.arange(len(Z))
    shown = _sample(who)
    kept, individuals = np.unique(who[shown], return_inverse=True)
    names = dict(zip(who.tolist(), ids, strict=True))
    layouts, reason = [_components(Z, shown)], ""
    if umap:
        found, reason = _neighbors(Z[shown])
        layouts += [found] if found else []
    return Space(
        layouts,
        view[shown].tolist(),
        individuals.tolist(),
        truth[shown].tolist(),
        predicted[shown].tolist(),
        [names[key] for key in kept.tolist()],
        linked,
        len(Z),
        reason,
    )


def _individuals(ids: list[str]) -> IntArray:
    """Number ids in the order in which they come."""
    numbers = {name: i for i, name in enumerate(dict.fromkeys(ids))}
    return np.array([numbers[name] for name in ids], dtype=np.int64)


def _sample(who: IntArray) -> IntArray:
    """Points of as many whole individuals as there is room for."""
    counts = np.bincount(who)
    order = np.random.default_rng(0).permutation(len(counts))
    chosen = order[np.cumsum(counts[order]) <= _POINTS]
    return np.flatnonzero(np.isin(who, chosen))


def _components(Z: Array, shown: IntArray) -> Layout:
    """Leading principal components, signs such that the largest loading is positive."""
    centered = Z - Z.mean(axis=0)
    values, V = np.linalg.eigh(centered.T @ centered)
    V = np.pad(V, ((0, 0), (1, 0)))[:, :-3:-1]  # a space of one dimension gets a second of zeros
    V = V * np.where(V[np.abs(V).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    shares = np.r_[0.0, values].clip(min=0)[:-3:-1] / max(values.sum(), np.finfo(float).tiny)
    axes = [f"component {k} ({100 * x:.0f} % of variance)" for k, x in enumerate(shares, start=1)]
    return Layout("PCA", axes, (centered[shown] @ V).round(_DIGITS).tolist())


def _neighbors(Z: Array) -> tuple[Layout | None, str]:
    """A layout by UMAP, or why there is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of numba's compiler, and that a seed means one thread
            from umap import UMAP  # type: ignore[import-untyped]
    except ImportError:
        return None, "umap-learn is not installed"
    if len(Z) <= _NEIGHBORS:
        return None, f"UMAP needs more than {_NEIGHBORS} points"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = UMAP(n_neighbors=_NEIGHBORS, random_state=0, n_jobs=1)
            places = model.fit_transform(Z)
        except Exception as error:  # it is a picture: the page does without
            return None, f"UMAP failed ({type(error).__name__})"
    return Layout("UMAP", ["", ""], places.astype(float).round(_DIGITS).tolist()), ""
