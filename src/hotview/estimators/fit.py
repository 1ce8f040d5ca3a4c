"""A fit, stage by stage: every stage is a function of the results before it, and returns one.

preprocess → build_graphs → make_folds → propagate_labels → prepare_member, train_networks,
apply_network → fit_learner → the result, which the estimator keeps
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from typing import Any

import torch
from sklearn import config_context
from torch import nn

from hotview._processes import rank
from hotview.data import Data, make_folds
from hotview.estimators.diagnostics import (
    FitWarnings,
    warn_of_input,
    warn_of_labels,
    warn_of_result,
)
from hotview.estimators.networks import (
    Member,
    Trained,
    apply_network,
    has_own_modules,
    prepare_member,
    train_networks,
)
from hotview.estimators.parameters import encoders_of, hidden_of, pick_device
from hotview.estimators.randomness import Randomness, member_states
from hotview.estimators.rows import Graphs, Rows, build_graphs, preprocess
from hotview.estimators.shared_structure import measure_common_spaces, measure_similarity
from hotview.nn.batched import NetworkOutputs
from hotview.semisupervised.learner import SemiSupervised
from hotview.semisupervised.soft_labels import PseudoLabels, propagate_labels
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.training.checkpoint import Checkpoint
from hotview.training.threads import catch_interrupt
from hotview.training.view_plan import ViewPlan

__all__ = ["Fit", "PreparedFit", "check_data", "fit_estimators"]


@dataclass(frozen=True)
class PreparedFit:
    """A fit whose networks are not trained yet.

    Parameters
    ----------
    data : Data
        The rows as they were given.
    p : dict of str to object
        The parameters.
    rows, graphs, pseudo : Rows, Graphs, PseudoLabels or None
        Results of the stages on rows and labels; no `pseudo` without pseudo-labels.
    encoders : list of nn.Module or None
        Encoders of the user's own, not trained.
    members : list of Member
        The networks.
    warnings : FitWarnings
        The warnings of the fit.
    """

    data: Data
    p: Mapping[str, Any]
    rows: Rows
    graphs: Graphs
    pseudo: PseudoLabels | None
    encoders: list[nn.Module | None]
    members: list[Member]
    warnings: FitWarnings


@dataclass(frozen=True)
class Fit:
    """Everything that a fit has computed.

    Parameters
    ----------
    prepared : PreparedFit
        What was known before networks were trained.
    trained : list of Trained
        What was computed with the network of every member.
    plans : list of ViewPlan
        The plans of all members; none without a coupling.
    learner : SemiSupervised or None
        What predicts new rows; None without labels.
    similarity : ViewSimilarity or None
        Similarity of the views by linked rows; None without enough of them.
    common_space : CommonSpace or None
        Nearness of held-out linked rows in the common space; None without any.
    """

    prepared: PreparedFit
    trained: list[Trained]
    plans: list[ViewPlan]
    learner: SemiSupervised | None
    similarity: ViewSimilarity | None
    common_space: CommonSpace | None


def fit_estimators(
    fits: Sequence[tuple[Data, Mapping[str, Any]]],
    *,
    view_tests: bool = True,
    training: AbstractContextManager[None] | None = None,
    checkpoint: Checkpoint | None = None,
) -> list[Fit]:
    """Fit estimators to their data; networks of the same shape are trained together.

    Parameters
    ----------
    fits : sequence of (Data, dict of str to object)
        The data and the parameters of every estimator.
    view_tests : bool, default=True
        Whether the permutation null of the plan and the similarity of the views are computed.
    training : context manager or None, default=None
        Entered while networks are trained.
    checkpoint : Checkpoint or None, default=None
        Where to resume from, and what to write while networks are trained.
    """
    states = [member_states(p) for _, p in fits]
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
        prepared = [prepare(data, p, own) for (data, p), own in zip(fits, states, strict=True)]
        pairs = [(one.members, one.p) for one in prepared]
        train_networks(pairs, training or nullcontext(), checkpoint)
        return [finish(one, view_tests=view_tests) for one in prepared]


def check_data(data: Data, p: Mapping[str, Any], *, load: bool = False) -> tuple[Rows, FitWarnings]:
    """Read the rows, raise an error for what cannot be trained on, and warn of the rest."""
    warnings = FitWarnings(shown=rank() == 0)
    hidden_of(p["hidden"], data.names)
    rows = preprocess(data, p, encoders_of(p["encoders"], data.names), load=load)
    warn_of_input(warnings, data, rows, p)
    return rows, warnings


def prepare(data: Data, p: Mapping[str, Any], states: Sequence[Any]) -> PreparedFit:
    """All stages before the networks are trained, with the random state of every member."""
    randoms = list(map(Randomness, states))
    rows, warnings = check_data(data, p, load=True)
    graphs = build_graphs(rows, p, randoms[0])
    n_folds = len(randoms) if len(randoms) > 1 and p.get("fusion") == "weighted" else 0
    folds = make_folds(rows.data, len(randoms), n_folds, randoms[0].stage("folds").numpy)
    pseudo = None
    if p.get("pseudo_labels", False):
        for_labels = [random.stage("soft labels").numpy for random in randoms]
        pseudo = propagate_labels(graphs.graphs, rows.data, folds, for_labels)
        warn_of_labels(warnings, rows.data, pseudo)
    encoders = encoders_of(p["encoders"], data.names)
    members = [
        prepare_member(rows, graphs, fold, nodes, p, encoders, random, number)
        for number, (fold, nodes, random) in enumerate(
            zip(folds, pseudo.nodes if pseudo else [[]] * len(folds), randoms, strict=True)
        )
    ]
    return PreparedFit(data, p, rows, graphs, pseudo, encoders, members, warnings)


def finish(prepared: PreparedFit, *, view_tests: bool) -> Fit:
    """All stages after the networks are trained."""
    rows, graphs, members, p = prepared.rows, prepared.graphs, prepared.members, prepared.p
    trained = [
        apply_network(member, graphs, p, prepared.encoders, null=view_tests and i == 0)
        for i, member in enumerate(members)
    ]
    plans = [one.plan for one in trained if one.plan is not None]
    # The null depends on the tables alone: the first member's serves for all.
    plans = [replace(plan, null=plans[0].null) for plan in plans]
    learner = similarity = None
    with catch_interrupt() as interrupt:  # Ctrl-C must not lose the trained networks
        if rows.data.targets is not None:
            learner = _learn(prepared, trained)
        if view_tests:
            similarity = measure_similarity(rows, graphs)
        common_space = measure_common_spaces(members)
    found = Fit(prepared, trained, plans, learner, similarity, common_space)
    warn_of_result(prepared.warnings, found, interrupted=interrupt.requested)
    return found


def _learn(prepared: PreparedFit, trained: Sequence[Trained]) -> SemiSupervised:
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
