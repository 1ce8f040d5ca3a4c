"""Features and class probabilities of new rows, whichever views they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.nn.mlp import encode_float64
from hotview.nn.multiview import MultiViewNetwork
from hotview.semisupervised.fusion import LogOpinionPool
from hotview.semisupervised.predictors import ViewPredictors
from hotview.training.rows import ViewRows

__all__ = [
    "EnsembleMember",
    "FusionRule",
    "HeadPredictors",
    "encode_rows",
    "predict_ensemble",
    "predict_out_of_fold",
]

_CHUNK = {"cpu": 4096, "cuda": 65536}  # rows at a time: few for caches, many to fill a GPU


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


@dataclass(frozen=True)
class HeadPredictors:
    """The heads of a network, with the interface of `ViewPredictors`.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    joint : bool
        Whether the joint head was trained on all classes.
    """

    network: MultiViewNetwork
    joint: bool
    exact_features: ClassVar[bool] = False

    def predict_log_proba(self, Xs: Mapping[int, Tensor], features: Mapping[int, Tensor]) -> Tensor:
        """As of `ViewPredictors`."""
        heads = self.network.view_heads
        by_view = {s: heads[s](F).double() for s, F in features.items()}
        absent = torch.zeros_like(next(iter(by_view.values())))
        log_probs = [by_view.get(s, absent) for s in range(len(heads))]
        if self.joint and len(features) == len(heads):
            joint = self.network.score([features[s] for s in range(len(heads))])
            log_probs.append(joint.double())
        return torch.stack(log_probs, dim=1)


@dataclass(frozen=True)
class EnsembleMember:
    """One ensemble member: the network, the fusion rule and the predictors.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    rule : FusionRule
        Which predictors count.
    predictors : HeadPredictors or ViewPredictors
        The heads of the network, or non-parametric predictors instead.
    """

    network: MultiViewNetwork
    rule: FusionRule
    predictors: HeadPredictors | ViewPredictors

    @classmethod
    def of_heads(cls, network: MultiViewNetwork, rule: FusionRule) -> EnsembleMember:
        """A member that predicts by the heads of its network."""
        return cls(network, rule, HeadPredictors(network, rule.joint))

    def predict_by_view(self, Xs: Mapping[int, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Predictions by every view of standardized rows of some views, and by all jointly.

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
        encoders, exact = self.network.encoders, self.predictors.exact_features
        absent = {s: find_absent(X) for s, X in Xs.items()}
        Xs = {s: X.nan_to_num() for s, X in Xs.items()}
        features = {
            s: encode_float64(encoders[s], X) if exact else encoders[s](X) for s, X in Xs.items()
        }
        log_probs = self.predictors.predict_log_proba(Xs, features)
        nowhere = torch.ones_like(next(iter(absent.values())))
        n_views = len(encoders)
        present = torch.stack([~absent.get(s, nowhere) for s in range(n_views)], dim=1)
        n_classes = present * torch.tensor(self.rule.n_classes, device=present.device)
        counts = (n_classes == n_classes.amax(1, keepdim=True)) & (n_classes > 0)
        if log_probs.shape[1] > n_views:
            complete = present.all(1, keepdim=True)
            counts = torch.cat([counts & ~(complete & self.rule.joint_only), complete], dim=1)
        return log_probs, counts, present

    def predict_log_proba(self, Xs: Mapping[int, Tensor], pool: LogOpinionPool | None) -> Tensor:
        """Log-probabilities of the classes, (n_rows, n_classes); NaN in rows without any view.

        Without a pool, the probabilities of all predictors that count are averaged geometrically.
        """
        log_probs, counts, present = self.predict_by_view(Xs)
        if pool is None:
            mean = (log_probs * counts.unsqueeze(2)).sum(1) / counts.sum(1, keepdim=True).clamp_min(
                1
            )
            fused = mean.log_softmax(1)
        else:
            fused = pool.combine(log_probs, counts)
        prior = torch.tensor(self.rule.log_prior, dtype=torch.float64, device=fused.device)
        fused = torch.where(counts.any(1, keepdim=True), fused, prior)
        return fused.masked_fill(~present.any(1, keepdim=True), torch.nan)


def encode_rows(networks: Sequence[MultiViewNetwork], s: int, rows: ViewRows, space: str) -> Array:
    """Features, or latents in the common space, of all rows of view s; NaN for absent ones.

    Those of several networks are side by side.
    """
    output = _Output(rows.n_rows)
    with torch.inference_mode():
        for Xs in _chunks({s: rows}):
            parts = []
            for network in networks:
                Z, absent = encode(network, s, Xs[s], space)
                # Absent rows are rare; without any, this pass over the output is saved.
                parts.append(Z.masked_fill(absent.unsqueeze(1), torch.nan) if absent.any() else Z)
            output.append(torch.cat(parts, dim=1).float())
    return output.rows


def encode(network: MultiViewNetwork, s: int, X: Tensor, space: str) -> tuple[Tensor, Tensor]:
    """Features, or latents in the common space, of view s, and which rows are absent."""
    F: Tensor = network.encoders[s](X.nan_to_num())
    out: Tensor = network.maps[s](F) if space == "common" else F
    return out, find_absent(X)


def predict_ensemble(
    members: Sequence[EnsembleMember],
    views: Mapping[int, ViewRows],
    pool: LogOpinionPool | None,
    reduce: Callable[[Tensor], Tensor],
    progress: Callable[[int], object] = lambda n: None,
) -> Array:
    """Reduce the log-probabilities of all members, some rows at a time.

    Parameters
    ----------
    members : sequence of EnsembleMember
        The members.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    pool : LogOpinionPool or None
        Weights of the predictors; None averages them.
    reduce : callable
        Maps log-probabilities (n_members, n_rows, n_classes), which are NaN for rows without any
        view, to (n_rows, ...).
    progress : callable
        Called with the number of rows of every part that is done.

    Returns
    -------
    ndarray
        The reduced predictions of all rows.
    """
    output = _Output(next(iter(views.values())).n_rows)
    with torch.inference_mode():
        for Xs in _chunks(views):
            log_probs = []
            for member in members:
                log_probs.append(member.predict_log_proba(Xs, pool))
            reduced = reduce(torch.stack(log_probs))
            output.append(reduced)
            progress(len(reduced))
    return output.rows


def predict_out_of_fold(
    member: EnsembleMember, views: Mapping[int, ViewRows]
) -> tuple[Array, Array]:
    """Predictions of rows by every view and, last, by all views jointly.

    Returns
    -------
    log_probs : ndarray of float64, shape (n_rows, n_views + 1, n_classes)
        Log-probabilities.
    counts : ndarray of bool, shape (n_rows, n_views + 1)
        Which of them count.
    """
    with torch.inference_mode():
        parts = [member.predict_by_view(Xs) for Xs in _chunks(views)]
    log_probs = torch.cat([part[0].log_softmax(2) for part in parts]).cpu().numpy()
    counts = torch.cat([part[1] for part in parts]).cpu().numpy()
    n_missing = len(member.network.encoders) + 1 - counts.shape[1]  # there may be no joint one
    return (
        np.pad(log_probs, ((0, 0), (0, n_missing), (0, 0))),
        np.pad(counts, ((0, 0), (0, n_missing))),
    )


class _Output:
    """Results of all rows, written where they stay: no row is in memory twice."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows, self.n_done = n_rows, 0
        self.rows: Array = np.empty(0)

    def append(self, part: Tensor) -> None:
        """Add the results of the next rows."""
        if self.n_done == 0:
            self.rows = part.new_empty((self.n_rows, *part.shape[1:]), device="cpu").numpy()
        self.rows[self.n_done : self.n_done + len(part)] = part.cpu().numpy()
        self.n_done += len(part)


def _chunks(views: Mapping[int, ViewRows]) -> Iterator[dict[int, Tensor]]:
    """Some rows of all views at a time, standardized."""
    first = next(iter(views.values()))
    size = _CHUNK.get(first.device.type, _CHUNK["cpu"])

    def read(start: int) -> dict[int, Tensor]:
        return {s: view.part(start, start + size) for s, view in views.items()}

    starts = range(0, first.n_rows, size)
    return map(read, starts) if first.device.type == "cpu" else _prefetch(read, starts)


def _prefetch(
    read: Callable[[int], dict[int, Tensor]], starts: Iterable[int]
) -> Iterator[dict[int, Tensor]]:
    """Read the next part while the device computes on the current one."""
    with ThreadPoolExecutor(1, thread_name_prefix="hotview-read") as thread:
        following: Future[dict[int, Tensor]] | None = None
        for start in starts:
            current, following = following, thread.submit(read, start)
            if current is not None:
                yield current.result()
        if following is not None:
            yield following.result()


def find_absent(X: Tensor) -> Tensor:
    """Which standardized rows are absent: their first column is NaN, others were validated."""
    return torch.isnan(X[:, 0])


def check_some_view(empty: IntArray, names: Sequence[str]) -> None:
    """Raise an error if there are rows that no view has."""
    if len(empty) > 0:
        raise ValueError(
            f"Expected every row to have at least one of the views {list(names)}, but {len(empty)} "
            f"have none, the first being row {empty[0]}. Leave these rows out."
        )
