import math

import dp_accounting
import numpy as np
import pytest
import torch
from dp_accounting import rdp
from scipy.optimize import brentq
from scipy.stats import norm
from small_federation import directions

from hotview.federated import privacy
from hotview.federated.privacy import GaussianMechanism, Privacy, ReleaseRecord, total_epsilon

D, M, CLIP = 3, 12, 2.0
LONGEST = CLIP * math.sqrt(M / D)


def spent(noise, n_rows, sample_size, n_releases, delta):
    """ε of the releases of one training."""
    return total_epsilon([ReleaseRecord(noise, n_rows, sample_size, n_releases)], delta)


def projections(n=200, length=1.0, seed=0):
    """Of latents of one length along a frame of directions."""
    Z = np.random.default_rng(seed).normal(size=(n, D))
    Z *= length / np.linalg.norm(Z, axis=1, keepdims=True)
    return torch.from_numpy(Z) @ directions(0, 1, 0, M, D).double().T


def noise_of(release, P, round=1):
    release.reseed(round)
    return release.add_noise(P, D)


def test_latents_within_the_ball_are_not_clipped_and_others_are_drawn_to_its_surface():
    P = projections(length=CLIP)
    torch.testing.assert_close(P.norm(dim=1), torch.full((200,), LONGEST, dtype=P.dtype))
    torch.testing.assert_close(noise_of(GaussianMechanism(CLIP * 1.001, 0.0, 200, 0), P), P)
    clipped = noise_of(GaussianMechanism(CLIP, 0.0, 200, 0), 100 * P)
    torch.testing.assert_close(clipped, P)
    assert (clipped.norm(dim=1) <= LONGEST * (1 + 1e-12)).all()


@pytest.mark.parametrize("noise", (0.05, 0.2))
def test_noise_is_as_large_as_it_is_said_to_be_and_makes_no_cloud_wider(noise):
    # Of what is sent, only as much as this goes along with what it was before.
    P = projections(20_000, length=CLIP)
    found = noise_of(GaussianMechanism(CLIP, noise, 20_000, 0), P)
    sigma, variance = noise * 2 * LONGEST, float(P.var(0).mean())
    truth = math.sqrt(variance / (variance + sigma**2))
    along = [np.corrcoef(P[:, m], found[:, m])[0, 1] for m in range(M)]
    np.testing.assert_allclose(along, truth, atol=0.02)
    # Independent from row to row and from direction to direction.
    rest = found - P * (P * found).mean(0) / (P * P).mean(0)
    others = np.corrcoef(rest.numpy().T) - np.eye(M)
    assert np.abs(others).max() < 0.04
    np.testing.assert_allclose(found.var(0), P.var(0), rtol=0.1)
    np.testing.assert_allclose(found.mean(0), P.mean(0), atol=0.06)


def test_a_single_row_has_noise_and_is_finite():
    P = projections(1)
    found = noise_of(GaussianMechanism(CLIP, 1.0, 1, 0), P)
    assert found.isfinite().all()
    assert (found - P).abs().max() > 0.1


@pytest.mark.parametrize("value", (math.inf, -math.inf, math.nan, 3e38))
def test_a_row_that_overflows_is_no_farther_from_others_than_any(value):
    # Both have the same noise: whatever differs more than what it was chosen for would show.
    P = projections(50).float()
    other = P.clone()
    other[7] = value
    both = [GaussianMechanism(CLIP, 1.0, 50, seed=3) for _ in range(2)]
    one, two = (noise_of(release, given) for release, given in zip(both, (P, other), strict=True))
    assert two.isfinite().all()
    assert float((one - two).abs().max()) < 2 * LONGEST


def test_noise_is_of_its_round_if_there_is_a_seed_and_never_comes_again_without():
    P = projections()
    given = ((7, 3), (7, 3), (7, 4), (8, 3), (None, 3), (None, 3))
    first, again, *others = (
        noise_of(GaussianMechanism(CLIP, 1.0, 200, seed), P, round) for seed, round in given
    )
    assert torch.equal(first, again)
    assert len({x.numpy().tobytes() for x in (first, *others)}) == 5
    rows = [GaussianMechanism(CLIP, 1.0, 10, None).draw_rows(200).tolist() for _ in range(2)]
    assert rows[0] != rows[1]


def test_rows_of_a_release_are_different_ones():
    release = GaussianMechanism(CLIP, 1.0, 30, 0)
    seen = np.zeros(100)
    for round in range(200):
        release.reseed(round)
        rows = release.draw_rows(100)
        assert len(np.unique(rows)) == 30
        seen[rows] += 1
    assert seen.min() > 30  # of 60 on average
    assert sorted(release.draw_rows(20)) == list(range(20))  # all, where there are fewer


def exact_epsilon(noise, n_releases, delta):
    """Of Gaussian noise alone: Balle and Wang (2018), for what all releases amount to."""
    mu = math.sqrt(n_releases) / noise

    def gap(epsilon):
        above = norm.cdf(mu / 2 - epsilon / mu)
        return above - math.exp(epsilon) * norm.cdf(-mu / 2 - epsilon / mu) - delta

    return brentq(gap, 0.0, 500.0)


def renyi_epsilon(noise, n_releases, delta):
    """By Rényi divergences α T / 2σ² (Mironov 2017), converted as by Canonne et al. (2020)."""
    alpha = np.linspace(1.01, 1000, 200_000)
    divergence = alpha * n_releases / (2 * noise**2)
    bounds = divergence + np.log1p(-1 / alpha) - (np.log(delta) + np.log(alpha)) / (alpha - 1)
    return bounds.min()


@pytest.mark.parametrize("noise", (1.0, 5.0, 20.0))
@pytest.mark.parametrize("n_releases", (1, 21))
def test_all_rows_at_once_are_the_gaussian_mechanism(noise, n_releases):
    found = spent(noise, 100, 100, n_releases, 1e-5)
    assert found == spent(noise, 100, 1000, n_releases, 1e-5)
    best = renyi_epsilon(noise, n_releases, 1e-5)
    assert best - 1e-9 < found < 1.03 * best  # for the library tries fewer orders
    exact = exact_epsilon(noise, n_releases, 1e-5)
    assert exact < found < 1.3 * exact


def test_a_sample_is_accounted_for_by_the_library():
    accountant = rdp.RdpAccountant(
        neighboring_relation=dp_accounting.NeighboringRelation.REPLACE_ONE
    )
    event = dp_accounting.SampledWithoutReplacementDpEvent(60, 6, dp_accounting.GaussianDpEvent(2))
    for _ in range(3):
        accountant.compose(event)
    found = spent(2.0, 60, 6, 3, 1e-5)
    assert found == pytest.approx(accountant.get_epsilon(1e-5))
    assert found < spent(2.0, 60, 60, 3, 1e-5)


def test_noise_is_enough_for_what_was_before_as_well():
    others = [ReleaseRecord(2.0, 80, 200, 4), ReleaseRecord(9.0, 100, 10, 0)]
    before = [ReleaseRecord(2.0, 100, 100, 3)]
    assert total_epsilon([*before, *others], 1e-5) == pytest.approx(spent(2.0, 100, 100, 7, 1e-5))
    assert total_epsilon([], 1e-5) == 0
    gone = total_epsilon(before, 1e-5)
    noise = Privacy(2 * gone).calibrate(100, 100, 3, before)
    total = total_epsilon([*before, ReleaseRecord(noise, 100, 100, 3)], 1e-5)
    assert 1.98 * gone < total <= 2 * gone
    for epsilon in (gone, gone / 2):
        with pytest.raises(ValueError, match="privacy budget is spent: earlier trainings took"):
            Privacy(epsilon).calibrate(100, 100, 3, before)


def test_samples_need_less_noise(monkeypatch):
    relation = dp_accounting.NeighboringRelation.REPLACE_ONE
    few = [2, 3, 4, 6, 8, 12, 16, 24, 32]  # orders, which are soon computed, and a bound as well
    monkeypatch.setattr(privacy, "_make_accountant", lambda: rdp.RdpAccountant(few, relation))
    noise = Privacy(2.0).calibrate(60, 6, 3)
    assert 0.99 * 2 < spent(noise, 60, 6, 3, 1e-5) <= 2
    assert noise < Privacy(2.0).calibrate(60, 60, 3)


@pytest.mark.parametrize("epsilon", (1e-4, 1e7))
def test_an_epsilon_out_of_reach_is_refused(epsilon):
    with pytest.raises(ValueError, match=r"Expected epsilon between .* 21 releases of 100 of 100"):
        Privacy(epsilon).calibrate(100, 1000, 21)


WRONG = (
    *((name, value) for name in ("epsilon", "delta", "clip") for value in (0, -1, "1")),
    *(("epsilon", float("inf")), ("delta", 1.0)),
    *(("seed", value) for value in (-1, 1.5, "a")),
)


@pytest.mark.parametrize(("name", "value"), WRONG)
def test_what_makes_no_sense_is_refused(name, value):
    with pytest.raises(ValueError, match=f"Expected {name}"):
        Privacy(**{"epsilon": 1.0, name: value})
