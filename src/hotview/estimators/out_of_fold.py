"""How good a classifier is on rows whose labels it did not see, by view and in all."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax

from hotview._types import Array
from hotview.semisupervised.super_learner import ScoresOutOfFold, SuperLearner

__all__ = ["ALL_VIEWS", "score_out_of_fold", "score_warnings", "shift_warnings"]

ALL_VIEWS = "all views"
_MIN_ROWS = 10  # below, nothing is said
_SHIFT = 0.1  # total variation between class mixes that is told


def score_out_of_fold(
    learner: SuperLearner,
    labeled: ScoresOutOfFold | None,
    linked: ScoresOutOfFold | None,
    names: Sequence[str],
    has_labels: Sequence[bool],
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

    Returns
    -------
    dict of str to dict
        By view, and for ``"all views"``: number of rows ``n``, ``accuracy``, ``log_loss``, that of
        the prior probabilities alone (``prior_log_loss``), the ``standard_error`` of their
        difference, and whether classes are ``expected`` by other views.
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
    return {name: scores for name, scores in found.items() if scores["n"] > 0}


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
    }


def score_warnings(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Warnings about views, or all of them, that predict no better than prior probabilities."""
    for name, x in scores.items():
        gain = x["prior_log_loss"] - x["log_loss"]
        if x["n"] < _MIN_ROWS or x["expected"] or gain > x["standard_error"]:
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
