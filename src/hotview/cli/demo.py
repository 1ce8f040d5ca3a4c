"""The demonstration: six views of digits, few rows linked and labeled, most of them not."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.utils import Bunch

from hotview.datasets import load_handwritten, unalign
from hotview.estimators import MultiViewClassifier
from hotview.evaluation import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)
from hotview.persistence import check_model_path, save_model
from hotview.report.figures import check_picture_path, new_figure, plot_matrix, save_figure
from hotview.report.tables import matrix_table
from hotview.training.permutation_null import PermutationNull

__all__ = [
    "Contest",
    "compare",
    "describe_farthest",
    "describe_groups",
    "describe_null",
    "load_digits",
    "run_demo",
]


@dataclass(frozen=True)
class Contest:
    """What every method reached, and the classifier that is shown.

    Parameters
    ----------
    accuracies : dict of str to float
        Share of test rows that each method classifies correctly.
    seconds : dict of str to float
        How long each took to fit.
    classifier : MultiViewClassifier
        The default one, fitted.
    """

    accuracies: dict[str, float]
    seconds: dict[str, float]
    classifier: MultiViewClassifier


def run_demo(figure: Path, model: Path, random_state: int) -> None:
    """Fit all methods, print how they compare and what the plan says, save model and figure."""
    check_picture_path(figure)  # before the work, not after it
    check_model_path(model)
    console = Console()
    data = load_digits(random_state)
    console.print(
        f"Handwritten digits: six views, {len(data.target)} individuals linked and labeled, the "
        f"other training rows shuffled in every view and without labels.",
        soft_wrap=True,
    )
    console.print(_views_table(data))
    contest = compare(data, random_state, verbose=console.is_terminal)
    console.print(_accuracy_table(contest, len(data.test_target)))
    plan = contest.classifier.plan_
    assert plan is not None  # the default couples the views
    assert plan.null is not None  # and `fit` draws a null
    names = list(data.linked)
    columns = [f"group {k}" for k in range(plan.W.shape[1])]
    W = plan.W * len(names)
    title = "Transport plan W, rows adding up to 1"
    console.print(matrix_table(W, names, columns, title=title))
    for sentence in (
        describe_groups(contest.classifier),
        describe_farthest(plan.null, names),
        describe_null(plan.null),
    ):
        console.print(sentence, soft_wrap=True)
    save_model(contest.classifier, model)
    console.print(f"Model saved to {model}", soft_wrap=True)
    drawing, (left, right) = new_figure(2)
    costs = plan.null.plan.C.astype(np.float64)
    np.fill_diagonal(costs, np.nan)
    before = "Sliced Wasserstein cost C before training"
    plot_matrix(costs, names, names, ax=left, title=before, cmap="Oranges", digits=4)
    plot_matrix(W, names, columns, ax=right, title=title)
    console.print(f"Heat maps saved to {save_figure(drawing, figure)}", soft_wrap=True)


def load_digits(random_state: int) -> Bunch:
    """The digits, taken apart as in the paper: 60 rows linked and labeled, the rest not."""
    digits = load_handwritten()
    return unalign(digits.views, digits.target, random_state=random_state)


def compare(data: Bunch, random_state: int, *, verbose: bool = False) -> Contest:
    """Fit the plain baselines, the control without coupling and the default classifier."""
    ours: dict[str, Any] = {"random_state": random_state, "verbose": verbose}
    methods: dict[str, Any] = {
        "logistic regression on the linked rows": ConcatenatedLogisticRegression(),
        "PCA in each view + logistic regression": PCALogisticRegression(),
        "label propagation in each view": PerViewLabelPropagation(),
        'hotview, coupling="none"': MultiViewClassifier(coupling="none", **ours),
        "hotview, default": (classifier := MultiViewClassifier(**ours)),
    }
    accuracies, seconds = {}, {}
    for name, method in methods.items():
        start = time.perf_counter()
        method.fit(data.linked, data.target, unaligned=data.unaligned)
        seconds[name] = time.perf_counter() - start
        accuracies[name] = float(method.score(data.test, data.test_target))
    return Contest(accuracies, seconds, classifier)


def describe_groups(classifier: MultiViewClassifier) -> str:
    """Which views the plan puts together, in a sentence."""
    names, labels = np.array(classifier.view_names_), classifier.view_labels_
    assert labels is not None  # the default couples the views
    groups = [", ".join(names[labels == k]) for k in np.unique(labels)]
    return "Groups of views: " + "; ".join(groups) + "."


def describe_farthest(null: PermutationNull, names: list[str]) -> str:
    """Which view is least like the others before training, in a sentence."""
    means = null.plan.C.sum(1) / (len(names) - 1)
    far = int(means.argmax())
    ratio = float(means[far] / np.quantile(means, 0.5, method="lower"))
    return (
        f"Farthest from the others before training: {names[far]}, {ratio:.1f} times the cost of "
        "the median view. (A plan fills all groups alike, so that even such a view gets company.)"
    )


def describe_null(null: PermutationNull) -> str:
    """Whether the views, before training, are more alike in groups than noise is."""
    return (
        f"Before training, the views' best plan costs {null.relative_cost:.2f} of one that treats "
        f"all views alike; noise: {float(null.relative_costs.mean()):.2f} ± "
        f"{float(null.relative_costs.std()):.2f} (p = {null.p_value:.2f}). "
        + (
            "Some views are closer than others."
            if null.p_value <= 0.05
            else "So the groups may be chance."
        )
    )


def _views_table(data: Bunch) -> Table:
    table = Table("view")
    for heading in ("columns", "linked rows", "unaligned rows"):
        table.add_column(heading, justify="right")
    for name, X in data.linked.items():
        table.add_row(name, *(str(n) for n in (X.shape[1], len(X), len(data.unaligned[name]))))
    return table


def _accuracy_table(contest: Contest, n_test: int) -> Table:
    table = Table(
        "method", title=f"Accuracy on {n_test} test rows", title_justify="left", title_style="bold"
    )
    table.add_column("accuracy", justify="right")
    table.add_column("seconds", justify="right")
    best = max(contest.accuracies.values())
    for name, accuracy in contest.accuracies.items():
        style = "bold" if accuracy == best else ""
        table.add_row(name, f"{accuracy:.1%}", f"{contest.seconds[name]:.1f}", style=style)
    return table
