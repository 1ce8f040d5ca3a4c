"""Validation of the estimators' parameters, at `fit`; no parameter is changed."""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import KW_ONLY, dataclass
from functools import partial
from numbers import Integral
from typing import TYPE_CHECKING, Any

import torch
from sklearn.base import clone
from torch import nn

from hotview._messages import ParameterError
from hotview._processes import use_processes
from hotview._validation import (
    Check,
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_switch,
    check_values,
    check_weight,
)
from hotview._validation.parameters import suggest
from hotview.losses.specifications import CouplingSpec, RegularizerSpec, as_coupling, as_regularizer
from hotview.nn.multiview import PRECISIONS
from hotview.preprocessing.column_scaler import IMPUTATIONS

if TYPE_CHECKING:
    from hotview.training.loop import Epoch

__all__ = [
    "Parameters",
    "check_nested",
    "check_parameters",
    "encoders_of",
    "hidden_of",
    "impute_of",
    "pick_device",
    "pick_processes",
    "preprocessing_of",
]

_COUNTS = (
    *("n_components", "encoder_dim", "n_neighbors", "batch_size", "n_estimators"),
    *("checkpoint_every", "max_epochs", "steps_per_epoch", "patience"),
)
_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(_COUNTS, check_count),
    "pseudo_labels": check_switch,
    **dict.fromkeys(("head_weight", "alignment_weight"), check_weight),
    "learning_rate": check_positive,
    "validation_fraction": check_share,
    "initialization": partial(check_choice, choices=("pca", "random")),
    "precision": partial(check_choice, choices=PRECISIONS),
    "fusion": partial(check_choice, choices=("weighted", "average")),
}
_PREPROCESSING = ("auto", "pca", "counts", "components", "standardize", "none")
_OPTIONAL = ("max_epochs", "steps_per_epoch", "patience", "validation_fraction")
_SPECIFICATIONS: Mapping[str, Callable[[Any], Any]] = {
    "coupling": as_coupling,
    "view_regularizer": as_regularizer,
}


@dataclass(eq=False, repr=False)
class Parameters:
    """Parameters of all estimators, with the encoder's defaults."""

    coupling: str | CouplingSpec = "hot-reference"
    view_regularizer: str | RegularizerSpec = "autoencoder"
    _: KW_ONLY
    alignment_weight: float = 1.0
    n_components: int = 10
    encoder_dim: int = 20
    hidden: Any = (128,)
    encoders: Any = None
    initialization: str = "pca"
    n_neighbors: int = 10
    max_epochs: int | None = 100
    steps_per_epoch: int | None = None
    batch_size: int = 400
    learning_rate: float = 0.001
    preprocessing: Any = "auto"
    impute: Any = None
    n_estimators: int = 1
    device: Any = "auto"
    devices: int | str | None = None
    precision: str = "float32"
    random_state: Any = None
    verbose: bool | str = "auto"
    callbacks: Sequence[Callable[[Epoch], Any]] | None = None
    checkpoint: Any = None
    checkpoint_every: int = 10


def check_parameters(
    parameters: Mapping[str, Any], regularizer_weight: float | None = None
) -> dict[str, Any]:
    """Validate every parameter that has one meaning for all estimators.

    Parameters
    ----------
    parameters : dict of str to object
        The estimator's parameters.
    regularizer_weight : float or None, default=None
        The estimator's default weight of a regularizer that has none.

    Returns
    -------
    dict of str to object
        The parameters, with new specifications in the place of names and of the user's own.
    """
    coupling = clone(as_coupling(parameters["coupling"]))
    regularizer = clone(as_regularizer(parameters["view_regularizer"]))
    coupling.check()
    regularizer.check()
    check_values(parameters, _CHECKS, optional=_OPTIONAL)
    _check_types(parameters)
    if (devices := parameters["devices"]) is not None:
        if not (isinstance(devices, str) and devices == "auto"):
            check_count("devices", devices)
        if regularizer.name is None:
            raise ValueError(
                f"Expected devices=None, because the view regularizer {regularizer.label} is not "
                "one of hotview's and would get the rows of one process only, but it is "
                f"{devices!r}. Leave devices out."
            )
    if regularizer.weight is None:
        regularizer.weight = regularizer_weight
    return {**parameters, "coupling": coupling, "view_regularizer": regularizer}


def _check_types(parameters: Mapping[str, Any]) -> None:
    """Validate parameters that are functions or paths, or have values of several types."""
    verbose, callbacks, path = map(parameters.get, ("verbose", "callbacks", "checkpoint"))
    if isinstance(verbose, str) and verbose != "auto":
        raise ValueError(
            f"Expected verbose to be True, False or 'auto', but it is {verbose!r}. "
            "Write verbose=True to see progress."
        )
    if callbacks is not None and not (
        isinstance(callbacks, Sequence) and all(map(callable, callbacks))
    ):
        raise TypeError(
            "Expected callbacks to be a list of functions that take an Epoch, but it is "
            f"{callbacks!r}. Pass callbacks=[function]."
        )
    for parameter, choices in (("preprocessing", _PREPROCESSING), ("impute", IMPUTATIONS)):
        given = parameters[parameter]
        for name, kind in given.items() if isinstance(given, Mapping) else [(None, given)]:
            what = parameter if name is None else f"{parameter}[{name!r}]"
            if not (kind is None and parameter == "impute"):
                check_choice(what, kind, choices)
    if not isinstance(path, str | os.PathLike | None):
        raise TypeError(
            f"Expected checkpoint to be the path of a file, or None, but it is {path!r}. "
            "Pass checkpoint='fit.checkpoint'."
        )


def check_nested(estimator: Any, parameters: Mapping[str, Any]) -> None:
    """Raise an error for a setting of a specification that is given by its name."""
    for key in parameters:
        name, _, setting = key.partition("__")
        value = parameters.get(name, getattr(estimator, name, None))
        if setting and name in _SPECIFICATIONS and isinstance(value, str):
            spec = type(_SPECIFICATIONS[name](value)).__name__
            raise ValueError(
                f"Expected {name} to be a specification object to set {key}, but it is the name "
                f"{value!r}. Pass {name}=hotview.{spec}({setting}=...)."
            )


def pick_device(device: Any) -> torch.device:
    """The device to train on; ``"auto"`` takes CUDA where there is any, else the CPU."""
    if isinstance(device, str) and device == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        picked = torch.device(device)
        torch.zeros(1, device=picked).cpu()  # "meta" holds nothing
    except (RuntimeError, AssertionError, TypeError) as error:
        reason = str(error).splitlines()[0]
        raise ParameterError(
            "Expected device to be 'auto' or a device that torch can use here, but it is "
            f"{device!r} ({reason}). ",
            "Use {device}.",
            device="cpu",
        ) from error
    return picked


def pick_processes(parameters: Mapping[str, Any]) -> AbstractContextManager[None]:
    """Return a context in which this process fits alone, or all that `devices` starts."""
    if parameters.get("devices") is None:
        return use_processes()
    device = pick_device(parameters["device"])
    if ":" in str(device):
        raise ValueError(
            "Expected device to be 'auto' or a kind of device, as 'cuda', because devices="
            f"{parameters['devices']!r} gives every process a device of its own, but it is "
            f"{parameters['device']!r}."
        )
    return use_processes(device, parameters["devices"])


def hidden_of(hidden: Any, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Widths of the hidden layers of every view's encoder."""
    if isinstance(hidden, Mapping):
        _check_view_names("hidden", hidden, names, every=True)
    by_view = hidden if isinstance(hidden, Mapping) else dict.fromkeys(names, hidden)
    for widths in by_view.values():
        if not isinstance(widths, Sequence) or not all(
            isinstance(width, Integral) and int(width) >= 1 for width in widths
        ):
            raise ValueError(
                "Expected hidden to be a tuple of layer widths of at least 1, or a dict of such "
                f"tuples by view, but it is {widths!r}. Write hidden=(128,) for one layer, "
                "hidden=() for a linear encoder."
            )
    return [tuple(by_view[name]) for name in names]


def preprocessing_of(
    parameters: Mapping[str, Any], encoders: Sequence[nn.Module | None], names: Sequence[str]
) -> dict[str, str]:
    """What is done to the columns of every view; encoders of the user's own get all of them."""
    given = parameters["preprocessing"]
    if isinstance(given, Mapping):
        _check_view_names("preprocessing", given, names, every=False)
    by_view = given if isinstance(given, Mapping) else dict.fromkeys(names, given)
    kinds = {name: by_view.get(name, "auto") for name in names}
    for name, encoder in zip(names, encoders, strict=True):
        if encoder is not None and kinds[name] in ("auto", "pca", "counts"):
            kinds[name] = "standardize"
    return kinds


def impute_of(impute: Any, names: Sequence[str]) -> dict[str, str | None]:
    """How missing cells of every view are imputed; None for views that a dict does not name."""
    if isinstance(impute, Mapping):
        _check_view_names("impute", impute, names, every=False)
        return {name: impute.get(name) for name in names}
    return dict.fromkeys(names, impute)


def encoders_of(encoders: Any, names: Sequence[str]) -> list[nn.Module | None]:
    """Copies of the user's encoder of every view, None where there is none."""
    if encoders is None:
        return [None] * len(names)
    if isinstance(encoders, Mapping):
        _check_view_names("encoders", encoders, names, every=False)
        given = [encoders.get(name) for name in names]
    elif isinstance(encoders, Sequence | nn.ModuleList):
        if len(encoders) != len(names):
            raise ValueError(
                f"Expected encoders to hold one module for each of the {len(names)} views, but it "
                f"holds {len(encoders)}. Write None for a view that is to get the usual encoder."
            )
        given = list(encoders)
    else:
        raise TypeError(
            "Expected encoders to be a list or dict of torch modules, one per view, but it is a "
            f"{type(encoders).__name__}. Pass encoders={{view: module}}."
        )
    for name, module in zip(names, given, strict=True):
        if module is not None and not isinstance(module, nn.Module):
            raise TypeError(
                f"Expected the encoder of view {name!r} to be a torch module, but it is a "
                f"{type(module).__name__}. Derive it from torch.nn.Module."
            )
    # Copies, because training changes them, and what the caller passed is not ours to change.
    return [None if module is None else copy.deepcopy(module).cpu() for module in given]


def _check_view_names(
    what: str, given: Mapping[str, Any], names: Sequence[str], *, every: bool
) -> None:
    unknown = [name for name in given if name not in names]
    missing = [name for name in names if name not in given] if every else []
    if unknown or missing:
        problem = f"it also names {unknown}" if unknown else f"it lacks {missing}"
        remedy = "Use the names of the views."
        raise ValueError(
            f"Expected {what} to name views among {list(names)}, but {problem}. "
            + (suggest(unknown[0], names, remedy) if unknown else remedy)
        )
