"""Plans between permuted views, to compare the plan between the views themselves with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import eigh
from torch import Tensor

from hotview._types import Array
from hotview.losses import Planner
from hotview.ot import draw_directions, sliced_cost
from hotview.training.pca import align_signs
from hotview.training.rows import ViewRows
from hotview.training.threads import one_thread
from hotview.training.view_plan import ViewPlan

__all__ = ["PermutationNull", "draw_null"]

_DRAWS = 19  # the smallest p-value is 1 / (1 + this)
_ROWS, _COLUMNS = 500, 128  # maximum size of a view
_BASES = 5  # orthogonal bases of directions
_ROUNDING = 1e-5  # of a relative cost


@dataclass(frozen=True)
class PermutationNull:
    """The plan over untrained views, and plans over permuted views for comparison.

    Trained encoders can match anything with anything, so that small costs and a clear plan after
    training are no evidence that views belong together. Here every view is only projected on its
    principal components, with aligned signs. A permutation first shuffles each column of each
    table independently: columns keep their values, but rows are no individuals any more and views
    share nothing. Where all views are equally similar, no plan stands out: the p-value says
    whether some views are closer than others, not whether all are close.

    Parameters
    ----------
    plan : ViewPlan
        Plan and costs between the views themselves.
    W : ndarray of shape (draws, S, S)
        Plans between permuted views.
    C : ndarray of shape (draws, S, S)
        Costs between permuted views.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(300, n_views=4, n_groups=2, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, standardize=False, random_state=0).fit(views)
    >>> encoder.plan_.null.p_value
    0.05
    """

    plan: ViewPlan
    W: Array
    C: Array

    @property
    def relative_cost(self) -> float:
        """Transport cost ⟨W, C⟩ over that of a uniform plan.

        It is 1 where no two views are closer than any others, and 0 where every view has another
        that it equals.
        """
        return float(_relative_cost(self.plan.W, self.plan.C))

    @property
    def relative_costs(self) -> Array:
        """`relative_cost` of every permutation."""
        return _relative_cost(self.W, self.C)

    @property
    def p_value(self) -> float:
        """Fraction of permutations, the views themselves included, with as low a cost."""
        # With three views or fewer every plan costs the same, but for rounding.
        n_lower = int((self.relative_costs <= self.relative_cost + _ROUNDING).sum())
        return (1 + n_lower) / (1 + len(self.W))


def _relative_cost(W: Array, C: Array) -> Array:
    S = C.shape[-1]
    uniform = C.sum(axis=(-2, -1)) / (S * (S - 1))  # the diagonal is 0
    cost: Array = (W * C).sum(axis=(-2, -1)) / np.maximum(uniform, np.finfo(C.dtype).tiny)
    return cost


def draw_null(
    views: Sequence[ViewRows],
    n_components: int,
    planner: Planner,
    random: np.random.Generator,
    generator: torch.Generator,
) -> PermutationNull:
    """Compute plans between the principal components of views and of permuted views.

    Parameters
    ----------
    views : sequence of ViewRows
        The views; of each, a random sample of at most 500 rows and 128 columns is used.
    n_components : int
        Number of principal components.
    planner : Planner
        Solver of the plan; β is relative to the mean cost here.
    random : numpy Generator
        Source of the sample and of the permutations.
    generator : torch.Generator
        Source of the directions.

    Returns
    -------
    PermutationNull
        The views, and 19 permutations.
    """
    Xs: list[Array] = []
    for view in views:
        rows = random.permutation(len(view))[:_ROWS]
        columns = np.sort(random.permutation(view.n_columns)[:_COLUMNS])
        X = view.take_on_all_ranks(rows).cpu().numpy()
        Xs.append(X[:, columns].astype(np.float64))
    theta = draw_directions(_BASES * n_components, n_components, generator=generator)

    def cost(tables: list[Array]) -> Tensor:
        Ys = [_components(X, n_components) for X in tables]
        signs = align_signs(Ys)
        Zs = [torch.from_numpy(Y * sign).float() for Y, sign in zip(Ys, signs, strict=True)]
        return sliced_cost(Zs, directions=theta)

    relative = replace(planner, relative=True)
    with one_thread():  # of hundreds of operations none is worth a second
        doubled = [np.ascontiguousarray(np.concatenate([X, X]).T) for X in Xs]
        permuted = ([_shuffle_columns(XX, random) for XX in doubled] for _ in range(_DRAWS))
        costs = torch.stack([cost(tables) for tables in permuted])
        plans = relative.solve(costs, pairwise=True)
        plan = ViewPlan.of(relative.solve(cost(Xs), pairwise=True))
    return PermutationNull(plan, plans.W.numpy(), plans.C.numpy())


def _components(X: Array, n: int) -> Array:
    """Return leading principal components of total variance 1; zeros where there are none."""
    centered = X - X.mean(axis=0)
    D = X.shape[1]
    _, V = eigh(centered.T @ centered, subset_by_index=(max(0, D - n), D - 1))
    Y = centered @ V[:, ::-1]
    Y = np.pad(Y, ((0, 0), (0, n - Y.shape[1])))
    std = np.sqrt((Y**2).sum(axis=1).mean())
    return np.asarray(Y / std) if std > 0 else Y


def _shuffle_columns(doubled: Array, random: np.random.Generator) -> Array:
    """Rotate each column by a random number of rows, which are in random order already.

    Columns are the rows of `doubled`, each repeated once: then a rotation is a contiguous copy.
    """
    D, n = doubled.shape[0], doubled.shape[1] // 2
    pieces = sliding_window_view(doubled, n, axis=1)
    rotated: Array = pieces[np.arange(D), random.integers(n, size=D)].T
    return rotated
