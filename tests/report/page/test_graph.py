import numpy as np

from hotview.report.page.graph import place_views, view_graph


def test_views_stand_on_a_circle_group_beside_group():
    at = place_views([0, 1, 0, 1, 2])
    np.testing.assert_allclose(np.linalg.norm(at, axis=1), 1)
    angle = np.arctan2(at[:, 0], -at[:, 1]) % (2 * np.pi)
    assert np.argsort(angle).tolist() == [0, 2, 1, 3, 4]
    gaps = np.diff(np.sort(angle))
    assert gaps[0] < gaps[1]  # within a group, between groups


def test_one_group_is_spread_evenly():
    at = place_views([0] * 4)
    np.testing.assert_allclose(at.sum(0), 0, atol=1e-12)


def test_edges_are_as_thick_as_what_is_shared():
    S = np.array([[np.nan, 1.0, 0.01], [1.0, np.nan, 0.5], [0.01, 0.5, np.nan]])
    found = view_graph(["a", "b", "<c>"], [0, 0, 1], S, label="graph")
    assert found.count("<line") == 2  # of less than 0.05 there is no edge
    assert 'stroke-width="9"' in found
    assert 'stroke-width="5"' in found
    assert "&lt;c&gt;" in found
