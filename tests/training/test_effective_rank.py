import math

import numpy as np
import pytest
import torch

from hotview.training.pca import effective_rank, total_std


def cloud(variances, n=4000, seed=0):
    """Points whose covariance is diagonal with exactly these entries."""
    generator = torch.Generator().manual_seed(seed)
    Z = torch.randn(n, len(variances), generator=generator, dtype=torch.float64)
    Q = torch.linalg.qr(Z - Z.mean(0)).Q * n**0.5
    return (Q - Q.mean(0)) * torch.tensor(variances, dtype=torch.float64).sqrt()


@pytest.mark.parametrize("d", (1, 2, 5, 10))
def test_a_round_cloud_has_the_rank_of_its_space(d):
    assert effective_rank(cloud([2.0] * d)) == pytest.approx(d)


def test_a_line_has_rank_1_and_a_plane_rank_2():
    x, y = cloud([1.0, 1.0]).unbind(1)
    assert effective_rank(torch.outer(x, torch.tensor([1.0, -2.0, 3.0]).double())) == pytest.approx(
        1
    )
    plane = torch.stack([x, y, x + y, x - y], dim=1)
    assert effective_rank(plane) == pytest.approx(2)


@pytest.mark.parametrize("variances", ([4.0, 1.0], [9.0, 4.0, 1.0], [1.0, 1e-6]))
def test_it_is_the_exponential_of_the_entropy_of_the_variances(variances):
    shares = np.array(variances) / sum(variances)
    expected = math.exp(-np.sum(shares * np.log(shares)))
    assert effective_rank(cloud(variances)) == pytest.approx(expected)


def test_moving_turning_and_scaling_change_nothing():
    Z = cloud([4.0, 1.0, 0.5])
    Q = torch.linalg.qr(torch.randn(3, 3, dtype=torch.float64)).Q
    expected = effective_rank(Z)
    for other in (Z + 100, Z @ Q, 1e-8 * Z, 1e8 * Z):
        assert effective_rank(other) == pytest.approx(expected)


@pytest.mark.parametrize("value", (0.0, 1.0, 0.1, 1e6))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_a_point_has_rank_0(value, dtype):
    assert effective_rank(torch.full((50, 3), value, dtype=dtype)) == 0
    assert effective_rank(torch.full((1, 3), value, dtype=dtype)) == 0


def test_a_small_cloud_far_away_is_not_a_point():
    Z = cloud([1.0, 1.0]) * 0.01 + 10
    assert effective_rank(Z.float()) == pytest.approx(2, rel=1e-3)


def test_the_cloud_may_carry_a_gradient():
    Z = cloud([1.0, 1.0]).requires_grad_()
    assert type(effective_rank(Z)) is float
    assert type(total_std(Z)) is float


def test_the_spread_is_the_root_of_the_total_variance():
    assert total_std(cloud([9.0, 16.0]) + 50) == pytest.approx(5)
    assert total_std(torch.ones(4, 2)) == 0
    assert total_std(torch.tensor([[1.0], [-1.0]])) == 1


def test_a_point_far_from_the_origin_has_rank_0_whatever_rounding_leaves():
    Z = torch.full((1000, 4), 0.1, dtype=torch.float64) * 3
    Z[::2] += 1e-12  # less than float32 would keep
    assert effective_rank(Z) == 0.0
    assert effective_rank(Z + torch.randn(1000, 4, generator=torch.Generator().manual_seed(0))) > 3
