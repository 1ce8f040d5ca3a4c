"""What a model was trained on, for those who meet it later."""

from __future__ import annotations

import platform
from typing import Any

import numpy as np
import sklearn
import torch

import hotview
from hotview.estimators.inputs import FitInputs
from hotview.estimators.labels import Labels
from hotview.training.precision import used_precision

__all__ = ["describe_training"]


def describe_training(task: FitInputs, seconds: float, device: torch.device) -> dict[str, Any]:
    """Rows, labels, time and versions of a fit, as JSON can hold them.

    Parameters
    ----------
    task : FitInputs
        What was fitted, with all labels.
    seconds : float
        How long it took.
    device : torch.device
        Where.

    Returns
    -------
    dict of str to object
        As `trained_on_` of the estimators.

    Examples
    --------
    >>> import torch
    >>> from hotview.estimators.inputs import Source
    >>> from hotview.estimators.inputs import FitInputs
    >>> from hotview.estimators.provenance import describe_training
    >>> inputs = FitInputs(Source([], {}, {}), None, {})
    >>> told = describe_training(inputs, 1.23456, torch.device("cpu"))
    >>> told["linked"], told["seconds"]
    (0, 1.235)
    """
    labels, unaligned = task.labels, task.source.unaligned
    told: dict[str, Any] = {
        "linked": task.source.n_linked,
        "linked_labeled": 0 if labels is None else _count(labels.linked),
        "unaligned": {name: table.n_rows for name, table in unaligned.items()},
        "unaligned_labeled": {
            name: _count(codes) for name, codes in (labels.unaligned if labels else {}).items()
        },
    }
    if labels is not None:
        told["classes"] = _count_classes(labels)
    return {
        **told,
        "seconds": round(seconds, 3),
        "versions": _versions(),
        "device": str(device),
        "precision": used_precision(task.parameters.get("precision", "float32"), device),
    }


def _count(codes: Any) -> int:
    return int((codes >= 0).sum())


def _count_classes(labels: Labels) -> list[list[Any]]:
    codes = np.concatenate([labels.linked, *labels.unaligned.values()])
    counts = np.bincount(codes[codes >= 0], minlength=len(labels.classes))
    return [list(pair) for pair in zip(labels.classes.tolist(), counts.tolist(), strict=True)]


def _versions() -> dict[str, str]:
    return {
        "python": platform.python_version(),
        "hotview": hotview.__version__,
        "torch": str(torch.__version__),
        "numpy": np.__version__,
        "scikit-learn": sklearn.__version__,
    }
