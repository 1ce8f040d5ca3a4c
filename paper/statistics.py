"""Means over trials, and differences between methods on the same splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

__all__ = ["Difference", "Score", "mean_score", "paired_difference"]


@dataclass(frozen=True)
class Score:
    """A mean over trials.

    Parameters
    ----------
    mean : float
        The mean; NaN without trials.
    std : float
        Standard deviation over n − 1; NaN with fewer than two trials.
    n : int
        Number of trials.

    Examples
    --------
    >>> from paper.statistics import mean_score
    >>> mean_score([0.5]).n
    1
    """

    mean: float
    std: float
    n: int


@dataclass(frozen=True)
class Difference:
    """A mean difference with its 95 % t interval.

    The splits of the trials overlap, so that trials are not independent and the interval is, if
    anything, too short.

    Parameters
    ----------
    mean : float
        The mean difference; NaN without pairs.
    low, high : float
        The interval; infinite with fewer than two pairs.
    n : int
        Number of pairs.

    Examples
    --------
    >>> from paper.statistics import Difference
    >>> Difference(0.02, 0.01, 0.03, 20).excludes_zero
    True
    """

    mean: float
    low: float
    high: float
    n: int

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval lies on one side of zero."""
        return self.low > 0 or self.high < 0


def mean_score(values: Sequence[float | None]) -> Score:
    """Return mean and standard deviation over the trials that there are.

    Parameters
    ----------
    values : sequence of float or None
        One per trial, None where it is missing.

    Returns
    -------
    Score
        Mean, standard deviation and number of trials.

    Examples
    --------
    >>> from paper.statistics import mean_score
    >>> mean_score([0.8, None, 1.0])
    Score(mean=0.9, std=0.14142135623730948, n=2)
    """
    there = [value for value in values if value is not None]
    mean = float(np.mean(there)) if there else math.nan
    std = float(np.std(there, ddof=1)) if len(there) > 1 else math.nan
    return Score(mean, std, len(there))


def paired_difference(ours: Sequence[float | None], control: Sequence[float | None]) -> Difference:
    """Return the mean of ours − control over the trials that both have, and its 95 % interval.

    Parameters
    ----------
    ours : sequence of float or None
        One per trial, None where it is missing.
    control : sequence of float or None
        The same trials.

    Returns
    -------
    Difference
        Mean ± t₀.₉₇₅ · std / √n.

    Examples
    --------
    >>> from paper.statistics import paired_difference
    >>> difference = paired_difference([0.9, 0.8, 0.95], [0.8, 0.75, 0.8])
    >>> round(difference.mean, 3), round(difference.low, 3), round(difference.high, 3)
    (0.1, -0.024, 0.224)
    """
    both = zip(ours, control, strict=True)
    gains = mean_score([a - b for a, b in both if a is not None and b is not None])
    if gains.n < 2:
        return Difference(gains.mean, -math.inf, math.inf, gains.n)
    reach = float(stdtrit(gains.n - 1, 0.975)) * gains.std / math.sqrt(gains.n)
    return Difference(gains.mean, gains.mean - reach, gains.mean + reach, gains.n)
