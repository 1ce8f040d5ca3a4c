import math
from dataclasses import replace

import numpy as np
import pytest

from hotview.report.similarity_data import (
    graph_of_views,
    list_pairs,
    shape_costs,
    similarity_matrix,
    sort_views,
)


def change(record, **fields):
    return replace(record, similarity=replace(record.similarity, **fields))


@pytest.mark.parametrize("n", (2, 3, 6, 12))
def test_all_pairs_the_most_similar_first(make_one, n):
    record = make_one(views=[f"v{s}" for s in range(n)])
    pairs = list_pairs(record)
    assert len({(pair.first, pair.second) for pair in pairs}) == n * (n - 1) // 2
    values = [pair.value for pair in pairs]
    assert values == sorted(values, reverse=True)
    for pair in pairs:
        at = pair.first, pair.second
        assert pair.first < pair.second
        for name in ("value", "low", "high", "p_value", "n_rows", "within"):
            assert getattr(pair, name) == np.array(getattr(record.similarity, name))[at]
        assert pair.is_significant == ((pair.second - pair.first) % 2 == 0)


def test_pairs_that_are_not_known_come_last(record):
    value = np.array(record.similarity.value)
    value[0, 2] = value[2, 0] = np.nan
    p_value = np.where(np.isnan(value), np.nan, record.similarity.p_value)
    found = change(record, value=value.tolist(), p_value=p_value.tolist(), within=None)
    *known, last = list_pairs(found)
    assert (last.first, last.second, last.is_known, last.is_significant) == (0, 2, False, False)
    assert all(pair.is_known for pair in known)
    assert all(math.isnan(pair.within) for pair in known)


def test_views_are_sorted_by_groups_that_hold(record):
    assert sort_views(record) == [0, 2, 1, 3]
    assert sort_views(change(record, groups=None)) == [0, 1, 2, 3]


def test_the_matrix_is_blank_where_views_could_be_unrelated(record):
    matrix = similarity_matrix(record)
    assert matrix.rows == matrix.columns == ["pix", "fac", "mor", "zer"]
    expected = np.kron(np.eye(2), np.array([[0, 0.88], [0.88, 0]]))
    np.testing.assert_allclose(np.nan_to_num(matrix.values), expected)
    assert np.isnan(matrix.values).sum() == 12


def test_edges_are_pairs_that_share_information(record):
    graph = graph_of_views(record)
    assert [(pair.first, pair.second) for pair in graph.edges] == [(0, 2), (1, 3)]
    assert not any(pair.is_uncertain for pair in graph.edges)
    low = np.full((4, 4), 0.05)
    low[0, 2] = 0.15
    edges = graph_of_views(change(record, low=low.tolist())).edges
    assert [pair.is_uncertain for pair in edges] == [False, True]


def test_views_stand_on_a_circle_group_beside_group(make_one):
    record = change(make_one(views="abcde"), groups=[0, 1, 0, 1, 2])
    graph = graph_of_views(record)
    np.testing.assert_allclose(np.linalg.norm(graph.positions, axis=1), 1)
    angle = np.arctan2(graph.positions[:, 0], -graph.positions[:, 1]) % (2 * np.pi)
    assert np.argsort(angle).tolist() == [0, 2, 1, 3, 4]
    gaps = np.diff(np.sort(angle))
    assert gaps[0] < gaps[1]  # within a group, between groups


def test_an_arc_goes_from_the_first_view_of_a_group_to_the_last(make_one):
    record = change(make_one(views="abcde"), groups=[0, 1, 0, 1, 2])
    graph = graph_of_views(record)
    ends = [(arc[0].tolist(), arc[-1].tolist()) for arc in graph.arcs]  # none of a single view
    at = graph.positions.tolist()
    np.testing.assert_allclose(ends, [(at[0], at[2]), (at[1], at[3])])


def test_without_groups_views_are_spread_evenly(record):
    graph = graph_of_views(change(record, groups=None))
    np.testing.assert_allclose(graph.positions.sum(0), 0, atol=1e-12)
    assert graph.arcs == []


def test_costs_of_shapes(record):
    matrix = shape_costs(record)
    assert np.isnan(np.diag(matrix.values)).all()
    assert matrix.values[0, 3] == record.plan.null.costs[0][3]
    assert shape_costs(replace(record, plan=None)) is None
    assert shape_costs(replace(record, plan=replace(record.plan, null=None))) is None


def test_records_without_linked_rows_are_refused(record):
    for data in (list_pairs, sort_views, similarity_matrix, graph_of_views):
        with pytest.raises(ValueError, match=r"Expected a model with linked rows.*Fit with rows"):
            data(replace(record, similarity=None))
