"""Configuration files of ``hotview fit``: TOML in place of options."""

from __future__ import annotations

import json
import os
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hotview._files import atomic_write
from hotview.cli.runner import UsageError
from hotview.datasets.files import PER_FILE, SEVERAL, file_stem
from hotview.datasets.readers.errors import did_you_mean
from hotview.ingest.tables import split_name

__all__ = ["read_config", "write_config"]

_PATHS = ("out", "checkpoint")
_LISTS = ("drop", "categorical", "variable", "match_ids")
_TEXTS = (
    *("label_column", "id_column", "group_column", "batch_column", "unlabeled_marker"),
    *("coupling", "view_regularizer", "device"),
)
_FORMATS = (*(name for name in PER_FILE if name != "header"), "impute")
#: Type of the value of every other option.
_KINDS: dict[str, type] = {
    **dict.fromkeys(("max_epochs", "n_estimators", "random_state"), int),
    **dict.fromkeys(("header", "linked_only"), bool),
    "hold_out": float,
}
_ROOT = (*_PATHS, *_LISTS, *_TEXTS, *_FORMATS, *_KINDS)
_TABLES = ("files", "views", "ids", "labels", "parameters")
_WORDS = {str: "text", int: "a whole number", float: "a number", bool: "true or false"}
_HEADING = "# hotview fit --config {name}\n# Paths are relative to this file.\n"


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration of `fit`.

    Parameters
    ----------
    path : Path
        A TOML file. Its keys are options of `fit` with underscores. A table ``[views.NAME]`` holds
        the file of a view, its ids and its format, ``[labels]`` the file of labels and its format,
        ``[parameters]`` parameters of the estimator; ``files`` lists files without names, and
        ``[ids]`` holds the tables with the ids of their views. Paths are relative to the file.

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
    _check_keys(path, "", values, (*_ROOT, *_TABLES))
    options: dict[str, Any] = {}
    for name, value in values.items():
        if name in _PATHS:
            options[name] = str(path.parent / _expect(path, name, value, str))
        elif name in _FORMATS:
            options[name] = _typed(path, name, value)
        elif name in (*_LISTS, *_TEXTS):
            options[name] = _texts(path, name, value, several=name in _LISTS)
        elif name in _KINDS:
            options[name] = _expect(path, name, value, _KINDS[name])
    files = _expect(path, "files", values.get("files", []), list)
    specs = [_in_folder(path, _expect(path, "files", spec, str)) for spec in files]
    for name, view in _expect(path, "views", values.get("views", {}), dict).items():
        specs.append(f"{name}={_read_table(path, f'views.{name}', view, options, name)}")
        if "=" in name:
            raise UsageError(f"Expected the view {name!r} of {path} to have a name without '='.")
    if specs:
        options["views"] = specs
    ids = dict(_expect(path, "ids", values.get("ids", {}), dict))
    ids |= {name: view["ids"] for name, view in values.get("views", {}).items() if "ids" in view}
    if ids:
        texts = {name: _expect(path, "ids", file, str) for name, file in ids.items()}
        options["ids"] = [f"{name}={path.parent / file}" for name, file in texts.items()]
    if "labels" in values:
        options["labels"] = _read_table(path, "labels", values["labels"], options)
    parameters = _expect(path, "parameters", values.get("parameters", {}), dict)
    if parameters:
        options["settings"] = [f"{name}={_literal(value)}" for name, value in parameters.items()]
    return options


def _read_table(
    path: Path, table: str, values: Any, options: dict[str, Any], name: str | None = None
) -> str:
    """Return the file of a table of the configuration, and add its format to the options."""
    keys = ("file", *_FORMATS[:-1]) if name is None else ("file", "ids", *_FORMATS)
    _check_keys(path, table, _expect(path, table, values, dict), keys)
    if "file" not in values:
        raise UsageError(f"Expected a file in [{table}] of {path}, but there is none.")
    file = str(path.parent / _expect(path, "file", values["file"], str))
    for option in _FORMATS:
        if option in values:
            own = _typed(path, option, {name or file_stem(file): values[option]})
            options.setdefault(option, []).extend(own)
    return file


def _check_keys(path: Path, table: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in values:
        if name not in known:
            place = f" in [{table}]" if table else ""
            hint = did_you_mean(name, known)
            raise UsageError(f"{path} has an unknown key {name!r}{place}.{hint}")


def _expect(path: Path, name: str, value: Any, kind: type) -> Any:
    numbers = (int, float) if kind is float else kind
    if not isinstance(value, numbers) or isinstance(value, bool) != (kind is bool):
        word = {**_WORDS, list: "a list", dict: "a table"}[kind]
        raise UsageError(f"Expected {name!r} in {path} to be {word}, but it is {value!r}.")
    return value


def _texts(path: Path, name: str, value: Any, *, several: bool) -> Any:
    """Return text, or a list of texts; a number is taken as it is written."""
    if several:
        values = value if isinstance(value, list) else [value]
        return [_texts(path, name, text, several=False) for text in values]
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else _expect(path, name, value, str)


def _in_folder(path: Path, spec: str) -> str:
    """Return a view as typed, with its file relative to the configuration."""
    name, mark, file = spec.partition("=")
    if not mark or (path.parent / spec).exists():
        return str(path.parent / spec)
    return f"{name}={path.parent / file}"


def _typed(path: Path, name: str, value: Any) -> list[str]:
    """Return the value of an option about formats, by file or for all, as typed: ``["labs=;"]``."""
    by_file = value if isinstance(value, Mapping) else {"": value}
    pairs = [
        (file, text)
        for file, own in by_file.items()
        for text in _texts(path, name, own if name == "missing" else [own], several=True)
    ]
    return [f"{file}={text}" if file else text for file, text in pairs]


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
    lines = [_HEADING.format(name=path.name)]
    tables = _make_tables(path, options)
    for name, value in tables.pop("", {}).items():
        lines.append(f"{name} = {_toml(value)}\n")
    for table, values in tables.items():
        lines.append(f"\n[{table}]\n")
        lines += [f"{_key(name)} = {_toml(value)}\n" for name, value in values.items()]
    with atomic_write(path) as draft:
        Path(draft).write_text("".join(lines), encoding="utf-8")


def _make_tables(path: Path, options: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the tables of a configuration by their heading, those of the root under ""."""
    from hotview.cli.fit import parse_settings
    from hotview.cli.options import files_by_view, parse_formats

    folder = path.absolute().parent
    options = {n: list(v) if isinstance(v, tuple) else v for n, v in options.items()}  # click's
    formats = parse_formats({n: options[n] for n in (*PER_FILE, "impute") if n in options})
    root = {n: options[n] for n in _ROOT if n in options and n not in formats}
    root = {n: v for n, v in root.items() if v not in (None, [], ()) and v is not False}
    root |= {n: _relative(str(root[n]), folder) for n in _PATHS if n in root}
    tables: dict[str, dict[str, Any]] = {"": root}
    ids = files_by_view(options.get("ids"))
    views = [split_name(spec) for spec in options["views"]]
    by_file: dict[str, dict[str, Any]] = {}
    # The views of a file of several have names of their own.
    if any(n is None and (f.lower().endswith(SEVERAL) or "=" in f) for n, f in views):
        root["files"] = [
            _relative(f, folder) if n is None else f"{n}={_relative(f, folder)}" for n, f in views
        ]
        if ids:
            tables["ids"] = {name: _relative(file, folder) for name, file in ids.items()}
    else:
        for given, file in views:
            name = given or file_stem(file)
            own = {"file": _relative(file, folder)}
            own |= {"ids": _relative(ids[name], folder)} if name in ids else {}
            tables[f"views.{_key(name)}"] = by_file[name] = own
    if options.get("labels") is not None:
        own = {"file": _relative(options["labels"], folder)}
        tables["labels"] = by_file[file_stem(options["labels"])] = own
    for option, value in formats.items():
        _place_format(option, value, root, by_file)
    if options.get("settings"):
        settings = parse_settings(options["settings"])
        tables["parameters"] = {name: _as_toml(value) for name, value in settings.items()}
    return tables


def _place_format(
    option: str, value: Any, root: dict[str, Any], by_file: Mapping[str, dict[str, Any]]
) -> None:
    """Put an option into the tables of the files that it names, if they have one."""
    values = value if isinstance(value, Mapping) else {"": value}
    for name, own in values.items():
        if name in by_file:
            by_file[name][option] = own
    rest = {name: own for name, own in values.items() if name not in by_file}
    if rest:
        root[option] = rest[""] if set(rest) == {""} else rest


def _as_toml(value: Any) -> Any:
    """Return a parameter as TOML has it, or else as a literal of Python."""
    from hotview.cli.fit import parse_settings

    if isinstance(value, str):
        is_plain = value and parse_settings([f"name={value}"]) == {"name": value}
        return value if is_plain else repr(value)
    parts = value if isinstance(value, tuple) else [value]
    return value if all(isinstance(part, int | float) for part in parts) else repr(value)


def _relative(file: str, folder: Path) -> str:
    return Path(os.path.relpath(file, folder)).as_posix()


def _key(name: str) -> str:
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else _toml(name)


def _toml(value: Any) -> str:
    """Return a value as TOML; None, which it does not have, is text that `--set` reads as None."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{_key(str(n))} = {_toml(v)}' for n, v in value.items())}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
