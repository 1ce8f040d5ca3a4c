from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hotview._validation import ViewTable
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import draw_directions, sliced_cost
from hotview.training import view_plan as view_plan_module
from hotview.training.batches import ShuffledIndices, TrainingRows
from hotview.training.column_scaler import ColumnScaler
from hotview.training.rows import ViewRows
from hotview.training.view_plan import ViewPlan, average_plans, match_columns, plan_views

D = 2
PLANNER = Planner(0.3)
SIZES = (60, 45, 30, 60)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_tables(sizes=SIZES, n_columns=3):
    random = np.random.default_rng(0)
    return [
        (random.normal(size=(n, n_columns)) * (1 + s / 2) + s).astype(np.float32)
        for s, n in enumerate(sizes)
    ]


def make_data(tables):
    views = []
    for X in tables:
        columns = ColumnScaler(np.zeros(X.shape[1]), np.ones(X.shape[1]), None)
        views.append(ViewRows([ViewTable(X)], columns, torch.device("cpu")))
    return TrainingRows(views, np.empty((0, len(tables)), dtype=np.int64))


def make_network(tables, d=D):
    """Encoders that do nothing, and random maps into the common space."""
    torch.manual_seed(0)
    maps = [nn.Linear(X.shape[1], d, bias=False) for X in tables]
    return MultiViewNetwork([nn.Identity() for _ in tables], maps).eval()


def plan(tables, coupling=None, planner=PLANNER, *, reduction="mean", batch_size=20, network=None):
    network = network or make_network(tables)
    options = {
        "reduction": reduction,
        "batch_size": batch_size,
        "generator": seeded(),
    }
    random = np.random.default_rng(1)
    coupling = coupling or HOTPairwise()
    return plan_views(network, coupling, make_data(tables), planner, random=random, **options)


def cost_of(network, Xs, generator, references=None, reduction="mean"):
    Zs = network.embed(network.encode([torch.from_numpy(X) for X in Xs]))
    d = Zs[0].shape[1]
    theta = draw_directions(10 * d, d, generator=generator)
    return sliced_cost(Zs, references, directions=theta, reduction=reduction).detach()


@pytest.mark.parametrize("referenced", (False, True))
def test_means_over_all_rows_are_the_sliced_cost_of_all_rows(referenced):
    tables = make_tables()
    coupling = HOTReference(D, 3, n_points=25) if referenced else HOTPairwise()
    found = plan(tables, coupling)
    references = list(coupling.references) if referenced else None
    expected = cost_of(make_network(tables), tables, seeded(), references)
    np.testing.assert_allclose(found.C, expected, rtol=1e-5)
    W = PLANNER.solve(expected, pairwise=not referenced).W
    np.testing.assert_allclose(found.W, W, rtol=1e-5)
    assert found.pairwise != referenced
    assert found.converged
    assert isinstance(found, ViewPlan)
    assert found.null is None


def test_a_plan_becomes_arrays_and_numbers_and_back():
    C = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 2.0], [2.0, 2.0, 0.0], [1.0, 1.0, 1.0]])
    tensors = PLANNER.solve(C, pairwise=False)
    arrays = ViewPlan.of(tensors)
    for name in ("W", "C", "f", "g"):
        assert isinstance(getattr(arrays, name), np.ndarray)
        np.testing.assert_array_equal(getattr(arrays, name), getattr(tensors, name))
        assert torch.equal(getattr(arrays.to_torch(), name), getattr(tensors, name))
    assert type(arrays.reg) is type(arrays.marginal_error) is float
    for name in ("cost", "entropy", "value", "marginal_error"):
        assert getattr(arrays, name) == pytest.approx(float(getattr(tensors, name)))
    assert arrays.converged == tensors.converged
    assert arrays.view_labels().labels.tolist() == tensors.view_labels().labels.tolist()
    assert repr(arrays).startswith("ViewPlan(4 × 3, reg=")


@pytest.mark.parametrize("reduction", ("mean", "sum"))
def test_in_several_rounds_costs_are_averaged(reduction, monkeypatch):
    monkeypatch.setattr(view_plan_module, "_ROWS", 20)
    tables = make_tables((60, 45, 30, 12))
    found = plan(tables, reduction=reduction, batch_size=20)
    network, generator, random = make_network(tables), seeded(), np.random.default_rng(1)
    streams = [ShuffledIndices(len(X), 20, random) for X in tables]
    costs = []
    for _ in range(3):  # 60 rows, 20 at a time
        some = [X[stream.next_batch()] for X, stream in zip(tables, streams, strict=True)]
        assert [len(X) for X in some] == [20, 20, 20, 12]
        costs.append(cost_of(network, some, generator, reduction=reduction))
    np.testing.assert_allclose(found.C, torch.stack(costs).mean(0), rtol=1e-5)


def test_sums_are_those_of_batches_of_the_size_of_training():
    # 60 rows in batches of 20 give sums over 20, about 20 means; sums over 60 would be 60.
    tables = make_tables((60, 60, 60, 60))
    mean, total = plan(tables), plan(tables, reduction="sum", batch_size=20)
    ratio = (total.C.sum() / mean.C.sum()).item()
    assert ratio == pytest.approx(20, rel=0.3)


def test_the_number_of_rounds_is_limited(monkeypatch):
    monkeypatch.setattr(view_plan_module, "_ROUNDS", 2)
    tables, calls = make_tables(), []
    network = make_network(tables)
    network.encoders[0].register_forward_hook(lambda module, rows, out: calls.append(len(out)))
    plan(tables, reduction="sum", batch_size=10, network=network)
    assert calls == [10, 10]


def test_the_seeds_decide_and_the_network_is_left_alone():
    tables = make_tables()
    network = make_network(tables)
    before = [p.clone() for p in network.parameters()]
    first, second = (plan(tables, network=network) for _ in range(2))
    assert np.array_equal(first.W, second.W)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
    assert all(p.grad is None for p in network.parameters())


def view_plan(W):
    W = np.array(W, dtype=np.float32)
    plan = Planner().solve(torch.from_numpy(1 - W), pairwise=False)
    return replace(ViewPlan.of(plan), W=W)


def test_references_are_matched_before_plans_are_averaged():
    W = [[0.3, 0.2, 0.0], [0.0, 0.1, 0.4]]
    turned = [[row[k] for k in (2, 0, 1)] for row in W]
    mean = average_plans([view_plan(W), view_plan(turned), view_plan(W)])
    np.testing.assert_allclose(mean.W, W, rtol=1e-6)
    np.testing.assert_allclose(mean.C, 1 - np.array(W), rtol=1e-6)
    assert (mean.std == 0).all()
    assert match_columns(view_plan(turned), view_plan(W)).tolist() == [1, 2, 0]


def test_views_have_an_order_that_is_kept():
    W = torch.tensor([[0.0, 0.25, 0.25], [0.25, 0.0, 0.25], [0.25, 0.25, 0.0]])
    pairs = replace(view_plan(W.tolist()), mask=np.eye(3, dtype=bool))
    assert pairs.pairwise
    assert match_columns(pairs, pairs).tolist() == [0, 1, 2]
