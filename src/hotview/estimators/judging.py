"""Who judges new rows where labels were spread: the voters of every view, and a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview.estimators.teaching import Ground, Known, make_voters, share_labels
from hotview.training.batches import TrainingRows
from hotview.training.ridge import fit_ridge
from hotview.training.voting import Voters

__all__ = ["Judge", "LinearScores", "appoint"]


@dataclass(frozen=True)
class Judge:
    """Who judges instead of the heads of a network.

    Parameters
    ----------
    voters : list of Voters
        The rows of every view that vote on new ones.
    ridge : LinearScores or None
        What judges all views jointly; None where no one can.
    """

    voters: list[Voters]
    ridge: LinearScores | None


@dataclass(frozen=True)
class LinearScores:
    """Class scores that are linear in the standardized columns of all views.

    Parameters
    ----------
    weights : list of Tensor of shape (n_columns, n_classes)
        Of every view.
    intercept : Tensor of shape (n_classes,)
        Of all classes.
    """

    weights: list[Tensor]
    intercept: Tensor

    def __call__(self, Xs: Sequence[Tensor]) -> Tensor:
        """Scores of rows that have all views."""
        parts = [X.double() @ B for X, B in zip(Xs, self.weights, strict=True)]
        return torch.stack(parts).sum(0) + self.intercept


def appoint(
    grounds: Sequence[Ground],
    data: TrainingRows,
    known: Known,
    random: np.random.Generator,
    *,
    joint: bool,
) -> Judge:
    """Let labels spread, and find who judges new rows by them.

    Parameters
    ----------
    grounds : sequence of Ground
        What they spread on in every view.
    data : TrainingRows
        The rows to learn from.
    known : Known
        The labels.
    random : numpy Generator
        For views that others teach.
    joint : bool
        Whether linked rows of all classes have labels, for a joint judgment.

    Returns
    -------
    Judge
        Voters of every view, and the regression.
    """
    shares = share_labels(grounds, known, random)
    voters = [make_voters(ground, mine) for ground, mine in zip(grounds, shares, strict=True)]
    return Judge(voters, _regress(data, known) if joint else None)


def _regress(data: TrainingRows, known: Known) -> LinearScores:
    who = data.labeled
    each = zip(data.views, data.aligned[who].T, strict=True)
    Xs = [view.take(rows).cpu().numpy() for view, rows in each]
    ridge = fit_ridge(Xs, data.target[who], known.class_weight)
    device = data.views[0].device
    return LinearScores(
        [torch.as_tensor(B, device=device) for B in ridge.weights],
        torch.as_tensor(ridge.intercept, device=device),
    )
