"""What is recorded of a training, epoch by epoch."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from hotview.losses.objective import Evaluation
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.process_group import ProcessGroup
from hotview.training.trainer import Training

__all__ = ["Epoch", "History", "Recorder", "RunningMeans", "Schedule", "TrainingResult", "diverged"]


if TYPE_CHECKING:
    import pandas as pd


class History(Sequence[dict[str, float]]):
    """Rows of numbers, one per epoch, that can be read but not changed.

    Parameters
    ----------
    rows : iterable of dict of str to float, default=()
        The rows.

    Examples
    --------
    >>> from hotview.training.recorder import History
    >>> history = History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}])
    >>> history["loss"]
    [2.0, 1.5]
    >>> history[-1]
    {'epoch': 2, 'loss': 1.5}
    """

    def __init__(self, rows: Sequence[dict[str, float]] = ()) -> None:
        self._rows = [dict(row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, key: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    @overload
    def __getitem__(self, key: str) -> list[float]: ...
    def __getitem__(self, key: int | slice | str) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"{key!r} was not recorded; there are {', '.join(self.names)}")
            return [row.get(key, float("nan")) for row in self._rows]
        if isinstance(key, slice):
            return History(self._rows[key])
        return dict(self._rows[key])

    def __iter__(self) -> Iterator[dict[str, float]]:
        return (dict(row) for row in self._rows)

    @property
    def names(self) -> list[str]:
        """What was recorded, in the order in which it first came."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame (needs pandas).

        Returns
        -------
        pandas.DataFrame
            A row per epoch, a column per name.
        """
        import pandas as pd

        return pd.DataFrame(self._rows, columns=self.names)

    def _append(self, row: dict[str, float]) -> None:
        self._rows.append(dict(row))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._rows == other._rows

    def __repr__(self) -> str:
        return f"History({len(self)} epochs: {', '.join(self.names)})"


class RunningMeans:
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


class Recorder:
    """What becomes of one member: its history, its best weights, and whether it has stopped.

    Parameters
    ----------
    number : int
        Which member.
    member : Training
        The member.
    schedule : Schedule
        How long it is trained.
    ranks : ProcessGroup or None, default=None
        The processes in which it is trained, of which the first one looks at it and decides; None
        is this one alone.
    """

    def __init__(
        self, number: int, member: Training, schedule: Schedule, ranks: ProcessGroup | None = None
    ) -> None:
        self.ranks = ranks or ProcessGroup()
        self.number, self.member, self.schedule = number, member, schedule
        self.outcome, self.is_over = TrainingResult(), False
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


@dataclass
class Epoch:
    """What a callback is given after every epoch.

    Parameters
    ----------
    number : int
        The epoch, counted from 1.
    row : dict of str to float
        What was recorded.
    network : MultiViewNetwork
        The network as it is now; what is changed in it is kept.
    replica : int, default=0
        Which of several networks it is.
    stop : bool, default=False
        Set it to end the training.

    Examples
    --------
    >>> from hotview.training.loop import Epoch
    >>> def stop_at_the_third(epoch: Epoch) -> None:
    ...     epoch.stop = epoch.number == 3
    """

    number: int
    row: dict[str, float]
    network: MultiViewNetwork
    replica: int = 0
    stop: bool = False


@dataclass(frozen=True)
class Schedule:
    """How long to train, and who is told.

    Parameters
    ----------
    max_epochs : int
        Most epochs.
    steps_per_epoch : int or None
        Steps of an epoch; None takes those of one pass.
    patience : int or None
        Epochs without a better validation score after which to stop; None never stops.
    callbacks : sequence of callables
        Called with an `Epoch` after each.
    view_names : sequence of str
        Names for what is recorded per view.
    verbose : bool
        Whether progress is shown.
    checkpoint_every : int or None
        Epochs between checkpoints; None makes none.
    """

    max_epochs: int
    steps_per_epoch: int | None = None
    patience: int | None = None
    callbacks: Sequence[Callable[[Epoch], Any]] = ()
    view_names: Sequence[str] = ()
    verbose: bool = False
    checkpoint_every: int | None = None

    @property
    def is_fixed(self) -> bool:
        """Whether all epochs will be trained, unless Ctrl-C is pressed, and nobody looks between.

        Then steps can be drawn ahead; a checkpoint must know which are drawn and not yet taken.
        """
        free = self.patience is None and self.checkpoint_every is None
        return free and len(self.callbacks) == 0

    def steps(self, of_one_pass: int) -> int:
        """Steps of an epoch."""
        return self.steps_per_epoch or of_one_pass

    def saves_after(self, epoch: int) -> bool:
        """Whether a checkpoint is due."""
        return self.checkpoint_every is not None and epoch % self.checkpoint_every == 0


@dataclass
class TrainingResult:
    """What a training left behind, beside the trained network."""

    history: History = field(default_factory=History)
    interrupted: bool = False
