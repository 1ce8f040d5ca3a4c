"""How far shares of rows, and differences between them, can be trusted."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from hotview.evaluation.record.schema import Change, Proportion

__all__ = ["compare", "share"]

_Z = 1.959963984540054  # of a 95 % interval


def share(right: npt.ArrayLike) -> Proportion:
    r"""Share of rows that are right, with Wilson's interval.

    .. math:: \frac{p + z^2/2n \pm z \sqrt{p (1 - p)/n + z^2/4n^2}}{1 + z^2/n}

    Parameters
    ----------
    right : 1-D array-like of bool
        Whether each row is; at least one.

    Returns
    -------
    Proportion
        The share and the ends of its interval.

    Examples
    --------
    >>> from hotview.evaluation.record.intervals import share
    >>> found = share([True] * 10)
    >>> found.value, round(found.low, 3), found.high
    (1.0, 0.722, 1.0)
    """
    rows = np.asarray(right, dtype=bool)
    n, p = len(rows), float(rows.mean())
    center, width = p + _Z**2 / (2 * n), _Z * math.sqrt(p * (1 - p) / n + _Z**2 / (4 * n * n))
    scale = 1 + _Z**2 / n
    low = (center - width) / scale if p > 0 else 0.0  # exactly, where rounding would be off
    high = (center + width) / scale if p < 1 else 1.0
    return Proportion(p, low, high, n)


def compare(right: npt.ArrayLike, other: npt.ArrayLike) -> Change:
    """Compare two shares of the same rows.

    The standard error is that of the mean difference over rows. The interval is Agresti and Min's,
    which adds half a row to each of the four outcomes: it has a width also where the two agree
    about every row.

    Parameters
    ----------
    right, other : 1-D array-like of bool
        Whether each row is right by one and by the other; at least one row.

    Returns
    -------
    Change
        The first share less the second.

    Examples
    --------
    >>> from hotview.evaluation.record.intervals import compare
    >>> compare([True, True, True, False], [True, False, False, False]).value
    0.5
    """
    ours, theirs = np.asarray(right, dtype=float), np.asarray(other, dtype=float)
    n, difference = len(ours), ours - theirs
    error = float(difference.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan
    center = difference.sum() / (n + 2)
    width = _Z * math.sqrt(np.abs(difference).sum() + 1 - (n + 2) * center**2) / (n + 2)
    return Change(float(difference.mean()), error, float(center - width), float(center + width), n)
