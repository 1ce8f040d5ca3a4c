"""What a model says about rows, as columns of a table."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

import numpy as np

from hotview.cli.models import OpenModel
from hotview.datasets.people.recipe import People, ViewRows

__all__ = ["feature_columns", "prediction_columns"]


def prediction_columns(
    model: OpenModel, people: People, tell: Callable[[int], object] = lambda n: None
) -> dict[str, Any]:
    """Predictions for individuals.

    Parameters
    ----------
    model : OpenModel
        A classifier.
    people : People
        The individuals.
    tell : callable
        Called with the number of individuals of every part that is done.

    Returns
    -------
    dict of str to sequence
        Columns: ids, ``predicted``, ``probability``, ``probability_<class>`` for every class,
        ``disagreement`` and ``n_views``.
    """
    estimator = model.estimator
    P, disagreement = estimator._predict_both(people.views, tell)
    columns: dict[str, Any] = {}
    columns["predicted"] = estimator.classes_[P.argmax(axis=1)]
    columns["probability"] = P.max(axis=1)
    for j, name in enumerate(estimator.classes_.tolist()):
        columns[f"probability_{name}"] = P[:, j]
    if len(estimator.networks_) > 1:
        columns["disagreement"] = disagreement
    columns["n_views"] = np.sum(list(people.present.values()), axis=0)
    return {**_id_column(model, people.ids.tolist(), columns, known=people.has_ids), **columns}


def feature_columns(model: OpenModel, name: str, view: ViewRows, space: str) -> dict[str, Any]:
    """Features of the rows of a view.

    Parameters
    ----------
    model : OpenModel
        The model.
    name : str
        The view.
    view : ViewRows
        Its rows.
    space : {"features", "common"}
        Which features.

    Returns
    -------
    dict of str to sequence
        Columns: ids and features.
    """
    Z = model.estimator.transform_view(view.X, name, space)
    ids = view.ids if view.ids is not None else list(range(1, len(Z) + 1))
    columns = {f"{name}_{j}": Z[:, j] for j in range(Z.shape[1])}
    return {**_id_column(model, ids, columns, known=view.ids is not None), **columns}


def _id_column(
    model: OpenModel, ids: list[Any], others: Collection[str], *, known: bool
) -> dict[str, list[Any]]:
    """Ids under the name they came with, or rows counted from 1."""
    name = (model.recipe.id_column or "row") if known else "row"
    if name in others:
        raise ValueError(
            f"The column of ids is called {name!r}, as is one of the result. Rename it in your "
            "files, and say so: --id-column."
        )
    return {name: ids}
