"""Mutations of messages that somebody hostile might send."""

import copy

import numpy as np

from hotview.federated import Message

VALUES = (
    *(None, True, False, -1, 0, 1, 3, 2**31, 10**30, 10**400, -0.5, 0.5, 1e300),
    *("", "clinical", "\ud800", "two\nlines", "x" * 2000, "\x1b[2J"),
    *([], {}, [[]], ["a", "a"], [1, "a"], {"names": []}, {"a": {"b": [1.0]}}, [[1.0, 2.0]] * 3),
)


def mutated(message, random):
    """A message with one or two values, keys or arrays replaced, added or removed."""
    metadata, arrays = copy.deepcopy(message.metadata), dict(message.arrays)
    for _ in range(random.integers(1, 3)):
        if arrays and random.random() < 0.4:
            _mutate_array(arrays, random)
        else:
            _mutate_value(metadata, random)
    return Message(message.kind, metadata, arrays)


def _pick(values, random):
    return copy.deepcopy(values[random.integers(len(values))])


def _mutate_value(values, random):
    at = values
    while True:
        keys = list(range(len(at))) if isinstance(at, list) else list(at)
        if not keys or random.random() < 0.1:
            if isinstance(at, list):
                at.append(_pick(VALUES, random))
            else:
                at[_pick(("extra", "names", "head", "privacy"), random)] = _pick(VALUES, random)
            return
        key = _pick(keys, random)
        if not isinstance(at[key], list | dict) or random.random() < 0.5:
            break
        at = at[key]
    if random.random() < 0.2:
        del at[key]
    else:
        at[key] = _pick(VALUES, random)


def _mutate_array(arrays, random):
    name = _pick(list(arrays), random)
    x = arrays.pop(name)
    changes = (
        lambda: {},
        lambda: {f"gradient.{name}": x},
        lambda: {name: x, "quantiles": x},
        lambda: {name: np.zeros_like(x, np.int64)},
        lambda: {name: x[:-1]},
        lambda: {name: x.reshape(-1)},
        lambda: {name: x[..., None]},
        lambda: {name: np.full_like(x, np.nan) if x.dtype.kind == "f" else x - 2},
        lambda: {name: np.full_like(x, -np.inf) if x.dtype.kind == "f" else x + 100},
        lambda: {name: np.full_like(x, 1e6 if x.dtype.kind == "f" else -1)},
        lambda: {name: np.zeros_like(x)},
    )
    arrays |= changes[random.integers(len(changes))]()
