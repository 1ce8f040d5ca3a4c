"""What the label holder does: judge scores, and find out how much each view counts."""

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

__all__ = ["Asked", "JointHead", "Judgment", "asked_in", "fuse", "judge", "split_linked"]


@dataclass(frozen=True)
class Judgment:
    """What labels say of scores.

    Parameters
    ----------
    loss : float
        Added over views.
    gradients : dict of str to Tensor
        With respect to every view's scores.
    """

    loss: float
    gradients: dict[str, Tensor]


def judge(scores: Mapping[str, Tensor], codes: IntArray, head_weight: float) -> Judgment:
    """The cross-entropies of the views' scores, and their gradients.

    Parameters
    ----------
    scores : dict of str to Tensor of shape (n, classes)
        Of every view.
    codes : ndarray of int64
        True classes, −1 where unknown.
    head_weight : float
        Weight of the loss.

    Returns
    -------
    Judgment
        Gradients are 0 in rows without a label.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from hotview.federated.labels import judge
    >>> judge({"a": torch.zeros(1, 2)}, np.array([1]), 1.0).gradients["a"]
    tensor([[ 0.5000, -0.5000]])
    """
    known = torch.from_numpy(np.flatnonzero(codes >= 0))
    target = torch.from_numpy(codes)[known]
    loss, gradients = 0.0, {}
    for name, given in scores.items():
        x = given.clone().requires_grad_()
        if len(known) == 0:
            gradients[name] = torch.zeros_like(given)
            continue
        one = head_weight * cross_entropy(x[known], target)
        (gradients[name],) = torch.autograd.grad(one, x)
        loss += float(one.detach())
    return Judgment(loss, gradients)


def split_linked(n: int, share: float, seed: int) -> tuple[IntArray, IntArray]:
    """Linked individuals that teach first, and those that tell how much each view counts.

    Parameters
    ----------
    n : int
        Linked individuals.
    share : float
        Of those who do not teach.
    seed : int
        Of the federation.

    Returns
    -------
    teaching, held : ndarray of int64
        Numbers of individuals.

    Examples
    --------
    >>> from hotview.federated.labels import split_linked
    >>> [len(part) for part in split_linked(100, 0.25, 0)]
    [75, 25]
    """
    order = np.random.default_rng([seed, 1]).permutation(n)
    n_held = round(share * n)
    return np.sort(order[n_held:]), np.sort(order[:n_held])


@dataclass(frozen=True)
class Asked:
    """Linked individuals about whom a round asks.

    Parameters
    ----------
    scores : ndarray of int64
        Whose scores are judged, and teach.
    held : ndarray of int64
        Whose scores tell how much each view counts.
    features : ndarray of int64
        Whose features are sent, for a joint head.
    """

    scores: IntArray
    held: IntArray
    features: IntArray


def asked_in(round: int, settings: Settings, n_linked: int) -> Asked:
    """Whom a round asks about, which every side finds by itself.

    In the first half of the rounds some are held out. Once it is known how much each view counts,
    everybody teaches. The round after the last asks for what a joint head needs, and nothing else.

    Parameters
    ----------
    round : int
        Which round.
    settings : Settings
        Of the federation.
    n_linked : int
        Linked individuals.

    Returns
    -------
    Asked
        Nobody at all without a label holder.

    Examples
    --------
    >>> from hotview.federated import Settings
    >>> from hotview.federated.labels import asked_in
    >>> settings = Settings(label_holder="clinical", rounds=4)
    >>> [len(asked_in(round, settings, 100).scores) for round in (1, 2, 3, 4, 5)]
    [75, 75, 100, 100, 0]
    """
    nobody, everybody = np.empty(0, dtype=np.int64), np.arange(n_linked)
    if settings.label_holder is None:
        return Asked(nobody, nobody, nobody)
    seed, weighing = settings.random_state, round == settings.weighing_round
    teaching, held = split_linked(n_linked, settings.fusion_share, seed)
    if round > settings.weighing_round:
        teaching = everybody
    if round > settings.rounds or settings.propagate_labels:
        teaching = nobody
    if len(teaching) > settings.linked_batch:
        order = np.random.default_rng([seed, 2, round]).permutation(teaching)
        teaching = np.sort(order[: settings.linked_batch])
    asks = settings.share_features and (weighing or round > settings.rounds)
    return Asked(teaching, held if weighing else nobody, everybody if asks else nobody)


@dataclass(frozen=True)
class JointHead:
    """Scores from the features of all views, one view after the other.

    Parameters
    ----------
    weight : ndarray of shape (classes, features)
        Of the features.
    bias : ndarray of shape (classes,)
        What is added.
    """

    weight: Array
    bias: Array


def fuse(
    names: Sequence[str],
    scores: Mapping[str, Tensor],
    codes: IntArray,
    features: Mapping[str, Tensor],
    teaching: Sequence[int] | IntArray,
    held: Sequence[int] | IntArray,
    n_classes: int,
    seed: int,
) -> tuple[LogOpinionPool, JointHead | None]:
    """Weights of the views' judgments, from linked individuals who did not teach them.

    Parameters
    ----------
    names : sequence of str
        The views.
    scores : dict of str to Tensor of shape (n_held, classes)
        What every view says of those who were held out; empty where nobody was.
    codes : ndarray of int64
        Classes of all linked individuals, −1 where unknown.
    features : dict of str to Tensor of shape (n_linked, encoder_dim)
        Of all linked individuals; empty where features stay at home.
    teaching, held : sequence of int
        From `split_linked`.
    n_classes : int
        Classes.
    seed : int
        Of the federation.

    Returns
    -------
    LogOpinionPool
        The weights.
    JointHead or None
        What features say jointly; None without.
    """
    head = _fit_head(features, codes, np.asarray(teaching), n_classes) if features else None
    held = np.asarray(held, dtype=np.int64) if scores else np.empty(0, dtype=np.int64)
    known = np.flatnonzero(codes[held] >= 0)
    log_probs = [log_softmax(x.double(), 1).numpy()[known] for x in scores.values()]
    joint = np.zeros((len(known), n_classes))
    if head is not None:
        F = torch.cat(list(features.values()), 1).double().numpy()[held[known]]
        joint = log_softmax(torch.from_numpy(F @ head.weight.T + head.bias), 1).numpy()
    present = np.ones((len(known), len(names) + 1), dtype=bool)
    present[:, -1] = head is not None
    target = codes[held[known]]
    folds = (
        [OutOfFold(np.stack([*log_probs, joint], axis=1), present, target)] if len(known) else []
    )
    return fit_pool(folds, len(names), np.random.default_rng(seed)), head


def _fit_head(
    features: Mapping[str, Tensor], codes: IntArray, teaching: IntArray, n_classes: int
) -> JointHead | None:
    rows = teaching[codes[teaching] >= 0]
    if len(np.unique(codes[rows])) < n_classes:
        return None  # a head that never saw a class would vote against it
    F = torch.cat(list(features.values()), 1).double().numpy()[rows]
    model = LogisticRegression(max_iter=1000).fit(F, codes[rows])
    weight, bias = model.coef_, model.intercept_
    if n_classes == 2:  # of which scikit-learn tells one
        weight, bias = np.vstack([-weight, weight]) / 2, np.r_[-bias, bias] / 2
    return JointHead(weight, bias)
