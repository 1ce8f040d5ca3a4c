"""A fit, stage by stage. Every stage is a function of the results before it, and returns one.

data → preprocess → build_graphs → make_folds → propagate_labels → prepare_member
     → train_networks → apply_network → SemiSupervised.fit → Model
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from sklearn import config_context
from torch import nn

from hotview._processes import rank
from hotview._threads import catch_interrupt
from hotview.data import Data, make_folds
from hotview.estimators.diagnostics import FitWarnings, warn_of_input, warn_of_result, warn_of_shift
from hotview.estimators.networks import Member, has_own_modules, prepare_member, train_networks
from hotview.estimators.randomness import Randomness, member_states
from hotview.estimators.result import (
    Trained,
    apply_network,
    measure_common_spaces,
    measure_similarity,
    model_of,
)
from hotview.estimators.rows import Graphs, Rows, build_graphs, preprocess
from hotview.model.model import Model
from hotview.model.parameters import encoders_of, hidden_of, pick_device
from hotview.nn.batched import NetworkOutputs
from hotview.semisupervised.learner import SemiSupervised
from hotview.semisupervised.soft_labels import NodeLabels, PseudoLabels, propagate_labels
from hotview.training.checkpoint import Checkpoint


@dataclass(frozen=True)
class Prepared:
    """Results of the stages before the networks are trained; `p` are the parameters."""

    start: float
    data: Data
    p: Mapping[str, Any]
    rows: Rows
    graphs: Graphs
    pseudo: PseudoLabels | None
    encoders: list[nn.Module | None]
    members: list[Member]
    warnings: FitWarnings


def fit_estimators(
    fits: Sequence[tuple[Data, Mapping[str, Any]]],
    *,
    start: float | None = None,
    view_tests: bool = True,
    training: AbstractContextManager[None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[Model]:
    """Fit estimators, each to its data with its seeded parameters, from `start` on.

    Networks of the same shape are trained together, while `training` is entered. `view_tests` are
    the permutation null of the plan and the similarity of the views.
    """
    start, states = start or time.perf_counter(), [member_states(p) for _, p in fits]
    random, device = Randomness(states[0][0]), pick_device(fits[0][1]["device"])
    # Code of the user's may draw from torch's global generators, or a checkpoint hold them.
    is_global = any(has_own_modules(p) or p["callbacks"] or p["checkpoint"] for _, p in fits)
    # Inside, scikit-learn returns arrays, whatever output the user has configured.
    with (
        config_context(transform_output="default"),
        torch.inference_mode(False),  # the caller may be in inference mode
        torch.enable_grad(),
        random.in_modules(device) if is_global else nullcontext(),
    ):
        prepared = [prepare(*one, own, start) for one, own in zip(fits, states, strict=True)]
        train_networks(
            [(one.members, one.p) for one in prepared], training or nullcontext(), checkpoint
        )
        return [finish(one, view_tests=view_tests) for one in prepared]


def check_data(data: Data, p: Mapping[str, Any], *, load: bool = False) -> tuple[Rows, FitWarnings]:
    """Read the rows, raise an error for what cannot be trained on, and warn of the rest."""
    warnings = FitWarnings(shown=rank() == 0)
    hidden_of(p["hidden"], data.names)
    rows = preprocess(data, p, encoders_of(p["encoders"], data.names), load=load)
    warn_of_input(warnings, data, rows, p)
    return rows, warnings


def prepare(data: Data, p: Mapping[str, Any], states: Sequence[Any], start: float) -> Prepared:
    """All stages before the networks are trained, with the random state of every member."""
    randoms = list(map(Randomness, states))
    rows, warnings = check_data(data, p, load=True)
    graphs = build_graphs(rows, p, randoms[0])
    n_folds = len(randoms) if len(randoms) > 1 and p.get("fusion") == "weighted" else 0
    folds = make_folds(rows.data, len(randoms), n_folds, randoms[0].numpy("folds"))
    pseudo, nodes = None, [list[NodeLabels]() for _ in folds]
    if p.get("pseudo_labels", False):
        for_labels = [random.numpy("soft labels") for random in randoms]
        pseudo = propagate_labels(graphs.graphs, rows.data, folds, for_labels)
        warn_of_shift(warnings, rows.data, pseudo)
        nodes = pseudo.nodes
    encoders = encoders_of(p["encoders"], data.names)
    each = zip(folds, nodes, randoms, strict=True)
    members = [prepare_member(rows, graphs, *one, p, encoders, i) for i, one in enumerate(each)]
    return Prepared(start, data, p, rows, graphs, pseudo, encoders, members, warnings)


def finish(prepared: Prepared, *, view_tests: bool) -> Model:
    """All stages after the networks are trained."""
    rows, graphs, p = prepared.rows, prepared.graphs, prepared.p
    trained = [
        apply_network(member, graphs, p, prepared.encoders, null=view_tests and i == 0)
        for i, member in enumerate(prepared.members)
    ]
    plans = [one.plan for one in trained if one.plan is not None]
    # The null depends on the tables alone: the first member's serves for all.
    plans = [replace(plan, null=plans[0].null) for plan in plans]
    with catch_interrupt() as interrupt:  # Ctrl-C must not lose the trained networks
        learner = None if rows.data.targets is None else learn(prepared, trained)
        similarity = measure_similarity(rows, graphs) if view_tests else None
        common_space = measure_common_spaces(prepared.members)
    warn_of_result(prepared, trained, plans, learner, interrupted=interrupt.requested)
    return model_of(prepared, plans, learner, similarity, common_space)


def learn(prepared: Prepared, trained: Sequence[Trained]) -> SemiSupervised:
    """Predictors of new rows, weighed by labels that members left out."""
    members, p = prepared.members, prepared.p
    networks = [member.training.network for member in members]
    return SemiSupervised.fit(
        prepared.graphs.graphs,
        prepared.rows.data,
        [member.data for member in members],
        prepared.pseudo,
        NetworkOutputs(networks, [one.features for one in trained]),
        randoms=[member.random.numpy for member in members],
        fusion=p["fusion"],
        joint_only=p["head_weight"] == 0,
        class_prior=p["class_prior"],
        class_weight=p["class_weight"],
    )
