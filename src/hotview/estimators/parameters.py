"""Checks of what a constructor stored; they run at `fit`, and change nothing."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import torch
from torch import nn

from hotview._validation import (
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_weight,
)
from hotview.estimators.couplings import COUPLINGS
from hotview.losses.objective import VIEW_REGULARIZERS
from hotview.training.precision import PRECISIONS
from hotview.training.process_group import ProcessGroup

__all__ = ["check_parameters", "encoders_of", "hidden_of", "pick_device", "pick_processes"]

_CHOICES = {
    "coupling": tuple(COUPLINGS),
    "view_regularizer": tuple(VIEW_REGULARIZERS),
    "projections": ("orthogonal", "iid", "qmc"),
    "reduction": ("mean", "sum"),
    "initialization": ("pca", "random"),
    "precision": PRECISIONS,
}
_COUNTS = (
    "n_components",
    "encoder_dim",
    "n_references",
    "n_projections",
    "n_neighbors",
    "sinkhorn_max_iter",
    "batch_size",
    "n_estimators",
    "checkpoint_every",
)
_OPTIONAL_COUNTS = ("max_epochs", "steps_per_epoch", "patience")
_WEIGHTS = ("coupling_weight", "regularizer_weight")
_OPTIONAL_WEIGHTS = ("head_weight",)
STRATEGIES = ("ddp",)  # of sharing a fit out among processes
_POSITIVE = ("reg", "learning_rate")


def check_parameters(parameters: Mapping[str, Any]) -> None:
    """Check every parameter that has one meaning for all estimators."""
    for name, choices in _CHOICES.items():
        check_choice(name, parameters[name], choices)
    for name in _COUNTS:
        check_count(name, parameters[name])
    for name in _OPTIONAL_COUNTS:
        if parameters.get(name) is not None:
            check_count(name, parameters[name])
    for name in _WEIGHTS:
        check_weight(name, parameters[name])
    if parameters["orthogonality_weight"] != math.inf:  # which meets the constraint exactly
        check_weight("orthogonality_weight", parameters["orthogonality_weight"])
    for name in _OPTIONAL_WEIGHTS:
        if parameters.get(name) is not None:
            check_weight(name, parameters[name])
    for name in _POSITIVE:
        check_positive(name, parameters[name])
    if check_share("cost_decay", parameters["cost_decay"]) == 1:
        raise ValueError("Expected cost_decay below 1, or C would never change. Use 0.9.")
    if parameters["impute"] is not None:
        check_choice("impute", parameters["impute"], ("mean",))
    if "fusion" in parameters:
        check_choice("fusion", parameters["fusion"], ("stacked", "average"))
    for name in ("standardize", "pseudo_labels"):
        _check_switch(name, parameters.get(name, True))
    _check_verbose(parameters["verbose"])
    _check_callbacks(parameters["callbacks"])
    _check_checkpoint(parameters["checkpoint"])
    _check_strategy(parameters.get("strategy"), parameters.get("devices", 1))


def _check_strategy(strategy: Any, devices: Any) -> None:
    if strategy is not None:
        check_choice("strategy", strategy, STRATEGIES)
    if isinstance(devices, str) and devices == "auto":
        return
    check_count("devices", devices)
    if strategy is None and devices != 1:
        raise ValueError(
            f"Expected devices=1 without a strategy, but it is {devices}. Set strategy='ddp' to "
            "train in several processes."
        )


def _check_checkpoint(path: Any) -> None:
    if not isinstance(path, str | os.PathLike | None):
        raise TypeError(
            f"Expected checkpoint to be the path of a file, or None, but it is {path!r}. "
            "Pass checkpoint='fit.checkpoint'."
        )


def _check_switch(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):  # or "no" would mean yes
        raise ValueError(
            f"Expected {name} to be True or False, but it is {value!r}. "
            f"Write {name}=False to do without."
        )


def _check_verbose(verbose: Any) -> None:
    if isinstance(verbose, str) and verbose != "auto":
        raise ValueError(
            f"Expected verbose to be True, False or 'auto', but it is {verbose!r}. "
            "Write verbose=True to see progress."
        )


def _check_callbacks(callbacks: Any) -> None:
    if callbacks is None:
        return
    if not isinstance(callbacks, Sequence) or not all(callable(one) for one in callbacks):
        raise TypeError(
            "Expected callbacks to be a list of functions that take an Epoch, but it is "
            f"{callbacks!r}. Pass callbacks=[function]."
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
        raise ValueError(
            "Expected device to be 'auto' or a device that torch can use here, but it is "
            f"{device!r} ({reason}). Use device='cpu'."
        ) from error
    return picked


def pick_processes(parameters: Mapping[str, Any]) -> ProcessGroup:
    """The processes to train in: this one, or those that the strategy starts."""
    if parameters.get("strategy") is None:
        return ProcessGroup()
    device = pick_device(parameters["device"])
    if ":" in str(device):
        raise ValueError(
            "Expected device to be 'auto' or a kind of device, as 'cuda', because strategy='ddp' "
            f"gives every process a device of its own, but it is {parameters['device']!r}."
        )
    from hotview.training.distributed import launch_processes  # which few need

    return launch_processes(device, parameters["devices"])


def hidden_of(hidden: Any, names: Sequence[str]) -> list[tuple[int, ...]]:
    """Hidden layers of every view's encoder."""
    if isinstance(hidden, Mapping):
        _check_view_names("hidden", hidden, names, every=True)
        return [_layers(hidden[name]) for name in names]
    return [_layers(hidden)] * len(names)


def _layers(hidden: Any) -> tuple[int, ...]:
    if not isinstance(hidden, Sequence) or not all(_is_width(width) for width in hidden):
        raise ValueError(
            "Expected hidden to be a tuple of layer widths of at least 1, or a dict of such tuples "
            f"by view, but it is {hidden!r}. Write hidden=(128,) for one layer, hidden=() for a "
            "linear encoder."
        )
    return tuple(hidden)


def _is_width(width: Any) -> bool:
    return isinstance(width, Integral) and int(width) >= 1


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
        raise ValueError(
            f"Expected {what} to name views among {list(names)}, but {problem}. "
            "Use the names of the views."
        )
