"""Result of a federated training, and the checkpoint of the server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hotview._archive import FileFormat
from hotview._codec import decode, require, shorten
from hotview._files import atomic_write
from hotview._types import Array
from hotview.federated.client_state import read_state, state_errors, write_state
from hotview.federated.messages import Message, check_json
from hotview.federated.schema import (
    SentPlan,
    SentPool,
    Session,
    SpentPrivacy,
    check_training_request,
)
from hotview.federated.server_coupling import ServerCoupling
from hotview.federated.settings import Settings
from hotview.training.trainer import History

__all__ = [
    "FederatedResult",
    "ServerState",
    "read_server_state",
    "write_outcome",
    "write_server_state",
]

_FORMAT = FileFormat("hotview federation", 1, "a checkpoint", "Delete it to begin anew.")


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
    pool : dict of str to object, or None, default=None
        Fusion weights of the views, once they are fitted.
    shared : dict of str to ndarray
        Arrays of the label holder that all clients receive, once there are any.
    """

    session: Session
    result: FederatedResult
    round: int = 0
    updates: dict[str, Message] = field(default_factory=dict)
    pool: dict[str, Any] | None = None
    shared: dict[str, Array] = field(default_factory=dict)


@dataclass(frozen=True)
class _Dropped:
    round: int
    name: str
    reason: str


@dataclass(frozen=True)
class _Checkpoint:
    """Content of a checkpoint."""

    settings: dict[str, Any]
    server: ServerState
    coupling: dict[str, Tensor]


def write_server_state(
    path: Path, state: ServerState, settings: Settings, coupling: ServerCoupling
) -> None:
    """Write a checkpoint, completely or not at all.

    Parameters
    ----------
    path : Path
        The file.
    state : ServerState
        State of the server.
    settings : Settings
        Settings of the training.
    coupling : ServerCoupling
        The coupling.
    """
    write_state(path, _FORMAT, _Checkpoint(settings.to_json(), state, coupling.state()))


def read_server_state(
    path: Path, settings: Settings, names: list[str]
) -> tuple[ServerState, ServerCoupling]:
    """Read the checkpoint that `write_server_state` wrote; everything in it is checked.

    Parameters
    ----------
    path : Path
        The file.
    settings : Settings
        Settings, which must equal those of the checkpoint.
    names : list of str
        Names of the clients, which must equal those of the checkpoint, in any order.

    Returns
    -------
    state : ServerState
        State of the server.
    coupling : ServerCoupling
        The coupling, with its state.
    """
    checkpoint = read_state(path, _FORMAT, _Checkpoint)
    state = checkpoint.server
    now = {**settings.to_json(), "organizations": sorted(names)}
    then = {**checkpoint.settings, "organizations": sorted(state.result.names)}
    if differing := [k for k in now if now[k] != then.get(k)]:
        key = differing[0]
        raise ValueError(
            f"Expected {path} to be of a training with the same settings, but {key} was "
            f"{shorten(then.get(key))} then and is {now[key]!r} now. Delete the file to begin anew."
        )
    coupling = ServerCoupling(settings, state.result.names)
    with state_errors(path, _FORMAT):
        coupling.restore(checkpoint.coupling)
        _check_result(state, settings)
        _check_updates(state, settings, coupling)
    return state, coupling


def _check_result(state: ServerState, settings: Settings) -> None:
    """Raise an error if a result cannot be that of as many rounds."""
    result, names = state.result, state.result.names
    require(1 <= state.round <= settings.rounds, f"there is no round {state.round}")
    required = {"epoch", "loss", "present", "bytes"}
    for i, row in enumerate(result.rows):
        decode(dict[str, float], row, {}, "history")
        require(required <= row.keys() and row["epoch"] == i + 1, "its history has other rows")
    require(len(result.rows) == state.round, "its history is not of all rounds")
    decode(list[_Dropped], result.dropped, {}, "dropped")
    decode(dict[str, SpentPrivacy], result.privacy, {}, "privacy")
    check_json([result.dropped, result.privacy])
    require(set(result.privacy) | set(result.finished) <= set(names), "it has unknown names")
    matrices = [x for x in (result.W, result.C) if x is not None]
    require(len(matrices) == (0 if settings.coupling == "none" else 2), "its plan does not fit")
    fits = all(x.dtype == "float32" and x.ndim == 2 for x in matrices)
    require(fits, "its plan is not of float32")
    if result.plan is not None:
        SentPlan(**result.plan).check(names, settings)


def _check_updates(state: ServerState, settings: Settings, coupling: ServerCoupling) -> None:
    """Raise an error if an update is none that a client accepts in the next round."""
    session, names = state.session, state.result.names
    n_classes = len(session.classes)
    require((n_classes > 1) == (settings.label_holder is not None), "its classes do not fit")
    if state.pool is not None:
        decode(SentPool, state.pool, {}, "pool").check(names)
    require(state.updates.keys() == set(names), "its updates are not of all organizations")
    G = coupling.references
    references = {} if G is None else {"references": G.numpy()}
    for update in state.updates.values():
        require(update.kind == "round", f"it has an update of kind {shorten(update.kind)}")
        metadata = {**update.metadata, "round": state.round + 1, "session": session.id}
        arrays = {**update.arrays, **state.shared, **references}
        check_training_request(Message("round", metadata, arrays), settings, session, names)


def write_outcome(path: Path, result: FederatedResult) -> None:
    """Write a result as JSON, completely or not at all.

    Parameters
    ----------
    path : Path
        The file.
    result : FederatedResult
        Return value of `Server.run`.

    Examples
    --------
    >>> import json
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.federated import FederatedResult
    >>> from hotview.federated.server_state import write_outcome
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_outcome(Path(folder) / "outcome.json", FederatedResult(["clinical", "genetic"]))
    ...     print(json.loads((Path(folder) / "outcome.json").read_text())["organizations"])
    ['clinical', 'genetic']
    """
    values: dict[str, Any] = {
        "organizations": result.names,
        "finished": result.finished,
        "plan": result.plan,
        "privacy": result.privacy,
        "dropped": result.dropped,
        "history": result.rows,
    }
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(values, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
