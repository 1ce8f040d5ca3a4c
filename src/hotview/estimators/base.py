"""What both estimators share: what a fit leaves behind, and `transform`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

import hotview
from hotview._types import Array, IntArray, View, Views
from hotview._validation import ViewTable, check_choice, check_known_tables
from hotview.estimators.checkpointing import begin_fit, check_same_fit, explained_loss
from hotview.estimators.distributed_checks import check_same_everywhere
from hotview.estimators.fit import fit_views
from hotview.estimators.inference import encode_rows
from hotview.estimators.inputs import FitInputs, FitResult
from hotview.estimators.output_containers import CONTAINERS, output_container, wrap_rows
from hotview.estimators.parameters import check_parameters, pick_processes
from hotview.estimators.provenance import describe_training
from hotview.estimators.randomness import replica_states
from hotview.losses import Coupling
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan
from hotview.training.columns import Columns, check_finite
from hotview.training.recorder import History
from hotview.training.rows import ViewRows
from hotview.training.view_plan import ViewPlan, average_plans, match_columns

__all__ = ["MultiViewEstimator"]


class _Unsplittable:
    """Stands where scikit-learn looks before it splits X: it would split views, not rows."""

    def __bool__(self) -> bool:
        raise ValueError(
            "Expected one table whose rows can be split, but scikit-learn would split the list of "
            "views. Use cross_validate or GridSearch of hotview.model_selection, which split the "
            "rows of all views alike, or put the views side by side with hotview.StackedViews."
        )


class MultiViewEstimator(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of the estimators."""

    impute: str | None
    n_references: int

    view_names_: list[str]
    n_views_: int
    n_features_per_view_: dict[str, int]
    network_: MultiViewNetwork
    networks_: list[MultiViewNetwork]
    history_: History
    histories_: list[History]
    plan_: ViewPlan | None
    plans_: list[ViewPlan] | None
    view_labels_: IntArray | None
    references_: Array | None
    batch_size_: int
    trained_on_: dict[str, Any]
    fit_warnings_: list[str]
    metadata_: dict[str, Any]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.pairwise = _Unsplittable()
        return tags

    @abstractmethod
    def _tasks(self, *args: Any, **arguments: Any) -> list[FitInputs]:
        """Check what `fit` got; return what to train, one task per replica."""

    def _per_replica(self, task: FitInputs) -> list[FitInputs]:
        """The same fit with the random state of every replica."""
        parameters = task.parameters
        states = replica_states(parameters["random_state"], parameters["n_estimators"])
        return [
            replace(task, parameters={**parameters, "random_state": state}, replica=r)
            for r, state in enumerate(states)
        ]

    def _fit(self, *, resume: bool, **arguments: Any) -> None:
        start = time.perf_counter()
        given = self._parameters()
        ranks = pick_processes(given)
        with ranks.telling(), explained_loss(given["checkpoint"]):
            checkpoint, parameters = begin_fit(given, resume=resume, ranks=ranks)
            if checkpoint is not None:
                start -= checkpoint.seconds
            tasks = self._tasks(**arguments, parameters=parameters)
            check_same_everywhere(tasks[0], ranks)
            ranks.first(lambda: check_same_fit(checkpoint, tasks))
            found = fit_views(tasks, checkpoint=checkpoint, ranks=ranks)
            self._keep(tasks, found, start)

    def _parameters(self) -> dict[str, Any]:
        """The parameters, checked."""
        parameters: dict[str, Any] = self.get_params(deep=False)
        check_parameters(parameters)
        return parameters

    def _keep(self, tasks: Sequence[FitInputs], found: Sequence[FitResult], start: float) -> None:
        """Set the attributes of a fit that began at `start`."""
        source, fitted = tasks[0].source, found[0]
        tables = {name: source.tables(name)[0] for name in source.names}
        self.view_names_ = list(source.names)
        self.n_views_ = len(source.names)
        self.n_features_per_view_ = {name: table.n_columns for name, table in tables.items()}
        self.networks_ = [one.network for one in found]
        self.histories_ = [one.history for one in found]
        self.network_, self.history_ = self.networks_[0], self.histories_[0]
        self.batch_size_ = fitted.batch_size
        self._keep_plans([one.plan for one in found if one.plan is not None])
        self.references_ = _references([one.coupling for one in found], self.plans_)
        self._shapes = {name: (table.n_columns, table.columns) for name, table in tables.items()}
        self._columns: dict[str, Columns] = fitted.columns
        self.fit_warnings_ = list(dict.fromkeys(remark for one in found for remark in one.remarks))
        self.metadata_ = {}
        seconds = time.perf_counter() - start
        self.trained_on_ = describe_training(tasks[0], seconds, self._device)

    def _keep_plans(self, plans: list[ViewPlan]) -> None:
        self.plans_ = plans or None
        self.plan_ = average_plans(plans) if plans else None
        self.view_labels_ = None if self.plan_ is None else self._group_views(self.plan_)

    def _group_views(self, plan: Plan) -> IntArray:
        n_groups = min(self.n_references, self.n_views_) if plan.pairwise else None
        labels: IntArray = plan.view_labels(n_groups).labels
        return labels

    def transform(self, Xs: Views, space: str = "features") -> Any:
        """Encode rows of any of the views.

        Parameters
        ----------
        Xs : dict, list or tuple of 2-D array-likes
            Views as at `fit`; rows need not be aligned. A dict may leave views out or hold None
            for them; a list holds None for what is absent.
        space : {"features", "common"}, default="features"
            Each view's own features f_s(x), or their image U_s f_s(x) in the common space.

        Returns
        -------
        dict or list
            Float32 features of every view, held in what the view came in: a pandas frame has the
            same index, a tensor is on the same device, an AnnData gives a pandas frame with its
            names of cells; sparse matrices and lists give arrays. `set_output` asks for another
            container. None where None came, and NaN in rows that are NaN throughout. Features of
            several replicas are side by side.
        """
        tables = self._check(Xs)
        check_choice("space", space, ("features", "common"))
        encoded = {name: self._encode(name, table, space) for name, table in tables.items()}
        if isinstance(Xs, Mapping):
            return {name: encoded.get(name) for name in Xs}
        return [encoded.get(name) for name in self.view_names_]

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

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the features of all views, one view after the other.

        Parameters
        ----------
        input_features : object, default=None
            Not used; it is there for scikit-learn.

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
            ``"default"`` returns every view in the container that it came in, whatever
            scikit-learn's ``transform_output`` is; the others make data frames of all. None
            changes nothing.

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
        saved: Path = hotview.save(self, path)
        return saved

    def _feature_names(self, view: str, space: str) -> list[str]:
        s = self.view_names_.index(view)
        U = self.network_.maps[s]
        assert isinstance(U, torch.nn.Linear)
        n = U.out_features if space == "common" else U.in_features
        return [f"{view}_{j}" for j in range(n * len(self.networks_))]

    def _encode(self, name: str, table: ViewTable, space: str) -> Any:
        rows = self._rows({name: table})
        s = self.view_names_.index(name)
        Y = encode_rows(self.networks_, s, rows[s], space)
        return wrap_rows(output_container(self), Y, self._feature_names(name, space), table)

    def _check(self, Xs: Views) -> dict[str, ViewTable]:
        """Views that come after `fit`, checked against those of then."""
        check_is_fitted(self)
        tables = check_known_tables(Xs, self.view_names_, self._shapes)
        for name, table in tables.items():
            check_finite(name, table, self.impute, self._columns[name])
        return tables

    @property
    def _device(self) -> torch.device:
        return next(self.network_.maps.parameters()).device

    def _rows(self, tables: Mapping[str, ViewTable]) -> dict[int, ViewRows]:
        columns, device = self._columns, self._device
        return {
            self.view_names_.index(name): ViewRows([table], columns[name], device, once=True)
            for name, table in tables.items()
        }


def _references(couplings: Sequence[Coupling], plans: Sequence[ViewPlan] | None) -> Array | None:
    """The learned clouds, with a first dimension for the replicas where there are several.

    These are in the order in which the mean plan has its columns.
    """
    clouds = [
        coupling.references.detach().cpu().numpy()
        for coupling in couplings
        if isinstance(coupling, ReferenceCoupling)
    ]
    if not clouds:
        return None
    if len(clouds) == 1 or plans is None:
        return clouds[0]
    orders = [match_columns(plan, plans[0]) for plan in plans]
    return np.stack([cloud[order] for cloud, order in zip(clouds, orders, strict=True)])
