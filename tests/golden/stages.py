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
from hotview.semisupervised import learner as learner_module

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
    found, started, left_out, applied = [], [], [], []
    train, finish, apply = (
        getattr(fit_module, name) for name in ("train_networks", "finish", "apply_network")
    )
    score = learner_module.score_left_out

    def train_and_record(fits, *others):
        trainings = [member.training for members, _ in fits for member in members]
        started.extend(deepcopy([x.network, x.objective]) for x in trainings)
        train(fits, *others)

    def score_and_record(*arguments):
        left_out[:] = score(*arguments)
        return list(left_out)

    def apply_and_record(*arguments, **options):
        applied.append(apply(*arguments, **options))
        return applied[-1]

    def finish_and_record(prepared, **options):
        applied.clear()
        left_out.clear()
        model, n = finish(prepared, **options), len(prepared.members)
        found.append(_stages(prepared, model, applied, started[:n], left_out))
        del started[:n]
        return model

    with (
        patch.object(fit_module, "train_networks", train_and_record),
        patch.object(learner_module, "score_left_out", score_and_record),
        patch.object(fit_module, "apply_network", apply_and_record),
        patch.object(fit_module, "finish", finish_and_record),
    ):
        yield found


def _stages(prepared, model, applied, started, left_out):
    rows, graphs, pseudo = prepared.rows, prepared.graphs, prepared.pseudo
    trainings = [member.training for member in prepared.members]
    learner = {} if model.learner is None else vars(model.learner)
    return {
        "rows": [view.take(np.arange(view.n_rows)) for view in rows.views],
        "links": [graphs.links, graphs.held_out_links, graphs.link_targets],
        "components": _plain([*graphs.components, *graphs.neighbors]),
        "graphs": [[x.nodes, x.points, x.adjacency, x.nearest] for x in graphs.graphs]
        + list(graphs.coordinates),
        "prior": None if pseudo is None else [pseudo.log_prior, pseudo.weights],
        "soft labels": [_plain(list(x.sampler.data.soft_labels)) for x in trainings],
        "start": started,
        "networks": [[x.network, x.objective, _history(x.history)] for x in trainings],
        "plan": list(map(_plan, model.plans or [])),
        "features": [trained.features for trained in applied],
        "left-out scores": _plain(left_out),
        "predictors": _plain(learner.get("predictors")),
        "weights": _plain([learner.get("rule"), learner.get("weights")]),
        "out-of-fold scores": _plain(learner.get("scores")),
        "similarity": _plain(model.view_similarity),
        "common space": _plain(model.common_space),
        "calibration": _plain([learner.get("set_scores"), learner.get("disagreement")]),
        "warnings": list(prepared.warnings.texts),
    }


def _history(history):
    return [{k: v for k, v in row.items() if k != "seconds"} for row in history]


def _plan(plan):
    null = [] if plan.null is None else [plan.null.plan.W, plan.null.W, plan.null.C]
    return [plan.W, plan.C, *null]
