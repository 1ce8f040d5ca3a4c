"""The semi-supervised learner: predictors of new rows, weighed by labels that were left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.ot._backend import constant
from hotview.semisupervised.calibration import (
    MIN_ROWS,
    ScoresByViews,
    calibrate_super_learner,
    draw_subsets,
    measure_disagreement,
)
from hotview.semisupervised.class_prior import class_priors, replace_prior
from hotview.semisupervised.graph import ViewGraph, refine_graph
from hotview.semisupervised.out_of_fold import (
    fit_other_folds,
    increase_losses,
    score_out_of_fold,
)
from hotview.semisupervised.predictors import (
    LabeledView,
    NetworkOutputs,
    Predictors,
    ViewInputs,
    fit_joint_ridge,
    take_rows,
)
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.soft_labels import NodeLabels, PseudoLabels, label_fold
from hotview.semisupervised.super_learner import (
    PriorWeights,
    ScoresOutOfFold,
    ScoresWithout,
    SuperLearner,
    average_predictors,
    fit_super_learner,
)

__all__ = ["FusionRule", "LeftOut", "SemiSupervised", "fusion_rule"]

_MAX_LEFT_OUT = 1000  # rows that a member predicts to weigh its predictors
_N_COMPARED = 500  # training rows of each kind whose disagreement new rows are compared with

#: generators of a member's stages by name
Random = Callable[[str], np.random.Generator]


@dataclass(frozen=True)
class FusionRule:
    """Which views of a row count, and what is predicted where none does.

    Parameters
    ----------
    n_classes : tuple of int
        Number of classes that the predictors of every view were trained on; 0 if none were. Of the
        views that a row has, those with most classes count.
    log_prior : tuple of float
        Log-probabilities of rows for which no view counts.
    """

    n_classes: tuple[int, ...]
    log_prior: tuple[float, ...]

    def find_present(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Which views every row has, (n_rows, n_views), by standardized rows of some views."""
        absent = {s: X[:, 0].isnan() for s, X in Xs.items()}  # single NaN were validated
        nowhere = torch.ones_like(next(iter(absent.values())))
        return torch.stack([~absent.get(s, nowhere) for s in range(len(self.n_classes))], dim=1)

    def count_views(self, present: Tensor) -> Tensor:
        """Which of a row's views count: those whose labels have most classes."""
        n_classes = present * constant(self.n_classes, present.device, torch.int64)
        return (n_classes == n_classes.amax(1, keepdim=True)) & (n_classes > 0)

    def fill(self, fused: Tensor, counts: Tensor, present: Tensor) -> Tensor:
        """The prior in rows in which no predictor counts, and NaN in rows without any view."""
        prior = constant(self.log_prior, fused.device)
        fused = torch.where(counts.any(1, keepdim=True), fused, prior)
        return fused.masked_fill(~present.any(1, keepdim=True), torch.nan)


def fusion_rule(data: Data, nodes: Sequence[NodeLabels]) -> FusionRule:
    """Which views count, by the labels that their predictors are trained on.

    Parameters
    ----------
    data : Data
        The labels.
    nodes : sequence of NodeLabels
        Labels of the nodes of every view; none without pseudo-labels.
    """
    n_known, target = data.labels_per_view, data.known.of(data.complete)
    if min(n_known) < max(n_known) and (target < 0).any():  # labels are transferred to every view
        n_known = [max(n_known)] * len(n_known)
    for s, of_view in enumerate(nodes):
        n_known[s] = max(n_known) if of_view.taught else n_known[s]
    own = [codes[data.labeled_in(s)] for s, codes in enumerate(data.codes)]
    every = np.concatenate([target[target >= 0], *own])
    counts = np.bincount(every, minlength=len(data.known.classes)) + 1
    return FusionRule(tuple(n_known), tuple(np.log(counts / counts.sum()).tolist()))


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


@dataclass(frozen=True)
class SemiSupervised:
    """Predictors of the classes of new rows, from whichever views these have.

    It needs standardized rows, neighbor graphs and a few labels, and no network; with networks,
    their features help to find neighbors, and their heads are predictors, too.

    Parameters
    ----------
    rule : FusionRule
        Which views of a row count.
    predictors : Predictors
        Those of every view, and a joint one.
    weights : SuperLearner
        Their weights.
    scores : dict of str to dict, default={}
        How good they are on labels that were left out, by view; see `score_out_of_fold`.
    set_scores : ScoresByViews or None, default=None
        Scores of left-out rows, for prediction sets; None where no label was left out.
    disagreement : ScoresByViews or None, default=None
        Disagreement of the members about training rows; None with one member.

    Examples
    --------
    >>> import numpy as np, torch
    >>> from sklearn.decomposition import PCA
    >>> from hotview.data import Data, Targets, make_folds
    >>> from hotview.semisupervised import SemiSupervised
    >>> from hotview.semisupervised.graph import ArrayRows, build_graph
    >>> from hotview.semisupervised.soft_labels import propagate_labels
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 2
    >>> X = rng.standard_normal((60, 4)) + 3 * y[:, None]
    >>> X = (X - X.mean(axis=0)) / X.std(axis=0)
    >>> codes = np.where(np.arange(60) < 12, y, -1)  # 12 of 60 rows have a label
    >>> data = Data({"x": ArrayRows(X)}, np.empty((0, 1), int), Targets(np.array([0, 1]), (codes,)))
    >>> graphs = [build_graph(X, PCA(3).fit(X), 5, rng)]
    >>> folds = make_folds(data, 3, 3, rng)
    >>> pseudo = propagate_labels(graphs, data, folds, [rng] * 3)
    >>> learner = SemiSupervised.fit(graphs, data, folds, pseudo, randoms=[lambda stage: rng] * 3)
    >>> log_p = learner.log_proba({0: torch.tensor(X)})[0]
    >>> bool((log_p.argmax(1).numpy() == y).all())
    True
    """

    rule: FusionRule
    predictors: Predictors
    weights: SuperLearner
    scores: dict[str, dict[str, Any]] = field(default_factory=dict)
    set_scores: ScoresByViews | None = None
    disagreement: ScoresByViews | None = None

    def log_proba(self, Xs: Mapping[int, Tensor], outputs: NetworkOutputs | None = None) -> Tensor:
        """Log-probabilities of the classes by all members, NaN in rows without any view.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Standardized rows of the views that are present, by number; NaN in absent rows.
        outputs : NetworkOutputs or None, default=None
            The networks, if it was fitted with some.

        Returns
        -------
        Tensor of float64, shape (n_members, n_rows, n_classes)
            One member without networks.
        """
        present = self.rule.find_present(Xs)
        counts = self.rule.count_views(present)
        weights, of_joint = self.weights.weigh_views(counts)
        rows = {s: _inputs(s, X.nan_to_num().double(), outputs) for s, X in Xs.items()}
        shared = self.weights.mean_log_prior(counts)
        by_member = shared.new_zeros(1, 1, 1)
        for s, own in rows.items():
            pairs = zip(self.predictors.log_scores(s, own), self.weights.predictors[s], strict=True)
            for score, weight in pairs:
                weighted = score * (weights[:, s : s + 1] * weight)
                if score.ndim == 2:
                    shared = shared + weighted
                else:
                    by_member = by_member + weighted
        for joint in self.predictors.joint.values():
            shared = shared + joint.log_scores(rows, present, outputs) * of_joint
        log_p: Tensor = (by_member + shared).log_softmax(2)
        return self.rule.fill(log_p, counts, present)

    @classmethod
    def fit(
        cls,
        graphs: Sequence[ViewGraph],
        data: Data,
        folds: Sequence[Data],
        pseudo: PseudoLabels | None,
        outputs: NetworkOutputs | None = None,
        *,
        randoms: Sequence[Random],
        fusion: str = "weighted",
        joint_only: bool = False,
        class_prior: Any = None,
        class_weight: Any = None,
    ) -> SemiSupervised:
        """Fit predictors to all labels, and weigh them by labels that folds leave out.

        Parameters
        ----------
        graphs : sequence of ViewGraph
            The graph of every view.
        data : Data
            All labels; its views are sources of standardized rows.
        folds : sequence of Data
            Those without the labels that each member leaves out, from `make_folds`.
        pseudo : PseudoLabels or None
            From `propagate_labels`. With None, the heads of the networks alone predict.
        outputs : NetworkOutputs or None, default=None
            One network per fold; None does without.
        randoms : sequence of callable
            By member, a function from the name of a stage to a numpy Generator.
        fusion : {"weighted", "average"}, default="weighted"
            Whether heads that predict alone are weighed, or averaged.
        joint_only : bool, default=False
            Whether the joint head alone predicts rows that have all views, as in the paper.
        class_prior, class_weight : object, default=None
            As of `MultiViewClassifier`: by which priors rows are predicted.

        Returns
        -------
        SemiSupervised
            The learner.
        """
        left_out = score_left_out(graphs, data, folds, pseudo, outputs, randoms)
        random = randoms[0]
        if pseudo is None:
            nodes: list[NodeLabels] = []
            log_prior = np.log(class_priors(data.codes, len(data.known.classes)))
            predictors = _heads(data, log_prior)
            replaced = log_prior
        else:
            log_prior = pseudo.log_prior
            refined = _refine_graphs(graphs, outputs)
            for_labels = random("refined labels")
            nodes = label_fold(refined, data, data, log_prior, pseudo.weights, for_labels)
            features = [] if outputs is None else outputs.features
            predictors = _fit_predictors(graphs, nodes, data, log_prior, features)
            predictors = predictors.condense(random("condensing"))
            replaced = replace_prior(log_prior, class_prior, class_weight, data.known.classes)
        prior = tuple(map(tuple, replaced.tolist()))  # by which rows are predicted
        known = [n > 0 for n in data.labels_per_view]
        rule = fusion_rule(data, nodes)
        if pseudo is None and (fusion == "average" or joint_only):
            learner = cls.of_heads(data, joint_only=joint_only)
        else:
            names, for_weights = list(predictors.views[0]), random("weights")
            weighed = _weigh(left_out, names, log_prior, known, data.names, prior, for_weights)
            learner = cls(rule, predictors, **weighed)
        if len(folds) == 1 or outputs is None:
            return learner
        return replace(learner, disagreement=learner._measure_disagreement(data, outputs))

    @classmethod
    def of_heads(
        cls, data: Data, nodes: Sequence[NodeLabels] = (), *, joint_only: bool = False
    ) -> SemiSupervised:
        """Heads of networks in training, averaged.

        Parameters
        ----------
        data : Data
            The labels.
        nodes : sequence of NodeLabels, default=()
            Labels of the nodes of every view; with pseudo-labels, joint heads are not trained.
        joint_only : bool, default=False
            Whether the joint head alone predicts rows that have all views.
        """
        log_prior = np.log(class_priors(data.codes, len(data.known.classes)))
        predictors = _heads(data, log_prior)
        if nodes:
            predictors = replace(predictors, joint={})
        joint = bool(predictors.joint)
        weights = average_predictors(log_prior, joint=joint, joint_only=joint and joint_only)
        return cls(fusion_rule(data, nodes), predictors, weights)

    def _measure_disagreement(self, data: Data, outputs: NetworkOutputs) -> ScoresByViews:
        """Disagreement about training rows, without labels where there are enough of these."""
        views, samples = list(data.views.values()), {}
        for s, (view, codes) in enumerate(zip(views, data.codes, strict=True)):
            free = np.flatnonzero(codes < 0)
            chosen = free if len(free) >= MIN_ROWS else np.arange(len(codes))
            samples[s] = view.take_on_all_ranks(thin_rows(chosen, _N_COMPARED))
        free, linked = np.flatnonzero(data.target < 0), None
        if len(free) >= MIN_ROWS:
            linked = take_rows(views, data.links[thin_rows(free, _N_COMPARED)])

        def predict(Xs: Mapping[int, Tensor]) -> tuple[Tensor, Tensor]:
            counts = self.rule.count_views(self.rule.find_present(Xs))
            return self.log_proba(Xs, outputs), counts

        with torch.inference_mode():
            return measure_disagreement(predict, samples, linked)


def _inputs(
    s: int, X: Tensor, outputs: NetworkOutputs | None, own: Tensor | None = None
) -> ViewInputs:
    """Rows of view s as its predictors take them."""
    if outputs is None:
        return ViewInputs(X, X.new_empty(len(X), 0), X.new_empty(0, len(X), 0), own)
    return ViewInputs(X, *outputs.encode(s, X), own)


def _heads(data: Data, log_prior: Array) -> Predictors:
    """The heads of networks as predictors; joint ones if linked rows have labels of all classes."""
    device = next(iter(data.views.values())).device
    target = data.known.of(data.complete)
    has_all = len(np.unique(target[target >= 0])) == len(data.known.classes)
    return Predictors.of_heads(torch.as_tensor(log_prior, device=device), joint=has_all)


def _fit_predictors(
    graphs: Sequence[ViewGraph],
    nodes: Sequence[NodeLabels],
    data: Data,
    log_prior: Array,
    features: Sequence[Sequence[tuple[Array, float]]],
) -> Predictors:
    """Predictors by the labels of the nodes, and features of these by one member or more."""
    prior = torch.as_tensor(log_prior, device=graphs[0].rows.device)
    views = [
        LabeledView(graph, nodes[s], [of_member[s] for of_member in features], prior[s])
        for s, graph in enumerate(graphs)
    ]
    return Predictors.fit(views, fit_joint_ridge(graphs, data, log_prior))


def _refine_graphs(
    graphs: Sequence[ViewGraph], outputs: NetworkOutputs | None
) -> Sequence[ViewGraph]:
    """The graph of every view on components and the mean features of all members."""
    if outputs is None:
        return graphs
    return [
        refine_graph(graph, np.mean([of_member[s][0] for of_member in outputs.features], axis=0))
        for s, graph in enumerate(graphs)
    ]


def _weigh(
    left_out: Sequence[LeftOut],
    names: Sequence[str],
    log_prior: Array,
    known: Sequence[bool],
    views: Sequence[str],
    prior: tuple[tuple[float, ...], ...],
    random: np.random.Generator,
) -> dict[str, Any]:
    """Weights of predictors, and their scores on left-out labels, by field of the learner."""
    folds = [one.scores for one in left_out]
    fit = partial(
        fit_super_learner, log_prior=log_prior, has_labels=known, prior=PriorWeights.of(names)
    )
    weights = fit(folds, random=random)
    increase = set_scores = None
    if len(folds) > 1:
        others = fit_other_folds(folds, lambda one: fit([one], random=random))
        increase = increase_losses(folds, [one.without for one in left_out], others)
        others = [replace(one, log_prior=prior) for one in others]
        subsets = [one.subsets for one in left_out]
        set_scores = calibrate_super_learner(folds, subsets, others, len(views))
    linked = [one.linked for one in left_out if one.linked is not None]
    scores = score_out_of_fold(
        weights,
        ScoresOutOfFold.concatenate(folds) if folds else None,
        ScoresOutOfFold.concatenate(linked) if linked else None,
        views,
        known,
        increase,
    )
    weights = replace(weights, log_prior=prior)
    return {"weights": weights, "scores": scores, "set_scores": set_scores}


def score_left_out(
    graphs: Sequence[ViewGraph],
    data: Data,
    folds: Sequence[Data],
    pseudo: PseudoLabels | None,
    outputs: NetworkOutputs | None,
    randoms: Sequence[Random],
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
            log_prior = np.log(class_priors(data.codes, len(data.known.classes)))
            predictors = _heads(fold, log_prior)
        else:
            nodes, features = pseudo.nodes[i], [] if member is None else member.features
            predictors = _fit_predictors(graphs, nodes, fold, pseudo.log_prior, features)
        rule, views = fusion_rule(fold, nodes), list(data.views.values())
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
        inputs[s] = _inputs(s, X.nan_to_num(), outputs, own)
        scores = predictors.log_scores(s, inputs[s])
        by_view.append(torch.stack([x if x.ndim == 2 else x[0] for x in scores], dim=1))
    joint = torch.zeros_like(by_view[0][:, 0])
    for one in predictors.joint.values():
        found = one.log_scores(inputs, present, outputs)
        joint = found if found.ndim == 2 else found[0]
    arrays = (torch.stack(by_view, dim=1), joint, rule.count_views(present))
    return ScoresOutOfFold(*(x.cpu().numpy() for x in arrays), target), Xs


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
        inputs = {s: _inputs(s, X, None) for s, X in rows.items()}
        joint = one.log_scores(inputs, chosen, None)
    counts = rule.count_views(chosen).cpu().numpy()
    return replace(scores, joint=joint.cpu().numpy(), present=counts)
