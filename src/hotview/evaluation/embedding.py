"""The common space in two dimensions: principal components and, if it is installed, UMAP."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from hotview._types import Array, IntArray

_MAX_POINTS = 2400  # keeps the page small and readable
_DIGITS = 4
_NEIGHBORS = 15  # of UMAP


@dataclass(frozen=True)
class Layout:
    """Coordinates of all points in two dimensions, and the names of the axes."""

    name: str
    axes: list[str]
    points: list[list[float]]


@dataclass(frozen=True)
class Embedding:
    """Points of the common space: view, individual and classes of each point (−1: unknown).

    `ids` are those of the individuals; `linked` is True if an individual can be in several views;
    `reason` explains a missing UMAP layout.
    """

    layouts: list[Layout]
    views: list[int]
    individuals: list[int]
    truth: list[int]
    predicted: list[int]
    ids: list[str]
    linked: bool
    n_points: int
    reason: str = ""


@dataclass(frozen=True)
class ViewLatents:
    """Latents of the rows of one view.

    Parameters
    ----------
    Z : ndarray of shape (n, d)
        The latents; NaN for absent rows.
    ids : list of str
        Ids of the rows; rows of different views with one id are one individual.
    truth, predicted : ndarray of int64
        Class codes; −1 where unknown.
    """

    Z: Array
    ids: list[str]
    truth: IntArray
    predicted: IntArray


def embed_views(views: Mapping[int, ViewLatents], *, linked: bool, umap: bool) -> Embedding:
    """Embed rows of all views by principal components and, optionally, by UMAP.

    Parameters
    ----------
    views : dict of int to ViewLatents
        Latents by index of their view.
    linked : bool
        Whether equal ids mean the same individual; otherwise each row is an individual.
    umap : bool
        Whether to add a UMAP layout if umap-learn is installed.

    Returns
    -------
    Embedding
        At most 2,400 points; individuals are sampled at random if there are more.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.evaluation.embedding import ViewLatents, embed_views
    >>> none = np.full(3, -1)
    >>> rows = ViewLatents(np.eye(3), ["a", "b", "c"], none, none)
    >>> embedding = embed_views({0: rows, 1: rows}, linked=True, umap=False)
    >>> embedding.individuals, [layout.name for layout in embedding.layouts]
    ([0, 1, 2, 0, 1, 2], ['PCA'])
    """
    present = {s: np.flatnonzero(~np.isnan(rows.Z).any(axis=1)) for s, rows in views.items()}
    Z = np.vstack([rows.Z[present[s]] for s, rows in views.items()]).astype(np.float64)
    view = np.concatenate([np.full(len(kept), s) for s, kept in present.items()])
    ids = [rows.ids[i] for s, rows in views.items() for i in present[s]]
    truth = np.concatenate([rows.truth[present[s]] for s, rows in views.items()])
    predicted = np.concatenate([rows.predicted[present[s]] for s, rows in views.items()])
    codes = {name: i for i, name in enumerate(dict.fromkeys(ids))}
    individual = np.array([codes[name] for name in ids]) if linked else np.arange(len(Z))
    counts = np.bincount(individual)
    order = np.random.default_rng(0).permutation(len(counts))
    chosen = order[np.cumsum(counts[order]) <= _MAX_POINTS]
    shown = np.flatnonzero(np.isin(individual, chosen))
    kept, renumbered = np.unique(individual[shown], return_inverse=True)
    names = dict(zip(individual.tolist(), ids, strict=True))
    layouts, reason = [_embed_pca(Z, shown)], ""
    if umap:
        layout, reason = _embed_umap(Z[shown])
        layouts += [layout] if layout else []
    return Embedding(
        layouts,
        view[shown].tolist(),
        renumbered.tolist(),
        truth[shown].tolist(),
        predicted[shown].tolist(),
        [names[key] for key in kept.tolist()],
        linked,
        len(Z),
        reason,
    )


def _embed_pca(Z: Array, shown: IntArray) -> Layout:
    """Principal components of all rows, signed so that the largest loading is positive."""
    centered = Z - Z.mean(axis=0)
    values, V = np.linalg.eigh(centered.T @ centered)
    V = np.pad(V, ((0, 0), (1, 0)))[:, :-3:-1]  # one-dimensional spaces get a second axis of zeros
    V = V * np.where(V[np.abs(V).argmax(axis=0), [0, 1]] < 0, -1.0, 1.0)
    ratios = np.r_[0.0, values].clip(min=0)[:-3:-1] / max(values.sum(), np.finfo(float).tiny)
    axes = [f"component {k} ({100 * x:.0f} % of variance)" for k, x in enumerate(ratios, start=1)]
    return Layout("PCA", axes, (centered[shown] @ V).round(_DIGITS).tolist())


def _embed_umap(Z: Array) -> tuple[Layout | None, str]:
    """Return a UMAP layout, or None and the reason."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # numba's, and that a seed implies one thread
        try:
            from umap import UMAP  # type: ignore[import-untyped]
        except ImportError:
            return None, "umap-learn is not installed"
        if len(Z) <= _NEIGHBORS:
            return None, f"UMAP needs more than {_NEIGHBORS} points"
        try:
            points = UMAP(n_neighbors=_NEIGHBORS, random_state=0, n_jobs=1).fit_transform(Z)
        except Exception as error:  # the report does without this picture
            return None, f"UMAP failed ({type(error).__name__})"
    return Layout("UMAP", ["", ""], points.astype(float).round(_DIGITS).tolist()), ""
