"""The demonstration: six views of digits, different rows in each, and which belong together."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.decomposition import PCA
from sklearn.preprocessing import StandardScaler

from hotview.datasets import load_handwritten, unalign
from hotview.ot import Plan, draw_directions, sinkhorn, sliced_cost
from hotview.report.figures import check_picture_path, new_figure, plot_matrix, save_figure
from hotview.report.tables import matrix_table

__all__ = ["compare_views", "reduce_view", "run_demo", "uneven_handwritten"]

_N_COMPONENTS = 6  # the smallest view has six columns
_N_DIRECTIONS = 60  # ten orthogonal bases
_ENTROPY = 0.1  # of the mean cost


def run_demo(figure: Path, random_state: int) -> None:
    """Print what the views are, their costs and their plan; save both as a heat map."""
    check_picture_path(figure)  # before the work, not after it
    console = Console()
    views = uneven_handwritten(random_state)
    console.print("Handwritten digits: six views, different rows in each, none aligned.")
    console.print(_views_table(views))
    plan = compare_views(views, random_state)
    names, C, W = list(views), _off_diagonal(plan.C), _off_diagonal(plan.W) * len(views)
    titles = "Sliced Wasserstein cost C", "Transport plan W, rows adding up to 1"
    console.print(
        matrix_table(C, names, names, title=titles[0], digits=4, highlight="min"),
        matrix_table(W, names, names, title=titles[1]),
    )
    for sentence in (_closest_and_farthest(C, names), _groups(plan, names)):
        console.print(sentence, soft_wrap=True)
    drawing, (left, right) = new_figure(2)
    plot_matrix(C, names, names, ax=left, title=titles[0], cmap="Oranges", digits=4)
    plot_matrix(W, names, names, ax=right, title=titles[1])
    console.print(f"Heat map saved to {save_figure(drawing, figure)}", soft_wrap=True)


def uneven_handwritten(random_state: int) -> dict[str, NDArray[np.float32]]:
    """Handwritten's training rows, shuffled in each view, and fewer of them from view to view."""
    data = load_handwritten()
    views = unalign(data.views, data.target, random_state=random_state).unaligned
    return {name: X[: len(X) - 100 * s] for s, (name, X) in enumerate(views.items())}


def reduce_view(X: NDArray[np.float32]) -> torch.Tensor:
    """Standardize the columns, keep the leading principal components, make the variance 1.

    A component's sign is arbitrary, and its distribution is not symmetric: each is turned so that
    its third moment is positive, or equal distributions would look different.
    """
    Z = PCA(_N_COMPONENTS, random_state=0).fit_transform(StandardScaler().fit_transform(X))
    Z = Z * np.where((Z**3).sum(axis=0) < 0, -1, 1)
    return torch.as_tensor(Z / np.sqrt((Z**2).sum(axis=1).mean()), dtype=torch.float32)


def compare_views(views: dict[str, NDArray[np.float32]], random_state: int) -> Plan:
    """Sliced cost between the reduced views, and the plan over it."""
    generator = torch.Generator().manual_seed(random_state)
    theta = draw_directions(_N_DIRECTIONS, _N_COMPONENTS, generator=generator)
    C = sliced_cost([reduce_view(X) for X in views.values()], directions=theta)
    diagonal = torch.eye(len(C), dtype=torch.bool)
    return sinkhorn(C, reg=_ENTROPY, relative=True, mask=diagonal)


def _views_table(views: dict[str, NDArray[np.float32]]) -> Table:
    table = Table("view")
    for heading in ("rows", "columns"):
        table.add_column(heading, justify="right")
    for name, X in views.items():
        table.add_row(name, *(str(n) for n in X.shape))
    return table


def _off_diagonal(matrix: torch.Tensor) -> NDArray[np.float64]:
    values = matrix.double().numpy().copy()
    np.fill_diagonal(values, np.nan)
    return values


def _closest_and_farthest(C: NDArray[np.float64], names: list[str]) -> str:
    i, j = np.unravel_index(np.nanargmin(C), C.shape)
    means = np.nanmean(C, axis=1)
    far = int(means.argmax())
    return (
        f"Most alike: {names[i]} and {names[j]} ({C[i, j]:.4f}). Farthest from the others: "
        f"{names[far]} ({means[far]:.4f} on average, {means[far] / np.median(means):.1f} times "
        "the median view)."
    )


def _groups(plan: Plan, names: list[str]) -> str:
    groups = plan.view_labels()
    if groups.n_groups == 1:
        return "The plan keeps all views in one group."
    members = (np.array(names)[groups.labels == k] for k in np.unique(groups.labels))
    return "Groups of views: " + "; ".join(", ".join(group) for group in members) + "."
