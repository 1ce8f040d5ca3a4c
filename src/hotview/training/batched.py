"""Trainings of equal shape that take their steps together, in one set of tensors."""

from __future__ import annotations

import copy
import gc
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotview._types import IntArray
from hotview.losses.coupling import Coupling
from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.nn.batched import PerMember, batch_networks, copy_weights
from hotview.preprocessing.rows import ViewRows
from hotview.training.batches import span
from hotview.training.trainer import Trainer, Training, train_step

__all__ = ["BatchedTrainer", "GraphedStep"]

_BUFFER = 2**28  # bytes of row numbers that are drawn in advance
_PARTS = 4  # parts of a batch, at most, each of no more than its size
_WARM_UP = 3  # steps before a recording, while libraries allocate memory


class BatchedTrainer(Trainer):
    """Takes the steps of several trainings together.

    Their weights are tensors with a first dimension for the trainings. The losses broadcast over
    leading dimensions; every training draws from its own generators, so that its result is the
    same as alone, up to rounding. On a GPU a step is recorded as a CUDA graph.

    Parameters
    ----------
    trainings : sequence of Training
        The trainings, of equal `shape`.
    learning_rate : float
        Learning rate of Adam.
    precision : str, default="float32"
        Precision of encoders and decoders, as in `in_precision`.
    """

    def __init__(
        self, trainings: Sequence[Training], learning_rate: float, precision: str = "float32"
    ) -> None:
        data = [training.sampler.data for training in trainings]
        self.views = [_BatchedRows(views) for views in zip(*(x.views for x in data), strict=True)]
        self.device = self.views[0].device
        network = batch_networks([training.network for training in trainings])
        objective = _stack_objectives([training.objective for training in trainings], self.device)
        super().__init__(trainings, network, objective, learning_rate, precision)
        #: what a batch has of every coupled row, by name and view
        self.tables = {
            name: list(map(_pad_and_stack, zip(*(getattr(x, name) for x in data), strict=True)))
            for name in ("soft_labels", "coordinates", "link_targets")
        }
        self._drawn: deque[tuple[list[Tensor], Batch]] = deque()  # row numbers, and all but rows
        self._n_undrawn = 0  # steps that will be taken, and are not drawn yet
        self._graphed: GraphedStep | None = None
        if self._is_recordable():
            step = partial(train_step, self.rounded_network, self.objective, self.optimizer)
            self._graphed = GraphedStep(partial(step, generator=None), self.objective.coupling)

    def step(self) -> Evaluation:
        """Take one step of every training."""
        if not self._drawn:
            self._draw()
        rows, batch = self._drawn.popleft()
        told: dict[str, Any] = {k: _gather(x, rows, batch.sizes) for k, x in self.tables.items()}
        Xs = [view.take(numbers) for view, numbers in zip(self.views, rows, strict=True)]
        self.batch = replace(batch, Xs=Xs, **told)
        if self._graphed is not None:
            return self._graphed(self.batch)
        return train_step(self.rounded_network, self.objective, self.optimizer, self.batch, None)

    def write_back(self) -> None:
        """Copy the slices of all tensors into the trainings' own networks and objectives."""
        copy_weights(self.network, [t.network for t in self.trainings], to_members=True)
        state = self.objective.coupling.state_dict()
        for r, training in enumerate(self.trainings):
            own = {name: values[r] for name, values in state.items()}
            training.objective.coupling.load_state_dict(own)

    def take_over(self) -> None:
        """Copy changes of the trainings' own networks into the tensors of all."""
        copy_weights(self.network, [t.network for t in self.trainings], to_members=False)

    def draw_in_advance(self, n_steps: int) -> None:
        """Draw the row numbers and directions of the next steps, as many as fit into a buffer."""
        self._n_undrawn = n_steps
        self._draw()

    def _draw(self) -> None:
        n_bytes = 4 * len(self.trainings) * len(self.views) * _PARTS
        n_bytes *= self.trainings[0].sampler.batch_size
        n_steps = max(1, min(self._n_undrawn, _BUFFER // n_bytes))
        self._n_undrawn = max(0, self._n_undrawn - n_steps)
        generators = [training.generator for training in self.trainings]
        d = next(iter(self.network.maps.parameters())).shape[-2]
        drawn, directions = [], []
        for _ in range(n_steps):
            drawn += [training.sampler.draw_indices() for training in self.trainings]
            directions.append(self.objective.coupling.draw(d, generators))

        def send(arrays: list[IntArray], dtype: type = np.int64) -> Tensor:
            """Copy the arrays of all steps and trainings to the device at once."""
            shape = (n_steps, len(self.trainings), len(arrays[0]))
            return torch.from_numpy(np.array(arrays, dtype=dtype).reshape(shape)).to(self.device)

        first = drawn[0]
        rows = [send([x.rows[s] for x in drawn], np.int32) for s in range(len(first.rows))]
        n_targets = len(first.view_targets)
        view_targets = [send([x.view_targets[s] for x in drawn]) for s in range(n_targets)]
        target = send([x.target for x in drawn])
        present = torch.from_numpy(np.array([x.linked_present for x in drawn])).to(self.device)
        present = present.view(n_steps, len(self.trainings), *present.shape[1:])
        theta: Sequence[Tensor | None] = [None] * n_steps
        if directions[0] is not None:
            stacked = torch.stack([x.float() for x in directions if x is not None])
            theta = stacked.to(self.device).unbind()
        for t in range(n_steps):
            own = [y[t] for y in view_targets]
            batch = Batch([], first.sizes, target[t], own, directions=theta[t])
            batch = replace(batch, linked_present=present[t])
            self._drawn.append(([x[t] for x in rows], batch))

    def _is_recordable(self) -> bool:
        """Return whether every step is the same sequence of operations, as far as is known."""
        if self.device.type != "cuda" or self.optimizer is None:
            return False
        if any(isinstance(module, PerMember) for module in self.network.modules()):
            return False  # a custom encoder may do anything
        sizes = {order.size for order in self.trainings[0].sampler.row_orders} - {0}
        if self.objective.coupling.reference_based:
            sizes.add(self.objective.coupling.references.shape[-2])
        return len(sizes) <= 1  # point clouds of different sizes are compared one by one


def _gather(
    tables: Sequence[Tensor], rows: Sequence[Tensor], sizes: dict[str, list[int]]
) -> list[Tensor]:
    """Return the entries, (trainings, rows, columns), of the coupled rows of every view."""
    entries = []
    for s, table in enumerate(tables):
        coupled = rows[s][:, span(sizes, "rows", s)].long().unsqueeze(2)
        entries.append(table.gather(1, coupled.expand(-1, -1, table.shape[2])))
    return entries


class _BatchedRows:
    """The rows of one view in all trainings."""

    def __init__(self, views: Sequence[ViewRows]) -> None:
        self.views, self.device = list(views), views[0].device
        self.ready: Tensor | None = None
        self.buffer = torch.empty(0, 0)
        self.starts: Tensor | None = None  # None: one table serves all
        if all(view is views[0] for view in views):
            self.ready = views[0].ready
        elif self.device.type != "cpu" and all(view.ready is not None for view in views):
            tables = [view.ready for view in views if view.ready is not None]
            self.ready = torch.cat(tables)
            starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
            self.starts = torch.as_tensor(starts, dtype=torch.int64, device=self.device)[:, None]

    def take(self, rows: Tensor) -> Tensor:
        """Return rows by number, (trainings, rows, columns), in a buffer that is used again."""
        if self.buffer.shape[:-1] != rows.shape:
            shape = (*rows.shape, self.views[0].n_columns)
            self.buffer = torch.empty(shape, dtype=torch.float32, device=self.device)
        X = self.buffer
        if self.ready is not None:
            where = (rows if self.starts is None else rows + self.starts).reshape(-1)
            torch.index_select(self.ready, 0, where, out=X.view(-1, X.shape[-1]))
        else:
            for view, out, numbers in zip(self.views, X, rows.cpu().numpy(), strict=True):
                view.take(numbers, out=out)
        return X


def _stack_objectives(objectives: Sequence[Objective], device: torch.device) -> Objective:
    first = objectives[0]
    coupling, couplings = copy.deepcopy(first.coupling), [o.coupling for o in objectives]
    if coupling.reference_based:
        coupling.references = nn.Parameter(torch.stack([c.references.detach() for c in couplings]))
    weights = [c.orthogonality_weight for c in couplings]
    coupling.orthogonality_weight = _stack_weights(weights, device)
    class_weights = [o.class_weight for o in objectives if isinstance(o.class_weight, Tensor)]
    return Objective(
        coupling,
        first.regularizer,
        coupling_weight=_stack_weights([o.coupling_weight for o in objectives], device),
        regularizer_weight=_stack_weights([o.regularizer_weight for o in objectives], device),
        head_weight=first.head_weight,
        class_weight=_pad_and_stack(class_weights) if class_weights else None,
        source_views=first.source_views,
        alignment_weight=_stack_weights([o.alignment_weight for o in objectives], device),
        reduction=first.reduction,
    )


def _stack_weights(weights: Sequence[float | Tensor], device: torch.device) -> float | Tensor:
    """Return a weight that all trainings share, or a tensor with one for each."""
    if len(set(weights)) == 1:
        return weights[0]
    return torch.tensor(weights, dtype=torch.float32, device=device)


def _pad_and_stack(tensors: Sequence[Tensor]) -> Tensor:
    """Stack tensors of different sizes, filled up with zeros."""
    shape = np.max([x.shape for x in tensors], axis=0)
    stacked = tensors[0].new_zeros(len(tensors), *shape.tolist())
    for x, padded in zip(tensors, stacked, strict=True):
        padded[tuple(map(slice, x.shape))] = x
    return stacked


class GraphedStep:
    """Takes a step by calling `step` a few times, and then by replaying its recording.

    Where a coupling solves for a plan or a shared G, the solution must be there before the step
    can go on: there the first recording ends, and a second one begins.

    Parameters
    ----------
    step : callable
        Maps a batch to an evaluation; always the same operations on tensors of one shape.
    coupling : Coupling
        Its `outside` hook interrupts the recording.
    """

    def __init__(self, step: Callable[[Batch], Evaluation], coupling: Coupling) -> None:
        self.step, self.coupling = step, coupling
        self.n_taken = 0
        self.stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        self.graphs: list[torch.cuda.CUDAGraph] = []
        self.batch: Batch | None = None
        self.solve: Callable[[Tensor], Tensor] | None = None
        self.argument, self.solution = torch.empty(0), torch.empty(0)

    def __call__(self, batch: Batch) -> Evaluation:
        """Take a step."""
        if self.n_taken < _WARM_UP:
            self.n_taken += 1
            return self._warm_up(batch)
        if not self.graphs:
            self._record(batch)
        assert self.batch is not None
        for new, recorded in zip(_tensors(batch), _tensors(self.batch), strict=True):
            if new is not recorded:
                recorded.copy_(new, non_blocking=True)
        self.graphs[0].replay()
        if self.solve is not None:
            self.solution.copy_(self.solve(self.argument))
            self.graphs[1].replay()
        return self.evaluation

    def _warm_up(self, batch: Batch) -> Evaluation:
        self.coupling.outside = self._remember
        self.stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(self.stream):
            evaluation = self.step(_to_device(batch))
        torch.cuda.current_stream().wait_stream(self.stream)
        self.coupling.outside = None
        return evaluation

    def _remember(self, solve: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        self.solution = solve(x)
        return self.solution

    def _record(self, batch: Batch) -> None:
        self.batch = _to_device(batch)
        self.solution = self.solution.clone()  # memory of its own, which both recordings use
        self.graphs = [torch.cuda.CUDAGraph()]
        self.coupling.outside = self._interrupt
        torch.cuda.synchronize()
        with torch.cuda.stream(self.stream), _without_collection():
            self.graphs[0].capture_begin()
            try:
                self.evaluation = self.step(self.batch)
            finally:
                self.graphs[-1].capture_end()
                self.coupling.outside = None
        torch.cuda.current_stream().wait_stream(self.stream)

    def _interrupt(self, solve: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        self.graphs[0].capture_end()
        self.solve, self.argument = solve, x
        self.graphs.append(torch.cuda.CUDAGraph())
        self.graphs[1].capture_begin(pool=self.graphs[0].pool())
        return self.solution


@contextmanager
def _without_collection() -> Iterator[None]:
    """Disable garbage collection: freeing a graph of an earlier fit would end a recording."""
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()


def _to_device(batch: Batch) -> Batch:
    if batch.directions is None:
        return batch
    return replace(batch, directions=batch.directions.to(batch.Xs[0], non_blocking=True))


def _tensors(batch: Batch) -> list[Tensor]:
    known = [batch.Xs, [batch.target], batch.view_targets, batch.soft_labels, batch.coordinates]
    known += [[batch.linked_present], batch.link_targets]
    directions = [] if batch.directions is None else [batch.directions]
    return [tensor for part in (*known, directions) for tensor in part]
