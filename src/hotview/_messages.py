"""Messages that name parameters as data, so that each interface can spell them its own way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

__all__ = ["Message", "Parameter"]


@dataclass(frozen=True)
class Parameter:
    """A parameter named in a message, with or without a value to pass.

    Parameters
    ----------
    name : str
        Name of the parameter in Python.
    value : object, default=None
        Value to pass; None names the parameter alone.

    Examples
    --------
    >>> str(Parameter("drop", ["sex"])), str(Parameter("id_column"))
    ("drop=['sex']", 'id_column')
    """

    name: str
    value: Any = None

    def __str__(self) -> str:
        return self.name if self.value is None else f"{self.name}={self.value!r}"


class Message(str):
    """Text of an error or warning that keeps the parameters it names.

    As a string it has the spelling of Python; `spell` returns it in another one, such as the flags
    of the command line.

    Parameters
    ----------
    *parts : str, Parameter or Message
        The text, in order.

    Examples
    --------
    >>> message = Message("Text in 'sex'. Leave it out with ", Parameter("drop", ["sex"]), ".")
    >>> str(message)
    "Text in 'sex'. Leave it out with drop=['sex']."
    >>> message.spell(lambda parameter: f"--{parameter.name} {parameter.value[0]}")
    "Text in 'sex'. Leave it out with --drop sex."
    """

    parts: tuple[str | Parameter, ...]

    def __new__(cls, *parts: str | Parameter) -> Message:
        """Join the parts in the spelling of Python."""
        flat = [q for p in parts for q in (p.parts if isinstance(p, Message) else (p,))]
        message = super().__new__(cls, "".join(map(str, flat)))
        message.parts = tuple(flat)
        return message

    def spell(self, spelling: Callable[[Parameter], str]) -> str:
        """Join the parts with parameters in another spelling."""
        return "".join(p if isinstance(p, str) else spelling(p) for p in self.parts)
