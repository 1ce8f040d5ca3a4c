"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.runner import UsageError, set_debug


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return a typer option with a help text and without a default to show."""
    return typer.Option(*names, help=text, show_default=False, **settings)


def flag(name: str, text: str) -> Any:
    """Return a typer option without a value and without a ``--no-`` form."""
    return typer.Option(name, help=text)


_TEXT = {"rich_help_panel": "Text tables"}
Views = Annotated[
    list[str],
    typer.Argument(
        metavar="VIEW...",
        help="Tables, as name=file, or as files named after their view: csv, tsv (also .gz), "
        "parquet, npy, npz, mat, h5ad, h5mu.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file (.hotview).")]
Labels = Annotated[str | None, option("Table of labels. Default: the views' own tables.")]
LabelColumn = Annotated[str | None, option("Column of labels. Default: as at fit.")]
IdColumn = Annotated[str | None, option("Column that identifies a row. Default: as at fit.")]
IdFiles = Annotated[
    list[str] | None,
    option(
        "Table with the ids of a view whose file has no columns (npy), row by row.",
        "--ids",
        metavar="VIEW=FILE",
    ),
]
Header = Annotated[bool | None, option("Whether the first line holds column names.", **_TEXT)]
Delimiter = Annotated[str | None, option("Separator of cells, such as ';'.", **_TEXT)]
Decimal = Annotated[str | None, option("Decimal point, such as ','.", **_TEXT)]
Device = Annotated[str, typer.Option(help="Device to compute on: auto, cpu, cuda, …")]
RandomState = Annotated[
    int, typer.Option(min=0, max=2**63 - 1, help="Seed; the same seed gives the same model.")
]
Baselines = Annotated[
    bool, typer.Option(help="Fit simple methods on the rows of the fit, to compare.")
]
Force = Annotated[bool, flag("--force", "Replace existing files.")]
Json = Annotated[bool, flag("--json", "Print the result as JSON, for scripts.")]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug", callback=set_debug, is_eager=True, help="Show the traceback of an error."
    ),
]


def text_format(header: bool | None, delimiter: str | None, decimal: str | None) -> dict[str, Any]:
    """Return those options of text tables that were given."""
    given = {"header": header, "delimiter": delimiter, "decimal": decimal}
    return {name: value for name, value in given.items() if value is not None}


def methods_by_view(specs: list[str] | None) -> dict[str, str]:
    """Split ``--impute view=method``; a method without a view is that of ``""``.

    Examples
    --------
    >>> methods_by_view(["mean", "labs=median+indicator"])
    {'': 'mean', 'labs': 'median+indicator'}
    """
    methods: dict[str, str] = {}
    for spec in specs or ():
        name, mark, method = spec.rpartition("=")
        if not method or bool(name) != bool(mark):
            raise UsageError(f"Expected --impute as METHOD or VIEW=METHOD, but got {spec!r}.")
        if name in methods:
            raise UsageError(f"Expected --impute once for every view, but got {spec!r} too.")
        methods[name] = method
    return methods


def spread_methods(methods: Mapping[str, str], names: Iterable[str]) -> Any:
    """Return the parameter `impute` for methods by view, where ``""`` stands for all others.

    Examples
    --------
    >>> spread_methods({"": "mean", "labs": "median"}, ["labs", "genes"])
    {'labs': 'median', 'genes': 'mean'}
    """
    named = {name: method for name, method in methods.items() if name}
    if "" not in methods:
        return named
    return {**dict.fromkeys(names, methods[""]), **named} if named else methods[""]


def files_by_view(specs: list[str] | None) -> dict[str, str]:
    """Split ``--ids view=file``.

    Examples
    --------
    >>> files_by_view(["scan=subjects.csv"])
    {'scan': 'subjects.csv'}
    """
    files = {}
    for spec in specs or ():
        name, mark, path = spec.partition("=")
        if not (name and mark and path):
            raise UsageError(f"Expected --ids as VIEW=FILE, but got {spec!r}.")
        files[name] = path
    return files
