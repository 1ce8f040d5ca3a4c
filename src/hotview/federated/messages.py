"""What crosses the wire: a few arrays and facts, as safetensors with JSON inside; no code."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save
from hotview._types import Array
from dataclasses import dataclass
from typing import Protocol

__all__ = ["Answering", "Carrier", "Failure", "InProcess", "KINDS", "Message"]

#: greeting, beginning, a round, judgment of scores by labels, fusion of judgments, and the end
KINDS = ("hello", "start", "round", "judge", "fuse", "finish")
_KEY, _VERSION = "hotview", 1
_TYPES = ("float32", "int64")
_MOST_HEADER, _MOST = 2**20, 2**28  # bytes


@dataclass(frozen=True)
class Message:
    """One message, or the answer to one.

    Attributes
    ----------
    kind : str
        One of `KINDS`.
    facts : dict of str to object
        What JSON can hold.
    arrays : dict of str to ndarray
        float32 or int64.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.federated.messages import Message
    >>> sent = Message("round", {"round": 3}, {"quantiles": np.zeros((2, 4), np.float32)})
    >>> came = Message.from_bytes(sent.to_bytes())
    >>> came.facts, came.arrays["quantiles"].shape
    ({'round': 3}, (2, 4))
    """

    kind: str
    facts: dict[str, Any] = field(default_factory=dict)
    arrays: dict[str, Array] = field(default_factory=dict)

    def to_bytes(self) -> bytes:
        """The message as bytes, the same for the same message."""
        own = {name: np.asarray(self.arrays[name], order="C") for name in sorted(self.arrays)}
        wrong = {name: str(x.dtype) for name, x in own.items() if str(x.dtype) not in _TYPES}
        if wrong:
            raise TypeError(f"Expected arrays of {_TYPES}, but there are {wrong}. Convert them.")
        told = {"version": _VERSION, "kind": self.kind, "facts": self.facts}
        text = json.dumps(told, sort_keys=True, allow_nan=False)
        return bytes(save(own, {_KEY: text}))

    @staticmethod
    def from_bytes(data: bytes) -> Message:
        """The message that bytes hold.

        Parameters
        ----------
        data : bytes
            From anywhere: nothing in them is run, and whatever is no message is refused.

        Returns
        -------
        Message
            With arrays that can be written to.
        """
        try:
            text = _header(data)["__metadata__"][_KEY]
            told = json.loads(text, parse_float=_finite, parse_constant=_finite)
            arrays = load(data)
            version, kind, facts = told["version"], told["kind"], told["facts"]
        except (KeyError, RecursionError, SafetensorError, TypeError, ValueError) as error:
            raise ValueError(f"it is no message ({type(error).__name__})") from error
        if version != _VERSION:
            raise ValueError(
                f"it speaks version {version!r} of the protocol, and this is version {_VERSION}; "
                "all sides need the same release of hotview"
            )
        if kind not in KINDS or not isinstance(facts, dict):
            raise ValueError(f"it is of no known kind ({str(kind)[:40]!r})")
        wrong = {str(x.dtype) for x in arrays.values()} - set(_TYPES)
        if wrong:
            raise ValueError(f"it holds arrays of {sorted(wrong)}")
        return Message(kind, facts, {name: x.copy() for name, x in arrays.items()})


def _finite(text: str) -> float:
    """A number, if it is one; what is not would go unseen through many a comparison."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError("not finite")
    return number


def _header(data: bytes) -> Mapping[str, Any]:
    """The header, if it is not so long that reading it would take much memory."""
    n = int.from_bytes(data[:8], "little")
    if not 8 < len(data) <= _MOST or not 0 < n <= min(_MOST_HEADER, len(data) - 8):
        raise ValueError("no header")
    header = json.loads(data[8 : 8 + n])
    if not isinstance(header, dict):
        raise ValueError("no header")
    return header


@dataclass(frozen=True)
class Failure:
    """Why there is no answer: late, gone, garbage, or an error over there.

    Parameters
    ----------
    reason : str
        For the log.

    Examples
    --------
    >>> from hotview.federated import Failure
    >>> Failure("late: no answer in time").reason
    'late: no answer in time'
    """

    reason: str


class Carrier(Protocol):
    """Whatever brings messages to organizations.

    Attributes
    ----------
    names : list of str
        The organizations.

    Examples
    --------
    >>> from hotview.federated import Failure, Message
    >>> class Nobody:  # a carrier that reaches no organization
    ...     names = ["clinical"]
    ...
    ...     def exchange(self, messages, timeout):
    ...         return {name: Failure("gone") for name in messages}
    >>> Nobody().exchange({"clinical": Message("hello")}, timeout=1.0)
    {'clinical': Failure(reason='gone')}
    """

    names: list[str]

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


class Answering(Protocol):
    """Whoever answers messages."""

    def answer(self, message: Message) -> Message:
        """The answer to a message."""


class InProcess:
    """Organizations in this very process: for simulation, teaching and tests.

    Messages become bytes and messages again, as on a wire, so that nothing else can pass.

    Parameters
    ----------
    organizations : dict of str to Answering
        Who answers.

    Examples
    --------
    >>> from hotview.federated.messages import InProcess
    >>> from hotview.federated.messages import Message
    >>> class Echo:
    ...     def answer(self, message):
    ...         return message
    >>> carrier = InProcess({"clinical": Echo()})
    >>> carrier.exchange({"clinical": Message("hello")}, timeout=1)["clinical"].kind
    'hello'
    """

    def __init__(self, organizations: Mapping[str, Answering]) -> None:
        self.organizations = dict(organizations)
        self.names = list(organizations)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Let everybody answer in turn; an error over there is a failure here.

        Parameters
        ----------
        messages : dict of str to Message
            By organization.
        timeout : float
            Not looked at: who is in this process is never late.

        Returns
        -------
        dict of str to (Message or Failure)
            One for every message.
        """
        return {name: self._ask(name, message) for name, message in messages.items()}

    def _ask(self, name: str, message: Message) -> Message | Failure:
        try:
            came = Message.from_bytes(message.to_bytes())
            return Message.from_bytes(self.organizations[name].answer(came).to_bytes())
        except Exception as error:
            return Failure(f"{type(error).__name__}: {error}")
