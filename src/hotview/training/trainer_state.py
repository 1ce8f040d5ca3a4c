"""State of a trainer, and checks that a trainer can be in a state that was read from a file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from hotview._codec import decode, require, shorten
from hotview.losses.objective import Objective
from hotview.training.trainer import Trainer, Training

__all__ = [
    "TrainerState",
    "check_random_state",
    "check_tensors",
    "load_optimizer_state",
    "optimizer_state",
]

_RECORDED = {"epoch", "loss", "seconds"}  # in every row of a history
_GROWTH = 1e9  # of weights, relative to their largest at the start, or to 1
_LARGEST_STEP = 8.0  # of Adam, in learning rates; no gradients give more with its usual decays


@dataclass(frozen=True)
class _OrderState:
    """State of `ShuffledIndices`."""

    remaining: Tensor
    blocks: Tensor
    deferred: Tensor

    @property
    def arrays(self) -> dict[str, Any]:
        return {name: x.numpy() for name, x in vars(self).items()}


@dataclass(frozen=True)
class _TrainingState:
    """State of one training; a best score of None stands for none."""

    generator: Tensor
    orders: list[_OrderState]
    random: dict[str, Any]
    rows: list[Any]
    stopped: bool
    best_score: float | None
    n_worse: int
    has_best: bool
    best_network: dict[str, Tensor]
    best_objective: dict[str, Tensor]

    @classmethod
    def of(cls, training: Training) -> _TrainingState:
        orders = [
            _OrderState(**{name: torch.from_numpy(x) for name, x in order.state.items()})
            for order in training.sampler.orders
        ]
        best_network, best_objective = training.best_state or ({}, {})
        return cls(
            training.generator.get_state(),
            orders,
            dict(training.sampler.random.bit_generator.state),
            training.rows,
            training.stopped,
            None if training.best_score == -float("inf") else training.best_score,
            training.n_worse,
            bool(training.best_state),
            best_network,
            best_objective,
        )

    def check(self, training: Training, epoch: int) -> None:
        """Raise an error if a training cannot be in this state."""
        sampler, n = training.sampler, len(self.rows)
        _check_generator(self.generator, training.generator.device)
        check_random_state(sampler.random.bit_generator, self.random)
        require(len(self.orders) == len(sampler.orders), "it has other row orders")
        for order, found in zip(sampler.orders, self.orders, strict=True):
            order.check(found.arrays)
        require(n == epoch or (self.stopped and 0 < n < epoch), f"it has {n} of {epoch} epochs")
        require(n > 0 or not self.stopped, "it has stopped before it began")
        for i, row in enumerate(self.rows, start=1):
            recorded = decode(dict[str, float], row, {}, f"epoch {i}")
            is_valid = recorded.keys() >= _RECORDED and recorded["epoch"] == i
            require(is_valid, f"its epoch {i} cannot be {shorten(row)}")
        if self.has_best:
            _check_weights(self.best_network, training.network, training.network.state_dict())
            _check_objective(self.best_objective, training.objective, (len(sampler.data.views),))

    def load_into(self, training: Training, device: torch.device) -> None:
        training.generator.set_state(self.generator)
        for order, found in zip(training.sampler.orders, self.orders, strict=True):
            order.state = found.arrays
        training.sampler.random.bit_generator.state = self.random
        training.rows, training.stopped = list(self.rows), self.stopped
        training.n_worse = self.n_worse
        training.best_score = -float("inf") if self.best_score is None else self.best_score
        best = (self.best_network, self.best_objective) if self.has_best else ()
        training.best_state = [{k: x.to(device) for k, x in state.items()} for state in best]


@dataclass(frozen=True)
class TrainerState:
    """State of a trainer, of its trainings and of all random generators."""

    network: dict[str, Tensor]
    objective: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    generator: Tensor
    cuda_generator: Tensor | None
    epoch: int
    step: int
    terms: list[str]
    sums: dict[str, Tensor]
    trainings: list[_TrainingState]

    @classmethod
    def of(cls, trainer: Trainer) -> TrainerState:
        """Return the state of a trainer, whose tensors are not copied."""
        device, means = _device(trainer), trainer.means
        return cls(
            trainer.network.state_dict(),
            trainer.objective.state_dict(),
            optimizer_state(trainer.optimizer),
            torch.get_rng_state(),  # of dropout, say
            torch.cuda.get_rng_state(device) if device.type == "cuda" else None,
            trainer.epoch,
            means.n,
            list(means.sums),
            means.sums,
            [_TrainingState.of(training) for training in trainer.trainings],
        )

    def check(self, trainer: Trainer, n_steps: int) -> None:
        """Raise an error if a trainer with so many steps per epoch cannot be in this state."""
        trainings, device = trainer.trainings, _device(trainer)
        n_views, members = len(trainings[0].sampler.data.views), (len(trainings),)
        is_batched = trainer.network is not trainings[0].network
        _check_weights(self.network, trainer.network, trainer.network.state_dict())
        shape = (*members, n_views) if is_batched else (n_views,)
        _check_objective(self.objective, trainer.objective, shape)
        _check_optimizer(trainer.optimizer, self.optimizer)
        _check_generator(self.generator, torch.device("cpu"))
        is_cuda = self.cuda_generator is not None
        require(is_cuda == (device.type == "cuda"), "it is of a fit on another kind of device")
        if self.cuda_generator is not None:
            _check_generator(self.cuda_generator, device)
        require(self.step < n_steps, f"it is in step {self.step} of an epoch of {n_steps}")
        require(self.step > 0 or not self.terms, "it has terms before the first step")
        require(sorted(self.terms) == sorted(self.sums), "it has other terms than sums")
        for name, x in self.sums.items():
            is_valid = x.is_floating_point() and tuple(x.shape) in ((), members)
            require(is_valid and bool(x.isfinite().all()), f"its sum of {name!r} is invalid")
        require(len(trainings) == len(self.trainings), "it has another number of trainings")
        for training, found in zip(trainings, self.trainings, strict=True):
            found.check(training, self.epoch)

    def load_into(self, trainer: Trainer) -> None:
        """Set a trainer, its trainings and all random generators to this state."""
        device = _device(trainer)
        trainer.network.load_state_dict(self.network)
        # Running means of costs are not copied but assigned, so they must be on the device.
        trainer.objective.load_state_dict({k: x.to(device) for k, x in self.objective.items()})
        load_optimizer_state(trainer.optimizer, self.optimizer)
        torch.set_rng_state(self.generator)
        if self.cuda_generator is not None:
            torch.cuda.set_rng_state(self.cuda_generator, device)
        trainer.epoch, trainer.means.n = self.epoch, self.step
        trainer.means.sums = {name: self.sums[name].to(device) for name in self.terms}
        for training, found in zip(trainer.trainings, self.trainings, strict=True):
            found.load_into(training, device)


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


def _check_objective(
    found: Mapping[str, Tensor], objective: Objective, shape: tuple[int, ...]
) -> None:
    """Raise an error if an objective with costs of some shape (..., S) cannot be in a state."""
    expected, coupling = objective.state_dict(), objective.coupling
    for name, x in found.items():  # a fresh objective has no average of costs yet
        if name.endswith(".mean_cost"):
            expected.setdefault(name, torch.zeros(x.shape, dtype=torch.float32))
    if "coupling.mean_cost" in found and (K := coupling.n_targets(shape[-1])) is not None:
        expected["coupling.mean_cost"] = torch.zeros(*shape, K, dtype=torch.float32)
    _check_weights(found, objective, expected)


def _check_weights(
    found: Mapping[str, Tensor], module: nn.Module, expected: Mapping[str, Tensor]
) -> None:
    """Raise an error if a module with an expected state cannot be in a state."""
    check_tensors(found, expected)
    for name, p in module.named_parameters():
        largest = max(1.0, p.detach().abs().max().item()) if p.numel() > 0 else 1.0
        is_valid = bool((found[name].abs() <= _GROWTH * largest).all())
        require(is_valid, f"its {name!r} has values that no training gives")


def _device(trainer: Trainer) -> torch.device:
    return trainer.trainings[0].sampler.data.views[0].device
