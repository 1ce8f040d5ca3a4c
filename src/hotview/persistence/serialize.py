"""From a fitted estimator to the parts of a model file, and back."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn

import hotview
from hotview._codec import require, shorten
from hotview.estimators import MultiViewClassifier
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.inference import EnsembleMember, HeadEnsemble, PredictorEnsemble
from hotview.estimators.parameters import (
    check_parameters,
    encoders_of,
    hidden_of,
    impute_of,
    pick_device,
)
from hotview.losses.specifications import Specification, as_regularizer
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.persistence.schema import (
    BY_CLASS,
    CLASSES,
    NOT_SAVED,
    SPECIFICATIONS,
    SavedClasses,
    SavedMember,
    SavedModel,
    SavedView,
)
from hotview.training.column_scaler import ColumnScaler
from hotview.training.trainer import History

__all__ = ["check_plain", "deserialize", "network_widths", "restore_parameters", "serialize"]

_MAX_INPUT = 1e6  # standard deviations of rows for which networks must not overflow


def serialize(estimator: MultiViewEstimator) -> SavedModel:
    """Return everything that a fitted estimator is made of.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    SavedModel
        What its file will hold.
    """
    names, n_members = estimator.view_names_, len(estimator.networks_)
    own = encoders_of(estimator.encoders, names)
    classes, pool, super_learner, predictors = None, None, None, None
    absent: list[Any] = [None] * n_members
    rules = absent
    if isinstance(estimator, MultiViewClassifier):
        labels, ensemble = estimator.classes_, estimator._ensemble
        classes = SavedClasses(labels.dtype.str, labels.tolist())
        if isinstance(ensemble, PredictorEnsemble):
            super_learner, predictors = ensemble.super_learner, ensemble.predictors
            rules = [ensemble.rule] * n_members
        else:
            pool, rules = ensemble.pool, [member.rule for member in ensemble.members]
    members = zip(
        [network.state_dict() for network in estimator.networks_],
        map(list, estimator.histories_),
        estimator.plans_ or absent,
        rules,
        strict=True,
    )
    offsets = estimator._batch_offsets
    return SavedModel(
        hotview=hotview.__version__,
        estimator=type(estimator).__name__,
        parameters=_plain_parameters(estimator.get_params(deep=False)),
        views=[SavedView.of(name, estimator.columns_[name]) for name in names],
        own_encoders=[name for name, f in zip(names, own, strict=True) if f is not None],
        columns=list(estimator._columns.values()),
        ranges=None if estimator._ranges is None else list(estimator._ranges.values()),
        batch_offsets=None if offsets is None else [offsets.get(name) for name in names],
        references=estimator.references_,
        view_similarity=estimator.view_similarity_,
        common_space=estimator.common_space_,
        batch_size=estimator.batch_size_,
        trained_on=check_plain(estimator.trained_on_, "trained_on_"),
        fit_warnings=check_plain(estimator.fit_warnings_, "fit_warnings_"),
        metadata=check_plain(estimator.metadata_, "metadata_"),
        output=getattr(estimator, "_sklearn_output_config", {}).get("transform"),
        classes=classes,
        pool=pool,
        super_learner=super_learner,
        predictors=predictors,
        set_scores=estimator._set_scores,
        disagreement=estimator._disagreement,
        members=[SavedMember(*member) for member in members],
    )


def check_plain(value: Any, where: str) -> Any:
    """Raise an error for what JSON cannot hold, or would give back as something else.

    Parameters
    ----------
    value : object
        To be saved.
    where : str
        Its name, for the error.

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


def _plain_parameters(parameters: Mapping[str, Any]) -> dict[str, Any]:
    plain = {name: value for name, value in parameters.items() if name not in NOT_SAVED}
    for name in BY_CLASS:
        if isinstance(values := plain.get(name), Mapping):
            # Classes may be numbers, which JSON would turn into text.
            plain[name] = {"items": [[_item(k), float(x)] for k, x in values.items()]}
    hidden = plain["hidden"]
    if isinstance(hidden, Mapping):
        plain["hidden"] = {k: [int(w) for w in widths] for k, widths in hidden.items()}
    else:
        plain["hidden"] = [int(width) for width in hidden]
    return {name: _plain_parameter(name, value) for name, value in plain.items()}


def _plain_parameter(name: str, value: Any) -> Any:
    if isinstance(value, Specification):
        if value.name is None:  # its code is not saved, so that its settings would mean nothing
            return {"own": type(value).__name__}
        settings = value.get_params().items()
        return {
            "name": value.name,
            "settings": {k: _plain_parameter(f"{name}__{k}", v) for k, v in settings},
        }
    value = _item(value)
    return value if isinstance(value, float) else check_plain(value, f"the parameter {name}")


def _item(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def restore_parameters(model: SavedModel, device: Any, own: Mapping[str, Any]) -> Any:
    """Return the estimator, not fitted yet: its parameters, validated, and its views.

    Parameters
    ----------
    model : SavedModel
        What a file holds, checked.
    device : object
        Device of its networks.
    own : dict of str to object
        Specifications of the user's own classes, by parameter.

    Returns
    -------
    MultiViewClassifier or MultiViewEncoder
        The estimator.
    """
    parameters = dict(model.parameters)
    for name in BY_CLASS:
        if isinstance(values := parameters.get(name), Mapping):
            parameters[name] = dict(values["items"])
    hidden = parameters["hidden"]
    if isinstance(hidden, Mapping):
        parameters["hidden"] = {name: tuple(widths) for name, widths in hidden.items()}
    else:
        parameters["hidden"] = tuple(hidden)
    for name, by_name in SPECIFICATIONS.items():
        if isinstance(value := parameters.get(name), Mapping):
            is_own = "own" in value
            parameters[name] = own[name] if is_own else by_name[value["name"]](**value["settings"])
    estimator: Any = CLASSES[model.estimator](**parameters, device=device)
    check_parameters(estimator.get_params(deep=False))
    estimator._set_views({view.name: view.encoding for view in model.views})
    methods = list(impute_of(estimator.impute, estimator.view_names_).values())
    fits = methods == [columns.impute for columns in model.columns]
    require(fits, f"its 'impute' cannot be {shorten(estimator.impute)}")
    return estimator


def network_widths(estimator: Any, model: SavedModel) -> Widths:
    """Return the sizes of the networks of an estimator.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        From `restore_parameters`.
    model : SavedModel
        What its file holds.

    Returns
    -------
    Widths
        For views without encoders of the user's own.
    """
    return Widths(
        [
            view.n_columns + columns.n_indicators
            if columns.components is None
            else columns.n_outputs
            for view, columns in zip(model.views, model.columns, strict=True)
        ],
        hidden_of(estimator.hidden, estimator.view_names_),
        estimator.encoder_dim,
        estimator.n_components,
        0 if model.classes is None else len(model.classes.labels),
        as_regularizer(estimator.view_regularizer).needs_decoders,
    )


def deserialize(estimator: Any, model: SavedModel) -> None:
    """Set all attributes of a fitted estimator.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        From `restore_parameters`, with the user's own encoders.
    model : SavedModel
        What its file holds, checked.
    """
    names, device = estimator.view_names_, pick_device(estimator.device)
    estimator._columns = dict(zip(names, model.columns, strict=True))
    if model.ranges is not None:
        estimator._ranges = dict(zip(names, model.ranges, strict=True))
    if model.batch_offsets is not None:
        estimator._batch_offsets = dict(zip(names, model.batch_offsets, strict=True))
    widths, networks = network_widths(estimator, model), []
    for member in model.members:
        own = encoders_of(estimator.encoders, names)
        network = make_network(widths, torch.Generator().manual_seed(0), own, names)
        network.load_state_dict(member.network)
        _check_range(network.eval(), [f is not None for f in own], model.columns)
        networks.append(network.to(device))
    estimator._set_networks(networks, [History(member.history) for member in model.members])
    estimator.batch_size_, estimator.references_ = model.batch_size, model.references
    estimator.view_similarity_ = model.view_similarity
    estimator.common_space_ = model.common_space
    estimator.trained_on_ = check_plain(model.trained_on, "trained_on_")
    estimator.metadata_ = check_plain(model.metadata, "metadata_")
    estimator.fit_warnings_ = model.fit_warnings
    estimator._set_plans([member.plan for member in model.members if member.plan is not None])
    if model.output is not None:
        estimator.set_output(transform=model.output)
    if model.classes is not None:
        estimator.classes_ = np.array(model.classes.labels, dtype=model.classes.dtype)
        estimator._ensemble = _ensemble(model, networks)
        estimator._set_scores, estimator._disagreement = model.set_scores, model.disagreement


def _ensemble(
    model: SavedModel, networks: list[MultiViewNetwork]
) -> HeadEnsemble | PredictorEnsemble:
    rules = [member.rule for member in model.members if member.rule is not None]
    if model.predictors is not None:
        return PredictorEnsemble(networks, rules[0], model.predictors, model.super_learner)
    return HeadEnsemble(list(map(EnsembleMember, networks, rules)), model.pool)


def _check_range(
    network: MultiViewNetwork, own: Sequence[bool], scalers: Sequence[ColumnScaler]
) -> None:
    """Raise an error if weights are so large that outputs could overflow.

    Rows of up to a million standard deviations give outputs that float32 can hold: no element of
    W x + b exceeds the largest absolute row sum of W, times the largest element of x, plus the
    largest of b. Encoders of fewer than some 30 layers stay below it as they are initialized, and
    decoders predict nothing. Of a user's own encoder only its features of zeros are known.
    """
    features = []
    for encoder, is_own, scaler in zip(network.encoders, own, scalers, strict=True):
        size = _MAX_INPUT
        if scaler.components is not None:
            size *= max(float(np.abs(scaler.components).sum(axis=0).max()), 1.0)
        with torch.no_grad():
            F = encoder(torch.zeros(2, scaler.n_outputs)) if is_own else None
        features.append(_output_size(encoder, size) if F is None else float(F.abs().max()))
    sizes = [*features]
    for modules in (network.maps, network.view_heads):
        sizes += map(_output_size, modules, features)
    if network.joint_head is not None:
        sizes.append(_output_size(network.joint_head, max(features)))
    fits = all(size <= torch.finfo(torch.float32).max for size in sizes)
    require(fits, "its weights are so large, or not finite, that outputs overflow")


def _output_size(perceptron: nn.Module, size: float) -> float:
    """A bound on all activations for inputs of this size, where it does not decrease."""
    for layer in perceptron.modules():
        if isinstance(layer, nn.Linear):
            norm = torch.linalg.matrix_norm(layer.weight.detach(), math.inf)
            bias = 0.0 if layer.bias is None else float(layer.bias.detach().abs().max())
            size = max(float(norm), 1.0) * size + bias
    return size
