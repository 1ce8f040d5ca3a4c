"""What a fit has learned: its warnings about the result, and the model."""

from __future__ import annotations

import math
import platform
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
import torch
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from hotview import __version__
from hotview._types import Array
from hotview.data import Data
from hotview.estimators.diagnostics import interrupt_warning
from hotview.losses import Coupling
from hotview.model.model import Model, ModelView
from hotview.model.parameters import impute_of
from hotview.nn.multiview import used_precision
from hotview.preprocessing.pca import effective_rank, total_std
from hotview.semisupervised.sentences import score_warnings
from hotview.training.view_plan import ViewPlan, match_columns, solve_mean_plan

if TYPE_CHECKING:
    from hotview.estimators.fit import Prepared
    from hotview.estimators.networks import Trained
    from hotview.semisupervised import SemiSupervised
    from hotview.similarity import CommonSpace, ViewSimilarity

__all__ = ["collapse_warning", "describe_training", "model_of", "plan_warning", "warn_of_result"]

_LOW_RANK = 1.5
_LOW_SPREAD, _LOST_SPREAD = 0.01, 0.05  # relative to other views, and to the constraint
_FEW_ROWS = 5  # too few to estimate a rank


def warn_of_result(
    prepared: Prepared,
    trained: Sequence[Trained],
    plans: Sequence[ViewPlan],
    learner: SemiSupervised | None,
    *,
    interrupted: bool,
) -> None:
    """Warn about left-out labels, the training, the latents of the first member, and the plan.

    Parameters
    ----------
    prepared : Prepared
        The results before networks were trained.
    trained : sequence of Trained
        What was computed with the networks.
    plans : sequence of ViewPlan
        The plans of all members; none without a coupling.
    learner : SemiSupervised or None
        What predicts the classes.
    interrupted : bool
        Whether Ctrl-C ended what follows the training.
    """
    p = prepared.p
    for text in score_warnings(learner.scores if learner else {}):
        prepared.warnings.add(text)
    ended = [
        member.training
        for member, one in zip(prepared.members, trained, strict=True)
        if one.interrupted or interrupted
    ]
    if ended:
        prepared.warnings.add(interrupt_warning(len(ended[0].history)))
    if not plans:  # without a coupling nothing shapes the common space
        return
    first, views = prepared.members[0], prepared.rows.views
    remedies = ["lower the coupling's weight"]
    if len(prepared.graphs.link_targets) > 0:  # these replace the constraint
        remedies.insert(0, "link more rows")
    elif not first.training.objective.coupling.exact:
        remedies.insert(0, "raise the coupling's orthogonality_weight")
    if not p["view_regularizer"].needs_decoders:
        remedies.insert(0, "use view_regularizer='autoencoder'")
    expected = math.sqrt(p["n_components"] * first.variance)
    n_columns = [view.n_columns for view in views]
    latents = trained[0].latents
    prepared.warnings.add(
        collapse_warning(prepared.data.names, latents, n_columns, expected, remedies)
    )
    plan = solve_mean_plan(plans, p["coupling"].planner)
    prepared.warnings.add(plan_warning(plan), ConvergenceWarning)


def collapse_warning(
    names: Sequence[str],
    latents: Sequence[Tensor],
    n_columns: Sequence[int],
    expected: float,
    remedies: Sequence[str],
) -> str | None:
    """Warning about views whose latents fill next to nothing of the common space.

    Parameters
    ----------
    names : sequence of str
        The views.
    latents : sequence of Tensor
        Latents of some rows of every view.
    n_columns : sequence of int
        Numbers of columns of every view.
    expected : float
        Root of the total variance that the coupling's constraint requires.
    remedies : sequence of str
        What the user can do.

    Returns
    -------
    str or None
        None where nothing has collapsed.
    """
    if min(map(len, latents)) < _FEW_ROWS:
        return None
    spreads = [total_std(Z) for Z in latents]
    low = max(_LOW_SPREAD * float(np.median(spreads)), _LOST_SPREAD * expected)
    collapsed = [
        f"{name!r} (effective rank {rank:.1f})"
        for name, Z, own, width in zip(names, latents, spreads, n_columns, strict=True)
        if ((rank := effective_rank(Z)) < _LOW_RANK and min(width, Z.shape[1]) > 2) or own <= low
    ]
    if not collapsed:
        return None
    return (
        f"The latents of {', '.join(collapsed)} have collapsed: nearly all rows are encoded "
        f"alike, or along one line. To prevent it, {', or '.join(remedies)}."
    )


def plan_warning(plan: ViewPlan) -> str | None:
    """Warning about a plan that does not meet its marginals; None if it does."""
    if plan.converged:
        return None
    return (
        "The plan W has not converged: its marginals are off by "
        f"{plan.marginal_error:.1e} of the mass after {plan.n_iter} iterations. "
        "Raise sinkhorn_max_iter or reg."
    )


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
    unlinked = {name: data.unlinked(s) for s, name in enumerate(data.names)}
    description: dict[str, Any] = {
        "linked": len(data.links),
        "linked_labeled": int((data.target >= 0).sum()),
        "unaligned": {name: len(rows) for name, rows in unlinked.items() if len(rows) > 0},
        "unaligned_labeled": {
            name: n
            for (name, rows), codes in zip(unlinked.items(), data.codes, strict=True)
            if (n := int((codes[rows] >= 0).sum())) > 0
        },
    }
    if data.targets is not None:
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
