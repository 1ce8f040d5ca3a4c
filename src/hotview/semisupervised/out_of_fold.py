"""How good a classifier is on rows whose labels it did not see, by view and in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, stdtrit
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.semisupervised.calibration import draw_subsets
from hotview.semisupervised.graph import ViewGraph, take_rows
from hotview.semisupervised.predictors import (
    FusionRule,
    NetworkOutputs,
    Predictors,
    ViewInputs,
)
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.soft_labels import NodeLabels, PseudoLabels
from hotview.semisupervised.super_learner import ScoresOutOfFold, ScoresWithout, SuperLearner

__all__ = [
    "ALL_VIEWS",
    "MIN_ROWS",
    "LeftOut",
    "fit_other_folds",
    "increase_losses",
    "is_no_better",
    "score_left_out",
    "score_out_of_fold",
]

ALL_VIEWS = "all views"
MIN_ROWS = 10  # below, nothing is said
_MAX_LEFT_OUT = 1000  # rows that a member predicts to weigh its predictors
_MAX_ROWS = 200  # of other folds, to fit weights to


@dataclass(frozen=True)
class LeftOut:
    """Scores of rows whose labels a member was not trained on.

    Parameters
    ----------
    scores : ScoresOutOfFold
        By all predictors.
    without : ScoresWithout
        What differs in these where one view is left out.
    subsets : ScoresOutOfFold
        These with several but not all views of every row.
    linked : ScoresOutOfFold or None
        Scores of linked rows without a label which did not teach views without labels.
    """

    scores: ScoresOutOfFold
    without: ScoresWithout
    subsets: ScoresOutOfFold
    linked: ScoresOutOfFold | None = None


def score_out_of_fold(
    learner: SuperLearner,
    labeled: ScoresOutOfFold | None,
    linked: ScoresOutOfFold | None,
    names: Sequence[str],
    has_labels: Sequence[bool],
    increase: Array | None = None,
) -> dict[str, dict[str, Any]]:
    """Accuracy and log loss on left-out labels: of every view alone, and of all views of a row.

    Parameters
    ----------
    learner : SuperLearner
        The fitted weights.
    labeled : ScoresOutOfFold or None
        Scores of rows whose labels were left out.
    linked : ScoresOutOfFold or None
        Scores of linked rows without a label, which did not teach the views without labels. These
        are compared with the class probabilities of the other views: their accuracy is expected,
        not observed.
    names : sequence of str
        Names of the views.
    has_labels : sequence of bool
        Which views have labels.
    increase : ndarray of shape (n_rows, n_views) or None, default=None
        From `increase_losses`, of the rows of `labeled`.

    Returns
    -------
    dict of str to dict
        By view, and for ``"all views"``: number of rows ``n``, ``accuracy``, ``log_loss``, that of
        the prior probabilities alone (``prior_log_loss``), the ``standard_error`` of their
        difference, whether classes are ``expected`` by other views, and ``loss_without``: how much
        the log loss rises where this view is left out, on rows that have it and another: their
        number ``n``, the mean ``increase``, and its 95 % interval from ``low`` to ``high``. It is
        None for ``"all views"``, and where no such row has a left-out label.
    """
    found = {}
    for s, name in enumerate(names):
        alone = np.zeros(len(names), dtype=bool)
        alone[s] = True
        if has_labels[s] and labeled is not None:
            rows = np.flatnonzero(labeled.present[:, s])
            found[name] = _score(learner, labeled, rows, alone, _one_hot(labeled))
        elif not has_labels[s] and linked is not None:
            others = np.array(has_labels)
            rows = np.flatnonzero(linked.present[:, s] & linked.present[:, others].any(axis=1))
            target = np.exp(_predict(learner, linked, others))
            found[name] = {**_score(learner, linked, rows, alone, target), "expected": True}
    if labeled is not None and (labeled.present.sum(axis=1) > 1).any():
        rows = np.flatnonzero(labeled.present.sum(axis=1) > 1)
        every = np.ones(len(names), dtype=bool)
        found[ALL_VIEWS] = _score(learner, labeled, rows, every, _one_hot(labeled))
        unit = found[ALL_VIEWS]["prior_log_loss"]
        for name, column in zip(names, [] if increase is None else increase.T, strict=False):
            rises = column[~np.isnan(column)]
            if name in found and len(rises) > 0:
                found[name]["loss_without"] = _interval(rises, unit)
    return {name: scores for name, scores in found.items() if scores["n"] > 0}


def is_no_better(x: Mapping[str, Any]) -> bool:
    """Whether predictions are not better than the prior by more than one standard error."""
    return bool(x["prior_log_loss"] - x["log_loss"] <= x["standard_error"])


def _one_hot(rows: ScoresOutOfFold) -> Array:
    return np.eye(rows.scores.shape[3])[rows.target]


def _predict(learner: SuperLearner, rows: ScoresOutOfFold, views: Array) -> Array:
    """Log-probabilities by some of the views."""
    present = torch.from_numpy(rows.present & views)
    scores, joint = torch.from_numpy(rows.scores), torch.from_numpy(rows.joint)
    log_p: Array = learner.combine(scores, joint if views.all() else None, present).numpy()
    return log_p


def _score(
    learner: SuperLearner, rows: ScoresOutOfFold, chosen: Array, views: Array, target: Array
) -> dict[str, Any]:
    """Scores of chosen rows, with class probabilities as targets."""
    log_p, target = _predict(learner, rows, views)[chosen], target[chosen]
    number = np.maximum((rows.present[chosen] & views).sum(axis=1, keepdims=True), 1)
    log_prior = (rows.present[chosen] & views) / number @ np.array(learner.log_prior)
    loss = -(target * log_p).sum(axis=1)
    prior_loss = -(target * log_softmax(log_prior, axis=1)).sum(axis=1)
    n, best = len(chosen), log_p.argmax(axis=1)
    accuracy = float(target[np.arange(n), best].mean()) if n else math.nan
    return {
        "n": n,
        "accuracy": accuracy,
        "log_loss": float(loss.mean()) if n else math.nan,
        "prior_log_loss": float(prior_loss.mean()) if n else math.nan,
        "standard_error": float((loss - prior_loss).std() / math.sqrt(n)) if n else math.nan,
        "expected": False,
        "loss_without": None,
    }


def _interval(increase: Array, unit: float) -> dict[str, Any]:
    """Mean increase of the loss, and its 95 % interval.

    Mostly a few rows decide on it, and a small sample may have none of them: the interval of the
    rows alone would be too narrow. It is that of two rows more, in which the loss rises and falls
    by `unit`, as successes and failures are added for the interval of a proportion.
    """
    rows = np.r_[increase, unit, -unit]
    center, n = float(rows.mean()), len(rows)
    half = float(stdtrit(n - 1, 0.975) * rows.std(ddof=1)) / math.sqrt(n)
    mean = float(increase.mean())
    return {"n": len(increase), "increase": mean, "low": center - half, "high": center + half}


def fit_other_folds(
    folds: Sequence[ScoresOutOfFold], fit: Callable[[ScoresOutOfFold], SuperLearner]
) -> list[SuperLearner]:
    """Weights for every fold, fitted to the other folds.

    Parameters
    ----------
    folds : sequence of ScoresOutOfFold
        Two or more, by ensemble members that left out different labels.
    fit : callable
        Fits weights to some rows.
    """
    learners = []
    for f in range(len(folds)):
        others = ScoresOutOfFold.concatenate([fold for i, fold in enumerate(folds) if i != f])
        learners.append(fit(others.take(thin_rows(np.arange(len(others.target)), _MAX_ROWS))))
    return learners


def increase_losses(
    folds: Sequence[ScoresOutOfFold],
    without: Sequence[ScoresWithout],
    learners: Sequence[SuperLearner],
) -> Array:
    """How much the log loss of left-out rows rises without each of their views.

    Parameters
    ----------
    folds : sequence of ScoresOutOfFold
        Scores by ensemble members that left out different labels.
    without : sequence of ScoresWithout
        What differs in each where one view is left out.
    learners : sequence of SuperLearner
        From `fit_other_folds`: weights that were fitted to the same labels would favor all views.

    Returns
    -------
    ndarray of shape (n_rows, n_views)
        Differences of the rows of all folds; NaN where a row has no such view, or no other.
    """
    found = []
    for rows, left, learner in zip(folds, without, learners, strict=True):
        loss = _losses(learner, rows, rows.joint, rows.present)
        increase = np.full(rows.present.shape, np.nan)
        for s in range(rows.present.shape[1]):
            less = _losses(learner, rows, left.joint[:, s], left.present[:, s])
            increase[:, s] = np.where(left.present[:, s].any(axis=1), less - loss, np.nan)
        found.append(increase)
    return np.concatenate(found)


def _losses(learner: SuperLearner, rows: ScoresOutOfFold, joint: Array, present: Array) -> Array:
    """The log loss of every row."""
    scores, of_joint, counts = map(torch.from_numpy, (rows.scores, joint, present))
    log_p: Array = learner.combine(scores, of_joint, counts).numpy()
    return -log_p[np.arange(len(log_p)), rows.target]


def score_left_out(
    graphs: Sequence[ViewGraph],
    data: Data,
    folds: Sequence[Data],
    pseudo: PseudoLabels | None,
    outputs: NetworkOutputs | None,
    randoms: Sequence[Callable[[str], np.random.Generator]],
) -> list[LeftOut]:
    """Scores of rows whose labels folds leave out, by predictors fitted to the labels of the fold.

    Parameters
    ----------
    graphs, data, folds, pseudo, outputs, randoms
        As of `SemiSupervised.fit`.

    Returns
    -------
    list of LeftOut
        Of folds that leave out a label.
    """
    found = []
    for i, fold in enumerate(folds):
        rows, target = fold.left_out(data)
        if len(rows) == 0:
            continue
        if len(rows) > _MAX_LEFT_OUT:
            chosen = randoms[i]("left-out rows").choice(len(rows), _MAX_LEFT_OUT, replace=False)
            rows, target = rows[np.sort(chosen)], target[np.sort(chosen)]
        member = None if outputs is None else outputs.member(i)
        if pseudo is None:
            nodes: list[NodeLabels] = []
            predictors = Predictors.of_heads(fold)
        else:
            nodes, features = pseudo.nodes[i], [] if member is None else member.features
            predictors = Predictors.fit(graphs, nodes, fold, pseudo.log_prior, features)
        rule, views = FusionRule.of(fold, nodes), list(data.views.values())
        score = partial(_score_rows, rule, predictors, views, graphs, member)
        scores, Xs = score(rows, target)
        kept = draw_subsets(rows >= 0)
        subsets = _keep_views(rule, predictors, Xs, kept, scores)
        without = _leave_out_views(rule, predictors, Xs)
        linked, silent = None, fold.links[fold.silent]
        if len(silent) > 0:
            linked, _ = score(silent, np.full(len(silent), -1))
        found.append(LeftOut(scores, without, subsets, linked))
    return found


@torch.inference_mode()
def _score_rows(
    rule: FusionRule,
    predictors: Predictors,
    views: Sequence[Any],
    graphs: Sequence[ViewGraph],
    outputs: NetworkOutputs | None,
    rows: IntArray,
    target: IntArray,
) -> tuple[ScoresOutOfFold, dict[int, Tensor]]:
    """Scores of individuals by the numbers of their rows in every view; and these rows."""
    Xs = take_rows(views, rows)
    present = rule.find_present(Xs)
    inputs, by_view = {}, []
    for s, X in Xs.items():
        own = None
        if graphs:
            own = torch.from_numpy(graphs[s].node_numbers(rows[:, s])).to(X.device)
        inputs[s] = ViewInputs.of(s, X.nan_to_num(), outputs, own)
        of_view = [one.log_scores(inputs[s]) for one in predictors.views[s].values()]
        by_view.append(torch.stack([x if x.ndim == 2 else x[0] for x in of_view], dim=1))
    joint = torch.zeros_like(by_view[0][:, 0])
    for one in predictors.joint.values():
        joint = one.log_scores(inputs, present, outputs)
        joint = joint if joint.ndim == 2 else joint[0]
    found = (torch.stack(by_view, dim=1), joint, rule.count_views(present))
    of_views, of_joint, counts = (x.cpu().numpy() for x in found)
    return ScoresOutOfFold(of_views, of_joint, counts, target), Xs


def _leave_out_views(
    rule: FusionRule, predictors: Predictors, Xs: Mapping[int, Tensor]
) -> ScoresWithout:
    """What differs in the scores of rows where one of their views is left out."""
    present = rule.find_present(Xs)
    eye = torch.eye(present.shape[1], dtype=torch.bool, device=present.device)
    others = present.unsqueeze(1) & ~eye
    counts = rule.count_views(others.flatten(0, 1)).view_as(others) & present.unsqueeze(2)
    n_classes = len(rule.log_prior)
    joint = torch.zeros((*present.shape, n_classes), dtype=torch.float64, device=present.device)
    for one in predictors.joint.values():
        joint = one.scores_without({s: X.nan_to_num() for s, X in Xs.items()})
    return ScoresWithout(joint.cpu().numpy(), counts.cpu().numpy())


def _keep_views(
    rule: FusionRule,
    predictors: Predictors,
    Xs: Mapping[int, Tensor],
    kept: Array,
    scores: ScoresOutOfFold,
) -> ScoresOutOfFold:
    """The scores of rows of which some views are kept."""
    present = rule.find_present(Xs)
    chosen = present & torch.from_numpy(kept).to(present.device)
    joint = torch.zeros(len(kept), len(rule.log_prior), dtype=torch.float64)
    for one in predictors.joint.values():
        rows = {s: X.nan_to_num() * chosen[:, s : s + 1] for s, X in Xs.items()}
        inputs = {s: ViewInputs.of(s, X, None) for s, X in rows.items()}
        joint = one.log_scores(inputs, chosen, None)
    counts = rule.count_views(chosen).cpu().numpy()
    return replace(scores, joint=joint.cpu().numpy(), present=counts)
