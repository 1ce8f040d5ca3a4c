"""Validated inputs of a fit, and the rows that its networks are trained on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray, Views
from hotview._validation import (
    ViewTable,
    check_aligned_tables,
    check_known_tables,
    check_tables,
)
from hotview.estimators.inference import no_view_error
from hotview.estimators.labels import Labels, number_labels, read_labels
from hotview.estimators.parameters import impute_of
from hotview.estimators.randomness import Randomness
from hotview.ingest.columns import ViewColumns
from hotview.ingest.frames import columns_of, encode_known_views, encode_views, encoded_shapes
from hotview.semisupervised.class_prior import class_priors
from hotview.semisupervised.graph import (
    N_COMPONENTS,
    ViewGraph,
    build_graph,
    make_coordinates,
    nearest_neighbors,
)
from hotview.semisupervised.link_targets import make_link_targets
from hotview.training.batches import TrainingRows
from hotview.training.pca import principal_components
from hotview.training.rows import ViewRows, n_present
from hotview.training.table_scan import TableScan, check_finite, scan_tables

if TYPE_CHECKING:
    from sklearn.decomposition import PCA

    from hotview.semisupervised.pseudo_labels import ViewLabels

_MIN_LINKS = 3  # linked rows that are aligned
_MIN_SPLIT, _MAX_HELD_OUT = 20, 20  # linked rows of which some are held out, and how many
_MAX_MEASURED = 100  # linked rows to measure on, where none are aligned

__all__ = [
    "FitInputs",
    "SharedInputs",
    "Validation",
    "ViewTables",
    "check_tables_of_views",
    "check_validation",
    "compute_graphs",
    "scan_views",
]


@dataclass
class ViewTables:
    """The user's tables of all views.

    Parameters
    ----------
    names : list of str
        The views.
    linked : dict of str to ViewTable
        Tables whose row i is one individual in all views; empty, or one per view.
    unaligned : dict of str to ViewTable
        Tables of other individuals, of some or all views.

    Attributes
    ----------
    by_view : dict of str to list of ViewTable
        The tables of every view, linked rows first.
    columns : dict of str to ViewColumns
        The columns of every view, and how they are encoded.
    shapes : dict of str to (int, tuple of str or None)
        Number of encoded columns of every view, and their names if they have any.
    n_linked : int
        Number of rows of the linked tables.
    """

    names: list[str]
    linked: Mapping[str, ViewTable]
    unaligned: Mapping[str, ViewTable]

    def __post_init__(self) -> None:
        self.by_view: dict[str, list[ViewTable]] = {}
        self.columns: dict[str, ViewColumns] = {}
        for name in self.names:
            tables = [tables[name] for tables in (self.linked, self.unaligned) if name in tables]
            self.by_view[name] = tables
            encoded = [table for table in tables if table.encoding is not None]
            self.columns[name] = columns_of((encoded or tables)[0])
        self.shapes = encoded_shapes(self.columns)
        for name, (_, names) in self.shapes.items():
            for table in self.by_view[name]:
                table.columns = table.columns or names
        self.n_linked = self.linked[self.names[0]].n_rows if self.linked else 0


def check_tables_of_views(
    Xs: Views | None, y: Any, unaligned: Views | None, *, at_least: int = 2
) -> ViewTables:
    """Validate the tables passed to a classifier's `fit`.

    Parameters
    ----------
    Xs : views or None
        Linked rows; None where there are none.
    y : object
        Their labels, whose index is compared; None without linked rows.
    unaligned : views or None
        Other rows of some views, or, without linked rows, of all.
    at_least : int, default=2
        Minimum number of views.

    Returns
    -------
    ViewTables
        The tables.
    """
    if isinstance(unaligned, Sized) and len(unaligned) == 0:
        unaligned = None
    if Xs is None:
        if y is not None or unaligned is None:
            raise ValueError(
                "Expected linked rows Xs and their labels y, or None for both and all rows in "
                "unaligned, with labels in unaligned_y; but Xs is None and "
                + ("y is not. " if y is not None else "unaligned is empty. ")
                + "Pass fit(None, None, unaligned=views, unaligned_y={view: labels})."
            )
        [unaligned] = encode_views(unaligned)
        others = check_tables(unaligned, at_least=at_least)
        return ViewTables(list(others), {}, others)
    _check_some_linked(Xs)
    Xs, unaligned = encode_views(Xs, unaligned)
    linked = check_tables(Xs, aligned=True, at_least=at_least)
    check_aligned_tables(linked, y)
    given = ViewTables(list(linked), linked, {})
    if unaligned is None:
        return given
    return replace(given, unaligned=check_known_tables(unaligned, given.names, given.shapes))


def _check_some_linked(Xs: Any) -> None:
    """Explain what linked rows are, before a table without rows is called an empty view."""
    tables = list(Xs.values()) if isinstance(Xs, Mapping) else Xs
    if not isinstance(tables, list | tuple) or not tables:
        return
    if all(getattr(table, "shape", (1,))[:1] == (0,) for table in tables):
        raise ValueError(
            "Expected linked rows, the same individuals in all views, but every view of Xs has 0 "
            "rows. Link some; or, if every view has labels of its own, pass fit(None, None, "
            "unaligned=views, unaligned_y={view: labels})."
        )


@dataclass(frozen=True)
class SharedInputs:
    """Rows, and what is computed from them once for all members of an ensemble.

    Parameters
    ----------
    tables : ViewTables
        The user's tables.
    scans : dict of str to TableScan
        Column statistics and present rows of every view.
    views : list of ViewRows
        The present rows of every view, standardized when they are taken.
    components : list of PCA
        Principal components of every view; empty where they are not needed, as all that follow.
    neighbors : list of ndarray of int64
        Neighbors of every row of every view, for ``view_regularizer="manifold"``.
    graphs : list of ViewGraph
        Neighbor graph of every view, for pseudo-labels and ``view_regularizer="diffusion"``.
    coordinates : list of Tensor
        Diffusion coordinates of every row of every view, for ``view_regularizer="diffusion"``.
    log_prior : ndarray of shape (n_views, n_classes) or None
        Logarithms of the prior probabilities of the classes in every view, by all labels.
    links : ndarray of int64, shape (n_links, n_views)
        Row in every view of linked individuals whose latents are to agree, −1 where absent.
    held_out_links : ndarray of int64, shape (n_held_out, n_views)
        The same of individuals by whom it is measured whether latents agree.
    link_targets : list of Tensor
        Target latents of every row of every view, from `links`; empty where nothing is aligned.
    """

    tables: ViewTables
    scans: dict[str, TableScan]
    views: list[ViewRows]
    components: list[PCA] = field(default_factory=list)
    neighbors: list[IntArray] = field(default_factory=list)
    graphs: list[ViewGraph] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    log_prior: Array | None = None
    links: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    held_out_links: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    link_targets: list[Tensor] = field(default_factory=list)

    def training_rows(self, labels: Labels | None) -> TrainingRows:
        """Rows to train on: which are aligned, and which have a label.

        A linked row that is NaN throughout a view is absent from it: it counts as an unaligned row
        of the views that have it, and keeps its label there.
        """
        numbers = self.linked_numbers()
        complete = (numbers >= 0).all(axis=1)
        all_complete = bool(complete.all())  # then nothing is copied: there may be many rows
        nowhere = np.flatnonzero((numbers < 0).all(axis=1))
        if len(nowhere) > 0:
            raise ValueError(
                f"Expected every linked row to have at least one view, but {len(nowhere)} are NaN "
                f"throughout all of them, the first being row {nowhere[0]}. Leave these rows out."
            )
        aligned = numbers if all_complete else numbers[complete]
        extra: dict[str, Any] = {"neighbors": self.neighbors, "coordinates": self.coordinates}
        if self.link_targets:
            extra["links"] = self.links
        if labels is None:
            return TrainingRows(self.views, aligned, **extra)
        own = [
            self._own_labels(labels, name, np.where(complete, -1, numbers[:, s]))
            for s, name in enumerate(self.tables.names)
        ]
        return TrainingRows(
            self.views,
            aligned,
            labels.linked if all_complete else labels.linked[complete],
            [rows for rows, _ in own],
            [target for _, target in own],
            **extra,
        )

    def linked_numbers(self) -> IntArray:
        """Number of every linked row among the rows of every view, −1 where it is absent."""
        n = self.tables.n_linked
        names = self.tables.names if self.tables.linked else []
        linked = [self.scans[name].present[0] for name in names]
        if all(present is None for present in linked):  # the same number in all views
            return np.broadcast_to(np.arange(n)[:, None], (n, len(self.scans)))
        numbers = np.full((n, len(linked)), -1, dtype=np.int64)
        for s, present in enumerate(linked):
            rows = np.arange(n) if present is None else present
            numbers[rows, s] = np.arange(len(rows))
        return numbers

    def view_labels(self, labels: Labels | None) -> ViewLabels:
        """Labels of the rows of all views, as the semi-supervised methods take them."""
        from hotview.semisupervised.pseudo_labels import ViewLabels

        links = self.linked_numbers()
        codes = [np.full(view.n_rows, -1, dtype=np.int64) for view in self.views]
        if labels is None:
            return ViewLabels(codes, links, np.empty((len(codes), 0)))
        for s, name in enumerate(self.tables.names):
            has = links[:, s] >= 0
            codes[s][links[has, s]] = labels.linked[has]
            rows, target = self._own_labels(labels, name, np.full(len(links), -1))
            codes[s][rows] = target
        log_prior = self.log_prior
        if log_prior is None:
            log_prior = np.log(class_priors(codes, len(labels.classes)))
        return ViewLabels(codes, links, log_prior)

    def _own_labels(
        self, labels: Labels, name: str, incomplete: IntArray
    ) -> tuple[IntArray, IntArray]:
        """Labeled rows of one view that are not aligned, and their classes."""
        labeled = np.flatnonzero((incomplete >= 0) & (labels.linked >= 0))
        rows, target = [incomplete[labeled]], [labels.linked[labeled]]
        if name in labels.unaligned:
            *linked, present = self.scans[name].present
            n_before = sum(map(n_present, self.tables.by_view[name], linked))
            codes = labels.unaligned[name]
            codes = codes if present is None else codes[present]
            rows.append(n_before + np.flatnonzero(codes >= 0))
            target.append(codes[codes >= 0])
        return np.concatenate(rows), np.concatenate(target)


def scan_views(
    tables: ViewTables,
    *,
    preprocessing: Mapping[str, str],
    impute: Mapping[str, str | None],
    device: torch.device,
    load: bool = True,
) -> SharedInputs:
    """Read the rows of every view once, reduce wide ones, and number those that are present.

    Without `load`, no row is standardized before it is taken.
    """
    scans, views = {}, []
    for name, parts in tables.by_view.items():
        scan = scan_tables(
            name, parts, preprocessing=preprocessing[name], impute=impute[name], device=device
        )
        place = (scan.scaler, device, scan.present)
        own = ViewRows(parts, *place, often=load, once=not load)
        views.append(own)
        scans[name] = scan
    return SharedInputs(tables, scans, views)


def compute_graphs(
    shared: SharedInputs,
    parameters: Mapping[str, Any],
    labels: ViewLabels,
    random: Randomness,
) -> SharedInputs:
    """Add the components, neighbors, graphs and coordinates that the parameters require.

    Parameters
    ----------
    shared : SharedInputs
        From `scan_views`.
    parameters : dict of str to object
        The estimator's parameters.
    labels : ViewLabels
        All labels: labeled rows become nodes of the graphs before others.
    random : Randomness
        That of the first member.
    """
    regularizer, k = parameters["view_regularizer"], parameters["n_neighbors"]
    n_features = parameters["encoder_dim"]
    links, held_out = _split_links(shared, parameters, random.stage("links").numpy)
    needs_graphs = parameters.get("pseudo_labels", False) or regularizer.needs_coordinates
    needs_graphs = needs_graphs or len(links) > 0
    needs_components = parameters["initialization"] == "pca" or regularizer.needs_neighbors
    shared = replace(shared, links=links, held_out_links=held_out)
    if not (needs_components or needs_graphs):
        return shared
    n = max(n_features, parameters["n_components"], N_COMPONENTS * needs_graphs)
    components = principal_components(shared.views, n, random.stage("components").numpy)
    neighbors, graphs, coordinates = [], [], []
    for_graphs = random.stage("graphs").numpy
    for s, (view, pca) in enumerate(zip(shared.views, components, strict=True)):
        if regularizer.needs_neighbors:
            neighbors.append(nearest_neighbors(view, pca, k))
        if needs_graphs:
            graphs.append(build_graph(view, pca, k, for_graphs, labels.node_order(s)))
        if regularizer.needs_coordinates:
            coordinates.append(make_coordinates(graphs[s], n_features))
    targets = []
    if len(links) > 0:
        targets = make_link_targets(graphs, links, parameters["n_components"])
    return replace(
        shared,
        components=components,
        neighbors=neighbors,
        graphs=graphs,
        coordinates=coordinates,
        link_targets=targets,
    )


def _split_links(
    shared: SharedInputs, parameters: Mapping[str, Any], random: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Linked rows whose latents are to agree, and others by which it is measured whether they do.

    A fifth of the rows, at most 20, are held out; none of fewer than 20, which are too few for
    both. Where nothing is aligned, it can be measured on all.
    """
    links = shared.linked_numbers()
    links = links[(links >= 0).sum(axis=1) > 1]
    none = links[:0]
    if parameters["coupling"].needs_alignment:  # it aligns the rows itself
        return none, none
    if parameters["alignment_weight"] == 0:  # the same training as without linked rows
        order = np.random.default_rng(0).permutation(len(links))
        return none, links[np.sort(order[:_MAX_MEASURED])]
    order = random.permutation(len(links)) if len(links) > 0 else np.empty(0, np.int64)
    n = min(_MAX_HELD_OUT, len(links) // 5) if len(links) >= _MIN_SPLIT else 0
    trained = links[np.sort(order[n:])]
    return trained if len(trained) >= _MIN_LINKS else none, links[np.sort(order[:n])]


@dataclass(frozen=True)
class Validation:
    """Aligned rows on which the accuracy is computed after every epoch.

    Parameters
    ----------
    tables : dict of str to ViewTable
        Some or all views.
    target : ndarray of int64
        The true classes; −1 for a class that is not among the training labels.
    rows : ndarray of int64 or None, default=None
        Rows of the tables to use; None takes all.
    text_gaps : dict of str to int, default={}
        Texts in the place of missing labels, and their numbers.
    """

    tables: Mapping[str, ViewTable]
    target: IntArray
    rows: IntArray | None = None
    text_gaps: Mapping[str, int] = field(default_factory=dict)


def check_validation(
    validation: Any, fit_tables: ViewTables, classes: Array, parameters: Mapping[str, Any]
) -> Validation | None:
    """Validate the rows to score after every epoch.

    Parameters
    ----------
    validation : (views, labels) or None
        What was passed to `fit`.
    fit_tables : ViewTables
        The tables to fit.
    classes : ndarray
        Classes of the training labels, sorted.
    parameters : dict of str to object
        The estimator's parameters.

    Returns
    -------
    Validation or None
        None where there are no such rows, or `fit` is to hold some out.
    """
    held_out = parameters["validation_fraction"] is not None
    if not held_out and validation is None and parameters["patience"] is not None:
        raise ValueError(
            "Expected rows to validate on, because patience is set, but there are none. "
            "Pass validation=(Xs, y) to fit, or set validation_fraction."
        )
    if validation is None:
        return None
    if not isinstance(validation, tuple | list) or len(validation) != 2:
        raise TypeError(
            "Expected validation to be views and their labels, but it is a "
            f"{type(validation).__name__}. Pass validation=(Xs, y)."
        )
    Xs, y = validation
    Xs = encode_known_views(Xs, fit_tables.columns)
    tables = check_known_tables(Xs, fit_tables.names, fit_tables.shapes)
    impute = impute_of(parameters["impute"], fit_tables.names)
    present = [check_finite(name, X, impute[name]) for name, X in tables.items()]
    n_rows = check_aligned_tables(tables, y)
    nowhere = np.setdiff1d(np.arange(n_rows), np.concatenate(present))
    if len(nowhere) > 0:
        raise no_view_error(nowhere, fit_tables.names)
    found = read_labels("validation's y", y, n_rows, parameters["unlabeled_marker"])
    if not found.known.any():
        raise ValueError(
            "Expected validation's y to hold labels to score against, but no row has one. "
            "Label some rows, or leave validation out."
        )
    target = number_labels(found.values, classes)
    return Validation(tables, target, np.flatnonzero(found.known), found.text_gaps)


@dataclass(frozen=True)
class FitInputs:
    """Validated inputs of one estimator's fit.

    Parameters
    ----------
    tables : ViewTables
        The user's tables.
    labels : Labels or None
        Classes of the rows; None trains encoders only.
    parameters : dict of str to object
        The estimator's parameters.
    random_states : sequence
        Random state of every ensemble member.
    validation : Validation or None
        Rows to score after every epoch.
    held_out : sequence of ndarray of int64
        Linked rows whose labels a member is not trained on, for out-of-fold predictions; empty
        where no label is held out.
    """

    tables: ViewTables
    labels: Labels | None
    parameters: Mapping[str, Any]
    random_states: Sequence[Any] = (None,)
    validation: Validation | None = None
    held_out: Sequence[IntArray] = field(default_factory=list)
