import numpy as np
import pytest
import torch

from hotview._validation import ViewTable
from hotview.datasets import make_views
from hotview.losses import Planner
from hotview.ot import sinkhorn
from hotview.training import permutation_null
from hotview.training.columns import Columns
from hotview.training.permutation_null import Null, draw_null
from hotview.training.rows import ViewRows

PLANNER = Planner(0.1)


@pytest.fixture(autouse=True)
def one_thread():
    """As in a small fit: with more, tiny operations wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def as_rows(X):
    D = X.shape[1]
    return ViewRows([ViewTable(X)], Columns(np.zeros(D), np.ones(D), None), torch.device("cpu"))


def draw(views, n_components=4, seed=0):
    return draw_null(
        [as_rows(X) for X in views],
        n_components,
        PLANNER,
        np.random.default_rng(seed),
        torch.Generator().manual_seed(seed),
    )


def planted(n=400, seed=0, **how):
    return list(make_views(n, n_views=6, n_groups=2, random_state=seed, **how).views.values())


def junk(n=400, seed=0, n_views=6):
    views = make_views(n, n_views=1, n_groups=1, n_junk=n_views, random_state=seed).views
    return list(views.values())[1:]


# truth


@pytest.mark.parametrize("seed", range(3))
def test_planted_groups_stand_out(seed):
    found = draw(planted(seed=seed), seed=seed)
    assert found.p_value == 0.05
    assert found.relative_cost < 0.6
    assert found.relative_costs.min() > 0.6
    assert found.plan.view_labels(2).labels.tolist() in ([0, 0, 0, 1, 1, 1], [1, 1, 1, 0, 0, 0])


def test_noise_does_not():
    """Where there is nothing to find, p-values are spread evenly over 0.05, 0.1, …, 1."""
    p_values = np.array([draw(junk(150, seed), seed=seed).p_value for seed in range(12)])
    assert (p_values == 0.05).sum() <= 2
    assert 0.35 < p_values.mean() < 0.7


@pytest.mark.parametrize("seed", range(3))
def test_a_junk_view_costs_most(seed):
    found = draw(planted(seed=seed, n_junk=1), seed=seed)
    assert found.plan.C.mean(1).argmax() == 6


def test_views_of_one_distribution_are_all_close_and_none_closer():
    data = make_views(400, n_views=6, n_groups=1, random_state=0)
    together, apart = draw(list(data.views.values())), draw(planted())
    assert together.plan.C.max() < 0.1 * apart.plan.C.max()


def test_rotations_of_one_cloud_cost_nothing():
    X = planted()[0]
    views = [
        (X @ np.linalg.qr(np.random.default_rng(s).normal(size=(20, 20)))[0]).astype(np.float32)
        for s in range(4)
    ]
    found = draw(views)
    assert found.plan.C.max() < 1e-3
    assert found.C.min(dim=0).values[~torch.eye(4, dtype=torch.bool)].min() > 0


# what it is made of


def test_shapes_and_plans():
    found = draw(planted(), n_components=3)
    assert found.W.shape == found.C.shape == (19, 6, 6)
    assert found.plan.W.shape == (6, 6)
    assert found.plan.pairwise
    for W in (found.plan.W, *found.W):
        torch.testing.assert_close(W.sum(0), torch.full((6,), 1 / 6))
        assert W.diagonal().abs().max() == 0
    torch.testing.assert_close(found.C, found.C.transpose(1, 2))


def test_the_relative_cost_compares_the_plan_with_an_even_one():
    found = draw(planted())
    even = (1 - torch.eye(6)) / 30
    for W, C, cost in (
        (found.plan.W, found.plan.C, found.relative_cost),
        (found.W[3], found.C[3], found.relative_costs[3].item()),
    ):
        assert cost == pytest.approx(((W * C).sum() / (even * C).sum()).item(), rel=1e-5)
        assert 0 < cost < 1


@pytest.mark.parametrize(("n_lower", "expected"), ((0, 0.05), (3, 0.2), (19, 1.0)))
def test_the_p_value_counts_the_draws_that_cost_as_little(n_lower, expected):
    eye = torch.eye(4, dtype=torch.bool)
    W = torch.zeros(4, 4)
    W[[0, 1, 2, 3], [1, 0, 3, 2]] = 0.25

    def cost(close):
        C = torch.ones(4, 4).masked_fill(eye, 0.0)
        C[[0, 1, 2, 3], [1, 0, 3, 2]] = close
        return C

    mine = sinkhorn(cost(0.5), reg=0.001, mask=eye)
    C = torch.stack([cost(0.3 if i < n_lower else 0.9) for i in range(19)])
    assert Null(mine, W.expand(19, 4, 4), C).p_value == pytest.approx(expected)


@pytest.mark.parametrize("n_views", (2, 3))
def test_between_few_views_every_plan_is_the_same_and_none_stands_out(n_views):
    assert draw(planted()[:n_views]).p_value == 1.0


def test_noise_keeps_the_values_of_every_column_and_loses_the_rows():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [1, 2, 3]
    X[:, 1] = X[:, 0]
    shuffled = permutation_null._shuffle_columns(np.concatenate([X, X]).T, np.random.default_rng(1))
    np.testing.assert_array_equal(np.sort(shuffled, axis=0), np.sort(X, axis=0))
    assert abs(np.corrcoef(shuffled.T)[0, 1]) < 0.5


def test_components_have_a_total_variance_of_one_and_zeros_where_there_are_none():
    X = np.random.default_rng(0).normal(size=(50, 3)) * [5, 2, 1] + 7
    Y = permutation_null._components(X, 5)
    assert Y.shape == (50, 5)
    assert (Y[:, 3:] == 0).all()
    np.testing.assert_allclose(Y.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(Y.var(0).sum(), 1)
    assert (np.diff(Y.var(0)) <= 0).all()
    off = np.cov(Y[:, :3].T)
    np.testing.assert_allclose(off, np.diag(np.diag(off)), atol=1e-12)
    assert (permutation_null._components(np.ones((4, 2)), 3) == 0).all()


def test_views_that_are_constant_or_narrow_are_no_trouble():
    views = [np.ones((30, 3), np.float32), planted()[0][:30, :1], planted()[1][:30], planted()[2]]
    found = draw(views)
    assert torch.isfinite(found.C).all()
    assert 0 < found.p_value <= 1


def test_large_views_are_sampled(monkeypatch):
    monkeypatch.setattr(permutation_null, "_ROWS", 40)
    monkeypatch.setattr(permutation_null, "_COLUMNS", 7)
    X = planted()[0]
    sample = permutation_null._sample(as_rows(X), np.random.default_rng(0))
    assert sample.shape == (40, 7)
    assert set(sample.ravel().tolist()) <= set(X.ravel().tolist())
    columns = [int(np.flatnonzero((row_entry == X).any(axis=0))[0]) for row_entry in sample[0]]
    assert columns == sorted(columns)
    assert draw(planted()).C.shape == (19, 6, 6)


def test_the_generators_decide():
    views = planted()
    first, again, other = draw(views), draw(views), draw(views, seed=1)
    assert torch.equal(first.C, again.C)
    assert torch.equal(first.plan.C, again.plan.C)
    assert not torch.equal(first.C, other.C)
