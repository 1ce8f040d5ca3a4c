"""Which rows each step sees."""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hotview._types import IntArray
from hotview.losses.objective import Batch
from hotview.training.prefetch import Ahead
from hotview.training.row_sharding import RowShard
from hotview.training.row_streams import Stream, window_for
from hotview.training.rows import ViewRows

__all__ = ["Picks", "Sampler", "Stream", "TrainingRows"]

READS_AHEAD = 8  # batches, at most
_AHEAD = 2**26  # bytes of them, unless one is more


@dataclass(frozen=True)
class TrainingRows:
    """All rows to learn from, and what is known about them.

    Parameters
    ----------
    views : list of ViewRows
        The rows of every view, linked ones first.
    aligned : ndarray of int64, shape (n_aligned, n_views)
        The row in every view of each individual who is in all of them.
    target : ndarray of int64
        Class of every aligned individual, −1 where unknown.
    own : list of ndarray of int64
        Rows of every view whose class is known to this view alone.
    own_target : list of ndarray of int64
        Their classes.
    neighbors : list of ndarray of int64
        Neighbors of every row of every view, empty where they are not needed.
    soft_labels : list of Tensor of shape (n_rows, n_classes)
        Shares of the classes in every row of every view, from which its head learns; with them
        rows with a label are not taught apart. Empty where labels alone teach.
    coordinates : list of Tensor of shape (n_rows, encoder_dim)
        What the features of every row of every view are to be; empty where they are free.
    """

    views: list[ViewRows]
    aligned: IntArray
    target: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own: list[IntArray] = field(default_factory=list)
    own_target: list[IntArray] = field(default_factory=list)
    neighbors: list[IntArray] = field(default_factory=list)
    soft_labels: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)

    @property
    def labeled(self) -> IntArray:
        """Aligned individuals whose class is known."""
        return np.flatnonzero(self.target >= 0)

    @property
    def classes_known(self) -> list[set[int]]:
        """Classes of which every view's head has labels."""
        linked = _classes_in(self.target[self.target >= 0])
        own = self.own_target or [np.empty(0, dtype=np.int64)] * len(self.views)
        return [linked | _classes_in(target) for target in own]

    @property
    def teachers(self) -> list[int]:
        """Views with labels of most classes, where others have fewer; else none."""
        known = self.classes_known
        most = max(len(classes) for classes in known)
        having = [s for s, classes in enumerate(known) if len(classes) == most > 0]
        return having if len(having) < len(self.views) else []

    @property
    def taught(self) -> IntArray:
        """Aligned individuals without a label, of whom teachers teach the other views."""
        return np.flatnonzero(self.target < 0 if self.teachers else [])


@dataclass(frozen=True)
class Picks:
    """Which rows make a batch: as of `Batch`, but numbers of rows instead of rows."""

    rows: list[IntArray]
    sizes: dict[str, list[int]]
    target: IntArray
    own_targets: list[IntArray]

    def are(self, others: Picks) -> bool:
        """Whether others are the same."""
        return all(map(np.array_equal, self.rows, others.rows)) and self.sizes == others.sizes

    def part(self, name: str, s: int) -> IntArray:
        """The rows of one view that are there for one purpose."""
        start, end = span(self.sizes, name, s)
        return self.rows[s][start:end]


@dataclass(frozen=True)
class _Plan:
    """A batch that will be wanted, and stretches of rows of views that will be later."""

    picks: Picks
    soon: list[tuple[int, int, int]]


def span(sizes: dict[str, list[int]], name: str, s: int) -> tuple[int, int]:
    """Where a part of the rows of view s begins and ends."""
    before = list(sizes)[: list(sizes).index(name)]
    start = sum(sizes[part][s] for part in before)
    return start, start + sizes[name][s]


class Sampler:
    """Draws the batches of an epoch, which is one pass over the largest view.

    Parameters
    ----------
    data : TrainingRows
        What to draw from.
    batch_size : int
        Most rows of a view in a batch. An epoch is cut evenly, and smaller views are repeated.
    random : numpy Generator
        Source of the order.
    couples : bool
        Whether the objective couples or regularizes rows, with or without labels.
    aligned : bool
        Whether coupled rows must be of the same individuals in all views.
    """

    def __init__(
        self,
        data: TrainingRows,
        batch_size: int,
        random: np.random.Generator,
        *,
        couples: bool,
        aligned: bool,
    ) -> None:
        self.data, self.random, self.aligned = data, random, aligned
        few = np.empty(0, dtype=np.int64)
        taught, self.labeled = (few, few) if data.soft_labels else (data.taught, data.labeled)
        own = [few] * len(data.own) if data.soft_labels else data.own
        n_coupled = [len(data.aligned)] if aligned else [len(view) for view in data.views]
        # Whatever is coupled or not, an epoch is as long: a control must be trained as much.
        longest = max(len(self.labeled), *map(len, own), len(taught), *n_coupled)
        self.n_steps = max(1, math.ceil(longest / batch_size))
        self.batch_size = math.ceil(longest / self.n_steps)
        self.taught = taught
        widths = [view.n_columns for view in data.views]
        widest = max(widths)
        self.labeled_stream = self._stream(len(self.labeled), widest)
        self.taught_stream = self._stream(len(taught), widest)
        self.own_streams = list(map(self._stream, map(len, own), widths))
        couples = couples or bool(data.soft_labels)
        each = map(self._stream, n_coupled, [widest] if aligned else widths)
        self.row_streams = list(each) if couples else []
        self._ahead: Ahead[_Plan, list[Tensor]] | None = None
        #: the rows that this process reads, where there are several; None reads all
        self.share: RowShard | None = None

    def _stream(self, n: int, width: int) -> Stream | None:
        if n == 0:
            return None
        window = window_for(n, width, self.batch_size)
        return Stream(n, self.batch_size, self.random, window)

    @property
    def streams(self) -> list[Stream | None]:
        """All orders of rows, in one order of their own."""
        return [self.labeled_stream, self.taught_stream, *self.own_streams, *self.row_streams]

    def draw(self) -> Batch:
        """Draw one batch, and take its rows."""
        return self.fetch(self.pick())

    def fetch(self, picks: Picks) -> Batch:
        """Take the rows of a batch; of several processes, each takes its own."""
        device = self.data.views[0].device
        names = range(len(self.data.views) if "rows" in picks.sizes else 0)
        rows = [torch.from_numpy(picks.part("rows", s)).to(device) for s in names]
        return Batch(
            self._take(picks),
            picks.sizes,
            torch.from_numpy(picks.target).to(device),
            [torch.from_numpy(y).to(device) for y in picks.own_targets],
            _take_all(self.data.soft_labels, rows),
            _take_all(self.data.coordinates, rows),
        )

    def _take(self, picks: Picks) -> list[Tensor]:
        """The rows of a batch, read ahead where they are far away."""
        if READS_AHEAD == 0 or not any(view.is_far for view in self.data.views):
            return self._read(picks)
        if self._ahead is not None:
            if self._ahead.expected.picks.are(picks):
                return self._ahead.next()
            self._ahead.drop()  # somebody has put the streams elsewhere
        n_bytes = 4 * sum(len(r) * view.n_columns for r, view in self._each(picks))
        n_bytes //= 1 if self.share is None else self.share.size
        depth = min(READS_AHEAD, 1 + _AHEAD // max(1, n_bytes))
        twin = self._twin()
        self._ahead = Ahead(twin._plan, twin._carry_out, depth)
        return self._read(picks)

    def close(self) -> None:
        """Read no more ahead."""
        if self._ahead is not None:
            self._ahead.drop()
            self._ahead = None

    def _plan(self) -> _Plan:
        return _Plan(self.pick(), list(self._soon()))

    def _carry_out(self, plan: _Plan) -> list[Tensor]:
        Xs = self._read(plan.picks)
        for s, start, end in plan.soon:
            whole = [(start, end)]
            for own in whole if self.share is None else self.share.clip(s, start, end):
                self.data.views[s].touch(*own)
        return Xs

    def _soon(self) -> Iterator[tuple[int, int, int]]:
        """Views and spans of their rows in which most will be wanted before long."""
        coupled = self.row_streams[0] if self.aligned and self.row_streams else None
        streams = (self.labeled_stream, self.taught_stream, coupled)
        for stream, who in zip(streams, (self.labeled, self.taught, None), strict=True):
            for start, end in _soon(stream):
                ends = np.array([start, end - 1])
                first, last = self.data.aligned[ends if who is None else who[ends]]
                near = np.flatnonzero((first <= last) & (last - first < 2 * (end - start)))
                yield from ((int(s), int(first[s]), int(last[s]) + 1) for s in near)
        for s, stream in enumerate([] if self.aligned else self.row_streams):
            yield from ((s, start, end) for start, end in _soon(stream))

    def _each(self, picks: Picks) -> Iterator[tuple[IntArray, ViewRows]]:
        return zip(picks.rows, self.data.views, strict=True)

    def _read(self, picks: Picks) -> list[Tensor]:
        if (share := self.share) is None:
            return [view.take(rows) for rows, view in self._each(picks)]
        pairs = enumerate(self._each(picks))
        return [view.take(share.pick(s, rows)) for s, (rows, view) in pairs]

    def _twin(self) -> Sampler:
        """A sampler that goes on from here by itself, and draws the same."""
        twin = copy.copy(self)
        twin.random, twin._ahead = copy.deepcopy(self.random), None
        pairs = ((stream, twin.random) for stream in self.streams)
        first, second, *others = (None if one is None else one.twin(r) for one, r in pairs)
        twin.labeled_stream, twin.taught_stream = first, second
        n = len(self.own_streams)
        twin.own_streams, twin.row_streams = others[:n], others[n:]
        return twin

    def pick(self) -> Picks:
        """Draw the rows of one batch."""
        parts: dict[str, Sequence[IntArray]] = {}
        target = np.empty(0, dtype=np.int64)
        own_targets: list[IntArray] = []
        if self.labeled_stream is not None:
            who = self.labeled[self.labeled_stream.next()]
            parts["labeled"] = list(self.data.aligned[who].T)
            target = self.data.target[who]
        if any(stream is not None for stream in self.own_streams):
            picks = [_next(stream) for stream in self.own_streams]
            parts["own"] = [rows[i] for rows, i in zip(self.data.own, picks, strict=True)]
            own_targets = [y[i] for y, i in zip(self.data.own_target, picks, strict=True)]
        if self.taught_stream is not None:
            who = self.taught[self.taught_stream.next()]
            parts["taught"] = list(self.data.aligned[who].T)
        if self.row_streams:
            parts |= self._coupled_rows()
        return Picks(
            [np.concatenate(rows) for rows in zip(*parts.values(), strict=True)],
            {name: [len(rows) for rows in part] for name, part in parts.items()},
            target,
            own_targets,
        )

    def _coupled_rows(self) -> dict[str, Sequence[IntArray]]:
        picks = [_next(stream) for stream in self.row_streams]
        rows = list(self.data.aligned[picks[0]].T) if self.aligned else picks
        if not self.data.neighbors:
            return {"rows": rows}
        near = [
            graph[r, self.random.integers(graph.shape[1], size=len(r))]
            for graph, r in zip(self.data.neighbors, rows, strict=True)
        ]
        return {"rows": rows, "neighbors": near}


def _soon(stream: Stream | None) -> list[tuple[int, int]]:
    return [] if stream is None else stream.soon()


def _classes_in(target: IntArray) -> set[int]:
    return set(np.flatnonzero(np.bincount(target)).tolist())


def _next(stream: Stream | None) -> IntArray:
    return np.empty(0, dtype=np.int64) if stream is None else stream.next()


def _take_all(told: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
    """What is told about some rows of every view, where anything is."""
    return [every[where] for every, where in zip(told, rows, strict=False)]
