"""How long a training takes, who is told, and what it leaves behind."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from hotview.nn.multiview import MultiViewNetwork
from hotview.training.history import History

__all__ = ["Epoch", "Outcome", "Schedule"]


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
class Outcome:
    """What a training left behind, beside the trained network."""

    history: History = field(default_factory=History)
    interrupted: bool = False
