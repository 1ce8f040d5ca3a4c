"""The network of one ensemble member, as in the paper: its construction, training and plan."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from dataclasses import replace
from typing import Any

import torch
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import Array
from hotview.estimators.initialization import start_at_principal_components, start_references
from hotview.estimators.inputs import ViewTables
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.randomness import Randomness
from hotview.losses import DGCCA, NoCoupling
from hotview.losses.objective import Objective
from hotview.losses.sliced import ReferenceCoupling
from hotview.losses.specifications import CouplingSizes
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.loop import Schedule
from hotview.training.view_plan import draw_null
from hotview.training.progress import wants_progress
from hotview.training.trainer import Training
from hotview.training.view_plan import ViewPlan, plan_views

__all__ = ["NetworkFit"]

#: settings of specifications in which networks that are trained together may differ
_PER_MEMBER = ("weight", "orthogonality_weight")
_MIN_EPOCHS, _MIN_STEPS = 10, 120  # of a training whose length is not given
_N_LATENTS = 1000  # rows of every view by which collapse is detected


class NetworkFit:
    """The network of one ensemble member, from its parameters to its plan.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's parameters.
    tables : ViewTables
        The tables to fit.
    n_classes : int
        Number of classes; 0 without heads.
    random : Randomness
        The member's random generators.
    number : int, default=0
        Number of the member.
    """

    training: Training

    def __init__(
        self,
        parameters: Mapping[str, Any],
        tables: ViewTables,
        n_classes: int,
        random: Randomness,
        number: int = 0,
    ) -> None:
        self.parameters, self.names, self.random = parameters, tables.names, random
        self.n_columns = [tables.tables(name)[0].n_columns for name in tables.names]
        self.n_classes, self.number = n_classes, number
        self.device = pick_device(parameters["device"])
        self.encoders = encoders_of(parameters["encoders"], tables.names)

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    @property
    def group(self) -> Hashable:
        """Parameters that must be equal in networks that are trained together."""
        own = {"random_state", "n_estimators", "coupling", "view_regularizer"}
        shared = {name: repr(value) for name, value in self.parameters.items() if name not in own}
        for spec in (self["coupling"], self["view_regularizer"]):
            if spec.name is None:  # a user's own module may not take leading dimensions
                return id(self)
            settings = {k: v for k, v in spec.get_params().items() if k not in _PER_MEMBER}
            shared[spec.parameter] = repr((spec.name, settings))
        is_exact = math.isinf(self["coupling"].orthogonality_weight)
        return tuple(self.names), is_exact, tuple(shared.items())

    def prepare(
        self,
        rows: TrainingRows,
        components: list[PCA],
        class_weight: Array | None,
    ) -> Training:
        """Make the network, the objective and the sampler.

        Parameters
        ----------
        rows : TrainingRows
            The rows to train on.
        components : list of PCA
            Principal components of every view; empty for a random initialization.
        class_weight : ndarray or None
            Weights of the classes.

        Returns
        -------
        Training
            Ready for the first step.
        """
        sampler = Sampler(
            rows,
            self["batch_size"],
            self.random.numpy,
            couples=self.n_classes == 0
            or {self["coupling"].name, self["view_regularizer"].name} != {"none"},
            aligned=self["coupling"].needs_alignment,
        )
        network = self._network().to(self.device)
        objective = self._objective(rows, sampler.batch_size, class_weight).to(self.device)
        self.training = Training(network, objective, sampler, self.random.torch, member=self.number)
        if self["initialization"] == "pca":
            self._initialize(components, rows)
        return self.training

    def _initialize(self, components: list[PCA], rows: TrainingRows) -> None:
        """Set the encoders to principal components, and the references to samples of latents."""
        network, coupling = self.training.network, self.training.objective.coupling
        for s, (pca, given) in enumerate(zip(components, self.encoders, strict=True)):
            if given is None:
                n_components = self["n_components"]
                start_at_principal_components(network, s, pca, n_components, self.latent_variance)
        if isinstance(coupling, ReferenceCoupling):
            start_references(network, coupling, rows, self.random)

    @property
    def latent_variance(self) -> float:
        """Mean variance of the latents' columns that the constraint of the coupling requires."""
        coupling, batch_size = self.training.objective.coupling, self.training.sampler.batch_size
        if isinstance(coupling, ReferenceCoupling):
            n_clouds = len(coupling.clouds())
        else:
            n_clouds = 1 if isinstance(coupling, DGCCA) else len(self.names)
        return 1 / (n_clouds * (batch_size if self["coupling"].reduction == "sum" else 1))

    def _network(self) -> MultiViewNetwork:
        widths = Widths(
            self.n_columns,
            hidden_of(self["hidden"], self.names),
            self["encoder_dim"],
            self["n_components"],
            self.n_classes,
            self["view_regularizer"].needs_decoders,
        )
        return make_network(widths, self.random.torch, self.encoders, self.names)

    def _objective(
        self, rows: TrainingRows, n_points: int, class_weight: Array | None
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
            source_views=rows.source_views,
        )

    def schedule(self, *, verbose: bool = True) -> Schedule:
        """Length of the training, and what is called after every epoch.

        Without `max_epochs`, there are at least 10 epochs, and enough for 120 steps.
        """
        max_epochs = self["max_epochs"]
        if max_epochs is None:
            n_steps = self["steps_per_epoch"] or self.training.sampler.n_steps
            max_epochs = max(_MIN_EPOCHS, math.ceil(_MIN_STEPS / n_steps))
        return Schedule(
            max_epochs,
            self["steps_per_epoch"],
            self.parameters.get("patience"),
            tuple(self["callbacks"] or ()),
            self.names,
            verbose and wants_progress(self["verbose"]),
            None if self["checkpoint"] is None else self["checkpoint_every"],
        )

    def plan(self, *, null: bool) -> ViewPlan | None:
        """The plan over the views from a last pass over all rows; None without a coupling.

        Parameters
        ----------
        null : bool
            Whether to compute the permutation null of the plan.
        """
        training = self.training
        if isinstance(training.objective.coupling, NoCoupling):
            return None
        rows, planner = training.sampler.data, self["coupling"].planner
        plan = plan_views(
            training.network,
            training.objective.coupling,
            rows,
            planner,
            reduction=self["coupling"].reduction,
            batch_size=training.sampler.batch_size,
            random=self.random.numpy,
            generator=self.random.torch,
        )
        if not null:
            return plan
        generators = self.random.numpy, self.random.torch
        return replace(plan, null=draw_null(rows.views, self["n_components"], planner, *generators))

    def sample_latents(self) -> list[Tensor]:
        """Latents of a sample of the rows of every view."""
        network, views = self.training.network, self.training.sampler.data.views
        rows = [self.random.numpy.permutation(len(view))[:_N_LATENTS] for view in views]
        with torch.no_grad():
            Xs = [view.take_on_all_ranks(r) for view, r in zip(views, rows, strict=True)]
            return network.embed(network.encode(Xs))
