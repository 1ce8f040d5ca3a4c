"""What every stage of a fit computed, by name, in the order of the stages.

This file alone knows where a fit keeps its results: change it where these move, and the record
stays the same.
"""

from contextlib import contextmanager
from copy import deepcopy
from dataclasses import fields, is_dataclass
from unittest.mock import patch

import numpy as np
from sklearn.decomposition import PCA

from hotview.estimators import fit as fit_module
from hotview.estimators.base import MultiViewEstimator

__all__ = ["STAGES", "record_stages"]

STAGES = (
    *("rows", "links", "components", "graphs", "prior", "soft labels", "start", "networks"),
    *("plan", "features", "left-out scores", "predictors", "weights", "out-of-fold scores"),
    *("similarity", "common space", "calibration", "warnings"),
    *("probabilities", "sets", "latents", "record", "other"),
)


def _plain(result):
    """A result object as what `digest` takes: dataclasses as the list of their values."""
    if is_dataclass(result):
        return [_plain(getattr(result, field.name)) for field in fields(result)]
    if isinstance(result, PCA):
        return [result.components_, result.mean_, result.explained_variance_]
    if isinstance(result, list | tuple):
        return [_plain(part) for part in result]
    if isinstance(result, dict):
        return {name: _plain(part) for name, part in result.items()}
    return result


@contextmanager
def record_stages():
    """Record the fits inside: yields a list, to which every fit adds its dict of stages."""
    found, started = [], []
    train, set_fitted = fit_module._train, MultiViewEstimator._set_fitted

    def train_and_record(members, *others):
        started.extend(deepcopy([m.training.network, m.training.objective]) for m in members)
        train(members, *others)

    def set_and_record(self, fit, start):
        set_fitted(self, fit, start)
        found.append(_stages(fit, started[: len(fit.members)]))
        del started[: len(fit.members)]

    with (
        patch.object(fit_module, "_train", train_and_record),
        patch.object(MultiViewEstimator, "_set_fitted", set_and_record),
    ):
        yield found


def _stages(fit, started):
    shared, members = fit.shared, fit.members
    ensemble = fit.ensemble
    predictors = getattr(ensemble, "predictors", None)
    return {
        "rows": [view.take(np.arange(view.n_rows)) for view in shared.views],
        "links": [shared.links, shared.held_out_links, shared.link_targets],
        "components": _plain([*shared.components, *shared.neighbors]),
        "graphs": [
            [graph.nodes, graph.points, graph.adjacency, graph.nearest] for graph in shared.graphs
        ]
        + list(shared.coordinates),
        "prior": [shared.log_prior, fit.pseudo.weights if fit.pseudo else np.empty((0, 0))],
        "soft labels": [
            _plain(list(m.training.sampler.data.soft_labels)) for m in members if m.propagates
        ],
        "start": started,
        "networks": [
            [m.training.network, m.training.objective, _history(m.training.history)]
            for m in members
        ],
        "plan": list(map(_plan, fit.plans)) or [None] * len(members),
        "features": [trained.features or None for trained in fit.trained],
        "left-out scores": _plain(
            [[x.scores, x.without, x.subsets, x.linked] for x in fit.left_out]
            or [[None] * 4 for _ in members]
        ),
        "predictors": None
        if predictors is None
        else [
            [[knn.points, knn.counts, knn.soft_labels] for knn in predictors.knn],
            _plain([predictors.ridge, predictors.joint]),
        ],
        "weights": _plain(
            [getattr(ensemble, "super_learner", None), getattr(ensemble, "pool", None)]
        ),
        "out-of-fold scores": _plain(fit.scores),
        "similarity": _plain(fit.similarity),
        "common space": _plain(fit.common_space),
        "calibration": _plain([fit.set_scores, fit.disagreement]),
        "warnings": list(fit.warnings.texts),
    }


def _history(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def _plan(plan):
    null = [] if plan.null is None else [plan.null.plan.W, plan.null.W, plan.null.C]
    return [plan.W, plan.C, *null]
