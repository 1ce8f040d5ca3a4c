"""Messages between server and clients, and the channel that carries them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from hotview._types import Array

KINDS = ("hello", "classes", "start", "round", "label_loss", "fusion", "head", "finish")
_KEY, _VERSION = "hotview", 3
_MAX_HEADER, _MAX_BYTES = 2**20, 2**28
_MAX_DEPTH, _MAX_TEXT, _MAX_LINE = 10, 1000, 300
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


@dataclass(frozen=True)
class Message:
    """A request or a response; as bytes it is safetensors with JSON metadata, and holds no code.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    metadata : dict of str to object
        Values that JSON can represent.
    arrays : dict of str to ndarray
        Arrays of float32 or int64.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.federated.messages import Message
    >>> message = Message("round", {"round": 3}, {"quantiles": np.zeros((2, 4), np.float32)})
    >>> received = Message.from_bytes(message.to_bytes())
    >>> received.metadata, received.arrays["quantiles"].shape
    ({'round': 3}, (2, 4))
    """

    kind: str
    metadata: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.kind not in KINDS or not isinstance(self.metadata, dict):
            raise ValueError(f"it is of no known kind ({str(self.kind)[:40]!r})")
        check_json([self.metadata, list(self.arrays)])
        if wrong := {str(x.dtype) for x in self.arrays.values()} - {"float32", "int64"}:
            raise ValueError(f"it holds arrays of {sorted(wrong)}, not of float32 or int64")

    def to_bytes(self) -> bytes:
        """Serialize; equal messages give equal bytes."""
        arrays = {name: np.asarray(self.arrays[name], order="C") for name in sorted(self.arrays)}
        header = {"version": _VERSION, "kind": self.kind, "metadata": self.metadata}
        text = json.dumps(header, sort_keys=True, allow_nan=False)
        return bytes(save(arrays, {_KEY: text}))

    @staticmethod
    def from_bytes(data: bytes) -> Message:
        """Deserialize a message, whose arrays are writable.

        Parameters
        ----------
        data : bytes
            Untrusted bytes; whatever is not a message raises a ValueError.

        Returns
        -------
        Message
            The message.
        """
        try:
            n = int.from_bytes(data[:8], "little")
            # Bounds the memory that parsing takes.
            if not 8 < len(data) <= _MAX_BYTES or not 0 < n <= min(_MAX_HEADER, len(data) - 8):
                raise ValueError("no header")
            text = json.loads(data[8 : 8 + n])["__metadata__"][_KEY]
            header = json.loads(text, parse_float=_finite, parse_constant=_finite)
            arrays = load(data)
            version, kind, metadata = header["version"], header["kind"], header["metadata"]
        except (KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
            raise ValueError(f"it is no message ({type(error).__name__})") from error
        if version != _VERSION:
            raise ValueError(
                f"it has version {version!r} of the protocol, and this is version {_VERSION}; "
                "all sides need the same release of hotview"
            )
        return Message(kind, metadata, {name: x.copy() for name, x in arrays.items()})


def _finite(text: str) -> float:
    """Parse a number; NaN would pass later comparisons unnoticed."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def check_json(value: Any, depth: int = _MAX_DEPTH) -> None:
    """Raise an error for values that are nested deeply, and texts that are no line."""
    if isinstance(value, str) and (len(value) > _MAX_TEXT or _CONTROL.search(value)):
        problem = f"it holds a text that is no line of at most {_MAX_TEXT} characters"
        raise ValueError(f"{problem}: {value[:40]!r}")
    if isinstance(value, dict):
        value = [*value, *value.values()]
    if isinstance(value, list):
        if depth == 0:
            raise ValueError(f"it holds more than {_MAX_DEPTH} lists inside each other")
        for item in value:
            check_json(item, depth - 1)


def to_line(text: str) -> str:
    r"""Return remote text as one short line that can be logged and saved.

    Parameters
    ----------
    text : str
        Any text.

    Returns
    -------
    str
        At most 300 printable characters.

    Examples
    --------
    >>> from hotview.federated.messages import to_line
    >>> to_line("late:\n \ud800")
    'late: ?'
    """
    line = " ".join(text[: 10 * _MAX_LINE].split())
    return "".join(c if c.isprintable() else "?" for c in line)[:_MAX_LINE]


@dataclass(frozen=True)
class Failure:
    """A missing response: the client was late, disconnected, malformed, or raised an error.

    Parameters
    ----------
    reason : str
        The reason, for the log; made a short line.

    Examples
    --------
    >>> from hotview.federated import Failure
    >>> Failure("late: no answer in time").reason
    'late: no answer in time'
    """

    reason: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", to_line(self.reason))


class Channel(Protocol):
    """Carries messages from the server to clients, and their responses back.

    Attributes
    ----------
    names : list of str
        Names of the clients.

    Examples
    --------
    >>> from hotview.federated import Failure, Message
    >>> class Disconnected:
    ...     names = ["clinical"]
    ...
    ...     def exchange(self, messages, timeout):
    ...         return {name: Failure("gone") for name in messages}
    >>> Disconnected().exchange({"clinical": Message("hello")}, timeout=1.0)
    {'clinical': Failure(reason='gone')}
    """

    names: list[str]

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


class MessageHandler(Protocol):
    """Responds to messages, as `Client` does."""

    def handle(self, message: Message) -> Message:
        """Return the response to a message."""


class InProcessChannel:
    """A channel to clients in this process, for simulations and tests.

    Messages are serialized and deserialized as on a network, so that no object is shared.

    Parameters
    ----------
    clients : dict of str to MessageHandler
        Clients by name.

    Examples
    --------
    >>> from hotview.federated import InProcessChannel, Message
    >>> class Echo:
    ...     def handle(self, message):
    ...         return message
    >>> channel = InProcessChannel({"clinical": Echo()})
    >>> channel.exchange({"clinical": Message("hello")}, timeout=1)["clinical"].kind
    'hello'
    """

    def __init__(self, clients: Mapping[str, MessageHandler]) -> None:
        self.clients = dict(clients)
        self.names = list(clients)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Call every client in turn; an exception becomes a `Failure`.

        Parameters
        ----------
        messages : dict of str to Message
            Messages by client.
        timeout : float
            Ignored.

        Returns
        -------
        dict of str to (Message or Failure)
            One response per message.
        """
        responses: dict[str, Message | Failure] = {}
        for name, message in messages.items():
            try:
                received = Message.from_bytes(message.to_bytes())
                response = self.clients[name].handle(received)
                responses[name] = Message.from_bytes(response.to_bytes())
            except Exception as error:
                responses[name] = Failure(f"{type(error).__name__}: {error}")
        return responses
