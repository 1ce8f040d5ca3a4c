"""Many trainings of equal shape at once, in one set of tensors."""

from __future__ import annotations

import copy
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotview._types import IntArray
from hotview.losses.coupling import Coupling
from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.losses.sliced import ReferenceCoupling
from hotview.nn.batched import PerMember, batch_networks, copy_weights
from hotview.training.batches import Picks, span
from hotview.training.cuda_graphs import GraphedStep
from hotview.training.precision import in_precision
from hotview.training.rows import ViewRows
from hotview.training.trainer import Training, make_optimizer, train_step

__all__ = ["BatchedTrainer", "shape_of"]

_AHEAD = 2**28  # bytes of what is drawn ahead
_PARTS = 4  # of a batch, at most, each of no more than its size


def shape_of(training: Training) -> Hashable:
    """What must be equal for trainings to be stacked, beside all parameters but the weights."""
    sampler, objective = training.sampler, training.objective
    sizes = [0 if stream is None else stream.size for stream in sampler.streams]
    return (
        tuple(view.n_columns for view in sampler.data.views),
        (sampler.n_steps, sampler.batch_size, *sizes),
        tuple(objective.teachers),
        objective.class_weight is None,
    )


class BatchedTrainer:
    """A team whose members take their steps together.

    Their weights lie in tensors with a first dimension for the members. The mathematics is that of
    one training, which knows of leading dimensions; every member draws from its own generators, so
    that it becomes what it would alone, to rounding. On a GPU a step is recorded as a CUDA graph.

    Parameters
    ----------
    trainings : sequence of Training
        The members; their `shape_of` is equal.
    learning_rate : float
        Of Adam.
    precision : str, default="float32"
        Of encoders and decoders, as of `in_precision`.
    """

    def __init__(
        self, trainings: Sequence[Training], learning_rate: float, precision: str = "float32"
    ) -> None:
        self.members = list(trainings)
        self.batch: Batch | None = None
        self.network = batch_networks([member.network for member in self.members])
        self.rounded = in_precision(self.network, precision)
        views = zip(*(member.sampler.data.views for member in self.members), strict=True)
        self.rows = [_StackedRows(replicas) for replicas in views]
        data = [member.sampler.data for member in self.members]
        self.soft_labels = _stack_told([one.soft_labels for one in data])
        self.coordinates = _stack_told([one.coordinates for one in data])
        objectives = [member.objective for member in self.members]
        self.objective = _stack_objectives(objectives, self.rows[0].device)
        self.optimizer = make_optimizer([self.network, self.objective], learning_rate)
        self._ahead: deque[tuple[_StackedPicks, Tensor | None]] = deque()
        self._n_sure = 0  # steps that will be taken, and are not drawn yet
        self._play: GraphedStep | None = None
        if self._can_be_recorded():
            self._play = GraphedStep(self._step, self.objective.coupling)

    def step(self) -> Evaluation:
        """Let every member take a step."""
        self.batch = self._draw()
        return self._step(self.batch) if self._play is None else self._play(self.batch)

    def write_back(self) -> None:
        """Copy the members' parts of all tensors into their own networks and objectives."""
        copy_weights(self.network, [m.network for m in self.members], to_members=True)
        couplings = [member.objective.coupling for member in self.members]
        _unstack_couplings(self.objective.coupling, couplings)

    def take_over(self) -> None:
        """Copy what was changed in the members' own networks into the tensors of all."""
        copy_weights(self.network, [m.network for m in self.members], to_members=False)

    def _step(self, batch: Batch) -> Evaluation:
        return train_step(self.rounded, self.objective, self.optimizer, batch, None)

    def draw_ahead(self, n_steps: int) -> None:
        """Draw what the next steps will see, so that no time is spent on it between them.

        Where that is much, only the first of them, and more when these are taken.
        """
        self._n_sure = n_steps
        self._fill()

    def _fill(self) -> None:
        sampler, n_views = self.members[0].sampler, len(self.rows)
        n_bytes = 4 * len(self.members) * n_views * sampler.batch_size * _PARTS
        n_steps = max(1, min(self._n_sure, _AHEAD // n_bytes))
        self._n_sure = max(0, self._n_sure - n_steps)
        picks = [_stack_picks([m.sampler.pick() for m in self.members]) for _ in range(n_steps)]
        directions = [self._directions() for _ in range(n_steps)]
        self._ahead = deque(self._send(picks, directions))

    def _draw(self) -> Batch:
        if not self._ahead:
            self._fill()
        picks, directions = self._ahead.popleft()
        return Batch(
            [view.take(where) for view, where in zip(self.rows, picks.rows, strict=True)],
            picks.sizes,
            picks.target,
            picks.own_targets,
            [_take(told, s, picks) for s, told in enumerate(self.soft_labels)],
            [_take(told, s, picks) for s, told in enumerate(self.coordinates)],
            directions,
        )

    def _directions(self) -> Tensor | None:
        d = next(iter(self.network.maps.parameters())).shape[-2]
        directions = self.objective.coupling.draw(d, [member.generator for member in self.members])
        return None if directions is None else directions.float()

    def _send(
        self, picks: Sequence[_StackedPicks], directions: Sequence[Tensor | None]
    ) -> Iterator[tuple[_StackedPicks, Tensor | None]]:
        """Bring the numbers of many steps to the device at once."""

        def send(tensors: Sequence[Tensor]) -> Sequence[Tensor]:
            return torch.stack(list(tensors)).to(self.rows[0].device).unbind()

        n_views, n_own = len(self.rows), len(picks[0].own_targets)
        rows = [send([pick.rows[s] for pick in picks]) for s in range(n_views)]
        own = [send([pick.own_targets[s] for pick in picks]) for s in range(n_own)]
        target = send([pick.target for pick in picks])
        theta = [x for x in directions if x is not None]
        sent = send(theta) if theta else [None] * len(picks)
        for t, pick in enumerate(picks):
            yield (
                _StackedPicks([r[t] for r in rows], pick.sizes, target[t], [y[t] for y in own]),
                sent[t],
            )

    def _can_be_recorded(self) -> bool:
        """Whether a step does the same operations again and again, as far as we know."""
        on_gpu = self.rows[0].device.type == "cuda"
        own = any(isinstance(module, PerMember) for module in self.network.modules())
        alike = len(set(self._sizes())) <= 1  # others are compared one by one
        return on_gpu and alike and not own and self.optimizer is not None

    def _sizes(self) -> list[int]:
        """Numbers of points that are compared in a step."""
        sampler, coupling = self.members[0].sampler, self.objective.coupling
        sizes = [stream.size for stream in sampler.row_streams if stream is not None]
        if isinstance(coupling, ReferenceCoupling):
            sizes.append(coupling.references.shape[-2])
        return sizes


@dataclass(frozen=True)
class _StackedPicks:
    """`Picks` of all members, as tensors with a first dimension for them."""

    rows: list[Tensor]
    sizes: dict[str, list[int]]
    target: Tensor
    own_targets: list[Tensor]


def _stack_picks(picks: Sequence[Picks]) -> _StackedPicks:
    def stack(arrays: Iterable[IntArray], dtype: Any = np.int64) -> Tensor:
        return torch.from_numpy(np.stack(list(arrays), dtype=dtype))

    n_views, n_own = len(picks[0].rows), len(picks[0].own_targets)
    return _StackedPicks(
        [stack((pick.rows[s] for pick in picks), np.int32) for s in range(n_views)],
        picks[0].sizes,
        stack(pick.target for pick in picks),
        [stack(pick.own_targets[s] for pick in picks) for s in range(n_own)],
    )


class _StackedRows:
    """The rows of one view of all members."""

    def __init__(self, views: Sequence[ViewRows]) -> None:
        self.views, self.device = list(views), views[0].device
        self.ready: Tensor | None = None
        self.room = torch.empty(0, 0)
        self.starts: Tensor | None = None  # where one table serves all
        if all(view is views[0] for view in views):
            self.ready = views[0].ready
        elif self.device.type != "cpu" and all(view.ready is not None for view in views):
            tables = [view.ready for view in views if view.ready is not None]
            self.ready = torch.cat(tables)
            starts = np.cumsum([0, *(len(table) for table in tables[:-1])])
            self.starts = torch.as_tensor(starts, dtype=torch.int64, device=self.device)[:, None]

    def take(self, rows: Tensor) -> Tensor:
        """Rows by number, (members, rows), as (members, rows, columns); good until the next."""
        X = self._room(rows.shape)
        if self.ready is not None:
            where = (rows if self.starts is None else rows + self.starts).reshape(-1)
            torch.index_select(self.ready, 0, where, out=X.view(-1, X.shape[-1]))
        else:
            for view, out, r in zip(self.views, X, rows.cpu().numpy(), strict=True):
                view.take(r, out=out)
        return X

    def _room(self, shape: torch.Size) -> Tensor:
        if self.room.shape[:-1] != shape:
            self.room = torch.empty(
                *shape, self.views[0].n_columns, dtype=torch.float32, device=self.device
            )
        return self.room


def _stack_objectives(objectives: Sequence[Objective], device: torch.device) -> Objective:
    first = objectives[0]
    return Objective(
        _stack_couplings([objective.coupling for objective in objectives], device),
        first.view_regularizer,
        coupling_weight=_per_member([o.coupling_weight for o in objectives], device),
        regularizer_weight=_per_member([o.regularizer_weight for o in objectives], device),
        head_weight=first.head_weight,
        class_weight=_stack_class_weights(objectives),
        teachers=first.teachers,
    )


def _take(told: Tensor, s: int, picks: _StackedPicks) -> Tensor:
    """What is told about the coupled rows of view s."""
    start, end = span(picks.sizes, "rows", s)
    rows = picks.rows[s][:, start:end].long()
    return told.gather(1, rows.unsqueeze(2).expand(-1, -1, told.shape[2]))


def _stack_told(every: Sequence[Sequence[Tensor]]) -> list[Tensor]:
    """What is told about the rows of every view, (members, rows, columns), with zeros beyond."""
    found = []
    for replicas in zip(*every, strict=True):
        shape = [max(sizes) for sizes in zip(*(lesson.shape for lesson in replicas), strict=True)]
        pads = [(0, shape[1] - r.shape[1], 0, shape[0] - r.shape[0]) for r in replicas]
        padded = [nn.functional.pad(r, p) for r, p in zip(replicas, pads, strict=True)]
        found.append(torch.stack(padded))
    return found


def _stack_class_weights(objectives: Sequence[Objective]) -> Tensor | None:
    weights = [o.class_weight for o in objectives if isinstance(o.class_weight, Tensor)]
    if not weights:
        return None
    n = max(len(weight) for weight in weights)  # what a replica lacks weighs nothing
    return torch.stack([nn.functional.pad(weight, (0, n - len(weight))) for weight in weights])


def _stack_couplings(couplings: Sequence[Coupling], device: torch.device) -> Coupling:
    stacked = copy.deepcopy(couplings[0])
    if isinstance(stacked, ReferenceCoupling):
        clouds = [c.references.detach() for c in couplings if isinstance(c, ReferenceCoupling)]
        stacked.references = nn.Parameter(torch.stack(clouds))
    weights = [coupling.orthogonality_weight for coupling in couplings]
    stacked.orthogonality_weight = _per_member(weights, device)
    return stacked


def _unstack_couplings(stacked: Coupling, couplings: Sequence[Coupling]) -> None:
    state = stacked.state_dict()
    for r, coupling in enumerate(couplings):
        coupling.load_state_dict({name: values[r] for name, values in state.items()})


def _per_member(weights: Sequence[float | Tensor], device: torch.device) -> float | Tensor:
    """A weight that all share, or a tensor of theirs."""
    if len(set(weights)) == 1:
        return weights[0]
    return torch.tensor(weights, dtype=torch.float32, device=device)
