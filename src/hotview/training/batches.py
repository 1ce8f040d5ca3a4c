"""Training rows, and the random order in which batches are drawn from them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.losses.objective import Batch
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.rows import RowShard, ViewRows

__all__ = [
    "BatchIndices",
    "Sampler",
    "ShuffledIndices",
    "TrainingRows",
    "embed_rows",
    "window_size",
]

_AT_ONCE = 2**22  # numbers that are shuffled at once
_WINDOW = 2**20  # numbers in a window, where there are more
_BLOCKS = 128  # blocks of consecutive numbers in a window
_LARGE = 2**28  # bytes of rows that are drawn from in any order
_LEAST = 2**26  # bytes of the rows in a window, at least
_BATCHES = 100  # batches in a window, where they fit into _LARGE
_NONE: IntArray = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class TrainingRows:
    """All rows to train on, with their labels, neighbors and targets.

    Parameters
    ----------
    views : list of ViewRows
        The rows of every view, linked ones first.
    aligned : ndarray of int64, shape (n_aligned, n_views)
        The row in every view of each individual who is in all of them.
    target : ndarray of int64
        Class of every aligned individual, −1 where unknown.
    view_labeled : list of ndarray of int64
        Rows of every view with a label that belongs to this view alone.
    view_targets : list of ndarray of int64
        Their classes.
    neighbors : list of ndarray of int64
        Neighbors of every row of every view; empty where they are not needed.
    soft_labels : list of Tensor of shape (n_rows, n_classes)
        Class probabilities of every row of every view, the targets of its head. With soft labels,
        labeled rows are not drawn separately. Empty without soft labels.
    coordinates : list of Tensor of shape (n_rows, encoder_dim)
        Target features of every row of every view; empty where features have no target.
    links : ndarray of int64, shape (n_linked, n_views)
        The row in every view of each individual whose latents are to agree, −1 where absent.
    link_targets : list of Tensor of shape (n_rows, n_components)
        Target latents of every row of every view; empty where latents have no target.
    """

    views: list[ViewRows]
    aligned: IntArray
    target: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    view_labeled: list[IntArray] = field(default_factory=list)
    view_targets: list[IntArray] = field(default_factory=list)
    neighbors: list[IntArray] = field(default_factory=list)
    soft_labels: list[Tensor] = field(default_factory=list)
    coordinates: list[Tensor] = field(default_factory=list)
    links: IntArray = field(default_factory=lambda: np.empty((0, 0), dtype=np.int64))
    link_targets: list[Tensor] = field(default_factory=list)

    @property
    def labeled(self) -> IntArray:
        """Aligned individuals with a label."""
        return np.flatnonzero(self.target >= 0)

    @property
    def classes_known(self) -> list[set[int]]:
        """Classes for which the head of each view has labels."""
        linked = set(np.unique(self.target[self.target >= 0]).tolist())
        if not self.view_targets:
            return [linked] * len(self.views)
        return [linked | set(np.unique(target).tolist()) for target in self.view_targets]

    @property
    def source_views(self) -> list[int]:
        """Views with labels of the most classes, if other views have fewer; else none."""
        counts = [len(classes) for classes in self.classes_known]
        views = [s for s, n in enumerate(counts) if n == max(counts) > 0]
        return views if len(views) < len(self.views) else []

    @property
    def transfer_rows(self) -> IntArray:
        """Aligned individuals without a label, whose labels come from the source views."""
        return np.flatnonzero(self.target < 0 if self.source_views else [])


@dataclass(frozen=True)
class BatchIndices:
    """The row numbers of a batch, with the fields of `Batch`."""

    rows: list[IntArray]
    sizes: dict[str, list[int]]
    target: IntArray
    view_targets: list[IntArray]
    linked_present: Array


def span(sizes: dict[str, list[int]], name: str, s: int) -> slice:
    """Return where a part of the batch is among the rows of view s."""
    start = 0
    for part, counts in sizes.items():
        if part == name:
            break
        start += counts[s]
    return slice(start, start + sizes[name][s])


class Sampler:
    """Draws the batches of an epoch, which is one pass over the largest view.

    Parameters
    ----------
    data : TrainingRows
        Rows to draw from.
    batch_size : int
        Maximum number of rows of a view in a batch. An epoch is cut evenly, and smaller views are
        repeated.
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
        self.labeled, self.transfer_rows = data.labeled, data.transfer_rows
        view_labeled = data.view_labeled
        if data.soft_labels:
            self.labeled, self.transfer_rows = _NONE, _NONE
            view_labeled = [_NONE] * len(view_labeled)
        n_coupled = [len(data.aligned)] if aligned else [view.n_rows for view in data.views]
        # Whatever is coupled or not, an epoch is as long: a control must be trained as much.
        n_drawn = len(self.labeled), len(self.transfer_rows), *map(len, view_labeled), *n_coupled
        longest = max(n_drawn)
        self.n_steps = max(1, math.ceil(longest / batch_size))
        self.batch_size = math.ceil(longest / self.n_steps)
        widths = [view.n_columns for view in data.views]
        self.labeled_order = self._shuffle(len(self.labeled), max(widths))
        self.transfer_order = self._shuffle(len(self.transfer_rows), max(widths))
        self.view_orders = list(map(self._shuffle, map(len, view_labeled), widths))
        self.row_orders: list[ShuffledIndices] = []
        if couples or data.soft_labels:
            columns = [max(widths)] if aligned else widths
            self.row_orders = list(map(self._shuffle, n_coupled, columns))
        self.link_order = self._shuffle(len(data.links), max(widths))
        self.orders = [self.labeled_order, self.transfer_order, *self.view_orders, *self.row_orders]
        self.orders += [self.link_order] * (self.link_order.n > 0)
        #: the rows that this process reads; None reads all
        self.shard: RowShard | None = None

    def _shuffle(self, n: int, n_columns: int) -> ShuffledIndices:
        window = window_size(n, n_columns, self.batch_size)
        return ShuffledIndices(n, self.batch_size, self.random, window)

    def draw(self) -> Batch:
        """Draw one batch and load its rows."""
        return self.load(self.draw_indices())

    def load(self, indices: BatchIndices) -> Batch:
        """Load the rows of a batch; with several processes, each loads those of its shard."""
        device, rows = self.data.views[0].device, indices.rows
        coupled: list[Tensor] = []
        if "rows" in indices.sizes:
            parts = [numbers[span(indices.sizes, "rows", s)] for s, numbers in enumerate(rows)]
            coupled = [torch.from_numpy(part).to(device) for part in parts]
        if self.shard is not None:
            rows = [self.shard.select(s, numbers) for s, numbers in enumerate(rows)]
        return Batch(
            [view.take(numbers) for view, numbers in zip(self.data.views, rows, strict=True)],
            indices.sizes,
            torch.from_numpy(indices.target).to(device),
            [torch.from_numpy(y).to(device) for y in indices.view_targets],
            [x[where] for x, where in zip(self.data.soft_labels, coupled, strict=False)],
            [x[where] for x, where in zip(self.data.coordinates, coupled, strict=False)],
            torch.from_numpy(indices.linked_present).to(device),
            [x[where] for x, where in zip(self.data.link_targets, coupled, strict=False)],
        )

    def draw_indices(self) -> BatchIndices:
        """Draw the row numbers of one batch."""
        parts: dict[str, Sequence[IntArray]] = {}
        target, view_targets = _NONE, list[IntArray]()
        if self.labeled_order.n > 0:
            individuals = self.labeled[self.labeled_order.next_batch()]
            parts["labeled"] = list(self.data.aligned[individuals].T)
            target = self.data.target[individuals]
        if any(order.n > 0 for order in self.view_orders):
            drawn = [order.next_batch() for order in self.view_orders]
            pairs = zip(self.data.view_labeled, drawn, strict=True)
            parts["view_labeled"] = [rows[i] for rows, i in pairs]
            view_targets = [y[i] for y, i in zip(self.data.view_targets, drawn, strict=True)]
        if self.transfer_order.n > 0:
            individuals = self.transfer_rows[self.transfer_order.next_batch()]
            parts["transfer"] = list(self.data.aligned[individuals].T)
        if self.row_orders:
            drawn = [order.next_batch() for order in self.row_orders]
            parts["rows"] = list(self.data.aligned[drawn[0]].T) if self.aligned else drawn
            if self.data.neighbors:
                parts["neighbors"] = [
                    graph[rows, self.random.integers(graph.shape[1], size=len(rows))]
                    for graph, rows in zip(self.data.neighbors, parts["rows"], strict=True)
                ]
        links = self.data.links[self.link_order.next_batch()]
        if len(links) > 0:
            parts["linked"] = list(np.maximum(links, 0).T)
        return BatchIndices(
            [np.concatenate(rows) for rows in zip(*parts.values(), strict=True)],
            {name: [len(rows) for rows in part] for name, part in parts.items()},
            target,
            view_targets,
            links >= 0,
        )


def window_size(n_rows: int, n_columns: int, batch_size: int) -> int:
    """Return how many rows are shuffled together, so that a table on disk is read in long runs.

    Up to 256 MB of rows are shuffled all at once. Of more, 64 MB are, or a hundred batches where
    that is more, up to 256 MB. (`ShuffledIndices` limits the number of very short rows.)

    Parameters
    ----------
    n_rows : int
        Number of rows of the table.
    n_columns : int
        Number of its columns.
    batch_size : int
        Rows of a batch.

    Returns
    -------
    int
        At least 1.

    Examples
    --------
    >>> from hotview.training.batches import window_size
    >>> window_size(10**6, 64, 400), window_size(10**7, 64, 400), window_size(10**7, 64, 4096)
    (1000000, 262144, 409600)
    """
    row = 4 * n_columns
    if n_rows * row <= _LARGE:
        return max(1, n_rows)
    return max(1, _LEAST // row, min(_BATCHES * batch_size, _LARGE // row))


class ShuffledIndices:
    """Numbers 0, …, n − 1 in random order, again and again, a batch at a time.

    A batch holds no number twice, and every number comes once before any comes again. A pass is
    cut into windows, each of 128 blocks of consecutive numbers that are drawn at random; within a
    window every order is equally likely. With one window that is any order of all numbers.

    Parameters
    ----------
    n : int
        How many numbers; without any, batches are empty.
    size : int
        Maximum number of them in a batch.
    random : numpy Generator
        Source of the order.
    window : int or None, default=None
        How many numbers are shuffled together; None takes all, or a million of more than four.
    """

    def __init__(
        self, n: int, size: int, random: np.random.Generator, window: int | None = None
    ) -> None:
        self.n, self.size, self.random = n, min(size, n), random
        if window is None or window > _AT_ONCE:
            window = n if n <= _AT_ONCE else _WINDOW
        self.block = max(1, n if window >= n else window // _BLOCKS)
        #: numbers left of the windows that are open, in order
        self.remaining = _NONE
        #: blocks of the windows that are not open yet, in order
        self.blocks = _NONE
        #: numbers that come at the end of this pass, because its first batch holds them already
        self.deferred = _NONE
        self._open_window()

    def next_batch(self) -> IntArray:
        """Return the next batch of numbers."""
        while len(self.remaining) < self.size:
            self._open_window()
        batch, self.remaining = self.remaining[: self.size], self.remaining[self.size :]
        return batch

    @property
    def state(self) -> dict[str, IntArray]:
        """Its state beside that of the generator."""
        return {"remaining": self.remaining, "blocks": self.blocks, "deferred": self.deferred}

    @state.setter
    def state(self, state: Mapping[str, IntArray]) -> None:
        self.check(state)
        self.remaining, self.blocks = state["remaining"], state["blocks"]
        self.deferred = state["deferred"]

    def check(self, state: Mapping[str, IntArray]) -> None:
        """Raise an error if it cannot be in a state between two batches.

        Parameters
        ----------
        state : dict of str to ndarray of int64
            State of a file. What is left of a pass must come once, in one of its parts.
        """
        n_blocks = -(-self.n // self.block)
        for name, n in (("remaining", self.n), ("blocks", n_blocks), ("deferred", self.n)):
            numbers = state[name]
            is_valid = numbers.dtype == np.int64 and numbers.ndim == 1
            is_valid = is_valid and bool(((numbers >= 0) & (numbers < n)).all())
            if not is_valid or len(np.unique(numbers)) < len(numbers):
                raise ValueError(f"the row order has invalid {name} numbers")
        remaining, blocks, deferred = state["remaining"], state["blocks"], state["deferred"]
        is_twice = np.isin(remaining // self.block, blocks) | np.isin(remaining, deferred)
        if is_twice.any() or (len(blocks) == 0 < len(deferred)):
            raise ValueError("the row order has remaining numbers twice")

    def _open_window(self) -> None:
        if len(self.blocks) == 0:
            self.blocks = self.random.permutation(-(-self.n // self.block))
            self.deferred = self.remaining  # they are in the next batch already
        opened, self.blocks = self.blocks[:_BLOCKS], self.blocks[_BLOCKS:]
        inside = (opened[:, None] * self.block + np.arange(self.block)).ravel()
        order = self.random.permutation(inside[inside < self.n])
        if len(self.deferred) > 0:  # they are left out, and sorted as they were drawn
            is_deferred = np.zeros(self.n, dtype=bool)
            is_deferred[self.deferred] = True
            left_out = is_deferred[order]
            is_deferred[order[left_out]] = False
            undrawn = self.deferred[is_deferred[self.deferred]]
            self.deferred = np.concatenate([undrawn, order[left_out]])
            order = order[~left_out]
        self.remaining = np.concatenate([self.remaining, order])
        if len(self.blocks) == 0:
            self.remaining = np.concatenate([self.remaining, self.deferred])
            self.deferred = _NONE


def embed_rows(
    network: MultiViewNetwork, views: Sequence[ViewRows], rows: Sequence[IntArray]
) -> list[Tensor]:
    """Latents of some rows of every view, without gradients."""
    with torch.no_grad():
        Xs = [view.take_on_all_ranks(r) for view, r in zip(views, rows, strict=True)]
        return network.latents(Xs)
