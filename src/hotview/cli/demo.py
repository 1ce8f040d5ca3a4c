"""``hotview demo`` and sample tables: views of digits, few rows linked and labeled, most not."""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import Bunch

from hotview._types import Array, IntArray
from hotview.cli.inspect import PLAN_TITLE, similarity_table
from hotview.cli.runner import make_folder, make_table, print_parts, write_table, write_text
from hotview.datasets import load_handwritten, unalign
from hotview.estimators import MultiViewClassifier
from hotview.evaluation import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.record import describe_views
from hotview.model import save_model
from hotview.report.figures import new_figure, plot_matrix, save_figure
from hotview.report.tables import matrix_table
from hotview.report.view_data import plan_matrix

_KEPT = 0.7  # fraction of the unlinked rows that each view has
_PRESENT = 0.9  # fraction of the new individuals that each view has

#: organizations of the sample, which are views of the digits, and the one that has the labels
SAMPLE_NAMES, SAMPLE_HOLDER = ("fou", "kar", "mor"), "fou"
_N_NEW, _N_LINKED = 400, 200
_SAMPLE_CONFIG = """\
# Configuration of {name}. This file, and all files that it names, stay with {name}.
# Paths are relative to this file.
name = "{name}"
file = "{name}/{name}.csv"
folder = "{name}"  # its state and, in the end, its partial model: part.hotview
id_column = "id"
linked = "{name}/linked.txt"  # ids that all have in common, in the same order everywhere
"""


def run_demo(figure: Path, model: Path, random_state: int) -> None:
    """Fit all methods, print their accuracies and the plan, save model and figure."""
    data = load_digits(random_state)
    n_linked, names = len(data.target), list(data.linked)
    views = [(n, X.shape[1], len(X), len(data.unaligned[n])) for n, X in data.linked.items()]
    print_parts(
        f"Handwritten digits: six views, {n_linked} individuals linked and labeled, the other "
        "training rows shuffled in every view and without labels.",
        make_table(("view", "columns", "linked rows", "unlinked rows"), views),
    )
    settings: dict[str, Any] = {"random_state": random_state, "verbose": sys.stdout.isatty()}
    classifier = MultiViewClassifier(**settings)
    methods: dict[str, Any] = {
        "logistic regression on the linked rows": ConcatenatedLogisticRegression(),
        "PCA in each view + logistic regression": PCALogisticRegression(),
        "label propagation in each view": PerViewLabelPropagation(),
        'hotview, coupling="none"': MultiViewClassifier(coupling="none", **settings),
        "hotview, default": classifier,
    }
    rows = []
    for name, method in methods.items():
        start = time.perf_counter()
        method.fit(data.linked, data.target, unaligned=data.unaligned)
        seconds = time.perf_counter() - start
        rows.append((name, f"{method.score(data.test, data.test_target):.1%}", f"{seconds:.1f}"))
    similarity, plan = (
        classifier.view_similarity_,
        plan_matrix(classifier, shares=True),
    )
    assert similarity is not None  # 60 rows are linked
    print_parts(
        make_table(
            ("method", "accuracy", "seconds"),
            rows,
            title=f"Accuracy on {len(data.test_target)} test rows",
        ),
        similarity_table(similarity, names),
        *describe_views(classifier),
        matrix_table(plan.values, plan.rows, plan.columns, title=PLAN_TITLE),
        f"Model saved to {save_model(classifier, model)}",
    )
    drawing, (left, right) = new_figure(2)
    values = np.where(np.eye(len(names), dtype=bool), np.nan, similarity.value)
    linked = f"Similarity of views by {n_linked} linked rows"
    plot_matrix(values, names, names, ax=left, title=linked, cmap="Oranges", digits=2, largest=1.0)
    plot_matrix(
        plan.values, names, plan.columns, ax=right, title=PLAN_TITLE, std=plan.std, digits=2
    )
    for ax in (left, right):
        ax.set_aspect("auto")  # a few references have wide cells
    print_parts(f"Heat maps saved to {save_figure(drawing, figure)}")


def load_digits(random_state: int) -> Bunch:
    """Return the digits, split as in the paper: 60 rows linked and labeled, the rest not."""
    digits = load_handwritten()
    return unalign(digits.views, digits.target, random_state=random_state)


def write_sample_files(folder: Path, random_state: int, *, force: bool = False) -> list[Path]:
    """Write tables to try the command line on.

    Every view has rows of its own in its own order. 60 individuals are in all views, under one id,
    and have a label; all other rows have ids that occur in one view only. New individuals, with
    labels to evaluate on, are absent from some views.

    Parameters
    ----------
    folder : Path
        Where to write; made if it does not exist.
    random_state : int
        Seed of the split.
    force : bool, default=False
        Whether files may be replaced.

    Returns
    -------
    list of Path
        The files: a table per view in ``views`` and ``new``, and the labels of both.
    """
    data = load_digits(random_state)
    rng = np.random.default_rng(random_state)
    names = [f"{name}.csv" for name in data.linked]
    labels, new_labels = make_folder(folder, ["labels.csv", "new-labels.csv"], force=force)
    views = make_folder(folder / "views", names, force=force)
    new = make_folder(folder / "new", names, force=force)
    linked_ids = _ids("person", len(data.target))
    new_ids = _ids("new", len(data.test_target))
    for name, path, new_path in zip(data.linked, views, new, strict=True):
        kept = _sample(len(data.unaligned[name]), _KEPT, rng)
        X = np.vstack([data.linked[name], data.unaligned[name][kept]])
        ids = np.concatenate([linked_ids, _ids(name, len(kept))])
        order = rng.permutation(len(X))
        write_table(_columns(name, ids[order], X[order]), path)
        rows = _sample(len(new_ids), _PRESENT, rng)
        write_table(_columns(name, new_ids[rows], data.test[name][rows]), new_path)
    write_table({"id": linked_ids, "digit": data.target}, labels)
    write_table({"id": new_ids, "digit": data.test_target}, new_labels)
    return [*views, labels, *new, new_labels]


def _ids(prefix: str, n: int) -> Array:
    return np.array([f"{prefix}-{i:04d}" for i in range(1, n + 1)])


def _sample(n: int, fraction: float, rng: np.random.Generator) -> IntArray:
    return np.sort(rng.permutation(n)[: round(fraction * n)])


def _columns(name: str, ids: Array, X: Array) -> dict[str, Array]:
    """Return the columns of a view's table."""
    return {"id": ids, **{f"{name}_{j}": X[:, j] for j in range(X.shape[1])}}


def write_sample_federation(folder: Path, random_state: int) -> list[Path]:
    """Write an app whose organizations have tables of digits, completely or not at all.

    200 individuals are linked: all three organizations have a row of them. 1,400 others are in one
    table each. One organization has labels. 400 more individuals are for evaluation.

    Parameters
    ----------
    folder : Path
        The folder to write; it must be empty or absent.
    random_state : int
        Seed of the sample and of the training.

    Returns
    -------
    list of Path
        Files of the organizations, and the labels for evaluation.
    """
    from hotview.federated import Settings
    from hotview.federated.configuration import write_app

    settings = Settings(label_holder=SAMPLE_HOLDER, random_state=random_state)
    app = write_app(folder, SAMPLE_NAMES, settings)
    try:
        return _write_sample_tables(app, random_state)
    except BaseException:  # including Ctrl-C; the folder held nothing else
        shutil.rmtree(app, ignore_errors=True)
        raise


def _write_sample_tables(folder: Path, random_state: int) -> list[Path]:
    digits = load_handwritten()
    random = np.random.default_rng(random_state)
    order = random.permutation(len(digits.target))
    new, linked, others = np.split(order, [_N_NEW, _N_NEW + _N_LINKED])
    # The digits are sorted: ids in order would reveal the labels.
    ids = np.array([f"person-{i:04d}" for i in 1 + random.permutation(len(order))])

    written = []
    for name, own in zip(SAMPLE_NAMES, np.array_split(others, len(SAMPLE_NAMES)), strict=True):
        home = folder / "organizations" / name
        home.mkdir()
        rows = random.permutation(np.concatenate([linked, own]))
        table = _columns(name, ids[rows], digits.views[name][rows])
        config = _SAMPLE_CONFIG.format(name=name)
        if name == SAMPLE_HOLDER:
            table["digit"] = digits.target[rows]
            config += 'label_column = "digit"\n'
        written += [
            write_text(config, home.parent / f"{name}.toml"),
            write_text("".join(f"{key}\n" for key in ids[linked]), home / "linked.txt"),
            write_table(table, home / f"{name}.csv"),
            write_table(_columns(name, ids[new], digits.views[name][new]), home / "new.csv"),
        ]
    truth = {"id": ids[new], "digit": digits.target[new]}
    return [*written, write_table(truth, folder / "new-labels.csv")]
