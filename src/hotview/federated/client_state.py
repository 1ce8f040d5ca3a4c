"""State of a client between two messages, and files of states."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode
from hotview._types import Array, IntArray
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.messages import Message
from hotview.federated.privacy import ReleaseRecord
from hotview.training.trainer_state import load_optimizer_state, optimizer_state

__all__ = ["ClientState", "read_client_state", "read_state", "write_client_state", "write_state"]

T = TypeVar("T")
_FORMAT = FileFormat(
    "hotview federated state", 1, "a state", "Delete it, and begin the training anew."
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
    history: list[dict[str, Any]] = field(default_factory=list)
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
        *before, last = self.releases
        self.releases = [*before, replace(last, n_releases=last.n_releases + 1)]


@dataclass(frozen=True)
class _StateFile:
    """Content of the file of a client: its state, and the state of its trainer."""

    client: ClientState
    network: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    streams: list[dict[str, Array]]
    random: dict[str, Any]


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
    content = _StateFile(
        state,
        trainer.network.state_dict(),
        optimizer_state(trainer.optimizer),
        [stream.state for stream in trainer.streams],
        dict(trainer.random.bit_generator.state),
    )
    write_state(path, _FORMAT, content)


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
    content = read_state(path, _FORMAT, _StateFile)

    def restore(trainer: LocalTrainer) -> None:
        trainer.network.load_state_dict(content.network)
        load_optimizer_state(trainer.optimizer, content.optimizer)
        for stream, state in zip(trainer.streams, content.streams, strict=True):
            stream.state = state
        trainer.random.bit_generator.state = content.random
        trainer.network.eval()

    return content.client, restore


def write_state(path: Path, format: FileFormat, content: Any) -> None:
    """Write a dataclass, completely or not at all.

    Parameters
    ----------
    path : Path
        The file.
    format : FileFormat
        Its format.
    content : dataclass
        Values whose annotations `hotview._codec` can encode.
    """
    tensors: dict[str, Tensor] = {}
    values = encode(type(content), content, tensors)
    write_archive(path, format, tensors, {"content": values})


def read_state(path: Path, format: FileFormat, kind: type[T]) -> T:
    """Read the file that `write_state` wrote.

    Parameters
    ----------
    path : Path
        The file.
    format : FileFormat
        Its expected format.
    kind : type
        The dataclass that it must hold.

    Returns
    -------
    object
        The dataclass, whose values have the annotated types.
    """
    archive = read_archive(path, format)
    try:
        content: T = decode(kind, archive.metadata.get("content"), archive.tensors)
    except ValueError as error:
        raise format.error(path, f"its parts do not fit ({error})") from error
    return content
