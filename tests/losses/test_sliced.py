from itertools import combinations
from math import lcm

import numpy as np
import pytest
import torch

from hotview.losses import LSCCA, HOTPairwise, SWPairwise, SWReference
from hotview.ot import draw_directions

REDUCTIONS = ("mean", "sum")
KINDS = ("orthogonal", "iid", "qmc")
SIZES = ((12, 12, 12, 12), (12, 8, 5, 20))
D, M = 3, 7


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def latents(sizes, seed=0):
    generator = seeded(seed)
    return [
        torch.randn(n, D, generator=generator, dtype=torch.float64) * (1 + s / 3) + s / 5
        for s, n in enumerate(sizes)
    ]


def directions(kind="orthogonal", seed=4):
    return draw_directions(M, D, kind=kind, generator=seeded(seed), dtype=torch.float64).numpy()


def slow_cost(Z, other, theta, reduction):
    """Equation (7). Clouds of different size are repeated until they have the same."""
    Z, other = Z.detach().numpy(), other.detach().numpy()
    n = lcm(len(Z), len(other))
    total = 0.0
    for direction in theta:
        x = np.repeat(np.sort(Z @ direction), n // len(Z))
        y = np.repeat(np.sort(other @ direction), n // len(other))
        total += np.mean((x - y) ** 2)
    return total / len(theta) * (min(len(Z), len(other)) if reduction == "sum" else 1)


def slow_penalty(clouds, reduction):
    clouds = [Z.detach().numpy() for Z in clouds]
    moments = [Z.T @ Z / (1 if reduction == "sum" else len(Z)) for Z in clouds]
    return np.square(sum(moments) - np.eye(D)).sum()


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sw_pairwise_is_equation_8(sizes, kind, reduction):
    Zs, theta = latents(sizes), directions(kind)
    coupling = SWPairwise(0.25, n_projections=M, projections=kind, reduction=reduction)
    terms = coupling(Zs, generator=seeded(4))
    pairs = [slow_cost(Z, other, theta, reduction) for Z, other in combinations(Zs, 2)]
    assert len(pairs) == 6
    assert terms["transport"].item() == pytest.approx(np.mean(pairs))
    assert terms["orthogonality"].item() == pytest.approx(0.25 * slow_penalty(Zs, reduction))
    assert list(terms.parts) == ["transport", "orthogonality"]


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sw_reference_is_equation_9(sizes, kind, reduction):
    Zs, theta = latents(sizes), directions(kind)
    coupling = SWReference(
        D,
        0.25,
        n_points=12,
        n_projections=M,
        projections=kind,
        reduction=reduction,
        generator=seeded(),
    ).double()
    terms = coupling(Zs, generator=seeded(4))
    (G,) = coupling.references
    costs = [slow_cost(Z, G, theta, reduction) for Z in Zs]
    assert terms["transport"].item() == pytest.approx(np.mean(costs))
    assert terms["orthogonality"].item() == pytest.approx(0.25 * slow_penalty([G], reduction))
    assert list(terms.parts) == ["transport", "orthogonality"]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("sizes", ((5, 5, 5), (5, 3, 4)))
def test_gradient_of_sw_pairwise(sizes, reduction):
    Zs = [Z.requires_grad_() for Z in latents(sizes)]
    coupling = SWPairwise(0.25, n_projections=4, reduction=reduction)
    assert torch.autograd.gradcheck(lambda *Zs: coupling(Zs, generator=seeded()).total, Zs)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_gradient_of_sw_reference_reaches_the_reference(reduction):
    Zs = [Z.requires_grad_() for Z in latents((5, 3))]
    options = {"n_points": 4, "n_projections": 4, "reduction": reduction, "generator": seeded()}
    coupling = SWReference(D, 0.25, **options).double()
    start = coupling.references.detach().clone().requires_grad_()

    def value(G, *Zs):
        arguments = (list(Zs),), {"generator": seeded()}
        return torch.func.functional_call(coupling, {"references": G}, *arguments).total

    assert torch.autograd.gradcheck(value, (start, *Zs))


def test_moving_one_view_by_v():
    (Z,) = latents((30,))
    v = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    coupling = SWPairwise(0.0, n_projections=2 * D)  # two orthonormal bases
    # One pair of three does not have the moved view in it; a basis sees ‖v‖² / d.
    total = coupling([Z, Z.flip(0), Z + v]).total.item()
    assert total == pytest.approx(2 / 3 * (v @ v).item() / D)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_references_begin_where_the_constraint_holds_on_average(reduction):
    moments = []
    for seed in range(300):
        G = (
            SWReference(D, n_points=40, reduction=reduction, generator=seeded(seed))
            .references[0]
            .detach()
        )
        moments.append(G.T @ G / (1 if reduction == "sum" else 40))
    # A mean of 300 × 40 squares of Gaussians has a standard deviation of √(2 / 12,000) = 0.013.
    torch.testing.assert_close(torch.stack(moments).mean(0), torch.eye(D), rtol=0, atol=0.06)


def test_references_are_drawn_from_the_generator():
    first, same, other = (
        SWReference(D, n_points=5, generator=seeded(s)).references for s in (3, 3, 4)
    )
    assert torch.equal(first, same)
    assert not torch.equal(first, other)
    assert first.shape == (1, 5, D)
    assert first.dtype == torch.float32


def test_a_reference_learns_to_be_the_mean_of_distributions():
    # In one dimension the reference that is nearest to two clouds has the mean of their quantiles,
    # and the cost is a parabola with slope 2 / n in each of its points: one step of n / 2 is there.
    x, y = (Z[:, :1].float() for Z in latents((10, 10)))
    coupling = SWReference(1, 0.0, n_points=10, n_projections=1, generator=seeded())
    optimizer = torch.optim.SGD(coupling.parameters(), 10 / 2)
    coupling([x, y]).total.backward()
    optimizer.step()
    found = coupling.references[0].detach().sort(0).values
    torch.testing.assert_close(found, (x.sort(0).values + y.sort(0).values) / 2)


def test_weights_add_up_to_one():
    C = torch.rand(4, 4)
    W = SWPairwise().weights(C)
    assert W.sum().item() == pytest.approx(1)
    assert W.diagonal().tolist() == [0, 0, 0, 0]
    assert SWReference(D).weights(C[:, :1]).flatten().tolist() == [0.25] * 4
    assert SWReference(D).weights(C[:, :3]).sum().item() == pytest.approx(1)


@pytest.mark.parametrize("kind", (SWPairwise, HOTPairwise))
def test_only_a_solver_that_waits_for_its_result_is_called_from_outside(kind):
    """The capture of a step on a GPU is interrupted where weights are solved for."""
    coupling, calls = kind(), []

    def outside(solve, C):
        calls.append(C)
        return solve(C)

    expected = kind()(latents((6, 5)), generator=seeded()).total
    coupling.outside = outside
    assert coupling(latents((6, 5)), generator=seeded()).total == expected
    assert len(calls) == (kind is HOTPairwise)


def test_an_unknown_scale_is_refused():
    with pytest.raises(ValueError, match="'mean', 'sum'"):
        SWPairwise(reduction="max")(latents((5, 5)))


# Proposition 1 of the paper, for the objectives that it compares: equations (8) and (9) are at most
# equations (1) and (2), in whatever order the rows of the views are.


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_sliced_objectives_are_lower_bounds_of_aligned_ones(kind, reduction):
    Zs = latents((12, 12, 12, 12))
    settings = {"n_projections": M, "projections": kind, "reduction": reduction}
    pairwise, aligned = SWPairwise(0.0, **settings), LSCCA(0.0, reduction=reduction)
    reference = SWReference(D, 0.0, n_points=12, generator=seeded(), **settings).double()
    G = reference.references[0]
    sliced = [coupling(Zs, generator=seeded(4))["transport"] for coupling in (pairwise, reference)]
    for seed in range(10):
        orders = [torch.randperm(12, generator=seeded(10 * seed + s)) for s in range(4)]
        shuffled = [Z[order] for Z, order in zip(Zs, orders, strict=True)]
        assert sliced[0] <= aligned(shuffled)["agreement"]
        distances = torch.stack([(Z - G).square().sum() for Z in shuffled])
        assert sliced[1] <= distances.mean() / (12 if reduction == "mean" else 1)
