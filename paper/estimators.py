"""Build the estimator of a cell and its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from hotview._types import Array
from paper.cells import Cell
from paper.models import DEFAULT, PLAIN, SETTINGS, TRAINED

if TYPE_CHECKING:
    from hotview.estimators import MultiViewClassifier, MultiViewEncoder

__all__ = ["fit_arguments", "make_estimator", "parameters_of", "training_rows"]

_ALIGNED = ("lscca", "dgcca")


def parameters_of(cell: Cell) -> dict[str, Any]:
    """Return the parameters of a cell's estimator that differ from its defaults.

    Parameters
    ----------
    cell : Cell
        A cell that trains networks.

    Returns
    -------
    dict of str to object
        Without device and seed.

    Examples
    --------
    >>> from paper.estimators import parameters_of
    >>> from paper.cells import Cell
    >>> parameters_of(Cell("handwritten", "unsupervised", "SW (9)", "robust"))
    {'coupling': 'sw-reference', 'view_regularizer': 'none'}
    """
    own: dict[str, Any] = {}
    if cell.method != DEFAULT:
        model = TRAINED[cell.method]
        own = {"coupling": model.coupling, "view_regularizer": model.view_regularizer}
        own |= PLAIN if cell.task == "semi-supervised" else {}
    settings = SETTINGS if cell.settings == "paper" else {}
    return {**own, **settings, **dict(cell.overrides)}


def make_estimator(
    cell: Cell, seed: int, device: str = "cpu"
) -> MultiViewEncoder | MultiViewClassifier:
    """Make the estimator of a cell, not yet fitted.

    Parameters
    ----------
    cell : Cell
        A cell that trains networks.
    seed : int
        Its random state.
    device : str, default="cpu"
        Where to train.

    Returns
    -------
    MultiViewEncoder or MultiViewClassifier
        The first for unsupervised cells.

    Examples
    --------
    >>> from paper.estimators import make_estimator
    >>> from paper.cells import Cell
    >>> make_estimator(Cell("handwritten", "semi-supervised", "hotview default", "robust"), 0)
    MultiViewClassifier(device='cpu', random_state=0, verbose=False)
    """
    from hotview.estimators import MultiViewClassifier, MultiViewEncoder

    kind = MultiViewEncoder if cell.task == "unsupervised" else MultiViewClassifier
    return kind(**parameters_of(cell), device=device, random_state=seed, verbose=False)


def fit_arguments(cell: Cell, data: Bunch) -> dict[str, Any]:
    """Return what a cell's estimator is fitted to.

    Couplings that compare individuals get the rows without label as they were before they were
    shuffled; all others get them shuffled.

    Parameters
    ----------
    cell : Cell
        A cell that trains networks.
    data : Bunch
        From `paper.data.split_dataset`.

    Returns
    -------
    dict of str to object
        Arguments of ``fit``.

    Examples
    --------
    >>> from paper.estimators import fit_arguments
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> cell = Cell("handwritten", "unsupervised", "LSCCA", "paper")
    >>> given = fit_arguments(cell, split_dataset(cell, None, 0))
    >>> given["paired"], given["Xs"]["pix"].shape
    (True, (1200, 240))
    """
    aligned = parameters_of(cell).get("coupling") in _ALIGNED
    if cell.task == "unsupervised":
        rest = data.paired if aligned else data.unaligned
        return {"Xs": _stack(data.linked, rest), "paired": aligned}
    if not aligned:
        return {"Xs": data.linked, "y": data.target, "unaligned": data.unaligned}
    unknown = np.full(len(data.train_target) - len(data.target), -1)
    return {"Xs": training_rows(data), "y": np.concatenate([data.target, unknown])}


def training_rows(data: Bunch) -> dict[str, Array]:
    """Return all training rows, aligned, those with a label first; `train_target` has all classes.

    Parameters
    ----------
    data : Bunch
        From `paper.data.split_dataset`.

    Returns
    -------
    dict of str to ndarray
        The linked and the paired rows of every view.

    Examples
    --------
    >>> from paper.estimators import training_rows
    >>> from paper.cells import Cell
    >>> from paper.data import split_dataset
    >>> cell = Cell("handwritten", "unsupervised", "LSCCA", "paper")
    >>> training_rows(split_dataset(cell, None, 0))["mor"].shape
    (1200, 6)
    """
    return _stack(data.linked, data.paired)


def _stack(first: Mapping[str, Array], second: Mapping[str, Array]) -> dict[str, Array]:
    return {name: np.vstack([X, second[name]]) for name, X in first.items()}
