"""Warnings of a fit: about what it was given, and about what it has learned."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from hotview._messages import warn_user
from hotview._types import Array
from hotview.data import Data
from hotview.data.leakage import leakage_warnings
from hotview.preprocessing.pca import effective_rank, total_std
from hotview.semisupervised.out_of_fold import ALL_VIEWS, MIN_ROWS, is_no_better
from hotview.training.view_plan import ViewPlan, solve_mean_plan

if TYPE_CHECKING:
    from hotview.estimators.fit import Prepared
    from hotview.estimators.result import Trained
    from hotview.estimators.rows import Rows
    from hotview.semisupervised import SemiSupervised
    from hotview.semisupervised.soft_labels import PseudoLabels

__all__ = [
    "INTERRUPTED",
    "FitWarnings",
    "collapse_warning",
    "plan_warning",
    "score_warnings",
    "shift_warnings",
    "warn_of_input",
    "warn_of_result",
    "warn_of_shift",
    "was_interrupted",
]

INTERRUPTED = "Training was interrupted"
_LISTED = 5  # items of a long list that are named
_LOW_RANK = 1.5
_LOW_SPREAD, _LOST_SPREAD = 0.01, 0.05  # relative to other views, and to the constraint
_FEW_ROWS = 5  # too few to estimate a rank
_SHIFT = 0.1  # total variation between class mixes that is told


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


def warn_of_input(warnings: FitWarnings, given: Data, rows: Rows, p: Mapping[str, Any]) -> None:
    """Warn about tables and labels that a fit was given, and say how columns are transformed.

    Parameters
    ----------
    warnings : FitWarnings
        The warnings of the fit.
    given : Data
        The rows as they were given.
    rows : Rows
        The rows that hold a value.
    p : dict of str to object
        The parameters.
    """
    from hotview.training.progress import wants_progress  # of rich, which only fits need

    if wants_progress(p["verbose"]):
        for name, scan in rows.scans.items():
            if scan.scaler.kind != "standardize" or scan.scaler.components is not None:
                print(f"{name}: {scan.scaler.description}", file=sys.stderr)
    for text in _input_warnings(given, rows, p):
        warnings.add(text)


def _input_warnings(given: Data, rows: Rows, p: Mapping[str, Any]) -> Iterator[str]:
    coupling, data = p["coupling"], rows.data
    n_missing = len(data.links) - len(data.complete)
    if coupling.needs_alignment and n_missing > 0:
        yield (
            f"{n_missing} linked rows lack a view; coupling={coupling.label!r} compares "
            "individuals and trains on the others only. Use coupling='hot-reference' to learn "
            "from all rows."
        )
    constant = {
        name: [given.views[name].tables[0].describe_column(j) for j in scan.constant]
        for name, scan in rows.scans.items()
        if len(scan.constant) > 0 and scan.scaler.kind != "none" and scan.scaler.components is None
    }
    if constant:
        listed = "; ".join(f"{name!r}: {_shorten(columns)}" for name, columns in constant.items())
        yield (
            f"Columns with a single value are not informative; they are kept and become 0 "
            f"({listed}). Drop them to avoid this warning."
        )
    if coupling.label == "hot-pairwise" and len(data.names) <= 3:
        yield (
            f"With {len(data.names)} views the plan of 'hot-pairwise' has no freedom: symmetry, a "
            "zero diagonal and equal sums make all weights equal, as in 'sw-pairwise'. Use "
            "coupling='hot-reference', or four views and more."
        )
    if data.targets is not None:
        yield from _gap_warnings(given)
        yield from leakage_warnings(given)
        yield from _label_warnings(data, propagates=p["pseudo_labels"])


def _gap_warnings(data: Data) -> Iterator[str]:
    """Warning about labels that are texts which stand for missing values."""
    gaps = dict(data.known.text_gaps)
    if data.validation is not None:
        gaps |= data.validation.known.text_gaps
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


def _count_links(data: Data) -> list[int]:
    """Number of linked rows without a label of every view that another view with labels has."""
    present = data.links[data.target < 0] >= 0
    known = np.array(data.labels_per_view) > 0
    others = [present[:, known & (np.arange(len(known)) != t)] for t in range(len(known))]
    return [int((present[:, t] & x.any(axis=1)).sum()) for t, x in enumerate(others)]


def _label_warnings(data: Data, *, propagates: bool) -> Iterator[str]:
    """Warnings about classes without linked labels, and views with labels of few classes."""
    classes, names, n_known = data.known.classes, data.names, data.labels_per_view
    target = data.known.of(data.complete)
    absent = np.setdiff1d(np.arange(len(classes)), target)
    if (target >= 0).any() and len(absent) > 0:
        effect = (
            "the joint predictor of all views does not know them"
            if propagates
            else "there is no joint predictor of all views"
        )
        yield (
            f"{len(absent)} of the {len(classes)} classes have no linked row with a label "
            f"({_shorten(classes[absent])}), so that {effect}. "
            "Link and label a few rows of every class."
        )
        return
    n_links = _count_links(data) if propagates else [int((target < 0).sum())] * len(names)
    most = max(n_known)
    fewer = [s for s, n in enumerate(n_known) if n < most]

    def listed(views: Sequence[int]) -> str:
        return ", ".join(f"{names[s]!r} ({n_known[s]} of {most})" for s in views)

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


def warn_of_shift(warnings: FitWarnings, data: Data, pseudo: PseudoLabels) -> None:
    """Warn about views without labels whose linked rows have another mix of classes.

    Parameters
    ----------
    warnings : FitWarnings
        The warnings of the fit.
    data : Data
        All labels.
    pseudo : PseudoLabels
        Those of all rows.
    """
    known = [n > 0 for n in data.labels_per_view]
    prior = pseudo.given, pseudo.shifted
    for text in shift_warnings(data.names, known, *prior, data.known.classes):
        warnings.add(text)


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


def score_warnings(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Warnings about views, or all of them, that predict no better than prior probabilities."""
    for name, x in scores.items():
        if x["n"] < MIN_ROWS or x["expected"] or not is_no_better(x):
            continue
        what = "all views together" if name == ALL_VIEWS else f"view {name!r}"
        yield (
            f"Predictions from {what} are not measurably better than the shares of the classes: "
            f"on {x['n']} labels that were left out, the log loss is {x['log_loss']:.3f}, that of "
            f"the shares {x['prior_log_loss']:.3f}. Label more rows, or check whether these "
            "columns can tell the classes."
        )


def shift_warnings(
    names: Sequence[str], has_labels: Sequence[bool], before: Array, after: Array, classes: Array
) -> Iterator[str]:
    """Warnings about views without labels whose linked rows have another mix of classes.

    Parameters
    ----------
    names : sequence of str
        Names of the views.
    has_labels : sequence of bool
        Which views have labels.
    before, after : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities of the labels, and of linked rows.
    classes : ndarray
        The classes.
    """
    for s, name in enumerate(names):
        change = np.exp(after[s]) - np.exp(before[s])
        if has_labels[s] or np.abs(change).sum() / 2 < _SHIFT:
            continue
        k = int(np.abs(change).argmax())
        yield (
            f"Linked rows of view {name!r}, which has no labels, look like another mix of classes "
            f"than the labels: class {classes[k].item()!r} has a share of "
            f"{np.exp(after[s, k]):.2f} there, and {np.exp(before[s, k]):.2f} among the labels. "
            "The former is used for rows of this view alone. Label some of its rows, or set "
            "class_prior, if linked rows are not like those to predict."
        )
