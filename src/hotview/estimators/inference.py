"""What a trained network says about new rows, whichever views they have."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import NamedTuple

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
    "Fusion",
    "class_log_probabilities",
    "encode_rows",
    "member_log_probs",
    "predict_ensemble",
]

_CHUNK = {"cpu": 4096, "cuda": 65536}  # rows at a time: few for caches, many to fill a GPU


@dataclass(frozen=True)
class Fusion:
    """Which heads to listen to.

    Parameters
    ----------
    joint : bool
        Whether the joint head was trained on every class, and judges complete rows.
    alone : bool
        Whether it does so alone, as in the paper, or as one voice among the heads of the views.
    heads : tuple of int
        Of how many classes every view's head has learned; 0 where it has not been trained.
    log_prior : tuple of float
        What is said of rows that no trained head can see.
    """

    joint: bool
    alone: bool
    heads: tuple[int, ...]
    log_prior: tuple[float, ...]


class EnsembleMember(NamedTuple):
    """A trained network, whom to listen to, and who judges instead of its heads, if anybody."""

    network: MultiViewNetwork
    fusion: Fusion
    judge: ViewPredictors | None


def encode_rows(networks: Sequence[MultiViewNetwork], s: int, rows: ViewRows, space: str) -> Array:
    """Features, or latents in the common space, of all rows of view s; NaN for absent ones.

    Those of several networks are side by side.
    """

    def encode_part(X: Tensor) -> Tensor:
        parts = []
        for network in networks:
            F, absent = encode(network, s, X)
            out = network.maps[s](F) if space == "common" else F
            # Hardly ever is any absent, and then this pass is saved.
            parts.append(out.masked_fill(absent.unsqueeze(1), torch.nan) if absent.any() else out)
        return torch.cat(parts, dim=1).float()

    with torch.inference_mode():
        return _gather((encode_part(Xs[s]) for Xs in _parts({s: rows})), len(rows))


def predict_ensemble(
    replicas: Sequence[EnsembleMember],
    views: Mapping[int, ViewRows],
    pool: LogOpinionPool | None,
    conclude: Callable[[Tensor], Tensor],
    tell: Callable[[int], object] = lambda n: None,
) -> Array:
    """What follows from the probabilities of all replicas; nothing else is kept of any row.

    Parameters
    ----------
    replicas : sequence of EnsembleMember
        Whom to ask.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    pool : LogOpinionPool or None
        How much each judgment counts.
    conclude : callable
        Makes (rows, ...) of logarithms of probabilities, (replicas, rows, classes), which are NaN
        for rows without any view.
    tell : callable
        Called with the number of rows of every part that is done.

    Returns
    -------
    ndarray
        The conclusions about all rows.
    """

    def ask(Xs: dict[int, Tensor]) -> Tensor:
        found = []
        for network, fusion, judge in replicas:
            said, speaks, has = log_probs_by_view(network, Xs, fusion, judge)
            found.append(combine(said, speaks, has, fusion, pool))
        return conclude(torch.stack(found))

    with torch.inference_mode():
        return _gather((ask(Xs) for Xs in _parts(views)), _n_rows(views), tell)


def class_log_probabilities(
    network: MultiViewNetwork,
    views: Mapping[int, ViewRows],
    fusion: Fusion,
    judge: ViewPredictors | None = None,
    pool: LogOpinionPool | None = None,
) -> Array:
    """Logarithms of class probabilities of aligned rows, (rows, classes), float64.

    Without a pool, the probabilities of all who can judge a row are averaged geometrically: those
    of the views it has and, if it has all, the joint one; unless that one judges alone. A view that
    has learned of fewer classes than another one is not asked: it would vote against what it never
    saw.

    Parameters
    ----------
    network : MultiViewNetwork
        The trained network.
    views : dict of int to ViewRows
        The views that are present, by number; the same number of rows in each.
    fusion : Fusion
        Whom to listen to.
    judge : ViewPredictors or None, default=None
        Who judges instead of the heads of the network.
    pool : LogOpinionPool or None, default=None
        How much each judgment counts.

    Returns
    -------
    ndarray of float64
        Rows without any view are NaN.
    """
    return predict_ensemble(
        [EnsembleMember(network, fusion, judge)], views, pool, lambda found: found[0]
    )


def combine(
    said: Tensor, speaks: Tensor, has: Tensor, fusion: Fusion, pool: LogOpinionPool | None
) -> Tensor:
    """Logarithms of probabilities from what `log_probs_by_view` returns; NaN without any view."""
    if pool is None:
        scores = _average(said, speaks, fusion)
    else:
        scores = torch.where(
            speaks.any(1, keepdim=True), pool.scores(said, speaks), _prior(fusion, said)
        )
    return scores.masked_fill(~has.any(1, keepdim=True), torch.nan)


def member_log_probs(
    network: MultiViewNetwork,
    views: Mapping[int, ViewRows],
    fusion: Fusion,
    judge: ViewPredictors | None,
) -> tuple[Array, Array]:
    """What every view, and last all jointly, say about rows of all views, and whether they do.

    Returns
    -------
    said : ndarray of float64, shape (n_rows, n_views + 1, n_classes)
        Logarithms of probabilities.
    speaks : ndarray of bool, shape (n_rows, n_views + 1)
        Which of them count.
    """
    with torch.inference_mode():
        found = [log_probs_by_view(network, Xs, fusion, judge) for Xs in _parts(views)]
    said = torch.cat([said.log_softmax(2) for said, _, _ in found]).cpu().numpy()
    speaks = torch.cat([speaks for _, speaks, _ in found]).cpu().numpy()
    missing = len(network.encoders) + 1 - said.shape[1]  # of the joint judgment, there may be none
    return (
        np.pad(said, ((0, 0), (0, missing), (0, 0))),
        np.pad(speaks, ((0, 0), (0, missing))),
    )


def _parts(views: Mapping[int, ViewRows]) -> Iterator[dict[int, Tensor]]:
    """Some rows of all views at a time, standardized once for all who look at them."""
    device = next(iter(views.values())).device
    size = _CHUNK.get(device.type, _CHUNK["cpu"])

    def read(start: int) -> dict[int, Tensor]:
        return {s: view.part(start, start + size) for s, view in views.items()}

    starts = range(0, _n_rows(views), size)
    return map(read, starts) if device.type == "cpu" else _read_ahead(read, starts)


def _read_ahead(
    read: Callable[[int], dict[int, Tensor]], starts: Iterable[int]
) -> Iterator[dict[int, Tensor]]:
    """Read the next part while a device is busy with the present one."""
    with ThreadPoolExecutor(1, thread_name_prefix="hotview-read") as thread:
        coming: Future[dict[int, Tensor]] | None = None
        for start in starts:
            present, coming = coming, thread.submit(read, start)
            if present is not None:
                yield present.result()
        if coming is not None:
            yield coming.result()


def _n_rows(views: Mapping[int, ViewRows]) -> int:
    return len(next(iter(views.values())))


def _gather(
    parts: Iterable[Tensor], n_rows: int, tell: Callable[[int], object] = lambda n: None
) -> Array:
    """Put parts one after the other, into one room from the start: no row is held twice."""
    room, start = np.empty(0), 0
    for part in parts:
        if start == 0:
            room = part.new_empty((n_rows, *part.shape[1:]), device="cpu").numpy()
        room[start : start + len(part)] = part.cpu().numpy()
        start += len(part)
        tell(len(part))
    return room


def log_probs_by_view(
    network: MultiViewNetwork, Xs: dict[int, Tensor], fusion: Fusion, judge: ViewPredictors | None
) -> tuple[Tensor, Tensor, Tensor]:
    """What is said about standardized rows of some views, who speaks, and which views they have.

    What is said are logarithms of probabilities but for a constant of every row and judge, which
    makes no difference to `combine`.
    """
    every = range(len(network.encoders))
    exactly = judge is not None  # where neighbors are chosen, which rounding would do otherwise
    absent = {s: find_absent(X) for s, X in Xs.items()}
    there = {s: X.nan_to_num() for s, X in Xs.items()}
    Fs = {s: _encode(network, s, X, exactly=exactly) for s, X in there.items()}
    nobody = torch.zeros_like(next(iter(absent.values())))
    has = torch.stack([~absent[s] if s in Xs else nobody for s in every], dim=1)
    said = {s: _judge_view(network, s, X, Fs[s], judge) for s, X in there.items()}
    nothing = torch.zeros_like(next(iter(said.values())))
    voices = [said.get(s, nothing) for s in every]
    known = has * torch.tensor(fusion.heads, device=has.device)
    speaks = (known == known.amax(1, keepdim=True)) & (known > 0)
    complete = has.all(1, keepdim=True)
    if fusion.joint and len(Xs) == len(every):
        voices.append(_judge_jointly(network, there, Fs, judge))
        speaks = torch.cat([speaks & ~(complete & fusion.alone), complete], dim=1)
    return torch.stack(voices, dim=1), speaks, has


def _judge_view(
    network: MultiViewNetwork, s: int, X: Tensor, F: Tensor, judge: ViewPredictors | None
) -> Tensor:
    if judge is None:
        head: Tensor = network.view_heads[s](F)
        return head.double()
    return judge.voters[s].log_shares(X, F)


def _judge_jointly(
    network: MultiViewNetwork,
    Xs: dict[int, Tensor],
    Fs: dict[int, Tensor],
    judge: ViewPredictors | None,
) -> Tensor:
    every = range(len(Fs))
    if judge is None:
        return network.score([Fs[s] for s in every]).double()
    assert judge.ridge is not None  # wherever all classes are known jointly
    return judge.ridge([Xs[s] for s in every])


def _average(said: Tensor, speaks: Tensor, fusion: Fusion) -> Tensor:
    """Geometric mean of what is said of every row by those who speak of it, else the prior."""
    n = speaks.sum(1, keepdim=True)
    mean = (said * speaks.unsqueeze(2)).sum(1) / n.clamp_min(1)
    return torch.where(n > 0, mean.log_softmax(1), _prior(fusion, said))


def _prior(fusion: Fusion, said: Tensor) -> Tensor:
    return torch.tensor(fusion.log_prior, dtype=torch.float64, device=said.device)


def encode(network: MultiViewNetwork, s: int, X: Tensor) -> tuple[Tensor, Tensor]:
    """Features of view s, and which rows are absent."""
    return _encode(network, s, X.nan_to_num()), find_absent(X)


def _encode(network: MultiViewNetwork, s: int, X: Tensor, *, exactly: bool = False) -> Tensor:
    """Features of view s, if need be in float64."""
    encoder = network.encoders[s]
    F: Tensor = encode_float64(encoder, X) if exactly else encoder(X)
    return F


def find_absent(X: Tensor) -> Tensor:
    """Which standardized rows are NaN; all others were refused or filled, so one column tells."""
    return torch.isnan(X[:, 0])


def check_some_view(empty: IntArray, names: Sequence[str]) -> None:
    """Refuse rows that no view has."""
    if len(empty) > 0:
        raise ValueError(
            f"Expected every row to have at least one of the views {list(names)}, but {len(empty)} "
            f"have none, the first being row {empty[0]}. Leave these rows out."
        )
