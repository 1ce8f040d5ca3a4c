"""Stages of a fit after the training: what trained networks tell, what views share, the model."""

from __future__ import annotations

import platform
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
import torch
from torch import Tensor

from hotview import __version__
from hotview._archive import round_to_float16
from hotview._threads import catch_interrupt, suited_threads
from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.estimators.networks import N_LATENTS, Member
from hotview.estimators.rows import Graphs, Rows
from hotview.losses import Coupling
from hotview.model.model import Model, ModelView
from hotview.model.parameters import impute_of
from hotview.nn.multiview import MultiViewNetwork, used_precision
from hotview.preprocessing.pca import principal_components
from hotview.preprocessing.rows import ViewRows
from hotview.semisupervised.graph import encode_nodes
from hotview.similarity import CommonSpace, ViewSimilarity
from hotview.similarity.common_space import average_common_spaces
from hotview.similarity.view_similarity import N_COMPONENTS, measure_linked_rows
from hotview.training.batches import embed_rows
from hotview.training.view_plan import (
    ViewPlan,
    draw_null,
    match_columns,
    plan_views,
    solve_mean_plan,
)

if TYPE_CHECKING:
    from hotview.estimators.fit import Prepared
    from hotview.semisupervised import SemiSupervised

__all__ = [
    "Trained",
    "apply_network",
    "describe_training",
    "measure_common_spaces",
    "measure_similarity",
    "model_of",
]


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
    interrupted : bool
        Whether Ctrl-C ended the training, or this.
    """

    plan: ViewPlan | None
    latents: list[Tensor]
    features: list[tuple[Array, float]]
    interrupted: bool


def apply_network(
    member: Member, graphs: Graphs, p: Mapping[str, Any], encoders: Sequence[Any], *, null: bool
) -> Trained:
    """Compute the plan, latents of a sample, and the features of the graphs' nodes.

    Parameters
    ----------
    member : Member
        The member, trained.
    graphs : Graphs
        Those of the rows.
    p : dict of str to object
        The parameters of the estimator.
    encoders : sequence of nn.Module or None
        Encoders of the user's own, whose weights are left as they are.
    null : bool
        Whether to compute the permutation null of the plan.
    """
    network, views = member.training.network, member.training.sampler.data.views
    if p.get("pseudo_labels", False):
        own = tuple(f"encoders.{s}." for s, given in enumerate(encoders) if given is not None)
        _round_weights(network, own)
    with (
        suited_threads(network, member.training.sampler.batch_size, views[0].device),
        catch_interrupt() as interrupt,  # the last pass must not lose the trained network
    ):
        plan, random = _plan(member, p, null=null), member.random.stage("latents").numpy
        rows = [random.permutation(view.n_rows)[:N_LATENTS] for view in views]
        latents = embed_rows(network, views, rows)
        used = graphs.graphs if member.nodes else []
        features = [encode_nodes(graph, network.encoders[s]) for s, graph in enumerate(used)]
    return Trained(plan, latents, features, member.training.interrupted or interrupt.requested)


def _round_weights(network: MultiViewNetwork, own: tuple[str, ...]) -> None:
    """Round weights to float16, which halves the model file, but those of the user's encoders."""
    with torch.no_grad():
        for name, weight in network.named_parameters():
            if not name.startswith(own):
                weight.copy_(round_to_float16(weight))


def _plan(member: Member, p: Mapping[str, Any], *, null: bool) -> ViewPlan | None:
    """The plan over the views from a last pass over all rows; None without a coupling."""
    network, sampler = member.training.network, member.training.sampler
    coupling, spec = member.training.objective.coupling, p["coupling"]
    if not coupling.couples:
        return None
    rows, planner = sampler.data, spec.planner
    random, null_random = member.random.stage("plan"), member.random.stage("null")
    sizes = spec.reduction, sampler.batch_size
    plan = plan_views(network, coupling, rows, planner, *sizes, random.numpy, random.torch)
    if not null:
        return plan
    generators = null_random.numpy, null_random.torch
    return replace(plan, null=draw_null(rows.views, p["n_components"], planner, *generators))


class _ArrayRows:
    """Rows of a view as arrays, the same on all ranks."""

    def __init__(self, view: ViewRows) -> None:
        self.view, self.n_rows = view, view.n_rows

    def take(self, rows: IntArray) -> Array:
        """Rows by number."""
        X: Array = self.view.take_on_all_ranks(rows).cpu().numpy()
        return X


def measure_similarity(rows: Rows, graphs: Graphs) -> ViewSimilarity | None:
    """Similarity of the views by linked rows; None without enough of them.

    Parameters
    ----------
    rows : Rows
        The rows.
    graphs : Graphs
        Their principal components, where these are known.
    """
    data, links = rows.data, rows.data.links
    if len(links) == 0:
        return None
    random = np.random.default_rng(0)  # the answer is about the rows, not about a seed
    if (groups := data.groups_of(links)) is not None and data.targets is not None:
        # Several rows of one person would look like dependence.
        order = random.permutation(len(links))
        links = links[order[np.unique(groups[order], return_index=True)[1]]]
    components = graphs.components
    if not components or max(len(pca.components_) for pca in components) < N_COMPONENTS:
        components = principal_components(rows.views, N_COMPONENTS, random)
    views = list(map(_ArrayRows, rows.views))
    classes = None if data.targets is None else data.targets.of(links)
    return measure_linked_rows(views, components, links, classes, random=random)


def measure_common_spaces(members: Sequence[Member]) -> CommonSpace | None:
    """Mean nearness of held-out linked rows in the common space; None without any."""
    found = [member.probe.measure() for member in members if member.probe is not None]
    return average_common_spaces([one for one in found if one is not None]) if found else None


def model_of(
    prepared: Prepared,
    plans: list[ViewPlan],
    learner: SemiSupervised | None,
    similarity: ViewSimilarity | None,
    common_space: CommonSpace | None,
) -> Model:
    """The model that a finished fit has learned.

    Parameters
    ----------
    prepared : Prepared
        The results before networks were trained, with the networks.
    plans : list of ViewPlan
        The plans of all members; none without a coupling.
    learner : SemiSupervised or None
        What predicts the classes.
    similarity : ViewSimilarity or None
        Similarity of the views by linked rows.
    common_space : CommonSpace or None
        Nearness of held-out linked rows in the common space.
    """
    data, p = prepared.data, prepared.p
    seconds = time.perf_counter() - prepared.start
    trainings = [member.training for member in prepared.members]
    couplings = [training.objective.coupling for training in trainings]
    trained_on = describe_training(data, p, seconds, prepared.rows.views[0].device)
    views = [
        ModelView(name, data.views[name].columns, scan.scaler, scan.ranges)
        for name, scan in prepared.rows.scans.items()
    ]
    return Model(
        views,
        [training.network for training in trainings],
        [training.history for training in trainings],
        trainings[0].sampler.batch_size,
        trained_on,
        list(prepared.warnings.texts),
        {},
        plan=solve_mean_plan(plans, p["coupling"].planner) if plans else None,
        plans=plans or None,
        references=_references(couplings, plans),
        view_similarity=similarity,
        common_space=common_space,
        classes=None if data.targets is None else data.targets.classes,
        learner=learner,
    )


def _references(couplings: Sequence[Coupling], plans: Sequence[ViewPlan]) -> Array | None:
    """The learned references; with several members those of each, in the order of `plan_`."""
    clouds = [
        coupling.references.detach().cpu().numpy()
        for coupling in couplings
        if coupling.reference_based
    ]
    if not clouds:
        return None
    if len(clouds) == 1 or not plans:
        return clouds[0]
    orders = match_columns(plans)
    return np.stack([cloud[order] for cloud, order in zip(clouds, orders, strict=True)])


def describe_training(
    data: Data, p: Mapping[str, Any], seconds: float, device: torch.device
) -> dict[str, Any]:
    """Rows, labels, time and versions of a fit, in types that JSON can hold.

    Parameters
    ----------
    data : Data
        The data of the fit, as it was given.
    p : dict of str to object
        The parameters.
    seconds : float
        Its duration.
    device : torch.device
        Its device.

    Returns
    -------
    dict of str to object
        As `trained_on_` of the estimators.
    """
    n_linked = len(data.links)
    sizes = {name: rows.n_rows - n_linked for name, rows in data.views.items()}
    description: dict[str, Any] = {
        "linked": n_linked,
        "linked_labeled": int((data.target >= 0).sum()),
        "unaligned": {name: n for name, n in sizes.items() if n > 0},
        "unaligned_labeled": {},
    }
    if data.targets is not None:
        by_view = zip(data.names, data.codes, data.links.T, strict=True)
        labeled = {k: int((c >= 0).sum() - (c[own] >= 0).sum()) for k, c, own in by_view}
        description["unaligned_labeled"] = {name: n for name, n in labeled.items() if n > 0}
        classes, codes = data.targets.classes.tolist(), data.targets.of(data.labeled())
        counts = np.bincount(codes, minlength=len(classes)).tolist()
        description["classes"] = list(map(list, zip(classes, counts, strict=True)))
    return {
        **description,
        "seconds": round(seconds, 3),
        "versions": {
            "python": platform.python_version(),
            "hotview": __version__,
            "torch": str(torch.__version__),
            "numpy": np.__version__,
            "scikit-learn": sklearn.__version__,
        },
        "impute": impute_of(p.get("impute"), data.names),
        "device": str(device),
        "precision": used_precision(p.get("precision", "float32"), device),
    }
