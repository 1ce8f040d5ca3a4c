"""How a command runs and ends: errors, warnings and exit codes, and all that it writes."""

from __future__ import annotations

import errno
import json
import os
import shlex
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from hotview._files import atomic_write, check_output_path
from hotview._messages import Message, Parameter

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

INTERRUPTED = 130  # what shells expect after Ctrl-C
_FAILED, _WRONG_USAGE = 1, 2
_EXPECTED = (OSError, ValueError, TypeError, ImportError, ArithmeticError, MemoryError)
#: Flags of parameters that are called otherwise; ids link rows, and labels have their own column.
_FLAGS = {
    "variables": "--variable",
    "Xs": "--id-column",
    "y": "--label-column",
    "unaligned_y": "--label-column",
}
_WIDTH = 120  # of a table in a file

_debug = False


class UsageError(ValueError):
    """Options that are wrong or inconsistent."""


@contextmanager
def as_usage() -> Iterator[None]:
    """Raise errors about values as wrong usage."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise UsageError(*error.args) from error


def set_debug(debug: bool) -> bool:
    """Show the traceback of errors."""
    global _debug
    _debug = _debug or debug
    return debug


def run_command(command: Callable[[], Any]) -> None:
    """Run the command line; errors are printed in a line or two on stderr."""
    warnings.showwarning = show_warning
    if _is_secondary():
        if sys.argv[1:2] != ["fit"]:
            return  # only fits are distributed
        sys.stdout = sys.stderr = open(os.devnull, "w")  # noqa: SIM115 (it ends with the program)
    try:
        command()
    except KeyboardInterrupt:
        _exit("stopped.", INTERRUPTED)
    except SystemExit as end:  # typer turns Ctrl-C into this
        if end.code == INTERRUPTED:
            _exit("stopped.", INTERRUPTED)
        raise
    except UsageError as error:
        _exit(explain(error), _WRONG_USAGE, error)
    except _EXPECTED as error:
        _exit(explain(error), _FAILED, error)
    except Exception as error:
        text = f"{type(error).__name__}: {error}\nThis is a bug: please report it, with --debug."
        _exit(text, _FAILED, error)


def _is_secondary() -> bool:
    """Return whether this is a process of torchrun other than the first, which prints."""
    return "TORCHELASTIC_RUN_ID" in os.environ and os.environ.get("RANK", "0") != "0"


def _exit(text: str, code: int, error: Exception | None = None) -> None:
    if _is_secondary() and getattr(error, "is_reporter", False):  # the first process is gone
        sys.stderr = sys.__stderr__
    if _debug and error is not None:
        raise error
    print(f"hotview: {text}", file=sys.stderr)
    sys.exit(code)


def explain(error: Exception) -> str:
    """Return the message of an error, with flags in place of Python parameters.

    Examples
    --------
    >>> from hotview._messages import ParameterError
    >>> explain(ParameterError("Text in 'sex'. ", "Leave it out with {drop}.", drop=["sex"]))
    "Text in 'sex'. Leave it out with --drop sex."
    """
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        place = f" for {error.filename}" if error.filename else ""
        problem = f"No space is left on the disk{place}; nothing was written."
        return f"{problem} Free some, or write elsewhere."
    if isinstance(error, MemoryError):
        cause = f" ({error})" if str(error) else ""
        return f"Out of memory. Give files as npy, which are not read whole, or fewer rows.{cause}"
    if error.args and isinstance(error.args[0], Message):
        return with_flags(error.args[0])
    return str(error) or type(error).__name__


def with_flags(text: str) -> str:
    """Return a message with flags in place of Python parameters."""
    return text.spell(spell_flag) if isinstance(text, Message) else text


def spell_flag(parameter: Parameter) -> str:
    """Return a parameter as typed at the prompt.

    Examples
    --------
    >>> spell_flag(Parameter("drop", ["a b", "c"])), spell_flag(Parameter("header", False))
    ("--drop 'a b' --drop c", '--no-header')
    """
    name, value = parameter.name.replace("_", "-"), parameter.value
    flag = _FLAGS.get(parameter.name, f"--{name}")
    if value is None or isinstance(value, bool):
        return f"--no-{name}" if value is False else flag
    if isinstance(value, Mapping):
        pairs = [(k, x) for k, v in value.items() for x in (v if isinstance(v, list) else [v])]
        value = [f"{key}={item}" for key, item in pairs]
    values = value if isinstance(value, list) else [value]
    texts = [str(item).replace("\t", r"\t") for item in values]  # a tab as it can be typed
    return " ".join(f"{flag} {shlex.quote(text)}" for text in texts)


def show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a warning in one line, without its place in the code."""
    text = explain(message) if isinstance(message, Warning) else message
    print(f"hotview: warning: {text}", file=file or sys.stderr)


def print_notes(notes: Iterable[str]) -> None:
    """Print notes for the user on stderr, apart from the result."""
    for note in notes:
        print(f"hotview: note: {with_flags(note)}", file=sys.stderr)


def print_json(values: Mapping[str, Any]) -> None:
    """Print one JSON object, for scripts."""
    print(json.dumps(values, ensure_ascii=False, indent=2))


def print_result(values: Mapping[str, Any], *parts: str | Table, as_json: bool) -> None:
    """Print the result of a command: one JSON object, or else lines and tables."""
    if as_json:
        print_json(values)
    else:
        print_parts(*parts)


def print_parts(*parts: str | Table) -> None:
    """Print lines as they are, and tables."""
    console = make_console()
    for part in parts:
        if isinstance(part, str):
            print(part, flush=True)  # a training may follow
        else:
            console.print(part, soft_wrap=False)


def make_console() -> Console:
    """Return a console that is wide enough for tables in a file or a pipe."""
    from rich.console import Console

    console = Console(soft_wrap=True)
    if not console.is_terminal:
        console.width = _WIDTH
    return console


def make_table(
    headings: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    title: str | None = None,
    n_text: int = 1,
) -> Table:
    """Return a table: `n_text` columns of text, then columns of numbers."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=title and escape(title), title_justify="left", title_style="bold")
    for j, heading in enumerate(headings):
        justify: Any = "left" if j < n_text else "right"
        table.add_column(escape(heading), justify=justify, overflow="fold")
    for cells in rows:
        texts = [f"{cell:,}" if isinstance(cell, int) else escape(str(cell)) for cell in cells]
        table.add_row(*texts)
    return table


def check_new_file(path: Path, *suffixes: str, force: bool) -> None:
    """Raise, before the work, if a file cannot be written or must not be replaced."""
    if suffixes:
        check_output_path(path, suffixes)
    if path.exists() and not force:
        raise FileExistsError(f"{path} exists. Replace it with --force, or choose another name.")


def make_folder(folder: Path, names: Sequence[str], *, force: bool) -> list[Path]:
    """Make a folder in an existing one, and return the paths of new files in it."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"{folder} is a file; give the name of a folder.")
    for name in names:
        if os.path.basename(name) != name or name.startswith("."):
            raise ValueError(f"No file can be called {name!r}. Rename that view.")
        check_new_file(folder / name, force=force)
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"the folder {folder.parent} does not exist; make it first.")
    folder.mkdir(exist_ok=True)
    if not os.access(folder, os.W_OK):
        raise PermissionError(f"the folder {folder} cannot be written to; choose another.")
    return [folder / name for name in names]


def write_text(text: str, path: Path) -> Path:
    """Write a file of text completely or not at all, and return its path."""
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


def write_table(columns: Mapping[str, Any], path: Path) -> Path:
    """Write columns as csv, in which spreadsheets run nothing, or as parquet: see `write_text`."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    from hotview.data.table_file import escape_formulas

    is_text = path.suffix.lower() != ".parquet"
    columns = escape_formulas(columns) if is_text else columns
    table = pa.table({name: pa.array(values) for name, values in columns.items()})
    with atomic_write(path) as draft:
        (csv.write_csv if is_text else parquet.write_table)(table, draft)
    return path
