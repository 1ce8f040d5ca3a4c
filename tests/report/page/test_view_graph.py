import numpy as np

from hotview.report.page.view_graph import view_graph


def test_edges_are_as_thick_as_what_is_shared():
    S = np.array([[np.nan, 1.0, 0.01], [1.0, np.nan, 0.5], [0.01, 0.5, np.nan]])
    found = view_graph(["a", "b", "<c>"], [0, 0, 1], S, label="graph")
    assert found.count("<line") == 2  # of less than 0.05 there is no edge
    assert 'stroke-width="9"' in found
    assert 'stroke-width="5"' in found
    assert "&lt;c&gt;" in found
