"""One fit: from checked tables and parameters to a training, and from there to a model."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import Array
from hotview.estimators import diagnostics
from hotview.estimators.inference import Fusion, class_log_probabilities, member_log_probs
from hotview.estimators.initialization import start_at_principal_components, start_references
from hotview.estimators.inputs import (
    FitInputs,
    FitResult,
    Reading,
    Validation,
    gather_rows,
    read_source,
)
from hotview.estimators.labels import Labels, hide, hold_out, show
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.randomness import Randomness
from hotview.losses import DGCCA, Coupling, NoCoupling
from hotview.losses.objective import Objective
from hotview.losses.sliced import ReferenceCoupling
from hotview.losses.specifications import CouplingSizes
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.semisupervised.fusion import OutOfFold
from hotview.semisupervised.graph import (
    N_COMPONENTS,
    Known,
    ViewGraph,
    build_graph,
    make_coordinates,
    make_soft_labels,
    propagate_labels,
    refine_graph,
)
from hotview.semisupervised.neighbors import nearest_neighbors
from hotview.semisupervised.predictors import ViewPredictors, fit_predictors
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.column_scaler import ColumnScaler
from hotview.training.loop import Schedule
from hotview.training.pca import principal_components
from hotview.training.permutation_null import draw_null
from hotview.training.process_group import Interrupt, ProcessGroup
from hotview.training.progress import wants_progress
from hotview.training.rows import ViewRows
from hotview.training.trainer import Training
from hotview.training.view_plan import ViewPlan, plan_views

__all__ = ["NetworkFit"]

#: settings of specifications in which fits that are trained together may differ
_PER_REPLICA = ("weight", "orthogonality_weight")
_FEWEST_EPOCHS, _FEWEST_STEPS = 10, 120  # of a training whose length is not given
_WATCHED = 1000  # rows of every view that are looked at for collapse


class NetworkFit:
    """The steps of a fit before and after the training, and what they have in common."""

    columns: dict[str, ColumnScaler]
    data: TrainingRows
    graphs: list[ViewGraph]
    training: Training
    fusion: Fusion | None

    def __init__(self, task: FitInputs, *, null: bool, ranks: ProcessGroup | None = None) -> None:
        self.task, self.null, self.ranks = task, null, ranks or ProcessGroup()
        self.remarks: list[str] = []
        self.source, self.parameters = task.source, task.parameters
        self.labels = None if task.labels is None else hide(task.labels, task.held)
        self.names = task.source.names
        self.device = pick_device(task.parameters["device"])
        self.random = Randomness(task.parameters["random_state"])
        self.encoders = encoders_of(task.parameters["encoders"], task.source.names)

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    @property
    def kind(self) -> Hashable:
        """Parameters that must be equal in fits that are trained together."""
        own = {"random_state", "n_estimators", "coupling", "view_regularizer"}
        shared = {name: repr(value) for name, value in self.parameters.items() if name not in own}
        coupling, regularizer = self["coupling"], self["view_regularizer"]
        for spec in (coupling, regularizer):
            if spec.name is None:  # a user's own module may not take leading dimensions
                return id(self)
            settings = spec.get_params().items()
            shared[spec.parameter] = repr(
                [
                    spec.name,
                    *((name, value) for name, value in settings if name not in _PER_REPLICA),
                ]
            )
        return tuple(self.names), math.isinf(coupling.orthogonality_weight), tuple(shared.items())

    def prepare(self, readings: dict[Hashable, Reading]) -> Training:
        """Everything up to the first step; tables that were read before are not read again."""
        validation = self._hold_out(self.task.validation)
        class_weight = None if self.labels is None else self.task.weigh_classes(self.labels)
        self.class_weight = self._weights(class_weight)
        self.columns, data = self._read(readings)
        components = self._components(data)
        data = self._with_neighbors(data, components)
        self.data = data = self._with_coordinates(self._with_lessons(data, components), components)
        sampler = self._sampler(data)
        network = self._network().to(self.device)
        objective = self._objective(data, sampler.batch_size, class_weight).to(self.device)
        if self["initialization"] == "pca":
            self._start_at(components, network, objective.coupling, data, sampler)
        self.fusion = None if self.labels is None else self._fusion(self.labels, data)
        score = self._score(network, self.fusion, validation)
        self.training = Training(
            network, objective, sampler, self.random.torch, score, self.task.replica
        )
        return self.training

    def finish(self) -> FitResult:
        """Everything after the last step."""
        training = self.training
        network, coupling = training.network, training.objective.coupling
        batch_size = training.sampler.batch_size
        with Interrupt() as interrupt:  # what is learned must not be lost in the last pass
            plan = self._plan(network, coupling, self.data, batch_size)
            latents = self._latents(network, self.data)
            judge, held = self._judge(network)
        with diagnostics.noted(self.remarks, aloud=self.ranks.is_rank_zero):
            interrupted = training.interrupted or interrupt.requested
            if interrupted and self.reading.kept.setdefault("interrupted", self) is self:  # once
                diagnostics.remark_on_interrupt(len(training.history))
            self._remark(plan, latents, coupling, batch_size)
        return FitResult(
            network,
            coupling,
            self.columns,
            training.history,
            plan,
            batch_size,
            self.fusion,
            judge,
            held,
            tuple(self.remarks),
        )

    def _hold_out(self, validation: Validation | None) -> Validation | None:
        """The rows to validate on: those given, or some whose labels are hidden."""
        share = self.parameters.get("validation_fraction")
        if self.labels is None or validation is not None or share is None:
            return validation
        self.labels, held, target = hold_out(self.labels, share, self.random.numpy)
        return Validation(self.source.linked, target, held)

    def _read(
        self, readings: dict[Hashable, Reading]
    ) -> tuple[dict[str, ColumnScaler], TrainingRows]:
        """Look at all tables once, and number their rows."""
        how = {name: self[name] for name in ("standardize", "impute")}
        key = (id(self.source), self.device, *how.values())
        is_new = key not in readings
        if is_new:
            readings[key] = read_source(self.source, **how, device=self.device, ranks=self.ranks)
        self.reading = reading = readings[key]
        data = gather_rows(self.source, reading, self.labels)
        self._check_alignment(data)
        if is_new:
            with diagnostics.noted(self.remarks, aloud=self.ranks.is_rank_zero):
                self._remark_on_data(reading, data)
        return {name: scan.scaler for name, scan in reading.scans.items()}, data

    def _remark_on_data(self, reading: Reading, data: TrainingRows) -> None:
        if self["coupling"].needs_alignment:
            missing = self.source.n_linked - len(data.aligned)
            diagnostics.remark_on_incomplete(self["coupling"].label, missing)
        diagnostics.remark_on_columns(reading.scans, standardize=self["standardize"])
        diagnostics.remark_on_few_views(self["coupling"].label, len(self.names))
        if self.labels is not None:
            diagnostics.remark_on_classes(self.labels.classes, self.names, data)

    def _latents(self, network: MultiViewNetwork, data: TrainingRows) -> list[Tensor]:
        """Latents of some rows of every view, as the network encodes them now."""
        rows = [self.random.numpy.permutation(len(view))[:_WATCHED] for view in data.views]
        with torch.no_grad():
            Xs = [view.take_on_all_ranks(r) for view, r in zip(data.views, rows, strict=True)]
            return network.embed(network.encode(Xs))

    def _remark(
        self,
        plan: ViewPlan | None,
        latents: list[Tensor],
        coupling: Coupling,
        batch_size: int,
    ) -> None:
        if plan is None:  # without a coupling nothing has shaped the common space
            return
        if self.reading.kept.setdefault("remarked", self) is not self:  # replicas say it once
            return
        wanted = float(np.sqrt(self["n_components"] * self._variance(coupling, batch_size)))
        remedies = [
            "use view_regularizer='autoencoder'" * (not self["view_regularizer"].needs_decoders),
            "raise the coupling's orthogonality_weight" * (not isinstance(coupling, DGCCA)),
            "lower the coupling's weight",
        ]
        diagnostics.remark_on_collapse(self.names, latents, self._widths(), wanted, remedies)
        diagnostics.remark_on_plan(plan)

    def _check_alignment(self, data: TrainingRows) -> None:
        """Refuse rows without correspondence where the coupling compares individuals."""
        if not self["coupling"].needs_alignment:
            return
        if self.source.unaligned or len(data.aligned) < 2:
            raise ValueError(
                f"Expected aligned rows for coupling={self['coupling'].label!r}, which compares "
                "the same individuals in all views, but "
                + (
                    f"views {list(self.source.unaligned)} have unaligned ones. "
                    if self.source.unaligned
                    else f"{len(data.aligned)} have all views. "
                )
                + "Pass paired=True to MultiViewEncoder if row i is the same individual in every "
                "view, leave unaligned rows out, or use coupling='hot-reference'."
            )

    def _widths(self) -> list[int]:
        return [self.source.tables(name)[0].n_columns for name in self.names]

    def _components(self, data: TrainingRows) -> list[PCA]:
        """Principal components of every view, where something begins with them."""
        on_graph = self.spreads or self["view_regularizer"].needs_coordinates
        seeks = self["view_regularizer"].needs_neighbors or on_graph
        if self["initialization"] != "pca" and not seeks:
            return []
        n = max(self["encoder_dim"], self["n_components"], N_COMPONENTS * on_graph)
        kept, key = self.reading.kept, ("components", n)
        if key not in kept:
            kept[key] = principal_components(data.views, n, self.random.numpy)
        found: list[PCA] = kept[key]
        return found

    def _with_neighbors(self, data: TrainingRows, components: list[PCA]) -> TrainingRows:
        if not self["view_regularizer"].needs_neighbors:
            return data
        pairs = zip(data.views, components, strict=True)
        k = self["n_neighbors"]
        return replace(data, neighbors=[nearest_neighbors(view, pca, k) for view, pca in pairs])

    @property
    def spreads(self) -> bool:
        """Whether labels spread among the rows of every view."""
        return self.labels is not None and bool(self.parameters.get("pseudo_labels"))

    def _weights(self, class_weight: Array | None) -> Array:
        n_classes = 0 if self.labels is None else len(self.labels.classes)
        return np.ones(n_classes) if class_weight is None else class_weight

    def _with_lessons(self, data: TrainingRows, components: list[PCA]) -> TrainingRows:
        if not self.spreads:
            return data
        self.graphs = self._grounds(data, components)
        known = Known.of(data, self.class_weight)
        shares = propagate_labels(self.graphs, known, self.random.numpy)
        each = zip(self.graphs, shares, known.codes, strict=True)
        return replace(data, soft_labels=[make_soft_labels(*three) for three in each])

    def _with_coordinates(self, data: TrainingRows, components: list[PCA]) -> TrainingRows:
        if not self["view_regularizer"].needs_coordinates:
            return data
        kept, n = self.reading.kept, self["encoder_dim"]
        if ("coordinates", n, self["n_neighbors"]) not in kept:
            kept["coordinates", n, self["n_neighbors"]] = [
                make_coordinates(ground, n) for ground in self._grounds(data, components)
            ]
        return replace(data, coordinates=kept["coordinates", n, self["n_neighbors"]])

    def _grounds(self, data: TrainingRows, components: list[PCA]) -> list[ViewGraph]:
        kept, k = self.reading.kept, self["n_neighbors"]
        if ("graphs", k) not in kept:
            kept["graphs", k] = [
                build_graph(data, s, pca, k, self.random.numpy) for s, pca in enumerate(components)
            ]
        graphs: list[ViewGraph] = kept["graphs", k]
        return graphs

    def _judge(self, network: MultiViewNetwork) -> tuple[ViewPredictors | None, OutOfFold | None]:
        """Those who judge new rows, and what they said while some labels were held out."""
        graphs = []
        if self.spreads:
            pairs = zip(self.graphs, network.encoders, strict=True)
            graphs = [refine_graph(ground, encoder) for ground, encoder in pairs]
        judge, held, labels = self._appoint(graphs, self.data), None, self.labels
        rows = self.task.held
        if len(rows) > 0 and labels is not None and self.fusion is not None:
            assert self.task.labels is not None
            target = self.task.labels.linked[rows]
            views = self._views_of(Validation(self.source.linked, target, rows))
            held = OutOfFold(*member_log_probs(network, views, self.fusion, judge), target)
            # Now that it is known how right they are, they may know all labels.
            judge = self._know_all(graphs, show(labels, rows, target))
        return judge, held

    def _know_all(self, graphs: list[ViewGraph], labels: Labels) -> ViewPredictors | None:
        if not self.spreads:
            return None
        data = gather_rows(self.source, self.reading, labels)
        self.fusion = self._fusion(labels, data)
        return self._appoint(graphs, data)

    def _appoint(self, graphs: list[ViewGraph], data: TrainingRows) -> ViewPredictors | None:
        if not self.spreads:
            return None
        assert self.fusion is not None
        known = Known.of(data, self.class_weight)
        return fit_predictors(graphs, data, known, self.random.numpy, joint=self.fusion.joint)

    def _start_at(
        self,
        components: list[PCA],
        network: MultiViewNetwork,
        coupling: Coupling,
        data: TrainingRows,
        sampler: Sampler,
    ) -> None:
        """Let the encoders begin at principal components, and the references among the views."""
        variance = self._variance(coupling, sampler.batch_size)
        for s, (pca, given) in enumerate(zip(components, self.encoders, strict=True)):
            if given is None:
                start_at_principal_components(network, s, pca, self["n_components"], variance)
        if isinstance(coupling, ReferenceCoupling):
            start_references(network, coupling, data, self.random)

    def _variance(self, coupling: Coupling, batch_size: int) -> float:
        """Mean variance of the latents' columns that the constraint of the coupling asks for."""
        if isinstance(coupling, ReferenceCoupling):
            n_clouds = len(coupling.clouds())
        else:
            n_clouds = 1 if isinstance(coupling, DGCCA) else len(self.names)
        return 1 / (n_clouds * (batch_size if self["coupling"].reduction == "sum" else 1))

    def _network(self) -> MultiViewNetwork:
        widths = Widths(
            self._widths(),
            hidden_of(self["hidden"], self.names),
            self["encoder_dim"],
            self["n_components"],
            0 if self.labels is None else len(self.labels.classes),
            self["view_regularizer"].needs_decoders,
        )
        return make_network(widths, self.random.torch, self.encoders, self.names)

    def _sampler(self, data: TrainingRows) -> Sampler:
        coupling, regularizer = self["coupling"], self["view_regularizer"]
        return Sampler(
            data,
            self["batch_size"],
            self.random.numpy,
            couples=self.labels is None or {coupling.name, regularizer.name} != {"none"},
            aligned=coupling.needs_alignment,
        )

    def _objective(
        self, data: TrainingRows, n_points: int, class_weight: Array | None
    ) -> Objective:
        sizes = CouplingSizes(len(self.names), self["n_components"], n_points, self.random.torch)
        return Objective(
            self["coupling"].build(sizes),
            self["view_regularizer"].build(),
            coupling_weight=self["coupling"].weight,
            regularizer_weight=self["view_regularizer"].weight,
            head_weight=self.parameters.get("head_weight", 1.0),
            class_weight=None
            if class_weight is None
            else torch.as_tensor(class_weight, dtype=torch.float32),
            teachers=data.teachers,
        )

    def _fusion(self, labels: Labels, data: TrainingRows) -> Fusion:
        """Which heads training teaches, and how frequent the classes are."""
        n_classes = len(labels.classes)
        labeled = data.target[data.target >= 0]
        known = [len(classes) for classes in data.classes_known]
        if len(data.taught) > 0:  # then every view learns what the teachers know
            known = [max(known)] * len(known)
        counts = np.bincount(np.concatenate([labeled, *data.own_target]), minlength=n_classes) + 1
        return Fusion(
            len(np.unique(labeled)) == n_classes,
            self["head_weight"] == 0 and not self.spreads,
            tuple(known),
            tuple(np.log(counts / counts.sum()).tolist()),
        )

    @property
    def max_epochs(self) -> int:
        """Most epochs: those given, or as many as make enough steps of a small table, too."""
        given: int | None = self["max_epochs"]
        if given is not None:
            return given
        steps = self["steps_per_epoch"] or self.training.sampler.n_steps
        return max(_FEWEST_EPOCHS, math.ceil(_FEWEST_STEPS / steps))

    @property
    def schedule(self) -> Schedule:
        """How long to train."""
        return Schedule(
            self.max_epochs,
            self["steps_per_epoch"],
            self.parameters.get("patience"),
            tuple(self["callbacks"] or ()),
            self.names,
            wants_progress(self["verbose"]) and self.ranks.is_rank_zero,
            None if self["checkpoint"] is None else self["checkpoint_every"],
        )

    def _score(
        self,
        network: MultiViewNetwork,
        fusion: Fusion | None,
        validation: Validation | None,
    ) -> Callable[[], float] | None:
        if validation is None or fusion is None:
            return None
        views = self._views_of(validation)
        if self.spreads:  # then the joint head is not trained
            fusion = replace(fusion, joint=False)

        def accuracy() -> float:
            network.eval()
            found = class_log_probabilities(network, views, fusion).argmax(axis=1)
            return float(np.mean(found == validation.target))

        return accuracy

    def _views_of(self, validation: Validation) -> dict[int, ViewRows]:
        chosen = None if validation.rows is None else [validation.rows]
        return {
            s: ViewRows([validation.tables[name]], self.columns[name], self.device, chosen)
            for s, name in enumerate(self.names)
            if name in validation.tables
        }

    def _plan(
        self, network: MultiViewNetwork, coupling: Coupling, data: TrainingRows, batch_size: int
    ) -> ViewPlan | None:
        if isinstance(coupling, NoCoupling):
            return None  # nothing has brought the views into a common space
        planner = self["coupling"].planner
        kept, key = self.reading.kept, ("null", self["n_components"], planner)
        plan = plan_views(
            network,
            coupling,
            data,
            planner,
            reduction=self["coupling"].reduction,
            batch_size=batch_size,
            random=self.random.numpy,
            generator=self.random.torch,
        )
        if not self.null:
            return plan
        if key not in kept:  # it depends on the tables alone, and is the same for all replicas
            rng = self.random.numpy, self.random.torch
            kept[key] = draw_null(data.views, self["n_components"], planner, *rng)
        return replace(plan, null=kept[key])
