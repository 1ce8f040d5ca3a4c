"""Couplings by sliced costs, with equal weights and with those of a plan."""

import copy
from itertools import combinations
from math import lcm

import numpy as np
import ot
import pytest
import torch

from hotview.losses import LSCCA, HOTPairwise, HOTReference, Planner, SWPairwise, SWReference
from hotview.ot import draw_directions, sliced_cost

D, M, N = 3, 7, 12
FOUR = ((12, 12, 12, 12), (12, 8, 5, 20))


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def latents(sizes=(N,) * 5, seed=0):
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


KINDS_AND_SIZES = pytest.mark.parametrize(
    ("kind", "sizes", "reduction"),
    (
        *(("orthogonal", FOUR[0], "sum"), ("orthogonal", FOUR[1], "mean")),
        *(("iid", FOUR[0], "mean"), ("qmc", FOUR[1], "sum")),
    ),
)


def check_terms(terms, transport, clouds, reduction, rel=1e-6):
    assert list(terms.parts) == ["transport", "orthogonality"]
    assert terms["transport"].item() == pytest.approx(transport, rel=rel)
    assert terms["orthogonality"].item() == pytest.approx(0.25 * slow_penalty(clouds, reduction))


@KINDS_AND_SIZES
def test_sw_pairwise_is_equation_8_and_sw_reference_is_equation_9(sizes, kind, reduction):
    Zs, theta = latents(sizes), directions(kind)
    settings = {"n_projections": M, "projections": kind, "reduction": reduction}
    pairs = [slow_cost(Z, other, theta, reduction) for Z, other in combinations(Zs, 2)]
    terms = SWPairwise(0.25, **settings)(Zs, generator=seeded(4))
    check_terms(terms, np.mean(pairs), Zs, reduction)
    coupling = SWReference(D, 0.25, n_points=12, generator=seeded(), **settings).double()
    (G,) = coupling.references
    costs = [slow_cost(Z, G, theta, reduction) for Z in Zs]
    check_terms(coupling(Zs, generator=seeded(4)), np.mean(costs), [G], reduction)


@pytest.mark.parametrize(("sizes", "reduction"), (((5, 5, 5), "sum"), ((5, 3, 4), "mean")))
def test_gradients_of_latents_and_of_the_reference(sizes, reduction):
    Zs = [Z.requires_grad_() for Z in latents(sizes)]
    settings = {"n_projections": 4, "reduction": reduction}
    coupling = SWPairwise(0.25, **settings)
    assert torch.autograd.gradcheck(lambda *Zs: coupling(Zs, generator=seeded()).total, Zs)
    coupling = SWReference(D, 0.25, n_points=4, generator=seeded(), **settings).double()
    start = coupling.references.detach().clone().requires_grad_()

    def value(G, *Zs):
        arguments = (list(Zs),), {"generator": seeded()}
        return torch.func.functional_call(coupling, {"references": G}, *arguments).total

    assert torch.autograd.gradcheck(value, (start, *Zs[:2]))


@pytest.mark.parametrize(
    ("K", "reduction"), ((None, "mean"), (None, "sum"), (2, "sum"), (5, "mean"))
)
def test_references_begin_where_the_constraint_holds_on_average(K, reduction):
    moments = []
    for seed in range(200):
        options = {"n_points": 40, "reduction": reduction, "generator": seeded(seed)}
        coupling = SWReference(D, **options) if K is None else HOTReference(D, K, **options)
        G = coupling.references.detach().reshape(-1, D)
        moments.append(G.T @ G / (1 if reduction == "sum" else 40))
    # At worst 200 × 40 squares of Gaussians: a standard deviation of √(2 / 8,000) = 0.016.
    torch.testing.assert_close(torch.stack(moments).mean(0), torch.eye(D), rtol=0, atol=0.07)


def test_weights_add_up_to_one():
    C = torch.rand(4, 4)
    torch.testing.assert_close(SWPairwise().weights(C), (1 - torch.eye(4)) / 12)
    torch.testing.assert_close(SWReference(D).weights(C[:, :3]), torch.full((4, 3), 1 / 12))


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


# Proposition 1 of the paper, for the objectives that it compares: equations (8) and (9) are at most
# equations (1) and (2), in whatever order the rows of the views are.


@pytest.mark.parametrize(
    ("kind", "reduction"), (("orthogonal", "mean"), ("iid", "sum"), ("qmc", "mean"))
)
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


SIZES = ((12,) * 5, (12, 8, 5, 20, 12))


def cost(coupling, Zs, generator):
    """The sliced costs of a step with the directions of a generator."""
    theta = coupling.draw(Zs[0].shape[-1], generator).to(Zs[0])
    return sliced_cost(Zs, coupling.clouds(), directions=theta, reduction=coupling.reduction)


def pairwise(planner=None, reduction="mean"):
    return HOTPairwise(0.25, planner, n_projections=M, reduction=reduction)


def reference(planner=None, reduction="mean", K=3):
    return HOTReference(
        D, K, 0.25, planner, n_points=N, n_projections=M, reduction=reduction, generator=seeded(1)
    ).double()


def slow_costs(Zs, others, reduction, seed=4):
    theta = directions(seed=seed)
    return np.array([[slow_cost(Z, other, theta, reduction) for other in others] for Z in Zs])


def slow_plan(C, beta, pairwise):
    """Sinkhorn as the paper writes it, until it stands still."""
    kernel = np.exp(-C / beta)
    if pairwise:
        np.fill_diagonal(kernel, 0)
    S, K = C.shape
    u, v = np.ones(S), np.ones(K)
    for _ in range(5_000):
        u = (1 / S) / (kernel @ v)
        v = (1 / K) / (kernel.T @ u)
    return u[:, None] * kernel * v


def off_diagonal(C):
    return C[~np.eye(len(C), dtype=bool)]


SETTINGS = pytest.mark.parametrize(
    ("sizes", "reduction", "relative"),
    ((SIZES[0], "mean", False), (SIZES[0], "sum", True), (SIZES[1], "mean", True)),
)


@SETTINGS
def test_hot_pairwise_is_equation_10_and_hot_reference_is_equation_11(sizes, reduction, relative):
    Zs = latents(sizes)
    for coupling in (pairwise(reduction=reduction), reference(reduction=reduction)):
        others = list(coupling.references) if coupling.reference_based else Zs
        C = slow_costs(Zs, others, reduction)
        beta = 0.3 * (C if coupling.reference_based else off_diagonal(C)).mean()
        coupling.planner = Planner(0.3 if relative else beta, relative, 5000)
        terms = coupling(Zs, generator=seeded(4))
        W = slow_plan(C, beta, pairwise=not coupling.reference_based)
        np.testing.assert_allclose(coupling.plan.W, W, rtol=1e-4, atol=1e-6)
        check_terms(terms, np.sum(W * C), others, reduction, rel=1e-5)


@pytest.mark.parametrize("pairwise", (True, False))
def test_the_planner_against_another_solver(pairwise):
    C = torch.rand(6, 6 if pairwise else 3, generator=seeded(), dtype=torch.float64)
    C = C + C.T if pairwise else C
    masked = C.numpy().copy()
    if pairwise:
        np.fill_diagonal(masked, 1e6)
    a, b = (np.full(n, 1 / n) for n in C.shape)
    expected = ot.sinkhorn(
        a, b, masked, 0.2, method="sinkhorn_log", numItermax=10**5, stopThr=1e-12
    )
    plan = Planner(0.2, relative=False).solve(C, pairwise=pairwise)
    np.testing.assert_allclose(plan.W, expected, rtol=0, atol=1e-6)
    assert plan.converged
    if pairwise:
        assert torch.equal(plan.W.diagonal(), torch.zeros(6, dtype=torch.float64))


@pytest.mark.parametrize(("sizes", "reduction"), ((SIZES[0], "sum"), (SIZES[1], "mean")))
def test_one_reference_is_sw_reference(reduction, sizes):
    Zs = latents(sizes)
    hot = reference(reduction=reduction, K=1)
    sw = SWReference(
        D, 0.25, n_points=N, n_projections=M, reduction=reduction, generator=seeded(1)
    ).double()
    assert torch.equal(hot.references, sw.references)
    expected = sw(Zs, generator=seeded(4))
    found = hot(Zs, generator=seeded(4))
    for name, part in expected.parts.items():
        torch.testing.assert_close(found[name], part)
    grads = [
        torch.autograd.grad(t.total, m.references)[0] for t, m in ((found, hot), (expected, sw))
    ]
    torch.testing.assert_close(*grads)


@pytest.mark.parametrize(("sizes", "reduction"), ((SIZES[0], "mean"), (SIZES[1], "sum")))
def test_with_a_uniform_plan_it_is_sw_pairwise(reduction, sizes):
    Zs = latents(sizes)
    expected = SWPairwise(0.25, n_projections=M, reduction=reduction)(Zs, generator=seeded(4))
    found = pairwise(Planner(1e9), reduction)(Zs, generator=seeded(4))
    torch.testing.assert_close(found.total, expected.total)
    coupling = reference(Planner(1e9), reduction)
    C = slow_costs(Zs, list(coupling.references), reduction)  # which all count alike
    assert coupling(Zs, generator=seeded(4))["transport"].item() == pytest.approx(C.mean())
    free = pairwise(reduction=reduction)(Zs, generator=seeded(4))
    assert free["transport"] < 0.99 * expected["transport"]


@pytest.mark.parametrize("S", (2, 3))
def test_two_or_three_views_leave_the_plan_no_freedom(S):
    Zs = latents((12, 8, 20)[:S])
    coupling = pairwise(Planner(0.1))
    expected = SWPairwise(0.25, n_projections=M)(Zs, generator=seeded(4)).total
    torch.testing.assert_close(coupling(Zs, generator=seeded(4)).total, expected)
    weights = off_diagonal(coupling.plan.W.numpy())
    np.testing.assert_allclose(weights, 1 / (S * (S - 1)), rtol=1e-5)


def test_permuting_views_or_references_permutes_the_plan():
    Zs, order, swap = latents(SIZES[1]), [3, 0, 4, 2, 1], [2, 0, 1]
    first, second = reference(), reference()
    second.references.data = first.references.data[swap]
    first(Zs, generator=seeded(4))
    second([Zs[s] for s in order], generator=seeded(4))
    torch.testing.assert_close(second.plan.W, first.plan.W[order][:, swap])
    pairs, permuted = pairwise(), pairwise()
    pairs(Zs, generator=seeded(4))
    permuted([Zs[s] for s in order], generator=seeded(4))
    torch.testing.assert_close(permuted.plan.W, pairs.plan.W[order][:, order])


@pytest.mark.parametrize("make", (pairwise, reference))
@pytest.mark.parametrize("sizes", SIZES)
def test_the_plan_has_equal_marginals_and_is_held_fixed(make, sizes):
    Zs, coupling = [Z.requires_grad_() for Z in latents(sizes)], make()
    wanted = [*Zs, *coupling.parameters()]
    terms = coupling(Zs, generator=seeded(4))
    W = coupling.plan.W
    S, K = W.shape
    assert coupling.plan.converged
    np.testing.assert_allclose(W.sum(1), np.full(S, 1 / S), rtol=1e-5)
    np.testing.assert_allclose(W.sum(0), np.full(K, 1 / K), rtol=1e-5)
    assert not W.requires_grad
    found = torch.autograd.grad(terms["transport"], wanted)
    C = cost(coupling, Zs, seeded(4))
    for grad, expected in zip(
        found, torch.autograd.grad((W.detach() * C).sum(), wanted), strict=True
    ):
        assert torch.equal(grad, expected)


@pytest.mark.parametrize("make", (pairwise, reference))
def test_the_gradient_is_that_of_the_minimum_over_plans(make):
    # Envelope theorem: with the entropy counted, holding W fixed is exact.
    Zs = [Z.requires_grad_() for Z in latents((4,) * 5)]
    coupling = make(Planner(0.5, relative=False, decay=0))
    coupling.orthogonality_weight = 0.0
    found = torch.autograd.grad(coupling(Zs, generator=seeded(4)).total, Zs)
    steps = torch.linspace(-1, 1, 5 * 4 * D, dtype=torch.float64).reshape(5, 4, D)

    def minimum(h):
        C = cost(
            coupling, [Z.detach() + h * step for Z, step in zip(Zs, steps, strict=True)], seeded(4)
        )
        plan = Planner(0.5, relative=False).solve(C, pairwise=make is pairwise)
        return plan.value.item()

    h = 1e-4
    slope = (minimum(h) - minimum(-h)) / (2 * h)
    along = sum((grad * step).sum().item() for grad, step in zip(found, steps, strict=True))
    assert along == pytest.approx(slope, rel=1e-4)


@pytest.mark.parametrize(("make", "decay"), ((pairwise, 0.9), (reference, 0.5), (reference, 0.0)))
def test_costs_are_averaged_over_steps_before_the_plan(make, decay):
    coupling, generator = make(Planner(0.3, decay=decay)), seeded(4)
    mean = None
    for step in range(4):
        Zs = latents(seed=step)
        state = generator.get_state()
        terms = coupling(Zs, generator=generator)
        C = cost(coupling, Zs, torch.Generator().set_state(state)).detach()
        mean = C if mean is None else decay * mean + (1 - decay) * C
        torch.testing.assert_close(coupling.mean_cost, mean)
        W = Planner(0.3).solve(mean, pairwise=make is pairwise).W
        torch.testing.assert_close(coupling.plan.W, W)
        # The plan is that of the average, but what it weighs are the costs of this step.
        torch.testing.assert_close(terms["transport"].detach(), (W * C).sum())


@pytest.mark.parametrize("make", (pairwise, reference))
def test_evaluation_uses_the_average_and_does_not_change_it(make):
    coupling = make()
    coupling(latents(seed=0), generator=seeded(4))
    before = coupling.mean_cost.clone()
    coupling.eval()
    Zs = latents(seed=1)
    coupling(Zs, generator=seeded(4))
    assert torch.equal(coupling.mean_cost, before)
    blend = 0.9 * before + 0.1 * cost(coupling, Zs, seeded(4)).detach()
    torch.testing.assert_close(coupling.plan.C, blend)
    fresh = make().eval()
    fresh(Zs, generator=seeded(4))
    assert fresh.mean_cost is None
    coupling.train()(Zs[:4], generator=seeded(4))  # other views begin another average
    torch.testing.assert_close(coupling.mean_cost, cost(coupling, Zs[:4], seeded(4)))


@pytest.mark.parametrize("make", (pairwise, reference))
def test_state_can_be_saved_loaded_and_copied(make):
    trained = make()
    trained(latents(), generator=seeded(4))
    resumed, copied = make(), copy.deepcopy(trained)
    resumed.load_state_dict(trained.state_dict())
    Zs = latents(seed=1)
    expected = trained(Zs, generator=seeded(5)).total
    assert torch.equal(resumed(Zs, generator=seeded(5)).total, expected)
    assert torch.equal(copied(Zs, generator=seeded(5)).total, expected)
    trained.load_state_dict(make().state_dict())
    assert trained.mean_cost is None


def test_moving_one_view_by_v():
    (Z,) = latents((30,))
    v = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    coupling = SWPairwise(0.0, n_projections=2 * D)  # two orthonormal bases
    # One pair of three does not have the moved view in it; a basis sees ‖v‖² / d.
    total = coupling([Z, Z.flip(0), Z + v]).total.item()
    assert total == pytest.approx(2 / 3 * (v @ v).item() / D)


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
