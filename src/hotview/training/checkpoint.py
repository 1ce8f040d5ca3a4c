"""Checkpoint files, from which a training resumes with the same bits.

A file holds the states of the trainers of a fit after their last whole epochs. It may be damaged or
made by someone else: a state is checked before any of it is loaded.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require, shorten
from hotview.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "TrainerState",
    "check_random_state",
    "check_tensors",
    "load_optimizer_state",
    "optimizer_state",
    "read_checkpoint",
]

_CHECKPOINT = FileFormat("hotview checkpoint", 3, "a checkpoint", "Delete it to begin anew.")
_RECORDED = {"epoch", "loss", "seconds"}  # in every row of a history
_GROWTH = 1e9  # of weights, relative to their largest at the start, or to 1
_LARGEST_STEP = 8.0  # of Adam, in learning rates; no gradients give more with its usual decays
_BEST = ("best_network", "best_objective")  # names of the parts of a best state


@dataclass(frozen=True)
class _TrainingFacts:
    """What one training has recorded, and the state of its batches' generator."""

    random: dict[str, Any]
    rows: list[Any]
    stopped: bool
    best_score: float | None  # None stands for none
    n_worse: int


@dataclass(frozen=True)
class TrainerState:
    """State of a trainer between two epochs, of its trainings and of all random generators."""

    tensors: dict[str, Tensor]
    epoch: int
    trainings: list[_TrainingFacts]

    @classmethod
    def of(cls, trainer: Trainer) -> TrainerState:
        """Copy the state of a trainer."""
        device = _device(trainer)
        tensors = {
            **_named("network", trainer.network.state_dict()),
            **_named("objective", trainer.objective.state_dict()),
            **_named("optimizer", optimizer_state(trainer.optimizer)),
            "generator": torch.get_rng_state(),  # of dropout, say
        }
        if device.type == "cuda":
            tensors["cuda_generator"] = torch.cuda.get_rng_state(device)
        for i, training in enumerate(trainer.trainings):
            tensors[f"{i}.generator"] = training.generator.get_state()
            for j, order in enumerate(training.sampler.orders):
                numbers = {name: torch.from_numpy(x) for name, x in order.state.items()}
                tensors |= _named(f"orders.{i}.{j}", numbers)
            for part, state in zip(_BEST, training.best_state, strict=False):
                tensors |= _named(f"{i}.{part}", state)
        facts = [
            _TrainingFacts(
                dict(training.sampler.random.bit_generator.state),
                list(training.rows),
                training.stopped,
                None if training.best_score == -float("inf") else training.best_score,
                training.n_worse,
            )
            for training in trainer.trainings
        ]
        copies = {k: x.detach().to("cpu", copy=True) for k, x in tensors.items()}
        return cls(copies, trainer.epoch, facts)

    def check(self, trainer: Trainer) -> None:
        """Raise an error if a new trainer of as many trainings cannot be in this state."""
        trainings, device, found = trainer.trainings, _device(trainer), self.tensors
        expected = TrainerState.of(trainer).tensors
        modules = [("network", trainer.network), ("objective", trainer.objective)]
        for i, training in enumerate(trainings):
            if self._part(f"{i}.{_BEST[0]}"):
                modules += [(f"{i}.{k}", x) for k, x in zip(_BEST, training.modules, strict=True)]
        is_batched = trainer.network is not trainings[0].network
        averages = hasattr(trainer.objective.coupling, "mean_cost")
        for at, module in modules:
            expected |= _named(at, module.state_dict())
            name, n_dims = f"{at}.coupling.mean_cost", 2 + (is_batched and at == "objective")
            mean = found.get(name)  # there is none before the first step
            if averages and mean is not None and mean.ndim == n_dims:
                expected[name] = torch.zeros(mean.shape)
        for name, x in found.items():
            if name.startswith("optimizer.") or (name.startswith("orders.") and name in expected):
                expected[name] = x  # whose shapes are checked below
        check_tensors(found, expected)
        for at, module in modules:
            for name, p in module.named_parameters():
                largest = max(1.0, p.detach().abs().max().item()) if p.numel() > 0 else 1.0
                is_valid = bool((found[f"{at}.{name}"].abs() <= _GROWTH * largest).all())
                require(is_valid, f"its '{at}.{name}' has values that no training gives")
        _check_optimizer(trainer.optimizer, self._part("optimizer"))
        _check_generator(found["generator"], torch.device("cpu"))
        if "cuda_generator" in found:
            _check_generator(found["cuda_generator"], device)
        for i, (training, facts) in enumerate(zip(trainings, self.trainings, strict=True)):
            _check_generator(found[f"{i}.generator"], training.generator.device)
            check_random_state(training.sampler.random.bit_generator, facts.random)
            for j, order in enumerate(training.sampler.orders):
                order.check(self._order(i, j))
            _check_rows(facts, self.epoch)

    def load_into(self, trainer: Trainer) -> None:
        """Set a trainer, its trainings and all random generators to this state."""
        device = _device(trainer)
        trainer.network.load_state_dict(self._part("network"))
        # Running means of costs are not copied but assigned, so they must be on the device.
        trainer.objective.load_state_dict(self._part("objective", device))
        load_optimizer_state(trainer.optimizer, self._part("optimizer"))
        torch.set_rng_state(self.tensors["generator"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(self.tensors["cuda_generator"], device)
        trainer.epoch = self.epoch
        for i, (training, facts) in enumerate(zip(trainer.trainings, self.trainings, strict=True)):
            training.generator.set_state(self.tensors[f"{i}.generator"])
            for j, order in enumerate(training.sampler.orders):
                order.state = self._order(i, j)
            training.sampler.random.bit_generator.state = facts.random
            training.rows, training.stopped = list(facts.rows), facts.stopped
            training.best_score = -float("inf") if facts.best_score is None else facts.best_score
            training.n_worse = facts.n_worse
            best = [self._part(f"{i}.{part}", device) for part in _BEST]
            training.best_state = best if any(best) else []

    def _part(self, at: str, device: torch.device | str = "cpu") -> dict[str, Tensor]:
        """Copies of the tensors whose names begin with a path."""
        start = f"{at}."
        named = [(k, x) for k, x in self.tensors.items() if k.startswith(start)]
        return {k.removeprefix(start): x.to(device, copy=True) for k, x in named}

    def _order(self, i: int, j: int) -> dict[str, Any]:
        """State of a row order of a training."""
        return {name: x.numpy() for name, x in self._part(f"orders.{i}.{j}").items()}


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
    seed: int
    fingerprint: dict[str, str] = field(default_factory=dict)
    trainers: list[TrainerState] = field(default_factory=list)
    seconds: float = 0.0
    start: float = field(default_factory=time.perf_counter)
    is_written: bool = False

    def write(self) -> None:
        """Write the file atomically, unless it holds the same states."""
        if self.is_written:
            return
        tensors: dict[str, Tensor] = {}
        facts = {
            "seed": self.seed,
            "fingerprint": self.fingerprint,
            "seconds": self.seconds + time.perf_counter() - self.start,
            "trainers": encode(list[TrainerState], self.trainers, tensors),
        }
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
            The trainer, which is left as it is if the state does not fit it.
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
            state.check(trainer)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = f"its parts do not fit ({str(error).splitlines()[0][:200]})"
            raise _CHECKPOINT.error(self.path, reason) from error
        if state.epoch > max_epochs:
            raise ValueError(
                f"Expected max_epochs to be at least {state.epoch}, because {self.path} has "
                f"finished as many, but it is {max_epochs}. Raise it, or begin anew."
            )
        state.load_into(trainer)


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
    facts, tensors = archive.metadata, archive.tensors
    try:
        seed = facts.get("seed", -1)
        fingerprint = decode(dict[str, str], facts.get("fingerprint"), {}, "fingerprint")
        seconds = decode(float, facts.get("seconds"), {}, "seconds")
        trainers = decode(list[TrainerState], facts.get("trainers"), tensors)
        n_used = sum(len(state.tensors) for state in trainers)
        require(type(seed) is int and seed >= 0, f"its seed cannot be {shorten(seed)}")
        require(seconds >= 0 and n_used == len(tensors) > 0, "it does not describe any training")
    except ValueError as error:
        raise _CHECKPOINT.error(path, str(error)) from error
    return Checkpoint(path, seed, fingerprint, trainers, seconds, is_written=True)


def _named(at: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Tensors with a path before their names."""
    return {f"{at}.{name}": x for name, x in tensors.items()}


def _check_rows(facts: _TrainingFacts, epoch: int) -> None:
    """Raise an error if a training cannot have recorded these rows by the end of an epoch."""
    n = len(facts.rows)
    is_valid = n == epoch or (facts.stopped and n < epoch)
    require(is_valid and (n > 0 or not facts.stopped), f"it has {n} of {epoch} epochs")
    for i, row in enumerate(facts.rows, start=1):
        recorded = decode(dict[str, float], row, {}, f"epoch {i}")
        is_valid = recorded.keys() >= _RECORDED and recorded["epoch"] == i
        require(is_valid, f"its epoch {i} cannot be {shorten(row)}")


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
    _check_optimizer(optimizer, tensors)
    if optimizer is None:
        return
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _check_optimizer(
    optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, Tensor]
) -> None:
    """Raise an error if Adam cannot be in a state: its kernels would not notice other shapes."""
    groups = [] if optimizer is None else optimizer.param_groups
    parameters = {str(i): p for i, p in enumerate(p for group in groups for p in group["params"])}
    expected: dict[str, Tensor] = {}
    for i in {name.partition(".")[0] for name in tensors} & parameters.keys():
        step = torch.zeros((), dtype=torch.float32)
        expected[f"{i}.step"] = step
        expected[f"{i}.exp_avg"] = expected[f"{i}.exp_avg_sq"] = parameters[i]
    check_tensors(tensors, expected)
    for name, x in tensors.items():
        if name.endswith(".exp_avg"):
            limit = _LARGEST_STEP * tensors[f"{name}_sq"].sqrt() + 1e-15  # squares may underflow
            require(
                bool((x.abs() <= limit).all()), f"its {name!r} is larger than its square allows"
            )
        else:
            require(bool((x >= 0).all()), f"its {name!r} is negative")


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


def _check_generator(state: Tensor, device: torch.device) -> None:
    """Raise an error unless a random generator of torch can be in a state."""
    torch.Generator(device).set_state(state)
    if device.type == "cpu":
        # A Mersenne twister of 624 numbers; torch would read beyond them.
        left, position = state[8:12].view(torch.int32).item(), state[16:24].view(torch.int64).item()
        is_valid = left + position == 625 or (left, position) == (1, 0)
        require(is_valid, "its random generator is invalid")


def _device(trainer: Trainer) -> torch.device:
    return trainer.trainings[0].sampler.data.views[0].device
