"""Where a training stands, in a file from which it goes on as if it had never stopped."""

from __future__ import annotations

import glob
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview.training.batches import Sampler
from hotview.training.process_group import ProcessGroup
from hotview.training.recorder import History, Recorder, RunningMeans
from hotview.training.trainer import Trainer

__all__ = [
    "Checkpoint",
    "CheckpointSlot",
    "State",
    "TrainingState",
    "optimizer_state",
    "read_checkpoint",
    "set_optimizer",
    "share_progress",
]

_CHECKPOINT = FileFormat("hotview checkpoint", 1, "a checkpoint", "Delete it to begin anew.")


@dataclass
class TrainingState:
    """How far a team has come.

    Parameters
    ----------
    team : Trainer
        Who is trained.
    courses : list of Recorder
        What is recorded of every member.
    epoch : int, default=0
        Epochs that are over.
    step : int, default=0
        Steps that were taken since.
    sums : RunningMeans
        What these found.
    """

    team: Trainer
    courses: list[Recorder]
    epoch: int = 0
    step: int = 0
    sums: RunningMeans = field(default_factory=RunningMeans)

    @property
    def is_over(self) -> bool:
        """Whether every member has stopped."""
        return all(course.is_over for course in self.courses)


@dataclass(frozen=True)
class State:
    """Something as tensors, and facts that JSON can hold."""

    tensors: dict[str, Tensor]
    facts: dict[str, Any]


@dataclass
class Checkpoint:
    """The states of all teams of a fit, and the file that they are written to.

    Parameters
    ----------
    path : Path
        The file.
    facts : dict of str to object
        What tells this fit from others.
    teams : list of State
        Where the teams stand that have begun.
    seconds : float, default=0.0
        How long it took until the file was read.
    """

    path: Path
    facts: dict[str, Any]
    teams: list[State] = field(default_factory=list)
    seconds: float = 0.0
    start: float = field(default_factory=time.perf_counter)

    def write(self) -> None:
        """Write the file, whole or not at all."""
        tensors = {
            f"{i}.{name}": tensor
            for i, state in enumerate(self.teams)
            for name, tensor in state.tensors.items()
        }
        seconds = self.seconds + time.perf_counter() - self.start
        told = [state.facts for state in self.teams]
        facts = {**self.facts, "seconds": seconds, "teams": told}
        write_archive(self.path, _CHECKPOINT, tensors, facts)


def read_checkpoint(path: Path) -> Checkpoint:
    """Read a file that `Checkpoint.write` wrote, and clear away what a sudden end left beside it.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Checkpoint
        What it holds.
    """
    archive = read_archive(path, _CHECKPOINT)
    drafts = f".{glob.escape(path.stem)}-????????{glob.escape(path.suffix)}"  # as mkstemp has them
    for draft in path.parent.glob(drafts):
        draft.unlink(missing_ok=True)
    told, seconds = archive.metadata.pop("teams", None), archive.metadata.pop("seconds", 0.0)
    if not isinstance(told, list) or not all(isinstance(facts, dict) for facts in told):
        raise _CHECKPOINT.error(path, "it does not tell of any training")
    starts = [f"{i}." for i in range(len(told))]
    parts = [
        {k.removeprefix(start): x for k, x in archive.tensors.items() if k.startswith(start)}
        for start in starts
    ]
    teams = [State(tensors, facts) for tensors, facts in zip(parts, told, strict=True)]
    return Checkpoint(path, archive.metadata, teams, float(seconds))


@dataclass(frozen=True)
class CheckpointSlot:
    """The place of one team in a checkpoint."""

    checkpoint: Checkpoint
    number: int

    def save(self, progress: TrainingState) -> None:
        """Write down where the team stands, unless that is written already."""
        teams, n = self.checkpoint.teams, self.number
        if len(teams) > n:
            told = teams[n].facts
            if (told["epoch"], told["step"]) == (progress.epoch, progress.step):
                return
        teams[n:] = [_take_down(progress)]
        self.checkpoint.write()

    def restore(self, progress: TrainingState) -> None:
        """Let the team stand where it stood, if it had begun."""
        if len(self.checkpoint.teams) <= self.number:
            return
        self._check_members(progress)
        try:
            _put_back(progress, self.checkpoint.teams[self.number])
        except (AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
            reason = f"its parts do not fit ({str(error).splitlines()[0][:200]})"
            raise _CHECKPOINT.error(self.checkpoint.path, reason) from error

    def _check_members(self, progress: TrainingState) -> None:
        then = self.checkpoint.teams[self.number].facts.get("members")
        now = len(progress.team.members)
        if isinstance(then, list) and len(then) not in (0, now):
            raise ValueError(
                f"Expected {self.checkpoint.path} to be of a fit that trains {now} at a time, but "
                f"it is of one that trains {len(then)}: with strategy='ddp' replicas take turns, "
                "and without it they are trained together. Fit with the strategy of then, or with "
                "resume=False to begin anew."
            )


def share_progress(progress: TrainingState, ranks: ProcessGroup) -> None:
    """Let all processes stand where the first one stands, to the bit.

    Parameters
    ----------
    progress : TrainingState
        How far they have come.
    ranks : ProcessGroup
        The processes.
    """
    state = _take_down(progress) if ranks.is_first else State({}, {})
    tensors, facts = ranks.share(state.tensors), ranks.first(lambda: state.facts)
    _put_back(progress, State(tensors, facts))


def _take_down(progress: TrainingState) -> State:
    team, sums = progress.team, progress.sums
    tensors = {
        **_named("network", team.network.state_dict()),
        **_named("objective", team.objective.state_dict()),
        **_named("optimizer", optimizer_state(team.optimizer)),
        **_named("sums", sums.sums),
        **_named("modules", _global_generators(team)),
    }
    facts = {"epoch": progress.epoch, "step": progress.step, "terms": list(sums.sums)}
    members = []
    for r, (member, course) in enumerate(zip(team.members, progress.courses, strict=True)):
        tensors[f"generator.{r}"] = member.generator.get_state()
        tensors |= _named(f"stream.{r}", _streams(member.sampler))
        for m, kept in enumerate(course.kept):
            tensors |= _named(f"kept.{r}.{m}", kept)
        members.append({**_tell(course), "random": member.sampler.random.bit_generator.state})
    own = {name: tensor.detach().cpu().clone() for name, tensor in tensors.items()}
    return State(own, {**facts, "members": members})


def _put_back(progress: TrainingState, state: State) -> None:
    team, tensors, facts = progress.team, state.tensors, state.facts
    device = _device(team)
    team.network.load_state_dict(_part(tensors, "network"))
    # Averages of costs are not copied, but taken as they are, from where they are.
    team.objective.load_state_dict(_part(tensors, "objective", device))
    set_optimizer(team.optimizer, _part(tensors, "optimizer"))
    _set_global_generators(team, _part(tensors, "modules"))
    progress.epoch, progress.step = int(facts["epoch"]), int(facts["step"])
    progress.sums.n = progress.step
    progress.sums.sums = {name: tensors[f"sums.{name}"].to(device) for name in facts["terms"]}
    each = zip(team.members, progress.courses, facts["members"], strict=True)
    for r, (member, course, told) in enumerate(each):
        member.generator.set_state(tensors[f"generator.{r}"])
        _set_streams(member.sampler, _part(tensors, f"stream.{r}"))
        member.sampler.random.bit_generator.state = told["random"]
        kept = [_part(tensors, f"kept.{r}.{m}", device) for m in range(told["n_kept"])]
        _set_course(course, told, kept)


def _named(start: str, tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {f"{start}.{name}": tensor for name, tensor in tensors.items()}


def _part(
    tensors: Mapping[str, Tensor], start: str, device: torch.device | str = "cpu"
) -> dict[str, Tensor]:
    n = len(start) + 1
    return {name[n:]: x.to(device) for name, x in tensors.items() if name.startswith(f"{start}.")}


def _tell(course: Recorder) -> dict[str, Any]:
    return {
        "history": list(course.outcome.history),
        "is_over": course.is_over,
        "best": course.best,
        "n_worse": course.n_worse,
        "n_kept": len(course.kept),
    }


def _set_course(course: Recorder, told: Mapping[str, Any], kept: list[dict[str, Tensor]]) -> None:
    course.outcome.history = History(told["history"])
    course.last_row = told["history"][-1] if told["history"] else {}
    course.is_over, course.best, course.n_worse = told["is_over"], told["best"], told["n_worse"]
    course.kept = list(kept)


def optimizer_state(optimizer: torch.optim.Optimizer | None) -> dict[str, Tensor]:
    """What an optimizer knows of its parameters, as tensors by name."""
    if optimizer is None:
        return {}
    state = optimizer.state_dict()["state"]
    return {f"{i}.{name}": value for i, one in state.items() for name, value in one.items()}


def set_optimizer(optimizer: torch.optim.Optimizer | None, tensors: dict[str, Tensor]) -> None:
    """Let an optimizer go on from what `optimizer_state` told."""
    if optimizer is None:
        return
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        i, name = key.split(".", 1)
        state.setdefault(int(i), {})[name] = value
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})


def _streams(sampler: Sampler) -> dict[str, Tensor]:
    """What is left of the order of rows, stream by stream."""
    states = {j: stream.state for j, stream in enumerate(sampler.streams) if stream is not None}
    return {
        f"{j}.{name}" if name else str(j): torch.from_numpy(numbers)
        for j, state in states.items()
        for name, numbers in state.items()
    }


def _set_streams(sampler: Sampler, tensors: Mapping[str, Tensor]) -> None:
    for j, stream in enumerate(sampler.streams):
        if stream is not None:
            more = _part(tensors, str(j))
            stream.state = {"": tensors[str(j)].numpy(), **{k: x.numpy() for k, x in more.items()}}


def _global_generators(team: Trainer) -> dict[str, Tensor]:
    """States of torch's own generators, which dropout draws from."""
    states = {"cpu": torch.get_rng_state()}
    if (device := _device(team)).type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    return states


def _set_global_generators(team: Trainer, states: Mapping[str, Tensor]) -> None:
    torch.set_rng_state(states["cpu"])
    if (device := _device(team)).type == "cuda":
        torch.cuda.set_rng_state(states["cuda"], device)


def _device(team: Trainer) -> torch.device:
    views: Sequence[Any] = team.members[0].sampler.data.views
    device: torch.device = views[0].device
    return device
