"""Rows that training does not see, so that a model can be judged by them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hotview._types import Array
from hotview.datasets.readers.matlab import Matrix
from hotview.ingest.dataset import Study
from hotview.ingest.id_hashes import digest

__all__ = ["HeldOut", "hold_out", "keep_linked"]


@dataclass(frozen=True)
class HeldOut:
    """Linked rows with a label that training does not see.

    Parameters
    ----------
    study : Study
        What is left to learn from.
    ids : ndarray
        Who is held out.
    views : dict of str to ndarray or csr_array
        Their rows.
    target : ndarray
        Their labels.
    """

    study: Study
    ids: Array
    views: dict[str, Matrix]
    target: Array


def keep_linked(study: Study) -> Study:
    """Leave out rows that are not linked.

    Parameters
    ----------
    study : Study
        All rows.

    Returns
    -------
    Study
        Linked rows alone.
    """
    if len(study.ids) == 0:
        raise ValueError("--linked-only leaves nothing: no rows are linked. Check --id-column.")
    return replace(study, unaligned={}, unaligned_target={}, unaligned_ids={}, rows=study.linked)


def hold_out(study: Study, share: float) -> HeldOut:
    """Hold out a share of the linked rows of every class, the same for the same files.

    Who is held out depends on nothing but the ids, so that it can be found again later without
    being written down.

    Parameters
    ----------
    study : Study
        All rows.
    share : float
        Between 0 and 1.

    Returns
    -------
    HeldOut
        The rows held out, and the study without them.
    """
    chosen: list[int] = []
    order = sorted(range(len(study.ids)), key=lambda i: digest(study.ids[i]))
    for label in dict.fromkeys(label for label in study.target if label is not None):
        rows = [i for i in order if study.target[i] == label]
        chosen += rows[: min(round(share * len(rows)), len(rows) - 1)]  # one is left to learn from
    if not chosen:
        n = sum(label is not None for label in study.target)
        raise ValueError(
            f"Expected linked rows with a label to hold out {share:g} of, but there are {n}. Hold "
            "out a larger share, or none and evaluate on other files."
        )
    held = np.sort(np.array(chosen, dtype=np.int64))
    kept = np.setdiff1d(np.arange(len(study.ids)), held)
    rest = replace(
        study,
        linked={name: X[kept] for name, X in study.linked.items()},
        target=study.target[kept],
        ids=study.ids[kept],
    )
    views = {name: X[held] for name, X in study.linked.items()}
    return HeldOut(rest, study.ids[held], views, study.target[held])
