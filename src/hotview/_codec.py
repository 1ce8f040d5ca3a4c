"""Encoding of dataclasses as JSON and tensors by name, and back, by their annotations alone.

A dataclass checks what it is made of in its ``__post_init__``, by `require` and `require_array`, so
that what a file or a message holds is valid once it is decoded. A class that `encodes_itself` does
so by its ``to_json`` and ``from_json``. In a dict of a class that is in `REGISTRIES`, keys choose
among its kinds.
"""

from __future__ import annotations

import math
import sys
import types
from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, TypeAlias, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import torch

__all__ = [
    "MAX_FLOAT",
    "REGISTRIES",
    "check_plain",
    "decode",
    "encode",
    "require",
    "require_array",
    "shorten",
]

MAX_FLOAT = float(np.finfo(np.float32).max)
_MAX_INT = 2**31
_SCALARS: dict[Any, Any] = {int: int, float: float, bool: bool, str: str}

Tensors: TypeAlias = "dict[str, torch.Tensor]"
#: by class, its kinds by name
REGISTRIES: dict[Any, Mapping[str, Any]] = {}


def encode(
    kind: Any, value: Any, tensors: Tensors, at: str = "", leave_out: Collection[str] = ()
) -> Any:
    """Return what JSON can hold of a value; add its arrays to `tensors`.

    Parameters
    ----------
    kind : type
        The annotation of the value: a dataclass, list, tuple, dict, Tensor, array or scalar.
    value : object
        The value.
    tensors : dict of str to Tensor
        Gets the arrays, named by their path from the root.
    at : str, default=""
        Path of the value.
    leave_out : collection of str, default=()
        Fields of the value itself that are not encoded.

    Returns
    -------
    object
        None in the place of arrays.

    Examples
    --------
    >>> import torch
    >>> from hotview._codec import decode, encode
    >>> tensors = {}
    >>> encode(list[torch.Tensor | None], [torch.ones(2), None], tensors, "x"), list(tensors)
    ([None, None], ['x.0'])
    >>> decode(list[torch.Tensor | None], [None, None], tensors, "x")
    [tensor([1., 1.]), None]
    """
    import torch

    kind, origin, args = _resolve(kind)
    if value is None or kind is Any:
        return value
    if kind is torch.Tensor or origin is np.ndarray:
        tensors[at] = value if kind is torch.Tensor else torch.from_numpy(value.copy())
        return None
    if args == (str, torch.Tensor):
        tensors |= {_join(at, name): tensor for name, tensor in value.items()}
        return None
    if getattr(kind, "encodes_itself", False):
        return value.to_json()
    if isinstance(kind, type) and is_dataclass(kind):
        own = [(n, k) for n, k in _field_kinds(kind).items() if n not in leave_out]
        return {n: encode(k, getattr(value, n), tensors, _join(at, n)) for n, k in own}
    if origin in (list, tuple):
        return [encode(args[0], item, tensors, _join(at, i)) for i, item in enumerate(value)]
    if origin is dict:
        by_key = _kinds_by_key(args[1], value)
        return {k: encode(kind, value[k], tensors, _join(at, k)) for k, kind in by_key.items()}
    return _SCALARS[kind](value)


def decode(
    kind: Any, data: Any, tensors: Tensors, at: str = "", made: Mapping[str, Any] | None = None
) -> Any:
    """Return a value of the annotated type, or raise an error if the data are not of this type.

    Parameters
    ----------
    kind : type
        The annotation of the value, as for `encode`.
    data : object
        What JSON held.
    tensors : dict of str to Tensor
        Arrays by path.
    at : str, default=""
        Path of the value.
    made : dict of str to object, or None, default=None
        Fields of the value itself that were left out when it was encoded.

    Returns
    -------
    object
        The value. Nothing but `kind`, and what it is made of, is ever instantiated.

    Examples
    --------
    >>> from hotview._codec import decode
    >>> decode(dict[str, int], {"n": "3"}, {}, "sizes")
    Traceback (most recent call last):
    ValueError: its 'sizes.n' cannot be '3'
    """
    import torch

    optional, (kind, origin, args) = types.NoneType in get_args(kind), _resolve(kind)
    if kind is Any:
        return data
    if kind is torch.Tensor or origin is np.ndarray:
        _require_value(data is None, at, data)
        if at not in tensors:
            require(optional, f"it lacks {at!r}")
            return None
        return tensors[at] if kind is torch.Tensor else tensors[at].numpy()
    if args == (str, torch.Tensor):
        _require_value(data is None, at, data)
        start = f"{at}."
        return {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}
    if optional and data is None:
        return None
    if getattr(kind, "encodes_itself", False):
        return _from_json(kind, data, at)
    if isinstance(kind, type) and is_dataclass(kind):
        _require_value(isinstance(data, dict), at, data)
        values = dict(made or {})
        kinds = {n: k for n, k in _field_kinds(kind).items() if n not in values}
        for name in data.keys() ^ kinds.keys():
            raise ValueError(f"{'unexpected' if name in data else 'it lacks'} {_join(at, name)!r}")
        values |= {n: decode(k, data[n], tensors, _join(at, n)) for n, k in kinds.items()}
        try:
            return kind(**values)
        except ValueError as error:
            raise ValueError(f"{error} (in {at!r})" if at else str(error)) from error
    if origin in (list, tuple):
        _require_value(isinstance(data, list), at, data)
        return origin(decode(args[0], x, tensors, _join(at, i)) for i, x in enumerate(data))
    if origin is dict:
        _require_value(isinstance(data, dict), at, data)
        kinds = _kinds_by_key(args[1], data)
        return {k: decode(kind, data[k], tensors, _join(at, k)) for k, kind in kinds.items()}
    accepted = (int, float) if kind is float else (kind,)  # JSON may hold a whole number for it
    _require_value(type(data) in accepted, at, data)
    _require_value(kind is not int or 0 <= data < _MAX_INT, at, data)
    if kind is float:
        _require_value(abs(data) <= sys.float_info.max, at, data)  # false of NaN
        return float(data)
    return data


def require(fits: bool, problem: str) -> None:
    """Raise an error unless a condition holds.

    Parameters
    ----------
    fits : bool
        The condition.
    problem : str
        What is wrong with the file where it does not hold.
    """
    if not fits:
        raise ValueError(problem)


def _from_json(kind: Any, data: Any, at: str) -> Any:
    """What a class makes of its JSON, unless it would write another one."""
    try:
        made = kind.from_json(data)
        fits = made.to_json() == data
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        fits = False
    _require_value(fits, at, data)
    return made


def _require_value(fits: bool, at: str, data: Any) -> None:
    """Raise an error that shows a value, unless it fits; the text is made only then."""
    if not fits:
        raise ValueError(f"its {at!r} cannot be {shorten(data)}")


def require_array(
    name: str,
    x: Any,
    shape: Sequence[int | None],
    dtype: str = "float",
    low: float = -MAX_FLOAT,
    high: float = MAX_FLOAT,
    *,
    or_nan: bool = False,
) -> None:
    """Raise an error unless an array has a shape and a dtype, and its numbers are in a range.

    Parameters
    ----------
    name : str
        Its name.
    x : ndarray or Tensor
        The array.
    shape : sequence of (int or None)
        Its shape; None is any size.
    dtype : str, default="float"
        Its dtype, or the beginning of the names of those that it may have.
    low, high : float
        The range; by default the numbers of float32.
    or_nan : bool, default=False
        Whether numbers may be NaN.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview._codec import require_array
    >>> require_array("mean", np.zeros(3), (2,))
    Traceback (most recent call last):
    ValueError: 'mean' should be 2 of float, but is [3] of float64
    """
    fits = x.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, x.shape, strict=True))
    if not fits or not str(x.dtype).removeprefix("torch.").startswith(dtype):
        wanted = " × ".join("any" if n is None else str(n) for n in shape) or "a number"
        raise ValueError(
            f"{name!r} should be {wanted} of {dtype}, but is {list(x.shape)} of {x.dtype}"
        )
    inside = (x >= low) & (x <= high)
    fits = bool((inside | (x != x) if or_nan else inside).all())
    require(fits, f"its {name!r} is not finite, or not between {low:g} and {high:g}")


def check_plain(value: Any, where: str) -> Any:
    """Raise an error for what JSON cannot hold, or would give back as something else.

    Parameters
    ----------
    value : object
        To be saved.
    where : str
        Its name, for the error.

    Returns
    -------
    object
        A copy of it.

    Examples
    --------
    >>> from hotview._codec import check_plain
    >>> check_plain({"columns": ["age", 2]}, "metadata_")
    {'columns': ['age', 2]}
    """
    plain = value is None or isinstance(value, bool | int | str)
    if plain or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list):
        return [check_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: check_plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"Expected {where} to be what JSON can hold: None, True or False, a finite number, text, a "
        f"list, or a dict whose keys are text; but it is {value!r} ({type(value).__name__}). "
        "Convert it before saving."
    )


def shorten(value: Any) -> str:
    """Return the beginning of the text of a value, for errors.

    Parameters
    ----------
    value : object
        The value.

    Returns
    -------
    str
        At most 101 characters.

    Examples
    --------
    >>> from hotview._codec import shorten
    >>> len(shorten("x" * 1000))
    101
    """
    text = repr(value)
    return text if len(text) <= 100 else f"{text[:100]}…"


def _resolve(kind: Any) -> tuple[Any, Any, tuple[Any, ...]]:
    """A type, its origin and its arguments; of a union, those of its first member."""
    # Most are plain; no cache, because A | B equals B | A.
    if type(kind) is type or kind is Any:
        return kind, None, ()
    if get_origin(kind) in (Union, types.UnionType):
        kind = get_args(kind)[0]
    origin = get_origin(kind)
    # From numpy 2.5 on Python 3.12, NDArray is an alias of its own.
    return kind, np.ndarray if origin is npt.NDArray else origin, get_args(kind)


@cache
def _field_kinds(kind: type) -> dict[str, Any]:
    """Annotations of the fields of a dataclass, by name."""
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _kinds_by_key(kind: Any, items: Mapping[str, Any]) -> dict[str, Any]:
    """The types of the values of a dict: by key, where their class has a registry of its kinds."""
    if kind not in REGISTRIES:
        return dict.fromkeys(items, kind)
    registry = REGISTRIES[kind]
    require(items.keys() <= registry.keys(), f"there are no such parts: {shorten(sorted(items))}")
    return {key: kind for key, kind in registry.items() if key in items}


def _join(at: str, part: object) -> str:
    return f"{at}.{part}" if at else str(part)
