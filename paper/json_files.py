"""JSON that people can read and version control can compare."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from hotview._files import atomic_write

__all__ = ["dump_json", "plain", "write_json"]


_WIDTH = 100  # of an object on one line


def dump_json(value: Any, indent: int = 0) -> str:
    """Lay out a value: lists without objects, and short objects, stand on one line.

    Parameters
    ----------
    value : object
        What JSON can hold; NaN and infinity are refused.
    indent : int, default=0
        Spaces before a line.

    Returns
    -------
    str
        The text, without a last line break.

    Examples
    --------
    >>> from paper.json_files import dump_json
    >>> print(dump_json([{"W": [[0.5, 0.0], [0.0, 0.5]], "missing": 1}]))
    [
     {"W": [[0.5, 0.0], [0.0, 0.5]], "missing": 1}
    ]
    """
    text = json.dumps(value, allow_nan=False, ensure_ascii=False)
    mapping = isinstance(value, Mapping)
    if not (mapping or isinstance(value, list)) or _fits(value, text, indent):
        return text
    inner = " " * (indent + 1)
    if isinstance(value, Mapping):
        lines = [f"{json.dumps(k)}: {dump_json(v, indent + 1)}" for k, v in value.items()]
    else:
        lines = [dump_json(item, indent + 1) for item in value]
    first, last = "{}" if mapping else "[]"
    return f"{first}\n{inner}" + f",\n{inner}".join(lines) + f"\n{' ' * indent}{last}"


def write_json(path: Path, value: Any) -> None:
    r"""Write a value to a file, whole or not at all; its folder is made.

    Parameters
    ----------
    path : Path
        Where to.
    value : object
        What JSON can hold.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from paper.json_files import write_json
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_json(Path(folder) / "a" / "b.json", {"x": 1})
    ...     (Path(folder) / "a" / "b.json").read_text()
    '{"x": 1}\n'
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as draft:
        draft.write_text(f"{dump_json(value)}\n", encoding="utf-8")


def plain(value: Any, digits: int = 6) -> Any:
    """Make numbers, arrays and containers of them fit for JSON.

    Parameters
    ----------
    value : object
        Numbers of any library, arrays or tensors, and mappings and sequences of them.
    digits : int, default=6
        Decimals that are kept.

    Returns
    -------
    object
        Python's own types: NaN is None, infinity is ``"inf"``.

    Examples
    --------
    >>> import numpy as np
    >>> from paper.json_files import plain
    >>> plain({"W": np.array([[1 / 3, np.nan]]), "n": np.int64(3), "weight": float("inf")}, 4)
    {'W': [[0.3333, None]], 'n': 3, 'weight': 'inf'}
    """
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(k): plain(v, digits) for k, v in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [plain(item, digits) for item in value]
    return _number(value, digits) if isinstance(value, float) else value


def _number(value: float, digits: int) -> float | str | None:
    if math.isnan(value):
        return None
    return round(value, digits) if math.isfinite(value) else str(value)


def _fits(value: Any, text: str, indent: int) -> bool:
    if isinstance(value, Mapping):
        return indent + len(text) <= _WIDTH
    return "{" not in text
