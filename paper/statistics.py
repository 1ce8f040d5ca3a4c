"""Means over trials, and differences between methods on the same splits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

__all__ = [
    "TEST_TO_TRAIN",
    "Difference",
    "Score",
    "half_width",
    "mean_score",
    "paired_difference",
]

#: Test rows to training rows in the paper's protocol, which is also that of our tables.
TEST_TO_TRAIN = 0.2 / 0.6


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
    """A mean difference with its 95 % interval.

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


def half_width(
    values: Sequence[float], *, test_to_train: float = TEST_TO_TRAIN, level: float = 0.95
) -> float:
    """Return the half width of the interval of a mean over random splits of the same rows.

    The training rows of two splits overlap, and so do their test rows: trials are not independent,
    and the variance of a mean over n of them is about 1/n + n_test / n_train times that of one
    trial (Nadeau and Bengio, 2003), not 1/n times.

    Parameters
    ----------
    values : sequence of float
        One per trial.
    test_to_train : float, default=1/3
        Test rows to training rows of a trial; 0 for trials that share no row, which gives the
        interval of Student.
    level : float, default=0.95
        Probability of the interval.

    Returns
    -------
    float
        t · std · √(1/n + test_to_train); infinite with fewer than two trials.

    Examples
    --------
    >>> from paper.statistics import half_width
    >>> values = [0.1, 0.05, 0.15]
    >>> round(half_width(values), 3), round(half_width(values, test_to_train=0.0), 3)
    (0.176, 0.124)
    """
    n = len(values)
    if n < 2:
        return math.inf
    t = float(stdtrit(n - 1, (1 + level) / 2))
    return t * float(np.std(values, ddof=1)) * math.sqrt(1 / n + test_to_train)


def paired_difference(
    ours: Sequence[float | None],
    control: Sequence[float | None],
    *,
    test_to_train: float = TEST_TO_TRAIN,
) -> Difference:
    """Return the mean of ours − control over the trials that both have, and its 95 % interval.

    Parameters
    ----------
    ours : sequence of float or None
        One per trial, None where it is missing.
    control : sequence of float or None
        The same trials.
    test_to_train : float, default=1/3
        Test rows to training rows of a trial, as in `half_width`; 0 for trials that share no row.

    Returns
    -------
    Difference
        The mean, and the interval of `half_width` around it.

    Examples
    --------
    >>> from paper.statistics import paired_difference
    >>> difference = paired_difference([0.9, 0.8, 0.95], [0.8, 0.75, 0.8])
    >>> round(difference.mean, 3), round(difference.low, 3), round(difference.high, 3)
    (0.1, -0.076, 0.276)
    """
    both = zip(ours, control, strict=True)
    gains = [a - b for a, b in both if a is not None and b is not None]
    score, reach = mean_score(gains), half_width(gains, test_to_train=test_to_train)
    if score.n < 2:
        return Difference(score.mean, -math.inf, math.inf, score.n)
    return Difference(score.mean, score.mean - reach, score.mean + reach, score.n)
