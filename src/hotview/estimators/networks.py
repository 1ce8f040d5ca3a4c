"""Stages of a fit on the networks: one training per ensemble member."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotview._processes import is_distributed
from hotview._threads import suited_threads
from hotview._types import IntArray
from hotview.data import Data
from hotview.estimators.initialization import start_network
from hotview.estimators.randomness import Randomness
from hotview.estimators.rows import Graphs, Rows
from hotview.losses.objective import Objective
from hotview.losses.specifications import CouplingSizes
from hotview.model.model import predict_rows
from hotview.model.parameters import hidden_of, pick_device
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.preprocessing.rows import ViewRows
from hotview.semisupervised.class_prior import weigh_classes
from hotview.semisupervised.learner import SemiSupervised
from hotview.semisupervised.soft_labels import NodeLabels, make_soft_labels
from hotview.similarity import CommonSpace, measure_common_space
from hotview.training.batched import BatchedTrainer
from hotview.training.batches import Sampler, TrainingRows
from hotview.training.checkpoint import Checkpoint
from hotview.training.ddp import DDPTrainer
from hotview.training.loop import Schedule, train
from hotview.training.progress import wants_progress
from hotview.training.trainer import SingleTrainer, Trainer, Training

__all__ = [
    "CommonSpaceProbe",
    "Member",
    "prepare_member",
    "train_networks",
]

#: settings of specifications in which networks that are trained together may differ
_PER_MEMBER = ("weight", "orthogonality_weight")
_MIN_EPOCHS = 10  # of a training whose length is not given
_MIN_STEPS, _MAX_STEPS = 80, 600  # of the same
N_LATENTS = 1000  # rows of every view by which collapse is detected
_NO_LINKS: IntArray = np.empty((0, 0), dtype=np.int64)
_N_COMPARED = 300  # rows of every view with which linked rows are compared after an epoch


@dataclass(frozen=True)
class Member:
    """One network to train, and what belongs to it alone.

    Parameters
    ----------
    data : Data
        The labels that it is trained on.
    nodes : list of NodeLabels
        What these say about the nodes of every view's graph; none without pseudo-labels.
    random : Randomness
        Its random numbers.
    training : Training
        The network, its objective and its rows.
    variance : float
        Mean variance of the latents' columns that the constraint of the coupling requires.
    probe : CommonSpaceProbe or None
        Measures the common space; None without held-out linked rows.
    """

    data: Data
    nodes: list[NodeLabels]
    random: Randomness
    training: Training
    variance: float
    probe: CommonSpaceProbe | None


class CommonSpaceProbe:
    """Measures how near held-out linked rows are in the common space, beside a sample of rows.

    Parameters
    ----------
    network : MultiViewNetwork
        The network.
    views : sequence of ViewRows
        The rows of every view.
    links : ndarray of int64, shape (n_held_out, n_views)
        Rows of the held-out individuals.
    """

    def __init__(
        self, network: MultiViewNetwork, views: Sequence[ViewRows], links: IntArray
    ) -> None:
        self.network, self.links, self.Xs = network, links, list[Tensor]()
        random = np.random.default_rng(0)  # the measure does not depend on a seed
        for view, own in zip(views, links.T, strict=True):
            sample = random.permutation(view.n_rows)[:N_LATENTS]
            rows = np.concatenate([np.maximum(own, 0), sample])
            self.Xs.append(view.take_on_all_ranks(rows))

    def measure(self, n_rows: int = N_LATENTS) -> CommonSpace | None:
        """The measure, beside so many rows; None where no pair of views has linked rows."""
        n, was_training = len(self.links), self.network.training
        self.network.eval()
        with torch.no_grad():
            latents = self.network.latents([X[: n + n_rows] for X in self.Xs])
        self.network.train(was_training)
        Zs = [Z.cpu().numpy() for Z in latents]
        for Z, own in zip(Zs, self.links.T, strict=True):
            Z[:n][own < 0] = np.nan
        return measure_common_space([Z[:n] for Z in Zs], [Z[n:] for Z in Zs])

    def record(self) -> dict[str, float]:
        """What the history records of the common space."""
        found = self.measure(_N_COMPARED)
        if found is None:
            return {}
        return {"foscttm": found.mean_foscttm, "neighbor_agreement": found.mean_agreement}


def prepare_member(
    rows: Rows,
    graphs: Graphs,
    data: Data,
    nodes: list[NodeLabels],
    random: Randomness,
    p: Mapping[str, Any],
    encoders: Sequence[nn.Module | None],
    number: int,
) -> Member:
    """Make the network, the objective and the sampler of one ensemble member.

    Parameters
    ----------
    rows : Rows
        The rows.
    graphs : Graphs
        What was computed from them.
    data : Data
        The labels that the member is trained on.
    nodes : list of NodeLabels
        From `propagate_labels`; none without pseudo-labels.
    p : dict of str to object
        The parameters of the estimator.
    encoders : sequence of nn.Module or None
        Encoders of the user's own; the network has copies.
    random : Randomness
        The member's random numbers.
    number : int
        Which member it is.
    """
    coupling, regularizer, device = p["coupling"], p["view_regularizer"], pick_device(p["device"])
    training_rows = _training_rows(rows, graphs, data, nodes)
    for_batches = random.stage("batches")
    sampler = Sampler(
        training_rows,
        p["batch_size"],
        for_batches.numpy,
        couples=data.targets is None
        or len(graphs.link_targets) > 0
        or {coupling.name, regularizer.name} != {"none"},
        aligned=coupling.needs_alignment,
    )
    n_points = sampler.batch_size
    widths = Widths(
        [view.n_columns for view in rows.views],
        hidden_of(p["hidden"], data.names),
        p["encoder_dim"],
        p["n_components"],
        0 if data.targets is None else len(data.targets.classes),
        regularizer.needs_decoders,
    )
    own = copy.deepcopy(list(encoders))  # every member trains its own
    network = make_network(widths, random.stage("network").torch, own, data.names).to(device)
    objective = _objective(training_rows, data, p, n_points, random).to(device)
    is_sum = coupling.reduction == "sum"
    variance = 1 / (objective.coupling.n_constrained(len(rows.views)) * (n_points if is_sum else 1))
    targets = [T * math.sqrt(variance) for T in graphs.link_targets]
    sampler.data = training_rows = replace(training_rows, link_targets=targets)
    probe = None
    if len(graphs.held_out_links) > 0:
        probe = CommonSpaceProbe(network, rows.views, graphs.held_out_links)
    training = Training(network, objective, sampler, for_batches.torch, member=number)
    if p["initialization"] == "pca":
        start_network(
            network, objective.coupling, graphs, training_rows, encoders, p, variance, random
        )
    if rows.validation:
        training.score = _validation_score(network, rows, data, nodes, p)
    training.measure = None if probe is None else probe.record
    return Member(data, nodes, random, training, variance, probe)


def _training_rows(
    rows: Rows, graphs: Graphs, data: Data, nodes: Sequence[NodeLabels]
) -> TrainingRows:
    """Rows to train on: which are aligned, and which have a label.

    A linked row that is NaN throughout a view is absent from it: it counts as an unaligned row
    of the views that have it, and keeps its label there.
    """
    found = TrainingRows(
        rows.views,
        data.complete,
        neighbors=graphs.neighbors,
        coordinates=graphs.coordinates,
        links=graphs.links if graphs.link_targets else _NO_LINKS,
        link_targets=graphs.link_targets,
    )
    if data.targets is None:
        return found
    own = [data.labeled_in(s) for s in range(len(rows.views))]
    soft = [
        make_soft_labels(graph, of_view.posterior, codes)
        for graph, of_view, codes in zip(graphs.graphs, nodes, data.codes, strict=False)
    ]
    return replace(
        found,
        target=data.targets.of(data.complete),
        view_labeled=own,
        view_targets=[codes[chosen] for codes, chosen in zip(data.codes, own, strict=True)],
        soft_labels=soft,
    )


def _objective(
    rows: TrainingRows, data: Data, p: Mapping[str, Any], n_points: int, random: Randomness
) -> Objective:
    coupling, regularizer, weight = p["coupling"], p["view_regularizer"], None
    # With soft labels, class weights act through the prior probabilities.
    if data.targets is not None and not p["pseudo_labels"]:
        codes = data.targets.of(data.labeled())
        weight = weigh_classes(p["class_weight"], codes, data.targets.classes)
    generator = random.stage("coupling").torch
    sizes = CouplingSizes(len(rows.views), p["n_components"], n_points, generator)
    return Objective(
        coupling.build(sizes),
        regularizer.build(),
        coupling_weight=coupling.weight,
        regularizer_weight=regularizer.weight,
        head_weight=p.get("head_weight", 1.0),
        class_weight=None if weight is None else torch.as_tensor(weight, dtype=torch.float32),
        source_views=rows.source_views,
        # Where costs are sums over the rows of a batch, so is the distance of linked rows.
        alignment_weight=p["alignment_weight"] * (n_points if coupling.reduction == "sum" else 1),
        reduction=coupling.reduction,
    )


def _validation_score(
    network: MultiViewNetwork,
    rows: Rows,
    data: Data,
    nodes: Sequence[NodeLabels],
    p: Mapping[str, Any],
) -> Callable[[], float]:
    """Accuracy of the heads of the network on the validation rows, averaged."""
    learner = SemiSupervised.of_heads(data, nodes, joint_only=p["head_weight"] == 0)
    validation = rows.data.validation
    assert validation is not None
    target = validation.target

    def accuracy() -> float:
        network.eval()
        log_probs = predict_rows(learner, [network], rows.validation, lambda log_p: log_p[0])
        return float(np.mean(log_probs.argmax(axis=1) == target))

    return accuracy


def train_networks(
    fits: Sequence[tuple[Sequence[Member], Mapping[str, Any]]],
    training: AbstractContextManager[None],
    checkpoint: Checkpoint | None,
) -> None:
    """Train the networks of all fits, those of one shape and with equal parameters together.

    Parameters
    ----------
    fits : sequence of (sequence of Member, dict of str to object)
        Members and parameters of every fit.
    training : context manager
        Entered while networks are trained.
    checkpoint : Checkpoint or None
        Where to resume from, and what to write.
    """
    groups: dict[Hashable, list[Member]] = {}
    parameters: dict[Hashable, Mapping[str, Any]] = {}
    for members, p in fits:
        for i, member in enumerate(members):
            # Distributed over processes, networks are trained one after the other.
            key: Hashable = i if is_distributed() else _group(member, p)
            groups.setdefault(key, []).append(member)
            parameters.setdefault(key, p)
    chosen, every = [], list[Training]()
    for key, together in groups.items():
        first, p, trainings = together[0], parameters[key], [one.training for one in together]
        schedule = _schedule(first.training.sampler, first.data.names, p)
        chosen.append((make_trainer(trainings, p, schedule), schedule))
        every += trainings
    with training:
        for i, (trainer, schedule) in enumerate(chosen):
            sampler, saved = trainer.trainings[0].sampler, checkpoint
            if any(one.interrupted for one in every):
                # An interrupt ends all trainings; a resumed fit continues as if there were none.
                schedule, saved = replace(schedule, max_epochs=1), None
            with suited_threads(trainer.network, sampler.batch_size, sampler.data.views[0].device):
                train(trainer, schedule, saved, i)


def has_own_modules(p: Mapping[str, Any]) -> bool:
    """Whether an encoder, the coupling or the view regularizer is a module of the user's."""
    given = p["encoders"]
    own = given.values() if isinstance(given, Mapping) else given
    # What cannot be encoders at all is refused by `encoders_of`.
    return (isinstance(own, Iterable) and any(f is not None for f in own)) or None in (
        p["coupling"].name,
        p["view_regularizer"].name,
    )


def _group(member: Member, p: Mapping[str, Any]) -> Hashable:
    """What must be equal in networks that are trained together."""
    own = {"random_state", "n_estimators", "coupling", "view_regularizer"}
    shared = {name: repr(value) for name, value in p.items() if name not in own}
    for spec in (p["coupling"], p["view_regularizer"]):
        if spec.name is None:  # a user's own module may not take leading dimensions
            return id(member)
        settings = {k: v for k, v in spec.get_params().items() if k not in _PER_MEMBER}
        shared[spec.parameter] = repr((spec.name, settings))
    is_exact = math.isinf(p["coupling"].orthogonality_weight)
    return tuple(member.data.names), is_exact, tuple(shared.items()), member.training.shape


def _schedule(sampler: Sampler, names: Sequence[str], p: Mapping[str, Any]) -> Schedule:
    """Length of a training, and what is called after every epoch.

    Without `max_epochs`, there are at least 10 epochs, and enough for 80 steps; in long
    tables, epochs are shortened so that there are no more than 600.
    """
    max_epochs, n_steps = p["max_epochs"], p["steps_per_epoch"]
    if max_epochs is None:
        n_steps = n_steps or min(sampler.n_steps, _MAX_STEPS // _MIN_EPOCHS)
        max_epochs = max(_MIN_EPOCHS, math.ceil(_MIN_STEPS / n_steps))
    return Schedule(
        max_epochs,
        n_steps,
        p.get("patience"),
        tuple(p["callbacks"] or ()),
        list(names),
        wants_progress(p["verbose"]),
        None if p["checkpoint"] is None else p["checkpoint_every"],
    )


def make_trainer(
    trainings: Sequence[Training], p: Mapping[str, Any], schedule: Schedule
) -> Trainer:
    """The trainer of networks that are trained together, by their device and processes."""
    options = (p["learning_rate"], p["precision"])
    if is_distributed():
        return DDPTrainer(trainings[0], *options)
    on_gpu = pick_device(p["device"]).type == "cuda"
    if len(trainings) == 1 and (has_own_modules(p) or not on_gpu):
        return SingleTrainer(trainings[0], *options)
    trainer = BatchedTrainer(trainings, *options)
    if on_gpu and schedule.is_fixed:
        n_steps = schedule.steps_per_epoch or trainings[0].sampler.n_steps
        trainer.draw_in_advance(schedule.max_epochs * n_steps)
    return trainer
