"""How good a classifier is on rows whose labels it did not see, by view and in all."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from scipy.special import log_softmax, stdtrit

from hotview._types import Array
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.super_learner import ScoresOutOfFold, ScoresWithout, SuperLearner

__all__ = [
    "ALL_VIEWS",
    "describe_contributions",
    "fit_other_folds",
    "increase_losses",
    "score_out_of_fold",
    "score_warnings",
    "shift_warnings",
]

ALL_VIEWS = "all views"
_MIN_ROWS = 10  # below, nothing is said
_MAX_ROWS = 200  # of other folds, to fit weights to
_MARGIN = 0.02  # of what all views tell about the classes: a view that adds less could be left out
_SHIFT = 0.1  # total variation between class mixes that is told


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


def describe_contributions(scores: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Say which views to keep, and which could be left out, by the loss without them.

    Parameters
    ----------
    scores : dict of str to dict
        From `score_out_of_fold`.

    Returns
    -------
    list of str
        Sentences. A view should be kept if the log loss rises without it: the 95 % interval is
        above 0. It could be left out if the interval is below 2 % of what all views tell about the
        classes, the difference between the log losses of the prior and of all views.
    """
    changes = {name: x["loss_without"] for name, x in scores.items() if x.get("loss_without")}
    if len(changes) < 2 or ALL_VIEWS not in scores:
        return []
    known = scores[ALL_VIEWS]["prior_log_loss"] - scores[ALL_VIEWS]["log_loss"]
    if known <= 0:  # a warning says so
        return []
    told = {name: x for name, x in changes.items() if x["n"] >= _MIN_ROWS}
    keep = {name: x for name, x in told.items() if x["low"] > 0}
    spare = {name: x for name, x in told.items() if x["low"] <= 0 and x["high"] < _MARGIN * known}
    noise = {name: x for name, x in spare.items() if _is_no_better(scores[name])}
    spare = {name: x for name, x in spare.items() if name not in noise}
    lines = [*_keep_lines(keep), *_spare_lines(spare, known), *map(_noise_line, noise.items())]
    n = max(x["n"] for x in changes.values())
    return lines or [f"{n} left-out labels are too few to say which views could be left out."]


def _keep_lines(changes: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    if changes:
        which = "it" if len(changes) == 1 else "one of them"
        yield (
            f"Keep {_names(changes, 'and')}: without {which}, the log loss on "
            f"{_n_labels(changes)} left-out labels rises{_changes(changes)}."
        )


def _spare_lines(changes: Mapping[str, Mapping[str, Any]], known: float) -> Iterator[str]:
    if changes:
        several = "" if len(changes) == 1 else ", one of them and not several"
        most = max(0.0, *(x["high"] for x in changes.values()))
        change = f"changes{_changes(changes)}, at most" if len(changes) == 1 else "rises by at most"
        yield (
            f"You could leave out {_names(changes, 'or')}{several}: without it, the log loss on "
            f"{_n_labels(changes)} left-out labels {change} {most:.3f} (upper end of the 95 % "
            f"interval), less than {100 * _MARGIN:.0f} % of what all views tell about the classes "
            f"({_MARGIN * known:.3f})."
        )


def _noise_line(change: tuple[str, Mapping[str, Any]]) -> str:
    name, x = change
    return (
        f"{name!r} looks like noise for these classes: alone it is not measurably better than the "
        f"shares of the classes, and without it the log loss on {x['n']} left-out labels "
        f"changes{_changes({name: x})}."
    )


def _names(changes: Mapping[str, object], word: str) -> str:
    """Names of views, those whose absence costs most first."""
    *most, last = map(repr, _ordered(changes))
    return f"{', '.join(most)} {word} {last}" if most else last


def _ordered(changes: Mapping[str, Any]) -> list[str]:
    return sorted(changes, key=lambda name: -changes[name]["increase"])


def _n_labels(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Numbers of rows that have a view and another."""
    low, *_, high = sorted([x["n"] for x in changes.values()] * 2)
    return f"{high}" if low == high else f"{low} to {high}"


def _changes(changes: Mapping[str, Mapping[str, Any]]) -> str:
    """Changes of the log loss with their intervals, the largest first."""
    texts: list[str] = []
    for name in _ordered(changes):
        x, of = changes[name], f" without {name!r}" if len(changes) > 1 else ""
        mean, low, high = (f"{x[key]:.3f}".replace("-", "−") for key in ("increase", "low", "high"))
        interval = "" if texts else "95 % interval "
        texts.append(f" by {mean}{of} ({interval}{low} to {high})")
    return ",".join(texts)


def score_warnings(scores: Mapping[str, Mapping[str, Any]]) -> Iterator[str]:
    """Warnings about views, or all of them, that predict no better than prior probabilities."""
    for name, x in scores.items():
        if x["n"] < _MIN_ROWS or x["expected"] or not _is_no_better(x):
            continue
        what = "all views together" if name == ALL_VIEWS else f"view {name!r}"
        yield (
            f"Predictions from {what} are not measurably better than the shares of the classes: "
            f"on {x['n']} labels that were left out, the log loss is {x['log_loss']:.3f}, that of "
            f"the shares {x['prior_log_loss']:.3f}. Label more rows, or check whether these "
            "columns can tell the classes."
        )


def _is_no_better(x: Mapping[str, Any]) -> bool:
    """Whether predictions are not better than the prior by more than one standard error."""
    return bool(x["prior_log_loss"] - x["log_loss"] <= x["standard_error"])


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
