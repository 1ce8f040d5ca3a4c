"""How messages get to the organizations and back: here within one process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from hotview.federated.messages import Message

__all__ = ["Answering", "Carrier", "Failure", "InProcess"]


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
    >>> from hotview.federated.channel import InProcess
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
