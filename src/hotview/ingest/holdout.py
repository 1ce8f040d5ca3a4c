"""Hold-out split by hashed ids, and id hashes that identify the training rows of a model."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.readers.matlab import Matrix
from hotview.ingest.dataset import TableDataset

__all__ = ["HoldoutSplit", "find_ids", "hash_ids", "keep_linked", "split_holdout"]

_BYTES = 8  # of a hash: two ids collide with probability 5e-20


@dataclass(frozen=True)
class HoldoutSplit:
    """A dataset split into training rows and held-out rows with labels.

    Parameters
    ----------
    training : TableDataset
        The rows to train on.
    ids : ndarray
        Ids of the held-out rows.
    views : dict of str to ndarray or csr_array
        The held-out rows.
    target : ndarray
        Their labels.
    """

    training: TableDataset
    ids: Array
    views: dict[str, Matrix]
    target: Array


def keep_linked(dataset: TableDataset) -> TableDataset:
    """Leave out unlinked rows.

    Parameters
    ----------
    dataset : TableDataset
        All rows.

    Returns
    -------
    TableDataset
        The linked rows.
    """
    if len(dataset.ids) == 0:
        remedy = "Check {id_column}, or do without {linked_only}."
        raise ParameterError("Expected linked rows, but no rows are linked. ", remedy)
    return replace(
        dataset, unaligned={}, unaligned_target={}, unaligned_ids={}, rows=dataset.linked
    )


def split_holdout(dataset: TableDataset, fraction: float) -> HoldoutSplit:
    """Hold out a fraction of the linked rows of every class.

    The split depends on the ids alone, so that the same files give the same split without a record
    of it.

    Parameters
    ----------
    dataset : TableDataset
        All rows.
    fraction : float
        Between 0 and 1.

    Returns
    -------
    HoldoutSplit
        The held-out rows, and the dataset without them.
    """
    chosen: list[int] = []
    order = sorted(range(len(dataset.ids)), key=lambda i: _digest(dataset.ids[i]))
    for label in dict.fromkeys(label for label in dataset.target if label is not None):
        rows = [i for i in order if dataset.target[i] == label]
        chosen += rows[: min(round(fraction * len(rows)), len(rows) - 1)]  # one is left to train on
    if not chosen:
        n = sum(label is not None for label in dataset.target)
        raise ValueError(
            f"Expected enough linked rows with a label to hold out {fraction:g} of, but there are "
            f"{n}. Hold out a larger fraction, or none and evaluate on other files."
        )
    held = np.sort(np.array(chosen, dtype=np.int64))
    kept = np.setdiff1d(np.arange(len(dataset.ids)), held)
    training = replace(
        dataset,
        linked={name: X[kept] for name, X in dataset.linked.items()},
        target=dataset.target[kept],
        ids=dataset.ids[kept],
    )
    views = {name: X[held] for name, X in dataset.linked.items()}
    return HoldoutSplit(training, dataset.ids[held], views, dataset.target[held])


def _digest(key: object) -> bytes:
    return hashlib.sha256(f"hotview id {key}".encode()).digest()


def hash_ids(ids: Iterable[object]) -> str:
    """Return a random salt and the sorted hashes of ids as one text.

    The salt differs from model to model, so that neither tables of hashes computed in advance nor
    another model tell who is in this one. Whoever has the text can still test ids one by one: it
    does not hide ids that can be guessed, such as numbers of a few digits.

    Parameters
    ----------
    ids : iterable
        The ids.

    Returns
    -------
    str
        Salt and hashes in Base64, separated by a colon.

    Examples
    --------
    >>> find_ids(["anna", "carl"], hash_ids(["carl", "bert"])).tolist()
    [False, True]
    """
    salt = os.urandom(hashlib.blake2b.SALT_SIZE)
    hashes = sorted({_salted_hash(key, salt) for key in ids})
    return ":".join(base64.b64encode(part).decode() for part in (salt, b"".join(hashes)))


def find_ids(ids: Sequence[object] | Array, hashes: str) -> Array:
    """Return whether each id is among the hashed ones.

    Parameters
    ----------
    ids : sequence
        The ids.
    hashes : str
        The return value of `hash_ids`.

    Returns
    -------
    ndarray of bool
        One per id.
    """
    salt, raw = (base64.b64decode(part, validate=True) for part in hashes.split(":"))
    known = {raw[i : i + _BYTES] for i in range(0, len(raw), _BYTES)}
    return np.array([_salted_hash(key, salt) in known for key in ids], dtype=bool)


def _salted_hash(key: object, salt: bytes) -> bytes:
    return hashlib.blake2b(str(key).encode(), digest_size=_BYTES, salt=salt).digest()
