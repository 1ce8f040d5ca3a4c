"""The fit of one ensemble member: its network, as in the paper, and its predictors."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from hotview._archive import round_to_float16
from hotview._types import Array, IntArray
from hotview.estimators.calibration import draw_subsets
from hotview.estimators.inference import (
    EnsembleMember,
    FusionRule,
    HeadEnsemble,
    PredictorEnsemble,
    predict_ensemble,
    predict_out_of_fold,
)
from hotview.estimators.initialization import (
    start_at_principal_components,
    start_at_targets,
    start_references,
)
from hotview.estimators.inputs import FitInputs, SharedInputs, Validation
from hotview.estimators.labels import Labels, hide, weigh_classes
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.randomness import Randomness
from hotview.losses import Coupling
from hotview.losses.objective import Objective
from hotview.losses.specifications import CouplingSizes
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.semisupervised.fusion import OutOfFold
from hotview.semisupervised.graph import encode_nodes
from hotview.semisupervised.label_folds import LabelFold
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.pseudo_labels import NodeLabels, make_soft_labels
from hotview.semisupervised.super_learner import ScoresOutOfFold, ScoresWithout
from hotview.similarity import CommonSpace, measure_common_space
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.loop import Schedule
from hotview.training.progress import wants_progress
from hotview.training.rows import ViewRows, embed_rows
from hotview.training.threads import catch_interrupt
from hotview.training.trainer import Training
from hotview.training.view_plan import ViewPlan, draw_null, plan_views

__all__ = ["LeftOut", "MemberFit", "Trained", "take_rows"]

#: settings of specifications in which networks that are trained together may differ
_PER_MEMBER = ("weight", "orthogonality_weight")
_MIN_EPOCHS = 10  # of a training whose length is not given
_MIN_STEPS, _MAX_STEPS = 80, 600  # of the same
_MAX_LEFT_OUT = 1000  # rows that a member predicts to weigh its predictors
_N_LATENTS = 1000  # rows of every view by which collapse is detected
_N_COMPARED = 300  # rows of every view with which linked rows are compared after an epoch


@dataclass(frozen=True)
class LeftOut:
    """Predictions of rows whose labels a member was not trained on.

    Parameters
    ----------
    scores : ScoresOutOfFold or OutOfFold
        Scores of these rows; with pseudo-labels, those of all predictors.
    without : ScoresWithout or None
        What differs in these where one view is left out; None without pseudo-labels.
    subsets : ScoresOutOfFold or None
        These with several but not all views of every row; None without pseudo-labels.
    linked : ScoresOutOfFold or None
        Scores of linked rows without a label which did not teach views without labels.
    """

    scores: ScoresOutOfFold | OutOfFold
    without: ScoresWithout | None = None
    subsets: ScoresOutOfFold | None = None
    linked: ScoresOutOfFold | None = None


@dataclass(frozen=True)
class Trained:
    """What is computed once with a trained network.

    Parameters
    ----------
    plan : ViewPlan or None
        The plan over the views; None without a coupling.
    latents : list of Tensor
        Latents of a sample of every view's rows.
    features : list of (ndarray, float)
        Features of the nodes of every view's graph, and their scale; empty without pseudo-labels.
    """

    plan: ViewPlan | None
    latents: list[Tensor]
    features: list[tuple[Array, float]]


class MemberFit:
    """The fit of one ensemble member: `prepare`, training, `finish`, `score_left_out`.

    With the parameter `pseudo_labels`, labels are propagated on neighbor graphs to train the heads
    of the views, and neighbors and a ridge regression predict new rows. Otherwise labels train all
    heads, and these predict new rows, as in the paper.

    Parameters
    ----------
    inputs : FitInputs
        The inputs of the estimator's fit.
    number : int
        Number of the member.

    Attributes
    ----------
    training : Training
        The network, its objective and its rows.
    latent_variance : float
        Mean variance of the latents' columns that the constraint of the coupling requires.
    interrupted : bool
        Whether training, or what follows it, was interrupted.
    """

    shared: SharedInputs
    nodes: list[NodeLabels]
    training: Training
    latent_variance: float
    interrupted = False
    _compared: list[Tensor]  # held-out linked rows of every view, and a sample of its rows

    def __init__(self, inputs: FitInputs, number: int) -> None:
        self.inputs, self.number, self.parameters = inputs, number, inputs.parameters
        self.names = inputs.tables.names
        self.device = pick_device(self.parameters["device"])
        self.encoders = encoders_of(self.parameters["encoders"], self.names)
        self.propagates: bool = self.parameters.get("pseudo_labels", False)
        self.random = Randomness(inputs.random_states[number])
        self.labels, self.validation = inputs.labels, inputs.validation
        self.n_classes = 0 if inputs.labels is None else len(inputs.labels.classes)
        self.held_out = inputs.held_out[number] if inputs.held_out else np.empty(0, np.int64)
        self.given_weight: Array | None = None
        if inputs.labels is not None:
            self.labels = hide(inputs.labels, self.held_out)
            self.given_weight = weigh_classes(self.parameters["class_weight"], self.labels)

    @property
    def has_own_modules(self) -> bool:
        """Whether an encoder, the coupling or the view regularizer is a module of the user's."""
        specs = self.parameters["coupling"], self.parameters["view_regularizer"]
        return None in [spec.name for spec in specs] or set(self.encoders) != {None}

    @property
    def uses_global_generators(self) -> bool:
        """Whether code of the user's may draw from torch's generators, or a checkpoint holds them.

        Everything else draws from the generators of `random`.
        """
        p = self.parameters
        return self.has_own_modules or bool(p["callbacks"]) or p["checkpoint"] is not None

    @property
    def group(self) -> Hashable:
        """Parameters that must be equal in networks that are trained together."""
        own = {"random_state", "n_estimators", "coupling", "view_regularizer"}
        shared = {name: repr(value) for name, value in self.parameters.items() if name not in own}
        for spec in (self.parameters["coupling"], self.parameters["view_regularizer"]):
            if spec.name is None:  # a user's own module may not take leading dimensions
                return self
            settings = {k: v for k, v in spec.get_params().items() if k not in _PER_MEMBER}
            shared[spec.parameter] = repr((spec.name, settings))
        is_exact = math.isinf(self.parameters["coupling"].orthogonality_weight)
        return tuple(self.names), is_exact, tuple(shared.items())

    def schedule(self) -> Schedule:
        """Length of the training, and what is called after every epoch.

        Without `max_epochs`, there are at least 10 epochs, and enough for 80 steps; in long
        tables, epochs are shortened so that there are no more than 600.
        """
        p = self.parameters
        max_epochs, n_steps = p["max_epochs"], p["steps_per_epoch"]
        if max_epochs is None:
            n_steps = n_steps or min(self.training.sampler.n_steps, _MAX_STEPS // _MIN_EPOCHS)
            max_epochs = max(_MIN_EPOCHS, math.ceil(_MIN_STEPS / n_steps))
        return Schedule(
            max_epochs,
            n_steps,
            p.get("patience"),
            tuple(p["callbacks"] or ()),
            self.names,
            wants_progress(p["verbose"]),
            None if p["checkpoint"] is None else p["checkpoint_every"],
        )

    def label_fold(self, shared: SharedInputs) -> LabelFold:
        """The labels that this member is trained on."""
        given = shared.view_labels(self.inputs.labels)
        n_folds = len(self.inputs.held_out)
        return LabelFold.of(shared.view_labels(self.labels), given, self.number, n_folds)

    def prepare(self, shared: SharedInputs, nodes: list[NodeLabels]) -> None:
        """Make the network, the objective and the sampler.

        Parameters
        ----------
        shared : SharedInputs
            What all members share.
        nodes : list of NodeLabels
            Labels of the nodes of every view, from `propagate_labels`; none without pseudo-labels.
        """
        p, self.shared, self.nodes = self.parameters, shared, nodes
        rows = shared.training_rows(self.labels)
        if nodes:
            codes = shared.view_labels(self.labels).codes
            posteriors = [of_view.posterior for of_view in nodes]
            soft_labels = list(map(make_soft_labels, shared.graphs, posteriors, codes))
            rows = replace(rows, soft_labels=soft_labels)
        for_batches = self.random.stage("batches")
        sampler = Sampler(
            rows,
            p["batch_size"],
            for_batches.numpy,
            couples=self.n_classes == 0
            or len(shared.link_targets) > 0
            or {p["coupling"].name, p["view_regularizer"].name} != {"none"},
            aligned=p["coupling"].needs_alignment,
        )
        network = self._network().to(self.device)
        objective = self._objective(rows, sampler.batch_size).to(self.device)
        self.latent_variance = self._latent_variance(objective.coupling, sampler.batch_size)
        targets = [T * math.sqrt(self.latent_variance) for T in shared.link_targets]
        sampler.data = replace(rows, link_targets=targets)
        self.training = Training(network, objective, sampler, for_batches.torch, member=self.number)
        if p["initialization"] == "pca":
            self._initialize(network, objective.coupling, sampler.data)
        if self.labels is not None and self.validation is not None:
            self.training.score = self._validation_score(network, self.validation)
        if len(shared.held_out_links) > 0:
            self._compared = self._take_compared(shared.held_out_links)
            self.training.measure = self._record_common_space

    def _network(self) -> MultiViewNetwork:
        p = self.parameters
        widths = Widths(
            [view.n_columns for view in self.shared.views],
            hidden_of(p["hidden"], self.names),
            p["encoder_dim"],
            p["n_components"],
            self.n_classes,
            p["view_regularizer"].needs_decoders,
        )
        return make_network(widths, self.random.stage("network").torch, self.encoders, self.names)

    def _objective(self, rows: TrainingRows, n_points: int) -> Objective:
        coupling, regularizer = self.parameters["coupling"], self.parameters["view_regularizer"]
        n_components = self.parameters["n_components"]
        # With soft labels, class weights act through the prior probabilities.
        weight = None if self.propagates else self.given_weight
        generator = self.random.stage("coupling").torch
        sizes = CouplingSizes(len(self.names), n_components, n_points, generator)
        return Objective(
            coupling.build(sizes),
            regularizer.build(),
            coupling_weight=coupling.weight,
            regularizer_weight=regularizer.weight,
            head_weight=self.parameters.get("head_weight", 1.0),
            class_weight=None if weight is None else torch.as_tensor(weight, dtype=torch.float32),
            source_views=rows.source_views,
            # Where costs are sums over the rows of a batch, so is the distance of linked rows.
            alignment_weight=self.parameters["alignment_weight"]
            * (n_points if coupling.reduction == "sum" else 1),
            reduction=coupling.reduction,
        )

    def _latent_variance(self, coupling: Coupling, batch_size: int) -> float:
        """Mean variance of the latents' columns that the constraint of the coupling requires."""
        is_sum = self.parameters["coupling"].reduction == "sum"
        return 1 / (coupling.n_constrained(len(self.names)) * (batch_size if is_sum else 1))

    def _initialize(
        self, network: MultiViewNetwork, coupling: Coupling, rows: TrainingRows
    ) -> None:
        """Set encoders to principal components, latents to targets, references to samples."""
        for s, (pca, given) in enumerate(zip(self.shared.components, self.encoders, strict=True)):
            if given is None:
                n_components = self.parameters["n_components"]
                start_at_principal_components(network, s, pca, n_components, self.latent_variance)
            if rows.link_targets:
                start_at_targets(network, s, rows, is_own=given is not None)
        if coupling.reference_based:
            start_references(network, coupling, rows, self.random.stage("references"))

    def finish(self, *, null: bool) -> Trained:
        """Compute the plan, latents of a sample, and the features of the graphs' nodes.

        Parameters
        ----------
        null : bool
            Whether to compute the permutation null of the plan.
        """
        network, views = self.training.network, self.training.sampler.data.views
        if self.propagates:
            self._round_weights()
        with catch_interrupt() as interrupt:  # the last pass must not lose the trained network
            plan, random = self._plan(null=null), self.random.stage("latents").numpy
            rows = [random.permutation(view.n_rows)[:_N_LATENTS] for view in views]
            latents = embed_rows(network, views, rows)
            graphs = self.shared.graphs if self.nodes else []
            features = [encode_nodes(graph, network.encoders[s]) for s, graph in enumerate(graphs)]
        self.interrupted = self.training.interrupted or interrupt.requested
        return Trained(plan, latents, features)

    def _round_weights(self) -> None:
        """Round the weights of the network to float16, which halves the model file.

        Encoders of the user's own are left as they are.
        """
        network = self.training.network
        own = tuple(f"encoders.{s}." for s, given in enumerate(self.encoders) if given is not None)
        with torch.no_grad():
            for name, weight in network.named_parameters():
                if not name.startswith(own):
                    weight.copy_(round_to_float16(weight))

    def _take_compared(self, links: IntArray) -> list[Tensor]:
        """Held-out linked rows of every view, and behind them a random sample of its rows."""
        random = np.random.default_rng(0)  # the measure does not depend on a seed
        parts = []
        for view, own in zip(self.shared.views, links.T, strict=True):
            sample = random.permutation(view.n_rows)[:_N_LATENTS]
            parts.append(view.take_on_all_ranks(np.concatenate([np.maximum(own, 0), sample])))
        return parts

    def measure_common_space(self, n_rows: int = _N_LATENTS) -> CommonSpace | None:
        """Nearness of held-out linked rows in the common space, compared with a sample of rows."""
        network, n = self.training.network, len(self.shared.held_out_links)
        was_training = network.training
        network.eval()
        with torch.no_grad():
            latents = network.latents([X[: n + n_rows] for X in self._compared])
        network.train(was_training)
        Zs = [Z.cpu().numpy() for Z in latents]
        for Z, own in zip(Zs, self.shared.held_out_links.T, strict=True):
            Z[:n][own < 0] = np.nan
        return measure_common_space([Z[:n] for Z in Zs], [Z[n:] for Z in Zs])

    def _record_common_space(self) -> dict[str, float]:
        """What the history records of the common space."""
        found = self.measure_common_space(_N_COMPARED)
        if found is None:
            return {}
        return {"foscttm": found.mean_foscttm, "neighbor_agreement": found.mean_agreement}

    def _plan(self, *, null: bool) -> ViewPlan | None:
        """The plan over the views from a last pass over all rows; None without a coupling."""
        network, sampler = self.training.network, self.training.sampler
        coupling, spec = self.training.objective.coupling, self.parameters["coupling"]
        if not coupling.couples:
            return None
        rows, planner = sampler.data, spec.planner
        random, null_random = self.random.stage("plan"), self.random.stage("null")
        sizes = spec.reduction, sampler.batch_size
        plan = plan_views(network, coupling, rows, planner, *sizes, random.numpy, random.torch)
        if not null:
            return plan
        n_components = self.parameters["n_components"]
        generators = null_random.numpy, null_random.torch
        return replace(plan, null=draw_null(rows.views, n_components, planner, *generators))

    def fit_heads(self) -> EnsembleMember:
        """The network, whose heads predict: without pseudo-labels, after `finish`."""
        return EnsembleMember(self.training.network, self._rule())

    def score_left_out(self, features: list[tuple[Array, float]]) -> LeftOut | None:
        """Score rows whose labels were held out, and linked rows that did not teach.

        Parameters
        ----------
        features : list of (ndarray, float)
            Those of `Trained`.

        Returns
        -------
        LeftOut or None
            None where no label was held out.
        """
        if self.labels is None or len(self.held_out) == 0:
            return None
        labels = self.shared.view_labels(self.labels)
        rows, target = labels.left_out(self.shared.view_labels(self.inputs.labels))
        if len(rows) > _MAX_LEFT_OUT:
            random = self.random.stage("left-out rows").numpy
            chosen = np.sort(random.choice(len(rows), _MAX_LEFT_OUT, replace=False))
            rows, target = rows[chosen], target[chosen]
        if not self.propagates:
            log_probs, counts = predict_out_of_fold(self.fit_heads(), self._take_rows(rows))
            return LeftOut(OutOfFold(log_probs, counts, target))
        predictors = fit_predictors(self.shared.graphs, self.nodes, labels, [features])
        ensemble = PredictorEnsemble([self.training.network], self._rule(), predictors)
        scores = self._score_rows(ensemble, rows, target)
        kept = draw_subsets(rows >= 0)
        with torch.inference_mode():
            Xs = self._take_rows(rows)
            without = ensemble.score_without(Xs)
            joint, counts = ensemble.score_subsets(Xs, torch.from_numpy(kept).to(self.device))
        subsets = replace(scores, joint=joint, present=counts)
        linked = labels.links[self.label_fold(self.shared).silent]
        if len(linked) == 0:
            return LeftOut(scores, without, subsets)
        unknown = np.full(len(linked), -1)
        return LeftOut(scores, without, subsets, self._score_rows(ensemble, linked, unknown))

    def _score_rows(
        self, ensemble: PredictorEnsemble, rows: IntArray, target: IntArray
    ) -> ScoresOutOfFold:
        """Scores of individuals, by the numbers of their rows in every view."""
        own = {
            s: torch.from_numpy(graph.node_numbers(rows[:, s])).to(self.device)
            for s, graph in enumerate(self.shared.graphs)
        }
        with torch.inference_mode():
            scores, joint, counts = ensemble.score(self._take_rows(rows), own)
        found = scores.cpu().numpy(), joint.cpu().numpy(), counts.cpu().numpy()
        return ScoresOutOfFold(*found, target)

    def _take_rows(self, rows: IntArray) -> dict[int, Tensor]:
        return take_rows(self.shared.views, rows)

    def fusion_rule(self, labels: Labels | None, nodes: Sequence[NodeLabels]) -> FusionRule:
        """Which predictors count, by the labels that they are trained on.

        Parameters
        ----------
        labels : Labels or None
            The labels.
        nodes : sequence of NodeLabels
            Labels of the nodes of every view; none without pseudo-labels.
        """
        rows = self.shared.training_rows(labels)
        labeled = rows.target[rows.target >= 0]
        n_known = [len(classes) for classes in rows.classes_known]
        if len(rows.transfer_rows) > 0:  # then labels are transferred to every view
            n_known = [max(n_known)] * len(n_known)
        for s, of_view in enumerate(nodes):
            n_known[s] = max(n_known) if of_view.taught else n_known[s]
        targets = np.concatenate([labeled, *rows.view_targets])
        counts = np.bincount(targets, minlength=self.n_classes) + 1
        return FusionRule(
            len(np.unique(labeled)) == self.n_classes,
            self.parameters["head_weight"] == 0 and not self.propagates,
            tuple(n_known),
            tuple(np.log(counts / counts.sum()).tolist()),
        )

    def _rule(self) -> FusionRule:
        """Which predictors of this member count."""
        return self.fusion_rule(self.labels, self.nodes)

    def _validation_score(
        self, network: MultiViewNetwork, validation: Validation
    ) -> Callable[[], float]:
        """Accuracy of the heads of the network on the validation rows."""
        rule, views = self._rule(), self._rows_of(validation)
        rule = replace(rule, joint=rule.joint and not self.propagates)
        ensemble = HeadEnsemble([EnsembleMember(network, rule)], None)

        def accuracy() -> float:
            network.eval()
            log_probs = predict_ensemble(ensemble, views, lambda log_p: log_p[0])
            return float(np.mean(log_probs.argmax(axis=1) == validation.target))

        return accuracy

    def _rows_of(self, validation: Validation) -> dict[int, ViewRows]:
        chosen = None if validation.rows is None else [validation.rows]
        return {
            s: ViewRows([validation.tables[name]], scan.scaler, self.device, chosen)
            for s, (name, scan) in enumerate(self.shared.scans.items())
            if name in validation.tables
        }


def take_rows(views: Sequence[ViewRows], rows: IntArray) -> dict[int, Tensor]:
    """Standardized rows of every view by number, NaN for −1.

    Parameters
    ----------
    views : sequence of ViewRows
        The views.
    rows : ndarray of int64, shape (n_rows, n_views)
        Numbers of individuals' rows in every view.
    """
    Xs = {}
    for s, view in enumerate(views):
        X = view.take_on_all_ranks(np.maximum(rows[:, s], 0))
        absent = torch.from_numpy(rows[:, s] < 0).to(X.device)
        Xs[s] = X.masked_fill(absent.unsqueeze(1), torch.nan)
    return Xs
