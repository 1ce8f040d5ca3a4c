"""Nearness of the latents of the same individuals in different views."""

import numpy as np
import pytest
from scipy import stats

from hotview.similarity import CommonSpace, measure_common_space
from hotview.similarity.common_space import average_common_spaces


def normal(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def slow(linked, rows, measured):
    """Row by row, of two views: the mean of what is measured of a row and its match."""
    pairs = [
        (z, match, rows[b])
        for a, b in ((0, 1), (1, 0))
        for z, match in zip(linked[a], linked[b], strict=True)
    ]
    return np.mean([measured(*pair) for pair in pairs])


def slow_foscttm(z, match, rows):
    """Of rows that hold no match."""
    others, own = np.linalg.norm(rows - z, axis=1), np.linalg.norm(z - match)
    return np.mean((others < own) + (others == own) / 2)


def slow_agreement(z, match, rows, k=4):
    near = [set(np.linalg.norm(rows - x, axis=1).argsort()[:k]) for x in (z, match)]
    return len(near[0] & near[1]) / k


def test_it_is_what_its_definition_counts():
    Z = normal(30, 3)
    linked = [Z + 0.5 * normal(30, 3, seed=s) for s in (1, 2)]
    rows = [normal(n, 3, seed=n) for n in (80, 60)]
    found = measure_common_space(linked, rows)
    assert found.foscttm[0, 1] == pytest.approx(slow(linked, rows, slow_foscttm))
    assert found.foscttm[0, 1] == found.foscttm[1, 0] == found.mean_foscttm
    same = [rows[0], rows[0]]
    found = measure_common_space(linked, same)
    assert found.mean_agreement == pytest.approx(slow(linked, same, slow_agreement))


def test_identical_latents_are_perfect():
    Z = normal(60, 3)
    for rows in (Z, Z[10:]):  # with and without the match itself
        found = measure_common_space([Z[:10], Z[:10]], [rows, rows])
        assert (found.mean_foscttm, found.mean_agreement) == (0, 1)
        assert (found.low, found.high, found.is_comparable) == (0, 0, True)
    one = np.ones((1, 2))
    assert measure_common_space([one, one], [one, one]).mean_foscttm == 0


def test_unrelated_latents_are_at_chance_and_the_interval_covers_it():
    found = []
    for seed in range(60):
        a, b, *rows = normal(4, 400, 4, seed=seed)
        found.append(measure_common_space([a[:40], b[:40]], rows))
    assert np.mean([space.mean_foscttm for space in found]) == pytest.approx(0.5, abs=0.02)
    assert np.mean([space.mean_agreement for space in found]) == pytest.approx(0.05, abs=0.02)
    assert np.mean([space.low <= 0.5 <= space.high for space in found]) > 0.85


@pytest.mark.parametrize(("value", "n_rows"), ((0.0, 60), (3.7, 7)))
def test_latents_that_are_all_alike_are_at_chance(value, n_rows):
    alike = np.full((n_rows, 2), value, dtype=np.float32)
    found = measure_common_space([alike[:5]] * 2, [alike] * 2)
    assert found.mean_foscttm == 0.5
    assert found.mean_agreement == pytest.approx(max(1, round(0.05 * n_rows)) / n_rows)
    assert not found.is_comparable


def test_a_rotation_of_both_views_changes_nothing_and_of_one_all():
    Z = normal(200, 2)
    R = np.array([[0.0, -1.0], [1.0, 0.0]])
    near = [Z[:50], Z[:50] + 0.1 * normal(50, 2, seed=1)]
    first = measure_common_space(near, [Z[50:]] * 2)
    both = measure_common_space([X @ R for X in near], [Z[50:] @ R] * 2)
    assert both.mean_foscttm == pytest.approx(first.mean_foscttm)
    assert first.mean_foscttm < 0.05
    one = measure_common_space([near[0] @ R, near[1]], [Z[50:] @ R, Z[50:]])
    assert one.mean_foscttm > 0.3


def test_rows_in_some_views_count_where_they_are():
    Z = normal(40, 3)
    linked = [Z.copy() for _ in range(3)]
    linked[0][:10] = np.nan
    linked[1][10:] = np.nan  # no row is in the first two views
    found = measure_common_space(linked, [Z] * 3)
    assert found.n_rows.tolist() == [[0, 0, 30], [0, 0, 10], [30, 10, 0]]
    known = np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]], dtype=bool)
    for part in (found.foscttm, found.neighbor_agreement):
        assert (np.isfinite(part) == known).all()
    assert (found.mean_foscttm, found.mean_agreement) == (0, 1)


def test_nobody_in_two_views_is_nothing_to_measure_and_one_row_shows_nothing_for_sure():
    Z = normal(50, 2)
    first, second = Z.copy(), Z.copy()
    first[:3], second[3:] = np.nan, np.nan
    assert measure_common_space([first, second], [Z, Z]) is None  # warnings are errors here
    assert measure_common_space([Z[:0], Z[:0]], [Z, Z]) is None
    found = measure_common_space([Z[:1]] * 2, [Z] * 2)
    assert (found.low, found.high, found.is_comparable) == (0, 1, False)


def test_the_interval_is_students():
    Z = normal(30, 3)
    linked, rows = [Z, Z + normal(30, 3, seed=1)], [normal(90, 3, seed=s) for s in (2, 3)]
    found = measure_common_space(linked, rows)
    own = [measure_common_space([X[[i]] for X in linked], rows).mean_foscttm for i in range(30)]
    expected = stats.t.interval(0.95, 29, np.mean(own), stats.sem(own))
    assert (found.low, found.high) == pytest.approx(expected, rel=1e-4)


def test_members_of_an_ensemble_are_averaged():
    pair, n = np.array([[np.nan, 0.2], [0.2, np.nan]]), np.array([[0, 9], [9, 0]])
    members = CommonSpace(pair, pair * 2, n, 0.1, 0.3), CommonSpace(pair * 2, pair, n, 0.3, 0.5)
    found = average_common_spaces(members)
    assert (found.mean_foscttm, found.mean_agreement) == pytest.approx((0.3, 0.3))
    assert (found.low, found.high) == pytest.approx((0.2, 0.4))
    assert found.n_rows is n
    assert average_common_spaces([]) is None
