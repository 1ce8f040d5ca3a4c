"""Training: the only place with ``backward()`` and ``step()``."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.batches import Sampler
from hotview.training.history import History
from hotview.training.interrupt import Interrupt
from hotview.training.progress import ProgressBar
from hotview.training.rank import effective_rank

__all__ = ["Epoch", "Outcome", "Schedule", "make_optimizer", "train", "train_step"]


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
        The network as it is now; not a copy.
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
    score : callable or None
        Validation score of the network as it is.
    callbacks : sequence of callables
        Called with an `Epoch` after each.
    view_names : sequence of str
        Names for what is recorded per view.
    verbose : bool
        Whether progress is shown.
    """

    max_epochs: int
    steps_per_epoch: int | None = None
    patience: int | None = None
    score: Callable[[], float] | None = None
    callbacks: Sequence[Callable[[Epoch], Any]] = ()
    view_names: Sequence[str] = ()
    verbose: bool = False


@dataclass
class Outcome:
    """What a training left behind, beside the trained network."""

    history: History = field(default_factory=History)
    interrupted: bool = False


def make_optimizer(
    modules: Sequence[torch.nn.Module], learning_rate: float
) -> torch.optim.Optimizer | None:
    """Adam on all parameters of the modules, fused where torch can; None without parameters."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    if not parameters:
        return None
    try:
        return torch.optim.Adam(parameters, lr=learning_rate, fused=True)
    except RuntimeError:  # a device that has no fused kernel
        return torch.optim.Adam(parameters, lr=learning_rate)


def train_step(
    network: MultiViewNetwork,
    objective: Objective,
    optimizer: torch.optim.Optimizer | None,
    batch: Batch,
    generator: torch.Generator,
) -> Evaluation:
    """Evaluate the objective on a batch, and take one step down its gradient."""
    evaluation = objective(network, batch, generator=generator)
    loss = evaluation.terms.total
    if optimizer is not None and loss.requires_grad:  # no term, no step
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    assert isinstance(evaluation, Evaluation)
    return evaluation


def train(
    network: MultiViewNetwork,
    objective: Objective,
    sampler: Sampler,
    generator: torch.Generator,
    learning_rate: float,
    schedule: Schedule,
) -> Outcome:
    """Train until the epochs are over, a callback or patience ends it, or Ctrl-C is pressed."""
    optimizer = make_optimizer([network, objective], learning_rate)
    n_steps = schedule.steps_per_epoch or sampler.n_steps
    outcome, best = Outcome(), _Best(schedule.patience, [network, objective])
    bar = ProgressBar(schedule.max_epochs * n_steps, shown=schedule.verbose)
    with Interrupt() as interrupt, bar:
        for number in range(1, schedule.max_epochs + 1):
            start = time.perf_counter()
            sums = _Sums()
            network.train()  # which validation, or a callback, may have ended
            for _ in range(n_steps):
                batch = sampler.draw()
                try:
                    evaluation = train_step(network, objective, optimizer, batch, generator)
                except (ArithmeticError, RuntimeError, ValueError) as error:
                    _explain_divergence(error, network, objective, batch, number)
                    raise
                sums.add(evaluation)
                bar.step()
                if interrupt.asked:
                    break
            row: dict[str, float] = {"epoch": number, **sums.means(number)}
            row |= _watch(evaluation, objective, schedule.view_names)
            if schedule.score is not None:
                row["validation_score"] = best.see(schedule.score())
            row["seconds"] = time.perf_counter() - start
            outcome.history._append(row)
            bar.epoch(row, ["loss", *evaluation.terms.parts, "validation_score"])
            epoch = Epoch(number, dict(row), network)
            for callback in schedule.callbacks:
                callback(epoch)
            outcome.interrupted = interrupt.asked
            if epoch.stop or outcome.interrupted or best.is_over:
                break
    best.restore()
    network.eval()
    return outcome


def _diverged(epoch: int, what: str) -> FloatingPointError:
    return FloatingPointError(
        f"The loss is no longer finite in epoch {epoch} ({what}). Lower learning_rate, or look for "
        "extreme values in the data."
    )


def _explain_divergence(
    error: Exception, network: MultiViewNetwork, objective: Objective, batch: Batch, epoch: int
) -> None:
    """Where a step failed because latents or references have become too large, say so."""
    with torch.no_grad():
        clouds = [*network.embed(network.encode(batch.Xs)), *objective.parameters()]
    if not all(bool(cloud.square().sum().isfinite()) for cloud in clouds):
        raise _diverged(epoch, str(error)) from error


class _Sums:
    """Terms added over the steps of an epoch, on the device, so that no step waits."""

    def __init__(self) -> None:
        self.n, self.sums = 0, dict[str, Tensor]()

    def add(self, evaluation: Evaluation) -> None:
        self.n += 1
        for name, part in evaluation.terms.parts.items():
            part = part.detach()
            self.sums[name] = self.sums[name] + part if name in self.sums else part

    def means(self, epoch: int) -> dict[str, float]:
        parts = {name: float(total) / self.n for name, total in self.sums.items()}
        loss = sum(parts.values())
        if not abs(loss) < float("inf"):
            raise _diverged(epoch, ", ".join(f"{name}: {x:.3g}" for name, x in parts.items()))
        return {"loss": loss, **parts}


def _watch(
    evaluation: Evaluation, objective: Objective, view_names: Sequence[str]
) -> dict[str, float]:
    """What is recorded beside the loss: the views' ranks and the plan's error."""
    pairs = zip(view_names, evaluation.latents, strict=False)
    row = {f"effective_rank_{name}": effective_rank(Z) for name, Z in pairs}
    if objective.coupling.plan is not None:
        row["marginal_error"] = float(objective.coupling.plan.marginal_error)
    return row


class _Best:
    """The weights with the best validation score, where that decides when to stop."""

    def __init__(self, patience: int | None, modules: Sequence[torch.nn.Module]) -> None:
        self.patience, self.modules = patience, modules
        self.score, self.n_worse = -float("inf"), 0
        self.states: list[dict[str, Any]] = []

    def see(self, score: float) -> float:
        if score > self.score:
            self.score, self.n_worse = score, 0
            if self.patience is not None:
                self.states = copy.deepcopy([module.state_dict() for module in self.modules])
        else:
            self.n_worse += 1
        return score

    @property
    def is_over(self) -> bool:
        return self.patience is not None and self.n_worse >= self.patience

    def restore(self) -> None:
        for module, state in zip(self.modules, self.states, strict=False):  # none: no patience
            module.load_state_dict(state)
