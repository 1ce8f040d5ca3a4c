"""Who was trained on, told without saying who: hashes of ids."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence

import numpy as np

from hotview._types import Array

__all__ = ["digest", "find_ids", "hash_ids"]

_BYTES = 8  # of a hash: one in 10^19 of two ids being taken for one


def digest(key: object) -> bytes:
    """The hash of an id."""
    return hashlib.sha256(f"hotview id {key}".encode()).digest()


def hash_ids(ids: Iterable[object]) -> str:
    """Hashes of ids, sorted, in one text.

    Who knows an id can look whether it is there; nobody can read the ids from it, unless they can
    be guessed.

    Parameters
    ----------
    ids : iterable
        The ids.

    Returns
    -------
    str
        Base64.

    Examples
    --------
    >>> find_ids(["anna", "carl"], hash_ids(["carl", "bert"])).tolist()
    [False, True]
    """
    hashes = sorted({digest(key)[:_BYTES] for key in ids})
    return base64.b64encode(b"".join(hashes)).decode()


def find_ids(ids: Sequence[object] | Array, hashes: str) -> Array:
    """Which ids are among those that were hashed.

    Parameters
    ----------
    ids : sequence
        The ids.
    hashes : str
        What `hash_ids` returned.

    Returns
    -------
    ndarray of bool
        One per id.
    """
    raw = base64.b64decode(hashes)
    known = {raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES)}
    return np.array([digest(key)[:_BYTES] in known for key in ids], dtype=bool)
