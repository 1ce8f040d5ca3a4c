"""Checkpoint files, from which a training resumes with the same bits."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview.training.process_group import ProcessGroup
from hotview.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "TrainerState",
    "broadcast_state",
    "load_optimizer_state",
    "optimizer_state",
    "read_checkpoint",
]

_CHECKPOINT = FileFormat("hotview checkpoint", 1, "a checkpoint", "Delete it to begin anew.")
#: attributes of a training that a checkpoint keeps as JSON, beside its rows
_RECORD = ("stopped", "best_score", "n_worse")


@dataclass(frozen=True)
class TrainerState:
    """State of a trainer: tensors by name, and facts that JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    @classmethod
    def of(cls, trainer: Trainer) -> TrainerState:
        """Copy the state of a trainer, of its trainings and of all random generators."""
        tensors = {
            **_with_prefix("network", trainer.network.state_dict()),
            **_with_prefix("objective", trainer.objective.state_dict()),
            **_with_prefix("optimizer", optimizer_state(trainer.optimizer)),
            **_with_prefix("sums", trainer.means.sums),
            "generator.cpu": torch.get_rng_state(),  # of dropout, say
        }
        if (device := _device(trainer)).type == "cuda":
            tensors["generator.cuda"] = torch.cuda.get_rng_state(device)
        trainings = []
        for r, training in enumerate(trainer.trainings):
            tensors[f"{r}.generator"] = training.generator.get_state()
            for j, order in enumerate(training.sampler.orders):
                state = {name: torch.from_numpy(x) for name, x in order.state.items()}
                tensors |= _with_prefix(f"{r}.order.{j}", state)
            for m, kept in enumerate(training.best_state):
                tensors |= _with_prefix(f"{r}.best.{m}", kept)
            facts = {name: getattr(training, name) for name in _RECORD}
            facts |= {"n_best": len(training.best_state), "rows": list(training.rows)}
            trainings.append({**facts, "random": training.sampler.random.bit_generator.state})
        return cls(
            {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()},
            {
                "epoch": trainer.epoch,
                "step": trainer.means.n,
                "terms": list(trainer.means.sums),
                "trainings": trainings,
            },
        )

    def load_into(self, trainer: Trainer) -> None:
        """Set a trainer, its trainings and all random generators to this state."""
        tensors, facts, device = self.tensors, self.facts, _device(trainer)
        trainer.network.load_state_dict(_part(tensors, "network"))
        # Running means of costs are not copied but assigned, so they must be on the device.
        trainer.objective.load_state_dict(_part(tensors, "objective", device))
        load_optimizer_state(trainer.optimizer, _part(tensors, "optimizer"))
        torch.set_rng_state(tensors["generator.cpu"])
        if device.type == "cuda":
            torch.cuda.set_rng_state(tensors["generator.cuda"], device)
        trainer.epoch, trainer.means.n = int(facts["epoch"]), int(facts["step"])
        trainer.means.sums = {x: tensors[f"sums.{x}"].to(device) for x in facts["terms"]}
        pairs = zip(trainer.trainings, facts["trainings"], strict=True)
        for r, (training, record) in enumerate(pairs):
            training.generator.set_state(tensors[f"{r}.generator"])
            for j, order in enumerate(training.sampler.orders):
                state = _part(tensors, f"{r}.order.{j}")
                order.state = {name: x.numpy() for name, x in state.items()}
            training.sampler.random.bit_generator.state = record["random"]
            for name in _RECORD:
                setattr(training, name, record[name])
            training.rows = list(record["rows"])
            training.best_state = [
                _part(tensors, f"{r}.best.{m}", device) for m in range(record["n_best"])
            ]


@dataclass
class Checkpoint:
    """The states of all trainers of a fit, and the file that they are written to.

    Parameters
    ----------
    path : Path
        The file.
    facts : dict of str to object
        What identifies the fit.
    trainers : list of TrainerState
        States of the trainers that have begun.
    seconds : float, default=0.0
        Duration of the fit until the file was read.
    """

    path: Path
    facts: dict[str, Any]
    trainers: list[TrainerState] = field(default_factory=list)
    seconds: float = 0.0
    start: float = field(default_factory=time.perf_counter)

    def write(self) -> None:
        """Write the file atomically."""
        tensors: dict[str, Tensor] = {}
        for i, state in enumerate(self.trainers):
            tensors |= _with_prefix(str(i), state.tensors)
        facts = {
            **self.facts,
            "seconds": self.seconds + time.perf_counter() - self.start,
            "trainers": [state.facts for state in self.trainers],
        }
        write_archive(self.path, _CHECKPOINT, tensors, facts)

    def save(self, trainer: Trainer, index: int) -> None:
        """Write the state of the trainer with this index, unless it is written already."""
        if len(self.trainers) > index:
            facts = self.trainers[index].facts
            if (facts["epoch"], facts["step"]) == (trainer.epoch, trainer.means.n):
                return
        self.trainers[index:] = [TrainerState.of(trainer)]
        self.write()

    def restore(self, trainer: Trainer, index: int, max_epochs: int) -> None:
        """Load the state of the trainer with this index, if it had begun."""
        if len(self.trainers) <= index:
            return
        state = self.trainers[index]
        then, now = state.facts.get("trainings"), len(trainer.trainings)
        if isinstance(then, list) and len(then) not in (0, now):
            raise ValueError(
                f"Expected {self.path} to be of a fit that trains {now} at a time, but it is of "
                f"one that trains {len(then)}: with devices set, ensemble members are trained "
                "one after the other, and without it together. Fit with the same devices, or "
                "with resume=False to begin anew."
            )
        try:
            state.load_into(trainer)
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"its parts do not fit ({str(error).splitlines()[0][:200]})"
            raise _CHECKPOINT.error(self.path, reason) from error
        if trainer.epoch > max_epochs:
            raise ValueError(
                f"Expected max_epochs to be at least {trainer.epoch}, because the checkpoint has "
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
    states, seconds = archive.metadata.pop("trainers", None), archive.metadata.pop("seconds", 0.0)
    if not isinstance(states, list) or not all(isinstance(facts, dict) for facts in states):
        raise _CHECKPOINT.error(path, "it does not describe any training")
    trainers = [
        TrainerState(_part(archive.tensors, str(i)), facts) for i, facts in enumerate(states)
    ]
    return Checkpoint(path, archive.metadata, trainers, float(seconds))


def broadcast_state(trainer: Trainer, process_group: ProcessGroup) -> None:
    """Set the trainers of all ranks to the state of rank 0.

    Parameters
    ----------
    trainer : Trainer
        This rank's trainer.
    process_group : ProcessGroup
        The processes.
    """
    is_source = process_group.is_rank_zero
    state = TrainerState.of(trainer) if is_source else TrainerState({}, {})
    tensors = process_group.broadcast(state.tensors)
    facts = process_group.on_rank_zero(lambda: state.facts)
    TrainerState(tensors, facts).load_into(trainer)


def optimizer_state(optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """Return the state of an optimizer as tensors by name."""
    if optimizer is None:
        return {}
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": x for i, tensors in state.items() for name, x in tensors.items()}


def load_optimizer_state(
    optimizer: torch.optim.Optimizer | None, tensors: Mapping[str, Tensor]
) -> None:
    """Load what `optimizer_state` returned into an optimizer."""
    if optimizer is None:
        return
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _with_prefix(prefix: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{prefix}.{name}": tensor for name, tensor in tensors.items()}


def _part(
    tensors: Mapping[str, Tensor], prefix: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    start = f"{prefix}."
    return {k.removeprefix(start): x.to(device) for k, x in tensors.items() if k.startswith(start)}


def _device(trainer: Trainer) -> torch.device:
    return trainer.trainings[0].sampler.data.views[0].device
