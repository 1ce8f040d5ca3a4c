import numpy as np
import pytest

from paper.plans import (
    closest,
    correlations,
    match_columns,
    most_alike,
    row_entropy,
    similarity,
    stands_alone,
)

# Views 0 and 1 go to the first reference, 2 and 3 to the second, 4 and 5 to the third.
PAIRS = np.kron(np.eye(3), np.ones((2, 1))) / 6


def pairwise_plan(seed=0, n=6):
    rng = np.random.default_rng(seed)
    W = rng.random((n, n)) * (1 - np.eye(n))
    return W / W.sum()


def test_planted_pairs_are_closest_and_most_alike():
    S = similarity(PAIRS, pairwise=False)
    assert [closest(S, s) for s in range(6)] == [1, 0, 3, 2, 5, 4]
    assert not most_alike(S, {0, 1})  # two other pairs are as much alike


@pytest.mark.parametrize("noise", (0, 5e-5))
def test_ties_give_no_closest_view(noise):
    even = 1 / 18 + noise * np.random.default_rng(0).uniform(-1, 1, (6, 3))  # of rounded files
    S = similarity(even, pairwise=False)
    assert closest(S, 0) is None
    assert not most_alike(S, {0, 1, 2})
    assert not any(stands_alone(S, s) for s in range(6))


def test_three_of_a_kind_and_one_alone():
    S = np.full((5, 5), 0.1)
    S[:3, :3] = 0.9
    S[3, 4] = S[4, 3] = 0.3
    S[2, 4] = S[4, 2] = 0.4
    np.fill_diagonal(S, np.nan)
    assert most_alike(S, {2, 0, 1})
    assert not most_alike(S, {1, 2, 3})
    assert stands_alone(S, 3)
    assert not stands_alone(S, 4)


def test_by_chance_each_view_is_closest_equally_often():
    found = [closest(similarity(pairwise_plan(t), pairwise=True), 0) for t in range(2000)]
    counts = np.bincount([t for t in found if t is not None], minlength=6)
    assert counts[0] == 0
    assert (abs(counts[1:] - 400) < 80).all()


def test_entropy_runs_from_0_to_1():
    assert row_entropy(PAIRS, pairwise=False) == 0
    assert row_entropy(np.full((6, 3), 1 / 18), pairwise=False) == pytest.approx(1)
    even = (1 - np.eye(6)) / 30
    assert row_entropy(even, pairwise=True) == pytest.approx(1)
    assert row_entropy(np.full((6, 1), 1 / 6), pairwise=False) == 0  # K = 1 leaves no choice


def test_correlations_are_those_of_numpy():
    plans = [pairwise_plan(t) for t in range(3)]
    upper = np.triu_indices(6, k=1)
    flat = [(W + W.T)[upper] for W in plans]
    found = correlations(plans, pairwise=True)
    off = ~np.eye(3, dtype=bool)
    np.testing.assert_allclose(found[off], np.corrcoef(flat)[off])


def test_a_uniform_plan_has_correlation_zero():
    even = np.full((6, 3), 1 / 18)
    rounded = even + 5e-5 * np.random.default_rng(0).uniform(-1, 1, even.shape)
    found = correlations([PAIRS, even, rounded, rounded], pairwise=False)
    assert np.nansum(np.abs(found)) == 0


def test_columns_are_matched_up_to_their_order():
    rng = np.random.default_rng(0)
    orders = [rng.permutation(3) for _ in range(5)]
    matched = match_columns([PAIRS[:, order] for order in orders])
    assert matched.shape == (5, 6, 3)
    assert np.ptp(matched, axis=0).max() == 0
    np.testing.assert_array_equal(match_columns([PAIRS])[0], PAIRS)


def test_similarity_of_references_is_the_gram_matrix_and_permutation_invariant():
    W = np.random.default_rng(0).random((6, 3))
    off = ~np.eye(6, dtype=bool)
    np.testing.assert_allclose(similarity(W, pairwise=False)[off], (36 * W @ W.T)[off])
    shuffled = similarity(W[:, [2, 0, 1]], pairwise=False)
    np.testing.assert_allclose(shuffled[off], similarity(W, pairwise=False)[off])
    assert np.isnan(np.diag(shuffled)).all()


def test_similarity_of_pairs_is_symmetric():
    W = np.random.default_rng(0).random((6, 6)) * (1 - np.eye(6))
    found = similarity(W, pairwise=True)
    np.testing.assert_allclose(found, found.T)
    assert found[0, 1] == pytest.approx(3 * (W[0, 1] + W[1, 0]))
