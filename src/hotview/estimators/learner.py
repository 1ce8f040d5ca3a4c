"""The stage of a fit after the networks: predictors of new rows, weighed by left-out labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.estimators.calibration import (
    MIN_ROWS,
    ScoresByViews,
    calibrate_pool,
    calibrate_super_learner,
    draw_subsets,
    measure_disagreement,
)
from hotview.estimators.inference import (
    EnsembleMember,
    HeadEnsemble,
    PredictorEnsemble,
    predict_out_of_fold,
)
from hotview.estimators.networks import Member, Trained, fusion_rule
from hotview.estimators.out_of_fold import (
    fit_other_folds,
    increase_losses,
    score_out_of_fold,
)
from hotview.estimators.rows import Graphs, Rows, take_rows
from hotview.semisupervised.class_prior import replace_prior
from hotview.semisupervised.fusion import OutOfFold, fit_pool
from hotview.semisupervised.graph import ViewGraph, refine_graph
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.soft_labels import PseudoLabels, label_fold
from hotview.semisupervised.super_learner import (
    ScoresOutOfFold,
    ScoresWithout,
    fit_super_learner,
)

__all__ = ["Learner", "fit_learner"]

_MAX_LEFT_OUT = 1000  # rows that a member predicts to weigh its predictors
_N_COMPARED = 500  # training rows of each kind whose disagreement new rows are compared with


@dataclass(frozen=True)
class LeftOut:
    """Predictions of rows whose labels a member was not trained on.

    Parameters
    ----------
    scores : ScoresOutOfFold or OutOfFold
        Scores of these rows; with pseudo-labels, those of all predictors.
    without : ScoresWithout or None
        What differs in these where one view is left out; None without pseudo-labels.
    subsets : ScoresOutOfFold or None
        These with several but not all views of every row; None without pseudo-labels.
    linked : ScoresOutOfFold or None
        Scores of linked rows without a label which did not teach views without labels.
    """

    scores: ScoresOutOfFold | OutOfFold
    without: ScoresWithout | None = None
    subsets: ScoresOutOfFold | None = None
    linked: ScoresOutOfFold | None = None


@dataclass(frozen=True)
class Learner:
    """What predicts new rows, and how good it is on rows whose labels were left out.

    Parameters
    ----------
    ensemble : HeadEnsemble or PredictorEnsemble
        What predicts new rows.
    left_out : list of LeftOut
        Predictions of rows whose labels members left out.
    scores : dict of str to dict
        From `score_out_of_fold`; empty where no label is left out.
    set_scores : ScoresByViews or None
        Scores of left-out rows for prediction sets; None where no label is left out.
    disagreement : ScoresByViews or None
        Disagreement of the members about training rows; None with one member.
    """

    ensemble: HeadEnsemble | PredictorEnsemble
    left_out: list[LeftOut]
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    set_scores: ScoresByViews | None = None
    disagreement: ScoresByViews | None = None


def fit_learner(
    rows: Rows,
    graphs: Graphs,
    members: Sequence[Member],
    trained: Sequence[Trained],
    pseudo: PseudoLabels | None,
    p: Mapping[str, Any],
) -> Learner:
    """Fit predictors of new rows to all labels, weighed by labels that members left out.

    Parameters
    ----------
    rows : Rows
        The rows.
    graphs : Graphs
        What was computed from them.
    members : sequence of Member
        The members, trained.
    trained : sequence of Trained
        What was computed with their networks.
    pseudo : PseudoLabels or None
        From `propagate_labels`; None where heads predict.
    p : dict of str to object
        The parameters of the estimator.
    """
    found = [
        _score_left_out(rows, graphs, member, of_member.features, p, pseudo)
        for member, of_member in zip(members, trained, strict=True)
    ]
    left_out = [scores for scores in found if scores is not None]
    if pseudo is None:
        learner = _fit_heads(rows, members, left_out, p)
    else:
        learner = _fit_predictors(rows, graphs, members, trained, pseudo, left_out, p)
    if len(members) == 1:
        return learner
    return replace(learner, disagreement=_measure_disagreement(rows, learner.ensemble))


def _fit_heads(
    rows: Rows, members: Sequence[Member], left_out: list[LeftOut], p: Mapping[str, Any]
) -> Learner:
    """Networks whose heads predict, weighed by labels that members left out."""
    networks, pool, set_scores = [_with_heads(member, p) for member in members], None, None
    if p["fusion"] == "weighted":
        n_views, random = len(rows.views), members[0].random.stage("weights").numpy
        folds = [x.scores for x in left_out if isinstance(x.scores, OutOfFold)]
        pool = fit_pool(folds, n_views, random)
        if len(folds) > 1:
            others = [[x for x in folds if x is not fold] for fold in folds]
            pools = [fit_pool(some, n_views, random) for some in others]
            set_scores = calibrate_pool(folds, pools, n_views)
    return Learner(HeadEnsemble(networks, pool), left_out, set_scores=set_scores)


def _with_heads(member: Member, p: Mapping[str, Any]) -> EnsembleMember:
    """The network of a member, whose heads predict."""
    return EnsembleMember(member.training.network, fusion_rule(member.data, member.nodes, p))


def _fit_predictors(
    rows: Rows,
    graphs: Graphs,
    members: Sequence[Member],
    trained: Sequence[Trained],
    pseudo: PseudoLabels,
    left_out: list[LeftOut],
    p: Mapping[str, Any],
) -> Learner:
    """Predictors of new rows, fitted to all labels, and shared by all networks."""
    data, random, log_prior = rows.data, members[0].random, pseudo.log_prior
    refined = _refine_graphs(graphs.graphs, trained)
    for_labels = random.stage("refined labels").numpy
    nodes = label_fold(refined, data, data, log_prior, pseudo.weights, for_labels)
    folds = [x.scores for x in left_out if isinstance(x.scores, ScoresOutOfFold)]
    known = [n > 0 for n in data.labels_per_view]
    for_weights = random.stage("weights").numpy
    learner = fit_super_learner(folds, log_prior, known, for_weights)
    replaced = replace_prior(log_prior, p["class_prior"], p["class_weight"], data.known.classes)
    prior = tuple(map(tuple, replaced.tolist()))  # by which rows are predicted
    increase = set_scores = None
    if len(folds) > 1:
        fit = partial(fit_super_learner, log_prior=log_prior, has_labels=known)
        learners = fit_other_folds(folds, lambda one: fit([one], random=for_weights))
        without = [x.without for x in left_out if x.without is not None]
        increase = increase_losses(folds, without, learners)
        learners = [replace(one, log_prior=prior) for one in learners]
        subsets = [x.subsets for x in left_out if x.subsets is not None]
        set_scores = calibrate_super_learner(folds, subsets, learners, len(rows.views))
    linked = [x.linked for x in left_out if x.linked is not None]
    scores = score_out_of_fold(
        learner,
        ScoresOutOfFold.concatenate(folds) if folds else None,
        ScoresOutOfFold.concatenate(linked) if linked else None,
        data.names,
        known,
        increase,
    )
    features = [of_member.features for of_member in trained]
    predictors = fit_predictors(graphs.graphs, nodes, data, log_prior, features)
    predictors = predictors.condense(random.stage("condensing").numpy)
    networks = [member.training.network for member in members]
    rule = fusion_rule(data, nodes, p)
    ensemble = PredictorEnsemble(networks, rule, predictors, replace(learner, log_prior=prior))
    return Learner(ensemble, left_out, scores, set_scores)


def _refine_graphs(graphs: Sequence[ViewGraph], trained: Sequence[Trained]) -> list[ViewGraph]:
    """The graph of every view on components and the mean features of all members."""
    return [
        refine_graph(graph, np.mean([one.features[s][0] for one in trained], axis=0))
        for s, graph in enumerate(graphs)
    ]


def _score_left_out(
    rows: Rows,
    graphs: Graphs,
    member: Member,
    features: list[tuple[Array, float]],
    p: Mapping[str, Any],
    pseudo: PseudoLabels | None,
) -> LeftOut | None:
    """Scores of rows whose labels a member left out, and of linked rows that did not teach."""
    fold, network = member.data, member.training.network
    left, target = fold.left_out(rows.data)
    if len(left) == 0:
        return None
    if len(left) > _MAX_LEFT_OUT:
        random = member.random.stage("left-out rows").numpy
        chosen = np.sort(random.choice(len(left), _MAX_LEFT_OUT, replace=False))
        left, target = left[chosen], target[chosen]
    Xs = take_rows(rows.views, left)
    if pseudo is None:
        log_probs, counts = predict_out_of_fold(_with_heads(member, p), Xs)
        return LeftOut(OutOfFold(log_probs, counts, target))
    predictors = fit_predictors(graphs.graphs, member.nodes, fold, pseudo.log_prior, [features])
    rule = fusion_rule(fold, member.nodes, p)
    ensemble = PredictorEnsemble([network], rule, predictors)
    scores = _score_rows(ensemble, graphs, Xs, left, target)
    kept = draw_subsets(left >= 0)
    with torch.inference_mode():
        without = ensemble.score_without(Xs)
        joint, counts = ensemble.score_subsets(Xs, torch.from_numpy(kept).to(Xs[0].device))
    subsets = replace(scores, joint=joint, present=counts)
    linked = fold.links[fold.silent]
    if len(linked) == 0:
        return LeftOut(scores, without, subsets)
    unknown, Xs = np.full(len(linked), -1), take_rows(rows.views, linked)
    return LeftOut(scores, without, subsets, _score_rows(ensemble, graphs, Xs, linked, unknown))


def _score_rows(
    ensemble: PredictorEnsemble,
    graphs: Graphs,
    Xs: Mapping[int, Tensor],
    rows: IntArray,
    target: IntArray,
) -> ScoresOutOfFold:
    """Scores of individuals, by the numbers of their rows in every view."""
    own = {
        s: torch.from_numpy(graph.node_numbers(rows[:, s])).to(Xs[s].device)
        for s, graph in enumerate(graphs.graphs)
    }
    with torch.inference_mode():
        scores, joint, counts = ensemble.score(Xs, own)
    return ScoresOutOfFold(scores.cpu().numpy(), joint.cpu().numpy(), counts.cpu().numpy(), target)


def _measure_disagreement(rows: Rows, ensemble: HeadEnsemble | PredictorEnsemble) -> ScoresByViews:
    """Disagreement about training rows, without labels where there are enough of these."""
    data, samples = rows.data, {}
    for s, (view, codes) in enumerate(zip(rows.views, data.codes, strict=True)):
        free = np.flatnonzero(codes < 0)
        chosen = free if len(free) >= MIN_ROWS else np.arange(len(codes))
        samples[s] = view.take_on_all_ranks(thin_rows(chosen, _N_COMPARED))
    free, linked = np.flatnonzero(data.target < 0), None
    if len(free) >= MIN_ROWS:
        linked = take_rows(rows.views, data.links[thin_rows(free, _N_COMPARED)])
    with torch.inference_mode():
        return measure_disagreement(ensemble, samples, linked)
