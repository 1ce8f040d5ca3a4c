"""Build a record from a fitted estimator and optional rows to evaluate."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, IntArray, Views
from hotview._validation.tables import check_aligned
from hotview.estimators import MultiViewClassifier
from hotview.evaluation.record.model_summary import summarize_model
from hotview.evaluation.record.schema import Embedding, Layout, Record
from hotview.evaluation.record.scores import (
    Predictions,
    encode_truth,
    measure_importance,
    name_views,
    score_baselines,
    score_rows,
)
from hotview.training import progress

__all__ = ["make_record"]

_MAX_POINTS = 2400  # keeps the page small and readable
_DIGITS = 4
_NEIGHBORS = 15  # of UMAP


def make_record(
    estimator: Any,
    views: Views | None = None,
    y: Any = None,
    *,
    ids: Any = None,
    training: Mapping[str, Any] | None = None,
    seen: bool = False,
    groups: Any = None,
    positive: Any = None,
    cost: float | None = None,
    threshold: float | str | None = None,
    umap: bool = True,
    importance: bool = True,
    verbose: bool | str = "auto",
) -> Record:
    """Collect the data of a report on a model.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model, fitted or loaded.
    views : dict, list or tuple of 2-D array-likes, or None, default=None
        Rows to evaluate: aligned rows for a classifier, any rows for an encoder. None leaves out
        all parts of the report that need rows.
    y : 1-D array-like, dict of str to 1-D array-like, or None, default=None
        Classes of the rows, with gaps as in `fit`. For an encoder, they only color the points; a
        dict by view if views have different rows.
    ids : 1-D array-like, dict of str to 1-D array-like, or None, default=None
        Names of the rows. For an encoder, rows of different views with one id are one individual.
    training : dict or None, default=None
        Arguments of the classifier's `fit` by name: with them, baselines and the model without
        coupling are fitted on the same rows and scored on `views`, `y`. Without, the majority
        class alone is compared.
    seen : bool, default=False
        Whether `views` are training rows: accuracies are then optimistically biased.
    groups : 1-D array-like or None, default=None
        The group of every row, as one person seen several times: intervals then resample groups.
    positive, cost, threshold : object
        As for :func:`hotview.evaluation.assess`.
    umap : bool, default=True
        Whether to add a UMAP layout of the common space if umap-learn is installed.
    importance : bool, default=True
        Whether to measure, with labeled rows, which views and columns predictions rely on.
    verbose : bool or "auto", default="auto"
        Whether to show progress; ``"auto"`` does in notebooks and at the prompt.

    Returns
    -------
    Record
        Results of the model, numbers and text.

    Examples
    --------
    >>> from hotview import MultiViewClassifier
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> data = make_views(100, n_views=3, labeled=0.5, random_state=0)
    >>> model = MultiViewClassifier(max_epochs=2, n_estimators=2, random_state=0)
    >>> model = model.fit(data.linked, data.linked_target)
    >>> record = make_record(model, data.linked, data.linked_target, seen=True, umap=False)
    >>> record.scores.accuracy.n, len(record.scores.views)
    (50, 3)
    """
    check_is_fitted(estimator)
    record = summarize_model(estimator, seen=seen)
    if views is None:
        given = {"y": y, "ids": ids, "training": training}
        if names := [name for name, value in given.items() if value is not None]:
            raise ValueError(
                f"Expected views beside {' and '.join(names)}, but there are none. Pass the rows "
                "to evaluate."
            )
        return record
    latents = _compute_latents(estimator, views)
    present = {name: np.asarray(~np.isnan(Z).all(axis=1)) for name, Z in latents.items()}
    record = replace(record, rows={name: int(rows.sum()) for name, rows in present.items()})
    if not isinstance(estimator, MultiViewClassifier):
        if training is not None:
            raise ValueError(
                "Expected training for a classifier, but an encoder predicts nothing that could be "
                "compared. Leave training out."
            )
        return _add_labeled_embedding(record, latents, y, ids, umap=umap)
    check_aligned({name: len(Z) for name, Z in latents.items()})
    given_views = name_views(views, record.views)
    truth = encode_truth(estimator, y, len(next(iter(latents.values()))))
    predictions = Predictions(estimator, {s: given_views[s] for s in latents}, present, truth)
    is_labeled = bool((truth >= 0).any())
    if training is not None and not is_labeled:
        raise ValueError(
            "Expected y beside training, to score all methods on, but no row has a label. Pass y, "
            "or leave training out."
        )
    track = partial(progress.track, shown=progress.wants_progress(verbose))
    units = ids if groups is None else groups
    chosen = {"groups": units, "positive": positive, "cost": cost, "threshold": threshold}
    return replace(
        record,
        n_labeled=int((truth >= 0).sum()),
        scores=score_rows(predictions, track, **chosen) if is_labeled else None,
        embedding=_embed_predictions(record, latents, predictions, ids, umap=umap),
        baselines=score_baselines(predictions, training, track) if is_labeled else None,
        importance=measure_importance(predictions) if is_labeled and importance else None,
    )


def _compute_latents(estimator: Any, views: Views) -> dict[str, Array]:
    """Return the latents of each view by the first ensemble member, NaN for absent rows."""
    latents = name_views(estimator._transform(views, "common"), estimator.view_names_)
    return {
        name: np.asarray(latents[name])[:, : estimator.n_components]
        for name in estimator.view_names_
        if name in latents
    }


def _add_labeled_embedding(
    record: Record, latents: dict[str, Array], y: Any, ids: Any, *, umap: bool
) -> Record:
    """Add the embedding of an encoder's rows, whose labels define the classes."""
    labels = {name: _as_text("y", y, name, len(Z), gap="") for name, Z in latents.items()}
    classes = sorted({label for part in labels.values() for label in part if label})
    codes = {label: k for k, label in enumerate(classes)} | {"": -1}
    rows = {}
    for name, Z in latents.items():
        truth = np.array([codes[label] for label in labels[name]], dtype=np.int64)
        row_ids = _as_text("ids", ids, name, len(Z))
        rows[record.views.index(name)] = ViewLatents(Z, row_ids, truth, np.full(len(Z), -1))
    n_labeled = sum(label != "" for part in labels.values() for label in part)
    embedding = embed_views(rows, linked=ids is not None, umap=umap)
    return replace(record, classes=classes, n_labeled=n_labeled, embedding=embedding)


def _embed_predictions(
    record: Record, latents: dict[str, Array], predictions: Predictions, ids: Any, *, umap: bool
) -> Embedding:
    """Embed a classifier's rows with their true and predicted classes."""
    P = predictions.probabilities(latents)
    predicted = np.where(np.isnan(P).any(axis=1), -1, np.nan_to_num(P).argmax(axis=1))
    row_ids = _as_text("ids", ids, "", len(P))
    rows = {
        record.views.index(name): ViewLatents(Z, row_ids, predictions.truth, predicted)
        for name, Z in latents.items()
    }
    return embed_views(rows, linked=True, umap=umap)


def _as_text(what: str, given: Any, view: str, n_rows: int, *, gap: str | None = None) -> list[str]:
    """Return a view's labels or ids as text, missing ones as `gap`; row numbers if not given."""
    values = given.get(view) if isinstance(given, Mapping) else given
    if values is None:
        return [str(i) if gap is None else gap for i in range(n_rows)]
    entries: list[Any] = np.asarray(values).tolist()
    if len(entries) != n_rows:
        raise ValueError(
            f"Expected {what} to hold one entry for each of the {n_rows} rows"
            f"{f' of view {view!r}' if view else ''}, but it holds {len(entries)}. Where views "
            f"have different rows, pass a dict {{view: {what}}}."
        )
    # NaN alone differs from itself.
    return [gap if gap is not None and (x is None or x != x) else str(x) for x in entries]


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
    >>> from hotview.evaluation.record.builder import ViewLatents, embed_views
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
    shown = _sample_individuals(individual)
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


def _sample_individuals(individual: IntArray) -> IntArray:
    """Return the points of a random sample of whole individuals."""
    counts = np.bincount(individual)
    order = np.random.default_rng(0).permutation(len(counts))
    chosen = order[np.cumsum(counts[order]) <= _MAX_POINTS]
    return np.flatnonzero(np.isin(individual, chosen))


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
