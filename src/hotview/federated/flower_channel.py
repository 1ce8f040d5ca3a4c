"""A message as Flower carries it: one value of bytes, and whose it is."""

from __future__ import annotations

import os
import re
from typing import Any
from hotview.federated.messages import Failure
from hotview.federated.messages import Message
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
import flwr.app  # isort: skip; after parcels, which tells it to be quiet
from flwr.app import RecordDict  # isort: skip
from flwr.serverapp import Grid  # isort: skip
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]  # isort: skip

__all__ = ["GridCarrier", "pack", "read_name", "read_reply", "tell_name", "unpack"]

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # both are read when Flower is imported
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
try:
    from flwr.app import ConfigRecord, Error, RecordDict
except ImportError as error:
    raise ImportError(
        'Federated training between machines needs Flower: pip install "hotview[federated]"'
    ) from error


_RECORD = "hotview"
_MOST = 300  # characters of what somebody else wrote that are worth a place in the log
# By Flower's codes; other errors tell what happened themselves.
_REASONS = {
    3: "late: the message or its answer expired on the way",
    4: "late: its answer expired on the way",
    5: "gone: its node is not connected",
    7: "its node does not trust this app",
    8: "gone: its process ended before it had answered",
}


def pack(message: Message, name: str) -> RecordDict:
    """Wrap a message.

    Parameters
    ----------
    message : Message
        What is said.
    name : str
        The organization that is spoken to, or that answers.

    Returns
    -------
    RecordDict
        Flower's kind of content.

    Examples
    --------
    >>> from hotview.federated.messages import Message
    >>> from hotview.federated.flower_channel import pack, unpack
    >>> unpack(pack(Message("round", {"round": 3}), "clinical"))
    ('clinical', Message(kind='round', facts={'round': 3}, arrays={}))
    """
    return RecordDict({_RECORD: ConfigRecord({"name": name, "message": message.to_bytes()})})


def unpack(content: RecordDict) -> tuple[str, Message]:
    """Take out what `pack` wrapped.

    Parameters
    ----------
    content : RecordDict
        From anywhere; what is no message is a ValueError.

    Returns
    -------
    name : str
        The organization.
    message : Message
        What was said.

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
    """The answer of an organization.

    Parameters
    ----------
    reply : flwr.app.Message, Exception or None
        What came back, what went wrong when it was read, or nothing.
    name : str
        Whose answer it must be.

    Returns
    -------
    Message or Failure
        What it says, or why it says nothing.

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
        return Failure(_told(reply.error))
    try:
        own, message = unpack(reply.content)
    except ValueError as problem:
        return Failure(f"garbage: {_in_short(str(problem))}")
    if own != name:
        return Failure(f"garbage: it calls itself {_in_short(own)!r}")
    return message


def tell_name(name: str) -> RecordDict:
    """What a node that is asked ``query.who`` says.

    Parameters
    ----------
    name : str
        Of its organization.

    Returns
    -------
    RecordDict
        Flower's kind of content.

    Examples
    --------
    >>> from hotview.federated.flower_channel import tell_name
    >>> tell_name("clinical")["hotview"]["name"]
    'clinical'
    """
    return RecordDict({_RECORD: ConfigRecord({"name": name})})


def read_name(reply: Any) -> str:
    """What a node calls itself, nothing where it does not say.

    Parameters
    ----------
    reply : flwr.app.Message, Exception or None
        Its answer to ``query.who``.

    Returns
    -------
    str
        A name, or nothing.

    Examples
    --------
    >>> from hotview.federated.flower_channel import read_name
    >>> read_name(None)
    ''
    """
    if reply is None or isinstance(reply, Exception) or reply.has_error():
        return ""
    name = (reply.content.config_records.get(_RECORD) or ConfigRecord()).get("name")
    return name if isinstance(name, str) else ""


def _told(error: Error) -> str:
    said = error.reason or f"Flower's error {error.code}"
    said = re.sub(r"^<class '[\w.]+'>:<'(.*)'>$", r"\1", said, flags=re.DOTALL)
    return _REASONS.get(error.code) or f"an error over there: {_in_short(said)}"


def _in_short(text: str) -> str:
    """Text of others as one line, which can do nothing to a terminal or a log."""
    line = " ".join(text.split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_MOST]


_log = logging.getLogger(__name__)
_INTERVAL = 0.2  # seconds between looks; Flower's own loop looks every three
_WHO_TIMEOUT = 30.0
_MALFORMED = (AttributeError, DecodeError, KeyError, TypeError, ValueError)


class GridCarrier:
    """Organizations behind Flower's SuperNodes.

    A node belongs to the organization under whose name its key was registered (``flwr supernode
    register clinical.pub --name clinical``), so that none can pose as another. A node without a
    name is asked what it calls itself.

    Parameters
    ----------
    grid : Grid
        What a Flower ServerApp is given.
    names : sequence of str
        The organizations that take part; other nodes are not spoken to.

    Attributes
    ----------
    names : list of str
        The organizations.

    Examples
    --------
    >>> from hotview.federated.flower_channel import GridCarrier
    >>> def main(grid, context):  # of a ServerApp
    ...     carrier = GridCarrier(grid, ["clinical", "genetic"])
    ...     carrier.gather(patience=600)
    """

    def __init__(self, grid: Grid, names: Sequence[str]) -> None:
        self.names = list(names)
        self._grid = grid
        self._called: dict[int, str] = {}  # what nodes without a name call themselves
        self._refused: set[str] = set()

    def gather(self, patience: float, *, at_least: int | None = None) -> None:
        """Wait until every organization is connected.

        Parameters
        ----------
        patience : float
            Seconds after which it is an error that one is not.
        at_least : int or None, default=None
            With how many it is none; None means all.
        """
        end = time.monotonic() + patience
        while problems := self._problems(self.names, self._nodes()):
            if time.monotonic() > end:
                break
            time.sleep(_INTERVAL)
        told = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        needed = len(self.names) if at_least is None else at_least
        if len(self.names) - len(problems) < needed:
            raise TimeoutError(
                f"Expected {needed} of {self.names} to be connected within {patience:g} seconds, "
                f"but {told}. Start their SuperNodes, or look at their logs."
            )
        if problems:
            _log.warning("goes on without all: %s", told)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Bring every organization its message, and back its answer.

        Parameters
        ----------
        messages : dict of str to Message
            By organization.
        timeout : float
            Seconds to wait.

        Returns
        -------
        dict of str to (Message or Failure)
            One for every message.
        """
        nodes = self._nodes()
        problems = self._problems(messages, nodes)
        there = {name: nodes[name][0] for name in messages if name not in problems}
        contents = {node: pack(messages[name], name) for name, node in there.items()}
        start = time.monotonic()
        replies = self._send(contents, "train", timeout)
        answers = {
            name: Failure(problems[name])
            if name in problems
            else read_reply(replies.get(there[name]), name)
            for name in messages
        }
        _show(messages, answers, time.monotonic() - start)
        return answers

    @staticmethod
    def _problems(names: Iterable[str], nodes: Mapping[str, Sequence[int]]) -> dict[str, str]:
        """Why some organizations cannot be spoken to."""
        counts = {name: len(nodes.get(name, ())) for name in names}
        told = {0: "gone: its node is not connected"}
        return {
            name: told.get(n, f"refused: {n} nodes have its name")
            for name, n in counts.items()
            if n != 1
        }

    def _nodes(self) -> dict[str, list[int]]:
        """The nodes that are connected, by name."""
        there = {node.node_id: getattr(node, "name", "") for node in self._grid.get_nodes()}
        strangers = [n for n, name in there.items() if not name and n not in self._called]
        if strangers:
            replies = self._send(dict.fromkeys(strangers, RecordDict()), "query.who", _WHO_TIMEOUT)
            # Whoever does not say is not asked again: each round would wait for it.
            self._called |= {node: read_name(replies.get(node)) for node in strangers}
        found: dict[str, list[int]] = {}
        for node, name in there.items():
            found.setdefault(name or self._called[node], []).append(node)
        for name in sorted(found.keys() - {*self.names, *self._refused}):
            _log.warning("a node called %r is none of %s: it is left alone", name, self.names)
            self._refused.add(name)
        return found

    def _send(
        self, contents: Mapping[int, RecordDict], kind: str, timeout: float
    ) -> dict[int, Any]:
        """Send contents to nodes; what came back in time, or what was wrong with it."""
        if not contents:
            return {}
        end = time.monotonic() + timeout
        # Nothing is delivered later: who was away would work on rounds that are long over.
        parcels = [
            flwr.app.Message(content, node, kind, ttl=timeout) for node, content in contents.items()
        ]
        numbers = zip(self._grid.push_messages(parcels), contents, strict=True)
        waiting = {number: node for number, node in numbers if number}
        replies: dict[int, Any] = {}
        while waiting and time.monotonic() < end:
            for number in list(waiting):
                if came := self._pull(number):
                    replies[waiting.pop(number)] = came[0]
            time.sleep(_INTERVAL if waiting else 0)
        return replies

    def _pull(self, number: str) -> list[Any]:
        """What answers one message; one at a time, so that a malformed one hides no other."""
        try:
            return list(self._grid.pull_messages([number]))
        except _MALFORMED as error:
            return [error]


def _show(
    messages: Mapping[str, Message], answers: Mapping[str, Message | Failure], seconds: float
) -> None:
    """Say how far it is: every exchange takes seconds."""
    abouts = {f"{m.kind} {m.facts.get('round', '')}".strip() for m in messages.values()}
    n = sum(isinstance(answer, Message) for answer in answers.values())
    _log.info(
        "%s: %d of %d answered in %.1f s", ", ".join(sorted(abouts)), n, len(messages), seconds
    )
