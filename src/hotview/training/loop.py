"""Training: epochs of steps, until they are over or somebody ends them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import ExitStack

import torch

from hotview.losses.objective import Evaluation, Objective
from hotview.training.checkpoint import CheckpointSlot, TrainingState, share_progress
from hotview.training.effective_rank import effective_ranks
from hotview.training.process_group import Interrupt, ProcessGroup
from hotview.training.progress import ProgressBar
from hotview.training.recorder import (
    Epoch,
    Recorder,
    RunningMeans,
    Schedule,
    TrainingResult,
    diverged,
)
from hotview.training.trainer import SingleTrainer, Trainer, Training, make_optimizer, train_step

__all__ = [
    "Epoch",
    "Schedule",
    "SingleTrainer",
    "Trainer",
    "Training",
    "TrainingResult",
    "make_optimizer",
    "train",
    "train_step",
]


_TOO_FEW = "more than 1 value per channel"  # of torch's batch norm


def train(
    team: Trainer,
    schedule: Schedule,
    place: CheckpointSlot | None = None,
    replicas: Sequence[int] | None = None,
    ranks: ProcessGroup | None = None,
) -> list[TrainingResult]:
    """Train until the epochs are over, callbacks or patience end it, or Ctrl-C is pressed.

    Parameters
    ----------
    team : Trainer
        What is trained. A member that is to stop keeps the weights that it has then.
    schedule : Schedule
        How long, and who is told.
    place : CheckpointSlot or None, default=None
        The team's place in a checkpoint, to go on from and to save to; None makes none.
    replicas : sequence of int or None, default=None
        Which replica of its estimator every member is; None counts them.
    ranks : ProcessGroup or None, default=None
        The processes that take every step together, of which the first one saves, scores and calls
        back; None is this one alone.

    Returns
    -------
    list of TrainingResult
        One per member, whose network is then in evaluation mode.
    """
    ranks = ranks or ProcessGroup()
    n_steps = schedule.steps(team.members[0].sampler.n_steps)
    numbers = range(len(team.members)) if replicas is None else replicas
    pairs = zip(numbers, team.members, strict=True)
    courses = [Recorder(number, member, schedule, ranks) for number, member in pairs]
    progress = TrainingState(team, courses)
    ranks.first(lambda: _go_on(progress, place, schedule))
    if ranks.is_shared:
        share_progress(progress, ranks)
    with (
        ranks.listen() as interrupt,
        ProgressBar(schedule.max_epochs * n_steps, shown=schedule.verbose) as bar,
        ExitStack() as after,
    ):
        for member in team.members:  # whose reading ahead ends with the training, however it does
            after.callback(member.sampler.close)
        bar.step(progress.epoch * n_steps + progress.step)
        while progress.epoch < schedule.max_epochs and not progress.is_over:
            start = time.perf_counter()
            evaluation = _take_steps(progress, n_steps, interrupt, bar)
            is_whole = progress.step == n_steps
            if place is not None and not is_whole:
                place.save(progress)  # before the epoch counts, so that the rest of it can follow
            _end_epoch(progress, schedule, evaluation, start)
            bar.epoch(courses[0].last_row, ["loss", *evaluation.terms.parts, "validation_score"])
            due = schedule.saves_after(progress.epoch) or interrupt.asked
            if place is not None and is_whole and due:
                place.save(progress)
            if interrupt.asked:
                break
    if place is not None and not interrupt.asked:
        place.save(progress)
    team.write_back()
    for course in courses:
        course.end(interrupted=interrupt.asked)
    return [course.outcome for course in courses]


def _go_on(progress: TrainingState, place: CheckpointSlot | None, schedule: Schedule) -> None:
    """Stand where the checkpoint stands, if there is one."""
    if place is None:
        return
    place.restore(progress)
    if progress.epoch > schedule.max_epochs:
        raise ValueError(
            f"Expected max_epochs to be at least {progress.epoch}, because the checkpoint has come "
            f"that far, but it is {schedule.max_epochs}. Raise it, or begin anew."
        )


def _take_steps(
    progress: TrainingState, n_steps: int, interrupt: Interrupt, bar: ProgressBar
) -> Evaluation:
    """The steps of an epoch, or those that are left of it; the last of them is returned."""
    if not progress.team.network.training:  # which validation, or a callback, may have ended
        progress.team.network.train()
    while True:
        evaluation = _explained_step(progress.team, progress.epoch + 1)
        progress.sums.add(evaluation)
        progress.step += 1
        bar.step()
        if interrupt.asked or progress.step == n_steps:
            return evaluation


def _end_epoch(
    progress: TrainingState, schedule: Schedule, evaluation: Evaluation, start: float
) -> None:
    """Record an epoch, and show it to those who look."""
    team, courses = progress.team, progress.courses
    rows = progress.sums.means(len(courses))
    watched = _watch(evaluation, team.objective, schedule.view_names, len(courses))
    seconds = (time.perf_counter() - start) / len(courses)
    if any(course.is_watched for course in courses):
        team.write_back()
    progress.epoch, progress.step, progress.sums = progress.epoch + 1, 0, RunningMeans()
    for course, row, more in zip(courses, rows, watched, strict=True):
        course.end_epoch({"epoch": progress.epoch, **row, **more}, seconds)
    if schedule.callbacks:
        team.take_over()


def _explained_step(team: Trainer, epoch: int) -> Evaluation:
    """Take a step; where it fails because something has become too large, say so."""
    try:
        return team.step()
    except (ArithmeticError, RuntimeError, ValueError) as error:
        if _TOO_FEW in str(error):
            raise ValueError(
                "Expected every step to see at least 2 rows of a view, because an encoder of your "
                f"own normalizes over them, but one saw a single row ({error}). Raise batch_size, "
                "or normalize each row, by torch.nn.LayerNorm."
            ) from error
        with torch.no_grad():
            Zs = (
                [] if team.batch is None else team.network.embed(team.network.encode(team.batch.Xs))
            )
            clouds = [*Zs, *team.objective.parameters()]
            if not all(bool(cloud.square().sum().isfinite()) for cloud in clouds):
                raise diverged(epoch, str(error)) from error
        raise


def _watch(
    evaluation: Evaluation, objective: Objective, view_names: Sequence[str], n_members: int
) -> list[dict[str, float]]:
    """What is recorded beside the loss of every member: its views' ranks and its plan's error."""
    watched: dict[str, list[float]] = {}
    if evaluation.latents:
        clouds = [Z.view(n_members, *Z.shape[-2:]) for Z in evaluation.latents]
        ranks = zip(view_names, effective_ranks(clouds), strict=False)
        watched = {f"effective_rank_{name}": values for name, values in ranks}
    if (plan := objective.coupling.plan) is not None:
        watched["marginal_error"] = plan.marginal_error.expand(n_members).tolist()
    return [{name: values[i] for name, values in watched.items()} for i in range(n_members)]
