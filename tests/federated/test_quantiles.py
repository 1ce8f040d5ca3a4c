from fractions import Fraction
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad
from small_federation import directions

from hotview.federated.coupling import quantile_means

SIZES = ((6, 6), (12, 4), (7, 3), (7, 5), (3, 8), (5, 15), (1, 4), (9, 1), (64, 63))


def projections(n, m=3, seed=0):
    return torch.randn(n, m, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def slow_summary(values, q):
    """Each share, filled by going through the sorted values with exact fractions."""
    n, found = len(values), []
    left, i = Fraction(1, n), 0  # how much of value i is left
    ordered = sorted(values)
    for _ in range(q):
        room, total = Fraction(1, q), 0.0
        while room > 0:
            used = min(left, room)
            total += float(used * q) * ordered[i]
            room, left = room - used, left - used
            if left == 0:
                i, left = i + 1, Fraction(1, n)
        found.append(total)
    return found


@pytest.mark.parametrize(("n", "q"), SIZES)
def test_shares_are_filled_one_after_the_other(n, q):
    P = projections(n)
    Q = quantile_means(P, q)
    np.testing.assert_allclose(Q, [slow_summary(column.tolist(), q) for column in P.T], atol=1e-12)
    order = torch.from_numpy(np.random.default_rng(0).permutation(n))
    assert torch.equal(quantile_means(P[order], q), Q)


@pytest.mark.parametrize(("n", "q"), ((7, 3), (3, 8)))
def test_it_is_the_integral_of_the_quantile_function(n, q):
    values = projections(n)[:, 0].numpy()
    steps = np.arange(1, n) / n

    def inverse(u):
        return np.quantile(values, u, method="inverted_cdf")

    for i, found in enumerate(quantile_means(projections(n), q)[0].tolist()):
        low, high = i / q, (i + 1) / q
        inside = steps[(steps > low) & (steps < high)]
        truth, _ = quad(inverse, low, high, points=inside if len(inside) else None)
        assert found == pytest.approx(q * truth, abs=1e-7)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 20), st.integers(1, 20), st.integers(0, 100))
def test_means_stay_and_numbers_ascend(n, q, seed):
    P = projections(n, seed=seed)
    Q = quantile_means(P, q)
    assert Q.shape == (3, q)
    torch.testing.assert_close(Q.mean(1), P.mean(0))
    assert (Q.diff(dim=1) >= -1e-12).all()
    assert (Q.var(1, correction=0) <= P.var(0, correction=0) + 1e-12).all()


@pytest.mark.parametrize(("n", "q"), ((6, 6), (7, 3), (3, 8)))
def test_gradients(n, q):
    P = projections(n, 2).requires_grad_()
    assert torch.autograd.gradcheck(lambda P: quantile_means(P, q), (P,))


@pytest.mark.parametrize("kind", ("orthogonal", "iid", "qmc"))
def test_everybody_draws_the_same_directions(kind):
    theta = directions(5, 3, 1, 6, 4, kind=kind)
    torch.manual_seed(99)  # of which they know nothing
    before = torch.get_rng_state()
    assert torch.equal(theta, directions(5, 3, 1, 6, 4, kind=kind))
    assert torch.equal(torch.get_rng_state(), before)
    assert (theta.dtype, theta.shape) == (torch.float32, (6, 4))
    torch.testing.assert_close(theta.norm(dim=1), torch.ones(6))


def test_every_round_and_step_has_its_own():
    drawn = [directions(*given, 6, 4) for given in product((0, 1), (1, 2), (0, 1))]
    assert len({theta.numpy().tobytes() for theta in drawn}) == 8
