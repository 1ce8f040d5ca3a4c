"""Which rows each step sees."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hotview._types import IntArray
from hotview.losses.objective import Batch
from hotview.training.rows import ViewRows

__all__ = ["Picks", "Sampler", "TrainingRows"]


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
    lessons : list of Tensor of shape (n_rows, n_classes)
        Shares of the classes in every row of every view, from which its head learns; with them
        rows with a label are not taught apart. Empty where labels alone teach.
    coordinates : list of Tensor of shape (n_rows, n_features)
        What the features of every row of every view are to be; empty where they are free.
    """

    views: list[ViewRows]
    aligned: IntArray
    target: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own: list[IntArray] = field(default_factory=list)
    own_target: list[IntArray] = field(default_factory=list)
    neighbors: list[IntArray] = field(default_factory=list)
    lessons: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)

    @property
    def labeled(self) -> IntArray:
        """Aligned individuals whose class is known."""
        return np.flatnonzero(self.target >= 0)

    @property
    def classes_known(self) -> list[set[int]]:
        """Classes of which every view's head has labels."""
        linked = set(self.target[self.target >= 0].tolist())
        own = self.own_target or [np.empty(0, dtype=np.int64)] * len(self.views)
        return [linked | set(target.tolist()) for target in own]

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

    def part(self, name: str, s: int) -> IntArray:
        """The rows of one view that are there for one purpose."""
        start, end = span(self.sizes, name, s)
        return self.rows[s][start:end]


def span(sizes: dict[str, list[int]], name: str, s: int) -> tuple[int, int]:
    """Where a part of the rows of view s begins and ends."""
    before = list(sizes)[: list(sizes).index(name)]
    start = sum(sizes[part][s] for part in before)
    return start, start + sizes[name][s]


class Stream:
    """Numbers 0, …, n − 1 in random order, again and again, a batch at a time.

    A batch holds no number twice, and every number comes once before any comes again.
    """

    def __init__(self, n: int, size: int, random: np.random.Generator) -> None:
        self.n, self.size, self.random = n, min(size, n), random
        self.rest = random.permutation(n)

    def next(self) -> IntArray:
        """The next batch."""
        if len(self.rest) == 0:
            self.rest = self.random.permutation(self.n)
        elif len(self.rest) < self.size:
            order = self.random.permutation(self.n)
            # What is in this batch already waits until the end of the new round.
            here = np.zeros(self.n, dtype=bool)
            here[self.rest] = True
            waiting = here[order]
            self.rest = np.concatenate([self.rest, order[~waiting], order[waiting]])
        batch, self.rest = self.rest[: self.size], self.rest[self.size :]
        return batch


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
        taught, self.labeled = (few, few) if data.lessons else (data.taught, data.labeled)
        own = [few] * len(data.own) if data.lessons else data.own
        n_coupled = [len(data.aligned)] if aligned else [len(view) for view in data.views]
        # Whatever is coupled or not, an epoch is as long: a control must be trained as much.
        longest = max(len(self.labeled), *map(len, own), len(taught), *n_coupled)
        self.n_steps = max(1, math.ceil(longest / batch_size))
        self.batch_size = math.ceil(longest / self.n_steps)
        self.taught = taught
        self.labeled_stream = self._stream(len(self.labeled))
        self.taught_stream = self._stream(len(taught))
        self.own_streams = [self._stream(len(rows)) for rows in own]
        couples = couples or bool(data.lessons)
        self.row_streams = [self._stream(n) for n in n_coupled] if couples else []

    def _stream(self, n: int) -> Stream | None:
        return Stream(n, self.batch_size, self.random) if n > 0 else None

    @property
    def streams(self) -> list[Stream | None]:
        """All orders of rows, in one order of their own."""
        return [self.labeled_stream, self.taught_stream, *self.own_streams, *self.row_streams]

    def draw(self) -> Batch:
        """Draw one batch, and take its rows."""
        picks, device = self.pick(), self.data.views[0].device
        names = range(len(self.data.views) if "rows" in picks.sizes else 0)
        rows = [torch.from_numpy(picks.part("rows", s)).to(device) for s in names]
        return Batch(
            [view.take(rows) for view, rows in zip(self.data.views, picks.rows, strict=True)],
            picks.sizes,
            torch.from_numpy(picks.target).to(device),
            [torch.from_numpy(y).to(device) for y in picks.own_targets],
            _take_all(self.data.lessons, rows),
            _take_all(self.data.coordinates, rows),
        )

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


def _next(stream: Stream | None) -> IntArray:
    return np.empty(0, dtype=np.int64) if stream is None else stream.next()


def _take_all(told: Sequence[Tensor], rows: Sequence[Tensor]) -> list[Tensor]:
    """What is told about some rows of every view, where anything is."""
    return [every[where] for every, where in zip(told, rows, strict=False)]
