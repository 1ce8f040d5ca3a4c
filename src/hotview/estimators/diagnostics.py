"""What a fit says and leaves: warnings, what it was trained on, and the model."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from hotview._messages import warn_user
from hotview._types import Array
from hotview.data import Data
from hotview.data.leakage import leakage_warnings
from hotview.semisupervised.sentences import shift_warnings

if TYPE_CHECKING:
    from hotview.estimators.rows import Rows
    from hotview.semisupervised.soft_labels import PseudoLabels

__all__ = [
    "INTERRUPTED",
    "FitWarnings",
    "interrupt_warning",
    "warn_of_input",
    "warn_of_labels",
    "was_interrupted",
]

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


def warn_of_labels(warnings: FitWarnings, data: Data, pseudo: PseudoLabels) -> None:
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
