"""Errors about files: they name the file, say what came, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """End an error message with the known name nearest to a wrong one, or else with all of them.

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


def listed(names: Iterable[str]) -> str:
    """Join names for a message, the first ten of them, in quotes."""
    names = list(names)
    return ", ".join(map(repr, names[:10])) + (", …" if len(names) > 10 else "")


def unreadable(path: Path | str, kind: str, error: Exception) -> ValueError:
    """Make the error for a file that is damaged, or of another kind than its name says."""
    return ValueError(
        f"{path} cannot be read as {kind}: it is damaged, cut short or something else. "
        f"({type(error).__name__}: {_reason(error)})"
    )


def _reason(error: Exception) -> str:
    # numpy advises to unpickle what it does not know, which nobody should do with a strange file.
    return "not numbers, or pickled" if "pickle" in str(error) else str(error)


@contextmanager
def reading(path: Path | str, kind: str) -> Iterator[None]:
    """Turn whatever a reader raises about a bad file into one ValueError that names the file.

    Examples
    --------
    >>> with reading("a.npy", "an npy file"):
    ...     raise EOFError("No data left in file")
    Traceback (most recent call last):
    ...
    ValueError: a.npy cannot be read as an npy file: ... (EOFError: No data left in file)
    """
    try:
        yield
    except (MemoryError, PermissionError):
        raise  # not the file's fault, and clear enough
    # Readers answer a damaged file with anything from zlib.error to TypeError.
    except Exception as error:
        raise unreadable(path, kind, error) from error
