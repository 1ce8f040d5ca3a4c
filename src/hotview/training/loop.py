"""The training loop: epochs of steps, with validation, callbacks and checkpoints."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from hotview._codec import decode, encode
from hotview._processes import broadcast, is_distributed, on_rank_zero
from hotview._threads import catch_interrupt
from hotview.losses.objective import Evaluation
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.pca import effective_ranks
from hotview.training.checkpoint import Checkpoint, TrainerState
from hotview.training.progress import ProgressBar
from hotview.training.trainer import RunningMeans, Trainer, Training

__all__ = ["Epoch", "Schedule", "train"]

_BATCH_NORM_ERROR = "more than 1 value per channel"  # part of torch's message


@dataclass
class Epoch:
    """Argument of a callback, which is called after every epoch.

    Parameters
    ----------
    number : int
        The epoch, counted from 1.
    row : dict of str to float
        Recorded values.
    network : MultiViewNetwork
        The network as it is now; changes to it are kept.
    member : int, default=0
        Which member of the ensemble it is.
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
    member: int = 0
    stop: bool = False


@dataclass(frozen=True)
class Schedule:
    """How long to train, and what to do after an epoch.

    Parameters
    ----------
    max_epochs : int
        Maximum number of epochs.
    steps_per_epoch : int or None
        Steps of an epoch; None takes those of one pass over the largest view.
    patience : int or None
        Epochs without a better validation score after which to stop; None never stops.
    callbacks : sequence of callables
        Called with an `Epoch` after each.
    view_names : sequence of str
        Names for what is recorded per view.
    verbose : bool
        Whether progress is shown.
    checkpoint_every : int or None
        Epochs between checkpoints; None writes none.
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
        """Whether all epochs will be trained, without callbacks and checkpoints, barring Ctrl-C.

        Then batches can be drawn in advance; a checkpoint would have to hold those not yet used.
        """
        return self.patience is None and self.checkpoint_every is None and len(self.callbacks) == 0


def train(
    trainer: Trainer,
    schedule: Schedule,
    checkpoint: Checkpoint | None = None,
    index: int = 0,
) -> list[Training]:
    """Train until the epochs are over, callbacks or patience end it, or Ctrl-C is pressed.

    Several processes take every step together; rank 0 saves, scores and calls callbacks.

    Parameters
    ----------
    trainer : Trainer
        What is trained. A training that stops early keeps the weights it has then.
    schedule : Schedule
        How long to train.
    checkpoint : Checkpoint or None, default=None
        Checkpoint to resume from and to save to; None writes none.
    index : int, default=0
        Position of the trainer in the checkpoint.

    Returns
    -------
    list of Training
        The trainer's, with what was recorded and their networks in evaluation mode.
    """
    n_steps = schedule.steps_per_epoch or trainer.trainings[0].sampler.n_steps

    def restore() -> None:
        if checkpoint is not None:
            checkpoint.restore(trainer, index, schedule.max_epochs)

    on_rank_zero(restore)
    signals = [signal.SIGINT]
    if is_distributed():  # all ranks go on from the state of rank 0
        tensors: dict[str, Tensor] = {}
        facts = on_rank_zero(lambda: encode(TrainerState, TrainerState.of(trainer), tensors))
        decode(TrainerState, facts, broadcast(tensors)).load_into(trainer)
        signals.append(signal.SIGTERM)  # by which torchrun passes Ctrl-C on
    with (
        catch_interrupt(*signals, agreed=is_distributed()) as trainer.interrupt,
        ProgressBar(schedule.max_epochs * n_steps, shown=schedule.verbose) as bar,
    ):
        bar.step(trainer.epoch * n_steps)
        while trainer.epoch < schedule.max_epochs and not all(t.stopped for t in trainer.trainings):
            start, means = time.perf_counter(), RunningMeans()
            if not trainer.network.training:  # validation or a callback may have switched it
                trainer.network.train()
            with _explained_errors(trainer):
                for _ in range(n_steps):
                    evaluation = trainer.step()
                    means.add(evaluation)
                    bar.step()
                    if trainer.interrupt.requested:
                        break
            if checkpoint is not None and means.n < n_steps:
                checkpoint.write()  # the state before this epoch, which a resumed fit repeats
            _end_epoch(trainer, schedule, evaluation, means, start)
            terms = ["loss", *evaluation.terms.parts, "foscttm", "validation_score"]
            bar.epoch(trainer.trainings[0].rows[-1], terms)
            if checkpoint is not None and means.n == n_steps:
                checkpoint.keep(trainer, index)
                if schedule.checkpoint_every and trainer.epoch % schedule.checkpoint_every == 0:
                    checkpoint.write()
            if trainer.interrupt.requested:
                break
    if checkpoint is not None:
        checkpoint.write()
    trainer.write_back()
    for training in trainer.trainings:
        training.interrupted = trainer.interrupt.requested
        training.finish()
    return trainer.trainings


@contextmanager
def _explained_errors(trainer: Trainer) -> Iterator[None]:
    """Explain errors of a step that lack of rows or divergence has caused."""
    try:
        yield
    except (ArithmeticError, RuntimeError, ValueError) as error:
        if _BATCH_NORM_ERROR in str(error):
            raise ValueError(
                "Expected every step to see at least 2 rows of a view, because an encoder of your "
                f"own normalizes over them, but one saw a single row ({error}). Raise batch_size, "
                "or normalize each row, by torch.nn.LayerNorm."
            ) from error
        network, Xs = trainer.network, [] if trainer.batch is None else trainer.batch.Xs
        with torch.no_grad():
            Zs = network.latents(Xs) if Xs else []
            tensors = [*Zs, *trainer.objective.parameters()]
            if not all(bool(x.square().sum().isfinite()) for x in tensors):
                raise _divergence(trainer.epoch + 1, str(error)) from error
        raise


def _divergence(epoch: int, details: str) -> FloatingPointError:
    return FloatingPointError(
        f"The loss is no longer finite in epoch {epoch} ({details}). Lower learning_rate, or look "
        "for extreme values in the data."
    )


def _end_epoch(
    trainer: Trainer,
    schedule: Schedule,
    evaluation: Evaluation,
    epoch_means: RunningMeans,
    start: float,
) -> None:
    """Record an epoch of every training that has not stopped."""
    trainings, n = trainer.trainings, len(trainer.trainings)
    recorded: dict[str, list[float]] = {}
    if evaluation.latents:
        clouds = [Z.view(n, *Z.shape[-2:]) for Z in evaluation.latents]
        for name, values in zip(schedule.view_names, effective_ranks(clouds), strict=False):
            recorded[f"effective_rank_{name}"] = values
    if (plan := trainer.objective.coupling.plan) is not None:
        recorded["marginal_error"] = plan.marginal_error.expand(n).tolist()
    means = epoch_means.means(n)
    seconds = (time.perf_counter() - start) / n
    if schedule.callbacks or any(t.score or t.measure for t in trainings):
        trainer.write_back()
    trainer.epoch += 1
    for i, training in enumerate(trainings):
        if not training.stopped:
            more = {name: values[i] for name, values in recorded.items()}
            row = {"epoch": trainer.epoch, **means[i], **more}
            _record(training, row, seconds, schedule)
    if schedule.callbacks:
        trainer.take_over()


def _record(
    training: Training,
    row: dict[str, float],
    seconds: float,
    schedule: Schedule,
) -> None:
    """Validate the network, record the epoch, call the callbacks, and decide whether to stop."""
    if not abs(row["loss"]) < float("inf"):
        parts = [f"{name}: {x:.3g}" for name, x in row.items() if name not in ("epoch", "loss")]
        raise _divergence(int(row["epoch"]), ", ".join(parts))

    def validate() -> dict[str, float]:
        start = time.perf_counter()
        measured = {} if training.measure is None else training.measure()
        score = {} if training.score is None else {"validation_score": training.score()}
        return {**row, **measured, **score, "seconds": seconds + time.perf_counter() - start}

    def call_callbacks() -> bool:
        epoch = Epoch(int(row["epoch"]), dict(row), training.network, training.member)
        for callback in schedule.callbacks:
            callback(epoch)
        return bool(epoch.stop)

    row = on_rank_zero(validate)
    if training.score is not None:
        training.n_worse += 1
        if row["validation_score"] > training.best_score:
            training.best_score, training.n_worse = row["validation_score"], 0
            if schedule.patience is not None:
                training.keep_state()
    training.rows.append(row)
    stops = bool(schedule.callbacks) and on_rank_zero(call_callbacks)
    if schedule.callbacks and is_distributed():  # they may have changed the network
        state = broadcast(training.network.state_dict())
        training.network.load_state_dict(state)
    patience = schedule.patience
    training.stopped = stops or (patience is not None and training.n_worse >= patience)
    if training.stopped and not training.best_state:  # other trainings may go on
        training.keep_state()
