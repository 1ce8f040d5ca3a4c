"""Encoding of dataclasses as JSON and tensors by name, and back, by their annotations alone."""

from __future__ import annotations

import sys
import types
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

__all__ = ["LEFT_OUT", "decode", "encode", "require", "shorten"]

#: Metadata of a field that files have only where it is not None.
LEFT_OUT = {"left_out": True}
_MAX_INT = 2**31
_SCALARS: dict[Any, Any] = {int: int, float: float, bool: bool, str: str}

Tensors = dict[str, Tensor]


def encode(kind: Any, value: Any, tensors: Tensors, at: str = "") -> Any:
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
    kind, origin, args = _resolve(kind)
    if value is None or kind is Any:
        return value
    if kind is Tensor or origin is np.ndarray:
        tensors[at] = value if kind is Tensor else torch.from_numpy(value.copy())
        return None
    if args == (str, Tensor):
        tensors |= {_join(at, name): tensor for name, tensor in value.items()}
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        left_out = {name for name in _left_out(kind) if getattr(value, name) is None}
        kinds = [(n, k) for n, k in _field_kinds(kind).items() if n not in left_out]
        return {n: encode(k, getattr(value, n), tensors, _join(at, n)) for n, k in kinds}
    if origin in (list, tuple):
        return [encode(args[0], item, tensors, _join(at, i)) for i, item in enumerate(value)]
    if origin is dict:
        return {k: encode(args[1], item, tensors, _join(at, k)) for k, item in value.items()}
    return _SCALARS[kind](value)


def decode(kind: Any, data: Any, tensors: Tensors, at: str = "") -> Any:
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
    optional, (kind, origin, args) = types.NoneType in get_args(kind), _resolve(kind)
    if kind is Any:
        return data
    if kind is Tensor or origin is np.ndarray:
        _require_value(data is None, at, data)
        if at not in tensors:
            require(optional, f"it lacks {at!r}")
            return None
        return tensors[at] if kind is Tensor else tensors[at].numpy()
    if args == (str, Tensor):
        _require_value(data is None, at, data)
        start = f"{at}."
        return {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}
    if optional and data is None:
        return None
    if isinstance(kind, type) and is_dataclass(kind):
        kinds = _field_kinds(kind)
        _require_value(isinstance(data, dict), at, data)
        data = {**dict.fromkeys(_left_out(kind)), **data}
        for name in data.keys() ^ kinds.keys():
            raise ValueError(f"{'unexpected' if name in data else 'it lacks'} {_join(at, name)!r}")
        return kind(**{n: decode(k, data[n], tensors, _join(at, n)) for n, k in kinds.items()})
    if origin in (list, tuple):
        _require_value(isinstance(data, list), at, data)
        return origin(decode(args[0], x, tensors, _join(at, i)) for i, x in enumerate(data))
    if origin is dict:
        _require_value(isinstance(data, dict), at, data)
        return {k: decode(args[1], x, tensors, _join(at, k)) for k, x in data.items()}
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


def _require_value(fits: bool, at: str, data: Any) -> None:
    """Raise an error that shows a value, unless it fits; the text is made only then."""
    if not fits:
        raise ValueError(f"its {at!r} cannot be {shorten(data)}")


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


@cache
def _left_out(kind: type) -> tuple[str, ...]:
    """Fields of a dataclass that are left out where they are None."""
    return tuple(field.name for field in fields(kind) if field.metadata == LEFT_OUT)


def _join(at: str, part: object) -> str:
    return f"{at}.{part}" if at else str(part)
