"""State of a client between two messages, and files of states."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require
from hotview._types import Array, IntArray
from hotview.federated.client_data import ClientData
from hotview.federated.labels import linked_query
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.messages import Message
from hotview.federated.privacy import Privacy, ReleaseRecord
from hotview.federated.schema import check_arrays, check_classes, check_names
from hotview.federated.settings import Settings
from hotview.training.checkpoint import (
    check_random_state,
    check_tensors,
    load_optimizer_state,
    optimizer_state,
)

__all__ = [
    "ClientState",
    "StateFile",
    "read_client_state",
    "read_state",
    "state_errors",
    "write_client_state",
    "write_state",
]

T = TypeVar("T")
_FORMAT = FileFormat(
    "hotview federated state",
    2,
    "a state",
    "Delete it, and with it the record of releases, and begin the training anew.",
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
    request_round : int
        The round of this request.
    response : Message or None
        The response to it; None until it is computed.
    noise_seed : str
        Seed of the noise of this response until it is computed, as a decimal number.
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
    request_round: int = 0
    response: Message | None = None
    noise_seed: str = ""
    releases: list[ReleaseRecord] = field(default_factory=list)
    budget: list[float] | None = None
    shared_codes: IntArray | None = None
    table_fingerprint: str = ""

    def __post_init__(self) -> None:
        """Check what needs no data of the client: names, rounds, losses, releases and budget."""
        n_rounds = Settings.from_json(self.settings).rounds
        check_classes(self.classes)
        check_names(self.names)
        n_asked, n_answered = self.request_round, self.update.round
        fits = n_answered <= n_asked <= n_rounds + 1
        fits &= bool(self.response) == (n_asked == n_answered > 0)
        require(fits, "its rounds are impossible")
        is_pending = n_asked > n_answered
        fits = self.noise_seed.isdecimal() if is_pending else self.noise_seed == ""
        require(fits and len(self.noise_seed) < 50, "its seed of the noise is impossible")
        for row in self.history:
            decode(dict[str, float], row, {}, "history")
        require(len(self.history) <= n_rounds, "it has more losses than rounds")
        for record in self.releases:
            fits = record.noise > 0 and record.n_rows > 0 and record.sample_size > 0
            require(fits, f"its releases cannot be {record}")
        if self.budget is not None:
            require(len(self.budget) == 2, "its budget is not an epsilon and a delta")
            Privacy(self.budget[0], self.budget[1])
            fits = len(self.releases) > 0 and self.releases[-1].n_releases <= n_rounds
            require(fits, "it has other releases than its noise is calibrated for")

    @property
    def noise(self) -> float:
        """Noise multiplier; 0 without privacy."""
        return 0.0 if self.budget is None else self.releases[-1].noise


@dataclass(frozen=True)
class StateFile:
    """Content of the file of a client: its state, and the state of its trainer."""

    client: ClientState
    network: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    streams: list[dict[str, Array]]
    random: dict[str, Any]

    def restore(
        self, path: Path, data: ClientData, make_trainer: Callable[[ClientState], LocalTrainer]
    ) -> LocalTrainer:
        """Return a trainer in this state, after a check that it fits the data of the client.

        Parameters
        ----------
        path : Path
            The file, for errors.
        data : ClientData
            Data of the client.
        make_trainer : callable
            Makes a new trainer for the state of a client.

        Returns
        -------
        LocalTrainer
            The trainer.
        """
        with state_errors(path, _FORMAT):
            _check_values(self.client, data)
        trainer = make_trainer(self.client)
        with state_errors(path, _FORMAT):
            _check_update(self.client, trainer)
            self._load_into(trainer)
        return trainer

    def _load_into(self, trainer: LocalTrainer) -> None:
        """Load the state of a newly made trainer, after everything is checked."""
        bit_generator = trainer.random.bit_generator
        check_tensors(self.network, trainer.network.state_dict())
        check_random_state(bit_generator, self.random)
        for stream, state in zip(trainer.streams, self.streams, strict=True):
            stream.check(state)
        load_optimizer_state(trainer.optimizer, self.optimizer)
        trainer.network.load_state_dict(self.network)
        bit_generator.state = self.random
        for stream, state in zip(trainer.streams, self.streams, strict=True):
            stream.state = state
        trainer.network.eval()


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
    content = StateFile(
        state,
        trainer.network.state_dict(),
        optimizer_state(trainer.optimizer),
        [stream.state for stream in trainer.streams],
        dict(trainer.random.bit_generator.state),
    )
    write_state(path, _FORMAT, content)


def read_client_state(path: Path) -> StateFile:
    """Return the content of the file that `write_client_state` wrote.

    Parameters
    ----------
    path : Path
        The file.

    Returns
    -------
    StateFile
        The content; what depends on the client's data is not checked yet.
    """
    return read_state(path, _FORMAT, StateFile)


@contextmanager
def state_errors(path: Path, format: FileFormat) -> Iterator[None]:
    """Turn whatever parts that do not fit raise into the error of a format."""
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise format.error(path, f"its parts do not fit ({reason})") from error


def _check_values(state: ClientState, data: ClientData) -> None:
    """Check what a trainer is made from, and what is compared with messages."""
    s, G = Settings.from_json(state.settings), state.references
    require(data.name in state.names, f"its names do not include {data.name!r}")
    shapes: dict[str, tuple[int, ...]] = {}
    if s.coupling == "hot-reference" and state.update.round > 0:
        shapes["references"] = (s.n_references, s.quantiles, s.n_components)
    held = {"references": G, "codes": state.shared_codes}
    found = {name: x for name, x in held.items() if x is not None}
    check_arrays(found, shapes, {"codes": data.linked.shape}, len(state.classes))
    fits = G is None or bool(abs(G).max() <= s.max_reference)
    require(fits, "its references are farther than any can be")
    if state.budget is not None:
        record = state.releases[-1]
        fits = (record.n_rows, record.sample_size) == (data.table.n_rows, s.batch_size)
        require(fits, "its releases are of another table")


def _check_update(state: ClientState, trainer: LocalTrainer) -> None:
    """Compare the last update, and the response, with the update of a newly made trainer."""
    update, data, expected = state.update, trainer.data, ClientUpdate()
    if update.round > 0:
        query = linked_query(update.round, trainer.settings, len(data.linked))
        expected = trainer.make_update(update.round, query)
    sizes = {"rows": data.table.n_rows, "labeled": len(trainer.labeled_rows)}
    sizes["linked"] = len(data.linked)
    found, like = (
        {name: torch.from_numpy(getattr(x, name)) for name in sizes} for x in (update, expected)
    )
    check_tensors(found, like)
    for name, n in sizes.items():
        is_inside = (found[name] >= 0) & (found[name] < n)
        require(bool(is_inside.all()), f"its {name} are no rows")
    check_tensors(update.sent, expected.sent)
    if (response := state.response) is not None:
        arrays = {name: torch.from_numpy(x) for name, x in response.arrays.items()}
        check_tensors(arrays, update.sent)
        fits = (response.kind, response.metadata.get("round")) == ("round", update.round)
        fits &= all(torch.equal(x, update.sent[name]) for name, x in arrays.items())
        require(fits, "its response is of another round")


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
    with state_errors(path, format):
        content: T = decode(kind, archive.metadata.get("content"), archive.tensors)
    return content
