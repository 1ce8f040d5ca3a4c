"""Computations of the label holder: loss gradients, fusion weights and the joint head."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from hotview._types import Array, IntArray
from hotview.semisupervised.fusion import LogOpinionPool, OutOfFold, fit_pool

__all__ = ["fit_fusion", "fit_head", "label_loss"]


def label_loss(
    scores: Mapping[str, Tensor], codes: IntArray, head_weight: float
) -> tuple[float, dict[str, Tensor]]:
    """Return the cross-entropy of every view's scores, and its gradient.

    Parameters
    ----------
    scores : dict of str to Tensor of shape (n, classes)
        Scores by view.
    codes : ndarray of int64
        True classes, −1 where unknown.
    head_weight : float
        Weight of the loss.

    Returns
    -------
    loss : float
        Sum over views.
    gradients : dict of str to Tensor
        Gradient with respect to the scores of every view; 0 in rows without a label.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotview.federated.labels import label_loss
    >>> label_loss({"a": torch.zeros(1, 2)}, np.array([1]), 1.0)[1]["a"]
    tensor([[ 0.5000, -0.5000]])
    """
    labeled = torch.from_numpy(np.flatnonzero(codes >= 0))
    if len(labeled) == 0:
        return 0.0, {name: torch.zeros_like(x) for name, x in scores.items()}
    target = torch.from_numpy(codes)[labeled]
    total, gradients = 0.0, {}
    for name, view_scores in scores.items():
        x = view_scores.clone().requires_grad_()
        loss = head_weight * cross_entropy(x[labeled], target)
        (gradients[name],) = torch.autograd.grad(loss, x)
        total += float(loss.detach())
    return total, gradients


def fit_fusion(
    scores: Mapping[str, Tensor],
    joint: Array | None,
    target: IntArray,
    n_views: int,
    seed: int,
) -> LogOpinionPool:
    """Fit the fusion weights of the views on linked rows that they were not trained on.

    Parameters
    ----------
    scores : dict of str to Tensor of shape (n_held_out, classes)
        Scores of held-out rows by view; empty without such rows.
    joint : ndarray of shape (n_held_out, classes) or None
        Scores of these rows by the joint head.
    target : ndarray of int64
        Classes of these rows, −1 where unknown.
    n_views : int
        Number of views.
    seed : int
        The shared seed.

    Returns
    -------
    LogOpinionPool
        The weights; equal ones where no class is known.
    """
    labeled, random = np.flatnonzero(target >= 0), np.random.default_rng(seed)
    if not scores or len(labeled) == 0:
        return fit_pool([], n_views, random)
    of_views = [log_softmax(x.double(), 1).numpy()[labeled] for x in scores.values()]
    of_head = np.zeros_like(of_views[0])
    if joint is not None:
        of_head = log_softmax(torch.from_numpy(joint), 1).numpy()[labeled]
    present = np.ones((len(labeled), n_views + 1), dtype=bool)
    present[:, -1] = joint is not None
    log_probs = np.stack([*of_views, of_head], axis=1)
    return fit_pool([OutOfFold(log_probs, present, target[labeled])], n_views, random)


def fit_head(F: Array | None, codes: IntArray, rows: IntArray, n_classes: int) -> dict[str, Array]:
    """Fit the joint head, a linear classifier of the features of all views.

    Parameters
    ----------
    F : ndarray of shape (n_linked, n_features) or None
        Features of all linked rows, views side by side; None where they are not shared.
    codes : ndarray of int64
        Their classes, −1 where unknown.
    rows : ndarray of int64
        Linked rows to train on.
    n_classes : int
        Number of classes.

    Returns
    -------
    dict of str to ndarray
        ``weight`` and ``bias``; empty without features, or where a class has no training row.
    """
    rows = rows[codes[rows] >= 0]
    if F is None or len(np.unique(codes[rows])) < n_classes:
        return {}
    model = LogisticRegression(max_iter=1000).fit(F[rows], codes[rows])
    weight, bias = model.coef_, model.intercept_
    if n_classes == 2:  # scikit-learn has one row of weights for two classes
        weight, bias = np.vstack([-weight, weight]) / 2, np.r_[-bias, bias] / 2
    return {"weight": weight, "bias": bias}
