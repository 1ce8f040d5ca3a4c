"""Labels of the rows of every fold: propagated fold by fold, and calibrated across folds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from hotview._types import Array, IntArray
from hotview.semisupervised.graph import ViewGraph
from hotview.semisupervised.pseudo_labels import (
    NodeLabels,
    NodeScores,
    ViewLabels,
    calibrate,
    doubt_priors,
    label_nodes,
    score_nodes,
    shift_priors,
)

__all__ = ["LabelFold", "PseudoLabels", "label_fold", "propagate_labels"]


@dataclass(frozen=True)
class LabelFold:
    """Labels that one ensemble member is trained on.

    Parameters
    ----------
    labels : ViewLabels
        All labels without those that the member leaves out.
    silent : ndarray of int64, default=()
        Linked rows without a label that teach no view, so that views which are taught can be scored
        by them.
    """

    labels: ViewLabels
    silent: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    @classmethod
    def of(cls, labels: ViewLabels, given: ViewLabels, number: int, n_folds: int) -> LabelFold:
        """The fold of a number: where a view has no labels, some linked rows are silent.

        Parameters
        ----------
        labels : ViewLabels
            All labels without those that the member leaves out.
        given : ViewLabels
            All labels.
        number : int
            Number of the fold.
        n_folds : int
            Number of folds; 0 where no label is left out.
        """
        if n_folds == 0 or min(labels.n_classes) > 0:
            return cls(labels)
        return cls(labels, np.flatnonzero(given.target < 0)[number::n_folds])


@dataclass(frozen=True)
class PseudoLabels:
    """Labels of the nodes of every fold, and what folds have in common.

    Parameters
    ----------
    nodes : list of list of NodeLabels
        By fold, labels of the nodes of every view.
    weights : ndarray of shape (n_views, 2)
        Weights of propagation and ridge, from `calibrate`.
    shifted : ndarray of shape (n_views, n_classes)
        Logarithms of the prior probabilities, from `shift_priors`.
    log_prior : ndarray of shape (n_views, n_classes)
        Those that labels are posteriors of, from `doubt_priors`.
    """

    nodes: list[list[NodeLabels]]
    weights: Array
    shifted: Array
    log_prior: Array


def propagate_labels(
    graphs: Sequence[ViewGraph],
    given: ViewLabels,
    folds: Sequence[LabelFold],
    randoms: Sequence[np.random.Generator],
) -> PseudoLabels:
    """Propagate the labels of every fold, after all folds together have told how far to trust.

    Every fold is scored; labels that folds leave out weigh propagation against ridge and shift the
    priors of views without labels; only then are the scores of a fold turned into labels.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    given : ViewLabels
        All labels.
    folds : sequence of LabelFold
        Those that every ensemble member is trained on.
    randoms : sequence of numpy Generator
        For label transfer in every fold.

    Returns
    -------
    PseudoLabels
        Labels of all nodes, by fold.
    """
    scores = [score_nodes(graphs, fold.labels) for fold in folds]
    pairs = [(fold.labels, found) for fold, found in zip(folds, scores, strict=True)]
    weights = calibrate(graphs, pairs, given.codes)
    shifted = shift_priors(graphs, given, scores, weights)
    log_prior = doubt_priors(shifted, given)
    nodes = []
    for fold, found, random in zip(folds, scores, randoms, strict=True):
        labels = replace(fold.labels, log_prior=log_prior)
        nodes.append(
            label_fold(graphs, given, replace(fold, labels=labels), weights, random, found)
        )
    return PseudoLabels(nodes, weights, shifted, log_prior)


def label_fold(
    graphs: Sequence[ViewGraph],
    given: ViewLabels,
    fold: LabelFold,
    weights: Array,
    random: np.random.Generator,
    scores: Sequence[NodeScores | None] | None = None,
) -> list[NodeLabels]:
    """Label the nodes of every view by the labels of a fold; rows that it leaves out teach no view.

    Parameters
    ----------
    graphs : sequence of ViewGraph
        The graph of every view.
    given : ViewLabels
        All labels.
    fold : LabelFold
        The fold.
    weights : ndarray of shape (n_views, 2)
        From `calibrate`.
    random : numpy Generator
        For label transfer.
    scores : sequence of NodeScores or None, default=None
        From `score_nodes`, if they are known already.
    """
    left_out = (given.target >= 0) & (fold.labels.target < 0)
    left_out[fold.silent] = True
    scores = score_nodes(graphs, fold.labels) if scores is None else scores
    return label_nodes(graphs, fold.labels, scores, weights, left_out, random)
