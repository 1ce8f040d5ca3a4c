"""Differential privacy of projections: the Gaussian mechanism and its accounting."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require
from hotview._types import IntArray
from hotview._validation import check_positive

_MULTIPLIERS = (1e-2, 1e4)  # range of the noise multiplier
_TOLERANCE = 1e-3  # of the logarithm of the multiplier; errs toward more noise
_MAX_SPENT = 0.99  # fraction of epsilon; the rest would need too much noise
_MIN_SIGNAL = 0.01  # lower bound of the rows' own share of the noisy variance


@dataclass(frozen=True)
class ReleaseRecord:
    """The releases of one training, as the privacy accountant needs them.

    Attributes
    ----------
    noise : float
        Noise multiplier.
    n_rows, sample_size, n_releases : int
        Rows of the table, rows of a release, and number of releases.
    """

    noise: float
    n_rows: int
    sample_size: int
    n_releases: int

    def __post_init__(self) -> None:
        fits = self.noise > 0 and self.n_rows > 0 and self.sample_size > 0
        require(fits, f"its releases cannot be {self}")


@dataclass(frozen=True)
class Budget:
    """ε and δ of a client."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        require(min(self.epsilon, self.delta) >= 0, "its privacy cannot be negative")


@dataclass(frozen=True)
class Privacy:
    r"""Differential privacy of a client's projections.

    Before they are sorted, the projections of each row are clipped to a norm of
    :math:`c\sqrt{M/d}` (the norm of rows within a ball of radius c), and Gaussian noise is added
    (Rakotomamonjy and Ralaivola, 2021). The noise is calibrated such that all rounds together are
    (ε, δ)-differentially private under replacement of one row, for given encoders.

    Parameters
    ----------
    epsilon : float
        ε of all rounds together, and of all trainings whose releases the client's folder records.
    delta : float, default=1e-5
        δ.
    clip : float, default=2.0
        c, for latents whose columns have variances of about 1/3.
    seed : int or None, default=None
        Seed of the noise, for experiments only: with the seed, the noise can be subtracted. None
        uses the entropy of the system.

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
        self, n_rows: int, sample_size: int, n_releases: int, before: Sequence[ReleaseRecord] = ()
    ) -> float:
        """Return the noise multiplier for a number of releases.

        Parameters
        ----------
        n_rows : int
            Rows of the table.
        sample_size : int
            Rows of a release.
        n_releases : int
            Number of releases.
        before : sequence of ReleaseRecord, default=()
            Earlier releases, which count toward the same ε.

        Returns
        -------
        float
            Standard deviation of the noise, relative to the sensitivity to one row.
        """
        planned = ReleaseRecord(1.0, n_rows, min(sample_size, n_rows), n_releases)
        return _calibrate(self.epsilon, self.delta, planned, tuple(before))


class GaussianMechanism:
    """Samples rows, and adds noise to their projections.

    Parameters
    ----------
    clip : float
        As in `Privacy`.
    noise : float
        Noise multiplier: the standard deviation, relative to the sensitivity to one row.
    sample_size : int
        Rows of a release.
    seed : int or None
        As in `Privacy`.
    """

    def __init__(self, clip: float, noise: float, sample_size: int, seed: int | None) -> None:
        self.clip, self.noise, self.sample_size, self.seed = clip, noise, sample_size, seed
        self.random = np.random.default_rng()

    def reseed(self, round: int) -> None:
        """Seed the generator of a round, if there is a seed.

        Parameters
        ----------
        round : int
            The round.
        """
        if self.seed is not None:
            self.random = np.random.default_rng([self.seed, round])

    def draw_rows(self, n: int) -> IntArray:
        """Sample the rows of a release without replacement; the accounting relies on secrecy.

        Parameters
        ----------
        n : int
            Number of rows of the table.

        Returns
        -------
        ndarray of int64
            Distinct rows.
        """
        rows: IntArray = self.random.permutation(n)[: self.sample_size]
        return rows

    def add_noise(self, P: Tensor, d: int) -> Tensor:
        """Clip projections, add noise, and shrink the sum to the variance without noise.

        Shrinking about the mean is post-processing, which costs no privacy.

        Parameters
        ----------
        P : Tensor of shape (n, M)
            Projections of rows.
        d : int
            Dimension of the projected latents.

        Returns
        -------
        Tensor of shape (n, M)
            Private projections.
        """
        max_norm = self.clip * math.sqrt(P.shape[1] / d)
        # Infinite values would survive the noise: a malicious server could make rows overflow.
        P = P.nan_to_num()
        P = P * (max_norm / P.norm(dim=1, keepdim=True).clamp_min(max_norm))
        sigma = self.noise * 2 * max_norm
        noise = self.random.normal(scale=sigma, size=P.shape)
        noisy = P + torch.from_numpy(noise).to(P)
        mean, variance = noisy.mean(0), noisy.var(0, correction=0)
        signal = (variance - sigma**2).clamp_min(_MIN_SIGNAL * variance).clamp_max(max_norm**2)
        tiny = torch.finfo(P.dtype).tiny  # a single row has no variance
        return mean + (noisy - mean) * (signal / variance.clamp_min(tiny)).sqrt()


def total_epsilon(releases: Sequence[ReleaseRecord], delta: float) -> float:
    """Return ε of all releases together, by Rényi differential privacy (dp-accounting).

    Parameters
    ----------
    releases : sequence of ReleaseRecord
        Releases of one or several trainings.
    delta : float
        δ.

    Returns
    -------
    float
        ε.

    Examples
    --------
    >>> from hotview.federated.privacy import ReleaseRecord, total_epsilon
    >>> total_epsilon([ReleaseRecord(1.0, 2000, 200, 0)], 1e-5)
    0.0
    """
    return _compose(tuple(record for record in releases if record.n_releases > 0), delta)


@cache  # accounting takes seconds, and clients of equal size need the same result
def _compose(releases: tuple[ReleaseRecord, ...], delta: float) -> float:
    accountant = _make_accountant()
    return float(accountant.compose(_make_event(releases)).get_epsilon(delta)) if releases else 0.0


@cache
def _calibrate(
    epsilon: float, delta: float, planned: ReleaseRecord, before: tuple[ReleaseRecord, ...]
) -> float:
    import dp_accounting

    def releases(noise: float) -> list[ReleaseRecord]:
        return [*before, replace(planned, noise=noise)]

    if (spent := total_epsilon(before, delta)) > _MAX_SPENT * epsilon:
        raise ValueError(
            f"the privacy budget is spent: earlier trainings took epsilon = {spent:.3g} of "
            f"{epsilon:.3g}. Raise epsilon, which is of all of them together; or, if nothing left "
            "the machine, as in a simulation, delete state.federated in its folder"
        )
    try:  # on a logarithmic scale, which halves the number of evaluations
        log_noise = dp_accounting.calibrate_dp_mechanism(
            _make_accountant,
            lambda log: _make_event(releases(math.exp(log))),
            epsilon,
            delta,
            dp_accounting.ExplicitBracketInterval(*map(math.log, _MULTIPLIERS)),
            tol=_TOLERANCE,
        )
    except ValueError as error:
        most, least = (total_epsilon(releases(noise), delta) for noise in _MULTIPLIERS)
        raise ValueError(
            f"Expected epsilon between {least:.3g} and {most:.3g}, which "
            f"{planned.n_releases} releases of {planned.sample_size} of {planned.n_rows} rows can "
            f"have, but it is {epsilon:.3g}. Leave privacy out to have none."
        ) from error
    return math.exp(log_noise)


def _make_accountant() -> Any:
    import dp_accounting
    from dp_accounting import rdp

    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    return rdp.RdpAccountant(neighboring_relation=relation)


def _make_event(releases: Sequence[ReleaseRecord]) -> Any:
    import dp_accounting

    events = []
    for record in releases:
        event = dp_accounting.GaussianDpEvent(record.noise)
        if (n := record.sample_size) < record.n_rows:
            event = dp_accounting.SampledWithoutReplacementDpEvent(record.n_rows, n, event)
        if record.n_releases > 0:
            events.append(dp_accounting.SelfComposedDpEvent(event, record.n_releases))
    return dp_accounting.ComposedDpEvent(events)
