"""Checkpoint files, from which a training resumes with the same bits.

A file holds the states of the trainers of a fit after their last whole epochs. It may be damaged or
made by someone else: whatever in it does not fit the trainer is an error that names the file.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require, shorten
from hotview.training.trainer import History, Trainer, Training

__all__ = [
    "Checkpoint",
    "TrainerState",
    "check_random_state",
    "check_tensors",
    "load_optimizer_state",
    "optimizer_state",
    "read_checkpoint",
]

_CHECKPOINT = FileFormat("hotview checkpoint", 4, "a checkpoint", "Delete it to begin anew.")
_RECORDED = {"epoch", "loss", "seconds"}  # in every row of a history

_State = dict[str, Tensor]


@dataclass(frozen=True)
class _TrainingState:
    """What one training has recorded, and what its batches come from."""

    generator: Tensor
    random: dict[str, Any]
    orders: list[dict[str, Tensor]]
    best: list[dict[str, Tensor]]
    history: History
    stopped: bool
    best_score: float | None  # None stands for none
    n_worse: int

    @classmethod
    def of(cls, training: Training) -> _TrainingState:
        """Copy the state of a training."""
        return cls(
            training.generator.get_state(),
            dict(training.sampler.random.bit_generator.state),
            [
                {name: torch.from_numpy(x) for name, x in order.state.items()}
                for order in training.sampler.orders
            ],
            list(map(_copy, training.best_state)),
            training.history,
            training.stopped,
            None if training.best_score == -float("inf") else training.best_score,
            training.n_worse,
        )

    def load_into(self, training: Training, epoch: int) -> None:
        """Set a training, and what its batches come from, to this state after an epoch."""
        rows = list(self.history)
        is_valid = len(rows) == epoch or (self.stopped and 0 < len(rows) < epoch)
        require(is_valid, f"it has {len(rows)} of {epoch} epochs")
        for i, row in enumerate(rows, start=1):
            is_valid = row.keys() >= _RECORDED and row["epoch"] == i
            require(is_valid, f"its epoch {i} cannot be {shorten(row)}")
        _set_generator(training.generator, self.generator)
        check_random_state(training.sampler.random.bit_generator, self.random)
        training.sampler.random.bit_generator.state = self.random
        for order, state in zip(training.sampler.orders, self.orders, strict=True):
            order.state = {name: x.numpy() for name, x in state.items()}
        require(len(self.best) in (0, 2), "its best weights are incomplete")
        device = training.sampler.data.views[0].device
        for module, state in zip(training.modules, self.best, strict=False):
            _load(module, state, device)  # it is loaded again at the end
        training.best_state = list(self.best)
        training.rows, training.stopped, training.n_worse = rows, self.stopped, self.n_worse
        training.best_score = -float("inf") if self.best_score is None else self.best_score


@dataclass(frozen=True)
class TrainerState:
    """State of a trainer between two epochs, of its trainings and of all random generators."""

    epoch: int
    trainings: list[_TrainingState]
    network: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    generator: Tensor
    cuda_generator: Tensor | None

    @classmethod
    def of(cls, trainer: Trainer) -> TrainerState:
        """Copy the state of a trainer."""
        device = _device(trainer)
        return cls(
            trainer.epoch,
            list(map(_TrainingState.of, trainer.trainings)),
            _copy(trainer.network.state_dict()),
            _copy(trainer.objective.state_dict()),
            _copy(optimizer_state(trainer.optimizer)),
            torch.get_rng_state(),  # of dropout, say
            torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
        )

    def load_into(self, trainer: Trainer) -> None:
        """Set a trainer, its trainings and all random generators to this state."""
        device, first = _device(trainer), trainer.trainings[0]
        for training, state in zip(trainer.trainings, self.trainings, strict=True):
            state.load_into(training, self.epoch)
        _load(trainer.network, self.network, device)
        n_dims = 2 if trainer.network is first.network else 3
        _load(trainer.objective, self.objective, device, n_dims)
        load_optimizer_state(trainer.optimizer, _copy(self.optimizer))
        _set_generator(torch.default_generator, self.generator)
        if device.type == "cuda":
            torch.cuda.set_rng_state(self.cuda_generator, device)  # type: ignore[arg-type]
        trainer.epoch = self.epoch


@dataclass
class Checkpoint:
    """The states of all trainers of a fit, and the file that they are written to.

    Parameters
    ----------
    path : Path
        The file.
    seed : int
        Seed of the fit.
    fingerprint : dict of str to str, default={}
        Descriptions of the inputs of the fit, by name.
    trainers : list of TrainerState
        States of the trainers that have begun, after their last whole epoch.
    seconds : float, default=0.0
        Duration of the fit until the file was read.
    start : float
        When the fit went on.
    is_written : bool, default=False
        Whether the file holds the states.
    """

    path: Path
    seed: Any  # beyond the integers of a file's other numbers
    fingerprint: dict[str, str] = field(default_factory=dict)
    trainers: list[TrainerState] = field(default_factory=list)
    seconds: float = 0.0
    start: float = field(default_factory=time.perf_counter)
    is_written: bool = False

    def __post_init__(self) -> None:
        is_valid = type(self.seed) is int and self.seed >= 0
        require(is_valid, f"its seed cannot be {shorten(self.seed)}")
        is_valid = self.seconds >= 0 and (len(self.trainers) > 0 or not self.is_written)
        require(is_valid, "it does not describe any training")

    def write(self) -> None:
        """Write the file atomically, unless it holds the same states."""
        if self.is_written:
            return
        tensors: dict[str, Tensor] = {}
        facts = encode(Checkpoint, self, tensors, leave_out=("path", "start", "is_written"))
        facts["seconds"] += time.perf_counter() - self.start
        write_archive(self.path, _CHECKPOINT, tensors, facts)
        self.is_written = True

    def keep(self, trainer: Trainer, index: int) -> None:
        """Copy the state of the trainer with this index, to be written at the next occasion."""
        self.trainers[index:] = [TrainerState.of(trainer)]
        self.is_written = False

    def restore(self, trainer: Trainer, index: int, max_epochs: int) -> None:
        """Load the state of the trainer with this index, or keep it if there is none.

        Parameters
        ----------
        trainer : Trainer
            The trainer; after an error it is of no use.
        index : int
            Its index.
        max_epochs : int
            Maximum number of epochs.
        """
        if len(self.trainers) <= index:
            self.keep(trainer, index)
            return
        state = self.trainers[index]
        then, now = len(state.trainings), len(trainer.trainings)
        if then != now:
            raise ValueError(
                f"Expected {self.path} to be of a fit that trains {now} at a time, but it is of "
                f"one that trains {then}: with devices set, ensemble members are trained "
                "one after the other, and without it together. Fit with the same devices, or "
                "with resume=False to begin anew."
            )
        try:
            state.load_into(trainer)
        except (LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"its parts do not fit ({str(error).splitlines()[0][:200]})"
            raise _CHECKPOINT.error(self.path, reason) from error
        if state.epoch > max_epochs:
            raise ValueError(
                f"Expected max_epochs to be at least {state.epoch}, because {self.path} has "
                f"finished as many, but it is {max_epochs}. Raise it, or begin anew."
            )


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a file that `Checkpoint.write` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Checkpoint
        Its contents.
    """
    archive = read_archive(path, _CHECKPOINT)
    facts = {k: x for k, x in archive.metadata.items() if k not in ("format", "version")}
    made = {"path": path, "start": time.perf_counter(), "is_written": True}
    try:
        found: Checkpoint = decode(Checkpoint, facts, archive.tensors, made=made)
    except ValueError as error:
        raise _CHECKPOINT.error(path, str(error)) from error
    return found


def _copy(tensors: Mapping[str, Tensor]) -> _State:
    """Copies of tensors on the CPU."""
    return {name: x.detach().to("cpu", copy=True) for name, x in tensors.items()}


def _load(module: nn.Module, state: _State, device: torch.device, n_dims: int = 2) -> None:
    """Load a state of a module; `n_dims` are those of running means of costs, if it has any."""
    expected = module.state_dict()
    for name in state.keys() - expected.keys():
        if name == "coupling.mean_cost":  # there is none before the first step
            like = state[name]
            expected[name] = torch.zeros(like.shape if like.ndim == n_dims else 0)
    check_tensors(state, expected)
    # Running means are not copied but assigned, so they must be on the device.
    module.load_state_dict({name: x.to(device, copy=True) for name, x in state.items()})


def optimizer_state(optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors by name."""
    if optimizer is None:
        return {}
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": x for i, tensors in state.items() for name, x in tensors.items()}


def load_optimizer_state(
    optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, Tensor]
) -> None:
    """Load what `optimizer_state` returned into Adam, or raise an error if it does not fit."""
    groups = [] if optimizer is None else optimizer.param_groups
    begun = {name.partition(".")[0] for name in tensors}
    state: dict[int, dict[str, Tensor]] = {}
    expected: dict[str, Tensor] = {}
    for i, p in enumerate(p for group in groups for p in group["params"]):
        if str(i) in begun:
            like = {"step": torch.zeros(()), "exp_avg": p, "exp_avg_sq": p}
            expected |= {f"{i}.{name}": x for name, x in like.items()}
            state[i] = {name: tensors.get(f"{i}.{name}", p) for name in like}
    check_tensors(tensors, expected)  # kernels would not notice other shapes
    for name, x in tensors.items():
        is_valid = name.endswith(".exp_avg") or bool((x >= 0).all())
        require(is_valid, f"its {name!r} is negative")
    if optimizer is not None:
        optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def check_tensors(found: Mapping[str, Tensor], expected: Mapping[str, Tensor]) -> None:
    """Raise an error unless tensors have the expected names, shapes and types, and are finite.

    Parameters
    ----------
    found : dict of str to Tensor
        Tensors of a file.
    expected : dict of str to Tensor
        Tensors that they are to replace. What is not finite in these may stay as it is.
    """
    for name in found.keys() ^ expected.keys():
        raise ValueError(f"{'unexpected' if name in found else 'it lacks'} {shorten(name)}")
    for name, x in found.items():
        like = expected[name]
        kinds = [f"{y.dtype} of shape {list(y.shape)}" for y in (x, like)]
        require(kinds[0] == kinds[1], f"its {name!r} is {kinds[0]}, not {kinds[1]}")
        is_valid = x.isfinite() | (x == like.detach().to(x.device))
        require(bool(is_valid.all()), f"its {name!r} has values that are not finite")


def check_random_state(bit_generator: np.random.BitGenerator, state: Mapping[str, Any]) -> None:
    """Raise an error unless a random generator can be in a state.

    Parameters
    ----------
    bit_generator : numpy BitGenerator
        The generator, which is left as it is.
    state : dict of str to object
        State of a file.
    """
    try:
        scratch = type(bit_generator)()
        scratch.state = state
        is_valid = scratch.state == state and state["has_uint32"] in (0, 1)
    # numpy before 2 only warns of numbers that it cannot hold, which the filter may make an error.
    except (DeprecationWarning, LookupError, OverflowError, TypeError, ValueError):
        is_valid = False
    require(is_valid, f"its random state cannot be {shorten(state)}")


def _set_generator(generator: torch.Generator, state: Tensor) -> None:
    """Set a random generator of torch to a state, or raise an error if it cannot be in it."""
    torch.Generator(generator.device).set_state(state)
    if generator.device.type == "cpu":
        # A Mersenne twister of 624 numbers; torch would read beyond them.
        left, position = state[8:12].view(torch.int32).item(), state[16:24].view(torch.int64).item()
        is_valid = left + position == 625 or (left, position) == (1, 0)
        require(is_valid, "its random generator is invalid")
    generator.set_state(state)


def _device(trainer: Trainer) -> torch.device:
    return trainer.trainings[0].sampler.data.views[0].device
