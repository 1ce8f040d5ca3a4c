from itertools import combinations

import numpy as np
import pytest
import torch
from scipy.linalg import polar

from hotview.losses import DGCCA, LSCCA
from hotview.losses.objective import alignment_error

REDUCTIONS = ("mean", "sum")


def latents(S=4, n=9, d=3, seed=0):
    """Latents of the same individuals in all views: a common part and the view's own."""
    generator = torch.Generator().manual_seed(seed)

    def draw():
        return torch.randn(n, d, generator=generator, dtype=torch.float64)

    common = draw()
    return [common + 0.5 * draw() for _ in range(S)]


def slow_distance(Z, other, reduction):
    """‖Z − Z'‖²."""
    total = np.square(np.asarray(Z) - np.asarray(other)).sum()
    return total if reduction == "sum" else total / len(Z)


def slow_penalty(Zs, reduction):
    moments = [Z.numpy().T @ Z.numpy() / (1 if reduction == "sum" else len(Z)) for Z in Zs]
    return np.square(sum(moments) - np.eye(Zs[0].shape[1])).sum()


def slow_dgcca(Zs, reduction):
    """The minimum over G, which the polar factor of the mean latents attains."""
    radius = 1.0 if reduction == "sum" else len(Zs[0]) ** 0.5
    G = polar(np.mean([Z.numpy() for Z in Zs], axis=0))[0] * radius
    return np.mean([slow_distance(Z, G, reduction) for Z in Zs])


@pytest.mark.parametrize(("S", "reduction"), ((2, "sum"), (3, "mean"), (5, "sum"), (5, "mean")))
def test_lscca_is_equation_1_and_dgcca_is_equation_2(S, reduction):
    Zs = latents(S)
    terms = LSCCA(0.25, reduction=reduction)(Zs)
    pairs = [slow_distance(Z, other, reduction) for Z, other in combinations(Zs, 2)]
    assert terms["agreement"].item() == pytest.approx(np.mean(pairs))
    assert terms["orthogonality"].item() == pytest.approx(0.25 * slow_penalty(Zs, reduction))
    assert list(terms.parts) == ["agreement", "orthogonality"]
    for some in (Zs, Zs[:1]):
        terms = DGCCA(reduction=reduction)(some)
        assert terms["agreement"].item() == pytest.approx(slow_dgcca(some, reduction))
        assert list(terms.parts) == ["agreement"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_no_shared_g_gives_dgcca_a_lower_value(reduction):
    Zs = latents()
    value = DGCCA(reduction=reduction)(Zs).total.item()
    random = np.random.default_rng(0)
    radius = 1.0 if reduction == "sum" else 3.0
    for _ in range(100):
        G = np.linalg.qr(random.normal(size=(9, 3)))[0] * radius
        assert np.mean([slow_distance(Z, G, reduction) for Z in Zs]) > value


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("coupling", (LSCCA, DGCCA))
def test_gradient(coupling, reduction):
    # For DGCCA these are finite differences of the whole minimum, G found anew in each.
    Zs = [Z.requires_grad_() for Z in latents(3, n=5)]
    assert torch.autograd.gradcheck(lambda *Zs: coupling(reduction=reduction)(Zs).total, Zs)


def test_the_gradient_is_finite_where_that_of_a_decomposition_is_not():
    # The directions of equal singular values are arbitrary, and have no derivative.
    Zs = [torch.eye(3, dtype=torch.float64).mul(c).requires_grad_() for c in (2.0, 3.0)]
    DGCCA(reduction="sum")(Zs).total.backward()
    # Half of the squared distance from G = I, in each of two views.
    torch.testing.assert_close(Zs[0].grad, torch.eye(3, dtype=torch.float64))
    torch.testing.assert_close(Zs[1].grad, 2 * torch.eye(3, dtype=torch.float64))


@pytest.mark.parametrize("coupling", (LSCCA(), DGCCA()))
def test_latents_of_different_length_are_refused(coupling):
    Zs = latents()
    with pytest.raises(ValueError, match=r"aligned latents.*\[9, 8, 9, 9\] rows.*no alignment"):
        coupling([Zs[0], Zs[1][1:], *Zs[2:]])


def presence(n=9, S=4, seed=0):
    """Which views every individual has: all, some, one, or none."""
    return torch.rand(n, S, generator=torch.Generator().manual_seed(seed)) < 0.6


def slow_alignment_error(Zs, present):
    """Pair by pair of the views that an individual has, and column by column."""
    distances = []
    for i, own in enumerate(present.tolist()):
        for s, t in combinations([s for s, has in enumerate(own) if has], 2):
            distances.append(sum((x - y) ** 2 for x, y in zip(Zs[s][i], Zs[t][i], strict=True)))
    return float(sum(distances) / len(distances) / Zs[0].shape[1])


@pytest.mark.parametrize("S", (2, 5))
def test_the_alignment_error_is_the_mean_over_pairs_that_are_there(S):
    Zs, present = latents(S), presence(S=S)
    assert 0 < present.sum() < present.numel()
    expected = slow_alignment_error(Zs, present)
    assert alignment_error(Zs, present).item() == pytest.approx(expected)
    for Z, has in zip(Zs, present.T, strict=True):
        Z[~has] = 1e3  # of absent views, anything
    assert alignment_error(Zs, present).item() == pytest.approx(expected)
    other = latents(S, seed=1)  # of another member
    members = [torch.stack(views) for views in zip(Zs, other, strict=True)]
    found = alignment_error(members, torch.stack([present, presence(S=S, seed=1)]))
    again = slow_alignment_error(other, presence(S=S, seed=1))
    assert found.tolist() == pytest.approx([expected, again])
    per_column = LSCCA(0.0)(Zs)["agreement"] / 3
    torch.testing.assert_close(alignment_error(Zs, torch.ones_like(present)), per_column)


def test_the_alignment_error_has_a_gradient_for_the_views_that_are_there():
    Zs, present = [Z.requires_grad_() for Z in latents(3, n=5)], presence(5, 3)
    assert torch.autograd.gradcheck(lambda *Zs: alignment_error(Zs, present), Zs)
    alignment_error(Zs, present).backward()
    pairs = present & (present.sum(1, keepdim=True) > 1)
    for Z, has in zip(Zs, pairs.T, strict=True):
        assert torch.equal(Z.grad.abs().sum(1) > 0, has)
    Zs, nobody = [Z.requires_grad_() for Z in latents(3)], torch.eye(3, dtype=torch.bool)
    error = alignment_error(Zs, nobody.repeat(3, 1))  # without a pair
    error.backward()
    assert error.item() == 0
    assert all(Z.grad.abs().max() == 0 for Z in Zs)


def test_views_that_agree_cost_nothing():
    (Z,) = latents(1)
    assert LSCCA(0.0)([Z, Z, Z]).total.item() == 0
    G = torch.linalg.qr(Z).Q
    assert DGCCA(reduction="sum")([G, G]).total.item() == pytest.approx(0, abs=1e-12)
    assert DGCCA(reduction="mean")([G * 3, G * 3]).total.item() == pytest.approx(0, abs=1e-12)
    # Half the size is half of the radius away from G in each of the three columns.
    assert DGCCA(reduction="sum")([G / 2, G / 2]).total.item() == pytest.approx(3 / 4)


def test_moving_one_view_by_v_costs_its_square():
    (Z,) = latents(1)
    v = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    assert LSCCA(0.0)([Z, Z + v]).total.item() == pytest.approx((v @ v).item())
    assert LSCCA(0.0, reduction="sum")([Z, Z + v]).total.item() == pytest.approx(9 * (v @ v).item())
    # Of three pairs, two have the moved view in them.
    assert LSCCA(0.0)([Z, Z + v, Z]).total.item() == pytest.approx(2 / 3 * (v @ v).item())
