import numpy as np
import torch

from hotview.cli.demo import compare_views, reduce_view, uneven_handwritten
from hotview.datasets import load_handwritten


def test_views_are_uneven_and_hold_real_rows():
    views = uneven_handwritten(0)
    data = load_handwritten().views
    assert [len(X) for X in views.values()] == [1140, 1040, 940, 840, 740, 640]
    for name, X in views.items():
        rows = {row.tobytes() for row in data[name]}
        assert all(row.tobytes() in rows for row in X)


def test_reduced_views_are_centered_scaled_and_turned():
    Z = reduce_view(uneven_handwritten(0)["fac"])
    torch.testing.assert_close(Z.mean(0), torch.zeros(6), rtol=0, atol=1e-5)
    assert abs(Z.square().sum(1).mean().item() - 1) < 1e-5
    assert (Z.pow(3).sum(0) >= 0).all()


def test_reduction_does_not_see_units_or_mirrors():
    X = uneven_handwritten(0)["zer"].astype(np.float64)
    scale = np.random.default_rng(0).uniform(0.1, 10, X.shape[1])
    # Mirroring every column mirrors the components, whose sign is then fixed again.
    torch.testing.assert_close(reduce_view(X), reduce_view(5 + X * scale), rtol=0, atol=1e-4)
    mirrored = reduce_view(-X)
    torch.testing.assert_close(mirrored.pow(2), reduce_view(X).pow(2), rtol=0, atol=1e-4)


def test_same_seed_same_plan():
    views = uneven_handwritten(3)
    first, second = compare_views(views, 3), compare_views(views, 3)
    assert torch.equal(first.W, second.W)
    assert torch.equal(first.C, second.C)


def test_the_plan_is_a_plan():
    plan = compare_views(uneven_handwritten(0), 0)
    assert plan.converged
    assert plan.pairwise
    assert torch.equal(plan.W, plan.W.T)
    torch.testing.assert_close(plan.W.sum(0), torch.full((6,), 1 / 6))
