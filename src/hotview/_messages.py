"""Messages that name parameters as data, so that each interface can spell them its own way."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from string import Formatter
from typing import Any

__all__ = ["Message", "Parameter", "ParameterError", "warn_user"]

_INTERNAL = ("hotview.", "sklearn.")  # modules that a warning does not point at


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
    text : str
        What is wrong.
    remedy : str, default=""
        What to do: a template in which ``{drop}`` stands for the parameter `drop`.
    **values : object
        Values to pass, by parameter; a `Parameter` under another name stands for itself.

    Examples
    --------
    >>> message = Message("Text in 'sex'. ", "Leave it out with {drop}.", drop=["sex"])
    >>> str(message)
    "Text in 'sex'. Leave it out with drop=['sex']."
    >>> message.spell(lambda parameter: f"/{parameter.name}:{parameter.value[0]}")
    "Text in 'sex'. Leave it out with /drop:sex."
    """

    parts: tuple[str | Parameter, ...]

    def __new__(cls, text: str, remedy: str = "", **values: Any) -> Message:
        """Join text and remedy in the spelling of Python."""
        parts: list[str | Parameter] = [*text.parts] if isinstance(text, Message) else [text]
        for literal, name, _, _ in Formatter().parse(remedy):
            parts.append(literal)
            if name is not None:
                value = values.get(name)
                parts.append(value if isinstance(value, Parameter) else Parameter(name, value))
        message = super().__new__(cls, "".join(map(str, parts)))
        message.parts = tuple(parts)
        return message

    def spell(self, spelling: Callable[[Parameter], str]) -> str:
        """Join the parts with parameters in another spelling."""
        return "".join(p if isinstance(p, str) else spelling(p) for p in self.parts)


class ParameterError(ValueError):
    """Error about the user's data that another value of a parameter would remedy.

    Parameters
    ----------
    text, remedy, **values : str and object
        As of `Message`.

    Examples
    --------
    >>> raise ParameterError("Text in 'sex'. ", "Leave it out with {drop}.", drop=["sex"])
    Traceback (most recent call last):
    hotview._messages.ParameterError: Text in 'sex'. Leave it out with drop=['sex'].
    """

    def __init__(self, text: str, remedy: str = "", **values: Any) -> None:
        super().__init__(Message(text, remedy, **values))


def warn_user(text: str, category: type[Warning] = UserWarning) -> None:
    """Issue a warning that points at the user's line, whatever called this function.

    Parameters
    ----------
    text : str
        The warning.
    category : type, default=UserWarning
        Its class.
    """
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_globals["__name__"].startswith(_INTERNAL):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, category, stacklevel=level)
