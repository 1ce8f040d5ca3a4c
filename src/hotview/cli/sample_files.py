"""``hotview demo --files``: the digits as tables of six places that share few people."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotview._types import Array, IntArray
from hotview.cli.demo import load_digits
from hotview.cli.output_files import make_folder, write_table

__all__ = ["write_sample_files"]

_KEPT = 0.7  # of the rows that are not linked, in every view
_PRESENT = 0.9  # of the new people, in every view


def write_sample_files(folder: Path, random_state: int, *, force: bool = False) -> list[Path]:
    """Write tables to try the command line on.

    Every view has other rows in an order of its own. 60 people are in all views, under one id, and
    have a label; all others have ids of the view's own, as in places that know nothing of each
    other. New people, with labels to check by, each lack a view now and then.

    Parameters
    ----------
    folder : Path
        Where to; made if need be.
    random_state : int
        Seed of who is where.
    force : bool, default=False
        Whether files may be replaced.

    Returns
    -------
    list of Path
        What was written: a table per view in ``views`` and ``new``, and the labels of both.
    """
    data = load_digits(random_state)
    random = np.random.default_rng(random_state)
    names = [f"{name}.csv" for name in data.linked]
    labels, new_labels = make_folder(folder, ["labels.csv", "new-labels.csv"], force=force)
    views = make_folder(folder / "views", names, force=force)
    new = make_folder(folder / "new", names, force=force)
    linked_ids = _ids("person", len(data.target))
    new_ids = _ids("new", len(data.test_target))
    for name, path, new_path in zip(data.linked, views, new, strict=True):
        kept = _some(len(data.unaligned[name]), _KEPT, random)
        X = np.vstack([data.linked[name], data.unaligned[name][kept]])
        ids = np.concatenate([linked_ids, _ids(name, len(kept))])
        order = random.permutation(len(X))
        write_table(_columns(ids[order], X[order], name), path)
        rows = _some(len(new_ids), _PRESENT, random)
        write_table(_columns(new_ids[rows], data.test[name][rows], name), new_path)
    write_table({"id": linked_ids, "digit": data.target}, labels)
    write_table({"id": new_ids, "digit": data.test_target}, new_labels)
    return [*views, labels, *new, new_labels]


def _ids(word: str, n: int) -> Array:
    return np.array([f"{word}-{i:04d}" for i in range(1, n + 1)])


def _some(n: int, share: float, random: np.random.Generator) -> IntArray:
    return np.sort(random.permutation(n)[: round(share * n)])


def _columns(ids: Array, X: Array, name: str) -> Mapping[str, Any]:
    return {"id": ids, **{f"{name}_{j}": X[:, j] for j in range(X.shape[1])}}
