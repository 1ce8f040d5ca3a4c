"""Projections with Gaussian noise, and what they tell at most of any one row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from hotview._types import IntArray
from hotview._validation import check_positive

__all__ = ["Privacy", "Release", "Releases", "spent", "spent_by"]

_NOISES = (1e-2, 1e4)  # multipliers that are tried
_SPENT = 0.99  # of epsilon: what is left then would buy nothing but noise
_TOLERANCE = 1e-3  # of a multiplier, relative; more noise rather than less
_FLOOR = 0.01  # of the variance with noise that is taken for the rows' own, at least


class Releases(NamedTuple):
    """What was released in one training, as far as an accountant must know.

    Attributes
    ----------
    noise : float
        As of `Release`.
    n_rows, sample, times : int
        Rows of the table, of a release, and releases.
    """

    noise: float
    n_rows: int
    sample: int
    times: int


@dataclass(frozen=True)
class Privacy:
    r"""How an organization makes its projections private.

    Before they are sorted, the projections of each row are clipped to a length of
    :math:`c\sqrt{M/d}` (which rows within a ball of radius c have), and get Gaussian noise
    (Rakotomamonjy and Ralaivola, 2021). The noise is chosen such that all rounds together are
    (ε, δ)-differentially private toward replacing one row, for given encoders.

    Parameters
    ----------
    epsilon : float
        ε of all rounds together, and of all trainings that the organization's folder remembers.
    delta : float, default=1e-5
        δ.
    clip : float, default=2.0
        c, of latents whose columns have variances of about 1/3.
    seed : int or None, default=None
        Of the noise. None takes the system's entropy; a seed is for experiments, because whoever
        knows it can take the noise off again.

    Examples
    --------
    >>> from hotview.federated.privacy import Privacy
    >>> Privacy(epsilon=-1.0)
    Traceback (most recent call last):
    ValueError: ...
    """

    epsilon: float
    delta: float = 1e-5
    clip: float = 2.0
    seed: int | None = None

    def __post_init__(self) -> None:
        for name in ("epsilon", "delta", "clip"):
            check_positive(name, getattr(self, name))
        if self.delta >= 1:
            raise ValueError(f"Expected delta below 1, but it is {self.delta}. Use 1e-5.")
        if self.seed is not None and (type(self.seed) is not int or self.seed < 0):
            raise ValueError(
                f"Expected seed to be a whole number of at least 0, or None, but it is "
                f"{self.seed!r}. Leave it out where privacy matters."
            )

    def calibrate(
        self, n_rows: int, sample: int, n_releases: int, before: Sequence[Releases] = ()
    ) -> float:
        """Noise that is enough for a number of releases.

        Parameters
        ----------
        n_rows : int
            Rows of the table.
        sample : int
            Rows that one release is about.
        n_releases : int
            How many there will be.
        before : sequence of Releases, default=()
            Earlier ones, which count as well.

        Returns
        -------
        float
            Its standard deviation, as a multiple of what replacing one row can change.
        """
        told = (self.epsilon, self.delta, n_rows, min(sample, n_rows))
        return _find_noise(*told, n_releases, tuple(before))


class Release:
    """Draws rows, and adds noise to their projections.

    Parameters
    ----------
    clip : float
        As of `Privacy`.
    noise : float
        Standard deviation of the noise, as a multiple of what replacing one row can change.
    sample : int
        Rows of a release.
    seed : int or None
        As of `Privacy`.
    """

    def __init__(self, clip: float, noise: float, sample: int, seed: int | None) -> None:
        self.clip, self.noise, self.sample, self.seed = clip, noise, sample, seed
        self.random = np.random.default_rng()

    def begin(self, round: int) -> None:
        """Seed a round, if there is a seed, so that no two have the same noise.

        Parameters
        ----------
        round : int
            Which round.
        """
        if self.seed is not None:
            self.random = np.random.default_rng([self.seed, round])

    def draw_rows(self, n: int) -> IntArray:
        """Rows for a release, drawn anew, and unknown to others, for the accountant counts on it.

        Parameters
        ----------
        n : int
            Number of rows of the table.

        Returns
        -------
        ndarray of int64
            Different ones.
        """
        rows: IntArray = self.random.permutation(n)[: self.sample]
        return rows

    def add_noise(self, P: Tensor, d: int) -> Tensor:
        """Clip projections, add noise, and take its variance off again.

        Noise makes every cloud as much wider; who knows how much can shrink the sum about its mean,
        which tells nothing more of any row.

        Parameters
        ----------
        P : Tensor of shape (n, M)
            Projections of rows.
        d : int
            Dimension of what was projected.

        Returns
        -------
        Tensor of shape (n, M)
            Private.
        """
        longest = self.clip * math.sqrt(P.shape[1] / d)
        # Noise hides no infinite number: who chooses the steps could let a few rows overflow.
        P = P.nan_to_num()
        P = P * (longest / P.norm(dim=1, keepdim=True).clamp_min(longest))
        sigma = self.noise * 2 * longest
        noise = self.random.normal(scale=sigma, size=P.shape)
        noisy = P + torch.from_numpy(noise).to(P)
        mean, variance = noisy.mean(0), noisy.var(0, correction=0)
        own = (variance - sigma**2).clamp_min(_FLOOR * variance).clamp_max(longest**2)
        tiny = torch.finfo(P.dtype).tiny  # a single row has no variance
        return mean + (noisy - mean) * (own / variance.clamp_min(tiny)).sqrt()


def spent(noise: float, n_rows: int, sample: int, n_releases: int, delta: float) -> float:
    """ε after some releases.

    Parameters
    ----------
    noise : float
        As of `Release`.
    n_rows, sample, n_releases : int
        Rows of the table, of a release, and releases.
    delta : float
        δ.

    Returns
    -------
    float
        ε, by Rényi differential privacy (dp-accounting).

    Examples
    --------
    >>> from hotview.federated.privacy import spent
    >>> spent(1.0, 2000, 200, 0, 1e-5)
    0.0
    >>> spent(1.0, 2000, 200, 20, 1e-5) < spent(1.0, 2000, 2000, 20, 1e-5)
    True
    """
    return spent_by([Releases(noise, n_rows, sample, n_releases)], delta)


def spent_by(releases: Sequence[Releases], delta: float) -> float:
    """ε of releases of several trainings together.

    Parameters
    ----------
    releases : sequence of Releases
        Of each.
    delta : float
        δ.

    Returns
    -------
    float
        ε, as of `spent`.
    """
    if sum(one.times for one in releases) == 0:
        return 0.0
    return _add_up(tuple(releases), delta)


# An accountant works for seconds, and organizations of the same size ask it for the same.
@cache
def _add_up(releases: tuple[Releases, ...], delta: float) -> float:
    accountant = _accountant()
    accountant.compose(_events(releases))
    return float(accountant.get_epsilon(delta))


@cache
def _find_noise(
    epsilon: float,
    delta: float,
    n_rows: int,
    sample: int,
    n_releases: int,
    before: tuple[Releases, ...],
) -> float:
    import dp_accounting

    if (gone := spent_by(before, delta)) > _SPENT * epsilon:
        raise ValueError(
            f"the privacy budget is spent: earlier trainings took epsilon = {gone:.3g} of "
            f"{epsilon:.3g}. Raise epsilon, which is of all of them together; or, if "
            "they told nobody, as in a simulation, delete state.federated in its folder"
        )
    try:  # among logarithms, where half as many tries are enough
        found = dp_accounting.calibrate_dp_mechanism(
            _accountant,
            lambda log: _events([*before, Releases(math.exp(log), n_rows, sample, n_releases)]),
            epsilon,
            delta,
            dp_accounting.ExplicitBracketInterval(*map(math.log, _NOISES)),
            tol=_TOLERANCE,
        )
    except ValueError as error:
        least, most = (
            spent_by([*before, Releases(noise, n_rows, sample, n_releases)], delta)
            for noise in _NOISES[::-1]
        )
        raise ValueError(
            f"Expected epsilon between {least:.3g} and {most:.3g}, which {n_releases} releases "
            f"of {sample} of {n_rows} rows can have, but it is {epsilon:.3g}. Leave "
            "privacy out to have none."
        ) from error
    return math.exp(found)


def _accountant() -> Any:
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    return rdp.RdpAccountant(neighboring_relation=relation)


def _events(releases: Sequence[Releases]) -> Any:
    import dp_accounting

    return dp_accounting.ComposedDpEvent([_event(one) for one in releases if one.times > 0])


def _event(one: Releases) -> Any:
    import dp_accounting

    event = dp_accounting.GaussianDpEvent(one.noise)
    if one.sample < one.n_rows:
        event = dp_accounting.SampledWithoutReplacementDpEvent(one.n_rows, one.sample, event)
    return dp_accounting.SelfComposedDpEvent(event, one.times)
