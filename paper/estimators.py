"""Build the estimator of a cell and its input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils import Bunch

from hotview._types import Array
from paper.cells import Cell
from paper.json_files import plain
from paper.models import DEFAULT, PLAIN, SETTINGS, TRAINED

if TYPE_CHECKING:
    from hotview.estimators import MultiViewClassifier, MultiViewEncoder

__all__ = [
    "constructor_parameters",
    "fit_arguments",
    "make_estimator",
    "parameters_of",
    "plain_parameters",
    "training_rows",
]

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
    {'coupling': 'sw-reference', 'view_regularizer': 'none', 'preprocessing': 'standardize',
    'alignment_weight': 0.0}
    """
    own: dict[str, Any] = {}
    if cell.method != DEFAULT:
        model = TRAINED[cell.method]
        own = {"coupling": model.coupling, "view_regularizer": model.view_regularizer}
        own["preprocessing"] = "standardize"  # the paper's encoders get all columns
        own["alignment_weight"] = 0.0  # its linked rows act through their labels alone
        if model.coupling == "hot-reference":  # our default depends on the number of views
            own["coupling__n_references"] = SETTINGS["coupling__n_references"]
        own |= PLAIN if cell.task == "semi-supervised" else {}
    settings = dict(SETTINGS) if cell.settings == "paper" else {}
    if settings and cell.task == "semi-supervised":
        settings["head_weight"] = 0.0
    return {**own, **settings, **dict(cell.overrides)}


def constructor_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Return parameters of a constructor, with specifications in the place of their settings.

    Parameters
    ----------
    parameters : mapping of str to object
        Parameters, among them settings as in ``set_params``. Those that a specification does not
        have are left out, so that one set of them is good for all couplings.

    Returns
    -------
    dict of str to object
        Parameters of both estimators.

    Examples
    --------
    >>> from paper.estimators import constructor_parameters
    >>> constructor_parameters({"coupling": "dgcca", "coupling__reg": 1.0})
    {'coupling': DGCCASpec(reg=1.0)}
    """
    from hotview.losses.specifications import as_coupling, as_regularizer

    found = {name: value for name, value in parameters.items() if "__" not in name}
    for name, find in (("coupling", as_coupling), ("view_regularizer", as_regularizer)):
        settings = {
            key.removeprefix(f"{name}__"): value
            for key, value in parameters.items()
            if key.startswith(f"{name}__")
        }
        if settings and name in found:
            spec = find(found[name])
            known = {key: value for key, value in settings.items() if key in spec.get_params()}
            found[name] = spec.set_params(**known)
    return found


def plain_parameters(estimator: Any) -> dict[str, Any]:
    """Return all parameters of an estimator as JSON can hold them, specifications by name.

    Parameters
    ----------
    estimator : MultiViewEncoder or MultiViewClassifier
        The estimator.

    Returns
    -------
    dict of str to object
        Settings of specifications are named as in ``set_params``.

    Examples
    --------
    >>> from hotview import LSCCASpec, MultiViewEncoder
    >>> from paper.estimators import plain_parameters
    >>> found = plain_parameters(MultiViewEncoder(LSCCASpec(0.5)))
    >>> found["coupling"], found["coupling__weight"]
    ('lscca', 0.5)
    """
    from hotview.losses.specifications import Specification

    given = estimator.get_params()
    names = {k: v.label for k, v in given.items() if isinstance(v, Specification)}
    found: dict[str, Any] = plain({**given, **names}, 12)
    return found


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
    given = constructor_parameters(parameters_of(cell))
    return kind(**given, device=device, random_state=seed, verbose=False)


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
