"""Random changes of bytes, of JSON values and of arrays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Literal

import numpy as np

__all__ = ["mutate_array", "mutate_bytes", "mutate_json"]

Random = np.random.Generator

_NUMBERS = (0, 1, 127, 128, 255, 256, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1)
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, -5, 3, 2**31, 2**63, 10**9, 10**30, 0.5, -0.5, 1e-300, 1e300),
    *(float("nan"), float("inf"), -float("inf"), "", "x", "0", "\ud800", "\x00", "a\nb", "=1+1"),
    *([], {}, [[]], [None], {"": 0}, [0] * 100, "x" * 10_000),
)


def mutate_bytes(random: Random, data: bytes) -> bytes:
    """Return bytes with one to three changes.

    Parameters
    ----------
    random : Generator
        Source of randomness.
    data : bytes
        The original.

    Returns
    -------
    bytes
        The changed bytes.
    """
    for _ in range(random.integers(1, 4)):
        change = _BYTE_CHANGES[random.integers(len(_BYTE_CHANGES))]
        # Headers are short, and matter most: half of all places are in the first 512 bytes.
        end = len(data) if random.random() < 0.5 else min(512, len(data))
        data = change(random, data, int(random.integers(end + 1)))
    return data


def _flip_bit(random: Random, data: bytes, at: int) -> bytes:
    return (
        data[:at] + bytes(x ^ (1 << random.integers(8)) for x in data[at : at + 1]) + data[at + 1 :]
    )


def _set_bytes(random: Random, data: bytes, at: int) -> bytes:
    n = int(random.integers(1, 9))
    return data[:at] + random.bytes(len(data[at : at + n])) + data[at + n :]


def _set_number(random: Random, data: bytes, at: int) -> bytes:
    width: int = 2 ** int(random.integers(4))
    number: int = int(_NUMBERS[random.integers(len(_NUMBERS))]) % 256**width
    order: Literal["little", "big"] = "little" if random.random() < 0.8 else "big"
    return data[:at] + number.to_bytes(width, order)[: len(data) - at] + data[at + width :]


def _truncate(random: Random, data: bytes, at: int) -> bytes:
    return data[:at]


def _delete(random: Random, data: bytes, at: int) -> bytes:
    return data[:at] + data[at + int(random.integers(1, 65)) :]


def _repeat(random: Random, data: bytes, at: int) -> bytes:
    return data[:at] + data[at : at + int(random.integers(1, 65))] * 2 + data[at:]


def _insert(random: Random, data: bytes, at: int) -> bytes:
    tokens = (
        b'"',
        b"'",
        b",",
        b"\n",
        b"\r\n",
        b"\t",
        b";",
        b"\x00",
        b"\xff",
        b"[",
        b"{",
        b"nan",
        b"-",
    )
    return data[:at] + tokens[random.integers(len(tokens))] + data[at:]


def _swap(random: Random, data: bytes, at: int) -> bytes:
    n, other = int(random.integers(1, 33)), int(random.integers(len(data) + 1))
    first, second = sorted((at, other))
    if first + n > second or second + n > len(data):
        return data
    a, b = data[first : first + n], data[second : second + n]
    return data[:first] + b + data[first + n : second] + a + data[second + n :]


_BYTE_CHANGES: tuple[Callable[[Random, bytes, int], bytes], ...] = (
    *(_flip_bit, _flip_bit, _set_bytes, _set_number, _set_number),
    *(_truncate, _delete, _repeat, _insert, _swap),
)


def mutate_json(random: Random, value: Any) -> Any:
    """Return a copy of a JSON value in which one part, at any depth, is another.

    Parameters
    ----------
    random : Generator
        Source of randomness.
    value : object
        Dicts, lists, texts, numbers and None.

    Returns
    -------
    object
        The copy.
    """
    if isinstance(value, dict | list) and len(value) > 0 and random.random() < 0.9:
        changed = copy.copy(value)
        keys = list(changed) if isinstance(changed, dict) else range(len(changed))
        key: Any = keys[random.integers(len(keys))]
        kind = random.random()
        if kind < 0.85:
            changed[key] = mutate_json(random, changed[key])
        elif kind < 0.93:
            del changed[key]
        elif isinstance(changed, dict):
            changed[f"{key}x"] = changed[key]
        else:
            changed.insert(key, changed[key])
        return changed
    if isinstance(value, int | float) and not isinstance(value, bool) and random.random() < 0.3:
        return value * int(random.choice([-1, 2, 10, 10**6])) + int(random.integers(-1, 2))
    if isinstance(value, str) and random.random() < 0.3:
        at = int(random.integers(len(value) + 1))
        return value[:at] + str(random.choice(["\ud800", "\n", "é", "\x00", "9"])) + value[at + 1 :]
    return copy.deepcopy(_VALUES[random.integers(len(_VALUES))])


def mutate_array(random: Random, X: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return an array with another shape, another dtype or other values.

    Parameters
    ----------
    random : Generator
        Source of randomness.
    X : ndarray
        The original.

    Returns
    -------
    ndarray
        The changed copy.
    """
    kind = random.integers(8)
    if kind == 0:
        return X.ravel()
    if kind == 1:
        return X[..., :-1] if X.ndim > 0 else X[None]
    if kind == 2:
        return np.concatenate([X, X]) if X.ndim > 0 else np.stack([X, X])
    if kind == 3:
        return X[:0] if X.ndim > 0 else np.empty(0, X.dtype)
    if kind == 4:
        with np.errstate(all="ignore"):
            return X.astype(random.choice(["float32", "float64", "int64", "uint8", "bool"]))
    changed = X.copy()
    if changed.size > 0:
        at = int(random.integers(changed.size))
        where = changed.reshape(-1)[at : at + 1] if random.random() < 0.7 else changed.reshape(-1)
        with np.errstate(all="ignore"):
            if changed.dtype.kind == "f":
                numbers = (np.nan, np.inf, -np.inf, 1e30, -1e30, 1e-40, 0.0, -1.0)
                where[:] = numbers[random.integers(len(numbers))]
            elif changed.dtype.kind in "iu":
                where[:] = np.array([-1, 0, 10**9, 2**40, 255])[random.integers(5)].astype(X.dtype)
            else:
                where[:] = ~where
    return changed
