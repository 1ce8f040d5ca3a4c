"""``hotview federated new --sample``: digits, as three organizations would have them."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from hotview._files import atomic_write
from hotview._types import Array, IntArray
from hotview.cli.output_files import write_table
from hotview.datasets import load_handwritten
from hotview.federated.new_app import write_app
from hotview.federated.settings import Settings

__all__ = ["HOLDER", "NAMES", "write_sample_federation"]

#: organizations, which are views of the digits, and whose of them the labels are
NAMES, HOLDER = ("fou", "kar", "mor"), "fou"
_N_NEW, _N_LINKED = 400, 200
_LABEL = "digit"
_TOML = """\
# What {name} has, and how it takes part. It stays with {name}, and so does all that it names.
# Paths are relative to this file.
name = "{name}"
file = "{name}/{name}.csv"
folder = "{name}"  # where its state is kept and, in the end, its part of the model: part.hotview
id_column = "id"
linked = "{name}/linked.txt"  # ids that all agreed on, in the same order everywhere
"""


def write_sample_federation(folder: Path, random_state: int) -> list[Path]:
    """Write an app whose organizations have tables already, all of it or nothing.

    200 people are known to all three organizations, which have agreed on them; 1,400 others to one
    each. One organization has the labels of its people. 400 more, whom nobody has trained on, are
    there to check by.

    Parameters
    ----------
    folder : Path
        Where to; there must be nothing in it.
    random_state : int
        Seed of who is where, and of the training.

    Returns
    -------
    list of Path
        What organizations have, and the labels to check by.
    """
    settings = Settings(label_holder=HOLDER, random_state=random_state)
    app = write_app(folder, NAMES, settings)
    try:
        return _write(app, random_state)
    except BaseException:  # Ctrl-C too: in a folder that was empty, nothing else can be lost
        shutil.rmtree(app, ignore_errors=True)
        raise


def _write(folder: Path, random_state: int) -> list[Path]:
    digits = load_handwritten()
    random = np.random.default_rng(random_state)
    order = random.permutation(len(digits.target))
    new, linked, others = np.split(order, [_N_NEW, _N_NEW + _N_LINKED])
    # The digits are sorted; numbers in order would tell what they are.
    ids = np.array([f"person-{i:04d}" for i in 1 + random.permutation(len(order))])
    written = []
    for name, own in zip(NAMES, np.array_split(others, len(NAMES)), strict=True):
        home = folder / "organizations" / name
        home.mkdir()
        rows = random.permutation(np.concatenate([linked, own]))
        X = digits.views[name]
        labels = {_LABEL: digits.target[rows]} if name == HOLDER else {}
        table = {**_columns(ids, X, rows, name), **labels}
        written += [
            _write_text(home.parent / f"{name}.toml", _configuration(name)),
            write_table(table, home / f"{name}.csv"),
            _write_text(home / "linked.txt", "".join(f"{key}\n" for key in ids[linked])),
            write_table(_columns(ids, X, new, name), home / "new.csv"),
        ]
    truth = {"id": ids[new], _LABEL: digits.target[new]}
    return [*written, write_table(truth, folder / "new-labels.csv")]


def _configuration(name: str) -> str:
    return _TOML.format(name=name) + (f'label_column = "{_LABEL}"\n' if name == HOLDER else "")


def _columns(ids: Array, X: Array, rows: IntArray, name: str) -> Mapping[str, Any]:
    return {"id": ids[rows], **{f"{name}_{j}": X[rows, j] for j in range(X.shape[1])}}


def _write_text(path: Path, text: str) -> Path:
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path
