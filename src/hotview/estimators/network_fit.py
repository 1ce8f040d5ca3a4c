"""The network of one ensemble member, as in the paper: its construction, training and plan."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping
from typing import Any

import torch
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import Array
from hotview.estimators.couplings import CouplingSettings, make_coupling
from hotview.estimators.initialization import start_at_principal_components, start_references
from hotview.estimators.inputs import ViewTables
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.randomness import Randomness
from hotview.losses import DGCCA, NoCoupling, Planner
from hotview.losses.objective import Objective
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.loop import Schedule, Training
from hotview.training.progress import wants_progress
from hotview.training.view_plan import ViewPlan, plan_views

__all__ = ["ALIGNED_COUPLINGS", "NetworkFit"]

ALIGNED_COUPLINGS = ("lscca", "dgcca")  # which compare the same individuals in all views
#: parameters in which networks that are trained together may differ
_PER_MEMBER = ("coupling_weight", "regularizer_weight", "orthogonality_weight")
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
    """

    training: Training

    def __init__(
        self,
        parameters: Mapping[str, Any],
        tables: ViewTables,
        n_classes: int,
        random: Randomness,
    ) -> None:
        self.parameters, self.names, self.random = parameters, tables.names, random
        self.n_columns = [tables.tables(name)[0].n_columns for name in tables.names]
        self.n_classes = n_classes
        self.device = pick_device(parameters["device"])
        self.encoders = encoders_of(parameters["encoders"], tables.names)

    def __getitem__(self, name: str) -> Any:
        return self.parameters[name]

    @property
    def group(self) -> Hashable:
        """Parameters that must be equal in networks that are trained together."""
        own = {"random_state", "n_estimators", *_PER_MEMBER}
        shared = {name: repr(value) for name, value in self.parameters.items() if name not in own}
        return tuple(self.names), math.isinf(self["orthogonality_weight"]), tuple(shared.items())

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
            or self["coupling"] != "none"
            or self["view_regularizer"] != "none",
            aligned=self["coupling"] in ALIGNED_COUPLINGS,
        )
        network = self._network().to(self.device)
        objective = self._objective(rows, sampler.batch_size, class_weight).to(self.device)
        self.training = Training(network, objective, sampler, self.random.torch)
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
        return 1 / (n_clouds * (batch_size if self["reduction"] == "sum" else 1))

    def _network(self) -> MultiViewNetwork:
        widths = Widths(
            self.n_columns,
            hidden_of(self["hidden"], self.names),
            self["encoder_dim"],
            self["n_components"],
            self.n_classes,
            self["view_regularizer"] == "autoencoder",
        )
        return make_network(widths, self.random.torch, self.encoders, self.names)

    @property
    def head_weight(self) -> float:
        """Weight of the views' heads; by default 0 with the paper's sums, else 1."""
        given = self.parameters.get("head_weight")
        if given is None:
            return 0.0 if self["reduction"] == "sum" else 1.0
        return float(given)

    @property
    def planner(self) -> Planner:
        """Solver of the plan W; β is absolute with the paper's sums, else relative to C."""
        return Planner(
            self["reg"], self["reduction"] == "mean", self["sinkhorn_max_iter"], self["cost_decay"]
        )

    def _objective(
        self, rows: TrainingRows, n_points: int, class_weight: Array | None
    ) -> Objective:
        names = ("n_components", "n_references", "n_projections", "projections", "reduction")
        settings = CouplingSettings(
            **{name: self[name] for name in (*names, "orthogonality_weight")},
            n_points=n_points,
            planner=self.planner,
            generator=self.random.torch,
        )
        return Objective(
            make_coupling(self["coupling"], settings),
            self["view_regularizer"],
            coupling_weight=self["coupling_weight"],
            regularizer_weight=self["regularizer_weight"],
            head_weight=self.head_weight,
            class_weight=None
            if class_weight is None
            else torch.as_tensor(class_weight, dtype=torch.float32),
            teachers=rows.teachers,
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
        return plan_views(
            training.network,
            training.objective.coupling,
            training.sampler.data,
            self.planner,
            reduction=self["reduction"],
            batch_size=training.sampler.batch_size,
            n_components=self["n_components"],
            random=self.random.numpy,
            generator=self.random.torch,
            null=null,
        )

    def sample_latents(self) -> list[Tensor]:
        """Latents of a sample of the rows of every view."""
        network, views = self.training.network, self.training.sampler.data.views
        rows = [self.random.numpy.permutation(len(view))[:_N_LATENTS] for view in views]
        with torch.no_grad():
            Xs = [view.take_together(r) for view, r in zip(views, rows, strict=True)]
            return network.embed(network.encode(Xs))
