"""The fitted model: what `fit` learns, and what predicts, is saved, exported and reported."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require, require_array, shorten
from hotview._messages import warn_user
from hotview._threads import existing_threads, threads_for_rows
from hotview._types import Array, IntArray
from hotview._validation import ViewTable
from hotview._validation.tables import can_be_saved
from hotview.data.columns import ViewColumns
from hotview.data.frames import encoded_shapes
from hotview.nn.batched import NetworkOutputs
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.batch_correction import BatchOffsets
from hotview.preprocessing.column_scaler import IMPUTATIONS, ColumnScaler
from hotview.preprocessing.drift import ColumnRanges, DriftReport, compare_view
from hotview.preprocessing.row_stream import (
    check_rows,
    find_absent,
    map_rows,
    overflow_error,
    prediction_error,
)
from hotview.preprocessing.rows import ViewRows
from hotview.preprocessing.table_scan import check_finite
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.calibration import group_rows, rows_needed, score_sets
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.training.trainer import History
from hotview.training.view_plan import ViewPlan

__all__ = ["Model", "ModelView", "encode_rows", "predict_rows"]


@dataclass(frozen=True)
class ModelView:
    """One view of a fitted model: its columns, and how its rows are preprocessed.

    Parameters
    ----------
    name : str
        Its name.
    columns : ViewColumns
        Its columns and their encoding.
    scaler : ColumnScaler
        Preprocessing of its rows.
    ranges : ColumnRanges or None, default=None
        Where the training values of its columns are; federations do not tell.
    batch_offsets : BatchOffsets or None, default=None
        Offsets of batches that were subtracted before `fit`.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(50, n_views=2, random_state=0).views
    >>> view = MultiViewEncoder(max_epochs=1, random_state=0).fit(views).model_.views[1]
    >>> view.name, view.columns.n_columns, view.scaler.description
    ('view_1', 20, 'standardized')
    """

    name: str
    columns: ViewColumns
    scaler: ColumnScaler
    ranges: ColumnRanges | None = None
    batch_offsets: BatchOffsets | None = None

    def __post_init__(self) -> None:
        require(can_be_saved(self.name), f"a view cannot be called {shorten(self.name)}")
        n, scaler = self.columns.n_columns, self.scaler
        fits = scaler.n_columns == n > 0 and (self.ranges is None or len(self.ranges.mean) == n)
        fits = fits and (self.batch_offsets is None or self.batch_offsets.offsets.shape[1] == n)
        require(fits, f"its columns of view {self.name!r} do not fit")
        is_known = scaler.impute in (None, *IMPUTATIONS)
        fits = is_known and (scaler.impute is None) == (scaler.fill is None)
        fits = fits and (scaler.n_indicators == 0 or str(scaler.impute).endswith("+indicator"))
        require(fits, f"its cells cannot be imputed by {shorten(scaler.impute)}")


@dataclass(eq=False)
class Model:
    """Everything that a fit has learned; attributes of estimators that end in ``_`` are in it.

    Parameters
    ----------
    views : list of ModelView
        The views, in the order of the fit.
    networks : list of MultiViewNetwork
        The network of every ensemble member.
    histories : list of History
        What was recorded while they were trained.
    batch_size : int
        Number of rows of the largest view in a step.
    trained_on : dict of str to object
        Numbers of rows and labels, time and versions; a federation says nothing.
    warnings : list of str
        Warnings of the fit.
    metadata : dict of str to object
        The user's.
    plan : ViewPlan or None, default=None
        The plan over the views, for the mean costs of the members; None without a coupling.
    plans : list of ViewPlan or None, default=None
        The plan of every member.
    references : ndarray or None, default=None
        The reference clouds, (K, points, n_components); of several members, those of each.
    view_similarity : ViewSimilarity or None, default=None
        Similarity of the views by linked rows.
    common_space : CommonSpace or None, default=None
        Nearness of held-out linked rows in the common space.
    classes : ndarray or None, default=None
        The classes, sorted; None of an encoder.
    learner : SemiSupervised or None, default=None
        What predicts the classes; None of an encoder.

    Attributes
    ----------
    names, n_views : list of str, int
        Names and number of the views.
    columns, shapes : dict of str to ViewColumns, dict of str to (int, tuple of str or None)
        Columns of every view; number and names of the encoded ones.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(50, n_views=2, random_state=0).views
    >>> model = MultiViewEncoder(max_epochs=1, random_state=0).fit(views).model_
    >>> model.names, len(model.networks), model.classes is None
    (['view_0', 'view_1'], 1, True)
    """

    views: list[ModelView]
    networks: list[MultiViewNetwork]
    histories: list[History]
    batch_size: int
    trained_on: dict[str, Any]
    warnings: list[str]
    metadata: dict[str, Any]
    plan: ViewPlan | None = None
    plans: list[ViewPlan] | None = None
    references: Array | None = None
    view_similarity: ViewSimilarity | None = None
    common_space: CommonSpace | None = None
    classes: Array | None = None
    learner: SemiSupervised | None = None

    def __post_init__(self) -> None:
        self.names = [view.name for view in self.views]
        self.columns = {view.name: view.columns for view in self.views}
        self.shapes = encoded_shapes(self.columns)
        S, R = len(self.views), len(self.networks)
        self.n_views = S
        require(len(set(self.names)) == S > 0, "its views have no different names")
        require(len(self.histories) == R > 0, "it has no members, or lacks their histories")
        require(self.batch_size > 0, "its 'batch_size' cannot be 0")
        plans = [] if self.plan is None else [self.plan, *(self.plans or ())]
        require(self.plans is None or len(self.plans) == R, "its plans are of other members")
        require((self.plan is None) == (self.plans is None), "its plans contradict each other")
        for plan in plans:
            require(plan.W.shape == (S, plans[0].W.shape[1]), "its plans are of other views")
            require(plan.null is None or len(plan.null.plan.W) == S, "its null is of other views")
        if self.references is not None:
            each = (R,) if R > 1 and self.plan is not None else ()
            shape = (*each, None, None, self.networks[0].maps[0].out_features)
            require_array("references", self.references, shape, "float32")
        for pairs in (self.view_similarity, self.common_space):
            require(pairs is None or len(pairs.n_rows) == S, "its pairs are of other views")
        require((self.classes is None) == (self.learner is None), "its classes do not fit")
        if self.learner is not None and self.classes is not None:
            n_columns = [view.scaler.n_outputs for view in self.views]
            maps: list[list[Any]] = [list(network.maps) for network in self.networks]
            n_features = [sum(U.in_features for U in own) for own in zip(*maps, strict=True)]
            self.learner.check(n_columns, n_features, len(self.classes))
            if (found := self.learner.disagreement) is not None:
                found.check(S, math.log(R), "disagreement")

    @property
    def n_features_per_view(self) -> dict[str, int]:
        """Number of columns of every view, before text is encoded."""
        columns = self.columns.items()
        return {k: x.n_columns if x.columns is None else len(x.columns) for k, x in columns}

    @property
    def preprocessing(self) -> dict[str, str]:
        """What was done to the columns of every view, in words."""
        return {view.name: view.scaler.description for view in self.views}

    @property
    def view_labels(self) -> IntArray | None:
        """The group of every view, if linked rows show stable groups; else None."""
        return None if self.view_similarity is None else self.view_similarity.groups

    @property
    def out_of_fold(self) -> dict[str, dict[str, Any]]:
        """Scores on labels that were left out, by view and for all views; empty without any."""
        return {} if self.learner is None else self.learner.scores

    @property
    def device(self) -> torch.device:
        """Where the networks are."""
        return next(self.networks[0].maps.parameters()).device

    @property
    def batch_offsets(self) -> dict[str, BatchOffsets]:
        """Offsets of batches of the views that have any."""
        return {v.name: v.batch_offsets for v in self.views if v.batch_offsets is not None}

    @batch_offsets.setter
    def batch_offsets(self, offsets: Mapping[str, BatchOffsets | None]) -> None:
        self.views = [replace(v, batch_offsets=offsets.get(v.name)) for v in self.views]

    def feature_names(self, view: str, space: str = "features") -> list[str]:
        """Names of what `encode` returns of a view.

        Parameters
        ----------
        view : str
            Name of the view.
        space : {"features", "common"}, default="features"
            As of `encode`.
        """
        U = self.networks[0].maps[self.names.index(view)]
        assert isinstance(U, torch.nn.Linear)
        n = U.out_features if space == "common" else U.in_features
        return [f"{view}_{j}" for j in range(n * len(self.networks))]

    def rows(self, tables: Mapping[str, ViewTable]) -> dict[int, ViewRows]:
        """Rows of some views, by number of the view, for `map_rows`; their entries are checked.

        Parameters
        ----------
        tables : dict of str to ViewTable
            Validated tables, by view.
        """
        rows, device = {}, self.device
        for s, view in enumerate(self.views):
            if (table := tables.get(view.name)) is not None:
                rows[s] = ViewRows([table], view.scaler, device, once=True)
                check = partial(check_finite, view.name, table, view.scaler.impute, view.scaler)
                check_rows(rows[s], check)
        return rows

    def encode(self, tables: Mapping[str, ViewTable], space: str = "features") -> dict[str, Array]:
        """Features of rows of some views, float32, those of all members side by side.

        Parameters
        ----------
        tables : dict of str to ViewTable
            Validated tables, by view.
        space : {"features", "common"}, default="features"
            The features of each view, or their image in the common space; NaN in absent rows.
        """
        rows = self.rows(tables).items()
        return {self.names[s]: encode_rows(self.networks, s, view, space) for s, view in rows}

    def predict(
        self,
        tables: Mapping[str, ViewTable],
        reduce: Callable[[Tensor], Tensor],
        progress: Callable[[int], object] | None = None,
    ) -> Array:
        """What a function makes of the predictions of aligned rows by all members.

        Parameters
        ----------
        tables : dict of str to ViewTable
            Validated tables of the views that are present.
        reduce : callable
            Maps log-probabilities (n_members, n_rows, n_classes) to (n_rows, ...).
        progress : callable or None, default=None
            Called with the number of rows of every part that is done.
        """
        assert self.learner is not None
        views = self.rows(tables)
        reduced = predict_rows(self.learner, self.networks, views, reduce, progress)
        is_empty = np.isnan(reduced if reduced.ndim == 1 else reduced[:, 0])
        if is_empty.any():
            raise prediction_error(np.flatnonzero(is_empty), views, self.names)
        return reduced

    def group_rows(self, tables: Mapping[str, ViewTable]) -> IntArray:
        """Groups of rows by the views that they have and that count; see `ScoresByViews`.

        Parameters
        ----------
        tables : dict of str to ViewTable
            Validated tables of the views that are present.
        """
        assert self.learner is not None
        present = np.zeros((next(iter(tables.values())).n_rows, self.n_views), dtype=bool)
        for s, view in enumerate(self.views):
            if (table := tables.get(view.name)) is not None:
                present[check_finite(view.name, table, view.scaler.impute, view.scaler), s] = True
        return group_rows(self.learner.rule.count_views(torch.from_numpy(present)).numpy())

    def predict_sets(self, P: Array, groups: IntArray, alpha: float) -> Array:
        """Which classes are in the sets of rows; warns where too few labels were left out.

        Parameters
        ----------
        P : ndarray of shape (n_rows, n_classes)
            Their probabilities.
        groups : ndarray of int64, shape (n_rows,)
            From `group_rows`.
        alpha : float
            The share of sets that may miss the true class.
        """
        scores = None if self.learner is None else self.learner.set_scores
        sets, n_whole = score_sets(P, groups, scores, alpha)
        if n_whole > 0:
            warn_user(
                f"Expected at least {rows_needed(alpha)} labels that ensemble members left out, "
                f"for sets with alpha={alpha:g}, but there are fewer: the sets of {n_whole} rows "
                "hold all classes. Label more rows, choose a larger alpha, or fit with "
                "fusion='weighted' and several n_estimators."
            )
        return sets

    def percentiles(self, disagreement: Array, groups: IntArray) -> Array:
        """Percentiles of disagreement among training rows; 0 where nothing is known of these.

        Parameters
        ----------
        disagreement : ndarray of shape (n_rows,)
            Disagreement of the members about rows.
        groups : ndarray of int64, shape (n_rows,)
            From `group_rows`.
        """
        if self.learner is None or self.learner.disagreement is None:
            return np.zeros(len(disagreement))
        return np.nan_to_num(self.learner.disagreement.percentiles(disagreement, groups))

    def check_drift(self, tables: Mapping[str, ViewTable]) -> DriftReport:
        """Compare rows with those of the fit.

        Parameters
        ----------
        tables : dict of str to ViewTable
            Validated tables, by view.
        """
        found = {}
        for view in self.views:
            if view.ranges is None:
                raise ValueError(
                    "Expected a model that knows the ranges of its columns, but one of a "
                    "federation does not, because these are not shared. Compare rows where the "
                    "model was trained."
                )
            if (table := tables.get(view.name)) is not None:
                counts, (_, names) = view.scaler.is_counts, self.shapes[view.name]
                found[view.name] = compare_view(table, view.ranges, is_counts=counts, names=names)
        return DriftReport(found)


@existing_threads()
def encode_rows(networks: Sequence[MultiViewNetwork], s: int, rows: ViewRows, space: str) -> Array:
    """Features or latents of all rows of view s by all networks; NaN for absent rows."""
    is_finite = []  # looked at in the end: until then, a GPU is not waited for

    def encode_chunk(Xs: Mapping[int, Tensor]) -> Tensor:
        parts = []
        for network in networks:
            Z, absent = encode(network, s, Xs[s], space)
            is_finite.append(Z.isfinite().all())
            # Absent rows are rare; without any, the CPU saves this pass over the output.
            if Z.is_cuda or absent.any():
                Z = Z.masked_fill(absent.unsqueeze(1), torch.nan)
            parts.append(Z)
        return torch.cat(parts, dim=1).float()

    output = map_rows(encode_chunk, {s: rows})
    if is_finite and not bool(torch.stack(is_finite).all()):
        raise overflow_error()
    return output


def encode(network: MultiViewNetwork, s: int, X: Tensor, space: str) -> tuple[Tensor, Tensor]:
    """Features, or latents in the common space, of view s, and which rows are absent."""
    F: Tensor = network.encoders[s](X.nan_to_num())
    return network.maps[s](F) if space == "common" else F, find_absent(X)


@existing_threads()
def predict_rows(
    learner: SemiSupervised,
    networks: Sequence[MultiViewNetwork],
    views: Mapping[int, ViewRows],
    reduce: Callable[[Tensor], Tensor],
    progress: Callable[[int], object] | None = None,
) -> Array:
    """Reduce log-probabilities (n_members, n_rows, n_classes) of aligned rows, some at a time."""
    outputs, first = NetworkOutputs(networks), next(iter(views.values()))
    with threads_for_rows(first.n_rows, first.device):
        return map_rows(lambda Xs: reduce(learner.log_proba(Xs, outputs)), views, progress)
