"""Training: the only place with ``backward()`` and ``step()``."""

from __future__ import annotations

import copy
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor

from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.batches import Sampler
from hotview.training.history import History
from hotview.training.interrupt import Interrupt
from hotview.training.progress import ProgressBar
from hotview.training.rank import effective_ranks

__all__ = [
    "Alone",
    "Epoch",
    "Outcome",
    "Schedule",
    "Team",
    "Training",
    "make_optimizer",
    "train",
    "train_step",
]


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
    """

    max_epochs: int
    steps_per_epoch: int | None = None
    patience: int | None = None
    callbacks: Sequence[Callable[[Epoch], Any]] = ()
    view_names: Sequence[str] = ()
    verbose: bool = False

    @property
    def is_fixed(self) -> bool:
        """Whether all epochs will be trained, unless Ctrl-C is pressed."""
        return self.patience is None and len(self.callbacks) == 0

    def steps(self, team: Team) -> int:
        """Steps of an epoch."""
        return self.steps_per_epoch or team.members[0].sampler.n_steps


@dataclass
class Outcome:
    """What a training left behind, beside the trained network."""

    history: History = field(default_factory=History)
    interrupted: bool = False


@dataclass
class Training:
    """Everything one training works on.

    Parameters
    ----------
    network : MultiViewNetwork
        What is trained.
    objective : Objective
        What is minimized.
    sampler : Sampler
        Which rows each step sees.
    generator : torch.Generator
        Source of the directions.
    score : callable or None
        Validation score of the network as it is.
    """

    network: MultiViewNetwork
    objective: Objective
    sampler: Sampler
    generator: torch.Generator
    score: Callable[[], float] | None = None

    @property
    def modules(self) -> list[torch.nn.Module]:
        """Whatever holds parameters."""
        return [self.network, self.objective]


class Team(Protocol):
    """One training, or several that take their steps together."""

    members: list[Training]
    #: what the last step saw
    batch: Batch | None

    @property
    def network(self) -> MultiViewNetwork:
        """Networks of all members."""

    @property
    def objective(self) -> Objective:
        """Objectives of all members."""

    def step(self) -> Evaluation:
        """Let every member take a step."""

    def write_back(self) -> None:
        """Let every member's own network and objective be what the team has learned."""

    def take_over(self) -> None:
        """Let the team go on from what was changed in the members' own networks."""


class Alone:
    """A team of one, which takes its steps by itself.

    Parameters
    ----------
    training : Training
        The one.
    learning_rate : float
        Of Adam.
    """

    def __init__(self, training: Training, learning_rate: float) -> None:
        self.members = [training]
        self.batch: Batch | None = None
        self.network, self.objective = training.network, training.objective
        self.optimizer = make_optimizer(training.modules, learning_rate)

    def step(self) -> Evaluation:
        """Take a step."""
        one = self.members[0]
        self.batch = one.sampler.draw()
        return train_step(one.network, one.objective, self.optimizer, self.batch, one.generator)

    def write_back(self) -> None:
        """Nothing: the network is the member's own."""

    def take_over(self) -> None:
        """Nothing, for the same reason."""


def make_optimizer(
    modules: Sequence[torch.nn.Module], learning_rate: float
) -> torch.optim.Optimizer | None:
    """Adam on all parameters of the modules, fused where torch can; None without parameters."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    if not parameters:
        return None
    on_gpu = parameters[0].device.type == "cuda"
    try:
        return torch.optim.Adam(parameters, lr=learning_rate, fused=True, capturable=on_gpu)
    except RuntimeError:  # a device that has no fused kernel
        return torch.optim.Adam(parameters, lr=learning_rate)


def train_step(
    network: MultiViewNetwork,
    objective: Objective,
    optimizer: torch.optim.Optimizer | None,
    batch: Batch,
    generator: torch.Generator | None,
) -> Evaluation:
    """Evaluate the objective on a batch, and take one step down its gradient.

    Replicas do not know each other, so the gradient of their sum is that of each.
    """
    evaluation = objective(network, batch, generator=generator)
    loss = evaluation.terms.total
    if optimizer is not None and loss.requires_grad:  # no term, no step
        optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        optimizer.step()
    assert isinstance(evaluation, Evaluation)
    return evaluation


def train(team: Team, schedule: Schedule) -> list[Outcome]:
    """Train until the epochs are over, callbacks or patience end it, or Ctrl-C is pressed.

    Parameters
    ----------
    team : Team
        What is trained. A member that is to stop keeps the weights that it has then.
    schedule : Schedule
        How long, and who is told.

    Returns
    -------
    list of Outcome
        One per member, whose network is then in evaluation mode.
    """
    n_steps = schedule.steps(team)
    courses = [_Course(i, member, schedule) for i, member in enumerate(team.members)]
    bar = ProgressBar(schedule.max_epochs * n_steps, shown=schedule.verbose)
    with Interrupt() as interrupt, bar:
        for number in range(1, schedule.max_epochs + 1):
            start = time.perf_counter()
            sums = _Sums()
            team.network.train()  # which validation, or a callback, may have ended
            for _ in range(n_steps):
                evaluation = _explained_step(team, number)
                sums.add(evaluation)
                bar.step()
                if interrupt.asked:
                    break
            rows = sums.means(len(courses))
            watched = _watch(evaluation, team.objective, schedule.view_names, len(courses))
            seconds = (time.perf_counter() - start) / len(courses)
            if any(course.is_watched for course in courses):
                team.write_back()
            for course, row, more in zip(courses, rows, watched, strict=True):
                course.end_epoch({"epoch": number, **row, **more}, seconds)
            if schedule.callbacks:
                team.take_over()
            bar.epoch(courses[0].last_row, ["loss", *evaluation.terms.parts, "validation_score"])
            if interrupt.asked or all(course.is_over for course in courses):
                break
    team.write_back()
    for course in courses:
        course.end(interrupted=interrupt.asked)
    return [course.outcome for course in courses]


def _explained_step(team: Team, epoch: int) -> Evaluation:
    """Take a step; where it fails because something has become too large, say so."""
    try:
        return team.step()
    except (ArithmeticError, RuntimeError, ValueError) as error:
        with torch.no_grad():
            Zs = (
                [] if team.batch is None else team.network.embed(team.network.encode(team.batch.Xs))
            )
            clouds = [*Zs, *team.objective.parameters()]
            if not all(bool(cloud.square().sum().isfinite()) for cloud in clouds):
                raise _diverged(epoch, str(error)) from error
        raise


def _diverged(epoch: int, what: str) -> FloatingPointError:
    return FloatingPointError(
        f"The loss is no longer finite in epoch {epoch} ({what}). Lower learning_rate, or look for "
        "extreme values in the data."
    )


class _Sums:
    """Terms added over the steps of an epoch, on the device, so that no step waits."""

    def __init__(self) -> None:
        self.n, self.sums = 0, dict[str, Tensor]()

    def add(self, evaluation: Evaluation) -> None:
        self.n += 1
        for name, part in evaluation.terms.parts.items():
            part = part.detach()
            self.sums[name] = self.sums[name] + part if name in self.sums else part.clone()

    def means(self, n_members: int) -> list[dict[str, float]]:
        parts: dict[str, list[float]] = {}
        if self.sums:
            totals = torch.stack([total.expand(n_members) for total in self.sums.values()])
            parts = dict(zip(self.sums, (totals / self.n).tolist(), strict=True))
        rows = [{name: values[i] for name, values in parts.items()} for i in range(n_members)]
        return [{"loss": sum(row.values()), **row} for row in rows]


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


class _Course:
    """What becomes of one member: its history, its best weights, and whether it has stopped."""

    def __init__(self, number: int, member: Training, schedule: Schedule) -> None:
        self.number, self.member, self.schedule = number, member, schedule
        self.outcome, self.is_over = Outcome(), False
        self.last_row: dict[str, float] = {}
        self._best, self._n_worse = -float("inf"), 0
        self._kept: list[dict[str, Any]] = []

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
            raise _diverged(int(row["epoch"]), ", ".join(parts))
        start = time.perf_counter()
        if self.member.score is not None:
            row["validation_score"] = self.member.score()
            self._compare(row["validation_score"])
        row["seconds"] = seconds + time.perf_counter() - start
        self.last_row = row
        self.outcome.history._append(row)
        epoch = Epoch(int(row["epoch"]), dict(row), self.member.network, self.number)
        for callback in self.schedule.callbacks:
            callback(epoch)
        patience = self.schedule.patience
        self.is_over = epoch.stop or (patience is not None and self._n_worse >= patience)
        if self.is_over and not self._kept:  # others may go on
            self._keep()

    def end(self, *, interrupted: bool) -> None:
        """Go back to the weights that are to be kept, and stop learning."""
        self.outcome.interrupted = interrupted
        for module, state in zip(self.member.modules, self._kept, strict=False):  # none: the last
            module.load_state_dict(state)
        self.member.network.eval()

    def _compare(self, score: float) -> None:
        if score > self._best:
            self._best, self._n_worse = score, 0
            if self.schedule.patience is not None:
                self._keep()
        else:
            self._n_worse += 1

    def _keep(self) -> None:
        self._kept = copy.deepcopy([module.state_dict() for module in self.member.modules])
