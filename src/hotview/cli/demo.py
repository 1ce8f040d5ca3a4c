"""``hotview demo`` and sample tables: views of digits, few rows linked and labeled, most not."""

from __future__ import annotations

import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.utils import Bunch

from hotview._files import atomic_write
from hotview._types import Array, IntArray
from hotview.cli.inspect import similarity_table
from hotview.cli.output_files import make_folder, write_table
from hotview.cli.runner import print_table
from hotview.datasets import load_handwritten, unalign
from hotview.estimators import MultiViewClassifier
from hotview.evaluation import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.evaluation.record import describe_views
from hotview.persistence import check_model_path, save_model
from hotview.report.figures import check_picture_path, new_figure, plot_matrix, save_figure
from hotview.report.tables import matrix_table

__all__ = [
    "SAMPLE_HOLDER",
    "SAMPLE_NAMES",
    "Comparison",
    "compare",
    "load_digits",
    "run_demo",
    "write_sample_federation",
    "write_sample_files",
]

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


@dataclass(frozen=True)
class Comparison:
    """Accuracies of all methods, and the default classifier.

    Parameters
    ----------
    accuracies : dict of str to float
        Accuracy of each method on the test rows.
    seconds : dict of str to float
        Time of each method's fit.
    classifier : MultiViewClassifier
        The default one, fitted.
    """

    accuracies: dict[str, float]
    seconds: dict[str, float]
    classifier: MultiViewClassifier


def run_demo(figure: Path, model: Path, random_state: int) -> None:
    """Fit all methods, print their accuracies and the plan, save model and figure."""
    check_picture_path(figure)  # before the work, not after it
    check_model_path(model)
    console = Console(soft_wrap=True)
    data = load_digits(random_state)
    console.print(
        f"Handwritten digits: six views, {len(data.target)} individuals linked and labeled, the "
        "other training rows shuffled in every view and without labels."
    )
    views = [(n, X.shape[1], len(X), len(data.unaligned[n])) for n, X in data.linked.items()]
    print_table(console, ("view", "columns", "linked rows", "unlinked rows"), views)
    comparison = compare(data, random_state, verbose=console.is_terminal)
    accuracies = [
        (name, f"{accuracy:.1%}", f"{comparison.seconds[name]:.1f}")
        for name, accuracy in comparison.accuracies.items()
    ]
    title = f"Accuracy on {len(data.test_target)} test rows"
    print_table(console, ("method", "accuracy", "seconds"), accuracies, title=title)
    names, classifier = list(data.linked), comparison.classifier
    plan, similarity = classifier.plan_, classifier.view_similarity_
    assert plan is not None  # the default couples the views
    assert plan.std is not None  # and has several networks
    assert similarity is not None  # and 60 rows are linked
    console.print(similarity_table(similarity, names), soft_wrap=False)
    for sentence in describe_views(classifier):
        console.print(sentence)
    columns = [f"reference {k + 1}" for k in range(plan.W.shape[1])]
    W, title = plan.W * len(names), "The paper's plan W, rows adding up to 1"
    console.print(matrix_table(W, names, columns, title=title), soft_wrap=False)
    save_model(classifier, model)
    console.print(f"Model saved to {model}")
    drawing, (left, right) = new_figure(2)
    values = np.where(np.eye(len(names), dtype=bool), np.nan, similarity.value)
    linked = f"Similarity of views by {len(data.target)} linked rows"
    plot_matrix(values, names, names, ax=left, title=linked, cmap="Oranges", digits=2, largest=1.0)
    plot_matrix(W, names, columns, ax=right, title=title, std=plan.std * len(names), digits=2)
    for ax in (left, right):
        ax.set_aspect("auto")  # a few references have wide cells
    console.print(f"Heat maps saved to {save_figure(drawing, figure)}")


def load_digits(random_state: int) -> Bunch:
    """Return the digits, split as in the paper: 60 rows linked and labeled, the rest not."""
    digits = load_handwritten()
    return unalign(digits.views, digits.target, random_state=random_state)


def compare(data: Bunch, random_state: int, *, verbose: bool = False) -> Comparison:
    """Fit the baselines, the control without coupling and the default classifier."""
    settings: dict[str, Any] = {"random_state": random_state, "verbose": verbose}
    methods: dict[str, Any] = {
        "logistic regression on the linked rows": ConcatenatedLogisticRegression(),
        "PCA in each view + logistic regression": PCALogisticRegression(),
        "label propagation in each view": PerViewLabelPropagation(),
        'hotview, coupling="none"': MultiViewClassifier(coupling="none", **settings),
        "hotview, default": (classifier := MultiViewClassifier(**settings)),
    }
    accuracies, seconds = {}, {}
    for name, method in methods.items():
        start = time.perf_counter()
        method.fit(data.linked, data.target, unaligned=data.unaligned)
        seconds[name] = time.perf_counter() - start
        accuracies[name] = float(method.score(data.test, data.test_target))
    return Comparison(accuracies, seconds, classifier)


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
        texts = {
            home.parent / f"{name}.toml": config,
            home / "linked.txt": "".join(f"{key}\n" for key in ids[linked]),
        }
        for path, text in texts.items():
            with atomic_write(path) as draft:
                draft.write_text(text, encoding="utf-8")
        written += [
            *texts,
            write_table(table, home / f"{name}.csv"),
            write_table(_columns(name, ids[new], digits.views[name][new]), home / "new.csv"),
        ]
    truth = {"id": ids[new], "digit": digits.target[new]}
    return [*written, write_table(truth, folder / "new-labels.csv")]
