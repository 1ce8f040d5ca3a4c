"""What a fit says and leaves: warnings, what it was trained on, and the model."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import sklearn
import torch
from torch import Tensor

from hotview import __version__
from hotview._messages import warn_user
from hotview._types import Array
from hotview.estimators.inputs import FitInputs
from hotview.estimators.leakage import leakage_warnings
from hotview.estimators.parameters import impute_of
from hotview.losses import Coupling
from hotview.model.model import Model, ModelView
from hotview.training.batches import TrainingRows
from hotview.training.pca import effective_rank, total_std
from hotview.training.precision import used_precision
from hotview.training.table_scan import TableScan
from hotview.training.view_plan import ViewPlan, match_columns, solve_mean_plan

if TYPE_CHECKING:
    from hotview.estimators.fit import EnsembleFit
    from hotview.semisupervised.pseudo_labels import ViewLabels

__all__ = [
    "INTERRUPTED",
    "FitWarnings",
    "collapse_warning",
    "describe_training",
    "input_warnings",
    "interrupt_warning",
    "model_of",
    "plan_warning",
    "was_interrupted",
]

_LOW_RANK = 1.5
_LOW_SPREAD, _LOST_SPREAD = 0.01, 0.05  # relative to other views, and to the constraint
_FEW_ROWS = 5  # too few to estimate a rank
INTERRUPTED = "Training was interrupted"
_LISTED = 5  # items of a long list that are named


@dataclass
class FitWarnings:
    """Warnings of one fit, each issued once.

    Parameters
    ----------
    shown : bool, default=True
        Whether warnings are issued, or only collected, because another process issues them.

    Attributes
    ----------
    texts : list of str
        The warnings so far.
    """

    shown: bool = True
    texts: list[str] = field(default_factory=list)

    def add(self, text: str | None, category: type[Warning] = UserWarning) -> None:
        """Issue a warning that points at the user's line that called `fit`; None adds nothing."""
        if text is None or text in self.texts:
            return
        self.texts.append(text)
        if self.shown:
            warn_user(text, category)


def input_warnings(
    inputs: FitInputs, scans: Mapping[str, TableScan], rows: TrainingRows, labels: ViewLabels
) -> Iterator[str]:
    """Warnings about the tables and labels of a fit.

    Parameters
    ----------
    inputs : FitInputs
        The inputs.
    scans : dict of str to TableScan
        Column statistics of every view.
    rows : TrainingRows
        The rows to train on.
    labels : ViewLabels
        The labels of every view, and the linked rows.

    Yields
    ------
    str
        The warnings.
    """
    coupling, names = inputs.parameters["coupling"], inputs.tables.names
    n_missing = inputs.tables.n_linked - len(rows.aligned)
    if coupling.needs_alignment and n_missing > 0:
        yield (
            f"{n_missing} linked rows lack a view; coupling={coupling.label!r} compares "
            "individuals and trains on the others only. Use coupling='hot-reference' to learn "
            "from all rows."
        )
    constant = {
        name: [inputs.tables.by_view[name][0].describe_column(j) for j in scan.constant]
        for name, scan in scans.items()
        if len(scan.constant) > 0 and scan.scaler.kind != "none" and scan.scaler.components is None
    }
    if constant:
        listed = "; ".join(f"{name!r}: {_shorten(columns)}" for name, columns in constant.items())
        yield (
            f"Columns with a single value are not informative; they are kept and become 0 "
            f"({listed}). Drop them to avoid this warning."
        )
    if coupling.label == "hot-pairwise" and len(names) <= 3:
        yield (
            f"With {len(names)} views the plan of 'hot-pairwise' has no freedom: symmetry, a zero "
            "diagonal and equal sums make all weights equal, as in 'sw-pairwise'. Use "
            "coupling='hot-reference', or four views and more."
        )
    if inputs.labels is not None:
        yield from _gap_warnings(inputs)
        yield from leakage_warnings(inputs)
        propagates = inputs.parameters["pseudo_labels"]
        n_links = _count_links(labels) if propagates else [len(rows.transfer_rows)] * len(names)
        effect = (
            "the joint predictor of all views does not know them"
            if propagates
            else "there is no joint predictor of all views"
        )
        yield from _label_warnings(inputs.labels.classes, names, rows, n_links, effect)


def _gap_warnings(inputs: FitInputs) -> Iterator[str]:
    """Warning about labels that are texts which stand for missing values."""
    gaps = dict(inputs.labels.text_gaps) if inputs.labels is not None else {}
    if inputs.validation is not None and inputs.validation.text_gaps:
        gaps["validation's y"] = inputs.validation.text_gaps
    if gaps:
        found = "; ".join(
            f"{what}: " + ", ".join(f"{n} times {text!r}" for text, n in texts.items())
            for what, texts in gaps.items()
        )
        yield (
            f"Labels are texts that stand for missing values, and count as missing ({found}). Mark "
            "rows without a label by None or NaN. If such a text is a class, set "
            "unlabeled_marker=None."
        )


def _count_links(labels: ViewLabels) -> list[int]:
    """Number of linked rows without a label of every view that another view with labels has."""
    present = labels.links[labels.target < 0] >= 0
    known = np.array(labels.n_classes) > 0
    others = [present[:, known & (np.arange(len(known)) != t)] for t in range(len(known))]
    return [int((present[:, t] & x.any(axis=1)).sum()) for t, x in enumerate(others)]


def _label_warnings(
    classes: Array, names: Sequence[str], rows: TrainingRows, n_links: Sequence[int], effect: str
) -> Iterator[str]:
    """Warnings about classes without linked labels, and views with labels of few classes."""
    labeled = rows.target[rows.target >= 0]
    absent = np.setdiff1d(np.arange(len(classes)), labeled)
    if len(labeled) > 0 and len(absent) > 0:
        yield (
            f"{len(absent)} of the {len(classes)} classes have no linked row with a label "
            f"({_shorten(classes[absent])}), so that {effect}. "
            "Link and label a few rows of every class."
        )
        return
    most = max(map(len, rows.classes_known))
    fewer = [s for s, known in enumerate(rows.classes_known) if len(known) < most]

    def listed(views: Sequence[int]) -> str:
        return ", ".join(f"{names[s]!r} ({len(rows.classes_known[s])} of {most})" for s in views)

    if lost := [s for s in fewer if n_links[s] == 0]:
        yield (
            f"Views have labels of fewer classes than others: {listed(lost)}, and there are no "
            "linked rows without a label over which the other labels could be transferred. Their "
            "predictions are used only where no better view is present. Link some rows."
        )
    if few := [s for s in fewer if 0 < n_links[s] < len(classes)]:
        yield (
            f"Views have labels of fewer classes than others: {listed(few)}, and the other labels "
            f"are transferred over {min(n_links[s] for s in few)} linked rows, fewer than the "
            f"{len(classes)} classes: classes may be confused. Link more rows."
        )


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


def interrupt_warning(n_epochs: int) -> str:
    """Warning that training ended early in some epoch, and that the result is usable."""
    return (
        f"{INTERRUPTED} in epoch {n_epochs}; the estimator is fitted with what it had "
        "learned by then. Call fit again to train in full."
    )


def was_interrupted(fit_warnings: Sequence[str]) -> bool:
    """Whether the warnings of a fit include that it ended early."""
    return any(text.startswith(INTERRUPTED) for text in fit_warnings)


def _shorten(items: Array | Sequence[str]) -> str:
    listed = ", ".join(str(item) for item in items[:_LISTED])
    return listed + (f" and {len(items) - _LISTED} more" if len(items) > _LISTED else "")


def model_of(fit: EnsembleFit, seconds: float) -> Model:
    """The model that a finished fit has learned.

    Parameters
    ----------
    fit : EnsembleFit
        The fit.
    seconds : float
        Its duration.
    """
    shared, labels = fit.shared, fit.inputs.labels
    trainings = [member.training for member in fit.members]
    plans, planner = fit.plans, fit.inputs.parameters["coupling"].planner
    couplings = [training.objective.coupling for training in trainings]
    trained_on = describe_training(fit.inputs, seconds, fit.members[0].device)
    if labels is not None:
        trained_on["out_of_fold"] = fit.scores
    columns = fit.inputs.tables.columns
    return Model(
        [ModelView(k, columns[k], scan.scaler, scan.ranges) for k, scan in shared.scans.items()],
        [training.network for training in trainings],
        [training.history for training in trainings],
        trainings[0].sampler.batch_size,
        trained_on,
        list(fit.warnings.texts),
        {},
        plan=solve_mean_plan(plans, planner) if plans else None,
        plans=plans or None,
        references=_references(couplings, plans),
        view_similarity=fit.similarity,
        common_space=fit.common_space,
        classes=None if labels is None else labels.classes,
        ensemble=fit.ensemble,
        set_scores=fit.set_scores,
        disagreement=fit.disagreement,
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


def describe_training(inputs: FitInputs, seconds: float, device: torch.device) -> dict[str, Any]:
    """Rows, labels, time and versions of a fit, in types that JSON can hold.

    Parameters
    ----------
    inputs : FitInputs
        The inputs of the fit.
    seconds : float
        Its duration.
    device : torch.device
        Its device.

    Returns
    -------
    dict of str to object
        As `trained_on_` of the estimators.

    Examples
    --------
    >>> import torch
    >>> from hotview.estimators.diagnostics import describe_training
    >>> from hotview.estimators.inputs import FitInputs, ViewTables
    >>> inputs = FitInputs(ViewTables([], {}, {}), None, {})
    >>> description = describe_training(inputs, 1.23456, torch.device("cpu"))
    >>> description["linked"], description["seconds"]
    (0, 1.235)
    """
    labels, unaligned = inputs.labels, inputs.tables.unaligned
    description: dict[str, Any] = {
        "linked": inputs.tables.n_linked,
        "linked_labeled": 0 if labels is None else int((labels.linked >= 0).sum()),
        "unaligned": {name: table.n_rows for name, table in unaligned.items()},
        "unaligned_labeled": {
            name: int((codes >= 0).sum())
            for name, codes in (labels.unaligned if labels else {}).items()
        },
    }
    if labels is not None:
        codes = np.concatenate([labels.linked, *labels.unaligned.values()])
        counts = np.bincount(codes[codes >= 0], minlength=len(labels.classes))
        pairs = zip(labels.classes.tolist(), counts.tolist(), strict=True)
        description["classes"] = list(map(list, pairs))
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
        "impute": impute_of(inputs.parameters.get("impute"), inputs.tables.names),
        "device": str(device),
        "precision": used_precision(inputs.parameters.get("precision", "float32"), device),
    }
