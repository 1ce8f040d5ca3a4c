"""State of a client between two messages, and its file."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._types import Array, IntArray
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.messages import Message
from hotview.federated.privacy import ReleaseRecord
from hotview.training.checkpoint import load_optimizer_state, optimizer_state

__all__ = ["ClientState", "read_client_state", "strip_prefix", "write_client_state"]

T = TypeVar("T")
_KIND = FileFormat(
    "hotview federated state", 1, "a state", "Delete it, and begin the training anew."
)
_ROWS = ("rows", "labeled", "linked")  # of a ClientUpdate
_JSON_FIELDS = (  # of a ClientState
    *("settings", "classes", "names", "session_id", "history", "request_digest", "releases"),
    *("budget", "table_fingerprint"),
)


@dataclass
class ClientState:
    """Everything of a training that the client keeps, except the state of its trainer.

    Parameters
    ----------
    settings : dict of str to object
        Settings of the training.
    classes : list
        Classes of the labels.
    names : list of str
        Names of all clients.
    session_id : str
        Id of the training.
    update : ClientUpdate
        The last update that was sent.
    references : ndarray or None
        References at that time.
    history : list of dict of str to float
        Terms of the loss by round.
    request_digest : str
        SHA-256 of the last request of a round.
    response : Message or None
        The response to it.
    releases : list of ReleaseRecord
        Releases of projections with noise, in earlier trainings and, last, in this one.
    budget : list of float, or None
        ε and δ of this training; None without privacy.
    shared_codes : ndarray of int64 or None
        Classes of linked rows, where the label holder shares them.
    table_fingerprint : str
        Fingerprint of the client's table.
    """

    settings: dict[str, Any]
    classes: list[Any]
    names: list[str]
    session_id: str = ""
    update: ClientUpdate = field(default_factory=ClientUpdate)
    references: Array | None = None
    history: list[dict[str, float]] = field(default_factory=list)
    request_digest: str = ""
    response: Message | None = None
    releases: list[ReleaseRecord] = field(default_factory=list)
    budget: list[float] | None = None
    shared_codes: IntArray | None = None
    table_fingerprint: str = ""

    @property
    def noise(self) -> float:
        """Noise multiplier; 0 without privacy."""
        return 0.0 if self.budget is None else self.releases[-1].noise

    def count_release(self) -> None:
        """Record one more release."""
        last = self.releases[-1]
        self.releases = [*self.releases[:-1], last._replace(n_releases=last.n_releases + 1)]


def write_client_state(path: Path, state: ClientState, trainer: LocalTrainer) -> None:
    """Write a state, completely or not at all.

    Parameters
    ----------
    path : Path
        The file.
    state : ClientState
        State of the client.
    trainer : LocalTrainer
        Its trainer, whose weights, optimizer and generators are written, too.
    """
    update, response = state.update, state.response
    tensors = {f"network.{k}": x for k, x in trainer.network.state_dict().items()}
    tensors |= {f"optimizer.{k}": x for k, x in optimizer_state(trainer.optimizer).items()}
    tensors |= {f"sent.{k}": x for k, x in update.sent.items()}
    arrays = {f"update.{k}": getattr(update, k) for k in _ROWS}
    for i, stream in enumerate(trainer.streams):
        arrays |= {f"stream.{i}.{k}": x for k, x in stream.state.items()}
    for name in ("references", "shared_codes"):
        if (x := getattr(state, name)) is not None:
            arrays[name] = x
    if response is not None:
        arrays |= {f"response.{k}": x for k, x in response.arrays.items()}
    facts = {name: getattr(state, name) for name in _JSON_FIELDS} | {
        "round": update.round,
        "response": None if response is None else response.metadata,
        "random": trainer.random.bit_generator.state,
    }
    tensors |= {k: torch.from_numpy(x) for k, x in arrays.items()}
    write_archive(path, _KIND, tensors, facts)


def read_client_state(path: Path) -> tuple[ClientState, Callable[[LocalTrainer], None]]:
    """Read the file that `write_client_state` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    state : ClientState
        State of the client.
    restore : callable
        Restores the state of a newly made trainer.
    """
    archive = read_archive(path, _KIND)
    tensors, facts = archive.tensors, archive.metadata
    arrays = {k: x.numpy() for k, x in tensors.items()}
    try:
        state = ClientState(
            **{name: facts[name] for name in _JSON_FIELDS},
            update=ClientUpdate(
                facts["round"],
                **{k: arrays[f"update.{k}"] for k in _ROWS},
                sent=strip_prefix(tensors, "sent."),
            ),
            references=arrays.get("references"),
            shared_codes=arrays.get("shared_codes"),
        )
        state.releases = [ReleaseRecord(*record) for record in state.releases]
        if facts["response"] is not None:
            state.response = Message("round", facts["response"], strip_prefix(arrays, "response."))
        random = facts["random"]
    except (KeyError, TypeError, ValueError) as error:
        raise _KIND.error(path, f"its parts do not fit ({error})") from error

    def restore(trainer: LocalTrainer) -> None:
        trainer.network.load_state_dict(strip_prefix(tensors, "network."))
        load_optimizer_state(trainer.optimizer, strip_prefix(tensors, "optimizer."))
        for i, stream in enumerate(trainer.streams):
            stream.state = strip_prefix(arrays, f"stream.{i}.")
        trainer.random.bit_generator.state = random
        trainer.network.eval()

    return state, restore


def strip_prefix(values: Mapping[str, T], prefix: str) -> dict[str, T]:
    """Return the values whose names have a prefix, by the rest of their names."""
    return {k.removeprefix(prefix): x for k, x in values.items() if k.startswith(prefix)}
