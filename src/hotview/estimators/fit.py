"""Fits, as a function: checked tables and parameters in, trained networks out."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import torch
from sklearn import config_context

from hotview.estimators.inputs import FitInputs, FitResult, Reading
from hotview.estimators.network_fit import NetworkFit
from hotview.training.batched import BatchedTrainer
from hotview.training.checkpoint import Checkpoint
from hotview.training.ddp import DDPTrainer
from hotview.training.loop import train
from hotview.training.process_group import ProcessGroup
from hotview.training.threads import suited_threads
from hotview.training.trainer import SingleTrainer, Trainer, Training

__all__ = ["fit_views"]


def fit_views(
    tasks: Sequence[FitInputs],
    *,
    null: bool = True,
    training: AbstractContextManager[None] | None = None,
    checkpoint: Checkpoint | None = None,
    ranks: ProcessGroup | None = None,
) -> list[FitResult]:
    """Train on checked tables with checked parameters.

    Parameters
    ----------
    tasks : sequence of FitInputs
        What to fit. Those whose networks have the same shape are trained together.
    null : bool, default=True
        Whether plans get a null to be read against.
    training : context manager or None, default=None
        Entered while networks are trained.
    checkpoint : Checkpoint or None, default=None
        Where to go on from, and what to write while networks are trained.
    ranks : ProcessGroup or None, default=None
        The processes that fit together; None is this one alone.

    Returns
    -------
    list of FitResult
        The networks in evaluation mode, and what was recorded.
    """
    ranks = ranks or ProcessGroup()
    fits = [NetworkFit(task, null=null, ranks=ranks) for task in tasks]
    # Inside, scikit-learn returns arrays, whatever the user wants to see of it.
    with (
        config_context(transform_output="default"),
        torch.inference_mode(False),  # the caller's mode must not keep us from learning
        torch.enable_grad(),
        fits[0].random.in_modules(fits[0].device),
    ):
        return _run(fits, training or nullcontext(), checkpoint, ranks)


def _run(
    fits: Sequence[NetworkFit],
    training: AbstractContextManager[None],
    checkpoint: Checkpoint | None,
    ranks: ProcessGroup,
) -> list[FitResult]:
    readings: dict[Hashable, Reading] = {}
    trainings = [fit.prepare(readings) for fit in fits]
    groups: dict[Hashable, list[int]] = {}
    for i, (fit, one) in enumerate(zip(fits, trainings, strict=True)):
        # Shared out among processes, replicas take their turns.
        kind = i if ranks.is_distributed else (fit.kind, one.shape)
        groups.setdefault(kind, []).append(i)
    trainers = [
        _make_trainer([trainings[i] for i in members], fits[members[0]], ranks)
        for members in groups.values()
    ]
    with training:
        for i, (members, trainer) in enumerate(zip(groups.values(), trainers, strict=True)):
            first, batch_size = fits[members[0]], trainer.trainings[0].sampler.batch_size
            schedule, saved = first.schedule, checkpoint
            if any(one.interrupted for one in trainings):
                # Ctrl-C stops all trainings; a resumed fit continues as if none had been stopped.
                schedule, saved = replace(schedule, max_epochs=1), None
            with suited_threads(trainer.network, batch_size, first.device):
                train(trainer, schedule, saved, i, ranks)
    fitted = []
    for fit in fits:
        with suited_threads(fit.training.network, fit.training.sampler.batch_size, fit.device):
            fitted.append(fit.finish())
    return fitted


def _make_trainer(
    trainings: Sequence[Training], fit: NetworkFit, ranks: ProcessGroup | None = None
) -> Trainer:
    if ranks is not None and ranks.is_distributed:
        return DDPTrainer(trainings[0], fit["learning_rate"], fit["precision"], ranks)
    own = any(f is not None for f in fit.encoders) or fit["coupling"].name is None
    own, on_gpu = own or fit["view_regularizer"].name is None, fit.device.type == "cuda"
    if len(trainings) == 1 and (own or not on_gpu):
        return SingleTrainer(trainings[0], fit["learning_rate"], fit["precision"])
    trainer = BatchedTrainer(trainings, fit["learning_rate"], fit["precision"])
    if on_gpu and fit.schedule.is_fixed:
        n_steps = fit.schedule.steps_per_epoch or trainings[0].sampler.n_steps
        trainer.draw_in_advance(fit.schedule.max_epochs * n_steps)
    return trainer
