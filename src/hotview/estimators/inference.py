"""Features and class probabilities of new rows, whichever views they have."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.nn.batched import MemberEncoders
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot._backend import constant
from hotview.semisupervised.fusion import LogOpinionPool
from hotview.semisupervised.predictors import ViewPredictors
from hotview.semisupervised.super_learner import ScoresWithout, SuperLearner
from hotview.training.row_stream import map_rows
from hotview.training.rows import ViewRows
from hotview.training.threads import existing_threads, threads_for_rows

__all__ = [
    "EnsembleMember",
    "FusionRule",
    "HeadEnsemble",
    "PredictorEnsemble",
    "disagreement",
    "encode_rows",
    "log_mean",
    "no_view_error",
    "predict_ensemble",
    "predict_out_of_fold",
    "prediction_error",
]

Predict = Callable[[Mapping[int, Tensor]], Tensor]


@dataclass(frozen=True)
class FusionRule:
    """Which predictors of a row count.

    Parameters
    ----------
    joint : bool
        Whether there is a joint predictor of all classes, for rows that have all views.
    joint_only : bool
        Whether it alone counts for these rows, as in the paper, or the views' own count as well.
    n_classes : tuple of int
        Number of classes that the predictor of every view was trained on; 0 if it was not trained.
        Of the views that a row has, those with most classes count.
    log_prior : tuple of float
        Log-probabilities of rows for which no predictor counts.
    """

    joint: bool
    joint_only: bool
    n_classes: tuple[int, ...]
    log_prior: tuple[float, ...]

    def find_present(self, Xs: Mapping[int, Tensor]) -> Tensor:
        """Which views every row has, (n_rows, n_views), by standardized rows of some views."""
        absent = {s: find_absent(X) for s, X in Xs.items()}
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


@dataclass(frozen=True)
class EnsembleMember:
    """A network whose heads predict, and which of them count.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    rule : FusionRule
        Which heads count.
    """

    network: MultiViewNetwork
    rule: FusionRule

    def predict_by_view(self, Xs: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions by the heads of every view of rows of some views, and by all jointly.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Rows of the views that are present, by number of the view; NaN in absent rows.

        Returns
        -------
        log_probs : Tensor of float64, shape (n_rows, n_predictors, n_classes)
            Up to a constant of every row and predictor.
        counts : Tensor of bool, shape (n_rows, n_predictors)
            Which predictions count, by the fusion rule.
        present : Tensor of bool, shape (n_rows, n_views)
            Which views every row has.
        """
        network, present = self.network, self.rule.find_present(Xs)
        features = {s: network.encoders[s](X.nan_to_num()) for s, X in Xs.items()}
        by_view = {s: network.view_heads[s](F).double() for s, F in features.items()}
        absent = torch.zeros_like(next(iter(by_view.values())))
        log_probs = [by_view.get(s, absent) for s in range(present.shape[1])]
        counts = self.rule.count_views(present)
        if self.rule.joint and len(features) == present.shape[1]:
            joint = network.score([features[s] for s in range(present.shape[1])])
            log_probs.append(joint.double())
            complete = present.all(1, keepdim=True)
            counts = torch.cat([counts & ~(complete & self.rule.joint_only), complete], dim=1)
        return torch.stack(log_probs, dim=1), counts, present

    def predict_log_proba(self, Xs: Mapping[int, Tensor], pool: LogOpinionPool | None) -> Tensor:
        """Log-probabilities of the classes, (n_rows, n_classes); NaN in rows without any view.

        Without a pool, the probabilities of all heads that count are averaged geometrically.
        """
        log_probs, counts, present = self.predict_by_view(Xs)
        if pool is None:
            number = counts.sum(1, keepdim=True).clamp_min(1)
            fused = ((log_probs * counts.unsqueeze(2)).sum(1) / number).log_softmax(1)
        else:
            fused = pool.combine(log_probs, counts)
        return self.rule.fill(fused, counts, present)


@dataclass(frozen=True)
class HeadEnsemble:
    """Networks whose heads predict.

    Parameters
    ----------
    members : list of EnsembleMember
        The networks.
    pool : LogOpinionPool or None
        Weights of the heads; None averages them.
    """

    members: list[EnsembleMember]
    pool: LogOpinionPool | None

    @property
    def rule(self) -> FusionRule:
        """Which heads count, by the first member."""
        return self.members[0].rule

    @property
    def networks(self) -> list[MultiViewNetwork]:
        """The networks of all members."""
        return [member.network for member in self.members]

    def prepare(self) -> Predict:
        """The function that predicts rows; see `PredictorEnsemble.prepare`."""
        return lambda Xs: torch.stack([m.predict_log_proba(Xs, self.pool) for m in self.members])


@dataclass(frozen=True)
class PredictorEnsemble:
    """Networks, and predictors of every view that they share.

    Parameters
    ----------
    networks : list of MultiViewNetwork
        The trained networks: their features say which rows are neighbors, and their heads predict.
    rule : FusionRule
        Which views of a row count.
    predictors : ViewPredictors
        Neighbors and ridge regressions.
    super_learner : SuperLearner or None, default=None
        Weights of all predictors; None while they are not known yet.
    """

    networks: list[MultiViewNetwork]
    rule: FusionRule
    predictors: ViewPredictors
    super_learner: SuperLearner | None = None

    def encoders(self, s: int) -> MemberEncoders:
        """Encoders and heads of a view, of all networks."""
        of_networks = [(network.encoders[s], network.view_heads[s]) for network in self.networks]
        encoders, heads = zip(*of_networks, strict=True)
        return MemberEncoders(encoders, heads)

    def prepare(self) -> Predict:
        """The function that predicts rows, for many calls in a row.

        Returns
        -------
        callable
            Maps standardized rows of the views that are present, by number of the view and NaN in
            absent rows, to log-probabilities (n_members, n_rows, n_classes) by all members, which
            are NaN in rows without any view.
        """
        encoders = [self.encoders(s) for s in range(len(self.predictors.knn))]
        return lambda Xs: self._predict(Xs, encoders)

    def _predict(self, Xs: Mapping[int, Tensor], encoders: Sequence[MemberEncoders]) -> Tensor:
        assert self.super_learner is not None
        present = self.rule.find_present(Xs)
        counts = self.rule.count_views(present)
        weights, of_joint = self.super_learner.weigh_views(counts)
        Xs = {s: X.nan_to_num().double() for s, X in Xs.items()}  # once for all predictors
        shared, by_member = self.super_learner.mean_log_prior(counts), torch.zeros(())
        for s, X in Xs.items():
            scores = self.predictors.score_view(s, X, *encoders[s](X))
            w = self.super_learner.predictors[s]
            neighbors, ridge, heads = (
                score * (weights[:, s : s + 1] * w_m) for score, w_m in zip(scores, w, strict=True)
            )
            shared, by_member = shared + neighbors + ridge, by_member + heads
        if self.predictors.joint is not None:
            shared = shared + self.predictors.joint.predict(Xs) * of_joint
        log_p: Tensor = (by_member + shared).log_softmax(2)
        return self.rule.fill(log_p, counts, present)

    def score(
        self, Xs: Mapping[int, Tensor], own: Mapping[int, Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-likelihoods of the classes by all predictors of one member, to weigh them.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Rows of all views, by number of the view; NaN in absent rows.
        own : dict of int to Tensor of int64
            Points of the predictors that are the rows themselves, −1 for others.

        Returns
        -------
        scores : Tensor of float64, shape (n_rows, n_views, 3, n_classes)
            By neighbors, ridge regression and head of every view.
        joint : Tensor of float64, shape (n_rows, n_classes)
            By the joint ridge regression; 0 without one.
        counts : Tensor of bool, shape (n_rows, n_views)
            Which views count, by the fusion rule.
        """
        counts = self.rule.count_views(self.rule.find_present(Xs))
        Xs = {s: X.nan_to_num() for s, X in Xs.items()}
        by_view = []
        for s, X in Xs.items():
            neighbors, ridge, heads = self.predictors.score_view(s, X, *self.encoders(s)(X), own[s])
            by_view.append(torch.stack([neighbors, ridge, heads[0]], dim=1))
        joint = torch.zeros_like(by_view[0][:, 0])
        if self.predictors.joint is not None:
            joint = self.predictors.joint.predict(Xs)
        return torch.stack(by_view, dim=1), joint, counts

    def score_without(self, Xs: Mapping[int, Tensor]) -> ScoresWithout:
        """What differs in the scores of rows where one of their views is left out.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Rows of all views, as for `score`.
        """
        present, joint = self.rule.find_present(Xs), self.predictors.joint
        n_views = present.shape[1]
        others = present.unsqueeze(1) & ~torch.eye(n_views, dtype=torch.bool, device=present.device)
        counts = self.rule.count_views(others.flatten(0, 1)).view_as(others) & present.unsqueeze(2)
        if joint is None:
            by_joint = self.predictors.log_prior.new_zeros(
                (*present.shape, len(self.rule.log_prior))
            )
        else:
            by_joint = joint.predict_without({s: X.nan_to_num() for s, X in Xs.items()})
        return ScoresWithout(by_joint.cpu().numpy(), counts.cpu().numpy())

    def score_subsets(self, Xs: Mapping[int, Tensor], kept: Tensor) -> tuple[Array, Array]:
        """What differs in the scores of rows of which some views are kept.

        Parameters
        ----------
        Xs : dict of int to Tensor of shape (n_rows, n_columns)
            Rows of all views, as for `score`.
        kept : Tensor of bool, shape (n_rows, n_views)
            Which views are kept.

        Returns
        -------
        joint : ndarray of float64, shape (n_rows, n_classes)
            Log-likelihoods by the joint predictor; 0 without one.
        counts : ndarray of bool, shape (n_rows, n_views)
            Which views count.
        """
        counts = self.rule.count_views(self.rule.find_present(Xs) & kept)
        Xs = {s: X.nan_to_num() * kept[:, s : s + 1] for s, X in Xs.items()}
        if self.predictors.joint is None:
            joint = self.predictors.log_prior.new_zeros((len(kept), len(self.rule.log_prior)))
        else:
            joint = self.predictors.joint.predict(Xs)
        return joint.cpu().numpy(), counts.cpu().numpy()


@existing_threads()
def encode_rows(networks: Sequence[MultiViewNetwork], s: int, rows: ViewRows, space: str) -> Array:
    """Features, or latents in the common space, of all rows of view s; NaN for absent ones.

    Those of several networks are side by side.
    """
    is_finite = []  # looked at in the end: until then, a GPU is not waited for

    def encode_chunk(Xs: Mapping[int, Tensor]) -> Tensor:
        parts = []
        for network in networks:
            Z, absent = encode(network, s, Xs[s], space)
            is_finite.append(Z.isfinite().all())
            # Absent rows are rare; without any, the CPU saves this pass over the output.
            if Z.is_cuda or absent.any():
                Z = Z.masked_fill(absent.unsqueeze(1), torch.nan)
            parts.append(Z)
        return torch.cat(parts, dim=1).float()

    output = map_rows(encode_chunk, {s: rows})
    if is_finite and not bool(torch.stack(is_finite).all()):
        raise overflow_error()
    return output


def encode(network: MultiViewNetwork, s: int, X: Tensor, space: str) -> tuple[Tensor, Tensor]:
    """Features, or latents in the common space, of view s, and which rows are absent."""
    F: Tensor = network.encoders[s](X.nan_to_num())
    out: Tensor = network.maps[s](F) if space == "common" else F
    return out, find_absent(X)


@existing_threads()
def predict_ensemble(
    ensemble: HeadEnsemble | PredictorEnsemble,
    views: Mapping[int, ViewRows],
    reduce: Callable[[Tensor], Tensor],
    progress: Callable[[int], object] | None = None,
) -> Array:
    """Reduce the log-probabilities of all members, some rows at a time.

    Parameters
    ----------
    ensemble : HeadEnsemble or PredictorEnsemble
        The members.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    reduce : callable
        Maps log-probabilities (n_members, n_rows, n_classes), which are NaN for rows without any
        view, to (n_rows, ...).
    progress : callable or None, default=None
        Called with the number of rows of every part that is done.

    Returns
    -------
    ndarray
        The reduced predictions of all rows.
    """
    first = next(iter(views.values()))
    with threads_for_rows(first.n_rows, first.device), torch.inference_mode():
        predict = ensemble.prepare()
        return map_rows(lambda Xs: reduce(predict(Xs)), views, progress)


def predict_out_of_fold(member: EnsembleMember, Xs: Mapping[int, Tensor]) -> tuple[Array, Array]:
    """Predictions of rows by the heads of every view and, last, by the joint head.

    Returns
    -------
    log_probs : ndarray of float64, shape (n_rows, n_views + 1, n_classes)
        Log-probabilities.
    counts : ndarray of bool, shape (n_rows, n_views + 1)
        Which of them count.
    """
    with torch.inference_mode():
        found, present, _ = member.predict_by_view(Xs)
    log_probs, counts = found.log_softmax(2).cpu().numpy(), present.cpu().numpy()
    n_missing = len(member.network.encoders) + 1 - counts.shape[1]  # there may be no joint one
    return (
        np.pad(log_probs, ((0, 0), (0, n_missing), (0, 0))),
        np.pad(counts, ((0, 0), (0, n_missing))),
    )


def find_absent(X: Tensor) -> Tensor:
    """Which standardized rows are absent: their first column is NaN, others were validated."""
    return torch.isnan(X[:, 0])


def prediction_error(
    rows: IntArray, views: Mapping[int, ViewRows], names: Sequence[str]
) -> ValueError:
    """The error about rows whose predictions are NaN: no view has them, or numbers overflow."""
    absent = [find_absent(view.take(rows)).cpu().numpy() for view in views.values()]
    rows = rows[np.logical_and.reduce(absent)]
    return no_view_error(rows, names) if len(rows) > 0 else overflow_error()


def no_view_error(rows: IntArray, names: Sequence[str]) -> ValueError:
    """The error about rows that no view has."""
    return ValueError(
        f"Expected every row to have at least one of the views {list(names)}, but {len(rows)} "
        f"have none, the first being row {rows[0]}. Leave these rows out."
    )


def overflow_error() -> ValueError:
    """The error about outputs that are not finite."""
    return ValueError(
        "Expected finite outputs, but the weights of the model are so large, or not finite, that "
        "they overflow. Check rows for extreme values; else load another model, or fit again."
    )


def log_mean(log_p: Tensor) -> Tensor:
    """Logarithm of the mean probabilities of all members."""
    return log_p.logsumexp(0) - math.log(len(log_p))


def disagreement(log_p: Tensor) -> Tensor:
    """Entropy of the mean probabilities less the mean entropy of the members."""
    p = log_p.exp()
    within = torch.special.entr(p).sum(2).mean(0)
    between: Tensor = torch.special.entr(p.mean(0)).sum(1) - within
    return between.clamp_min(0.0)
