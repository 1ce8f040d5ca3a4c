"""Channel through Flower's SuperLink, and the encoding of messages as Flower records."""

from __future__ import annotations

import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from hotview.federated.messages import Failure, Message, check_json, to_line

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # both are read when Flower is imported
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
try:
    import flwr.app
    from flwr.app import ConfigRecord, RecordDict
    from flwr.serverapp import Grid
except ImportError as error:
    raise ImportError(
        'Federated training between machines needs Flower: pip install "hotview[federated]"'
    ) from error
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

__all__ = ["FlowerChannel", "pack", "pack_name", "read_name", "read_reply", "unpack"]

_log = logging.getLogger(__name__)
_RECORD = "hotview"
_POLL_INTERVAL = 0.2  # seconds; Flower's own loop polls every three
_NAME_TIMEOUT = 30.0
_MALFORMED = (AttributeError, DecodeError, KeyError, TypeError, ValueError)
_DISCONNECTED = "gone: its node is not connected"
_REASONS = {  # by Flower's error code
    3: "late: the message or its answer expired on the way",
    4: "late: its answer expired on the way",
    5: _DISCONNECTED,
    7: "its node does not trust this app",
    8: "gone: its process ended before it had answered",
}


def pack(message: Message, name: str) -> RecordDict:
    """Encode a message as Flower content.

    Parameters
    ----------
    message : Message
        The message.
    name : str
        Name of the client that receives or sends it.

    Returns
    -------
    RecordDict
        Flower content.

    Examples
    --------
    >>> from hotview.federated.messages import Message
    >>> from hotview.federated.flower_channel import pack, unpack
    >>> unpack(pack(Message("round", {"round": 3}), "clinical"))
    ('clinical', Message(kind='round', metadata={'round': 3}, arrays={}))
    """
    return RecordDict({_RECORD: ConfigRecord({"name": name, "message": message.to_bytes()})})


def unpack(content: RecordDict) -> tuple[str, Message]:
    """Decode the output of `pack`.

    Parameters
    ----------
    content : RecordDict
        Untrusted content; whatever is not a message raises a ValueError.

    Returns
    -------
    name : str
        Name of the client.
    message : Message
        The message.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> from hotview.federated.flower_channel import unpack
    >>> unpack(RecordDict())
    Traceback (most recent call last):
    ValueError: it is no message
    """
    record = content.config_records.get(_RECORD) or ConfigRecord()
    name, data = record.get("name"), record.get("message")
    if not isinstance(name, str) or not isinstance(data, bytes):
        raise ValueError("it is no message")
    return name, Message.from_bytes(data)


def read_reply(reply: Any, name: str) -> Message | Failure:
    """Decode the response of a client.

    Parameters
    ----------
    reply : flwr.app.Message, Exception or None
        The reply, the error raised while it was read, or None without a reply.
    name : str
        Name of the client that must have sent it.

    Returns
    -------
    Message or Failure
        The response, or the reason why there is none.

    Examples
    --------
    >>> from hotview.federated.flower_channel import read_reply
    >>> read_reply(None, "clinical")
    Failure(reason='late: no answer in time')
    """
    if reply is None:
        return Failure("late: no answer in time")
    if isinstance(reply, Exception):
        return Failure(f"garbage: {type(reply).__name__}")
    if reply.has_error():
        code, text = reply.error.code, reply.error.reason
        text = re.sub(r"^<class '[\w.]+'>:<'(.*)'>$", r"\1", text or "", flags=re.DOTALL)
        problem = text or f"Flower's error {code}"
        return Failure(_REASONS.get(code) or f"an error over there: {problem}")
    try:
        sender, message = unpack(reply.content)
    except ValueError as error:
        return Failure(f"garbage: {error}")
    if sender != name:
        return Failure(f"garbage: it calls itself {to_line(sender)!r}")
    return message


def pack_name(name: str) -> RecordDict:
    """Encode the reply to ``query.name``.

    Parameters
    ----------
    name : str
        Name of the client.

    Returns
    -------
    RecordDict
        Flower content.

    Examples
    --------
    >>> from hotview.federated.flower_channel import pack_name
    >>> pack_name("clinical")["hotview"]["name"]
    'clinical'
    """
    return RecordDict({_RECORD: ConfigRecord({"name": name})})


def read_name(reply: Any) -> str:
    """Decode the reply to ``query.name``.

    Parameters
    ----------
    reply : flwr.app.Message, Exception or None
        The reply of a node.

    Returns
    -------
    str
        The name; empty where there is none.

    Examples
    --------
    >>> from hotview.federated.flower_channel import read_name
    >>> read_name(None)
    ''
    """
    if reply is None or isinstance(reply, Exception) or reply.has_error():
        return ""
    name = (reply.content.config_records.get(_RECORD) or ConfigRecord()).get("name")
    try:
        check_json(name)
    except ValueError:
        return ""
    return name if isinstance(name, str) else ""


class FlowerChannel:
    """Channel to clients behind Flower's SuperNodes.

    A node belongs to the client under whose name its key was registered (``flwr supernode
    register clinical.pub --name clinical``), so that none can impersonate another. A node that was
    registered without a name is queried for it.

    Parameters
    ----------
    grid : Grid
        The grid of a Flower ServerApp.
    names : sequence of str
        Names of the clients; other nodes are ignored.

    Attributes
    ----------
    names : list of str
        Names of the clients.

    Examples
    --------
    >>> from hotview.federated.flower_channel import FlowerChannel
    >>> def main(grid, context):  # of a ServerApp
    ...     channel = FlowerChannel(grid, ["clinical", "genetic"])
    ...     channel.wait_for_clients(patience=600)
    """

    def __init__(self, grid: Grid, names: Sequence[str]) -> None:
        self.names = list(names)
        self._grid = grid
        self._reported_names: dict[int, str] = {}  # of nodes that are registered without a name
        self._ignored: set[str] = set()

    def wait_for_clients(self, patience: float, *, at_least: int | None = None) -> None:
        """Wait until every client is connected.

        Parameters
        ----------
        patience : float
            Maximum waiting time, in seconds.
        at_least : int or None, default=None
            Number of clients that are enough when the time is over; None means all.
        """
        end = time.monotonic() + patience
        while problems := self._problems(self.names, self._nodes()):
            if time.monotonic() > end:
                break
            time.sleep(_POLL_INTERVAL)
        listed = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        needed = len(self.names) if at_least is None else at_least
        if len(self.names) - len(problems) < needed:
            raise TimeoutError(
                f"Expected {needed} of {self.names} to be connected within {patience:g} seconds, "
                f"but {listed}. Start their SuperNodes, or look at their logs."
            )
        if problems:
            _log.warning("goes on without all: %s", listed)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Send a message to each client, and return the responses.

        Parameters
        ----------
        messages : dict of str to Message
            Messages by client.
        timeout : float
            Maximum waiting time, in seconds.

        Returns
        -------
        dict of str to (Message or Failure)
            One response per message.
        """
        nodes = self._nodes()
        problems = self._problems(messages, nodes)
        connected = {name: nodes[name][0] for name in messages if name not in problems}
        contents = {node: pack(messages[name], name) for name, node in connected.items()}
        start = time.monotonic()
        replies = self._send(contents, "train", timeout)
        responses = {
            name: Failure(problems[name])
            if name in problems
            else read_reply(replies.get(connected[name]), name)
            for name in messages
        }
        kinds = {f"{m.kind} {m.metadata.get('round', '')}".strip() for m in messages.values()}
        _log.info(
            "%s: %d of %d answered in %.1f s",
            ", ".join(sorted(kinds)),
            sum(isinstance(response, Message) for response in responses.values()),
            len(messages),
            time.monotonic() - start,
        )
        return responses

    @staticmethod
    def _problems(names: Iterable[str], nodes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Return why some clients cannot be reached, by name."""
        counts = {name: len(nodes.get(name, ())) for name in names}
        return {
            name: _DISCONNECTED if n == 0 else f"refused: {n} nodes have its name"
            for name, n in counts.items()
            if n != 1
        }

    def _nodes(self) -> dict[str, list[int]]:
        """Return the ids of connected nodes, by name."""
        registered = {node.node_id: getattr(node, "name", "") for node in self._grid.get_nodes()}
        unnamed = [
            n for n, name in registered.items() if not name and n not in self._reported_names
        ]
        if unnamed:
            replies = self._send(dict.fromkeys(unnamed, RecordDict()), "query.name", _NAME_TIMEOUT)
            # Nodes without a reply are not queried again, which would delay every round.
            self._reported_names |= {node: read_name(replies.get(node)) for node in unnamed}
        nodes: dict[str, list[int]] = {}
        for node, name in registered.items():
            nodes.setdefault(name or self._reported_names[node], []).append(node)
        for name in sorted(nodes.keys() - {*self.names, *self._ignored}):
            _log.warning("a node called %r is none of %s: it is ignored", name, self.names)
            self._ignored.add(name)
        return nodes

    def _send(
        self, contents: Mapping[int, RecordDict], kind: str, timeout: float
    ) -> dict[int, Any]:
        """Send contents to nodes; return the replies in time, or the errors of reading them."""
        if not contents:
            return {}
        end = time.monotonic() + timeout
        # Messages expire: a node that reconnects must not work on rounds that are over.
        messages = [
            flwr.app.Message(content, node, kind, ttl=timeout) for node, content in contents.items()
        ]
        ids = zip(self._grid.push_messages(messages), contents, strict=True)
        waiting = {message_id: node for message_id, node in ids if message_id}
        replies: dict[int, Any] = {}
        while waiting and time.monotonic() < end:
            for message_id in list(waiting):
                try:  # one at a time, so that a malformed reply affects no other
                    received: list[Any] = list(self._grid.pull_messages([message_id]))
                except _MALFORMED as error:
                    received = [error]
                if received:
                    replies[waiting.pop(message_id)] = received[0]
            time.sleep(_POLL_INTERVAL if waiting else 0)
        return replies
