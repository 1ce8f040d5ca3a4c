from dataclasses import fields, replace

import numpy as np
import pytest
import torch
from torch import nn

from hotview._validation import ViewTable
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.nn.multiview import MultiViewNetwork
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training import view_plan as view_plan_module
from hotview.training.batches import Stream, TrainingRows
from hotview.training.columns import Columns
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
        columns = Columns(np.zeros(X.shape[1]), np.ones(X.shape[1]), None)
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
        "n_components": D,
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
    torch.testing.assert_close(found.C, expected)
    torch.testing.assert_close(found.W, PLANNER.solve(expected, pairwise=not referenced).W)
    assert found.pairwise != referenced
    assert found.converged
    assert not found.C.requires_grad
    assert isinstance(found, Plan)
    assert isinstance(found, ViewPlan)


@pytest.mark.parametrize("reduction", ("mean", "sum"))
def test_in_several_rounds_costs_are_averaged(reduction, monkeypatch):
    monkeypatch.setattr(view_plan_module, "_ROWS", 20)
    tables = make_tables((60, 45, 30, 12))
    found = plan(tables, reduction=reduction, batch_size=20)
    network, generator, random = make_network(tables), seeded(), np.random.default_rng(1)
    streams = [Stream(len(X), 20, random) for X in tables]
    costs = []
    for _ in range(3):  # 60 rows, 20 at a time
        some = [X[stream.next()] for X, stream in zip(tables, streams, strict=True)]
        assert [len(X) for X in some] == [20, 20, 20, 12]
        costs.append(cost_of(network, some, generator, reduction=reduction))
    torch.testing.assert_close(found.C, torch.stack(costs).mean(0))


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
    assert torch.equal(first.W, second.W)
    assert all(torch.equal(p, q) for p, q in zip(network.parameters(), before, strict=True))
    assert all(p.grad is None for p in network.parameters())


def view_plan(W):
    W = torch.tensor(W)
    plan = Planner().solve(1 - W, pairwise=False)
    found = {field.name: getattr(plan, field.name) for field in fields(plan)}
    return ViewPlan(**{**found, "W": W}, null=None)


def test_references_are_matched_before_plans_are_averaged():
    W = [[0.3, 0.2, 0.0], [0.0, 0.1, 0.4]]
    turned = [[row[k] for k in (2, 0, 1)] for row in W]
    mean = average_plans([view_plan(W), view_plan(turned), view_plan(W)])
    torch.testing.assert_close(mean.W, torch.tensor(W))
    torch.testing.assert_close(mean.C, 1 - torch.tensor(W))
    assert (mean.spread == 0).all()
    assert match_columns(view_plan(turned), view_plan(W)).tolist() == [1, 2, 0]


def test_views_have_an_order_that_is_kept():
    W = torch.tensor([[0.0, 0.25, 0.25], [0.25, 0.0, 0.25], [0.25, 0.25, 0.0]])
    pairs = replace(view_plan(W.tolist()), mask=torch.eye(3, dtype=torch.bool))
    assert pairs.pairwise
    assert match_columns(pairs, pairs).tolist() == [0, 1, 2]
