"""Scores of all predictors of the default, kept so that ways to weigh them compare in seconds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import torch
from situation_data import Task

from hotview import MultiViewClassifier
from hotview.semisupervised.super_learner import ScoresOutOfFold


class Recorded(MultiViewClassifier):
    """The classifier, with the scores of left-out rows that its weights were fitted to."""

    def _set_fitted(self, fit: Any, start: float) -> None:
        super()._set_fitted(fit, start)
        labels = fit.shared.view_labels(fit.inputs.labels)
        self.known = [n > 0 for n in labels.n_classes]
        self.log_prior = labels.log_prior
        self.folds = [m.out_of_fold for m in fit.members if m.out_of_fold is not None]


def keep_scores(model: Recorded, task: Task, path: Path, where: dict[str, Any]) -> None:
    """Write the scores of all predictors of left-out rows and of the test rows."""
    arrays: dict[str, Any] = {"known": model.known, "log_prior": model.log_prior}
    arrays["classes"] = model.classes_
    if model.folds:
        rows = ScoresOutOfFold.concatenate(model.folds)
        arrays |= {f"fold.{name}": value for name, value in vars(rows).items()}
    for i, (views, y) in enumerate(task.tests.values()):
        tables = model._rows(model._check(views, aligned=True))
        Xs = {s: view.take(np.arange(len(y))) for s, view in tables.items()}
        with torch.inference_mode():
            each = [member.score(Xs) for member in model._members]
        arrays[f"test.{i}.scores"] = np.stack([x[0].numpy() for x in each]).astype(np.float32)
        if each[0][1] is not None:
            joint = np.stack([x[1].numpy() for x in each])
            arrays[f"test.{i}.joint"] = joint.astype(np.float32)
        arrays[f"test.{i}.present"], arrays[f"test.{i}.y"] = each[0][2].numpy(), y
    arrays["where"] = json.dumps({**where, "cells": list(task.tests)})
    path.parent.mkdir(parents=True, exist_ok=True)
    np.savez(path, **arrays)
