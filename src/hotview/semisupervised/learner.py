"""The semi-supervised learner: predictors of new rows, weighed by labels that were left out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require
from hotview._types import Array, IntArray
from hotview.data import Data
from hotview.semisupervised.calibration import (
    MIN_ROWS,
    ScoresByViews,
    calibrate_super_learner,
    disagreement,
    draw_subsets,
    group_rows,
    log_mean,
)
from hotview.semisupervised.class_prior import replace_prior
from hotview.semisupervised.graph import ViewGraph, refine_graph, take_rows
from hotview.semisupervised.out_of_fold import (
    LeftOut,
    fit_other_folds,
    increase_losses,
    score_left_out,
    score_out_of_fold,
)
from hotview.semisupervised.predictors import (
    FusionRule,
    NetworkOutputs,
    Predictors,
    ViewInputs,
)
from hotview.semisupervised.ridge import thin_rows
from hotview.semisupervised.soft_labels import NodeLabels, PseudoLabels, label_fold
from hotview.semisupervised.super_learner import (
    PriorWeights,
    ScoresOutOfFold,
    SuperLearner,
    average_predictors,
    fit_super_learner,
)

__all__ = ["SemiSupervised"]

_N_COMPARED = 500  # training rows of each kind whose disagreement new rows are compared with

#: generators of a member's stages by name
Random = Callable[[str], np.random.Generator]


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
    >>> X = rng.standard_normal((60, 4)) + 4 * y[:, None]
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

    def check(self, n_columns: Sequence[int], n_features: Sequence[int], n_classes: int) -> None:
        """Raise an error unless it takes rows of these sizes, and tells so many classes.

        Parameters
        ----------
        n_columns : sequence of int
            Number of standardized columns of every view.
        n_features : sequence of int
            Number of features of every view by all networks.
        n_classes : int
            Number of classes.
        """
        n_views = len(n_columns)
        self.rule.check(n_views, n_classes)
        self.predictors.check(n_columns, n_features, n_classes)
        self.weights.check(n_views, n_classes, len(self.predictors.views[0]))
        for scores in (self.set_scores, self.disagreement):
            fits = scores is None or len(scores.groups) == n_views + 2
            require(fits, "its scores of training rows are of other views")
        if self.set_scores is not None:
            self.set_scores.check(n_views, 1.0, "set_scores")

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
        weights, of_joint, shared = self.weights.weigh_views(counts)
        rows, by_member = {}, shared.new_zeros(1, 1, 1)
        for s, X in Xs.items():
            own = rows[s] = ViewInputs.of(s, X.nan_to_num().double(), outputs)
            predictors = self.predictors.views[s].values()
            for predictor, weight in zip(predictors, self.weights.predictors[s], strict=True):
                score = predictor.log_scores(own)
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
            predictors = Predictors.of_heads(data)
            replaced = log_prior = _equal_prior(data)
        else:
            log_prior = pseudo.log_prior
            refined = _refine_graphs(graphs, outputs)
            for_labels = random("refined labels")
            nodes = label_fold(refined, data, data, log_prior, pseudo.weights, for_labels)
            features = [] if outputs is None else outputs.features
            predictors = Predictors.fit(graphs, nodes, data, log_prior, features)
            predictors = predictors.condense(random("condensing"))
            replaced = replace_prior(log_prior, class_prior, class_weight, data.known.classes)
        prior = tuple(map(tuple, replaced.tolist()))  # by which rows are predicted
        known = [n > 0 for n in data.labels_per_view]
        rule = FusionRule.of(data, nodes)
        if pseudo is None and (fusion == "average" or joint_only):
            learner = cls.of_heads(data, joint_only=joint_only)
        else:
            names, for_weights = list(predictors.views[0]), random("weights")
            weighed = _weigh(left_out, names, log_prior, known, data.names, prior, for_weights)
            if pseudo is None:
                weighed["scores"] = {}  # of heads alone nothing is reported
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
        predictors = Predictors.of_heads(data, joint=not nodes)
        joint = bool(predictors.joint)
        equal = _equal_prior(data)
        weights = average_predictors(equal, joint=joint, joint_only=joint and joint_only)
        return cls(FusionRule.of(data, nodes), predictors, weights)

    def _measure_disagreement(self, data: Data, outputs: NetworkOutputs) -> ScoresByViews:
        """Disagreement about training rows of one view, of several and of all.

        Rows are without labels where there are enough of these.
        """
        views, samples = list(data.views.values()), {}
        for s, (view, codes) in enumerate(zip(views, data.codes, strict=True)):
            free = np.flatnonzero(codes < 0)
            chosen = free if len(free) >= MIN_ROWS else np.arange(len(codes))
            samples[s] = view.take_on_all_ranks(thin_rows(chosen, _N_COMPARED))
        free, parts = np.flatnonzero(data.target < 0), list[tuple[IntArray, Array]]()

        def add(Xs: Mapping[int, Tensor]) -> Tensor:
            counts = self.rule.count_views(self.rule.find_present(Xs))
            log_p = self.log_proba(Xs, outputs)
            parts.append((group_rows(counts.cpu().numpy()), disagreement(log_p).cpu().numpy()))
            return log_mean(log_p).argmax(1)

        with torch.inference_mode():
            classes = {}
            for s, X in samples.items():
                classes[s] = add({s: X})
            # Members were trained on linked rows with labels, and agree more on them than on new
            # ones: without others, rows that are predicted to be of one class stand for linked.
            if len(free) >= MIN_ROWS:
                linked = take_rows(views, data.links[thin_rows(free, _N_COMPARED)])
            else:
                linked = _join_by_class(samples, classes)
            add(linked)
            kept = torch.from_numpy(draw_subsets(self.rule.find_present(linked).cpu().numpy()))
            if kept.any():
                rows, less = kept.any(1).nonzero().ravel(), {}
                for s, X in linked.items():
                    absent = ~kept[rows, s : s + 1].to(X.device)
                    less[s] = X[rows.to(X.device)].masked_fill(absent, torch.nan)
                add(less)
        return ScoresByViews.collect(parts, len(samples))


def _join_by_class(
    samples: Mapping[int, Tensor], classes: Mapping[int, Tensor]
) -> dict[int, Tensor]:
    """Rows of all views in the order of their predicted classes, else at random."""
    random, n = np.random.default_rng(0), min(map(len, samples.values()))
    joined = {}
    for s, X in samples.items():
        rows = random.permutation(len(X))[:n]
        predicted = classes[s].cpu().numpy()[rows]
        order = rows[np.argsort(predicted, kind="stable")]
        joined[s] = X[torch.from_numpy(order).to(X.device)]
    return joined


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


def _equal_prior(data: Data) -> Array:
    """Equal priors of every view: heads have their own, and are pooled as they are."""
    n_classes = len(data.known.classes)
    return np.full((len(data.names), n_classes), -np.log(n_classes))
