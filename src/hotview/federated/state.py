"""States of client and server between two messages, and files of them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from hotview._archive import FileFormat, read_archive, write_archive
from hotview._codec import decode, encode, require
from hotview._files import atomic_write
from hotview._types import Array, IntArray
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.messages import Message, check_json
from hotview.federated.privacy import Budget, Privacy, ReleaseRecord
from hotview.federated.schema import SentPlan, SentPool, Session, check_arrays
from hotview.training.checkpoint import (
    check_random_state,
    check_tensors,
    load_optimizer_state,
    optimizer_state,
)
from hotview.training.trainer import History

T = TypeVar("T")
CLIENT_FORMAT = FileFormat(
    "hotview federated state",
    3,
    "a state",
    "Delete it, and with it the record of releases, and begin the training anew.",
)
SERVER_FORMAT = FileFormat("hotview federation", 2, "a checkpoint", "Delete it to begin anew.")


@dataclass
class ClientState:
    """Everything of a training that the client keeps, except the state of its trainer.

    Parameters
    ----------
    session : Session
        Settings, names and classes.
    table_fingerprint : str
        Fingerprint of the client's table.
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
    budget : Budget or None
        ε and δ of this training; None without privacy.
    shared_codes : ndarray of int64 or None
        Classes of linked rows, where the label holder shares them.
    """

    session: Session
    table_fingerprint: str
    update: ClientUpdate = field(default_factory=ClientUpdate)
    references: Array | None = None
    history: list[dict[str, Any]] = field(default_factory=list)
    request_digest: str = ""
    request_round: int = 0
    response: Message | None = None
    noise_seed: str = ""
    releases: list[ReleaseRecord] = field(default_factory=list)
    budget: Budget | None = None
    shared_codes: IntArray | None = None

    def __post_init__(self) -> None:
        n_rounds = self.session.settings.rounds
        n_asked, n_answered = self.request_round, self.update.round
        fits = n_answered <= n_asked <= n_rounds + 1
        fits &= bool(self.response) == (n_asked == n_answered > 0)
        require(fits, "its rounds are impossible")
        is_pending = n_asked > n_answered
        fits = self.noise_seed.isdecimal() if is_pending else self.noise_seed == ""
        require(fits and len(self.noise_seed) < 50, "its seed of the noise is impossible")
        decode(list[dict[str, float]], self.history, {}, "history")
        require(len(self.history) <= n_rounds, "it has more losses than rounds")
        if self.budget is not None:
            Privacy(self.budget.epsilon, self.budget.delta)
            fits = len(self.releases) > 0 and self.releases[-1].n_releases <= n_rounds
            require(fits, "it has other releases than its noise is calibrated for")

    @property
    def noise(self) -> float:
        """Noise multiplier; 0 without privacy."""
        return 0.0 if self.budget is None else self.releases[-1].noise

    def check_arrays(self) -> None:
        """Raise an error unless references and shared labels are what the session says."""
        G, session = self.references, self.session
        held = {"references": G, "codes": self.shared_codes}
        found = {name: x for name, x in held.items() if x is not None}
        shapes = session.reference_shapes if self.update.round > 0 else {}
        check_arrays(found, shapes, {"codes": (session.n_linked,)}, len(session.classes))
        fits = G is None or bool(abs(G).max() <= session.settings.max_reference)
        require(fits, "its references are farther than any can be")


@dataclass(frozen=True)
class ClientFile:
    """Content of the file of a client: its state, and the state of its trainer."""

    client: ClientState
    network: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    streams: list[dict[str, Array]]
    random: dict[str, Any]

    @classmethod
    def of(cls, state: ClientState, trainer: LocalTrainer) -> ClientFile:
        """Return what is written."""
        return cls(
            state,
            trainer.network.state_dict(),
            optimizer_state(trainer.optimizer),
            [stream.state for stream in trainer.streams],
            dict(trainer.random.bit_generator.state),
        )

    def load_into(self, trainer: LocalTrainer) -> None:
        """Set a newly made trainer to this state, after everything is checked."""
        # The last update, and the response, are compared with the update of a new trainer.
        update, data, expected = self.client.update, trainer.data, ClientUpdate()
        if update.round > 0:
            query = self.client.session.linked_query(update.round)
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
        if (response := self.client.response) is not None:
            arrays = {name: torch.from_numpy(x) for name, x in response.arrays.items()}
            check_tensors(arrays, update.sent)
            fits = (response.kind, response.metadata.get("round")) == ("round", update.round)
            fits &= all(torch.equal(x, update.sent[name]) for name, x in arrays.items())
            require(fits, "its response is of another round")
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


@dataclass
class FederatedResult:
    """Result of a federated training at the server; the models are with the clients.

    Attributes
    ----------
    names : list of str
        Names of the clients.
    rows : list of dict of str to float
        Rows of `history`, one per round: terms of the loss, number of clients that responded, and
        bytes of the largest message to or from any client.
    W, C : ndarray or None
        The last plan and its costs, over the clients in `present`.
    present : list of str
        Clients that responded in the last round.
    dropped : list of dict
        Clients that were left out of a round, with round and reason.
    privacy : dict of str to dict
        ε and δ by client, where it uses privacy.
    finished : list of str
        Clients that have saved their partial model.

    Examples
    --------
    >>> from hotview.federated import FederatedResult
    >>> FederatedResult(["clinical", "genetic"]).finished
    []
    """

    names: list[str]
    rows: list[dict[str, Any]] = field(default_factory=list)
    W: Array | None = None
    C: Array | None = None
    present: list[str] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    privacy: dict[str, dict[str, float]] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)

    @property
    def history(self) -> History:
        """Values of every round by name, such as ``history["loss"]``."""
        return History(self.rows)

    @property
    def plan(self) -> dict[str, Any] | None:
        """The last plan as values that JSON can represent; None without a coupling."""
        if self.W is None or self.C is None:
            return None
        return {"names": self.present, "W": self.W.tolist(), "C": self.C.tolist()}

    def to_json(self) -> dict[str, Any]:
        """Return the result as values that JSON can represent."""
        own = ("finished", "plan", "privacy", "dropped")
        facts = {name: getattr(self, name) for name in own}
        return {"organizations": self.names, **facts, "history": self.rows}


@dataclass(frozen=True)
class _Dropped:
    round: int
    name: str
    reason: str


@dataclass
class ServerState:
    """State of the server after a round, except that of its coupling.

    Parameters
    ----------
    session : Session
        The session.
    result : FederatedResult
        The result so far.
    round : int, default=0
        Number of completed rounds.
    updates : dict of str to Message
        Next server update by client.
    pool : SentPool or None, default=None
        Fusion weights of the views, once they are fitted.
    shared : dict of str to ndarray
        Arrays of the label holder that all clients receive, once there are any.
    """

    session: Session
    result: FederatedResult
    round: int = 0
    updates: dict[str, Message] = field(default_factory=dict)
    pool: SentPool | None = None
    shared: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raise an error if a result cannot be that of as many rounds."""
        result, session = self.result, self.session
        settings, names = session.settings, session.names
        fits = self.round <= settings.rounds and len(result.rows) == self.round
        require(fits, f"its history is not of {self.round} rounds")
        decode(list[dict[str, float]], result.rows, {}, "history")
        required = {"epoch", "loss", "present", "bytes"}
        for i, row in enumerate(result.rows):
            fits = required <= row.keys() and row["epoch"] == i + 1
            require(fits, "its history has other rows")
        decode(list[_Dropped], result.dropped, {}, "dropped")
        decode(dict[str, Budget], result.privacy, {}, "privacy")
        check_json([result.dropped, result.privacy])
        fits = result.names == names and {*result.privacy, *result.finished} <= {*names}
        require(fits, "it has unknown names")
        fits = (len(session.classes) > 1) == (settings.label_holder is not None)
        require(fits, "its classes do not fit")
        fits = self.updates.keys() == {*(names if self.round > 0 else ())}
        fits &= all(update.kind == "round" for update in self.updates.values())
        require(fits, "its updates are not those of all organizations")
        matrices = [x for x in (result.W, result.C) if x is not None]
        n = 0 if settings.coupling == "none" or self.round == 0 else 2
        fits = len(matrices) == n and all(x.dtype == "float32" and x.ndim == 2 for x in matrices)
        require(fits, "its plan does not fit")
        if result.plan is not None:
            SentPlan(**result.plan).check(names, settings)
        if self.pool is not None:
            self.pool.check(names)


@dataclass(frozen=True)
class Checkpoint:
    """Content of the file of a server: its state, and that of its coupling."""

    server: ServerState
    coupling: dict[str, Tensor]


def write_state(path: Path, format: FileFormat, content: Any) -> None:
    """Write a dataclass, whose annotations `hotview._codec` can encode, atomically."""
    tensors: dict[str, Tensor] = {}
    values = encode(type(content), content, tensors)
    write_archive(path, format, tensors, {"content": values})


def read_state(path: Path, format: FileFormat, kind: type[T]) -> T:
    """Read the dataclass that `write_state` wrote; its values have the annotated types."""
    archive = read_archive(path, format)
    with state_errors(path, format):
        content: T = decode(kind, archive.metadata.get("content"), archive.tensors)
    return content


@contextmanager
def state_errors(path: Path, format: FileFormat) -> Iterator[None]:
    """Turn whatever parts that do not fit raise into the error of a format."""
    try:
        yield
    except (ArithmeticError, LookupError, RuntimeError, TypeError, ValueError) as error:
        reason = (str(error).splitlines() or [type(error).__name__])[0][:200]
        raise format.error(path, f"its parts do not fit ({reason})") from error


def write_outcome(path: Path, result: FederatedResult) -> None:
    """Write a result as JSON, completely or not at all."""
    text = json.dumps(result.to_json(), indent=2, ensure_ascii=False)
    with atomic_write(path) as draft:
        draft.write_text(f"{text}\n", encoding="utf-8")
