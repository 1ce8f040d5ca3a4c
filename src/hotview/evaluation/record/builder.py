"""Build a record from a fitted estimator and optional rows to evaluate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, Views
from hotview._validation.tables import check_aligned
from hotview.estimators import MultiViewClassifier
from hotview.estimators.out_of_fold import describe_contributions
from hotview.evaluation.importance import Effects, permutation_importance
from hotview.evaluation.record.comparison import score_baselines
from hotview.evaluation.record.embedding import ViewLatents, embed_views
from hotview.evaluation.record.model_summary import (
    describe_settings,
    describe_views,
    summarize_learning,
    summarize_plan,
    summarize_ranks,
    summarize_similarity,
)
from hotview.evaluation.record.schema import Effect, Embedding, ImportanceSummary, Record
from hotview.evaluation.record.scores import Predictions, encode_truth, name_views, score_rows
from hotview.losses.coupling_specs import as_coupling
from hotview.training import progress

__all__ = ["make_record"]

#: Permutations of a view or column, columns that are permuted by themselves, and rows.
_REPEATS, _COLUMNS, _ROWS = 3, 20, 300
_MAX_EFFECTS = 15  # columns that are kept


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
        Plain numbers and text.

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
    record = _summarize_model(estimator, seen=seen)
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
        importance=_measure_importance(predictions) if is_labeled and importance else None,
    )


def _measure_importance(predictions: Predictions) -> ImportanceSummary | None:
    """Return effects of views, and the largest ones of columns; None with fewer than two rows."""
    n_classes = len(predictions.estimator.classes_)
    known = (predictions.truth >= 0) & (predictions.truth < n_classes)
    if known.sum() < 2:
        return None
    y = np.full(len(known), None, dtype=object)
    y[known] = predictions.estimator.classes_[predictions.truth[known]]
    limits: dict[str, Any] = {"n_repeats": _REPEATS, "max_columns": _COLUMNS, "max_rows": _ROWS}
    found = permutation_importance(predictions.estimator, dict(predictions.views), y, **limits)
    counts = (found.log_loss, found.n_rows, found.n_repeats, found.n_columns)
    columns = _list_effects(found.columns)[:_MAX_EFFECTS]
    return ImportanceSummary(_list_effects(found.views), columns, *counts)


def _list_effects(effects: Effects) -> list[Effect]:
    keys = ("loss_increase", "loss_low", "loss_high", "accuracy_drop")
    return [
        Effect(effect["view"], effect.get("column"), *(effect[key] for key in keys))
        for effect in effects.to_dicts()
    ]


def _summarize_model(estimator: Any, *, seen: bool) -> Record:
    trained_on = dict(getattr(estimator, "trained_on_", {}))
    return Record(
        kind=type(estimator).__name__,
        coupling=as_coupling(estimator.coupling).label,
        views=list(estimator.view_names_),
        columns=[int(estimator.n_features_per_view_[name]) for name in estimator.view_names_],
        classes=[str(c) for c in getattr(estimator, "classes_", ())],
        similarity=summarize_similarity(estimator),
        view_sentences=describe_views(estimator),
        contributions=describe_contributions(getattr(estimator, "out_of_fold_", {})),
        plan=summarize_plan(estimator),
        learning=summarize_learning(estimator),
        ranks=summarize_ranks(estimator),
        settings=describe_settings(estimator),
        trained_on=trained_on,
        # A file without provenance has no warnings either.
        fit_warnings=list(estimator.fit_warnings_) if trained_on else None,
        metadata=dict(getattr(estimator, "metadata_", {})),
        seen=bool(seen),
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
