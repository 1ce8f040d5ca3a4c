"""Unbiased kernel alignment by the formula of Song et al., and groups among all partitions."""

from itertools import permutations, product

import numpy as np
import pytest

from hotview.similarity.alignment import (
    group_views,
    inner_products,
    kernel_alignment,
    median_squared_distance,
    stable_groups,
    u_center,
)


@pytest.fixture
def random():
    return np.random.default_rng(0)


def kernel(X):
    distance = ((X[:, None] - X) ** 2).sum(axis=2)
    return np.exp(-distance / np.median(distance[distance > 0]))


def unbiased_hsic(K, L):
    """Song et al. (2012), equation 5."""
    n, one = len(K), np.ones(len(K))
    K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
    total = np.trace(K @ L) + (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
    return (total - 2 / (n - 2) * one @ K @ L @ one) / (n * (n - 3))


@pytest.mark.parametrize("n", (4, 5, 30))
def test_inner_products_are_the_unbiased_estimate_of_hsic(random, n):
    K, L = kernel(random.normal(size=(n, 2))), kernel(random.normal(size=(n, 3)))
    products = inner_products(u_center(np.stack([K, L]))) / (n * (n - 3))
    expected = [[unbiased_hsic(A, B) for B in (K, L)] for A in (K, L)]
    np.testing.assert_allclose(products, expected, rtol=1e-10)


def test_the_mean_over_all_permutations_is_zero(random):
    A, B = u_center(np.stack([kernel(random.normal(size=(6, 2))) for _ in range(2)]))
    mean = np.mean([(A * B[np.ix_(p, p)]).sum() for p in map(list, permutations(range(6)))])
    assert abs(mean) < 1e-12 * np.abs(A).sum()


def test_within_classes_the_mean_over_all_permutations_within_classes_is_zero(random):
    classes = np.array([0, 0, 0, 1, 1, 2])
    K = np.stack([kernel(random.normal(size=(6, 2)) + 2 * classes[:, None]) for _ in range(2)])
    orders = product(permutations([0, 1, 2]), permutations([3, 4]), [(5,)])
    permuted = []
    for a, b, c in orders:
        p = [*a, *b, *c]
        permuted.append(np.stack([K[0], K[1][np.ix_(p, p)]]))
    found = [kernel_alignment(K, classes)[0, 1] for K in permuted]
    assert abs(np.mean(found)) < 1e-12
    assert abs(np.mean([kernel_alignment(K)[0, 1] for K in permuted])) > 0.05


@pytest.mark.parametrize("classes", (None, np.arange(30) % 3))
def test_alignment_is_a_correlation_and_does_not_see_the_order_or_the_scale(random, classes):
    X = random.normal(size=(30, 3))
    K = np.stack([kernel(X), 5 * kernel(X @ np.linalg.qr(random.normal(size=(3, 3)))[0]),
                  kernel(random.normal(size=(30, 2)))])  # fmt: skip
    found = kernel_alignment(K, classes)
    np.testing.assert_allclose(np.diag(found), 1.0)
    np.testing.assert_allclose(found, found.T)
    assert found[0, 1] == pytest.approx(1.0)
    assert abs(found[0, 2]) < 0.3
    order = random.permutation(30)
    again = kernel_alignment(K[:, order][:, :, order], None if classes is None else classes[order])
    np.testing.assert_allclose(again, found, atol=1e-12)


def test_views_without_differences_and_classes_of_one_row_have_no_alignment(random):
    K = np.stack([np.ones((8, 8)), kernel(random.normal(size=(8, 2)))])
    np.testing.assert_allclose(kernel_alignment(K), [[0, 0], [0, 1]], atol=1e-12)
    np.testing.assert_array_equal(kernel_alignment(K, np.arange(8)), np.zeros((2, 2)))


def test_the_median_squared_distance_is_over_pairs():
    Z = np.array([[0.0], [1.0], [3.0]])
    assert median_squared_distance(Z) == 4.0  # of 1, 4 and 9
    assert median_squared_distance(np.ones((5, 2))) == median_squared_distance(Z[:1]) == 1.0


def partitions(n):
    """All partitions of n views, as labels in order of appearance."""
    if n == 1:
        yield [0]
        return
    for labels in partitions(n - 1):
        for k in range(max(labels) + 2):
            yield [*labels, k]


def symmetric(S, random):
    X = random.random((S, S))
    X = (X + X.T) / 2
    np.fill_diagonal(X, 1.0)
    return X


def gap_of(X, labels):
    same = np.equal.outer(labels, labels)
    within = same & ~np.eye(len(X), dtype=bool)
    return X[within].min() - X[~same].max() if within.any() and not same.all() else -1.0


@pytest.mark.parametrize("seed", range(20))
def test_groups_have_the_largest_gap_of_all_partitions(seed):
    S = 3 + seed % 4
    X = symmetric(S, np.random.default_rng(seed))
    gaps = [(gap_of(X, labels), labels) for labels in map(np.array, partitions(S))]
    best, labels = max(gaps, key=lambda pair: pair[0])
    groups, gap = group_views(X)
    if best <= 0:
        assert groups is None
        assert gap == 0.0
    else:
        np.testing.assert_array_equal(groups, labels)
        assert gap == pytest.approx(best)


def blocks(groups, within=0.8, between=0.2):
    X = np.where(np.equal.outer(groups, groups), within, between)
    np.fill_diagonal(X, 1.0)
    return X


def test_no_groups_where_all_pairs_are_equally_similar_or_one_is_not_known():
    assert group_views(blocks([0, 0, 0, 0]))[0] is None
    X = blocks([0, 0, 1, 1])
    X[0, 2] = X[2, 0] = np.nan
    assert group_views(X) == (None, 0.0)


def noisy(groups, n_wrong):
    """Half-samples, in some of which a pair between groups is the most similar."""
    halves = np.stack([blocks(groups)] * 10)
    halves[:n_wrong, 0, -1] = halves[:n_wrong, -1, 0] = 0.9
    return halves


def test_groups_must_hold_in_nine_of_ten_half_samples_and_as_often_as_asked_for():
    groups = [0, 0, 1, 1]
    for n_wrong, min_found, holds in (
        (0, 0.5, True), (1, 0.5, True), (2, 0.5, False), (1, 0.9, True), (1, 0.95, False)
    ):  # fmt: skip
        found, stability = stable_groups(
            blocks(groups), noisy(groups, n_wrong), min_found=min_found
        )
        assert (found is not None) == holds
        assert stability == pytest.approx(1 - n_wrong / 10)


def test_a_small_gap_and_fewer_than_four_views_are_no_groups():
    for X, stability in ((blocks([0, 0, 1, 1], 0.55, 0.5), 1.0), (blocks([0, 0, 1]), 0.0)):
        assert stable_groups(X, np.stack([X] * 10), min_found=0.5) == (None, stability)
