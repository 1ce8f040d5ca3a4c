import itertools

import numpy as np
import ot
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

from hotview.ot import draw_directions, sliced_cost
from hotview.ot.sliced import random_sliced_cost

SIZES = [(40, 40, 40), (40, 25, 40), (40, 25, 7)]
DEVICES = ["cpu"] + ["cuda"] * torch.cuda.is_available()


def clouds(sizes, d=4, dtype=torch.float64, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(n, d, generator=generator, dtype=dtype) * (1 + i) + i
        for i, n in enumerate(sizes)
    ]


def directions(M=6, d=4, dtype=torch.float64, seed=0):
    return draw_directions(M, d, generator=torch.Generator().manual_seed(seed), dtype=dtype)


def pot(X, Y, theta, p, a=None, b=None):
    if X is Y:
        return 0.0
    distance = ot.sliced_wasserstein_distance(X, Y, a, b, projections=theta.T, p=p)
    return float(distance**p)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("p", (1, 2, 3))
def test_equals_pot(sizes, p, device):
    Zs, theta = clouds(sizes), directions()
    expected = torch.tensor([[pot(X, Y, theta, p) for Y in Zs] for X in Zs], dtype=torch.float64)
    Zs, theta = [Z.to(device) for Z in Zs], theta.to(device)
    C = sliced_cost(Zs, directions=theta, p=p)
    torch.testing.assert_close(C.cpu(), expected)
    assert C.device == Zs[0].device
    assert torch.equal(C, C.T)
    assert torch.equal(C.diagonal(), torch.zeros_like(C.diagonal()))
    of_others = sliced_cost(Zs[:1], Zs[1:], directions=theta, p=p)
    torch.testing.assert_close(of_others.cpu(), expected[:1, 1:])


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("p", (1, 2))
def test_equals_pot_weighted(sizes, p):
    Zs, theta = clouds(sizes), directions()
    generator = torch.Generator().manual_seed(5)
    ws = [torch.rand(n, generator=generator, dtype=torch.float64) for n in sizes]
    ws[1] = None
    full = [
        torch.ones(n, dtype=torch.float64) if w is None else w
        for n, w in zip(sizes, ws, strict=True)
    ]
    unit = [w / w.sum() for w in full]
    expected = torch.tensor(
        [
            [pot(X, Y, theta, p, a, b) for Y, b in zip(Zs, unit, strict=True)]
            for X, a in zip(Zs, unit, strict=True)
        ],
        dtype=torch.float64,
    )
    torch.testing.assert_close(sliced_cost(Zs, directions=theta, p=p, weights=ws), expected)
    C = sliced_cost(Zs[:2], Zs[2:], directions=theta, p=p, weights=ws)
    torch.testing.assert_close(C, expected[:2, 2:])


def test_a_weight_is_a_repeated_point():
    (Z, Y), theta = clouds((6, 11)), directions()
    counts = torch.tensor([1, 3, 1, 0, 2, 4])
    repeated = sliced_cost([Z.repeat_interleave(counts, 0)], [Y], directions=theta)
    weighted = sliced_cost([Z], [Y], directions=theta, weights=[counts.double(), None])
    torch.testing.assert_close(weighted, repeated)


def test_equals_assignment_in_one_dimension():
    X, Y = clouds((15, 15), d=1)
    cost = cdist(X, Y, "sqeuclidean")
    best = cost[linear_sum_assignment(cost)].mean()
    C = sliced_cost([X], [Y], directions=torch.ones(1, 1, dtype=torch.float64))
    assert C.item() == pytest.approx(best)


# Proposition 1 of the paper: min over permutations P of ‖Z₁P − Z₂‖² is at least the sliced cost,
# here with the paper's scale, sums over points.


def best_permutation(X, Y):
    """Smallest sum of squared distances over all permutations, one by one."""
    cost = cdist(X, Y, "sqeuclidean")
    rows = range(len(X))
    return min(cost[rows, list(order)].sum() for order in itertools.permutations(rows))


@pytest.mark.parametrize("d", (1, 2, 4))
def test_sorting_is_the_best_permutation_of_every_direction(d):
    """Both sides of equation (7), by all 120 permutations."""
    (X, Y), theta = clouds((5, 5), d=d), directions(M=3, d=d)
    by_direction = [best_permutation(X @ t[:, None], Y @ t[:, None]) for t in theta]
    C = sliced_cost([X], [Y], directions=theta, reduction="sum")
    assert C.item() == pytest.approx(np.mean(by_direction), rel=1e-12)


@pytest.mark.parametrize(
    ("kind", "d", "M"),
    (("orthogonal", 1, 4), ("orthogonal", 5, 50), ("iid", 2, 1), ("iid", 5, 4), ("qmc", 2, 50)),
)
def test_proposition_1(kind, d, M):
    X, Y = clouds((6, 6), d=d, seed=M)
    best = best_permutation(X, Y)
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        theta = draw_directions(M, d, kind=kind, generator=generator, dtype=torch.float64)
        cost = sliced_cost([X], [Y], directions=theta, reduction="sum").item()
        assert cost <= best * (1 + 1e-12)
        if d == 1:  # then both are the same problem
            assert cost == pytest.approx(best)


def test_the_bound_of_proposition_1_is_attained_and_needs_unit_directions():
    """A cloud moved by v: the best permutation costs N‖v‖², a direction θ costs N⟨θ, v⟩²."""
    (X,), v = clouds((6,)), torch.tensor([1.0, -2.0, 2.0, 4.0], dtype=torch.float64)
    best = best_permutation(X, X + v)
    assert best == pytest.approx(6 * 25)
    for theta, share in ((v[None] / 5, 1.0), (directions(M=8), 1 / 4), (2 * v[None] / 5, 4.0)):
        C = sliced_cost([X], [X + v], directions=theta, reduction="sum")
        assert C.item() == pytest.approx(share * best)


@pytest.mark.parametrize("d", (2, 5))
def test_orthogonal_bases_lower_the_bound_of_proposition_1_by_the_dimension(d):
    """Then ‖ΘᵀA‖² of the proof is M / d ‖A‖², where the paper has M ‖A‖²."""
    X, Y = clouds((6, 6), d=d)
    for seed in range(10):
        C = sliced_cost([X], [Y], directions=directions(M=3 * d, d=d, seed=seed), reduction="sum")
        assert C.item() <= best_permutation(X, Y) / d * (1 + 1e-12)


def test_diracs():
    x, y = torch.tensor([[1.0, 2.0]]), torch.tensor([[4.0, 6.0]])
    theta = torch.eye(2)
    assert sliced_cost([x], [y], directions=theta).item() == pytest.approx(25 / 2)
    assert sliced_cost([x], [y], directions=theta, p=1).item() == pytest.approx(7 / 2)
    # One Dirac against two: half of the mass goes to each.
    two = torch.tensor([[1.0, 2.0], [5.0, 2.0]])
    assert sliced_cost([x], [two], directions=theta[:1]).item() == pytest.approx(8)


@pytest.mark.parametrize("sizes", ((20_000, 20_000), (20_000, 15_000)))
def test_gaussians(sizes):
    # W₂² of N(m, s²) and N(m', s'²) is (m − m')² + (s − s')².
    quantiles = [
        torch.special.ndtri((torch.arange(n, dtype=torch.float64) + 0.5) / n).unsqueeze(1)
        for n in sizes
    ]
    X, Y = 3 + 2 * quantiles[0], -1 + 0.5 * quantiles[1]
    C = sliced_cost([X], [Y], directions=torch.ones(1, 1, dtype=torch.float64))
    assert C.item() == pytest.approx(16 + 2.25, rel=1e-3)


@pytest.mark.parametrize(
    ("shift", "sizes"),
    ((0.0, (40_000, 40_000)), (1e3, (1000, 1000)), (1e5, (1000, 900)), (1e5, (40_000, 40_000))),
)
def test_float32_keeps_its_digits_far_from_the_origin(shift, sizes):
    generator = torch.Generator().manual_seed(0)
    Z = torch.randn(sizes[0], 3, generator=generator)
    Y = (Z + 0.05 * torch.randn(Z.shape, generator=generator))[: sizes[1]]
    Zs, theta = [Z + shift, Y + shift], directions(6, 3, dtype=torch.float32)
    exact = sliced_cost([Z.double() for Z in Zs], directions=theta.double())
    torch.testing.assert_close(sliced_cost(Zs, directions=theta).double(), exact, rtol=1e-5, atol=0)


def test_weights_changed_after_the_forward_pass_change_nothing_and_inputs_are_left_alone():
    grads = []
    for later in (1.0, 7.0):
        (X, Y), w, theta = clouds((6, 5)), torch.arange(1.0, 7.0), directions()
        copies = [x.clone() for x in (X, Y, theta, w)]
        C = sliced_cost([X.requires_grad_()], [Y], directions=theta, weights=[w, None])
        assert all(map(torch.equal, copies, (X, Y, theta, w)))
        w[0] = later
        C.sum().backward()
        assert all(map(torch.equal, copies[:3], (X, Y, theta)))
        assert Y.grad is None
        grads.append(X.grad)
    assert torch.equal(*grads)


def test_moving_one_cloud_by_v():
    (Z,) = clouds((30,))
    v = torch.tensor([1.0, -2.0, 0.5, 3.0], dtype=torch.float64)
    theta = directions(M=8)  # two orthonormal bases
    C = sliced_cost([Z, Z + v], directions=theta)
    assert C[0, 1].item() == pytest.approx((v @ v).item() / 4)


@pytest.mark.parametrize("sizes", SIZES)
def test_neither_the_order_of_points_nor_a_common_move_matters_and_scales_are_squared(sizes):
    Zs, theta = clouds(sizes), directions()
    C = sliced_cost(Zs, directions=theta)
    moved = [Z[torch.randperm(len(Z))] + 1000.0 for Z in Zs]
    torch.testing.assert_close(sliced_cost(moved, directions=theta), C)
    torch.testing.assert_close(sliced_cost([3 * Z for Z in Zs], directions=theta), 9 * C)
    n = torch.tensor(sizes, dtype=torch.float64)
    points = torch.minimum(n.unsqueeze(1), n)
    torch.testing.assert_close(sliced_cost(Zs, directions=theta, reduction="sum"), points * C)


@pytest.mark.parametrize(
    ("sizes", "p", "weighted", "pairwise"),
    (
        *(((5, 5, 5), 1.5, False, True), ((5, 5, 5), 2, False, False), ((4, 4, 4), 3, True, True)),
        *(((5, 3, 5), 2, False, True), ((5, 3, 5), 1.5, True, False)),
        *(((4, 3, 2), 3, False, False), ((4, 3, 2), 2, True, True)),
    ),
)
def test_gradcheck(sizes, p, weighted, pairwise):
    Zs = [Z.requires_grad_() for Z in clouds(sizes, d=3)]
    theta = directions(M=2, d=3).requires_grad_()
    ws = [torch.rand(n, dtype=torch.float64) + 0.1 for n in sizes] if weighted else None

    def cost(theta, *Zs):
        first, second = (Zs, None) if pairwise else (Zs[:2], Zs[2:])
        return sliced_cost(first, second, directions=theta, p=p, weights=ws)

    assert torch.autograd.gradcheck(cost, (theta, *Zs))


@pytest.mark.parametrize("n", (400, 3000, 40_000))
@pytest.mark.parametrize("device", DEVICES)
def test_float32_gradient_against_float64(n, device):
    theta = directions(M=3, dtype=torch.float32).to(device)
    grads = []
    for dtype in (torch.float32, torch.float64):
        Zs = [Z.to(device, dtype).requires_grad_() for Z in clouds((n, n, n), dtype=torch.float32)]
        sliced_cost(Zs, directions=theta.to(dtype))[0].sum().backward()
        grads.append(torch.cat([Z.grad for Z in Zs]).double())
    assert ((grads[0] - grads[1]).norm() / grads[1].norm()).item() < 1e-4


def test_gradient_is_finite_and_zero_where_clouds_coincide():
    (Z,) = clouds((20,))
    X, Y = Z.clone().requires_grad_(), Z.clone().requires_grad_()
    C = sliced_cost([X, Y], directions=directions())
    assert C.sum().item() == 0
    C.sum().backward()
    torch.testing.assert_close(X.grad, torch.zeros_like(X), rtol=0, atol=1e-15)


@settings(max_examples=25, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 30), min_size=1, max_size=5),
    d=st.integers(1, 5),
    M=st.integers(1, 7),
    scale=st.floats(-6, 6),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_scale(sizes, d, M, scale, seed):
    Zs = [Z * 10**scale for Z in clouds(sizes, d=d, seed=seed)]
    theta = directions(M, d, seed=seed)
    C = sliced_cost(Zs, directions=theta)
    for i, X in enumerate(Zs):
        for j, Y in enumerate(Zs):
            assert C[i, j].item() == pytest.approx(pot(X, Y, theta, 2), rel=1e-9)


def many(sizes, seed):
    """Three problems at once: leading dimensions of clouds and directions."""
    generator = torch.Generator().manual_seed(seed)
    Zs = [torch.randn(3, n, 4, generator=generator, dtype=torch.float64) * 2 for n in sizes]
    return Zs, torch.stack([directions(seed=seed + r) for r in range(3)])


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    ("sizes", "p", "reduction", "n_references"),
    (
        *((SIZES[0], 2, "mean", None), (SIZES[0], 3, "sum", 2), (SIZES[1], 1, "mean", None)),
        *((SIZES[1], 2, "sum", None), (SIZES[2], 2, "mean", 2), (SIZES[2], 3, "sum", None)),
        *(((900, 900, 900), 2, "sum", None), ((900, 900, 900), 1, "mean", 2)),
    ),
)
def test_problems_solved_together_are_as_if_alone(sizes, p, reduction, n_references, device):
    Zs, theta = many(sizes, 0)
    Gs = None if n_references is None else many((sizes[0],) * n_references, 5)[0]
    leaves = [X.to(device).requires_grad_() for X in [*Zs, *(Gs or []), theta]]
    Zs, Gs, theta = leaves[:3], None if Gs is None else leaves[3:-1], leaves[-1]
    options = {"p": p, "reduction": reduction}
    together = sliced_cost(Zs, Gs, directions=theta, **options)
    alone = [
        sliced_cost([Z[r] for Z in Zs], Gs and [G[r] for G in Gs], directions=theta[r], **options)
        for r in range(3)
    ]
    torch.testing.assert_close(together, torch.stack(alone))
    if Gs is None and p != 3:
        mass = [torch.rand(3, sizes[0]).to(device), None, None]
        weighted = sliced_cost(Zs, directions=theta, weights=mass, **options)
        mass[0] = mass[0][1]
        one = sliced_cost([Z[1] for Z in Zs], directions=theta[1], weights=mass, **options)
        torch.testing.assert_close(weighted[1], one)
    weight = torch.linspace(-1, 2, together.numel(), dtype=torch.float64, device=device)
    grads = [
        torch.autograd.grad((C * weight.view_as(together)).sum(), leaves)
        for C in (together, torch.stack(alone))
    ]
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b)


def test_random_costs_are_those_on_the_directions_of_the_generator():
    Zs = [torch.randn(20, 3, dtype=torch.float64) for _ in range(3)]
    theta = draw_directions(6, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    C = random_sliced_cost(Zs[:2], Zs[2:], n_bases=2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(C, sliced_cost(Zs[:2], Zs[2:], directions=theta), rtol=0, atol=0)
    one = random_sliced_cost(Zs[:1], Zs[2:], n_bases=2, generator=torch.Generator().manual_seed(1))
    torch.testing.assert_close(one, C[:1])


@pytest.mark.parametrize("sizes", SIZES)
def test_the_gradient_in_directions_keeps_its_digits_far_from_the_origin(sizes):
    """No common translation changes it, so that of float32 clouds is computed near the origin."""
    theta, Zs = directions(), [(Z + 1e5).float() for Z in clouds(sizes)]
    grads = []
    for dtype in (torch.float32, torch.float64):
        x = theta.to(dtype).requires_grad_()
        sliced_cost([Z.to(dtype) for Z in Zs], directions=x).sum().backward()
        grads.append(x.grad.double())
    torch.testing.assert_close(*grads, rtol=1e-3, atol=1e-3 * grads[1].abs().max().item())
