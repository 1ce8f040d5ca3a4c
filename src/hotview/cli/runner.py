"""How a command ends: what it prints, what it warns of, and with which exit code."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

if TYPE_CHECKING:
    from rich.console import Console

__all__ = [
    "INTERRUPTED",
    "UsageError",
    "as_usage",
    "check_new_file",
    "explain",
    "make_console",
    "print_json",
    "run_command",
    "set_debug",
    "show_warning",
    "tell_notes",
]

INTERRUPTED = 130  # what shells expect after Ctrl-C
_FAILED, _WRONG_USAGE = 1, 2
_SAID = (OSError, ValueError, TypeError, ImportError, ArithmeticError, MemoryError)

#: How what is written in Python is written at the prompt.
_FLAGS = (
    (r"\bdrop=\[(.+?)\]", r"--drop \1"),
    (r"\bvariables=\[(.+?)\]", r"--variable \1"),
    (r"\bheader=True\b", "--header"),
    (r"\bheader=False\b", "--no-header"),
    (r"\bresume=True\b", "--resume"),
    (r"\bresume=False\b", "no --resume"),
)
#: Parameters whose values are said in messages.
_PARAMETERS = "|".join(
    (
        *("impute", "delimiter", "decimal", "coupling", "view_regularizer", "max_epochs"),
        *("device", "n_estimators", "batch_size", "learning_rate", "orthogonality_weight"),
        "precision",
        *("coupling_weight", "n_references", "n_components", "validation_fraction", "checkpoint"),
    )
)
_VALUE = r"('[^']*'|\"[^\"]*\"|[\w.\-]*\w|…)"
_WIDTH = 120  # of a table in a file

_debug = False


class UsageError(ValueError):
    """Options that do not go together."""


@contextmanager
def as_usage() -> Iterator[None]:
    """Take what is wrong with values as wrong usage."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from error


def set_debug(asked: bool) -> bool:
    """Let errors come with their traceback."""
    global _debug
    _debug = _debug or asked
    return asked


def run_command(command: Callable[[], Any]) -> None:
    """Run the command line; whatever goes wrong is told in a line or two on stderr."""
    warnings.showwarning = show_warning
    if _has_a_spokesman():
        if sys.argv[1:2] != ["fit"]:
            return  # what is not shared out is the first one's work alone
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it ends with the program)
    try:
        command()
    except KeyboardInterrupt:
        _leave("stopped.", INTERRUPTED)
    except SystemExit as end:  # by which typer, too, answers Ctrl-C
        if end.code == INTERRUPTED:
            _leave("stopped.", INTERRUPTED)
        raise
    except UsageError as error:
        _leave(explain(error), _WRONG_USAGE, error)
    except _SAID as error:
        _leave(explain(error), _FAILED, error)
    except Exception as error:
        said = f"{type(error).__name__}: {error}"
        _leave(f"{said}\nThis should not happen: please report it, with --debug.", _FAILED, error)


def _has_a_spokesman() -> bool:
    """Whether torchrun has started this process beside others, the first of which speaks."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def _leave(text: str, code: int, error: Exception | None = None) -> None:
    if _has_a_spokesman() and getattr(error, "is_reporter", False):  # because the first is gone
        sys.stderr = sys.__stderr__
    if _debug and error is not None:
        raise error
    print(f"hotview: {text}", file=sys.stderr)
    sys.exit(code)


def explain(error: Exception) -> str:
    """An error in words, with flags where Python would have parameters.

    Examples
    --------
    >>> explain(ValueError("a.csv: text in 'sex'. Leave it out with drop=['sex']."))
    "a.csv: text in 'sex'. Leave it out with --drop 'sex'."
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        return "No space is left on the disk; nothing was written. Make room, or write elsewhere."
    if isinstance(error, MemoryError):
        return "Memory is not enough. Give files as npy, which are not read whole, or fewer rows."
    text = str(error) or type(error).__name__
    for pattern, flag in _FLAGS:
        text = re.sub(pattern, flag, text)
    return re.sub(rf"\b({_PARAMETERS})={_VALUE}", _as_flag, text)


def _as_flag(found: re.Match[str]) -> str:
    name, value = found.groups()
    return f"--{name.replace('_', '-')} {value.strip(chr(39) + chr(34))}"


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Warn in one line, without the place in the code."""
    print(f"hotview: warning: {explain(Exception(str(message)))}", file=file or sys.stderr)


def tell_notes(remarks: Iterable[str]) -> None:
    """Say on stderr what a user should know, beside the result."""
    for remark in remarks:
        print(f"hotview: note: {remark}", file=sys.stderr)


def print_json(facts: Mapping[str, Any]) -> None:
    """Print what scripts read: one object."""
    print(json.dumps(facts, ensure_ascii=False, indent=2))


def make_console() -> Console:
    """A console for people; in a file or a pipe, wide enough for tables."""
    from rich.console import Console

    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH
    return console


def check_new_file(path: Path, *, force: bool) -> None:
    """Refuse to replace what is there, unless told to."""
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists. Replace it with --force, or choose another name.")
