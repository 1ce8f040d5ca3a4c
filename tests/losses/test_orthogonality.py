import numpy as np
import pytest
import torch
from scipy.linalg import expm

from hotview.losses.orthogonality import nearest_orthonormal, orthogonality, second_moment

SCALES = ("mean", "sum")


def clouds(sizes, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator, dtype=torch.float64) for n in sizes]


def slow_second_moment(Z, scale):
    total = sum(np.outer(z, z) for z in Z.numpy())
    return total if scale == "sum" else total / len(Z)


def distance(G, Z):
    return np.square(Z.numpy() - G).sum()


@pytest.mark.parametrize("scale", SCALES)
def test_the_second_moment_adds_or_averages_over_rows(scale):
    (Z,) = clouds((7,))
    np.testing.assert_allclose(second_moment(Z, scale), slow_second_moment(Z, scale))


@pytest.mark.parametrize("scale", SCALES)
def test_the_penalty_is_the_squared_distance_of_the_sum_over_clouds_from_the_identity(scale):
    Zs = clouds((7, 4, 9))
    gap = sum(slow_second_moment(Z, scale) for Z in Zs) - np.eye(3)
    expected = sum(gap[i, j] ** 2 for i in range(3) for j in range(3))
    assert orthogonality(Zs, scale).item() == pytest.approx(expected)


def test_closed_forms():
    assert orthogonality([torch.eye(3)], "sum").item() == 0
    assert orthogonality([torch.eye(3) * 3**0.5], "mean").item() == pytest.approx(0, abs=1e-12)
    assert orthogonality([torch.zeros(5, 3)], "mean").item() == 3
    assert orthogonality([torch.eye(3), torch.eye(3)], "sum").item() == 3
    # The constraint is on the sum over clouds: one of them may vanish unseen.
    assert orthogonality([torch.eye(3), torch.zeros(4, 3)], "sum").item() == 0


@pytest.mark.parametrize("scale", SCALES)
def test_the_gradient_of_the_penalty(scale):
    Zs = [Z.requires_grad_() for Z in clouds((5, 3))]
    assert torch.autograd.gradcheck(lambda *Zs: orthogonality(Zs, scale), Zs)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("n", (3, 4, 40))
def test_the_nearest_orthonormal_meets_the_constraint_exactly(scale, n):
    (Z,) = clouds((n,))
    G = nearest_orthonormal(Z, scale)
    assert G.shape == Z.shape
    torch.testing.assert_close(second_moment(G, scale), torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("scale", SCALES)
def test_no_other_orthonormal_is_nearer(scale):
    (Z,) = clouds((8,))
    G = nearest_orthonormal(Z, scale).numpy()
    radius = 1.0 if scale == "sum" else 8**0.5
    random = np.random.default_rng(0)
    others = [np.linalg.qr(random.normal(size=(8, 3)))[0] * radius for _ in range(2000)]
    # Far from Z nothing comes close; small turns of G itself are the harder rivals.
    for size in (1e-3, 0.01, 0.1):
        skew = random.normal(size=(300, 8, 8)) * size
        others += [expm(A - A.T) @ G for A in skew]
    assert min(distance(other, Z) for other in others) > distance(G, Z)


@pytest.mark.parametrize("scale", SCALES)
def test_what_is_orthonormal_is_its_own_nearest_at_any_size(scale):
    (Z,) = clouds((8,))
    G = nearest_orthonormal(Z, scale)
    torch.testing.assert_close(nearest_orthonormal(G, scale), G)
    torch.testing.assert_close(nearest_orthonormal(0.01 * G, scale), G)


def test_with_fewer_rows_than_columns_the_rows_are_orthonormal():
    (Z,) = clouds((2,), d=5)
    G = nearest_orthonormal(Z, "sum")
    torch.testing.assert_close(G @ G.T, torch.eye(2, dtype=torch.float64))
