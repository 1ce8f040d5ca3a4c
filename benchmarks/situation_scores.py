"""Scores of all predictors of the default, kept so that ways to weigh them compare in seconds."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from situation_data import Task

from hotview import MultiViewClassifier
from hotview.estimators import fit as fit_module
from hotview.nn.batched import NetworkOutputs
from hotview.semisupervised import SemiSupervised, learner
from hotview.semisupervised.graph import refine_graph
from hotview.semisupervised.predictors import Predictors, ViewInputs
from hotview.semisupervised.soft_labels import label_fold
from hotview.semisupervised.super_learner import ScoresOutOfFold


class Recorded(MultiViewClassifier):
    """The classifier, with the scores of left-out rows that its weights were fitted to.

    Also with what it would be without condensed predictors: every member searches its neighbors
    among all rows, by components and its own features.

    Attributes
    ----------
    stages : tuple
        What the learner was fitted to.
    at_finish : float
        When the fit was finished, in processor seconds.
    seconds_last : float
        Processor seconds of the learner.
    """

    def fit(self, *given: Any, **more: Any) -> Recorded:
        """Fit, keep what the learner was fitted to, and measure its time."""
        learn, score = fit_module.learn, learner.score_left_out

        def keep(*stages: Any) -> SemiSupervised:
            began = time.process_time()
            found = learn(*stages)
            self.stages, self.seconds_last = stages, time.process_time() - began
            return found

        def keep_left_out(*stages: Any) -> Any:
            found = score(*stages)
            self.folds = [left_out.scores for left_out in found]
            return found

        with (
            patch.object(fit_module, "learn", keep),
            patch.object(learner, "score_left_out", keep_left_out),
        ):
            super().fit(*given, **more)
        self.at_finish = time.process_time()
        self._keep_exact()
        return self

    def _keep_exact(self) -> None:
        prepared, trained = self.stages
        data, graphs, pseudo = prepared.rows.data, prepared.graphs.graphs, prepared.pseudo
        by_view = zip(*(one.features for one in trained), strict=True)
        features = [np.mean([F for F, _ in of_view], axis=0) for of_view in by_view]
        refined = list(map(refine_graph, graphs, features))
        random = prepared.members[0].random.numpy("refined labels")
        nodes = label_fold(refined, data, data, pseudo.log_prior, pseudo.weights, random)
        self.exact = []
        for one, network in zip(trained, self.networks_, strict=True):
            own = Predictors.fit(graphs, nodes, data, pseudo.log_prior, [one.features])
            alone = replace(self.model_.learner, predictors=own)
            self.exact.append((alone, NetworkOutputs([network])))
        self.known = [n > 0 for n in data.labels_per_view]
        self.log_prior = pseudo.log_prior

    def take_rows(self, views: dict[str, Any]) -> dict[int, torch.Tensor]:
        """Standardized rows by number of the view."""
        tables = self.model_.rows(self._check(views, aligned=True))
        return {s: view.take(np.arange(view.n_rows)) for s, view in tables.items()}

    def predict_members(self, views: dict[str, Any], *, exact: bool) -> torch.Tensor:
        """Log-probabilities by all members, (n_members, n_rows, n_classes)."""
        Xs = self.take_rows(views)
        with torch.inference_mode():
            every = [(self.model_.learner, NetworkOutputs(self.networks_))]
            used = self.exact if exact else every
            return torch.cat([own.log_proba(Xs, outputs) for own, outputs in used])


def keep_scores(model: Recorded, task: Task, path: Path, where: dict[str, Any]) -> None:
    """Write the scores of all predictors of left-out rows and of the test rows."""
    arrays: dict[str, Any] = {"known": model.known, "log_prior": model.log_prior}
    arrays["classes"] = model.classes_
    if model.folds:
        rows = ScoresOutOfFold.concatenate(model.folds)
        arrays |= {f"fold.{name}": value for name, value in vars(rows).items()}
    for i, (views, y) in enumerate(task.tests.values()):
        Xs, own = model.take_rows(views), model.model_.learner
        present, outputs = own.rule.find_present(Xs), NetworkOutputs(model.networks_)
        counts = own.rule.count_views(present)
        rows = {s: ViewInputs.of(s, X.nan_to_num(), outputs) for s, X in Xs.items()}
        shape = len(model.networks_), *counts.shape, 3, len(model.classes_)
        scores = np.zeros(shape, dtype=np.float32)
        with torch.inference_mode():
            for s, of_view in rows.items():
                for m, one in enumerate(own.predictors.views[s].values()):
                    scores[:, :, s, m] = one.log_scores(of_view).numpy()
            for joint in own.predictors.joint.values():
                found = joint.log_scores(rows, present, outputs)
                arrays[f"test.{i}.joint"] = found.numpy().astype(np.float32)
        arrays[f"test.{i}.scores"] = scores
        arrays[f"test.{i}.present"], arrays[f"test.{i}.y"] = counts.numpy(), y
    arrays["where"] = json.dumps({**where, "cells": list(task.tests)})
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
