"""What is recorded of a training, epoch by epoch."""

from __future__ import annotations

import copy
import time
from typing import Any

import torch
from torch import Tensor

from hotview.losses.objective import Evaluation
from hotview.training.ranks import Ranks
from hotview.training.schedule import Epoch, Outcome, Schedule
from hotview.training.team import Training

__all__ = ["Course", "Sums", "diverged"]


class Sums:
    """Terms added over the steps of an epoch, on the device, so that no step waits."""

    def __init__(self) -> None:
        self.n, self.sums = 0, dict[str, Tensor]()

    def add(self, evaluation: Evaluation) -> None:
        """Count a step."""
        self.n += 1
        for name, part in evaluation.terms.parts.items():
            part = part.detach()
            self.sums[name] = self.sums[name] + part if name in self.sums else part.clone()

    def means(self, n_members: int) -> list[dict[str, float]]:
        """Mean terms of every member, and their sum."""
        parts: dict[str, list[float]] = {}
        if self.sums:
            totals = torch.stack([total.expand(n_members) for total in self.sums.values()])
            parts = dict(zip(self.sums, (totals / self.n).tolist(), strict=True))
        rows = [{name: values[i] for name, values in parts.items()} for i in range(n_members)]
        return [{"loss": sum(row.values()), **row} for row in rows]


class Course:
    """What becomes of one member: its history, its best weights, and whether it has stopped.

    Parameters
    ----------
    number : int
        Which member.
    member : Training
        The member.
    schedule : Schedule
        How long it is trained.
    ranks : Ranks or None, default=None
        The processes in which it is trained, of which the first one looks at it and decides; None
        is this one alone.
    """

    def __init__(
        self, number: int, member: Training, schedule: Schedule, ranks: Ranks | None = None
    ) -> None:
        self.ranks = ranks or Ranks()
        self.number, self.member, self.schedule = number, member, schedule
        self.outcome, self.is_over = Outcome(), False
        self.last_row: dict[str, float] = {}
        self.best, self.n_worse = -float("inf"), 0
        #: weights to go back to in the end, of the network and of the objective; none: the last
        self.kept: list[dict[str, Any]] = []

    @property
    def is_watched(self) -> bool:
        """Whether somebody looks at the network after every epoch."""
        return self.member.score is not None or len(self.schedule.callbacks) > 0

    def end_epoch(self, row: dict[str, float], seconds: float) -> None:
        """Record an epoch, unless the member has stopped before."""
        if self.is_over:
            return
        if not abs(row["loss"]) < float("inf"):
            parts = [f"{name}: {x:.3g}" for name, x in row.items() if name not in ("epoch", "loss")]
            raise diverged(int(row["epoch"]), ", ".join(parts))
        row = self.ranks.first(lambda: self._complete(row, seconds))
        if self.member.score is not None:
            self._compare(row["validation_score"])
        self.last_row = row
        self.outcome.history._append(row)
        stops = self.ranks.first(lambda: self._call_back(row))
        if self.schedule.callbacks and self.ranks.is_shared:  # who may have changed the network
            state = self.ranks.share(self.member.network.state_dict())
            self.member.network.load_state_dict(state)
        patience = self.schedule.patience
        self.is_over = stops or (patience is not None and self.n_worse >= patience)
        if self.is_over and not self.kept:  # others may go on
            self._keep()

    def _complete(self, row: dict[str, float], seconds: float) -> dict[str, float]:
        start = time.perf_counter()
        if self.member.score is not None:
            row = {**row, "validation_score": self.member.score()}
        return {**row, "seconds": seconds + time.perf_counter() - start}

    def _call_back(self, row: dict[str, float]) -> bool:
        """Show an epoch to those who look; return whether one of them ends the training."""
        epoch = Epoch(int(row["epoch"]), dict(row), self.member.network, self.number)
        for callback in self.schedule.callbacks:
            callback(epoch)
        return bool(epoch.stop)

    def end(self, *, interrupted: bool) -> None:
        """Go back to the weights that are to be kept, and stop learning."""
        self.outcome.interrupted = interrupted
        for module, state in zip(self.member.modules, self.kept, strict=False):
            module.load_state_dict(state)
        self.member.network.eval()

    def _compare(self, score: float) -> None:
        if score > self.best:
            self.best, self.n_worse = score, 0
            if self.schedule.patience is not None:
                self._keep()
        else:
            self.n_worse += 1

    def _keep(self) -> None:
        self.kept = copy.deepcopy([module.state_dict() for module in self.member.modules])


def diverged(epoch: int, what: str) -> FloatingPointError:
    """The error about a loss that is no longer finite."""
    return FloatingPointError(
        f"The loss is no longer finite in epoch {epoch} ({what}). Lower learning_rate, or look for "
        "extreme values in the data."
    )
