"""What plans and costs look like when views have nothing in common."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.lib.stride_tricks import sliding_window_view
from scipy.linalg import eigh
from torch import Tensor

from hotview._types import Array
from hotview.losses import Planner
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training.pca import agree_on_signs
from hotview.training.rows import ViewRows
from hotview.training.threads import one_thread

__all__ = ["Null", "draw_null"]

_DRAWS = 19  # the smallest p-value is 1 / (1 + this)
_ROWS, _COLUMNS = 500, 128  # of every view that are looked at
_BASES = 5  # orthogonal bases of directions
_ROUNDING = 1e-5  # of a relative cost


@dataclass(frozen=True)
class Null:
    """The views before any training, beside noise that went through the same steps.

    Trained encoders can match anything with anything, so small costs and a clear plan after
    training are no evidence that views belong together. Here every view is only turned to its
    principal components, with signs on which the views agree. A draw of noise shuffles each column
    of each table on its own first: columns keep their values, but rows are no individuals any more
    and views share nothing. Where all views are equally alike, no plan stands out: the p-value
    tells whether some views are closer than others, not whether all are close.

    Parameters
    ----------
    plan : Plan
        Plan and costs between the views themselves.
    W : Tensor of shape (draws, S, S)
        Plans of noise.
    C : Tensor of shape (draws, S, S)
        Costs of noise.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> views = make_views(300, n_views=4, n_groups=2, random_state=0).views
    >>> encoder = MultiViewEncoder(max_epochs=1, standardize=False, random_state=0).fit(views)
    >>> encoder.plan_.null.p_value
    0.05
    """

    plan: Plan
    W: Tensor
    C: Tensor

    @property
    def relative_cost(self) -> float:
        """Cost that the plan pays, ⟨W, C⟩, over that of a plan that treats all views alike.

        It is 1 where no two views are closer than any others, and 0 where every view has another
        that it equals.
        """
        return float(_relative_cost(self.plan.W, self.plan.C))

    @property
    def relative_costs(self) -> Tensor:
        """The same for every draw of noise."""
        return _relative_cost(self.W, self.C)

    @property
    def p_value(self) -> float:
        """Share of the draws, the views themselves counted, that cost relatively as little."""
        # With three views or fewer every plan costs the same, but for rounding.
        n_lower = int((self.relative_costs <= self.relative_cost + _ROUNDING).sum())
        return (1 + n_lower) / (1 + len(self.W))


def draw_null(
    views: Sequence[ViewRows],
    n_components: int,
    planner: Planner,
    random: np.random.Generator,
    generator: torch.Generator,
) -> Null:
    """Compare views by their principal components, and noise in the same way.

    Parameters
    ----------
    views : sequence of ViewRows
        The views; of each, 500 rows and 128 columns at most are looked at, drawn at random.
    n_components : int
        Principal components that are compared.
    planner : Planner
        How a plan is found from costs.
    random : numpy Generator
        Which rows and columns, and how they are shuffled.
    generator : torch.Generator
        Source of the directions.

    Returns
    -------
    Null
        The views, and 19 draws of noise.
    """
    Xs = [_sample(view, random) for view in views]
    theta = draw_directions(_BASES * n_components, n_components, generator=generator)

    def cost(tables: list[Array]) -> Tensor:
        Ys = [_components(X, n_components) for X in tables]
        signs = agree_on_signs(Ys)
        Zs = [torch.from_numpy(Y * sign).float() for Y, sign in zip(Ys, signs, strict=True)]
        return sliced_cost(Zs, directions=theta)

    with one_thread():  # of hundreds of operations none is worth a second
        doubled = [np.ascontiguousarray(np.concatenate([X, X]).T) for X in Xs]
        shuffled = ([_shuffle_columns(XX, random) for XX in doubled] for _ in range(_DRAWS))
        noise = torch.stack([cost(tables) for tables in shuffled])
        drawn = planner.solve(noise, pairwise=True)
        return Null(planner.solve(cost(Xs), pairwise=True), drawn.W, drawn.C)


def _sample(view: ViewRows, random: np.random.Generator) -> Array:
    rows = random.permutation(len(view))[:_ROWS]
    columns = np.sort(random.permutation(view.n_columns)[:_COLUMNS])
    X: Array = view.take_together(rows).cpu().numpy()[:, columns].astype(np.float64)
    return X


def _components(X: Array, n: int) -> Array:
    """Leading principal components, scaled to a total variance of 1; zeros where there are none."""
    centered = X - X.mean(axis=0)
    D = X.shape[1]
    _, V = eigh(centered.T @ centered, subset_by_index=(max(0, D - n), D - 1))
    Y = centered @ V[:, ::-1]
    Y = np.pad(Y, ((0, 0), (0, n - Y.shape[1])))
    spread = np.sqrt((Y**2).sum(axis=1).mean())
    return np.asarray(Y / spread) if spread > 0 else Y


def _shuffle_columns(doubled: Array, random: np.random.Generator) -> Array:
    """Move each column on by its own random number of rows, which are in random order already.

    Columns come as the rows of `doubled`, each twice in a row: then moving is copying a piece.
    """
    D, n = doubled.shape[0], doubled.shape[1] // 2
    pieces = sliding_window_view(doubled, n, axis=1)
    moved: Array = pieces[np.arange(D), random.integers(n, size=D)].T
    return moved


def _relative_cost(W: Tensor, C: Tensor) -> Tensor:
    S = C.shape[-1]
    mean = C.sum((-2, -1)) / (S * (S - 1))  # the diagonal is 0
    tiny = torch.finfo(C.dtype).tiny
    return (W * C).sum((-2, -1)) / mean.clamp_min(tiny)
