"""What a user should know after a fit, once, with the remedy."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from torch import Tensor

from hotview._types import Array
from hotview.training.batches import TrainingRows
from hotview.training.column_scaler import TableScan
from hotview.training.pca import effective_rank, total_std
from hotview.training.view_plan import ViewPlan

__all__ = [
    "noted",
    "remark_on_classes",
    "remark_on_collapse",
    "remark_on_columns",
    "remark_on_few_views",
    "remark_on_incomplete",
    "remark_on_interrupt",
    "remark_on_plan",
    "tell_interrupt",
]

_LOW_RANK = 1.5
_LOW_SPREAD, _LOST_SPREAD = 0.01, 0.05  # beside other views, and beside what the constraint wants
_FEW_ROWS = 5  # of which no rank can be told
_INTERRUPTED = "Training was interrupted"
_LISTED = 5  # of what is too much to name in full
_OURS = ("hotview.", "sklearn.")  # modules in which a warning is of no use to the user


_notebook: ContextVar[list[str] | None] = ContextVar("notebook", default=None)
_aloud: ContextVar[bool] = ContextVar("aloud", default=True)


@contextmanager
def noted(notebook: list[str], *, aloud: bool = True) -> Iterator[None]:
    """Write into a list what is remarked inside, and say it, unless another process does."""
    before, was_aloud = _notebook.set(notebook), _aloud.set(aloud)
    try:
        yield
    finally:
        _notebook.reset(before)
        _aloud.reset(was_aloud)


def _warn(text: str, category: type[Warning] = UserWarning) -> None:
    """Warn, and point at the line of the user's that called `fit`."""
    if (notebook := _notebook.get()) is not None:
        notebook.append(text)
    if not _aloud.get():
        return
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_OURS):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)


def remark_on_columns(scans: Mapping[str, TableScan], *, standardize: bool) -> None:
    """Mention columns that hold a single value."""
    found = {name: scan.constant for name, scan in scans.items() if len(scan.constant) > 0}
    if found and standardize:
        listed = "; ".join(f"{name!r}: {_some(columns)}" for name, columns in found.items())
        _warn(
            f"Columns with a single value tell nothing; they are kept and become 0 ({listed}). "
            "Drop them to be rid of this message."
        )


def _some(numbers: Array) -> str:
    listed = ", ".join(str(n) for n in numbers[:_LISTED])
    return listed + (f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else "")


def remark_on_few_views(coupling: str, n_views: int) -> None:
    """Say that the plan between two or three views is not free."""
    if coupling == "hot-pairwise" and n_views <= 3:
        _warn(
            f"With {n_views} views the plan of 'hot-pairwise' has no freedom: symmetry, a zero "
            "diagonal and equal sums make all weights equal, as in 'sw-pairwise'. Use "
            "coupling='hot-reference', or four views and more."
        )


def remark_on_collapse(
    names: Sequence[str],
    latents: Sequence[Tensor],
    widths: Sequence[int],
    wanted: float,
    remedies: Sequence[str],
) -> None:
    """Say which views' latents fill next to nothing of the common space.

    `wanted` is the root of the total variance that the coupling's constraint asks for.
    """
    if min(len(Z) for Z in latents) < _FEW_ROWS:
        return
    spreads = [total_std(Z) for Z in latents]
    low = max(_LOW_SPREAD * float(np.median(spreads)), _LOST_SPREAD * wanted)
    collapsed = [
        f"{name!r} (effective rank {rank:.1f})"
        for name, Z, own, width in zip(names, latents, spreads, widths, strict=True)
        if ((rank := effective_rank(Z)) < _LOW_RANK and min(width, Z.shape[1]) > 2) or own <= low
    ]
    if collapsed:
        _warn(
            f"The latents of {', '.join(collapsed)} have collapsed: nearly all rows are encoded "
            f"alike, or along one line. To prevent it, {', or '.join(filter(None, remedies))}."
        )


def remark_on_plan(plan: ViewPlan) -> None:
    """Say that the plan does not meet its marginals."""
    if not plan.converged:
        _warn(
            "The plan W has not converged: its marginals are off by "
            f"{plan.marginal_error:.1e} of the mass after {plan.n_iter} iterations. "
            "Raise sinkhorn_max_iter or reg.",
            ConvergenceWarning,
        )


def remark_on_classes(classes: Array, names: Sequence[str], data: TrainingRows) -> None:
    """Say which classes the joint head never sees, and which views have labels of few or none."""
    labeled = data.target[data.target >= 0]
    absent = np.setdiff1d(np.arange(len(classes)), labeled)
    if len(labeled) > 0 and len(absent) > 0:
        _warn(
            f"{len(absent)} of the {len(classes)} classes have no linked row with a label "
            f"({_some(classes[absent])}), so that every view judges on its own. "
            "Link and label a few rows of every class."
        )
        return
    most = max(len(known) for known in data.classes_known)
    behind = [
        f"{name!r} ({len(known)} of {most})"
        for name, known in zip(names, data.classes_known, strict=True)
        if len(known) < most
    ]
    if behind and len(data.taught) == 0:
        _warn(
            f"Views have labels of fewer classes than others: {', '.join(behind)}, and there are "
            "no linked rows without a label from which they could learn the rest. They are asked "
            "only where no better view is present. Link some rows."
        )
    elif behind and len(data.taught) < len(classes):
        _warn(
            f"Views have labels of fewer classes than others: {', '.join(behind)}, and learn the "
            f"rest over {len(data.taught)} linked rows, fewer than the {len(classes)} classes: "
            "which class is which may not be found. Link more rows."
        )


def remark_on_incomplete(coupling: str, n_rows: int) -> None:
    """Say how many linked rows a coupling of individuals cannot use."""
    if n_rows > 0:
        _warn(
            f"{n_rows} linked rows lack a view; coupling={coupling!r} compares individuals and "
            "trains on the others only. Use coupling='hot-reference' to learn from all rows."
        )


def tell_interrupt(remarks: Sequence[str]) -> bool:
    """Whether the remarks of a fit say that it ended early."""
    return any(remark.startswith(_INTERRUPTED) for remark in remarks)


def remark_on_interrupt(n_epochs: int) -> None:
    """Say that training ended early, and that the result is usable."""
    _warn(
        f"{_INTERRUPTED} in epoch {n_epochs}; the estimator is fitted with what it had "
        "learned by then. Call fit again to train in full."
    )
