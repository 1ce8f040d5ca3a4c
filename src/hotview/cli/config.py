"""Configuration files of ``hotview fit``: TOML in place of options."""

from __future__ import annotations

import inspect
import json
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any, get_args, get_origin

from hotview._files import atomic_write
from hotview.cli.runner import UsageError
from hotview.datasets.options import PER_FILE
from hotview.datasets.readers.errors import did_you_mean
from hotview.ingest.tables import split_name

__all__ = ["read_config", "write_config"]

_PATHS = ("out", "checkpoint", "labels")
_FORMATS = (*(name for name in PER_FILE if name != "header"), "impute")
_NOT_HERE = ("context", "settings", "config", "write_config")
_ABOUT_A_RUN = ("dry_run", "resume", "force", "json", "debug")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_HEADING = "# hotview fit --config {name}\n# Paths are relative to this file.\n"


@cache
def _option_kinds() -> dict[str, type]:
    """Types of the options of `fit` that a configuration may hold, and of ``parameters``."""
    from hotview.cli.fit import fit

    kinds: dict[str, type] = {}
    for name, option in inspect.signature(fit, eval_str=True).parameters.items():
        if name not in (*_NOT_HERE, *_ABOUT_A_RUN):
            kind = get_args(option.annotation)[0]  # of an Annotated
            kind = get_args(kind)[0] if type(None) in get_args(kind) else kind
            kinds[name] = get_origin(kind) or kind
    return {**kinds, "ids": dict, "parameters": dict}


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration of `fit`.

    Parameters
    ----------
    path : Path
        A TOML file. Its keys are options of `fit` with underscores. Options about formats, `impute`
        and `ids` may be tables by view, and the table ``[parameters]`` holds parameters of the
        estimator. Paths are relative to the file.

    Returns
    -------
    dict of str to object
        Options of `fit` as they would be typed.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no configuration {path}.")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Expected {path} to be TOML, but it is not: {error}.") from error
    kinds = _option_kinds()
    for name in values:
        if name not in kinds:
            hint = did_you_mean(name, tuple(kinds))
            raise UsageError(f"{path} has an unknown key {name!r}.{hint}")
    options = {name: _as_typed(path, name, value, kinds[name]) for name, value in values.items()}
    if "parameters" in options:
        options["settings"] = options.pop("parameters")
    return options


def _as_typed(path: Path, name: str, value: Any, kind: type) -> Any:
    """Return the value of an option as it would be typed."""
    if name == "parameters":
        parameters = _expect(path, name, value, dict).items()
        return [f"{parameter}={_literal(own)}" for parameter, own in parameters]
    if name == "ids":
        files = _expect(path, name, value, dict).items()
        return [f"{view}={path.parent / _text(path, name, file)}" for view, file in files]
    if name == "views":
        files = _expect(path, name, value, list)
        return [_in_folder(path, _expect(path, name, file, str)) for file in files]
    if name in _PATHS:
        return str(path.parent / _expect(path, name, value, str))
    if name in _FORMATS:
        return list(_by_view(path, name, value))
    if kind is list:
        values = value if isinstance(value, list) else [value]
        return [_text(path, name, own) for own in values]
    return _text(path, name, value) if kind is str else _expect(path, name, value, kind)


def _expect(path: Path, name: str, value: Any, kind: type) -> Any:
    numbers = (int, float) if kind is float else kind
    if not isinstance(value, numbers) or isinstance(value, bool) != (kind is bool):
        word = {**_WORDS, list: "a list", dict: "a table"}[kind]
        raise UsageError(f"Expected {name!r} in {path} to be {word}, but it is {value!r}.")
    return value


def _text(path: Path, name: str, value: Any) -> str:
    """Return text; a number is taken as it is written."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else _expect(path, name, value, str)


def _in_folder(path: Path, spec: str) -> str:
    """Return a view as typed, with its file relative to the configuration."""
    name, mark, file = spec.partition("=")
    if not mark or (path.parent / spec).exists():
        return str(path.parent / spec)
    return f"{name}={path.parent / file}"


def _by_view(path: Path, name: str, value: Any) -> Iterator[str]:
    """Values of an option about formats, by file or for all, as typed: ``labs=;``."""
    for file, own in (value if isinstance(value, dict) else {"": value}).items():
        for text in own if name == "missing" and isinstance(own, list) else [own]:
            yield f"{file}={_text(path, name, text)}" if file else _text(path, name, text)


def _literal(value: Any) -> str:
    """Return a parameter as typed: a list is a tuple, and text is read like a typed value."""
    if isinstance(value, str):
        return value
    return repr(tuple(value) if isinstance(value, list) else value)


def write_config(path: Path, options: Mapping[str, Any]) -> None:
    """Write the configuration that repeats a fit.

    Parameters
    ----------
    path : Path
        The file.
    options : dict of str to object
        Options of `fit` that were given, as they were typed.
    """
    values = _make_values(path.absolute().parent, options)
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    lines = [_HEADING.format(name=path.name)]
    lines += [f"{name} = {_toml(values[name])}\n" for name in values if name not in tables]
    for table, own in tables.items():
        lines.append(f"\n[{table}]\n")
        lines += [f"{_key(name)} = {_toml(value)}\n" for name, value in own.items()]
    with atomic_write(path) as draft:
        Path(draft).write_text("".join(lines), encoding="utf-8")


def _make_values(folder: Path, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of a configuration by key, with files relative to a folder."""
    from hotview.cli.fit import parse_settings
    from hotview.cli.options import files_by_view, parse_formats

    def relative(file: str) -> str:
        return Path(os.path.relpath(file, folder)).as_posix()

    formats = parse_formats({n: options[n] for n in (*PER_FILE, "impute") if n in options})
    values = {n: options[n] for n in _option_kinds() if n in options and n not in formats}
    values = {n: v for n, v in values.items() if v not in (None, [], ()) and v is not False}
    values |= {name: relative(str(values[name])) for name in _PATHS if name in values}
    views = [split_name(spec) for spec in options["views"]]
    values["views"] = [f"{name}={relative(f)}" if name else relative(f) for name, f in views]
    values["ids"] = {n: relative(file) for n, file in files_by_view(options.get("ids")).items()}
    settings = parse_settings(options.get("settings") or ())
    values["parameters"] = {name: _as_toml(value) for name, value in settings.items()}
    return {name: value for name, value in {**values, **formats}.items() if value != {}}


def _as_toml(value: Any) -> Any:
    """Return a parameter as TOML has it, or else as a literal of Python."""
    from hotview.cli.fit import parse_settings

    if isinstance(value, str):
        is_plain = value and parse_settings([f"name={value}"]) == {"name": value}
        return value if is_plain else repr(value)
    parts = value if isinstance(value, tuple) else [value]
    return value if all(isinstance(part, int | float) for part in parts) else repr(value)


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """Return a value as TOML."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
