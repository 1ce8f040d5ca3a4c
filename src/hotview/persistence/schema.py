"""Schema of a model file: what it holds, and checks of it before an estimator is built."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._codec import LEFT_OUT, decode, require, shorten
from hotview._types import Array
from hotview._validation.tables import can_be_saved
from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.base import CONTAINERS, MultiViewEstimator
from hotview.estimators.batch_correction import BatchOffsets
from hotview.estimators.inference import FusionRule
from hotview.ingest.columns import Column, ViewColumns
from hotview.losses.specifications import COUPLINGS, REGULARIZERS, Specification
from hotview.nn.multiview import Widths
from hotview.semisupervised.calibration import ScoresByViews
from hotview.semisupervised.fusion import LogOpinionPool
from hotview.semisupervised.predictors import ViewPredictors
from hotview.semisupervised.super_learner import SuperLearner
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.training.column_scaler import IMPUTATIONS, KINDS, ColumnScaler
from hotview.training.drift import SHARES, ColumnRanges
from hotview.training.view_plan import ViewPlan

__all__ = [
    "CLASSES",
    "NOT_SAVED",
    "SPECIFICATIONS",
    "SavedClasses",
    "SavedMember",
    "SavedModel",
    "SavedView",
    "check_model",
    "check_tensors",
]

CLASSES: dict[str, type[MultiViewEstimator]] = {
    c.__name__: c for c in (MultiViewClassifier, MultiViewEncoder)
}

#: parameters that belong to a program or a machine, not to a model
NOT_SAVED = (
    "callbacks",
    "encoders",
    "random_state",
    "device",
    "devices",
    "precision",
    "checkpoint",
    "checkpoint_every",
)

#: parameters that are specifications, and their built-in classes by name
SPECIFICATIONS: Mapping[str, Mapping[str, type[Specification]]] = {
    "coupling": COUPLINGS,
    "view_regularizer": REGULARIZERS,
}

#: parameters that may be numbers by class, and the text that they may be instead
BY_CLASS = {"class_weight": "balanced", "class_prior": "uniform"}


@dataclass(frozen=True)
class SavedIncrease:
    """How much the log loss rises where a view is left out, and its interval."""

    n: int
    increase: float
    low: float
    high: float


@dataclass(frozen=True)
class SavedScores:
    """Scores on left-out labels of one view or of all, as of `score_out_of_fold`."""

    n: int
    accuracy: float
    log_loss: float
    prior_log_loss: float
    standard_error: float
    expected: bool
    loss_without: SavedIncrease | None


#: what a fit says about its rows; federations say nothing
_TRAINED_ON: Mapping[str, Any] = {
    "linked": int,
    "linked_labeled": int,
    "unaligned": dict[str, int],
    "unaligned_labeled": dict[str, int],
    "seconds": float,
    "versions": dict[str, str],
    "impute": dict[str, str | None],
    "device": str,
    "precision": str,
    "classes": list[list[Any]] | None,
    "out_of_fold": dict[str, dict[str, Any]] | None,
}
_ROUNDING = 1e-4  # of probabilities in float32
_TINY, _MAX = torch.finfo(torch.float32).tiny, torch.finfo(torch.float32).max
#: smallest and largest numbers in tensors, by the ends of their names; others are of float32's size
_RANGES = {
    "mean": (-1e154, 1e154),  # its square is finite
    "fill": (-1e154, 1e154),
    "scale": (1e-162, 1e155),  # its square is more than 0
    "soft_labels": (0.0, 1 + _ROUNDING),
    "counts": (1.0, _MAX),
    "W": (0.0, _MAX),
    **dict.fromkeys(("value", "low", "high"), (-1 - _ROUNDING, 1 + _ROUNDING)),
    "p_value": (0.0, 1.0),
    **dict.fromkeys(("n_rows", "indicators"), (0, 2**63 - 1)),
    **dict.fromkeys("fg", (-math.inf, math.inf)),
}
_SCORES = ("set_scores", "disagreement")  # of training rows, in a classifier
_DTYPE = re.compile(r"[<>|=]?([biuf](1|2|4|8|16)|U[1-9][0-9]{0,6})")
_MAX_CLASS_BYTES = 2**26


@dataclass(frozen=True)
class SavedView:
    """A view: its name, its number of encoded columns and, where they have names, its columns.

    A column of numbers is its name alone, because there may be very many; any other column is what
    `ViewColumns.to_json` makes of it.
    """

    name: str
    n_columns: int
    columns: list[Any] | None

    @classmethod
    def of(cls, name: str, columns: ViewColumns) -> SavedView:
        """Return what a file holds of a view."""
        if columns.columns is None:
            return cls(name, columns.n_columns, None)
        pairs = zip(columns.columns, columns.to_json()["columns"], strict=True)
        entries = [c.name if c == Column(c.name) else entry for c, entry in pairs]
        return cls(name, columns.n_columns, entries)

    @cached_property
    def encoding(self) -> ViewColumns:
        """The columns; an error for anything that `of` cannot have made."""
        try:
            columns = None if self.columns is None else tuple(map(_read_column, self.columns))
            found = ViewColumns(columns, self.n_columns)
            n = self.n_columns if columns is None else sum(column.width for column in columns)
            texts = [text for column in columns or () for text in _texts(column)]
            fits = SavedView.of(self.name, found) == self
        except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
            fits = False
        fits = fits and n == self.n_columns > 0 and all(isinstance(text, str) for text in texts)
        require(fits, f"its columns of view {self.name!r} do not fit")
        return found


def _read_column(entry: Any) -> Column:
    if isinstance(entry, str):
        return Column(entry)
    columns = ViewColumns.from_json({"columns": [entry], "n_columns": 0}).columns
    assert columns is not None
    return columns[0]


def _texts(column: Column) -> Iterator[Any]:
    """The name and the categories of a column."""
    yield column.name
    yield from column.categories or ()


@dataclass(frozen=True)
class SavedClasses:
    """The classes of a classifier, and the dtype of their array."""

    dtype: str
    labels: list[Any]


@dataclass(frozen=True)
class SavedMember:
    """One ensemble member: its network, how it was trained, and how it predicts."""

    network: dict[str, Tensor]
    history: list[dict[str, Any]]
    plan: ViewPlan | None
    rule: FusionRule | None


@dataclass(frozen=True)
class SavedModel:
    """Everything that a file holds; the names of its fields are those in the file."""

    hotview: str
    estimator: str
    parameters: dict[str, Any]
    views: list[SavedView]
    own_encoders: list[str]
    columns: list[ColumnScaler]
    ranges: list[ColumnRanges] | None
    references: Array | None
    view_similarity: ViewSimilarity | None
    common_space: CommonSpace | None
    batch_size: int
    trained_on: dict[str, Any]
    fit_warnings: list[str]
    metadata: dict[str, Any]
    output: str | None
    classes: SavedClasses | None
    pool: LogOpinionPool | None
    super_learner: SuperLearner | None
    predictors: ViewPredictors | None
    set_scores: ScoresByViews | None
    disagreement: ScoresByViews | None
    members: list[SavedMember]
    batch_offsets: list[BatchOffsets | None] | None = field(default=None, metadata=LEFT_OUT)


def check_model(model: SavedModel) -> None:
    """Raise an error if parts of a model contradict each other.

    Parameters
    ----------
    model : SavedModel
        The model, of the right types.
    """
    names = [view.name for view in model.views]
    require(len(set(names)) == len(names) > 0, "its views have no different names")
    for view in model.views:
        require(can_be_saved(view.name), f"a view cannot be called {shorten(view.name)}")
        require(view.encoding.n_columns > 0, f"its columns of view {view.name!r} do not fit")
    require(len(model.columns) == len(names), "its columns are of other views than it has")
    for view, columns in zip(model.views, model.columns, strict=True):
        _check_columns(columns, view.n_columns)
    _check_batches(model)
    fits = model.ranges is None or len(model.ranges) == len(names)
    require(fits, "its ranges are of other views than it has")
    require(set(model.own_encoders) <= set(names), "its own encoders are of unknown views")
    for key, kind in _TRAINED_ON.items() if model.trained_on else ():
        decode(kind, model.trained_on.get(key), {}, f"trained_on.{key}")
    for _, n in model.trained_on.get("classes", ()):
        decode(int, n, {}, "trained_on.classes")
    _check_scores(model.trained_on.get("out_of_fold") or {})
    require(model.batch_size > 0, "its 'batch_size' cannot be 0")
    require(model.output in (None, *CONTAINERS), f"its 'output' cannot be {model.output!r}")
    require(model.estimator in CLASSES, f"its 'estimator' cannot be {shorten(model.estimator)}")
    _check_parameters(CLASSES[model.estimator], model.parameters)
    is_classifier = model.estimator == "MultiViewClassifier"
    require((model.classes is not None) == is_classifier, "its classes do not fit its estimator")
    if model.classes is not None:
        require(_is_classes(model.classes), f"its classes cannot be {shorten(model.classes)}")
    _check_members(model, len(names), len(model.classes.labels) if model.classes else 0)
    for what in _SCORES:
        if (scores := getattr(model, what)) is not None:
            fits = is_classifier and len(scores.groups) == len(names) + 2
            require(fits, f"its {what!r} does not fit its estimator")


def _check_batches(model: SavedModel) -> None:
    fits = model.batch_offsets is None or len(model.batch_offsets) == len(model.views)
    require(fits, "its batches are of other views than it has")
    for view, found in zip(model.views, model.batch_offsets or (), strict=False):
        if found is None:
            continue
        fits = 0 < len(set(found.batches)) == len(found.batches)
        require(fits, f"its batches of view {view.name!r} have no different names")
        if found.scaler is not None:
            _check_columns(found.scaler, found.scaler.n_columns)
            fits = found.scaler.components is not None and found.scaler.fill is None
            fits = fits and found.scaler.indicators is None
            require(fits, f"its batches of view {view.name!r} have no reduction")


def _check_columns(columns: ColumnScaler, n_columns: int) -> None:
    require(columns.kind in KINDS, f"its columns cannot be {shorten(columns.kind)}")
    reduced, method, marked = columns.components, columns.impute, columns.indicators
    fits = reduced is None or (reduced.ndim == 2 and reduced.shape[1] > 0)
    require(fits, "its components are not a matrix")
    fits = method is None or method in IMPUTATIONS
    fits = fits and (method is None) == (columns.fill is None)
    if marked is not None:
        fits = fits and method is not None and method.endswith("+indicator")
        fits = fits and marked.dtype == np.int64 and marked.ndim == 1 and len(marked) > 0
        ends = np.concatenate([[-1], marked, [n_columns]]) if fits else marked
        fits = fits and bool((np.diff(ends) > 0).all())
    require(fits, f"its cells cannot be imputed by {shorten(method)}")


def _check_scores(scores: Mapping[str, Mapping[str, Any]]) -> None:
    for name, x in scores.items():
        at = f"trained_on.out_of_fold.{name}"
        found = decode(SavedScores, x, {}, at).loss_without
        fits = found is None or (found.n > 0 and found.low <= found.increase <= found.high)
        require(fits, f"its {at + '.loss_without'!r} cannot be {shorten(x.get('loss_without'))}")


def _check_parameters(estimator: type[MultiViewEstimator], parameters: dict[str, Any]) -> None:
    unknown = parameters.keys() - (estimator().get_params(deep=False).keys() - set(NOT_SAVED))
    require(not unknown, f"there are no such parameters: {shorten(sorted(unknown))}")
    for name, value in parameters.items():
        if name in SPECIFICATIONS and isinstance(value, dict):
            is_valid = _is_specification(value, SPECIFICATIONS[name])
        elif name in BY_CLASS:
            is_valid = value in (None, BY_CLASS[name]) or _is_by_class(value)
        else:  # the estimator checks the values; no number may be too large for an array
            is_valid = (
                name in ("hidden", "preprocessing", "impute")
                or value is None
                or isinstance(value, str | float)
            )
            is_valid = is_valid or (isinstance(value, int) and abs(value) < 2**63)
        require(is_valid, f"its {name!r} cannot be {shorten(value)}")


def _is_by_class(value: Any) -> bool:
    """Whether it holds pairs of a class and a number."""
    kinds = [[label, float] for label in (str, int, float, bool)]
    return (
        isinstance(value, dict)
        and isinstance(items := value.get("items"), list)
        and all(isinstance(item, list) and list(map(type, item)) in kinds for item in items)
        and all(0 <= weight < math.inf for _, weight in items)
    )


def _is_specification(value: dict[str, Any], by_name: Mapping[str, type[Specification]]) -> bool:
    """Whether it is a built-in specification with its settings, or the name of a user's class."""
    if value.keys() == {"own"}:
        return isinstance(value["own"], str)
    name, settings = value.get("name"), value.get("settings")
    if not isinstance(name, str) or name not in by_name or not isinstance(settings, dict):
        return False
    scalars = all(x is None or isinstance(x, str | int | float) for x in settings.values())
    return len(value) == 2 and scalars and settings.keys() <= by_name[name]().get_params().keys()


def _is_classes(classes: SavedClasses) -> bool:
    """Whether they are sorted, different from each other, and what an array of the dtype holds."""
    labels = classes.labels
    if not _DTYPE.fullmatch(classes.dtype) or len(labels) < 2:
        return False
    dtype = np.dtype(classes.dtype)
    kinds: dict[str, Any] = {"b": bool, "f": float, "U": str}
    kind = kinds.get(dtype.kind, int)
    if dtype.itemsize * len(labels) > _MAX_CLASS_BYTES or {*map(type, labels)} != {kind}:
        return False
    if (
        dtype.kind in "iu"
        and not np.iinfo(dtype).min <= min(labels) <= max(labels) <= np.iinfo(dtype).max
    ):
        return False
    array = np.array(labels, dtype=dtype)
    is_finite = kind is not float or bool(np.isfinite(array).all())
    return is_finite and array.tolist() == labels == np.unique(array).tolist()


def _check_rule(rule: FusionRule, n_views: int, n_classes: int) -> None:
    sizes = (len(rule.n_classes), len(rule.log_prior))
    fits = sizes == (n_views, n_classes) and all(n <= n_classes for n in rule.n_classes)
    require(fits, "its fusion rule is of other views or classes than it has")
    total = sum(math.exp(x) for x in rule.log_prior)
    require(abs(total - 1) < 1e-6, "its prior probabilities do not add up to 1")


def _check_members(model: SavedModel, n_views: int, n_classes: int) -> None:
    if model.pool is not None:
        model.pool.check(n_views)
    if model.super_learner is not None:
        model.super_learner.check(n_views, n_classes)
    kinds = {(member.plan is None, member.rule is None) for member in model.members}
    require(len(kinds) == 1, "it has no members, or different ones")
    for member in model.members:
        decode(list[dict[str, float]], member.history, {}, "history")
        rule = member.rule
        require((rule is not None) == (n_classes > 0), "its fusion rule does not fit its estimator")
        if rule is not None:
            _check_rule(rule, n_views, n_classes)
    fits = (model.predictors is not None) == (model.super_learner is not None)
    require(fits, "its super learner does not fit its predictors")
    if model.predictors is not None:
        rules = {member.rule for member in model.members}
        require(len(rules) == 1, "its members share predictors, but no fusion rule")
        _check_predictors(model.predictors, n_views)


def _check_predictors(predictors: ViewPredictors, n_views: int) -> None:
    knn, joint = predictors.knn, predictors.joint
    fits = len(knn) == len(predictors.ridge) == n_views
    fits = fits and all(0 < one.n_nearest <= one.n_neighbors for one in knn)
    fits = fits and all(len(one.weights) == 1 for one in predictors.ridge)
    fits = fits and (joint is None or len(joint.weights) == n_views)
    require(fits, "its predictors do not fit its views")


#: sizes, or names of sizes that the file itself decides on, equal wherever they occur
Shape = tuple[int | str, ...]


def check_tensors(model: SavedModel, tensors: Mapping[str, Tensor], widths: Widths) -> None:
    """Raise an error if tensors are missing, unexpected, or not of the shape that a model implies.

    Of networks only the total size and the numbers are checked, so that building them takes no
    more memory than the file did; the shapes are checked by torch when it loads the weights.

    Parameters
    ----------
    model : SavedModel
        The model, checked.
    tensors : dict of str to Tensor
        All tensors of its file.
    widths : Widths
        Sizes of its networks.
    """
    sizes: dict[str, int] = {}
    seen: set[str] = set()
    for r, member in enumerate(model.members):
        _check_network(model, member.network, widths)
        seen |= {f"members.{r}.network.{key}" for key in member.network}
    for name, shape, dtype in _expected_tensors(model, tensors, widths):
        seen.add(name)
        if (found := tensors.get(name)) is None:
            optional = name.endswith((".fill", ".mask", ".components", ".groups", ".counts"))
            optional = optional or name.endswith(".indicators") or name == "references"
            require(optional, f"it lacks {name!r}")
            continue
        fits = found.ndim == len(shape) and all(
            n == (sizes.setdefault(size, n) if isinstance(size, str) else size)
            for size, n in zip(shape, found.shape, strict=True)
        )
        if not fits or not str(found.dtype).removeprefix("torch.").startswith(dtype):
            wanted = " × ".join(str(sizes.get(str(size), size)) for size in shape)
            raise ValueError(
                f"{name!r} should be {wanted or 'a number'} of {dtype}, but is "
                f"{list(found.shape)} of {found.dtype}"
            )
        low, high = _RANGES.get(name.rpartition(".")[2], (-_MAX, _MAX))
        fits = bool(((found >= low) & (found <= high) | _may_be_nan(name, found)).all())
        require(fits, f"its {name!r} is not finite, or not between {low:g} and {high:g}")
    if model.view_similarity is not None:
        _check_similarity(model.view_similarity)
    if model.common_space is not None:
        _check_common_space(model.common_space)
    for view, ranges in zip(model.views, model.ranges or (), strict=False):
        ranges.check(view.name)
    for what, high in {"set_scores": 1.0, "disagreement": math.log(len(model.members))}.items():
        if (scores := getattr(model, what)) is not None:
            scores.check(len(model.views), high, what)
    unexpected = tensors.keys() - seen
    require(not unexpected, f"unexpected tensor {min(unexpected, default='')!r}")


def _check_similarity(found: ViewSimilarity) -> None:
    """Raise an error for similarities that contradict each other."""
    require(0 <= found.stability <= 1, "its stability is no share")
    if (groups := found.groups) is not None:
        order = np.unique(groups, return_index=True)[1]
        fits = groups[np.sort(order)].tolist() == list(range(len(order)))
        require(fits and 1 < len(order) < len(groups), "its groups of views are none")
    for part in (found, found.within_classes):
        if part is None:
            continue
        known = np.isfinite(part.value)
        fits = np.array_equal(part.value, part.value.T, equal_nan=True)
        fits = fits and bool((known.sum(axis=1) > 1).any())
        for other in (part.low, part.high, part.p_value):
            fits = fits and np.array_equal(np.isfinite(other), known)
        fits = fits and bool((part.low[known] <= part.high[known]).all())
        require(fits, "its similarities of views contradict each other")


def _check_common_space(found: CommonSpace) -> None:
    """Raise an error for a measure of the common space that contradicts itself."""
    known = np.isfinite(found.foscttm)
    fits = 0 <= found.low <= found.high <= 1 and bool(known.any())
    fits = fits and np.array_equal(known, np.isfinite(found.neighbor_agreement))
    fits = fits and np.array_equal(known, found.n_rows > 0) and not known.diagonal().any()
    for part in (found.foscttm, found.neighbor_agreement):
        fits = fits and bool(((part[known] >= 0) & (part[known] <= 1)).all())
        fits = fits and np.array_equal(part, part.T, equal_nan=True)
    fits = fits and np.array_equal(found.n_rows, found.n_rows.T)
    # Up to rounding, the interval is around the mean.
    fits = fits and found.low - 1e-9 <= found.mean_foscttm <= found.high + 1e-9
    require(fits, "its measure of the common space contradicts itself")


def _may_be_nan(name: str, tensor: Tensor) -> Tensor:
    """Which numbers are NaN, in tensors that hold it for pairs of views without linked rows."""
    of_pairs = name.startswith(("view_similarity.", "common_space."))
    return tensor.isnan() if of_pairs else torch.zeros_like(tensor, dtype=torch.bool)


def _check_network(model: SavedModel, network: Mapping[str, Tensor], widths: Widths) -> None:
    own = [s for s, view in enumerate(model.views) if view.name in model.own_encoders]
    theirs = tuple(f"encoders.{s}." for s in own)  # whose code determines their tensors
    for name, tensor in network.items():
        if not name.startswith(theirs):
            require(tensor.dtype == torch.float32, f"{name!r} should be of float32")
            require(bool(tensor.isfinite().all()), f"its {name!r} is not finite")
    n_weights = 0
    for s, (n_columns, hidden) in enumerate(zip(widths.columns, widths.hidden, strict=True)):
        n_features = 1 if s in own else widths.encoder_dim
        n_weights += n_features * (widths.n_components + widths.n_classes)
        if widths.decoders or s not in own:
            layers = pairwise((n_columns, *hidden, n_features))
            n_weights += sum(n_in * n_out for n_in, n_out in layers)
    n_found = sum(tensor.numel() for tensor in network.values())
    require(n_weights <= n_found, f"it lacks weights: {n_found} of {n_weights} are there")


def _expected_tensors(
    model: SavedModel, tensors: Mapping[str, Tensor], widths: Widths
) -> Iterator[tuple[str, Shape, str]]:
    """Names, shapes and dtypes (``"float"`` for any float) of all tensors but the networks'."""
    S, n_members = len(model.views), len(model.members)
    for s, view in enumerate(model.views):
        n_marked = model.columns[s].n_indicators
        n_inputs = view.n_columns + n_marked
        yield f"columns.{s}.mean", (n_inputs,), "float64"
        yield f"columns.{s}.scale", (n_inputs,), "float64"
        yield f"columns.{s}.fill", (view.n_columns,), "float64"
        yield f"columns.{s}.indicators", (n_marked,), "int64"
        yield f"columns.{s}.components", (n_inputs, widths.columns[s]), "float32"
        if model.ranges is not None:
            yield f"ranges.{s}.quantiles", (len(SHARES), view.n_columns), "float32"
            yield f"ranges.{s}.mean", (view.n_columns,), "float32"
            yield f"ranges.{s}.missing", (view.n_columns,), "float32"
        if model.batch_offsets is not None and (own := model.batch_offsets[s]) is not None:
            yield from _expected_offsets(f"batch_offsets.{s}", own, view.n_columns)
    each = (n_members,) if n_members > 1 and model.members[0].plan is not None else ()
    yield "references", (*each, "references", "points", widths.n_components), "float32"
    if (found := model.view_similarity) is not None:
        yield "view_similarity.groups", (S,), "int64"
        parts = {"view_similarity": found, "view_similarity.within_classes": found.within_classes}
        for at in [at for at, part in parts.items() if part is not None]:
            yield f"{at}.n_rows", (S, S), "int64"
            for part in ("value", "low", "high", "p_value"):
                yield f"{at}.{part}", (S, S), "float64"
    if model.common_space is not None:
        yield "common_space.n_rows", (S, S), "int64"
        yield "common_space.foscttm", (S, S), "float64"
        yield "common_space.neighbor_agreement", (S, S), "float64"
    for r, member in enumerate(model.members):
        at = f"members.{r}"
        if member.plan is not None:
            yield from _expected_plan(f"{at}.plan", S, "columns of W")
            if member.plan.null is not None:
                yield from _expected_plan(f"{at}.plan.null.plan", S, S)
                yield f"{at}.plan.null.W", ("draws", S, S), "float"
                yield f"{at}.plan.null.C", ("draws", S, S), "float"
    for what in _SCORES:
        if (scores := getattr(model, what)) is not None:
            for g in range(len(scores.groups)):
                yield f"{what}.groups.{g}", (f"rows of {what} {g}",), "float64"
    if model.predictors is not None:
        joint = model.predictors.joint is not None
        yield from _expected_predictors(tensors, widths, n_members, joint=joint)


def _expected_offsets(
    at: str, found: BatchOffsets, n_columns: int
) -> Iterator[tuple[str, Shape, str]]:
    yield f"{at}.offsets", (len(found.batches), n_columns), "float64"
    if found.scaler is not None:
        n_inputs = f"inputs of {at}"
        yield f"{at}.scaler.mean", (n_inputs,), "float64"
        yield f"{at}.scaler.scale", (n_inputs,), "float64"
        yield f"{at}.scaler.components", (n_inputs, n_columns), "float32"


def _expected_plan(at: str, S: int, K: int | str) -> Iterator[tuple[str, Shape, str]]:
    shapes: dict[str, Shape] = {"W": (S, K), "C": (S, K), "f": (S,), "g": (K,)}
    for part, shape in shapes.items():
        yield f"{at}.{part}", shape, "float"
    yield f"{at}.mask", (S, K), "bool"


def _expected_predictors(
    tensors: Mapping[str, Tensor], widths: Widths, n_members: int, *, joint: bool
) -> Iterator[tuple[str, Shape, str]]:
    for s, n_columns in enumerate(widths.columns):
        knn, n, n_dimensions = f"predictors.knn.{s}", f"points of view {s}", f"dimensions of {s}"
        features = f"members.0.network.maps.{s}.weight"
        yield features, (widths.n_components, f"features of {s}"), "float32"
        n_features = n_members * tensors[features].shape[1]
        yield f"{knn}.coordinates.columns", (n_columns, n_dimensions), "float32"
        yield f"{knn}.coordinates.features", (n_features, n_dimensions), "float32"
        yield f"{knn}.coordinates.offset", (n_dimensions,), "float64"
        yield f"{knn}.points", (n, n_dimensions), "float32"
        require(len(tensors[f"{knn}.points"]) > 0, f"there are no neighbors in view {s}")
        yield f"{knn}.counts", (n,), "float32"
        yield f"{knn}.soft_labels", (n, widths.n_classes), "float"
        ridges = [(f"ridge.{s}.weights.0", f"ridge.{s}.intercept")]
        ridges += [(f"joint.weights.{s}", "joint.intercept")] if joint else []
        for weights, intercept in ridges:
            yield f"predictors.{weights}", (n_columns, widths.n_classes), "float64"
            yield f"predictors.{intercept}", (widths.n_classes,), "float64"
    yield "predictors.log_prior", (len(widths.columns), widths.n_classes), "float64"
