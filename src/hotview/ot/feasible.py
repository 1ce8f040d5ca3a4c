"""Can a mask be met at all? Not every set of allowed entries carries the given marginals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["check_feasible"]

_SLACK = 1e-9  # of the total mass


def check_feasible(mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]) -> None:
    """Raise unless some plan with marginals `a`, `b` is zero where `mask` is True.

    By Hall's theorem a plan exists when no set of rows holds more mass than the columns open to it.
    """
    closed = mask @ b  # mass of the columns that each row must not use
    total = a.sum()
    worst = int(np.argmax(a + closed))
    if a[worst] + closed[worst] > total * (1 + _SLACK):
        raise ValueError(
            f"the mask leaves no plan: row {worst} must send out {a[worst]:.6g}, but the columns "
            f"open to it take only {max(0.0, total - closed[worst]):.6g} of {total:.6g}. "
            "Unmask an entry or change the marginals."
        )
    # Where no column is masked twice (the diagonal, say), two rows together reach every column,
    # so single rows are all that can fail. Everything else is a question for a linear program.
    if mask.sum(0).max() > 1 and not _has_plan(mask, a, b):
        raise ValueError(
            "the mask leaves no plan with these marginals: some rows together hold more mass than "
            "the columns open to them. Unmask an entry or change the marginals."
        )


def _has_plan(mask: NDArray[np.bool_], a: NDArray[np.float64], b: NDArray[np.float64]) -> bool:
    from scipy.optimize import linprog
    from scipy.sparse import coo_array

    i, j = np.nonzero(~mask)
    ones, edge = np.ones(len(i)), np.arange(len(i))
    # Send as much as possible; all of it must arrive.
    limits = coo_array(
        (np.concatenate([ones, ones]), (np.concatenate([i, len(a) + j]), np.tile(edge, 2))),
        shape=(len(a) + len(b), len(i)),
    )
    sent = linprog(-ones, A_ub=limits.tocsr(), b_ub=np.concatenate([a, b]))  # type: ignore[call-overload]  # its stubs know no sparse matrix
    return bool(-sent.fun >= a.sum() * (1 - _SLACK))
