"""Checkpoint files, from which a training resumes with the same bits."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from pathlib import Path

from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require, shorten
from hotview._processes import broadcast, on_rank_zero
from hotview.training.trainer import Trainer
from hotview.training.trainer_state import TrainerState

__all__ = ["Checkpoint", "broadcast_state", "read_checkpoint"]

_CHECKPOINT = FileFormat("hotview checkpoint", 3, "a checkpoint", "Delete it to begin anew.")


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


def broadcast_state(trainer: Trainer) -> None:
    """Set the trainers of all ranks to the state of rank 0.

    Parameters
    ----------
    trainer : Trainer
        This rank's trainer.
    """
    tensors: dict[str, Tensor] = {}
    facts = on_rank_zero(lambda: encode(TrainerState, TrainerState.of(trainer), tensors))
    decode(TrainerState, facts, broadcast(tensors)).load_into(trainer)
