"""Result of a federated training, and the checkpoint of the server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from hotview._archive import FileFormat
from hotview._files import atomic_write
from hotview._types import Array
from hotview.federated.client_state import read_state, write_state
from hotview.federated.messages import Message
from hotview.federated.settings import Settings
from hotview.training.trainer import History

__all__ = [
    "FederatedResult",
    "ServerState",
    "Session",
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


@dataclass(frozen=True)
class Session:
    """Facts of a training that are fixed before its first round.

    Parameters
    ----------
    id : str
        Id of the training, which its messages carry.
    n_linked : int
        Number of linked rows.
    classes : list
        Classes of the labels; empty without a label holder.
    """

    id: str
    n_linked: int
    classes: list[Any]


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
class _Checkpoint:
    """Content of a checkpoint."""

    settings: dict[str, Any]
    server: ServerState
    coupling: dict[str, Tensor]


def write_server_state(
    path: Path, state: ServerState, settings: Settings, coupling: dict[str, Tensor]
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
    coupling : dict of str to Tensor
        State of the coupling.
    """
    write_state(path, _FORMAT, _Checkpoint(settings.to_json(), state, coupling))


def read_server_state(
    path: Path, settings: Settings, names: list[str]
) -> tuple[ServerState, dict[str, Tensor]]:
    """Read the checkpoint that `write_server_state` wrote.

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
    coupling : dict of str to Tensor
        State of the coupling.
    """
    checkpoint = read_state(path, _FORMAT, _Checkpoint)
    state = checkpoint.server
    now = {**settings.to_json(), "organizations": sorted(names)}
    then = {**checkpoint.settings, "organizations": sorted(state.result.names)}
    if differing := [k for k in now if now[k] != then.get(k)]:
        key = differing[0]
        raise ValueError(
            f"Expected {path} to be of a training with the same settings, but {key} was "
            f"{then.get(key)!r} then and is {now[key]!r} now. Delete the file to begin anew."
        )
    return state, checkpoint.coupling


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
