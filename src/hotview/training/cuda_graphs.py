"""A training step recorded as CUDA graphs and replayed without calls from Python."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace

import torch
from torch import Tensor

from hotview.losses.coupling import Coupling
from hotview.losses.objective import Batch, Evaluation

__all__ = ["GraphedStep"]

_WARM_UP = 3  # steps before the recording, while libraries allocate memory


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
        _copy(batch, self.batch)
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


def _copy(batch: Batch, to: Batch) -> None:
    """Overwrite the tensors that a recording reads with those of another batch."""
    for new, old in zip(_tensors(batch), _tensors(to), strict=True):
        if new is not old:
            old.copy_(new, non_blocking=True)


def _tensors(batch: Batch) -> list[Tensor]:
    known = [batch.Xs, [batch.target], batch.view_targets, batch.soft_labels, batch.coordinates]
    directions = [] if batch.directions is None else [batch.directions]
    return [tensor for part in (*known, directions) for tensor in part]
