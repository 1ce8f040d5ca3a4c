"""A record from a fitted estimator and, if there are any, rows to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, IntArray, Views
from hotview._validation.views import check_aligned
from hotview.estimators import MultiViewClassifier
from hotview.estimators.labels import number_labels, read_labels
from hotview.evaluation.record.baseline_scores import fit_rivals
from hotview.evaluation.record.embedding import LatentRows, project
from hotview.evaluation.record.model_summary import (
    describe_learning,
    describe_plan,
    describe_ranks,
    describe_settings,
)
from hotview.evaluation.record.schema import Record
from hotview.evaluation.record.scores import Judgments, Track, score_rows
from hotview.training import progress

__all__ = ["make_record"]


def make_record(
    estimator: Any,
    views: Views | None = None,
    y: Any = None,
    *,
    ids: Any = None,
    training: Mapping[str, Any] | None = None,
    seen: bool = False,
    umap: bool = True,
    verbose: bool | str = "auto",
) -> Record:
    """Write down what a report tells of a model.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The model, fitted or loaded.
    views : dict, list or tuple of 2-D array-likes, or None, default=None
        Rows to look at: aligned ones for a classifier, any for an encoder. None leaves out what
        only rows can tell.
    y : 1-D array-like, dict of str to 1-D array-like, or None, default=None
        Their classes, with gaps as at `fit`. For an encoder, they only color the points; where
        views have different rows, a dict by view.
    ids : 1-D array-like, dict of str to 1-D array-like, or None, default=None
        Names of the rows. For an encoder, rows of different views with one id are one individual.
    training : dict or None, default=None
        What the classifier's `fit` got, by the names of its parameters: with it, simple methods and
        the model without coupling are trained on the same rows and scored on `views`, `y`.
    seen : bool, default=False
        Whether `views` are rows that the model was trained on: accuracies are then too high.
    umap : bool, default=True
        Whether to lay out the common space by UMAP too, where umap-learn is installed.
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
    track = partial(progress.track, shown=progress.wants_progress(verbose))
    is_classifier = isinstance(estimator, MultiViewClassifier)
    record = _describe(estimator, seen=seen)
    if views is None:
        _refuse_without_views(y=y, ids=ids, training=training)
        return record
    latents = _latents(estimator, views)
    if not is_classifier:
        if training is not None:
            raise ValueError(
                "Expected training for a classifier, but an encoder predicts nothing that could be "
                "compared. Leave training out."
            )
        return _look(record, latents, y, ids, umap=umap)
    return _judge(record, estimator, views, latents, y, ids, training, umap=umap, track=track)


def _describe(estimator: Any, *, seen: bool) -> Record:
    return Record(
        kind=type(estimator).__name__,
        coupling=estimator.coupling,
        views=list(estimator.view_names_),
        columns=[int(estimator.n_features_per_view_[name]) for name in estimator.view_names_],
        classes=[str(c) for c in getattr(estimator, "classes_", ())],
        plan=describe_plan(estimator),
        learning=describe_learning(estimator),
        ranks=describe_ranks(estimator),
        settings=describe_settings(estimator),
        trained_on=dict(getattr(estimator, "trained_on_", {})),
        remarks=_remarks(estimator),
        notes=dict(getattr(estimator, "metadata_", {})),
        seen=bool(seen),
    )


def _remarks(estimator: Any) -> list[str] | None:
    """Warnings of the fit; models from files that did not keep them have nothing else either."""
    kept = getattr(estimator, "trained_on_", {})
    return list(estimator.fit_warnings_) if kept else None


def _refuse_without_views(**given: Any) -> None:
    if names := [name for name, value in given.items() if value is not None]:
        raise ValueError(
            f"Expected views beside {' and '.join(names)}, but there are none. Pass the rows to "
            "look at."
        )


def _latents(estimator: Any, views: Views) -> dict[str, Array]:
    """Rows of every view in the common space of the first replica, NaN where absent."""
    found = estimator.transform(views, space="common")
    pairs = found if isinstance(found, Mapping) else dict(zip(estimator.view_names_, found))  # noqa: B905
    return {
        name: np.asarray(pairs[name])[:, : estimator.n_components]
        for name in estimator.view_names_
        if pairs.get(name) is not None
    }


def _look(record: Record, latents: dict[str, Array], y: Any, ids: Any, *, umap: bool) -> Record:
    """Add what an encoder's rows tell."""
    labels = {name: _part(y, name, Z, "y", "") for name, Z in latents.items()}
    classes = sorted({label for part in labels.values() for label in part if label})
    codes = {label: k for k, label in enumerate(classes)} | {"": -1}
    rows = {}
    for name, Z in latents.items():
        truth = np.array([codes[label] for label in labels[name]], dtype=np.int64)
        names = _part(ids, name, Z, "ids", None)
        rows[record.views.index(name)] = LatentRows(Z, names, truth, np.full(len(Z), -1))
    return replace(
        record,
        classes=classes,
        rows=_count(latents),
        n_labeled=sum(label != "" for part in labels.values() for label in part),
        space=project(rows, linked=ids is not None, umap=umap),
    )


def _judge(
    record: Record,
    estimator: Any,
    views: Views,
    latents: dict[str, Array],
    y: Any,
    ids: Any,
    training: Mapping[str, Any] | None,
    *,
    umap: bool,
    track: Track,
) -> Record:
    """Add what a classifier makes of aligned rows."""
    given = views if isinstance(views, Mapping) else dict(zip(record.views, views))  # noqa: B905
    check_aligned({name: len(Z) for name, Z in latents.items()})
    present: dict[str, Array] = {name: _is_there(Z) for name, Z in latents.items()}
    n = len(next(iter(latents.values())))
    truth = _truth(estimator, y, n)
    judgments = Judgments(estimator, {name: given[name] for name in latents}, present, truth)
    P = judgments.probabilities(latents)
    predicted = np.where(np.isnan(P).any(axis=1), -1, np.nan_to_num(P).argmax(axis=1))
    names = _part(ids, "", P, "ids", None)
    rows = {
        record.views.index(name): LatentRows(Z, names, truth, predicted)
        for name, Z in latents.items()
    }
    is_labeled = len(judgments.rows()) > 0
    if training is not None and not is_labeled:
        raise ValueError(
            "Expected y beside training, to score all methods on, but no row has a label. Pass y, "
            "or leave training out."
        )
    return replace(
        record,
        rows=_count(latents),
        n_labeled=int((truth >= 0).sum()),
        scores=score_rows(judgments, track) if is_labeled else None,
        space=project(rows, linked=True, umap=umap),
        rivals=None if training is None else fit_rivals(judgments, training, track),
    )


def _truth(estimator: Any, y: Any, n: int) -> IntArray:
    """Classes by number: −1 where unknown, and the number of classes for those never seen."""
    truth = np.full(n, -1, dtype=np.int64)
    if y is not None:
        labels, known = read_labels("y", y, n, estimator.unlabeled_marker)
        codes = number_labels(labels, estimator.classes_)
        truth[known] = np.where(codes < 0, len(estimator.classes_), codes)
    return truth


def _count(latents: Mapping[str, Array]) -> dict[str, int]:
    return {name: int(_is_there(Z).sum()) for name, Z in latents.items()}


def _is_there(Z: Array) -> Array:
    """Which rows are not absent."""
    return np.asarray(~np.isnan(Z).all(axis=1))


def _part(given: Any, view: str, rows: Array, what: str, gap: str | None) -> list[str]:
    """A view's labels or ids as text; without any, gaps or row numbers."""
    values = given.get(view) if isinstance(given, Mapping) else given
    if values is None:
        return [str(i) if gap is None else gap for i in range(len(rows))]
    found: Sequence[Any] = np.asarray(values).tolist()
    if len(found) != len(rows):
        raise ValueError(
            f"Expected {what} to hold one entry for each of the {len(rows)} rows"
            f"{f' of view {view!r}' if view else ''}, but it holds {len(found)}. Where views have "
            f"different rows, pass a dict {{view: {what}}}."
        )
    return [_label(value, gap) for value in found]


def _label(value: Any, gap: str | None) -> str:
    missing = value is None or value != value  # NaN alone differs from itself
    return gap if missing and gap is not None else str(value)
