"""Options that several commands share."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, is_dataclass
from functools import wraps
from inspect import Parameter
from pathlib import Path
from typing import Annotated, Any

import typer

from hotview.cli.runner import UsageError, set_debug


def option(text: str, *names: str, **settings: Any) -> Any:
    """Return a typer option with a help text and without a default to show."""
    return typer.Option(*names, help=text, show_default=False, **settings)


def flag(name: str, text: str, **settings: Any) -> Any:
    """Return a typer option without a value and without a ``--no-`` form."""
    return typer.Option(name, help=text, **settings)


def parse_threshold(text: str) -> float | str:
    """Return a threshold as a number, if it is one.

    Examples
    --------
    >>> parse_threshold("0.25"), parse_threshold("held-out")
    (0.25, 'held-out')
    """
    try:
        return float(text)
    except ValueError:
        return text


Views = Annotated[
    list[str],
    typer.Argument(
        metavar="VIEW...",
        help="Tables, as name=file, or as files named after their view: csv, tsv (also .gz), "
        "parquet, xlsx, duckdb, npy, npz, mat, h5ad, h5mu.",
        show_default=False,
    ),
]
Model = Annotated[Path, typer.Argument(metavar="MODEL", help="Model file (.hotview).")]
Labels = Annotated[str | None, option("Table of labels. Default: the views' own tables.")]
IdColumn = Annotated[str | None, option("Column that identifies a row. Default: as at fit.")]
IdFiles = Annotated[
    list[str] | None,
    option(
        "Table with the ids of a view whose file has no columns (npy), row by row.",
        "--ids",
        metavar="VIEW=FILE",
    ),
]
MatchIds = Annotated[
    list[str] | None,
    option(
        "Difference between ids to ignore: zeros (leading ones, or .0 at the end), case or spaces; "
        "exact ignores none. Can be given several times."
    ),
]
Device = Annotated[str, typer.Option(help="Device to compute on: auto, cpu, cuda, …")]
RandomState = Annotated[
    int, typer.Option(min=0, max=2**63 - 1, help="Seed; the same seed gives the same model.")
]
Force = Annotated[bool, flag("--force", "Replace existing files.")]
Json = Annotated[bool, flag("--json", "Print the result as JSON, for scripts.")]
Debug = Annotated[
    bool, flag("--debug", "Show the traceback of an error.", callback=set_debug, is_eager=True)
]


#: What a command gets of the options about the format of files, which `expand` puts in its place.
FileFormats = Mapping[str, Any] | None

#: Options about the format of files: their type, their help and the kind of file.
FORMATS: dict[str, tuple[Any, str, str]] = {
    "header": (bool | None, "Whether the first line holds column names.", "Text tables"),
    "delimiter": (list[str] | None, "Separator of cells, such as ';'.", "Text tables"),
    "decimal": (list[str] | None, "Decimal point, such as ','.", "Text tables"),
    "thousands": (list[str] | None, "Separator of thousands, such as ','.", "Text tables"),
    "encoding": (list[str] | None, "Encoding, such as latin-1. Default: UTF-8.", "Text tables"),
    "missing": (list[str] | None, "Cell that means missing, besides NA etc.", "Text tables"),
    "dates": (list[str] | None, "Order of 03/04/2024: day-first or month-first.", "Text tables"),
    "sheet": (list[str] | None, "Sheet of an xlsx file.", "Other files"),
    "query": (list[str] | None, "SQL query to a duckdb file.", "Other files"),
    "obsm": (list[str] | None, "Entry of obsm to read instead of X, as X_pca.", "Single cells"),
    "layer": (list[str] | None, "Layer to read instead of X.", "Single cells"),
}
#: options whose values have no "="
_SHORT = ("delimiter", "decimal", "thousands", "encoding", "dates", "impute", "obsm", "layer")
_QUERY = re.compile(r"[\s(]*(select|with|from|table|values|pivot|describe|show)\s", re.IGNORECASE)


@dataclass(frozen=True)
class ModelFiles:
    """Options about how the files that a command reads for a model differ from those of the fit."""

    id_column: IdColumn = None
    ids: IdFiles = None
    match_ids: MatchIds = None
    text: FileFormats = None


@dataclass(frozen=True)
class Scoring:
    """Options about labels to evaluate a model on, and about the metrics."""

    labels: Labels = None
    label_column: Annotated[str | None, option("Column of labels. Default: as at fit.")] = None
    baselines: Annotated[
        bool, typer.Option(help="Fit simple methods on the rows of the fit, to compare.")
    ] = True
    positive: Annotated[
        str | None,
        option("Positive class. Default: the rarer of two classes in training.", metavar="CLASS"),
    ] = None
    cost: Annotated[
        float | None,
        option(
            "How many times worse a missed positive row is than a false alarm, such as 5: sets the "
            "threshold to 1/(1 + cost)."
        ),
    ] = None
    threshold: Annotated[
        Any,
        option(
            "Probability from which on the positive class is predicted; held-out chooses it on "
            "half of the rows, and evaluates it on the other half.",
            metavar="P|held-out",
            parser=parse_threshold,
        ),
    ] = None

    @property
    def point(self) -> dict[str, Any]:
        """Arguments of `assess` about the positive class and its threshold."""
        return {"positive": self.positive, "cost": self.cost, "threshold": self.threshold}


def expand(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for every field of the dataclasses that it takes, and --debug."""

    def pack(parameter: Parameter, given: Mapping[str, Any]) -> Any:
        if parameter.name == "text":
            return parse_formats({name: given[name] for name in FORMATS})
        if not is_dataclass(parameter.annotation):
            return given[parameter.name]
        group: Any = parameter.annotation
        return group(**{field.name: pack(field, given) for field in parameters_of(group)})

    @wraps(command)
    def run(**given: Any) -> None:
        command(**{parameter.name: pack(parameter, given) for parameter in parameters})

    parameters = parameters_of(command)
    debug = Parameter("debug", Parameter.KEYWORD_ONLY, default=False, annotation=Debug)
    spread = [*(option for parameter in parameters for option in _spread(parameter)), debug]
    signature = inspect.Signature([x.replace(kind=Parameter.KEYWORD_ONLY) for x in spread])
    run.__signature__ = signature  # type: ignore[attr-defined]
    return run


def parameters_of(command: Callable[..., Any]) -> list[Parameter]:
    """Return the parameters of a function or dataclass, with their annotations as types."""
    return list(inspect.signature(command, eval_str=True).parameters.values())


def _spread(parameter: Parameter) -> Iterator[Parameter]:
    """Yield the options that stand for a parameter of a command."""
    if is_dataclass(parameter.annotation):
        for field in parameters_of(parameter.annotation):  # type: ignore[arg-type]
            yield from _spread(field)
    elif parameter.name == "text":
        for name, (kind, text, panel) in FORMATS.items():
            metavar = None if name == "header" else "[VIEW=]TEXT"
            annotation: Any = Annotated[kind, option(text, rich_help_panel=panel, metavar=metavar)]
            yield parameter.replace(name=name, annotation=annotation)
    else:
        yield parameter


def parse_formats(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options about formats that were given, as arguments of `Options`.

    A format that was typed as ``labs=,`` holds for the file ``labs`` alone.

    Examples
    --------
    >>> parse_formats({"delimiter": ["labs=;"], "decimal": [","], "header": None})
    {'delimiter': {'labs': ';'}, 'decimal': ','}
    """
    return {
        name: _parse_format(name, values) if isinstance(values, list | tuple) else values
        for name, values in given.items()
        if values is not None
    }


def _parse_format(name: str, values: Sequence[str]) -> Any:
    by_file: dict[str, Any] = {}
    for value in values:
        file, _, text = value.partition("=")
        if name in _SHORT and not value.endswith("=="):
            file, _, text = value.rpartition("=")  # a "=" is part of the file's name
        if not file or not text or (name == "query" and _QUERY.match(file)):
            file, text = "", value
        text = "\t" if text == r"\t" else text
        if name == "missing":
            by_file.setdefault(file, []).append(text)
        elif file in by_file:
            what = f"for {file!r}" if file else "for all files"
            raise UsageError(
                f"Expected --{name} once {what}, but got {by_file[file]!r} and {text!r}."
            )
        else:
            by_file[file] = text
    if name == "missing" and "" in by_file:  # these hold for the files that others name, too
        by_file = {file: list(dict.fromkeys([*by_file[""], *own])) for file, own in by_file.items()}
    return by_file[""] if set(by_file) == {""} else by_file


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
