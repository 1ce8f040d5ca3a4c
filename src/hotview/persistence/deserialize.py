"""From the checked contents of a file to the estimator that was saved."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview.estimators import MultiViewClassifier, MultiViewEncoder
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.inference import EnsembleMember, FusionRule
from hotview.estimators.parameters import check_parameters, encoders_of, hidden_of, pick_device
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.ot import Plan
from hotview.persistence.schema import BASIS, KNN, PLAN_TENSORS, prefixes
from hotview.semisupervised.fusion import LogOpinionPool
from hotview.semisupervised.knn import KNNPredictor, PCABasis
from hotview.semisupervised.predictors import RidgePredictor, ViewPredictors
from hotview.training.columns import Columns
from hotview.training.permutation_null import Null
from hotview.training.recorder import History
from hotview.training.view_plan import ViewPlan

__all__ = ["CLASSES", "make_estimator", "put_together", "widths_of"]

CLASSES: dict[str, type[MultiViewEstimator]] = {
    c.__name__: c for c in (MultiViewClassifier, MultiViewEncoder)
}
_VOTES = 3  # the first format that knows them
_BEFORE_VOTES = {"pseudo_labels": False, "fusion": "average"}  # parameters that were not yet there

Tensors = dict[str, Tensor]
Facts = dict[str, Any]


def make_estimator(facts: Facts, device: Any) -> Any:
    """The estimator, not fitted yet: its parameters, checked, and its views.

    Parameters
    ----------
    facts : dict of str to object
        Facts of a file, of the right types.
    device : object
        Where its networks are to be.

    Returns
    -------
    MultiViewClassifier or MultiViewEncoder
        The estimator.
    """
    parameters = dict(facts["parameters"])
    if isinstance(weights := parameters.get("class_weight"), Mapping):
        parameters["class_weight"] = dict(weights["items"])
    parameters["hidden"] = _hidden(parameters["hidden"])
    if facts["class"] == "MultiViewClassifier" and facts["version"] < _VOTES:
        parameters |= _BEFORE_VOTES
    estimator: Any = CLASSES[facts["class"]](**parameters, device=device)
    check_parameters(estimator.get_params(deep=False))
    names = [name for name, _, _ in facts["views"]]
    estimator.view_names_, estimator.n_views_ = names, len(names)
    estimator.n_features_per_view_ = {name: n for name, n, _ in facts["views"]}
    estimator._shapes = {
        name: (n, None if columns is None else tuple(columns))
        for name, n, columns in facts["views"]
    }
    return estimator


def widths_of(estimator: Any, facts: Facts) -> Widths:
    """Sizes of the networks of an estimator.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        From `make_estimator`.
    facts : dict of str to object
        Facts of its file.

    Returns
    -------
    Widths
        For views without encoders of one's own.
    """
    return Widths(
        list(estimator.n_features_per_view_.values()),
        hidden_of(estimator.hidden, estimator.view_names_),
        estimator.encoder_dim,
        estimator.n_components,
        len(facts["classes"][1]) if "classes" in facts else 0,
        estimator.view_regularizer == "autoencoder",
    )


def put_together(estimator: Any, tensors: Tensors, facts: Facts) -> None:
    """Give an estimator everything that a fit had left behind.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        From `make_estimator`, with the user's own encoders.
    tensors : dict of str to Tensor
        Of its file.
    facts : dict of str to object
        Of its file.
    """
    every, device = prefixes(facts), pick_device(estimator.device)
    estimator._columns = {
        name: _columns(tensors, s) for s, name in enumerate(estimator.view_names_)
    }
    widths = widths_of(estimator, facts)
    estimator.networks_ = [_network(tensors, estimator, widths, one).to(device) for one in every]
    estimator.histories_ = [
        History(rows) for rows in (facts["history"], *facts.get("more_histories", ()))
    ]
    estimator.network_, estimator.history_ = estimator.networks_[0], estimator.histories_[0]
    estimator.batch_size_ = facts["batch_size"]
    estimator.trained_on_ = facts.get("trained_on", {})
    estimator.fit_warnings_, estimator.metadata_ = facts.get("remarks", []), facts.get("notes", {})
    references = tensors.get("references")
    estimator.references_ = None if references is None else references.numpy()
    has_plan = "plan" in facts
    estimator._set_plans([_view_plan(tensors, facts, one) for one in every if has_plan])
    if "output" in facts:
        estimator.set_output(transform=facts["output"])
    if isinstance(estimator, MultiViewClassifier):
        dtype, classes = facts["classes"]
        estimator.classes_ = np.array(classes, dtype=dtype)
        estimator._members = [
            _member(network, tensors, facts, one, device)
            for network, one in zip(estimator.networks_, every, strict=True)
        ]
        estimator._pool = _pool(facts.get("pool"))


def _hidden(hidden: Any) -> Any:
    if isinstance(hidden, Mapping):
        return {name: tuple(widths) for name, widths in hidden.items()}
    return tuple(hidden)


def _columns(tensors: Tensors, s: int) -> Columns:
    fill = tensors.get(f"columns.{s}.fill")
    return Columns(
        tensors[f"columns.{s}.mean"].numpy(),
        tensors[f"columns.{s}.scale"].numpy(),
        None if fill is None else fill.numpy(),
    )


def _network(tensors: Tensors, estimator: Any, widths: Widths, before: str) -> MultiViewNetwork:
    names = estimator.view_names_
    given = encoders_of(estimator.encoders, names)
    network = make_network(widths, torch.Generator().manual_seed(0), given, names)
    start = f"{before}network."
    state = {k.removeprefix(start): t for k, t in tensors.items() if k.startswith(start)}
    network.load_state_dict(state)
    return network.eval()


def _plan_parts(tensors: Tensors, name: str, numbers: Facts) -> Facts:
    parts = {part: tensors[f"{name}.{part}"] for part in PLAN_TENSORS}
    return {**parts, **numbers, "mask": tensors.get(f"{name}.mask")}


def _view_plan(tensors: Tensors, facts: Facts, before: str) -> ViewPlan:
    null = None
    if f"{before}null" in facts:
        plan = Plan(**_plan_parts(tensors, f"{before}null.plan", facts[f"{before}null"]))
        null = Null(plan, tensors[f"{before}null.W"], tensors[f"{before}null.C"])
    parts = _plan_parts(tensors, f"{before}plan", facts[f"{before}plan"])
    return ViewPlan(**parts, null=null)


def _fusion_rule(facts: Facts) -> FusionRule:
    n_classes, log_prior = tuple(facts["n_classes"]), tuple(facts["log_prior"])
    return FusionRule(facts["joint"], facts["joint_only"], n_classes, log_prior)


def _pool(told: Facts | None) -> LogOpinionPool | None:
    if told is None:
        return None
    return LogOpinionPool(tuple(told["complete"]), tuple(told["partial"]), told["power"])


def _member(
    network: MultiViewNetwork, tensors: Tensors, facts: Facts, before: str, device: torch.device
) -> EnsembleMember:
    rule = _fusion_rule(facts[f"{before}fusion"])
    if f"{before}knn" not in facts:
        return EnsembleMember.of_heads(network, rule)

    def get(key: str) -> Tensor:
        return tensors[f"{before}{key}"].to(device)

    knn = []
    for s, (feature_scale, n_neighbors) in enumerate(facts[f"{before}knn"]):
        basis = PCABasis(*(get(f"basis.{s}.{part}") for part in BASIS))
        points, soft_labels = (get(f"knn.{s}.{part}") for part in KNN)
        knn.append(KNNPredictor(basis, feature_scale, points, soft_labels, n_neighbors))
    ridge = None
    if f"{before}ridge.intercept" in tensors:
        weights = [get(f"ridge.{s}") for s in range(len(knn))]
        ridge = RidgePredictor(weights, get("ridge.intercept"))
    return EnsembleMember(network, rule, ViewPredictors(knn, ridge))
