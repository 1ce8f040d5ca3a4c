"""Who judges new rows where labels were spread: the voters of every view, and a regression."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview.semisupervised.graph import Known, ViewGraph, make_knn_predictor, propagate_labels
from hotview.semisupervised.knn import KNNPredictor
from hotview.semisupervised.ridge import fit_ridge
from hotview.training.batches import TrainingRows

__all__ = ["RidgePredictor", "ViewPredictors", "fit_predictors"]


@dataclass(frozen=True)
class ViewPredictors:
    """Who judges instead of the heads of a network.

    Parameters
    ----------
    voters : list of KNNPredictor
        The rows of every view that vote on new ones.
    ridge : RidgePredictor or None
        What judges all views jointly; None where no one can.
    """

    voters: list[KNNPredictor]
    ridge: RidgePredictor | None


@dataclass(frozen=True)
class RidgePredictor:
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


def fit_predictors(
    graphs: Sequence[ViewGraph],
    data: TrainingRows,
    known: Known,
    random: np.random.Generator,
    *,
    joint: bool,
) -> ViewPredictors:
    """Let labels spread, and find who judges new rows by them.

    Parameters
    ----------
    graphs : sequence of ViewGraph
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
    ViewPredictors
        KNNPredictor of every view, and the regression.
    """
    shares = propagate_labels(graphs, known, random)
    voters = [make_knn_predictor(ground, mine) for ground, mine in zip(graphs, shares, strict=True)]
    return ViewPredictors(voters, _regress(data, known) if joint else None)


def _regress(data: TrainingRows, known: Known) -> RidgePredictor:
    who = data.labeled
    each = zip(data.views, data.aligned[who].T, strict=True)
    Xs = [view.take(rows).cpu().numpy() for view, rows in each]
    ridge = fit_ridge(Xs, data.target[who], known.class_weight)
    device = data.views[0].device
    return RidgePredictor(
        [torch.as_tensor(B, device=device) for B in ridge.weights],
        torch.as_tensor(ridge.intercept, device=device),
    )
