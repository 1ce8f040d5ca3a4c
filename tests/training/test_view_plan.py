from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.stats import ortho_group
from torch import nn

from hotview.datasets import make_views
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import draw_directions, sinkhorn, sliced_cost
from hotview.training.batches import ShuffledIndices, TrainingRows
from hotview.training.view_plan import (
    PermutationNull,
    ViewPlan,
    draw_null,
    match_columns,
    plan_views,
    solve_mean_plan,
)
from tests.training.small_training import as_rows, seeded

D = 2
PLANNER = Planner(0.3)
SIZES = (60, 45, 30, 60)


def make_tables(sizes=SIZES, n_columns=3):
    random = np.random.default_rng(0)
    return [
        (random.normal(size=(n, n_columns)) * (1 + s / 2) + s).astype(np.float32)
        for s, n in enumerate(sizes)
    ]


def make_data(tables):
    return TrainingRows([as_rows(X) for X in tables], np.empty((0, len(tables)), dtype=np.int64))


def make_network(tables, d=D):
    """Encoders that do nothing, and random maps into the common space."""
    torch.manual_seed(0)
    maps = [nn.Linear(X.shape[1], d, bias=False) for X in tables]
    return MultiViewNetwork([nn.Identity() for _ in tables], maps).eval()


def plan(tables, coupling=None, planner=PLANNER, *, reduction="mean", batch_size=20, network=None):
    return plan_views(
        network or make_network(tables),
        coupling or HOTPairwise(),
        make_data(tables),
        planner,
        random=np.random.default_rng(1),
        reduction=reduction,
        batch_size=batch_size,
        generator=seeded(),
    )


def cost_of(network, Xs, generator, references=None, reduction="mean"):
    Zs = network.latents([torch.from_numpy(X) for X in Xs])
    d = Zs[0].shape[1]
    theta = draw_directions(10 * d, d, generator=generator)
    return sliced_cost(Zs, references, directions=theta, reduction=reduction).detach()


@pytest.mark.parametrize("referenced", (False, True))
def test_means_over_all_rows_are_the_sliced_cost_of_all_rows(referenced):
    tables, network = make_tables(), make_network(make_tables())
    coupling = HOTReference(D, 3, n_points=25) if referenced else HOTPairwise()
    found, again = (plan(tables, coupling, network=network) for _ in range(2))
    references = list(coupling.references) if referenced else None
    expected = cost_of(make_network(tables), tables, seeded(), references)
    np.testing.assert_allclose(found.C, expected, rtol=1e-5)
    W = PLANNER.solve(expected, pairwise=not referenced).W
    np.testing.assert_allclose(found.W, W, rtol=1e-5)
    assert found.pairwise != referenced
    assert found.converged
    assert found.null is None
    assert np.array_equal(again.W, found.W)
    for p, old in zip(network.parameters(), make_network(tables).parameters(), strict=True):
        assert torch.equal(p, old)  # the network is left alone
        assert p.grad is None


def test_a_plan_has_the_numbers_of_that_of_tensors():
    plan = PLANNER.solve(torch.tensor(COST), pairwise=False)
    found = ViewPlan.of(plan)
    for name in ("cost", "entropy", "value", "marginal_error"):
        assert getattr(found, name) == pytest.approx(float(getattr(plan, name)))
    assert found.view_labels().labels.tolist() == plan.view_labels().labels.tolist()
    assert repr(found).startswith("ViewPlan(5 × 3, reg=")


def test_in_several_rounds_sums_over_batches_are_averaged():
    tables = make_tables((60, 45, 30, 12))
    found = plan(tables, reduction="sum", batch_size=20)
    network, generator, random = make_network(tables), seeded(), np.random.default_rng(1)
    streams = [ShuffledIndices(len(X), 20, random) for X in tables]
    costs = []
    for _ in range(3):  # 60 rows, 20 at a time
        some = [X[stream.next_batch()] for X, stream in zip(tables, streams, strict=True)]
        assert [len(X) for X in some] == [20, 20, 20, 12]
        costs.append(cost_of(network, some, generator, reduction="sum"))
    np.testing.assert_allclose(found.C, torch.stack(costs).mean(0), rtol=1e-5)


COST = [[0.1, 0.6, 0.9], [0.2, 0.5, 0.8], [0.9, 0.1, 0.7], [0.6, 0.4, 0.1], [0.5, 0.6, 0.3]]


def solved(C, *, pairwise=False):
    C = torch.as_tensor(np.array(C, dtype=np.float32))
    return ViewPlan.of(PLANNER.solve(C, pairwise=pairwise))


def turned(plan, order):
    return replace(plan, W=plan.W[:, order], C=plan.C[:, order], g=plan.g[order])


def noisy_costs(n=5, noise=0.1, seed=0):
    random = np.random.default_rng(seed)
    return [np.array(COST) + noise * random.normal(size=(5, 3)) for _ in range(n)]


def test_neither_constants_of_rows_and_columns_nor_a_first_member_of_noise_spoil_the_matching():
    C = np.array(COST)
    shifted = C[:, [2, 0, 1]] + [[0.0], [9.0], [1.0], [0.0], [5.0]] + [3.0, 0.0, 8.0]
    assert match_columns([solved(C), solved(shifted)])[1].tolist() == [1, 2, 0]
    noise = np.random.default_rng(0).normal(size=(5, 3))
    first, *rest = match_columns([solved(C) for C in (noise, *noisy_costs(6))])
    assert first.tolist() == [0, 1, 2]
    assert len({tuple(order) for order in rest}) == 1


def test_views_have_an_order_that_is_kept():
    C = np.abs(np.subtract.outer(np.arange(4.0), np.arange(4.0)))
    pairs = solved(C, pairwise=True)
    other = solved(C[::-1, ::-1] ** 2, pairwise=True)
    assert pairs.pairwise
    assert [order.tolist() for order in match_columns([pairs, other])] == [[0, 1, 2, 3]] * 2
    assert [order.tolist() for order in match_columns([solved([[1.0], [2.0]])] * 2)] == [[0], [0]]


@pytest.mark.parametrize("pairwise", (False, True))
def test_the_plan_over_mean_costs_of_equal_members_is_that_of_each(pairwise, null):
    C = np.abs(np.subtract.outer(np.arange(5.0) ** 2, np.arange(5.0) ** 2)) if pairwise else COST
    plan = replace(solved(C, pairwise=pairwise), null=null)
    assert solve_mean_plan([plan], Planner(0.7)) is plan
    found = solve_mean_plan([plan] * 3, PLANNER)
    for name in ("W", "C", "f", "g"):
        assert np.array_equal(getattr(found, name), getattr(plan, name))
        assert getattr(found, name).dtype == getattr(plan, name).dtype
    assert found.pairwise == pairwise
    assert (found.n_iter, found.reg, found.null) == (plan.n_iter, plan.reg, plan.null)
    assert (found.std == 0).all()


def test_the_order_of_a_members_references_does_not_matter():
    plans = [solved(C) for C in noisy_costs(noise=0.3)]
    expected = solve_mean_plan(plans, PLANNER)
    orders = [np.random.default_rng(seed).permutation(3) for seed in range(4)]
    plans[1:] = [turned(p, order) for p, order in zip(plans[1:], orders, strict=True)]
    found = solve_mean_plan(plans, PLANNER)
    for name in ("W", "C", "f", "g", "std"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))


def test_costs_are_averaged_and_then_solved_as_by_pot():
    ot = pytest.importorskip("ot")
    costs = noisy_costs()
    plans = [solved(C) for C in costs]
    found = solve_mean_plan(plans, PLANNER)
    mean = torch.from_numpy(np.mean(costs, axis=0))
    np.testing.assert_allclose(found.C, mean, rtol=1e-6)
    expected = sinkhorn(mean, reg=0.3, relative=True)
    np.testing.assert_allclose(found.W, expected.W, rtol=1e-4)
    np.testing.assert_allclose(found.f, expected.f, atol=1e-5)
    assert found.converged
    assert found.reg == pytest.approx(0.3 * mean.mean().item())
    Ws = np.stack([plan.W for plan in plans])
    np.testing.assert_allclose(found.std, Ws.std(axis=0, ddof=1), rtol=1e-6)
    assert np.abs(found.W - Ws.mean(axis=0)).max() > 1e-3  # the mean plan is another
    a, b = np.full(5, 1 / 5), np.full(3, 1 / 3)
    expected = ot.sinkhorn(a, b, found.C.astype(np.float64), found.reg, stopThr=1e-12)
    np.testing.assert_allclose(found.W, expected, atol=1e-6)


NULL_PLANNER = Planner(0.1)


def draw(views, n_components=4, seed=0):
    rows, random = [as_rows(X) for X in views], np.random.default_rng(seed)
    return draw_null(rows, n_components, NULL_PLANNER, random, seeded(seed))


def planted(n=400, seed=0, **how):
    return list(make_views(n, n_views=6, n_groups=2, random_state=seed, **how).views.values())


def junk(n=150, seed=0, n_views=6):
    views = make_views(n, n_views=1, n_groups=1, n_junk=n_views, random_state=seed).views
    return list(views.values())[1:]


@pytest.fixture(scope="module")
def null():
    """Of two planted groups."""
    return draw(planted())


def test_planted_groups_stand_out(null):
    assert null.p_value == 0.05
    assert null.relative_cost < 0.6
    assert null.relative_costs.min() > 0.6
    assert null.plan.view_labels(2).labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_noise_does_not():
    """Where there is nothing to find, p-values are spread evenly over 0.05, 0.1, …, 1."""
    p_values = np.array([draw(junk(seed=seed), seed=seed).p_value for seed in range(10)])
    assert (p_values == 0.05).sum() <= 2
    assert 0.35 < p_values.mean() < 0.7


def test_rotations_of_one_cloud_cost_nothing():
    X, rotations = planted()[0], ortho_group(20, seed=0)
    found = draw([(X @ rotations.rvs()).astype(np.float32) for _ in range(4)])
    assert found.plan.C.max() < 1e-3
    assert found.C.min(axis=0)[~np.eye(4, dtype=bool)].min() > 0


def test_the_relative_cost_compares_plans_with_an_even_one(null):
    assert null.W.shape == null.C.shape == (19, 6, 6)
    assert null.plan.W.shape == (6, 6)
    assert null.plan.pairwise
    for W in (null.plan.W, *null.W):
        np.testing.assert_allclose(W.sum(axis=0), 1 / 6, rtol=1e-5)
        assert np.abs(W.diagonal()).max() == 0
    np.testing.assert_allclose(null.C, null.C.transpose(0, 2, 1))
    even = (1 - np.eye(6)) / 30
    costs = [((W * C).sum() / (even * C).sum()).item() for W, C in zip(null.W, null.C, strict=True)]
    np.testing.assert_allclose(null.relative_costs, costs, rtol=1e-5)
    W, C = null.plan.W, null.plan.C
    assert null.relative_cost == pytest.approx((W * C).sum() / (even * C).sum(), rel=1e-5)
    assert 0 < null.relative_cost < max(costs) < 1


@pytest.mark.parametrize(("n_lower", "expected"), ((0, 0.05), (3, 0.2), (19, 1.0)))
def test_the_p_value_counts_the_draws_that_cost_as_little(n_lower, expected):
    eye = torch.eye(4, dtype=torch.bool)
    pairs = eye[[1, 0, 3, 2]]

    def cost(close):
        return (~eye).float().masked_fill(pairs, close)

    mine = ViewPlan.of(sinkhorn(cost(0.5), reg=0.001, mask=eye))
    C = np.stack([cost(0.3 if i < n_lower else 0.9).numpy() for i in range(19)])
    null = PermutationNull(mine, (pairs / 4).expand(19, 4, 4).numpy(), C)
    assert null.p_value == pytest.approx(expected)


def test_views_that_are_few_constant_or_narrow_are_no_trouble():
    rows = planted()
    found = draw([np.ones((30, 3), np.float32), rows[0][:30, :1], rows[1][:30], rows[2]])
    assert np.isfinite(found.C).all()
    assert 0 < found.p_value <= 1
    for n in (2, 3):  # between which every plan is the same, so that none stands out
        assert draw(rows[:n]).p_value == 1.0


def test_large_views_are_sampled_and_the_generators_decide():
    views = [np.tile(X, 10) for X in junk(600, n_views=2)]
    first, again, other = draw(views), draw(views), draw(views, seed=1)
    assert first.C.shape == (19, 2, 2)
    assert np.array_equal(first.C, again.C)
    assert not np.array_equal(first.C, other.C)
