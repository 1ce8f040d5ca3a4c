"""Checkpoint files, from which a training resumes with the same bits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require
from hotview.training.process_group import ProcessGroup
from hotview.training.trainer import Trainer
from hotview.training.trainer_state import TrainerState

__all__ = ["Checkpoint", "EncodedState", "broadcast_state", "read_checkpoint"]

_CHECKPOINT = FileFormat("hotview checkpoint", 2, "a checkpoint", "Delete it to begin anew.")


@dataclass(frozen=True)
class EncodedState:
    """State of a trainer as a file holds it: tensors by name, and facts for JSON."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]

    @classmethod
    def of(cls, trainer: Trainer) -> EncodedState:
        """Copy the state of a trainer, of its trainings and of all random generators."""
        tensors: dict[str, Tensor] = {}
        facts = encode(TrainerState, TrainerState.of(trainer), tensors)
        return cls({name: x.detach().cpu().clone() for name, x in tensors.items()}, facts)

    def decode(self) -> TrainerState:
        """Return the state, whose values have the annotated types."""
        state: TrainerState = decode(TrainerState, self.facts, self.tensors)
        return state


@dataclass
class Checkpoint:
    """The states of all trainers of a fit, and the file that they are written to.

    Parameters
    ----------
    path : Path
        The file.
    facts : dict of str to object
        What identifies the fit.
    trainers : list of EncodedState
        States of the trainers that have begun.
    seconds : float, default=0.0
        Duration of the fit until the file was read.
    """

    path: Path
    facts: dict[str, Any]
    trainers: list[EncodedState] = field(default_factory=list)
    seconds: float = 0.0
    start: float = field(default_factory=time.perf_counter)

    def write(self) -> None:
        """Write the file atomically."""
        tensors: dict[str, Tensor] = {}
        for i, state in enumerate(self.trainers):
            tensors |= {f"{i}.{name}": tensor for name, tensor in state.tensors.items()}
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
        self.trainers[index:] = [EncodedState.of(trainer)]
        self.write()

    def restore(self, trainer: Trainer, index: int, max_epochs: int, n_steps: int) -> None:
        """Load the state of the trainer with this index, if it had begun.

        Parameters
        ----------
        trainer : Trainer
            The trainer, which is left as it is if the state does not fit it.
        index : int
            Its index.
        max_epochs : int
            Maximum number of epochs.
        n_steps : int
            Steps of an epoch.
        """
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
            found = state.decode()
            found.check(trainer, n_steps)
        except (RuntimeError, TypeError, ValueError) as error:
            reason = f"its parts do not fit ({str(error).splitlines()[0][:200]})"
            raise _CHECKPOINT.error(self.path, reason) from error
        if found.epoch > max_epochs:
            raise ValueError(
                f"Expected max_epochs to be at least {found.epoch}, because {self.path} has "
                f"finished as many, but it is {max_epochs}. Raise it, or begin anew."
            )
        found.load_into(trainer)


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
    facts, parts = archive.metadata, dict[str, dict[str, Tensor]]()
    for name, tensor in archive.tensors.items():
        index, _, rest = name.partition(".")
        parts.setdefault(index, {})[rest] = tensor
    try:
        seconds = decode(float, facts.pop("seconds", None), {}, "seconds")
        states = decode(list[dict[str, Any]], facts.pop("trainers", None), {}, "trainers")
        require(seconds >= 0 and len(states) == len(parts), "it does not describe any training")
    except ValueError as error:
        raise _CHECKPOINT.error(path, str(error)) from error
    trainers = [EncodedState(parts.get(str(i), {}), state) for i, state in enumerate(states)]
    return Checkpoint(path, facts, trainers, seconds)


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
    state = EncodedState.of(trainer) if is_source else EncodedState({}, {})
    tensors = process_group.broadcast(state.tensors)
    facts = process_group.on_rank_zero(lambda: state.facts)
    EncodedState(tensors, facts).decode().load_into(trainer)
