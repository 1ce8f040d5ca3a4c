"""Result files made by hand: every cell of the catalog, with scores and plans drawn at random."""

import copy
import itertools
import json

import numpy as np
import pytest
from scipy import stats

from paper.catalog import EXPERIMENTS, VIEWS
from paper.models import TRAINED
from paper.report.load_results import read_results
from paper.report.results import Results

TRIALS = 5
LABELS = {
    "handwritten": "Handwritten",
    "caltech7": "Caltech7 (re-extracted)",
    "caltech20": "Caltech20 (re-extracted)",
    "msrc": "MSRC-v1",
    "synthetic": "Synthetic",
}
KINDS = {
    "unsupervised": ["standardized", "unpenalized", "labels_20", "all_labels"],
    "semi-supervised": ["linear"],
}
NAMES = {**VIEWS, "caltech20": VIEWS["caltech7"], "msrc": tuple("abcde"), "synthetic": "abcdef"}
USUAL = {"without": None, "overrides": {}, "split": None}


def random_plan(cell, rng):
    """Rows of equal sums, as of HOT (10) or HOT (11)."""
    S = len(NAMES[cell.dataset])
    pairwise = TRAINED[cell.method].coupling == "hot-pairwise"
    W = rng.dirichlet(np.full(S if pairwise else 3, 0.3), size=S)
    if pairwise:
        W = (W + W.T) * (1 - np.eye(S))
    return (W / W.sum(1, keepdims=True) / S).round(4).tolist()


def entry_of(cell, rng, keeps_plans):
    def draw():
        return rng.uniform(0.8, 0.95, TRIALS).round(4).tolist()

    kinds = ["test", "validation"]
    if not cell.is_control:
        kinds += KINDS[cell.task]
    entry = {"cell": cell.to_json(), "scores": {kind: draw() for kind in kinds}, "seconds": 0.5}
    if not cell.is_control and cell.method.startswith("HOT") and keeps_plans:
        Ws = [random_plan(cell, rng) for _ in range(TRIALS)]
        mean, std = np.mean(Ws, axis=0).tolist(), np.std(Ws, axis=0).tolist()
        entry |= {"W": mean, "W_std": std, "Ws": Ws}
    return entry


def about(dataset):
    columns = {name: 10 + s for s, name in enumerate(NAMES[dataset])}
    found = {"label": LABELS[dataset], "rows": 2000, "views": columns, "classes": 10}
    return {**found, "groups": [0, 0, 1, 1, 2, 2]} if dataset == "synthetic" else found


def make_summary(name):
    """What `paper.summary` would write."""
    rng = np.random.default_rng([0, *name.encode()])
    experiment = EXPERIMENTS[name]
    kept = [dataset for dataset in experiment.datasets if dataset in LABELS]
    entries = [entry_of(cell, rng, experiment.keeps_plans) for cell in experiment.cells(kept)]
    return {
        "format": 1,
        "experiment": name,
        "title": experiment.title,
        "trials": TRIALS,
        "datasets": {d: about(d) for d in kept},
        "versions": {"hotview": "0.1", "python": "3.11.7"},
        "devices": ["Some processor, 2 cores"],
        "trainings": len(entries) * TRIALS,
        "seconds_of_training": 100.0,
        "cells": entries,
    }


def write_results(folder, summaries):
    folder.mkdir(parents=True)
    for name, summary in summaries.items():
        (folder / f"{name}.json").write_text(json.dumps(summary))
    return folder


@pytest.fixture(scope="session")
def made():
    """All result files as objects, by name; not to be changed."""
    return {name: make_summary(name) for name in EXPERIMENTS}


class Copied(dict):
    """Result files to change: each is copied when it is first asked for."""

    def __init__(self, made):
        super().__init__(made)
        self.copied = set()

    def __getitem__(self, name):
        if name not in self.copied:
            self.copied.add(name)
            self[name] = copy.deepcopy(super().__getitem__(name))
        return super().__getitem__(name)


@pytest.fixture
def summaries(made):
    """The same, to change."""
    return Copied(made)


@pytest.fixture
def read(results, tmp_path):
    """Reads summaries back as the page does; those that nobody has changed were read before."""
    numbers = itertools.count()

    def reread(summaries):
        changed = {name: summaries[name] for name in summaries.copied if name in summaries}
        folder = write_results(tmp_path / str(next(numbers)) / "paper", changed)
        outcomes = {**results.outcomes, **read_results(folder).outcomes}
        return Results({name: outcomes[name] for name in summaries})

    return reread


@pytest.fixture(scope="session")
def made_folder(made, tmp_path_factory):
    """All result files; not to be changed."""
    return write_results(tmp_path_factory.mktemp("all") / "paper", made)


@pytest.fixture(scope="session")
def results(made_folder):
    """All results, read back."""
    return read_results(made_folder)


def entries_of(summary, **wanted):
    """Entries of a file whose cells have the values wanted; what a file leaves out is usual."""
    cells = [({**USUAL, **entry["cell"]}, entry) for entry in summary["cells"]]
    return [e for cell, e in cells if all(cell[key] == v for key, v in wanted.items())]


@pytest.fixture(scope="session")
def scores(made):
    """Test scores in percent of an experiment's cell, straight from what was made."""

    def scores_of(name, **wanted):
        (entry,) = entries_of(made[name], **{**USUAL, **wanted})
        return 100 * np.array(entry["scores"]["test"])

    return scores_of


@pytest.fixture(scope="session")
def change():
    """Sets the scores (in percent) of an experiment's cells that have the values wanted."""

    def change_scores(summary, values, **wanted):
        found = entries_of(summary, **wanted)
        assert found
        for entry in found:
            entry["scores"]["test"] = [None if x is None else x / 100 for x in values]

    return change_scores


@pytest.fixture
def interval_of():
    """The interval of a paired difference over splits of the same rows, from scipy's plain one."""

    def interval(ours, control):
        low, high = stats.ttest_rel(ours, control).confidence_interval(0.95)
        mean, n = (low + high) / 2, len(ours)
        wider = (high - low) / 2 * np.sqrt((1 / n + 1 / 3) * n)
        return mean - wider, mean + wider

    return interval
