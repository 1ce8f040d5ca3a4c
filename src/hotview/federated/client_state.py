"""Where an organization stands between two messages, in a file of its own."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._archive import Kind, read_archive, write_archive
from hotview._types import Array, IntArray
from hotview.federated.local_trainer import Learner, Report
from hotview.federated.messages import Message
from hotview.federated.privacy import Releases
from hotview.training.checkpoint import optimizer_state, set_optimizer

__all__ = ["Standing", "read_standing", "write_standing"]

_KIND = Kind("hotview federated state", 1, "a state", "Delete it, and begin the training anew.")
_PICKS = ("rows", "own", "linked")


@dataclass
class Standing:
    """Everything that must outlive a process.

    Parameters
    ----------
    settings : dict of str to object
        Of the federation.
    classes : list
        Of the labels.
    names : list of str
        All organizations.
    federation : str
        By which one training is told from another.
    report : Report
        What was sent last.
    references : ndarray or None
        The references of then.
    history : list of dict of str to float
        Parts of the loss, round by round.
    asked : str
        Digest of the last message of a round.
    answer : Message or None
        What was answered.
    releases : list of Releases
        How often projections were sent with noise, in earlier trainings and in this one.
    budget : list of float, or None
        ε and δ that this training was begun with, if any.
    shared : ndarray of int64 or None
        Classes of linked individuals, where the label holder shares them.
    table : str
        Fingerprint of the organization's table.
    """

    settings: dict[str, Any]
    classes: list[Any]
    names: list[str]
    federation: str = ""
    report: Report = field(default_factory=Report)
    references: Array | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    asked: str = ""
    answer: Message | None = None
    releases: list[Releases] = field(default_factory=list)
    budget: list[float] | None = None
    shared: IntArray | None = None
    table: str = ""

    @property
    def noise(self) -> float:
        """Multiplier of the noise; 0 without."""
        return 0.0 if self.budget is None else self.releases[-1].noise

    @property
    def n_releases(self) -> int:
        """How often projections were sent with noise in this training."""
        return 0 if self.budget is None else self.releases[-1].times

    def count_release(self) -> None:
        """Projections are sent once more."""
        last = self.releases[-1]
        self.releases = [*self.releases[:-1], last._replace(times=last.times + 1)]

    def put_back(self, learner: Learner, tensors: Mapping[str, Tensor]) -> None:
        """Let a learner stand where it stood.

        Parameters
        ----------
        learner : Learner
            Newly made.
        tensors : dict of str to Tensor
            From `read_standing`.
        """
        learner.network.load_state_dict(_part(tensors, "network."))
        set_optimizer(learner.optimizer, _part(tensors, "optimizer."))
        for i, stream in enumerate(learner.streams):
            state = _part(tensors, f"stream.{i}.")
            stream.state = {name.removeprefix("_"): x.numpy() for name, x in state.items()}
        learner.random.bit_generator.state = self._random
        learner.network.eval()

    _random: Any = None


def write_standing(path: Path, standing: Standing, learner: Learner) -> None:
    """Write the file, whole or not at all.

    Parameters
    ----------
    path : Path
        Where to.
    standing : Standing
        Where the organization stands.
    learner : Learner
        Whose weights, optimizer and generator belong to it.
    """
    report = standing.report
    tensors = {f"network.{k}": x for k, x in learner.network.state_dict().items()}
    tensors |= {f"optimizer.{k}": x for k, x in optimizer_state(learner.optimizer).items()}
    for i, stream in enumerate(learner.streams):
        named = {f"stream.{i}._{k}": torch.from_numpy(x) for k, x in stream.state.items()}
        tensors |= named
    tensors |= {f"pick.{k}": torch.from_numpy(getattr(report, k)) for k in _PICKS}
    tensors |= {f"sent.{k}": x for k, x in report.sent.items()}
    if standing.references is not None:
        tensors["references"] = torch.from_numpy(standing.references)
    if standing.shared is not None:
        tensors["shared"] = torch.from_numpy(standing.shared)
    answer = standing.answer
    if answer is not None:
        tensors |= {f"answer.{k}": torch.from_numpy(x) for k, x in answer.arrays.items()}
    facts = {
        "settings": standing.settings,
        "classes": standing.classes,
        "names": standing.names,
        "federation": standing.federation,
        "round": report.round,
        "history": standing.history,
        "asked": standing.asked,
        "answer": None if answer is None else answer.facts,
        "releases": standing.releases,
        "budget": standing.budget,
        "table": standing.table,
        "random": learner.random.bit_generator.state,
    }
    write_archive(path, _KIND, tensors, facts)


def read_standing(path: Path) -> tuple[Standing, dict[str, Tensor]]:
    """Read the file that `write_standing` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    Standing
        Where the organization stands.
    dict of str to Tensor
        For `Standing.put_back`.
    """
    archive = read_archive(path, _KIND)
    tensors, facts = archive.tensors, archive.facts
    try:
        picks = {k: tensors[f"pick.{k}"].numpy() for k in _PICKS}
        report = Report(facts["round"], **picks, sent=_part(tensors, "sent."))
        references = tensors.get("references")
        answer = None
        if facts["answer"] is not None:
            arrays = {k: x.numpy() for k, x in _part(tensors, "answer.").items()}
            answer = Message("round", facts["answer"], arrays)
        standing = Standing(
            facts["settings"],
            facts["classes"],
            facts["names"],
            facts["federation"],
            report,
            None if references is None else np.asarray(references.numpy()),
            facts["history"],
            facts["asked"],
            answer,
            [Releases(*told) for told in facts["releases"]],
            facts["budget"],
            tensors["shared"].numpy() if "shared" in tensors else None,
            facts["table"],
        )
        standing._random = facts["random"]
    except (KeyError, TypeError, ValueError) as error:
        raise _KIND.refuse(path, f"its parts do not fit ({error})") from error
    return standing, tensors


def _part(tensors: Mapping[str, Tensor], start: str) -> dict[str, Tensor]:
    return {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}
