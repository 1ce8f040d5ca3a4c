import numpy as np
import pytest
import torch

from hotview.ot import sinkhorn
from hotview.ot.plan import groups_of_pairs, groups_of_references


def eye(S):
    return torch.eye(S, dtype=torch.bool)


def test_view_labels_of_pairs():
    # Views on a line, at 0 and at 5: the plan keeps mass within each place.
    x = torch.tensor([0.0, 5.0, 0.1, 5.1, 0.2, 5.2])
    plan = sinkhorn((x - x[:, None]).square(), reg=0.2, relative=True, mask=eye(6))
    assert plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 1, 0, 1, 0, 1]
    assert plan.view_labels(n_groups=1).n_groups == 1
    unequal = torch.tensor([0.2, 0.2, 0.2, 0.2, 0.1, 0.1])
    assert sinkhorn(plan.C, unequal, reg=0.5, mask=eye(6)).pairwise
    assert groups_of_pairs(np.array([[0, 0.5], [0.5, 0]]), None, 0.05).labels.tolist() == [0, 0]


def test_view_labels_of_references():
    C = torch.tensor([[0.0, 1.0], [0.1, 1.0], [1.0, 0.0], [1.0, 0.2]])
    plan = sinkhorn(C, reg=0.1)
    assert not plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 0, 1, 1]
    with pytest.raises(ValueError, match="2 references"):
        plan.view_labels(n_groups=2)


def test_a_square_plan_to_references_is_not_taken_for_pairs():
    C = torch.tensor([[0.0, 1.0, 2.0], [1.0, 0.0, 1.0], [2.0, 1.0, 0.0]])  # symmetric by chance
    plan = sinkhorn(C, reg=0.1)
    assert plan.symmetric
    assert not plan.pairwise
    assert plan.view_labels().labels.tolist() == [0, 1, 2]


@pytest.mark.parametrize("options", ({"n_groups": 2.5}, {"n_groups": 0}, {"tie_tol": -1.0}))
def test_bad_options_of_view_labels(options):
    plan = sinkhorn(torch.zeros(4, 4), reg=1.0, mask=eye(4))
    with pytest.raises((ValueError, TypeError), match=next(iter(options))):
        plan.view_labels(**options)
    with pytest.raises(ValueError, match="between 1 and the 4 views"):
        plan.view_labels(n_groups=5)
    with pytest.raises(ValueError, match="one plan"):
        sinkhorn(torch.rand(2, 4, 3), reg=0.1).view_labels()


@pytest.mark.parametrize("reg", (0.05, 1.0))
def test_value_is_the_minimum_of_cost_minus_regularized_entropy(reg):
    generator = torch.Generator().manual_seed(0)
    C = torch.rand(5, 4, generator=generator, dtype=torch.float64)
    plan = sinkhorn(C, reg=reg, tol=1e-12)
    W = plan.W.numpy()

    def objective(W):
        return (W * C.numpy()).sum() + reg * (W * np.log(W)).sum()

    assert plan.value.item() == pytest.approx(objective(W), rel=1e-9)
    # W = exp((f + g − C) / β), so that the value is also Σ a f + Σ b g.
    assert plan.value.item() == pytest.approx((plan.f.mean() + plan.g.mean()).item(), abs=1e-6)
    change = torch.rand(5, 4, generator=generator, dtype=torch.float64).numpy()
    change -= change.mean(axis=0) + change.mean(axis=1, keepdims=True) - change.mean()
    for step in (-1e-3, 1e-3):  # another plan with the same marginals
        other = W * 1.0 + step * change * W.min()
        assert objective(other) > objective(W)


def test_exact_ties_are_ties_without_a_tolerance():
    W = np.array([[0.2, 0.2, 0.1], [0.1, 0.3, 0.1]])
    assert groups_of_references(W, 0.0).tied.tolist() == [True, False]
    assert groups_of_references(W - [[0, 1e-9, 0]], 0.0).tied.tolist() == [False, False]
    assert groups_of_references(np.full((2, 3), 0.1), 0.0).uniform.all()


def test_repr_shows_whether_it_converged():
    C = torch.rand(6, 4, generator=torch.Generator().manual_seed(0))
    assert "converged in" in repr(sinkhorn(C, reg=1.0))
    assert "NOT converged in 1 iterations" in repr(sinkhorn(C, reg=0.01, max_iter=1))
    plan = sinkhorn(C.expand(2, 6, 4), reg=1.0)
    assert "2 × 6 × 4" in repr(plan)
    with pytest.raises(AttributeError):  # a plan cannot be changed
        plan.W = plan.C


def blocks(sizes, strong=1.0, weak=0.05, seed=None):
    truth = np.repeat(np.arange(len(sizes)), sizes)
    W = np.where(truth[:, None] == truth, strong, weak).astype(float)
    if seed is not None:
        noise = np.random.default_rng(seed).uniform(0.8, 1.2, W.shape)
        W = W * (noise + noise.T) / 2
    np.fill_diagonal(W, 0)
    return W / W.sum(), truth


@pytest.mark.parametrize("sizes", ((3, 3), (2, 2, 2), (2, 5), (3, 4, 5), (2,) * 6))
@pytest.mark.parametrize("seed", range(2))
def test_planted_groups_are_found(sizes, seed):
    W, truth = blocks(sizes, seed=seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    groups = groups_of_pairs(W[np.ix_(order, order)], None, 0.05)
    assert groups.n_groups == len(sizes)
    pairs = {(found, true) for found, true in zip(groups.labels, truth[order], strict=True)}
    assert len(pairs) == len(sizes)  # one name per group: equal up to renaming
    first = [groups.labels.tolist().index(label) for label in range(groups.n_groups)]
    assert first == sorted(first)  # numbered as they appear
    assert not groups.tied.any()
    assert not groups.uniform.any()


def test_a_uniform_plan_is_one_group_and_determines_none():
    W, _ = blocks((6,))
    groups = groups_of_pairs(W, None, 0.05)
    assert groups.n_groups == 1
    assert groups.uniform.all()
    assert "not determined by the plan: {0, 1, 2, 3, 4, 5}" in str(groups)


@pytest.mark.parametrize("n", (1, 2, 3, 4, 6))
@pytest.mark.parametrize("seed", (0, None), ids=("noisy", "with ties"))
def test_the_number_of_groups_can_be_given(n, seed):
    W, _ = blocks((2, 2, 2), seed=seed)
    assert groups_of_pairs(W, n, 0.05).n_groups == n


def test_a_view_between_two_groups_is_tied():
    W, _ = blocks((3, 3))
    bridge = np.zeros((7, 7))
    bridge[:6, :6] = W
    bridge[6, [0, 3]] = bridge[[0, 3], 6] = 0.1
    groups = groups_of_pairs(bridge, 2, 0.05)
    assert groups.tied[6]
    assert "ambiguous: {6}" in str(groups)


def test_references_take_the_largest_entry():
    W = np.array([[0.3, 0.0, 0.1], [0.0, 0.1, 0.3], [0.2, 0.2, 0.01], [0.1, 0.1, 0.1]])
    groups = groups_of_references(W, 0.05)
    assert groups.labels.tolist() == [0, 2, 0, 0]
    assert groups.tied.tolist() == [False, False, True, True]
    assert groups.uniform.tolist() == [False, False, False, True]
    assert groups.n_groups == 2


def test_a_view_without_mass_stands_alone_and_is_uniform():
    W, _ = blocks((2, 2))
    with_empty = np.zeros((5, 5))
    with_empty[:4, :4] = W
    groups = groups_of_pairs(with_empty, None, 0.05)
    assert groups.labels.tolist() == [0, 0, 1, 1, 2]
    assert groups.uniform.tolist() == [False] * 4 + [True]
    assert "not determined by the plan: {4}" in str(groups)
