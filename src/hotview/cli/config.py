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

#: Options that name one file, or a folder's file per view; in a configuration, tables.
_PATHS = ("out", "checkpoint")
_VIEW_KEYS = ("file", "ids", "impute", *PER_FILE)
_LISTS = ("drop", "categorical", "variable", "match_ids")
_TEXTS = ("label_column", "id_column", "group_column", "unlabeled_marker", "coupling")
_OTHERS = ("view_regularizer", "max_epochs", "n_estimators", "device", "random_state", "hold_out")
_ROOT = (*_PATHS, *_LISTS, *_TEXTS, *_OTHERS, "linked_only", "impute", *PER_FILE)
_TABLES = ("files", "views", "labels", "parameters")
_HEADING = "# hotview fit --config {name}\n# Paths are relative to this file.\n"


def read_config(path: Path) -> dict[str, Any]:
    """Read a configuration of `fit`.

    Parameters
    ----------
    path : Path
        A TOML file. Its keys are options of `fit` with underscores. A table ``[views.NAME]`` holds
        the file of a view, its ids and its format, ``[labels]`` the file of labels and its format,
        ``[parameters]`` parameters of the estimator; ``files`` lists files without names. Paths are
        relative to the file.

    Returns
    -------
    dict of str to object
        Options of `fit` as they would be typed.
    """
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"Expected {path} to be TOML, but it is not: {error}.") from error
    _check_keys(path, "", values, (*_ROOT, *_TABLES))
    options: dict[str, Any] = {}
    for name, value in values.items():
        if name in _PATHS:
            options[name] = str(path.parent / _expect(path, name, value, str))
        elif name in (*PER_FILE, "impute") and name != "header":
            options[name] = _typed(value)
        elif name not in _TABLES:
            options[name] = [value] if name in _LISTS and isinstance(value, str) else value
    specs = [
        _in_folder(path, spec) for spec in _expect(path, "files", values.get("files", []), list)
    ]
    for name, view in _expect(path, "views", values.get("views", {}), dict).items():
        _check_keys(path, f"views.{name}", _expect(path, f"views.{name}", view, dict), _VIEW_KEYS)
        if "file" not in view:
            raise UsageError(f"Expected the file of view {name!r} in {path}, but there is none.")
        specs.append(f"{name}={path.parent / view['file']}")
        _add_formats(options, name, view)
        if "ids" in view:
            options.setdefault("ids", []).append(f"{name}={path.parent / view['ids']}")
    if specs:
        options["views"] = specs
    if "labels" in values:
        labels = _expect(path, "labels", values["labels"], dict)
        _check_keys(path, "labels", labels, ("file", *PER_FILE))
        options["labels"] = str(path.parent / labels.get("file", ""))
        _add_formats(options, file_stem(options["labels"]), labels)
    parameters = _expect(path, "parameters", values.get("parameters", {}), dict)
    if parameters:
        options["settings"] = [f"{name}={_literal(value)}" for name, value in parameters.items()]
    return options


def _check_keys(path: Path, table: str, values: Mapping[str, Any], known: tuple[str, ...]) -> None:
    for name in values:
        if name not in known:
            place = f" in [{table}]" if table else ""
            hint = did_you_mean(name, known)
            raise UsageError(f"{path} has an unknown key {name!r}{place}.{hint}")


def _expect(path: Path, name: str, value: Any, kind: type) -> Any:
    if not isinstance(value, kind):
        names: dict[type, str] = {str: "text", list: "a list", dict: "a table"}
        raise UsageError(f"Expected {name!r} in {path} to be {names[kind]}, but it is {value!r}.")
    return value


def _in_folder(path: Path, spec: str) -> str:
    """Return a view as typed, with its file relative to the configuration."""
    name, mark, file = spec.partition("=")
    if not mark or (path.parent / spec).exists():
        return str(path.parent / spec)
    return f"{name}={path.parent / file}"


def _typed(value: Any, file: str = "") -> list[str]:
    """Return a value by file as options: ``["labs=;"]``."""
    if isinstance(value, Mapping):
        return [text for name, own in value.items() for text in _typed(own, name)]
    texts = value if isinstance(value, list) else [value]
    return [f"{file}={text}" if file else str(text) for text in texts]


def _add_formats(options: dict[str, Any], file: str, values: Mapping[str, Any]) -> None:
    for name in (*PER_FILE, "impute"):
        if name in values:
            options.setdefault(name, []).extend(_typed(values[name], file))


def _literal(value: Any) -> str:
    return (
        value
        if isinstance(value, str)
        else repr(tuple(value) if isinstance(value, list) else value)
    )


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
    formats = parse_formats({n: options[n] for n in (*PER_FILE, "impute") if n in options})
    root = {n: options[n] for n in _ROOT if n in options and n not in formats}
    root = {n: v for n, v in root.items() if v not in (None, False, [], ())}
    root |= {n: _relative(str(root[n]), folder) for n in _PATHS if n in root}
    tables: dict[str, dict[str, Any]] = {"": root}
    ids = files_by_view(options.get("ids"))
    views = [split_name(spec) for spec in options["views"]]
    by_file: dict[str, dict[str, Any]] = {}
    if any(name is None and file.lower().endswith(SEVERAL) for name, file in views):
        root["files"] = [
            _relative(f, folder) if n is None else f"{n}={_relative(f, folder)}" for n, f in views
        ]
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
        tables["parameters"] = {
            n: list(v) if isinstance(v, tuple) else v for n, v in settings.items()
        }
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
