"""Base class of the estimators: fitted attributes, `transform` and `save`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hotview._messages import warn_user
from hotview._types import Array, IntArray, View, Views
from hotview._validation import ViewTable, check_aligned_tables, check_choice, check_known_tables
from hotview.estimators.calibration import ScoresByViews
from hotview.estimators.diagnostics import describe_training
from hotview.estimators.html_summary import summarize_as_html
from hotview.estimators.inference import encode_rows
from hotview.estimators.parameters import Parameters, check_nested, check_parameters, pick_processes
from hotview.estimators.randomness import keep_random
from hotview.ingest.columns import ViewColumns
from hotview.ingest.frames import encode_known_views, encoded_shapes
from hotview.losses import Coupling
from hotview.losses.coupling_specs import as_coupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.training.column_scaler import ColumnScaler
from hotview.training.drift import ColumnRanges, DriftReport, compare_view
from hotview.training.row_stream import check_rows
from hotview.training.rows import ViewRows
from hotview.training.table_scan import check_finite
from hotview.training.threads import existing_threads
from hotview.training.trainer import History
from hotview.training.view_plan import ViewPlan, match_columns, solve_mean_plan

if TYPE_CHECKING:
    from hotview.data import Data
    from hotview.estimators.batch_correction import BatchOffsets
    from hotview.estimators.fit import Fit

__all__ = ["CONTAINERS", "MultiViewEstimator", "output_container", "wrap_rows"]

CONTAINERS = ("default", "pandas", "polars")


class MultiViewEstimator(Parameters, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the encoder and the classifier."""

    #: weight of the view regularizer where it has none of its own
    _regularizer_weight: ClassVar[float]

    view_names_: list[str]
    n_views_: int
    n_features_per_view_: dict[str, int]
    columns_: dict[str, ViewColumns]
    network_: MultiViewNetwork
    networks_: list[MultiViewNetwork]
    history_: History
    histories_: list[History]
    plan_: ViewPlan | None
    plans_: list[ViewPlan] | None
    view_similarity_: ViewSimilarity | None
    common_space_: CommonSpace | None
    references_: Array | None
    batch_size_: int
    trained_on_: dict[str, Any]
    fit_warnings_: list[str]
    metadata_: dict[str, Any]
    _columns: dict[str, ColumnScaler]
    _shapes: dict[str, tuple[int, tuple[str, ...] | None]]
    #: scores of left-out rows and disagreement about training rows, of classifiers
    _set_scores: ScoresByViews | None = None
    _disagreement: ScoresByViews | None = None
    #: where the training values of columns are; federations do not tell
    _ranges: dict[str, ColumnRanges] | None = None
    #: offsets of batches that were subtracted from views before `fit`, None for a view without
    _batch_offsets: dict[str, BatchOffsets | None] | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def set_params(self, **params: Any) -> Any:
        """Set parameters, also settings of specifications, as in ``coupling__weight=0.5``.

        Parameters
        ----------
        **params : object
            Parameters by name.

        Returns
        -------
        MultiViewEstimator
            The estimator itself.
        """
        check_nested(self, params)
        return super().set_params(**params)

    @abstractmethod
    def _data(self, p: Mapping[str, Any], *views: Any, **arguments: Any) -> Data:
        """Validate what `fit` was passed, with seeded parameters."""

    def _fit(self, *, resume: bool, **arguments: Any) -> None:
        with keep_random():  # here, because a saved model predicts without what a fit needs
            from hotview.estimators.checkpointing import (
                begin_fit,
                check_same_inputs,
                explained_loss,
                explained_overflow,
                lock_output,
            )
            from hotview.estimators.fit import fit_estimators

        start = time.perf_counter()
        given = self._parameters()
        path = given["checkpoint"]
        with (
            existing_threads(),
            pick_processes(given),
            explained_loss(path),
            lock_output(path),
        ):
            checkpoint, p = begin_fit(given, resume=resume)
            if checkpoint is not None:
                start -= checkpoint.seconds
            data = self._data(p, **arguments)
            check_same_inputs(data, p, checkpoint)
            with explained_overflow(checkpoint):
                (fit,) = fit_estimators([(data, p)], checkpoint=checkpoint)
            self._set_fitted(fit, start)

    def _check_fit(self, *, resume: bool = False, **arguments: Any) -> None:
        """Raise the error that `fit` with these arguments raises before training, if any."""
        with keep_random():
            from hotview.estimators.checkpointing import begin_fit, check_same_inputs
            from hotview.estimators.fit import check_data

        given = self._parameters()
        with existing_threads(), pick_processes(given):
            checkpoint, p = begin_fit(given, resume=resume)
            data = self._data(p, **arguments)
            check_same_inputs(data, p, checkpoint)
            check_data(data, p)

    def _parameters(self) -> dict[str, Any]:
        """The validated parameters."""
        return check_parameters(self.get_params(deep=False), self._regularizer_weight)

    def _set_fitted(self, fit: Fit, start: float) -> None:
        """Set the attributes of a fit that began at `start`."""
        prepared, rows = fit.prepared, fit.prepared.rows
        trainings = [member.training for member in prepared.members]
        self._set_views({name: rows.columns for name, rows in prepared.data.views.items()})
        self._set_networks(
            [training.network for training in trainings],
            [training.history for training in trainings],
        )
        self.batch_size_ = trainings[0].sampler.batch_size
        self._set_plans(fit.plans)
        couplings = [training.objective.coupling for training in trainings]
        self.references_ = _references(couplings, self.plans_)
        self.view_similarity_, self.common_space_ = fit.similarity, fit.common_space
        self._columns = {name: scan.scaler for name, scan in rows.scans.items()}
        self._ranges = {name: scan.ranges for name, scan in rows.scans.items()}
        self.fit_warnings_ = list(prepared.warnings.texts)
        self.metadata_ = {}
        self._batch_offsets = None
        seconds = time.perf_counter() - start
        self.trained_on_ = describe_training(prepared.data, prepared.p, seconds, self._device)

    @property
    def view_labels_(self) -> IntArray | None:
        """The group of every view, if linked rows show stable groups; else None."""
        check_is_fitted(self)
        return None if self.view_similarity_ is None else self.view_similarity_.groups

    @property
    def preprocessing_(self) -> dict[str, str]:
        """What was done to the columns of every view, in words."""
        check_is_fitted(self)
        return {name: columns.description for name, columns in self._columns.items()}

    def _set_views(self, columns: Mapping[str, ViewColumns]) -> None:
        self.view_names_, self.n_views_, self.columns_ = list(columns), len(columns), dict(columns)
        self.n_features_per_view_ = {
            name: own.n_columns if own.columns is None else len(own.columns)
            for name, own in columns.items()
        }
        self._shapes = encoded_shapes(columns)

    def _set_networks(self, networks: list[MultiViewNetwork], histories: list[History]) -> None:
        self.networks_, self.histories_ = networks, histories
        self.network_, self.history_ = networks[0], histories[0]

    def _set_plans(self, plans: list[ViewPlan]) -> None:
        self.plans_ = plans or None
        self.plan_ = solve_mean_plan(plans, as_coupling(self.coupling).planner) if plans else None

    def transform(self, Xs: Views, space: str = "features") -> Any:
        """Encode rows of any of the views.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Views as at `fit`; rows need not be aligned. A dict may leave views out or hold None
            for them; a list holds None for absent views. Columns of data frames are matched by
            name.
        space : {"features", "common"}, default="features"
            Each view's own features f_s(x), or their image U_s f_s(x) in the common space. Rows of
            different views can be compared there if `common_space_` says so, which takes linked
            rows; otherwise it warns.

        Returns
        -------
        dict or list
            Float32 features of every view: ``encoder_dim`` columns, or ``n_components`` with
            ``space="common"``, times ``n_estimators``, those of the ensemble members side by side.
            They are in the container of the input: a pandas frame has the same index, a tensor is
            on the same device, an AnnData gives a pandas frame with its names of cells; sparse
            matrices and lists give arrays. `set_output` chooses another container. None for
            views that are None, and NaN in rows that are NaN throughout.
        """
        encoded = self._transform(Xs, space)
        if space == "common":
            self._warn_of_common_space()
        return encoded

    def _transform(self, Xs: Views, space: str) -> Any:
        """Encode rows as `transform` does, without its warning."""
        tables = self._check(Xs)
        check_choice("space", space, ("features", "common"))
        rows = self._rows(tables)
        encoded = {self.view_names_[s]: self._encode(s, view, space) for s, view in rows.items()}
        if isinstance(Xs, Mapping):
            return {name: encoded.get(name) for name in Xs}
        return [encoded.get(name) for name in self.view_names_]

    def _warn_of_common_space(self) -> None:
        """Warn if rows of different views cannot be compared in the common space, as far as known.

        Couplings that need aligned rows are trained on all of them, and none is held out.
        """
        found, coupling = self.common_space_, as_coupling(self.coupling)
        if (found is not None and found.is_comparable) or coupling.needs_alignment:
            return
        if found is not None:
            why = (
                "held-out linked rows are as far apart as others (FOSCTTM "
                f"{found.mean_foscttm:.2f}, 95 % interval {found.low:.2f} to {found.high:.2f}; "
                "chance is 0.50). Link more "
                "rows, or let alignment_weight be above 0."
            )
        else:
            why = (
                "fewer than 20 rows were linked, too few to measure it; without any, every "
                "rotation of a view matches the others as well. Link rows: "
                "MultiViewEncoder.fit(views, linked=rows)."
            )
        warn_user(f"Rows of different views may not be comparable in the common space: {why}")

    def transform_view(self, X: View, view: str, space: str = "features") -> Any:
        """Encode rows of one view.

        Parameters
        ----------
        X : 2-D array-like
            Rows of the view.
        view : str
            Its name.
        space : {"features", "common"}, default="features"
            As in `transform`.

        Returns
        -------
        array, data frame or tensor
            One row per row, in the container that `transform` would choose.
        """
        return self.transform({view: X}, space)[view]

    def check_drift(self, Xs: Views) -> DriftReport:
        """Compare rows with those of the fit: units, ranges, shares and missing cells of columns.

        A column differs if its median is outside of nearly all training values (values about a
        power of ten larger or smaller are named as an error of unit), if more than 5 % of its
        values are far outside, if it is constant or missing where it was not, or if a category has
        another share. With fewer than 20 rows, only values far outside are found: beyond the middle
        99 % of the training values, widened by twice its width on both sides.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            As for `transform`.

        Returns
        -------
        DriftReport
            ``summary()`` has sentences, none where nothing differs; ``views[name].columns`` the
            columns that differ, ``views[name].n_unusual`` the number of values of every row that
            are far outside.
        """
        tables = self._check(Xs)
        if self._ranges is None:
            raise ValueError(
                "Expected a model that knows the ranges of its columns, but one of a federation "
                "does not, because these are not shared. Compare rows where the model was trained."
            )
        return DriftReport(
            {
                name: compare_view(
                    table,
                    self._ranges[name],
                    is_counts=self._columns[name].is_counts,
                    names=self._shapes[name][1],
                )
                for name, table in tables.items()
            }
        )

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features of all views, one view after the other.

        Parameters
        ----------
        input_features : object, default=None
            Ignored; part of scikit-learn's interface.

        Returns
        -------
        ndarray of str
            ``"pix_0"``, ``"pix_1"``, ….
        """
        check_is_fitted(self)
        names = [
            name for view in self.view_names_ for name in self._feature_names(view, "features")
        ]
        return np.array(names, dtype=object)

    def set_output(self, *, transform: str | None = None) -> MultiViewEstimator:
        """Choose the container of every view that `transform` returns.

        Parameters
        ----------
        transform : {"default", "pandas", "polars"} or None, default=None
            ``"default"`` returns every view in the container of the input, whatever
            scikit-learn's ``transform_output`` is; the others return data frames. None changes
            nothing.

        Returns
        -------
        MultiViewEstimator
            The estimator itself.
        """
        if transform is not None:
            check_choice("transform", transform, CONTAINERS)
            self._sklearn_output_config = {"transform": transform}
        return self

    def save(self, path: str | Path) -> Path:
        """Save the fitted estimator in one file, which :func:`hotview.load` reads again.

        Parameters
        ----------
        path : str or Path
            Where to; ends in ``.hotview``.

        Returns
        -------
        Path
            Where it is.
        """
        from hotview.persistence.models import save_model  # which imports the estimators

        return save_model(self, path)

    def report(self, path: str | Path, Xs: Views | None = None, y: Any = None) -> Path:
        """Write a page that explains the fitted estimator: one HTML file, to be opened from disk.

        Parameters
        ----------
        path : str or Path
            Where to; ends in ``.html``.
        Xs : dict, list or tuple of 2-D array-likes, or None, default=None
            Rows that were not in training: aligned ones for a classifier, any for an encoder. They
            add metrics, the importance of views and columns, and the common space to the page.
        y : 1-D array-like or None, default=None
            Their classes.

        Returns
        -------
        Path
            Where it is.
        """
        from hotview.evaluation.record import make_record  # these import the estimators
        from hotview.report.page import write_report

        return write_report(make_record(self, Xs, y), path)

    def _html_repr(self) -> str:
        """What was learned, for notebooks; before `fit`, scikit-learn's diagram."""
        if not hasattr(self, "trained_on_"):
            return str(super()._html_repr())
        return summarize_as_html(self)

    def _feature_names(self, view: str, space: str) -> list[str]:
        s = self.view_names_.index(view)
        U = self.network_.maps[s]
        assert isinstance(U, torch.nn.Linear)
        n = U.out_features if space == "common" else U.in_features
        return [f"{view}_{j}" for j in range(n * len(self.networks_))]

    def _encode(self, s: int, view: ViewRows, space: str) -> Any:
        Y = encode_rows(self.networks_, s, view, space)
        names = self._feature_names(self.view_names_[s], space)
        return wrap_rows(output_container(self), Y, names, view.tables[0])

    def _check(self, Xs: Views, y: Any = None, *, aligned: bool = False) -> dict[str, ViewTable]:
        """Validate views against those of `fit`; `aligned` ones have the same rows, as has y.

        Entries are validated by `_rows`.
        """
        check_is_fitted(self)
        Xs = encode_known_views(Xs, self.columns_, self._left_out)
        tables = check_known_tables(Xs, self.view_names_, self._shapes)
        if aligned:
            check_aligned_tables(tables, y)
        return tables

    @property
    def _left_out(self) -> set[str]:
        """Columns of ids, labels and groups, and dropped ones, of a fit on the command line."""
        files = self.metadata_.get("preprocessing")
        if not isinstance(files, Mapping):
            return set()
        keys, drop = (
            ("id_column", "label_column", "group_column", "batch_column"),
            files.get("drop"),
        )
        names = [*map(files.get, keys), *(drop if isinstance(drop, list) else ())]
        return {name for name in names if isinstance(name, str)}

    @property
    def _device(self) -> torch.device:
        return next(self.network_.maps.parameters()).device

    def _rows(self, tables: Mapping[str, ViewTable]) -> dict[int, ViewRows]:
        """Rows of some views, by number of the view, for `map_rows`; their entries are checked."""
        rows, device = {}, self._device
        for s, name in enumerate(self.view_names_):
            if name in tables:
                table, scaler = tables[name], self._columns[name]
                rows[s] = ViewRows([table], scaler, device, once=True)
                check_rows(rows[s], partial(check_finite, name, table, scaler.impute, scaler))
        return rows


def _references(couplings: Sequence[Coupling], plans: Sequence[ViewPlan] | None) -> Array | None:
    """The learned references; with several members those of each, in the order of `plan_`."""
    clouds = [
        coupling.references.detach().cpu().numpy()
        for coupling in couplings
        if coupling.reference_based
    ]
    if not clouds:
        return None
    if len(clouds) == 1 or plans is None:
        return clouds[0]
    orders = match_columns(plans)
    return np.stack([cloud[order] for cloud, order in zip(clouds, orders, strict=True)])


def output_container(estimator: Any) -> str:
    """Container of `transform`: that of the estimator, else of scikit-learn's configuration."""
    own = getattr(estimator, "_sklearn_output_config", {}).get("transform")
    return check_choice("transform_output", own or get_config()["transform_output"], CONTAINERS)


def wrap_rows(container: str, X: Array, names: list[str], table: ViewTable) -> Any:
    """Rows in a container, by default in that of the input.

    A pandas frame keeps the index of the input. An AnnData, which could not hold features without
    its genes, becomes a pandas frame with its names of cells.

    Parameters
    ----------
    container : {"default", "pandas", "polars"}
        The container.
    X : ndarray
        The rows.
    names : list of str
        Names of their columns.
    table : ViewTable
        The input.

    Returns
    -------
    object
        Arrays for arrays, sparse matrices and lists.
    """
    container = table.container if container == "default" else container
    if container in ("pandas", "anndata"):
        import pandas as pd

        return pd.DataFrame(X, index=table.index, columns=names, copy=False)
    if container == "polars":
        import polars as pl

        return pl.DataFrame(X, schema=names)
    if container == "pyarrow":
        import pyarrow as pa

        return pa.table(dict(zip(names, X.T, strict=True)))
    return torch.from_numpy(X).to(table.device) if container == "torch" else X
