"""Base class of the estimators: fitted attributes, `transform` and `save`."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from hotview._threads import existing_threads
from hotview._types import Array, IntArray, View, Views
from hotview._validation import ViewTable, check_aligned_tables, check_choice, check_known_tables
from hotview.data.columns import ViewColumns
from hotview.data.frames import encode_known_views
from hotview.estimators.html_summary import summarize_as_html
from hotview.estimators.randomness import keep_random, seeded
from hotview.losses.specifications import as_coupling
from hotview.model.parameters import Parameters, check_nested, check_parameters, pick_processes
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.drift import DriftReport
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.similarity.common_space import warn_of_common_space
from hotview.training.trainer import History
from hotview.training.view_plan import ViewPlan

if TYPE_CHECKING:
    from hotview.data import Data
    from hotview.model.model import Model

__all__ = ["MultiViewEstimator", "fit_batched"]

_CONTAINERS = ("default", "pandas", "polars")


def _of_model(name: str, item: int | None = None) -> Any:
    """A fitted attribute: that of `model_`, or an item of it; before `fit`, there is none."""

    def get(estimator: Any) -> Any:
        check_is_fitted(estimator)
        value = getattr(estimator.model_, name)
        return value if item is None else value[item]

    return property(get, lambda estimator, value: setattr(estimator.model_, name, value))


class MultiViewEstimator(Parameters, BaseEstimator, ABC):  # type: ignore[misc]
    """Base class of the encoder and the classifier."""

    #: weight of the view regularizer where it has none of its own
    _regularizer_weight: ClassVar[float]

    #: everything that `fit` learned
    model_: Model
    view_names_: list[str] = _of_model("names")
    n_views_: int = _of_model("n_views")
    n_features_per_view_: dict[str, int] = _of_model("n_features_per_view")
    columns_: dict[str, ViewColumns] = _of_model("columns")
    preprocessing_: dict[str, str] = _of_model("preprocessing")
    network_: MultiViewNetwork = _of_model("networks", 0)
    networks_: list[MultiViewNetwork] = _of_model("networks")
    history_: History = _of_model("histories", 0)
    histories_: list[History] = _of_model("histories")
    plan_: ViewPlan | None = _of_model("plan")
    plans_: list[ViewPlan] | None = _of_model("plans")
    view_similarity_: ViewSimilarity | None = _of_model("view_similarity")
    view_labels_: IntArray | None = _of_model("view_labels")
    common_space_: CommonSpace | None = _of_model("common_space")
    references_: Array | None = _of_model("references")
    batch_size_: int = _of_model("batch_size")
    trained_on_: dict[str, Any] = _of_model("trained_on")
    fit_warnings_: list[str] = _of_model("warnings")
    metadata_: dict[str, Any] = _of_model("metadata")

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
                (self.model_,) = fit_estimators([(data, p)], start=start, checkpoint=checkpoint)

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
        # Couplings that need aligned rows are trained on all of them, and none is held out.
        if space == "common" and not as_coupling(self.coupling).needs_alignment:
            warn_of_common_space(self.common_space_)
        return encoded

    def _transform(self, Xs: Views, space: str) -> Any:
        """Encode rows as `transform` does, without its warning."""
        tables = self._check(Xs)
        check_choice("space", space, ("features", "common"))
        own = getattr(self, "_sklearn_output_config", {}).get("transform")
        container = check_choice(
            "transform_output", own or get_config()["transform_output"], _CONTAINERS
        )
        names = self.model_.feature_names
        encoded = {
            name: tables[name].wrap(Y, names(name, space), container)
            for name, Y in self.model_.encode(tables, space).items()
        }
        order = Xs if isinstance(Xs, Mapping) else self.model_.names
        found = {name: encoded.get(name) for name in order}
        return found if isinstance(Xs, Mapping) else list(found.values())

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
        return self.model_.check_drift(self._check(Xs))

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
        names = map(self.model_.feature_names, self.model_.names)
        return np.array(list(chain.from_iterable(names)), dtype=object)

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
            check_choice("transform", transform, _CONTAINERS)
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
        from hotview.model.files import save_model

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
        from hotview.evaluation.record import make_record
        from hotview.report.page import write_report

        return write_report(make_record(self, Xs, y), path)

    def _html_repr(self) -> str:
        """What was learned, for notebooks; before `fit`, scikit-learn's diagram."""
        if not hasattr(self, "model_"):
            return str(super()._html_repr())
        return summarize_as_html(self)

    def _check(self, Xs: Views, y: Any = None, *, aligned: bool = False) -> dict[str, ViewTable]:
        """Validate views against those of `fit`; `aligned` ones have the same rows, as has y.

        Entries are validated by `Model.rows`.
        """
        if not hasattr(self, "model_"):
            check_is_fitted(self)  # which raises an error, and takes longer
        model = self.model_
        Xs = encode_known_views(Xs, model.columns, self._left_out)
        tables = check_known_tables(Xs, model.names, model.shapes)
        if aligned:
            check_aligned_tables(tables, y)
        return tables

    @property
    def _left_out(self) -> set[str]:
        """Columns of ids, labels and groups, and dropped ones, of a fit on the command line."""
        files = self.model_.metadata.get("preprocessing")
        if not isinstance(files, Mapping):
            return set()
        drop, keys = files.get("drop"), [f"{of}_column" for of in ("id", "label", "group", "batch")]
        names = [*map(files.get, keys), *(drop if isinstance(drop, list) else ())]
        return {name for name in names if isinstance(name, str)}


def fit_batched(
    fits: Sequence[tuple[MultiViewEstimator, Mapping[str, Any]]],
    *,
    view_tests: bool = True,
    training: AbstractContextManager[None] | None = None,
) -> None:
    """Fit estimators, each on its own data, as their own ``fit(**arguments)`` would.

    Networks that differ in the random state, the data and weights of losses alone are trained in
    one set of tensors, on a GPU as one CUDA graph.

    Parameters
    ----------
    fits : sequence of (estimator, dict of str to object)
        Estimators, and the arguments of their `fit`; they must not have checkpoints.
    view_tests : bool, default=True
        Whether the permutation null of the plan and the similarity of the views are computed.
    training : context manager or None, default=None
        Entered while networks are trained, not while tables are read and plans are computed.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.estimators.base import fit_batched
    >>> views = make_views(60, n_views=4, random_state=0).views
    >>> encoders = [MultiViewEncoder(max_epochs=2, random_state=seed) for seed in (0, 1)]
    >>> fit_batched([(encoder, {"Xs": views}) for encoder in encoders])
    >>> [len(encoder.history_) for encoder in encoders]
    [2, 2]
    """
    with keep_random():
        from hotview.estimators.fit import fit_estimators
    start = time.perf_counter()
    if any(estimator.get_params()["checkpoint"] is not None for estimator, _ in fits):
        raise ValueError(
            "Expected estimators without a checkpoint, because these fits are trained in one set "
            "of tensors, but some have one. Set checkpoint=None, or fit them one by one."
        )
    if any(estimator.get_params()["devices"] is not None for estimator, _ in fits):
        raise ValueError(
            "Expected estimators with devices=None, because these fits are trained together in "
            "this process, but some start others. Set devices=None, or fit them one by one."
        )
    with existing_threads():
        given = []
        for estimator, arguments in fits:
            p = seeded(estimator._parameters())
            given.append((estimator._data(p, **arguments), p))
        fitted = fit_estimators(given, start=start, view_tests=view_tests, training=training)
    for (estimator, _), model in zip(fits, fitted, strict=True):
        estimator.model_ = model
