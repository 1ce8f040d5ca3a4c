"""Messages that name parameters as data, which each interface spells its own way; and errors."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from string import Formatter
from typing import Any

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


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the known name nearest to a wrong one, or lists them all.

    Examples
    --------
    >>> did_you_mean("wieght", ["height", "weight"])
    " Did you mean 'weight'?"
    >>> did_you_mean("age", ["height", "weight"])
    " There are: 'height', 'weight'."
    """
    known = list(known)
    by_lower = {candidate.lower(): candidate for candidate in known}
    if near := get_close_matches(name.lower(), by_lower, n=1, cutoff=0.7):
        return f" Did you mean {by_lower[near[0]]!r}?"
    return f" There are: {listed(known)}." if known else ""


def unknown_error(problem: str, name: str, known: Iterable[str], parameter: str) -> ParameterError:
    """Return the error for a name that is not known, which a parameter is to be corrected for."""
    hint = did_you_mean(name, dict.fromkeys(known))
    return ParameterError(f"{problem}.{hint}", f" Correct {{{parameter}}}.")


def check_known(
    names: Iterable[str], known: Iterable[str], problem: str, purpose: str = ""
) -> None:
    """Raise for a name that is not known; it stands between problem and purpose in the error."""
    known = dict.fromkeys(known)
    for name in names:
        if name not in known:
            raise ValueError(f"{problem} {name!r}{purpose}.{did_you_mean(name, known)}")


def listed(names: Iterable[str]) -> str:
    """Join at most ten names, in quotes, for a message."""
    names = list(names)
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")


def unreadable(path: Path | str, kind: str, error: Exception) -> ValueError:
    """Return the error for a file that is damaged, or of another format than its name."""
    # numpy advises to unpickle what it does not know, which is unsafe with an untrusted file.
    reason = "not numbers, or pickled" if "pickle" in str(error) else str(error)
    return ValueError(
        f"{path} cannot be read as {kind}: it is damaged, cut short or something else. "
        f"({type(error).__name__}: {reason})"
    )


@contextmanager
def within_memory(path: Path | str) -> Iterator[None]:
    """Name the file in an error about memory.

    Examples
    --------
    >>> with within_memory("a.npy"):
    ...     raise MemoryError("Unable to allocate 72.8 TiB")
    Traceback (most recent call last):
    ...
    MemoryError: Expected a.npy to fit into memory, ... (Unable to allocate 72.8 TiB)
    """
    try:
        yield
    except MemoryError as error:
        if str(path) in str(error):
            raise
        raise MemoryError(
            f"Expected {path} to fit into memory, but it does not, or it is damaged and announces "
            "more than it holds. Read fewer rows or columns; npy and parquet files can stay on "
            f"disk. ({str(error) or type(error).__name__})"
        ) from error


@contextmanager
def reading(path: Path | str, kind: str) -> Iterator[None]:
    """Convert any error of a reader to a ValueError that names the file; see `within_memory`.

    Examples
    --------
    >>> with reading("a.npy", "an npy file"):
    ...     raise EOFError("No data left in file")
    Traceback (most recent call last):
    ...
    ValueError: a.npy cannot be read as an npy file: ... (EOFError: No data left in file)
    """
    try:
        with within_memory(path):
            yield
    except (MemoryError, PermissionError):
        raise  # not errors of the file
    # On a damaged file, readers raise anything from zlib.error to TypeError.
    except Exception as error:
        raise unreadable(path, kind, error) from error
