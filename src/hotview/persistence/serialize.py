"""From a fitted estimator to tensors by name, and facts that JSON can hold."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

import hotview
from hotview.estimators import MultiViewClassifier
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.parameters import encoders_of
from hotview.ot import Plan
from hotview.persistence.schema import BASIS, COLUMNS, KNN, NOT_SAVED, PLAN_TENSORS, prefix
from hotview.semisupervised.predictors import ViewPredictors
from hotview.training.view_plan import ViewPlan

__all__ = ["take_apart"]

Tensors = dict[str, Tensor]
Facts = dict[str, Any]


def take_apart(estimator: MultiViewEstimator) -> tuple[Tensors, Facts]:
    """Everything that a fitted estimator is made of.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    tensors : dict of str to Tensor
        Weights, columns, plans and predictors.
    facts : dict of str to object
        Everything else.
    """
    tensors, facts = _take_networks_apart(estimator), _tell(estimator)
    if estimator.references_ is not None:
        tensors["references"] = torch.from_numpy(estimator.references_.copy())
    for r, plan in enumerate(estimator.plans_ or ()):
        _take_view_plan_apart(plan, prefix(r), tensors, facts)
    if isinstance(estimator, MultiViewClassifier):
        _take_judgment_apart(estimator, tensors, facts)
    return tensors, facts


def _take_networks_apart(estimator: MultiViewEstimator) -> Tensors:
    tensors = {
        f"{prefix(r)}network.{key}": value
        for r, network in enumerate(estimator.networks_)
        for key, value in network.state_dict().items()
    }
    for s, columns in enumerate(estimator._columns.values()):
        for part in COLUMNS:
            if (values := getattr(columns, part)) is not None:
                tensors[f"columns.{s}.{part}"] = torch.from_numpy(values.copy())
    return tensors


def _tell(estimator: MultiViewEstimator) -> Facts:
    names = estimator.view_names_
    given = encoders_of(estimator.encoders, names)
    facts: Facts = {
        "hotview": hotview.__version__,
        "class": type(estimator).__name__,
        "parameters": _plain_parameters(estimator.get_params(deep=False)),
        "views": [[name, *estimator._shapes[name]] for name in names],
        "own_encoders": [name for name, f in zip(names, given, strict=True) if f is not None],
        "batch_size": estimator.batch_size_,
        "history": list(estimator.history_),
        "trained_on": check_plain(estimator.trained_on_, "trained_on_"),
        "remarks": check_plain(estimator.fit_warnings_, "fit_warnings_"),
        "notes": check_plain(estimator.metadata_, "metadata_"),
    }
    if len(estimator.networks_) > 1:
        facts["more_histories"] = [list(history) for history in estimator.histories_[1:]]
    if (output := getattr(estimator, "_sklearn_output_config", {}).get("transform")) is not None:
        facts["output"] = output
    return facts


def check_plain(value: Any, where: str) -> Any:
    """Refuse what JSON cannot hold, or would give back as something else.

    Parameters
    ----------
    value : object
        To be saved.
    where : str
        What it is called, for the error.

    Returns
    -------
    object
        A copy of it.

    Examples
    --------
    >>> from hotview.persistence.serialize import check_plain
    >>> check_plain({"columns": ["age", 2]}, "metadata_")
    {'columns': ['age', 2]}
    """
    plain = value is None or isinstance(value, bool | int | str)
    if plain or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, list):
        return [check_plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):
        return {key: check_plain(item, f"{where}[{key!r}]") for key, item in value.items()}
    raise TypeError(
        f"Expected {where} to be what JSON can hold: None, True or False, a finite number, text, a "
        f"list, or a dict whose keys are text; but it is {value!r} ({type(value).__name__}). "
        "Convert it before saving."
    )


def _plain_parameters(parameters: Mapping[str, Any]) -> Facts:
    plain = {name: _plain(value) for name, value in parameters.items() if name not in NOT_SAVED}
    if isinstance(weights := plain.get("class_weight"), Mapping):
        # Classes may be numbers, which JSON would turn into text.
        plain["class_weight"] = {"items": [[_plain(k), float(w)] for k, w in weights.items()]}
    if isinstance(plain["hidden"], Mapping):
        plain["hidden"] = {k: [int(w) for w in widths] for k, widths in plain["hidden"].items()}
    else:
        plain["hidden"] = [int(width) for width in plain["hidden"]]
    return {
        name: value if isinstance(value, float) else check_plain(value, f"the parameter {name}")
        for name, value in plain.items()
    }


def _plain(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _take_view_plan_apart(plan: ViewPlan, before: str, tensors: Tensors, facts: Facts) -> None:
    facts[f"{before}plan"] = _take_plan_apart(plan, f"{before}plan", tensors)
    if plan.null is not None:
        told = _take_plan_apart(plan.null.plan, f"{before}null.plan", tensors)
        facts[f"{before}null"] = told
        tensors |= {f"{before}null.W": plan.null.W, f"{before}null.C": plan.null.C}


def _take_plan_apart(plan: Plan, name: str, tensors: Tensors) -> Facts:
    tensors |= {f"{name}.{part}": getattr(plan, part) for part in PLAN_TENSORS}
    if plan.mask is not None:
        tensors[f"{name}.mask"] = plan.mask
    numbers = {"n_iter": int(plan.n_iter), "tol": float(plan.tol), "reg": float(plan.reg)}
    return {**numbers, "symmetric": bool(plan.symmetric)}


def _take_judgment_apart(estimator: MultiViewClassifier, tensors: Tensors, facts: Facts) -> None:
    facts["classes"] = [estimator.classes_.dtype.str, estimator.classes_.tolist()]
    for r, member in enumerate(estimator._members):
        facts[f"{prefix(r)}fusion"] = {
            name: list(value) if isinstance(value, tuple) else value
            for name, value in vars(member.rule).items()
        }
        if isinstance(member.predictors, ViewPredictors):
            _take_predictors_apart(member.predictors, prefix(r), tensors, facts)
    if (pool := estimator._pool) is not None:
        weights = {"complete": list(pool.complete), "partial": list(pool.partial)}
        facts["pool"] = {**weights, "power": float(pool.power)}


def _take_predictors_apart(
    predictors: ViewPredictors, before: str, tensors: Tensors, facts: Facts
) -> None:
    for s, knn in enumerate(predictors.knn):
        tensors |= {f"{before}knn.{s}.{part}": getattr(knn, part) for part in KNN}
        tensors |= {f"{before}basis.{s}.{part}": getattr(knn.basis, part) for part in BASIS}
    facts[f"{before}knn"] = [[float(k.feature_scale), int(k.n_neighbors)] for k in predictors.knn]
    if predictors.ridge is not None:
        tensors |= {f"{before}ridge.{s}": B for s, B in enumerate(predictors.ridge.weights)}
        tensors[f"{before}ridge.intercept"] = predictors.ridge.intercept
