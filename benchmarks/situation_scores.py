"""Scores of all predictors of the default, kept so that ways to weigh them compare in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from situation_data import Task

from hotview import MultiViewClassifier
from hotview.model.inference import PredictorEnsemble
from hotview.semisupervised.graph import refine_graph
from hotview.semisupervised.predictors import fit_predictors
from hotview.semisupervised.soft_labels import label_fold
from hotview.semisupervised.super_learner import ScoresOutOfFold


class Recorded(MultiViewClassifier):
    """The classifier, with the scores of left-out rows that its weights were fitted to.

    Also with what it would be without condensed predictors: every member searches its neighbors
    among all rows, by components and its own features.
    """

    def _set_fitted(self, fit: Any, start: float) -> None:
        super()._set_fitted(fit, start)
        stages, ensemble = fit.prepared, fit.learner.ensemble
        data, graphs, pseudo = stages.rows.data, stages.graphs.graphs, stages.pseudo
        by_view = zip(*(trained.features for trained in fit.trained), strict=True)
        features = [np.mean([F for F, _ in of_view], axis=0) for of_view in by_view]
        refined = list(map(refine_graph, graphs, features))
        random = stages.members[0].random.stage("refined labels").numpy
        nodes = label_fold(refined, data, data, pseudo.log_prior, pseudo.weights, random)
        self.exact = []
        for member, trained in zip(stages.members, fit.trained, strict=True):
            own = fit_predictors(graphs, nodes, data, pseudo.log_prior, [trained.features])
            network = member.training.network
            self.exact.append(
                PredictorEnsemble([network], ensemble.rule, own, ensemble.super_learner)
            )
        self.known = [n > 0 for n in data.labels_per_view]
        self.log_prior = pseudo.log_prior
        self.folds = [left_out.scores for left_out in fit.learner.left_out]

    def take_rows(self, views: dict[str, Any]) -> dict[int, torch.Tensor]:
        """Standardized rows by number of the view."""
        tables = self.model_.rows(self._check(views, aligned=True))
        return {s: view.take(np.arange(view.n_rows)) for s, view in tables.items()}

    def predict_members(self, views: dict[str, Any], *, exact: bool) -> torch.Tensor:
        """Log-probabilities by all members, (n_members, n_rows, n_classes)."""
        Xs = self.take_rows(views)
        with torch.inference_mode():
            ensembles = self.exact if exact else [self.model_.ensemble]
            return torch.cat([ensemble.prepare()(Xs) for ensemble in ensembles])


def keep_scores(model: Recorded, task: Task, path: Path, where: dict[str, Any]) -> None:
    """Write the scores of all predictors of left-out rows and of the test rows."""
    arrays: dict[str, Any] = {"known": model.known, "log_prior": model.log_prior}
    arrays["classes"] = model.classes_
    if model.folds:
        rows = ScoresOutOfFold.concatenate(model.folds)
        arrays |= {f"fold.{name}": value for name, value in vars(rows).items()}
    for i, (views, y) in enumerate(task.tests.values()):
        Xs, ensemble = model.take_rows(views), model.model_.ensemble
        counts = ensemble.rule.count_views(ensemble.rule.find_present(Xs))
        Xs = {s: X.nan_to_num() for s, X in Xs.items()}
        shape = len(ensemble.networks), *counts.shape, 3, len(model.classes_)
        scores = np.zeros(shape, dtype=np.float32)
        predictors = ensemble.predictors
        with torch.inference_mode():
            for s, X in Xs.items():
                found = predictors.score_view(s, X, *ensemble.encoders(s)(X))
                for m, score in enumerate(found):
                    scores[:, :, s, m] = score.numpy()
            if predictors.joint is not None:
                arrays[f"test.{i}.joint"] = predictors.joint.predict(Xs).numpy().astype(np.float32)
        arrays[f"test.{i}.scores"] = scores
        arrays[f"test.{i}.present"], arrays[f"test.{i}.y"] = counts.numpy(), y
    arrays["where"] = json.dumps({**where, "cells": list(task.tests)})
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
