import numpy as np
import pytest

from hotview.ot.grouping import groups_of_pairs, groups_of_references


def blocks(sizes, strong=1.0, weak=0.05, seed=None):
    truth = np.repeat(np.arange(len(sizes)), sizes)
    W = np.where(truth[:, None] == truth, strong, weak).astype(float)
    if seed is not None:
        noise = np.random.default_rng(seed).uniform(0.8, 1.2, W.shape)
        W = W * (noise + noise.T) / 2
    np.fill_diagonal(W, 0)
    return W / W.sum(), truth


@pytest.mark.parametrize("sizes", ((3, 3), (2, 2, 2), (4, 4, 4), (2, 5), (3, 4, 5), (2,) * 6))
@pytest.mark.parametrize("seed", range(5))
def test_planted_groups_are_found(sizes, seed):
    W, truth = blocks(sizes, seed=seed)
    order = np.random.default_rng(seed).permutation(len(truth))
    groups = groups_of_pairs(W[np.ix_(order, order)], None, 0.05)
    assert groups.n_groups == len(sizes)
    pairs = {(found, true) for found, true in zip(groups.labels, truth[order], strict=True)}
    assert len(pairs) == len(sizes)  # one name per group: equal up to renaming
    assert not groups.tied.any()
    assert not groups.uniform.any()


def test_groups_are_numbered_as_they_appear():
    W, _ = blocks((2, 2))
    order = [3, 0, 2, 1]
    assert groups_of_pairs(W[np.ix_(order, order)], None, 0.05).labels.tolist() == [0, 1, 0, 1]


def test_a_uniform_plan_is_one_group_and_says_nothing():
    W, _ = blocks((6,))
    groups = groups_of_pairs(W, None, 0.05)
    assert groups.n_groups == 1
    assert groups.uniform.all()
    assert "says nothing of {0, 1, 2, 3, 4, 5}" in str(groups)


@pytest.mark.parametrize("n", (1, 2, 3, 4, 6))
@pytest.mark.parametrize("seed", (0, None), ids=("noisy", "with ties"))
def test_the_number_of_groups_can_be_given(n, seed):
    W, _ = blocks((2, 2, 2), seed=seed)
    assert groups_of_pairs(W, n, 0.05).n_groups == n


def test_two_views():
    assert groups_of_pairs(np.array([[0, 0.5], [0.5, 0]]), None, 0.05).labels.tolist() == [0, 0]


def test_a_view_between_two_groups_is_tied():
    W, _ = blocks((3, 3))
    bridge = np.zeros((7, 7))
    bridge[:6, :6] = W
    bridge[6, [0, 3]] = bridge[[0, 3], 6] = 0.1
    groups = groups_of_pairs(bridge, 2, 0.05)
    assert groups.tied[6]
    assert "undecided: {6}" in str(groups)


def test_references_take_the_largest_entry():
    W = np.array([[0.3, 0.0, 0.1], [0.0, 0.1, 0.3], [0.2, 0.2, 0.01], [0.1, 0.1, 0.1]])
    groups = groups_of_references(W, 0.05)
    assert groups.labels.tolist() == [0, 2, 0, 0]
    assert groups.tied.tolist() == [False, False, True, True]
    assert groups.uniform.tolist() == [False, False, False, True]
    assert groups.n_groups == 2


def test_more_groups_than_views():
    W, _ = blocks((3, 3))
    with pytest.raises(ValueError, match="between 1 and the 6 views"):
        groups_of_pairs(W, 7, 0.05)


def test_a_view_without_mass_stands_alone_and_is_uniform():
    W, _ = blocks((2, 2))
    with_empty = np.zeros((5, 5))
    with_empty[:4, :4] = W
    groups = groups_of_pairs(with_empty, None, 0.05)
    assert groups.labels.tolist() == [0, 0, 1, 1, 2]
    assert groups.uniform.tolist() == [False] * 4 + [True]
