"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.runner import UsageError, set_debug

__all__ = [
    "Debug",
    "Decimal",
    "Delimiter",
    "Device",
    "Force",
    "Header",
    "IdColumn",
    "IdFiles",
    "Json",
    "Model",
    "Views",
    "by_view",
    "written",
]

Views = Annotated[
    list[str],
    typer.Argument(
        metavar="VIEW...",
        help="Tables, as name=file or as files named after their view: csv, tsv (also .gz), "
        "parquet, npy, npz, mat, h5ad, h5mu.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="A model that was saved (.hotview).")]
IdColumn = Annotated[
    str | None,
    typer.Option(
        help="Column that tells who a row is. Default: the one of the model.", show_default=False
    ),
]
IdFiles = Annotated[
    list[str] | None,
    typer.Option(
        "--ids",
        metavar="VIEW=FILE",
        help="Table with the ids of a view whose file has no columns (npy), row by row.",
        show_default=False,
    ),
]
_TEXT = "Text tables"
Header = Annotated[
    bool | None,
    typer.Option(
        help="Whether the first line holds names of columns.",
        show_default=False,
        rich_help_panel=_TEXT,
    ),
]
Delimiter = Annotated[
    str | None,
    typer.Option(help="What separates cells.", show_default=False, rich_help_panel=_TEXT),
]
Decimal = Annotated[
    str | None,
    typer.Option(help="The decimal point.", show_default=False, rich_help_panel=_TEXT),
]
Device = Annotated[str, typer.Option(help="Where to compute: auto, cpu, cuda, …")]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.")]
Json = Annotated[bool, typer.Option("--json", help="Print the result as JSON, for scripts.")]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", callback=set_debug, is_eager=True, help="Show the traceback of an error."
    ),
]


def written(header: bool | None, delimiter: str | None, decimal: str | None) -> dict[str, Any]:
    """How text tables are written, as far as it was said."""
    given = {"header": header, "delimiter": delimiter, "decimal": decimal}
    return {name: value for name, value in given.items() if value is not None}


def by_view(specs: list[str] | None, flag: str) -> dict[str, str]:
    """Split ``view=file``, where a name is needed.

    Examples
    --------
    >>> by_view(["scan=who.csv"], "--ids")
    {'scan': 'who.csv'}
    """
    found = {}
    for spec in specs or ():
        name, mark, path = spec.partition("=")
        if not (name and mark and path):
            raise UsageError(f"Expected {flag} as VIEW=FILE, but got {spec!r}.")
        found[name] = path
    return found
