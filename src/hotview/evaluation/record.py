"""Records: all data of a report on a fitted model, its own results, numbers and text."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from hotview._types import Array, Views
from hotview._validation.tables import check_aligned
from hotview.estimators import MultiViewClassifier
from hotview.evaluation.embedding import Embedding, ViewLatents, embed_views
from hotview.evaluation.importance import PermutationImportance
from hotview.evaluation.scores import (
    BaselineScore,
    Predictions,
    Scores,
    encode_truth,
    measure_importance,
    name_views,
    score_baselines,
    score_rows,
)
from hotview.losses.specifications import Specification
from hotview.similarity.sentences import (
    describe_common_space,
    describe_shapes,
    describe_similarity,
)
from hotview.training import progress

_RUNTIME_SETTINGS = ("device", "verbose")  # do not describe the model


@dataclass(frozen=True)
class Setting:
    """A parameter and its default as text, and whether they differ."""

    name: str
    value: str
    default: str
    changed: bool


@dataclass(frozen=True)
class Record:
    """A fitted model, and what rows show of it: all data of a report.

    Parameters
    ----------
    model : MultiViewClassifier or MultiViewEncoder
        The fitted model.
    classes : list of str
        Names of the classes; of an encoder, the labels of the given rows.
    seen : bool, default=False
        Whether the evaluated rows were in training.
    rows : dict of str to int
        Number of evaluated rows of each view; empty without data.
    n_labeled : int, default=0
        Number of evaluated rows with a label.
    scores : Scores or None, default=None
        Scores of a classifier on labeled rows.
    embedding : Embedding or None, default=None
        The common space in two dimensions.
    baselines : list of BaselineScore or None, default=None
        The majority class and, with training rows, other baselines and the model without coupling;
        None without scores.
    importance : PermutationImportance or None, default=None
        Permutation importance of views and columns.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> record = make_record(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> record.kind, record.views[0], record.scores
    ('MultiViewEncoder', 'view_0', None)
    """

    model: Any
    classes: list[str]
    seen: bool = False
    rows: dict[str, int] = field(default_factory=dict)
    n_labeled: int = 0
    scores: Scores | None = None
    embedding: Embedding | None = None
    baselines: list[BaselineScore] | None = None
    importance: PermutationImportance | None = None

    @property
    def kind(self) -> str:
        """Class name of the model."""
        return type(self.model).__name__

    @property
    def views(self) -> list[str]:
        """Names of the views."""
        return list(self.model.view_names_)


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
        The model, and what the rows show of it.

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
    classes = [str(c) for c in getattr(estimator, "classes_", ())]
    record = Record(estimator, classes, bool(seen))
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
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Rows of different views may not be comparable")
        encoded = estimator.transform(views, space="common")
    latents = name_views(encoded, estimator.view_names_)
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


def describe_views(estimator: Any) -> list[str]:
    """Say what linked rows show about the views or, without any, their shapes before training.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of str
        Sentences.
    """
    found, plan, names = estimator.view_similarity_, estimator.plan_, estimator.view_names_
    trained_on = getattr(estimator, "trained_on_", {})
    common = estimator.common_space_
    nearness = [] if common is None else [describe_common_space(common, names)]
    if found is not None:
        return describe_similarity(found, names, trained_on.get("linked", 0)) + nearness
    if not trained_on:  # of a federation, whose sides do not share rows
        return []
    if trained_on.get("linked", 0) > 0:
        return ["No pair of views has eight linked rows: too few to measure what views share."]
    if plan is None or plan.null is None:
        return ["No rows are linked, so that it cannot be measured what views share."]
    return describe_shapes(plan.null.plan.C, plan.null.p_value, names)


def describe_settings(estimator: Any) -> list[Setting]:
    """Describe the parameters as text, those that differ from their defaults first.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    list of Setting
        One per parameter.
    """
    defaults = inspect.signature(type(estimator)).parameters
    # The command line reads labels itself, and sets how missing ones are marked.
    own = {"unlabeled_marker"} if "preprocessing" in getattr(estimator, "metadata_", {}) else set()
    settings = []
    for name, value in estimator.get_params(deep=False).items():
        if name not in {*_RUNTIME_SETTINGS, *own}:
            text, default = _describe(value), _describe(defaults[name].default)
            settings.append(Setting(name, text, default, text != default))
    return sorted(settings, key=lambda setting: not setting.changed)


def _describe(value: Any) -> str:
    """Return a parameter as text; of objects only the class, as their repr holds addresses."""
    if value is None or isinstance(value, bool | int | float | str | np.generic):
        return repr(value.item() if isinstance(value, np.generic) else value)
    if isinstance(value, list | tuple):
        inside = ", ".join(map(_describe, value))
        return f"({inside},)" if isinstance(value, tuple) and len(value) == 1 else f"({inside})"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_describe(k)}: {_describe(v)}" for k, v in value.items()) + "}"
    if isinstance(value, Specification):
        return repr(value)
    return str(getattr(value, "__name__", None) or type(value).__name__)
