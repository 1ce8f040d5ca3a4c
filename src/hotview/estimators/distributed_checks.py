"""Whether all processes of a fit were given the same; each has run the user's script by itself."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from hotview._types import Array
from hotview._validation import ViewTable
from hotview.estimators.inputs import FitInputs
from hotview.training.process_group import ProcessGroup

__all__ = ["check_same_everywhere"]

_LOOKED_AT = 64  # rows of every table
#: parameters that the first process tells the others, or that only it heeds
_FIRST = ("random_state", "device", "verbose", "callbacks", "checkpoint", "encoders")


def check_same_everywhere(task: FitInputs, ranks: ProcessGroup) -> None:
    """Refuse tables, labels or parameters that are not those of the first process.

    Of every table a few rows are looked at, if that is cheap: what was drawn without a seed differs
    in all of them.

    Parameters
    ----------
    task : FitInputs
        What this process was given.
    ranks : ProcessGroup
        The processes.
    """
    if ranks.size == 1:
        return
    mine = _tell(task)
    first = ranks.first(lambda: mine)
    differ = [what for what in {**first, **mine} if first.get(what) != mine.get(what)]
    # All hear of it, also those that have the same: else they would wait for those who left.
    text = np.frombuffer(("; ".join(differ) + ".").encode(), dtype=np.uint8).copy()
    others = [said.tobytes().decode()[:-1] for said in ranks.collect(text)]
    told = [f"rank {r} has other {what}" for r, what in enumerate(others) if what]
    if told:
        raise ValueError(
            "Expected all processes to fit the same, because each of them runs the script and "
            f"reads the data by itself, but {', '.join(told)} than rank 0. Seed whatever is drawn "
            "before fit, as in numpy.random.default_rng(0) or random_state=0, and let all read the "
            "same files."
        )


def _tell(task: FitInputs) -> dict[str, str]:
    """What was given, by name, as short texts."""
    told = {k: repr(value) for k, value in task.parameters.items() if k not in _FIRST}
    told |= _tell_tables("linked rows", task.source.linked)
    told |= _tell_tables("unaligned rows" if task.source.linked else "rows", task.source.unaligned)
    if task.labels is not None:
        told["classes"] = repr(task.labels.classes.tolist())
        told["labels y"] = _hash(task.labels.linked)
        for name, y in task.labels.unaligned.items():
            told[f"labels of view {name!r}"] = _hash(y)
    return told


def _tell_tables(kind: str, tables: Mapping[str, ViewTable]) -> dict[str, str]:
    return {
        f"{kind} of view {name!r}": f"{t.n_rows} × {t.n_columns}, {_hash(_look_at(t))}"
        for name, t in tables.items()
    }


def _look_at(table: ViewTable) -> Array:
    """Rows from everywhere, or, where single ones are slow to read, the first or none."""
    n = min(_LOOKED_AT, table.n_rows)
    if table.is_lazy:  # a file of which every process unpacks its own stretch, and no more
        return np.empty((0, table.n_columns))
    if not table.is_array:
        return table.rows(slice(0, n))
    return table.rows(np.linspace(0, table.n_rows - 1, n).astype(np.int64))


def _hash(array: Array) -> str:
    values: Any = np.ascontiguousarray(array)
    return hashlib.sha256(values.dtype.str.encode() + values.tobytes()).hexdigest()
