"""A message as Flower carries it: one value of bytes, and whose it is."""

from __future__ import annotations

import os
import re
from typing import Any

from hotview.federated.channel import Failure
from hotview.federated.messages import Message

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # both are read when Flower is imported
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
try:
    from flwr.app import ConfigRecord, Error, RecordDict
except ImportError as error:
    raise ImportError(
        'Federated training between machines needs Flower: pip install "hotview[federated]"'
    ) from error

__all__ = ["pack", "read_name", "read_reply", "tell_name", "unpack"]

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
    >>> from hotview.federated.codec import pack, unpack
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
    >>> from hotview.federated.codec import unpack
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
    >>> from hotview.federated.codec import read_reply
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
    >>> from hotview.federated.codec import tell_name
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
    >>> from hotview.federated.codec import read_name
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
