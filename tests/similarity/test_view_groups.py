"""Groups of views: compared with all partitions of a few views."""

import numpy as np
import pytest

from hotview.similarity.alignment import group_views, stable_groups


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
