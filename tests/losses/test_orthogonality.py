import numpy as np
import pytest
import torch
from scipy.linalg import expm

from hotview.losses import LSCCA, HOTPairwise, HOTReference
from hotview.losses.coupling import (
    constrain,
    nearest_orthonormal,
    orthogonality,
    second_moment,
)

REDUCTIONS = ("mean", "sum")


def clouds(sizes, d=3, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(n, d, generator=generator, dtype=torch.float64) for n in sizes]


def slow_second_moment(Z, reduction):
    total = sum(np.outer(z, z) for z in Z.numpy())
    return total if reduction == "sum" else total / len(Z)


def distance(G, Z):
    return np.square(Z.numpy() - G).sum()


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_the_penalty_is_the_squared_distance_of_the_sum_over_clouds_from_the_identity(reduction):
    Zs = clouds((7, 4, 9))
    gap = sum(slow_second_moment(Z, reduction) for Z in Zs) - np.eye(3)
    expected = sum(gap[i, j] ** 2 for i in range(3) for j in range(3))
    assert orthogonality(Zs, reduction).item() == pytest.approx(expected)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("n", (3, 4, 40))
def test_the_nearest_orthonormal_meets_the_constraint_exactly(reduction, n):
    (Z,), eye = clouds((n,)), torch.eye(3, dtype=torch.float64)
    G = nearest_orthonormal(Z, reduction)
    assert G.shape == Z.shape
    torch.testing.assert_close(second_moment(G, reduction), eye)
    for size in (1.0, 0.01):  # it is its own nearest
        torch.testing.assert_close(nearest_orthonormal(size * G, reduction), G)
    if n == 3 and reduction == "sum":  # with fewer rows than columns the rows are orthonormal
        W = nearest_orthonormal(Z[:2], reduction)
        torch.testing.assert_close(W @ W.T, eye[:2, :2])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_other_orthonormal_is_nearer(reduction):
    (Z,) = clouds((8,))
    G = nearest_orthonormal(Z, reduction).numpy()
    radius = 1.0 if reduction == "sum" else 8**0.5
    random = np.random.default_rng(0)
    others = [np.linalg.qr(random.normal(size=(8, 3)))[0] * radius for _ in range(200)]
    # Far from Z nothing comes close; small turns of G itself are the harder rivals.
    for size in (1e-3, 0.01, 0.1):
        skew = random.normal(size=(50, 8, 8)) * size
        others += [expm(A - A.T) @ G for A in skew]
    assert min(distance(other, Z) for other in others) > distance(G, Z)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_constrained_clouds_meet_the_constraint_and_are_the_same_linear_map(reduction):
    Zs = clouds((40, 25, 30))
    found = constrain(Zs, reduction)
    assert orthogonality(found, reduction) < 1e-12
    A = torch.linalg.lstsq(Zs[0], found[0]).solution
    for Z, mapped in zip(Zs, found, strict=True):
        torch.testing.assert_close(Z @ A, mapped)
    others = [2 * Z + 1 for Z in Zs]  # of another replica
    stacked = constrain([torch.stack(both) for both in zip(Zs, others, strict=True)], reduction)
    each = zip(found, constrain(others, reduction), strict=True)
    torch.testing.assert_close(stacked, [torch.stack(both) for both in each])


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_directions_without_spread_stay_without_it_and_others_meet_the_constraint(reduction):
    Zs = clouds((10, 8))
    for Z in Zs:
        Z[:, 1] = 0.0
    found = constrain(Zs, reduction)
    M = sum(second_moment(Z, reduction) for Z in found)
    expected = torch.eye(Zs[0].shape[1], dtype=M.dtype)
    expected[1, 1] = 0.0
    torch.testing.assert_close(M, expected, atol=1e-6, rtol=0)
    assert all((Z[:, 1] == 0).all() for Z in found)
    ones = torch.ones(10, 3)
    assert all(torch.isfinite(Y).all() for Y in constrain([ones, 2 * ones], reduction))


def test_gradients_of_the_penalty_and_of_constraining():
    Zs, weights = [Z.requires_grad_() for Z in clouds((6, 5))], clouds((6, 5), seed=3)

    def value(*Zs):
        return sum((w * Z).sum() for w, Z in zip(weights, constrain(Zs, "mean"), strict=True))

    assert torch.autograd.gradcheck(value, Zs)
    for reduction in REDUCTIONS:
        assert torch.autograd.gradcheck(lambda *Zs, r=reduction: orthogonality(Zs, r), Zs)


@pytest.mark.parametrize(
    "make",
    (
        lambda: LSCCA(float("inf")),
        lambda: HOTPairwise(float("inf"), n_projections=6),
        lambda: HOTReference(3, 2, float("inf"), n_points=20, n_projections=6),
    ),
)
def test_an_infinite_weight_meets_the_constraint_instead_of_punishing(make):
    coupling, Zs = make(), [Z.float() for Z in clouds((20, 20, 20, 20))]

    def term(Zs):
        (_, value), *others = coupling(Zs, generator=torch.Generator().manual_seed(0)).parts.items()
        assert not others
        return value

    if coupling.reference_based:
        assert orthogonality(coupling.clouds(), "mean") < 1e-6
    else:  # no linear map of all latents changes what is compared
        torch.testing.assert_close(term([3 * Z for Z in Zs]), term(Zs))


def test_closed_forms():
    assert orthogonality([torch.eye(3)], "sum").item() == 0
    assert orthogonality([torch.eye(3) * 3**0.5], "mean").item() == pytest.approx(0, abs=1e-12)
    assert orthogonality([torch.zeros(5, 3)], "mean").item() == 3
    assert orthogonality([torch.eye(3), torch.eye(3)], "sum").item() == 3
    # The constraint is on the sum over clouds: one of them may vanish unseen.
    assert orthogonality([torch.eye(3), torch.zeros(4, 3)], "sum").item() == 0
