"""Fits of several estimators in one training, with the same results in less time."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

from hotview._threads import existing_threads
from hotview.estimators.base import MultiViewEstimator
from hotview.estimators.fit import fit_estimators
from hotview.estimators.randomness import seeded

__all__ = ["fit_batched"]


def fit_batched(
    fits: Sequence[tuple[MultiViewEstimator, Mapping[str, Any]]],
    *,
    view_tests: bool = True,
    training: AbstractContextManager[None] | None = None,
) -> None:
    """Fit estimators, each on its own data, as their own ``fit(**arguments)`` would.

    Networks of equal shape and equal parameters, except for the random state and the weights of the
    coupling, the view regularizer and the constraint, are trained in one set of tensors, on a GPU
    as one CUDA graph.

    Parameters
    ----------
    fits : sequence of (estimator, dict of str to object)
        Estimators, and the arguments of their `fit`; they must not have checkpoints.
    view_tests : bool, default=True
        Whether the permutation null of the plan and the similarity of the views are computed, which
        takes as long as a small training.
    training : context manager or None, default=None
        Entered while networks are trained, not while tables are read and plans are computed.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.estimators.batched_fit import fit_batched
    >>> views = make_views(60, n_views=4, random_state=0).views
    >>> encoders = [MultiViewEncoder(max_epochs=2, random_state=seed) for seed in (0, 1)]
    >>> fit_batched([(encoder, {"Xs": views}) for encoder in encoders])
    >>> [len(encoder.history_) for encoder in encoders]
    [2, 2]
    """
    start = time.perf_counter()
    if any(estimator.get_params()["checkpoint"] is not None for estimator, _ in fits):
        raise ValueError(
            "Expected estimators without a checkpoint, because these fits are trained in one set "
            "of tensors, but some have one. Set checkpoint=None, or fit them one by one."
        )
    if any(estimator.get_params()["devices"] is not None for estimator, _ in fits):
        raise ValueError(
            "Expected estimators with devices=None, because these fits are trained together in "
            "this process, but some start others. Set devices=None, or fit them one by one."
        )
    with existing_threads():
        given = []
        for estimator, arguments in fits:
            p = seeded(estimator._parameters())
            given.append((estimator._data(p, **arguments), p))
        fitted = fit_estimators(given, start=start, view_tests=view_tests, training=training)
    for (estimator, _), model in zip(fits, fitted, strict=True):
        estimator.model_ = model
