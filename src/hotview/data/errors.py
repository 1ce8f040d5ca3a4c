"""Errors of file readers: they name the file, the problem and the remedy."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path

from hotview._messages import ParameterError


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
