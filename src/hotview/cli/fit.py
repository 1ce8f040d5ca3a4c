"""``hotview fit``: options of a training on files, typed or from a configuration in TOML."""

from __future__ import annotations

import ast
import json
import os
import re
import shlex
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

import typer
from click.core import ParameterSource

from hotview.cli import options
from hotview.cli.options import FORMATS, flag, option
from hotview.cli.runner import UsageError, check_new_file, write_text

if TYPE_CHECKING:
    from hotview.tables.dataset import DatasetFiles

_setting = partial(option, rich_help_panel="Estimator")
#: Options that are parameters of the estimators.
_PARAMETERS = (
    *("coupling", "view_regularizer", "max_epochs", "n_estimators", "impute", "device"),
    *("random_state", "checkpoint"),
)
#: Options of which each value may be for one view or file, and those that are paths.
_BY_FILE = (*(name for name in FORMATS if name != "header"), "impute")
_PATHS = ("out", "checkpoint", "labels")
_WORDS: dict[type, str] = {
    **{str: "text", int: "a whole number", float: "a number", bool: "true or false"},
    **{list: "a list", dict: "a table"},
}
_HEADING = "# hotview fit --config {name}\n# Paths are relative to this file.\n"


@dataclass(frozen=True)
class FitOptions:
    """Options of a fit that a configuration may hold; `settings` are its ``parameters``."""

    views: options.Views
    out: Annotated[Path | None, option("Model file to write (.hotview).", "--out", "-o")] = None
    labels: options.Labels = None
    label_column: Annotated[
        str | None, option("Column of labels. Without it, an encoder is trained.")
    ] = None
    id_column: Annotated[
        str | None, option("Column of ids. Rows with the same id in two views or more are linked.")
    ] = None
    match_ids: options.MatchIds = None
    group_column: Annotated[
        str | None, option("Column of persons, whose rows are held out together.")
    ] = None
    batch_column: Annotated[
        str | None, option("Column of batches, which are removed from every view.")
    ] = None
    ids: options.IdFiles = None
    unlabeled_marker: Annotated[
        str | None, option("Marker of rows without a label, besides empty cells, such as -1.")
    ] = None
    drop: Annotated[list[str] | None, option("Column to leave out.", metavar="COLUMN")] = None
    categorical: Annotated[
        list[str] | None, option("Column to treat as categorical.", metavar="COLUMN")
    ] = None
    variable: Annotated[
        list[str] | None, option("Array of an npz, mat or h5mu file to read. Default: all.")
    ] = None
    hold_out: Annotated[
        float | None, option("Fraction of the linked rows of each class to evaluate on.")
    ] = None
    linked_only: Annotated[
        bool, flag("--linked-only", "Leave out unlinked rows (for lscca, dgcca).")
    ] = False
    text: options.FileFormats = None
    coupling: Annotated[
        str | None,
        _setting(
            "Coupling of the views: none, lscca, dgcca, sw-pairwise, sw-reference, hot-pairwise or "
            "hot-reference (default).",
        ),
    ] = None
    view_regularizer: Annotated[
        str | None,
        _setting("Regularizer of each view: none, autoencoder, manifold or diffusion."),
    ] = None
    max_epochs: Annotated[int | None, _setting("Maximum number of epochs.")] = None
    n_estimators: Annotated[int | None, _setting("Number of networks.")] = None
    impute: Annotated[
        list[str] | None,
        _setting(
            "What replaces missing cells: mean or median of the column, or, to mark them in a "
            "column more, mean+indicator or median+indicator. Default: raise.",
            metavar="[VIEW=]METHOD",
        ),
    ] = None
    settings: Annotated[
        list[str] | None,
        _setting(
            "Any other parameter of the estimator, such as batch_size=128, hidden=64,32 or "
            "coupling__reg=0.5; can be given several times.",
            "--set",
            metavar="NAME=VALUE",
        ),
    ] = None
    device: options.Device = "auto"
    random_state: options.RandomState = 0
    checkpoint: Annotated[Path | None, option("File for the state of the training.")] = None


@dataclass(frozen=True)
class FitJob(FitOptions):
    """A fit, and how it is run."""

    dry_run: Annotated[
        bool, flag("--dry-run", "Print how the files are read, check them, and stop.")
    ] = False
    resume: Annotated[bool, flag("--resume", "Continue from the checkpoint, if any.")] = False
    force: options.Force = False
    json: options.Json = False

    @cached_property
    def files(self) -> DatasetFiles:
        """The files, and the meaning of their columns."""
        from hotview.tables.dataset import DatasetFiles

        given = {field.name: getattr(self, field.name) for field in fields(DatasetFiles)}
        given["text"] = {**(self.text or {}), **({"variables": v} if (v := self.variable) else {})}
        given["ids"] = options.files_by_view(self.ids)
        return DatasetFiles(**{name: x for name, x in given.items() if x is not None})

    @cached_property
    def parameters(self) -> dict[str, Any]:
        """Parameters of the estimator that were given; ``coupling__reg`` is of the coupling."""
        given = {name: getattr(self, name) for name in _PARAMETERS}
        given["impute"] = options.methods_by_view(self.impute) or None
        given["checkpoint"] = None if self.checkpoint is None else str(self.checkpoint)
        parameters = {name: value for name, value in given.items() if value is not None}
        for name, value in parse_settings(self.settings or ()).items():
            if name in (*_PARAMETERS, "unlabeled_marker"):
                raise UsageError(f"Use --{name.replace('_', '-')} instead of --set {name}.")
            parameters[name] = value
        if "TORCHELASTIC_RUN_ID" in os.environ:  # set by torchrun
            parameters["devices"] = "auto"
        return parameters

    def check_output(self) -> None:
        """Raise if the model could not be saved."""
        if self.out is not None:
            check_new_file(self.out, ".hotview", force=self.force)


def _load_config(context: typer.Context, path: Path | None) -> Path | None:
    """Take the options that are not typed from a configuration."""
    if path is not None:
        context.default_map = read_config(path)
    return path


def fit(
    context: typer.Context,
    job: FitJob,
    config: Annotated[
        Path | None,
        option(
            "TOML file with any of these options; typed ones come before them.",
            callback=_load_config,
            is_eager=True,
        ),
    ] = None,
    write_config: Annotated[
        Path | None, option("Write the options of this fit to a TOML file, for --config.")
    ] = None,
) -> None:
    """Train a model on your tables: an encoder or, with labels, a classifier.

    Rows are linked by id: an id found in two views or more is a linked row, with or without a
    label. Every other row is unaligned, and keeps its label if it has one. A summary of the input
    data is printed before training starts.
    """
    if job.out is None and not job.dry_run:
        raise UsageError("Expected a file for the model. Pass -o model.hotview, or --dry-run.")
    if write_config is not None:
        check_new_file(write_config, force=job.force)
    if job.resume and job.checkpoint is None:
        raise UsageError("--resume needs --checkpoint, the file to continue from.")
    from hotview.cli.fit_job import run_fit

    raise typer.Exit(run_fit(job, partial(_write_config, context, write_config)))


def _write_config(context: typer.Context, path: Path | None) -> str | None:
    """Write the options of this fit to a file, if asked for; return a sentence that says so."""
    if path is None:
        return None
    sources = {name: context.get_parameter_source(name) for name in context.params}
    default = ParameterSource.DEFAULT
    write_config(path, {n: context.params[n] for n, source in sources.items() if source != default})
    return f"Configuration written to {path}: hotview fit --config {shlex.quote(str(path))}"


def parse_settings(specs: list[str] | tuple[str, ...]) -> dict[str, Any]:
    """Parse ``--set name=value``: Python literals, true, false, or else text.

    Examples
    --------
    >>> parse_settings(["hidden=64,32", "preprocessing=none", "fusion=average"])
    {'hidden': (64, 32), 'preprocessing': 'none', 'fusion': 'average'}
    """
    settings: dict[str, Any] = {}
    for spec in specs:
        name, mark, text = spec.partition("=")
        if not (name and mark and text):
            raise UsageError(f"Expected --set as NAME=VALUE, but got {spec!r}.")
        try:
            settings[name] = ast.literal_eval(text)
        except (SyntaxError, ValueError):
            settings[name] = {"true": True, "false": False}.get(text, text)
    return settings


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration: options of `fit` as they would be typed.

    Its keys are options with underscores. Options about formats, `impute` and `ids` may be tables
    by view, and the table ``[parameters]`` holds parameters of the estimator. Paths are relative to
    the file.
    """
    from hotview._messages import did_you_mean

    if not path.is_file():
        raise FileNotFoundError(f"There is no configuration {path}.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Expected {path} to be TOML, but it is not: {error}.") from error
    kinds, typed = _config_kinds(), {}
    for name, value in values.items():
        if name not in kinds:
            hint = did_you_mean(name, tuple(kinds))
            raise UsageError(f"{path} has an unknown key {name!r}.{hint}")
        try:
            option = "settings" if name == "parameters" else name
            typed[option] = _as_typed(path.parent, name, value, kinds[name])
        except TypeError as error:
            raise UsageError(f"Expected {name!r} in {path} to be {error}.") from error
    return typed


def _config_kinds() -> dict[str, type]:
    """Types of the values of a configuration, by key."""
    annotated = {x.name: get_args(x.annotation)[0] for x in options.parameters_of(FitOptions)}
    annotated |= {name: kind for name, (kind, *_) in FORMATS.items()}
    del annotated["text"], annotated["settings"]
    kinds: dict[str, type] = {}
    for name, kind in annotated.items():
        own = get_args(kind)[0] if type(None) in get_args(kind) else kind
        kinds[name] = get_origin(own) or own
    return {**kinds, "ids": dict, "parameters": dict}


def _as_typed(folder: Path, name: str, value: Any, kind: type) -> Any:
    """Return the value of an option as it would be typed."""
    if name == "parameters":  # a list is a tuple, and text is read like a typed value
        own = {k: tuple(x) if isinstance(x, list) else x for k, x in _expect(value, dict).items()}
        return [f"{k}={x if isinstance(x, str) else repr(x)}" for k, x in own.items()]
    if name == "ids":
        return [f"{view}={folder / _text(file)}" for view, file in _expect(value, dict).items()]
    words = []
    if name == "views":
        for spec in _expect(value, list):
            view, mark, file = _expect(spec, str).partition("=")
            is_named = mark and not (folder / spec).exists()
            words.append(f"{view}={folder / file}" if is_named else str(folder / spec))
        return words
    if name in _BY_FILE:
        for file, own in (value if isinstance(value, dict) else {"": value}).items():
            for text in own if name == "missing" and isinstance(own, list) else [own]:
                words.append(f"{file}={_text(text)}" if file else _text(text))
        return words
    if name in _PATHS:
        return str(folder / _expect(value, str))
    if kind is list:
        return [_text(own) for own in (value if isinstance(value, list) else [value])]
    return _text(value) if kind is str else _expect(value, kind)


def _expect(value: Any, kind: type) -> Any:
    """Return a value of a type; a TypeError says what it should be otherwise."""
    numbers = (int, float) if kind is float else kind
    if not isinstance(value, numbers) or isinstance(value, bool) != (kind is bool):
        raise TypeError(f"{_WORDS[kind]}, but it is {value!r}")
    return value


def _text(value: Any) -> str:
    """Return text; a number is taken as it is written."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else _expect(value, str)


def write_config(path: Path, given: Mapping[str, Any]) -> None:
    """Write the configuration that repeats a fit with these options, as they were typed."""
    values = _make_values(path.absolute().parent, given)
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    lines = [_HEADING.format(name=path.name)]
    lines += [f"{name} = {_toml(values[name])}\n" for name in values if name not in tables]
    for table, own in tables.items():
        lines.append(f"\n[{table}]\n")
        for name, value in own.items():
            key = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)
            lines.append(f"{key} = {_toml(value)}\n")
    write_text("".join(lines), path)


def _make_values(folder: Path, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration by key, with files relative to a folder."""
    from hotview.tables.files import split_name

    def relative(file: str) -> str:
        return Path(os.path.relpath(file, folder)).as_posix()

    formats = options.parse_formats({n: given[n] for n in (*FORMATS, "impute") if n in given})
    values = {n: given[n] for n in _config_kinds() if n in given and n not in formats}
    values = {n: v for n, v in values.items() if v not in (None, [], ()) and v is not False}
    values |= {name: relative(str(values[name])) for name in _PATHS if name in values}
    views = [split_name(spec) for spec in given["views"]]
    values["views"] = [f"{name}={relative(f)}" if name else relative(f) for name, f in views]
    ids = options.files_by_view(given.get("ids"))
    values["ids"] = {name: relative(file) for name, file in ids.items()}
    settings = parse_settings(given.get("settings") or ())
    values["parameters"] = {name: _as_toml(value) for name, value in settings.items()}
    return {name: value for name, value in {**values, **formats}.items() if value != {}}


def _as_toml(value: Any) -> Any:
    """Return a parameter as TOML has it, or else as a literal of Python."""
    if isinstance(value, str):
        is_plain = value and parse_settings([f"name={value}"]) == {"name": value}
        return value if is_plain else repr(value)
    parts = value if isinstance(value, tuple) else [value]
    return value if all(isinstance(part, int | float) for part in parts) else repr(value)


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
