"""Computations of the label holder: loss gradients, fusion weights and the joint head."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from hotview._types import Array, IntArray
from hotview.federated.settings import Settings
from hotview.semisupervised.fusion import LogOpinionPool, OutOfFold, fit_pool

__all__ = [
    "LinkedQuery",
    "fit_fusion",
    "label_loss",
    "linked_query",
    "split_linked",
]


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


def split_linked(n: int, fraction: float, seed: int) -> tuple[IntArray, IntArray]:
    """Split linked rows into training rows and rows held out for fusion.

    Parameters
    ----------
    n : int
        Number of linked rows.
    fraction : float
        Fraction that is held out.
    seed : int
        The shared seed.

    Returns
    -------
    training, held_out : ndarray of int64
        Indices of linked rows.

    Examples
    --------
    >>> from hotview.federated.labels import split_linked
    >>> [len(part) for part in split_linked(100, 0.25, 0)]
    [75, 25]
    """
    order = np.random.default_rng([seed, 1]).permutation(n)
    n_held_out = round(fraction * n)
    return np.sort(order[n_held_out:]), np.sort(order[:n_held_out])


@dataclass(frozen=True)
class LinkedQuery:
    """Linked rows queried in a round.

    Parameters
    ----------
    scores : ndarray of int64
        Rows whose scores are sent for the classification loss.
    held_out : ndarray of int64
        Rows whose scores are sent for the fusion weights.
    features : ndarray of int64
        Rows whose features are sent for a joint head.
    """

    scores: IntArray
    held_out: IntArray
    features: IntArray


def linked_query(round: int, settings: Settings, n_linked: int) -> LinkedQuery:
    """Linked rows queried in a round, derived from the shared seed.

    In the first half of the rounds some rows are held out. After the fusion weights are fitted on
    them, all rows are trained on. The round after the last only queries features for a joint head.

    Parameters
    ----------
    round : int
        The round.
    settings : Settings
        Settings of the training.
    n_linked : int
        Number of linked rows.

    Returns
    -------
    LinkedQuery
        The rows; none without a label holder.

    Examples
    --------
    >>> from hotview.federated import Settings
    >>> from hotview.federated.labels import linked_query
    >>> settings = Settings(label_holder="clinical", rounds=4)
    >>> [len(linked_query(round, settings, 100).scores) for round in (1, 2, 3, 4, 5)]
    [75, 75, 100, 100, 0]
    """
    none, everyone = np.empty(0, dtype=np.int64), np.arange(n_linked)
    if settings.label_holder is None:
        return LinkedQuery(none, none, none)
    seed, is_fusion = settings.random_state, round == settings.fusion_round
    training, held_out = split_linked(n_linked, settings.fusion_fraction, seed)
    if round > settings.fusion_round:
        training = everyone
    if round > settings.rounds or settings.share_labels:
        training = none
    if len(training) > settings.linked_batch:
        order = np.random.default_rng([seed, 2, round]).permutation(training)
        training = np.sort(order[: settings.linked_batch])
    with_features = settings.share_features and (is_fusion or round > settings.rounds)
    return LinkedQuery(
        training, held_out if is_fusion else none, everyone if with_features else none
    )


def fit_fusion(
    names: Sequence[str],
    scores: Mapping[str, Tensor],
    codes: IntArray,
    features: Mapping[str, Tensor],
    training: Sequence[int] | IntArray,
    held_out: Sequence[int] | IntArray,
    n_classes: int,
    seed: int,
) -> tuple[LogOpinionPool, dict[str, Array]]:
    """Fit the fusion weights of the views on linked rows that they were not trained on.

    Parameters
    ----------
    names : sequence of str
        Names of the views.
    scores : dict of str to Tensor of shape (n_held_out, classes)
        Scores of held-out rows by view; empty without such rows.
    codes : ndarray of int64
        Classes of all linked rows, −1 where unknown.
    features : dict of str to Tensor of shape (n_linked, encoder_dim)
        Features of all linked rows; empty where they are not shared.
    training, held_out : sequence of int
        From `split_linked`.
    n_classes : int
        Number of classes.
    seed : int
        The shared seed.

    Returns
    -------
    LogOpinionPool
        The weights.
    dict of str to ndarray
        ``weight`` and ``bias`` of a linear classifier of the concatenated features, the joint
        head; empty without features, or where a class has no training row.
    """
    head: dict[str, Array] = {}
    F = torch.cat(list(features.values()), 1).double().numpy() if features else np.empty((0, 0))
    rows = np.asarray(training)
    rows = rows[codes[rows] >= 0]
    if features and len(np.unique(codes[rows])) == n_classes:
        head = _fit_head(F[rows], codes[rows], n_classes)
    held_out = np.asarray(held_out, dtype=np.int64) if scores else np.empty(0, dtype=np.int64)
    labeled = np.flatnonzero(codes[held_out] >= 0)
    if len(labeled) == 0:
        return fit_pool([], len(names), np.random.default_rng(seed)), head
    rows = held_out[labeled]
    log_probs = [log_softmax(x.double(), 1).numpy()[labeled] for x in scores.values()]
    joint = np.zeros((len(rows), n_classes))
    if head:
        scores_of_head = F[rows] @ head["weight"].T + head["bias"]
        joint = log_softmax(torch.from_numpy(scores_of_head), 1).numpy()
    present = np.ones((len(rows), len(names) + 1), dtype=bool)
    present[:, -1] = bool(head)
    out_of_fold = OutOfFold(np.stack([*log_probs, joint], axis=1), present, codes[rows])
    return fit_pool([out_of_fold], len(names), np.random.default_rng(seed)), head


def _fit_head(F: Array, target: IntArray, n_classes: int) -> dict[str, Array]:
    model = LogisticRegression(max_iter=1000).fit(F, target)
    weight, bias = model.coef_, model.intercept_
    if n_classes == 2:  # scikit-learn has one row of weights for two classes
        weight, bias = np.vstack([-weight, weight]) / 2, np.r_[-bias, bias] / 2
    return {"weight": weight, "bias": bias}
