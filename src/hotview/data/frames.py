"""Data frames with text columns as views, encoded as tables in files are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from datetime import date
from operator import attrgetter
from typing import Any

import numpy as np

from hotview._messages import Parameter, ParameterError, did_you_mean, listed, warn_user
from hotview._types import Views
from hotview._validation import EncodedView, ViewTable, encoded_names
from hotview._validation.containers import (
    PANDAS_NA,
    column_names,
    container_of,
    is_numeric_arrow,
    text_columns,
)
from hotview.data.arrow import ArrowTable, read_cells
from hotview.data.columns import Column, ViewColumns, choose_columns, encode_table

_FRAMES = ("pandas", "polars", "pyarrow")
#: What a column has besides its name, and what a column of numbers has; there may be many columns.
_SETTINGS = attrgetter(*(item.name for item in fields(Column) if item.name != "name"))
_PLAIN = _SETTINGS(Column(""))
_INTEGERS = 2.0**53  # below which floats that are whole numbers are written as such


@dataclass
class _Notes:
    """What was found in frames that the columns of a fit do not have, by view."""

    extra: dict[str, list[str]] = field(default_factory=dict)
    unseen: dict[str, dict[str, list[str]]] = field(default_factory=dict)
    differences: list[str] = field(default_factory=list)

    def warn(self, left_out: Collection[str]) -> None:
        """Issue one warning about columns, one about categories, and those about units."""
        for text in self.differences:
            warn_user(text)
        extra = {
            name: [column for column in columns if column not in left_out]
            for name, columns in self.extra.items()
        }
        if texts := [f"{listed(c)} of view {name!r}" for name, c in extra.items() if c]:
            left = "; ".join(texts)
            warn_user(f"Columns that were not in the training data are left out: {left}.")
        texts = [
            f"{listed(values)} in column {column!r} of view {name!r}"
            for name, by_column in self.unseen.items()
            for column, values in by_column.items()
        ]
        if texts:
            warn_user(
                "Values that were not in the training data are encoded as 0 in all categories: "
                f"{'; '.join(texts)}."
            )


def encode_views(*parts: Views | None) -> list[Any]:
    """Encode the data frames of a fit that have text columns.

    The columns of a view are those of its first frame, and its categories are those of all rows.
    The other frames of the view are brought into the same order.

    Parameters
    ----------
    *parts : views or None
        Rows of the views: linked ones, unaligned ones. What is not a collection of views is
        returned as it is, for `check_tables` to refuse.

    Returns
    -------
    list
        The parts. Frames with text columns are replaced by an `EncodedView`; frames that are
        numeric throughout, and what is not a frame, stay as they are.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview.data.frames import encode_views
    >>> frame = pd.DataFrame({"sex": ["F", "M", "F", "M"], "age": [61.0, 48.0, 33.0, 70.0]})
    >>> [views] = encode_views({"clinical": frame})
    >>> views["clinical"].names
    ('sex = F', 'sex = M', 'age')
    """
    names = next((list(dict(p)) for part in parts if (p := _pairs(part, None))), None)
    by_part = [dict(_pairs(part, names)) for part in parts]
    chosen = {}
    for name in names or ():
        frames = [views[name] for views in by_part if container_of(views.get(name)) in _FRAMES]
        if (columns := _choose(name, frames)) is not None:
            chosen[name] = columns
    return [encode_known_views(part, chosen, names=names) for part in parts]


def encode_known_views(
    views: Views | None,
    columns: Mapping[str, ViewColumns],
    left_out: Collection[str] = (),
    *,
    names: Sequence[str] | None = None,
) -> Any:
    """Encode data frames by known columns, whatever the order of theirs.

    Warns of columns that are not among the known ones, which are left out, and of values that are
    not among the categories, which are 0 in all of them.

    Parameters
    ----------
    views : views or None
        The views; what is not a collection of views is returned as it is.
    columns : dict of str to ViewColumns
        Columns of some or all views; a view without any is returned as it is.
    left_out : collection of str, default=()
        Columns that are left out without a warning.
    names : sequence of str or None, default=None
        Names of the views of a list; None for those of `columns`.

    Returns
    -------
    dict, list or object
        The views. A frame is replaced by an `EncodedView` if it is not numeric throughout, or by a
        frame of the known columns in their order; other views stay as they are.
    """
    pairs, notes = _pairs(views, list(columns) if names is None else names), _Notes()
    encoded = [
        (name, _encode(name, view, columns[name], notes) if name in columns else view)
        for name, view in pairs
    ]
    if all(new is old for (_, new), (_, old) in zip(encoded, pairs, strict=True)):
        return views
    notes.warn(left_out)
    return dict(encoded) if isinstance(views, Mapping) else [view for _, view in encoded]


def columns_of(table: ViewTable) -> ViewColumns:
    """Return the columns of a validated view, with the encoding of an `EncodedView`."""
    if table.encoding is not None:
        columns: ViewColumns = table.encoding
        return columns
    named = None if table.columns is None else tuple(map(Column, table.columns))
    return ViewColumns(named, table.n_columns)


def encoded_shapes(
    columns: Mapping[str, ViewColumns],
) -> dict[str, tuple[int, tuple[str, ...] | None]]:
    """Return number and names of the encoded columns of every view, as for `check_known_tables`."""
    return {name: (own.n_columns, encoded_names(own)) for name, own in columns.items()}


def _pairs(views: Any, names: Sequence[str] | None) -> list[tuple[str, Any]]:
    """Views with their names; none for what is not a collection of views."""
    if isinstance(views, Mapping):
        return list(views.items())
    if not isinstance(views, Sequence) or isinstance(views, str | bytes):
        return []
    if names is None:
        names = [f"view_{s}" for s in range(len(views))]
    return list(zip(names, views, strict=True)) if len(names) == len(views) else []


def _choose(name: str, frames: Sequence[Any]) -> ViewColumns | None:
    """Columns of a view by all its frames; None where nothing has to be encoded or matched."""
    if not frames:
        return None
    names, has_text = column_names(frames[0]), any(map(text_columns, frames))
    if not has_text:
        is_matched = len(frames) > 1 and all(isinstance(column, str) for column in names)
        return ViewColumns(tuple(map(Column, names)), len(names)) if is_matched else None
    for frame in frames:
        _check_names(name, column_names(frame), names)
    tables = [_to_arrow(name, frame, names) for frame in frames]
    fields = [item for table in tables for item in table.schema]
    declared = {item.name for item in fields if hasattr(item.type, "index_type")}  # categorical
    with _spelled_for(container_of(frames[0])):
        return choose_columns(ArrowTable(f"view {name!r}", _stack(tables)), (), declared)


def _encode(name: str, view: Any, columns: ViewColumns, notes: _Notes) -> Any:
    """A frame by known columns; anything else, and a frame that needs nothing, as it is."""
    container = container_of(view)
    if container not in _FRAMES:
        return view
    names, text = column_names(view), text_columns(view)
    if columns.columns is None:
        if text:
            raise TypeError(
                f"Expected view {name!r} to hold numbers, because its columns had no names at fit, "
                f"by which text could be encoded, but these columns are not numeric: "
                f"{listed(text)}. Fit with a data frame, or encode the columns as at fit and pass "
                "an array."
            )
        return view
    known = [column.name for column in columns.columns]
    is_numeric = all(settings == _PLAIN for settings in map(_SETTINGS, columns.columns))
    if is_numeric and not text:
        has_names = all(isinstance(column, str) for column in names)
        if names == known or not has_names:  # without names, by position
            return view
    _check_names(name, names, known)
    wanted = set(known)
    notes.extra[name] = [column for column in names if column not in wanted]
    if is_numeric and not wanted.intersection(text):
        return view[known] if container == "pandas" else view.select(known)
    table = ArrowTable(f"view {name!r}", _to_arrow(name, view, known))
    with _spelled_for(container):
        encoded = encode_table(table, columns)
    notes.unseen[name] = encoded.unseen
    notes.differences += encoded.notes
    return EncodedView(encoded.X, columns, view.index if container == "pandas" else None, container)


def _check_names(name: str, names: Sequence[Any], known: Sequence[str]) -> None:
    """Raise unless the names of a frame are text, each occurs once, and all known ones are there.

    Columns that are not among the known ones may have any names.
    """
    for column in (*names, *known):
        if not isinstance(column, str):
            raise TypeError(
                f"Expected the columns of view {name!r} to be named by text, because text columns "
                f"are matched by name, but one is called {column!r} ({type(column).__name__}). "
                "Rename it, in pandas as X.columns = X.columns.astype(str)."
            )
    twice = [column for column, n in Counter(names).items() if n > 1]
    if twice:
        raise ValueError(
            f"Expected every column of view {name!r} to have its own name, but {listed(twice)} "
            "occur more than once. Rename all but one."
        )
    given = set(names)
    lacking = [column for column in known if column not in given]
    if lacking:
        raise ValueError(
            f"Expected view {name!r} to have the columns of fit, in any order, but it has no "
            f"column {listed(lacking)}.{did_you_mean(lacking[0], names)}"
        )


@contextmanager
def _spelled_for(container: str) -> Iterator[None]:
    """Name operations on frames, not parameters of files, in errors."""

    def spell(parameter: Parameter) -> str:
        name, value = parameter.name, parameter.value
        if name in ("drop", "categorical", "id_column"):
            columns = [value] if isinstance(value, str) else list(value or ())
            if name == "id_column" and container == "pandas":
                return f"X.set_index({value!r})"
            operation = _OPERATIONS[container][name == "categorical"]
            return operation.format(columns, columns[0] if columns else "")
        (given,) = value.values() if isinstance(value, Mapping) else (value,)
        if name == "missing":
            return f"{given[0]!r} replaced by None"
        if given is None:
            return str(parameter)
        if name == "dates":
            return f"dayfirst={given == 'day-first'} to pandas.to_datetime"
        return f"{name}={given!r} where the file is read"

    try:
        yield
    except ParameterError as error:
        raise ValueError(error.args[0].spell(spell)) from error


#: How columns are dropped, and the first of them made categorical, in every container.
_OPERATIONS = {
    "pandas": ("X.drop(columns={0!r})", "X.astype({{{1!r}: 'category'}})"),
    "polars": ("X.drop({0!r})", "X.cast({{{1!r}: polars.Categorical}})"),
    "pyarrow": ("X.drop_columns({0!r})", "X[{1!r}].dictionary_encode()"),
}


def _to_arrow(name: str, view: Any, names: Sequence[str]) -> Any:
    """Some columns of a frame as a pyarrow Table."""
    container = container_of(view)
    if container == "pyarrow":
        return view.select(list(names))
    if container == "polars":
        return view.select(list(names)).to_arrow()
    import pyarrow as pa

    return pa.table({column: _column_to_arrow(name, view[column]) for column in names})


def _column_to_arrow(name: str, column: Any) -> Any:
    """A column of a pandas frame; one of mixed values becomes text."""
    import pyarrow as pa

    if hasattr(column, "cat"):  # whose categories may be of any type, intervals among them
        texts = [_write_cell(value) or str(value) for value in column.cat.categories]
        codes = column.cat.codes.to_numpy().astype(np.int32)
        indices = pa.array(codes, mask=codes < 0)
        return pa.DictionaryArray.from_arrays(indices, pa.array(texts, type=pa.string()))
    if type(column.dtype).__name__ == "SparseDtype":
        column = column.sparse.to_dense()
    try:
        return pa.Array.from_pandas(column)
    except (pa.ArrowException, TypeError):
        return pa.array(list(_write_cells(name, column)), type=pa.string())


def _write_cells(name: str, column: Any) -> Iterator[str | None]:
    """Numbers, text and dates as text, as in a file."""
    for row, value in enumerate(column.tolist()):
        is_missing = value is None or type(value).__name__ in PANDAS_NA
        if is_missing or (isinstance(value, float) and value != value):
            yield None
            continue
        cell = _write_cell(value)
        if cell is None:
            raise TypeError(
                f"Expected column {column.name!r} of view {name!r} to hold numbers, text or dates, "
                f"but in row {row} it holds a {type(value).__name__}. Convert the column, or drop "
                "it."
            )
        yield cell


def _write_cell(value: Any) -> str | None:
    """A number, text or date as text; None for anything else."""
    value = value.item() if isinstance(value, np.generic) else value
    if isinstance(value, float) and value.is_integer() and abs(value) < _INTEGERS:
        return str(int(value))
    return str(value) if isinstance(value, str | int | float | date) else None


def _stack(tables: Sequence[Any]) -> Any:
    """The rows of several Arrow tables of the same columns; numbers of several types as float64."""
    import pyarrow as pa

    if len(tables) == 1:
        return tables[0]
    columns = {}
    for name in tables[0].column_names:
        parts = [table.column(name) for table in tables]
        if len({part.type for part in parts}) > 1 and all(is_numeric_arrow(p.type) for p in parts):
            parts = [part.cast(pa.float64(), safe=False) for part in parts]
        elif len({part.type for part in parts}) > 1:
            texts = [read_cells("a view", part, "a column of text") for part in parts]
            parts = [pa.chunked_array([pa.array(cells, type=pa.string())]) for cells in texts]
        chunks = [chunk for part in parts for chunk in part.chunks]
        columns[name] = pa.chunked_array(chunks, type=parts[0].type)
    return pa.table(columns).replace_schema_metadata(tables[0].schema.metadata)
