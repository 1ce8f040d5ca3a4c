import re

import numpy as np
import pytest

from hotview.report.page.heat_map import heat_map


def drawn(values, rows, columns, **how):
    return heat_map(values, rows, columns, label="W", text="{:.2f}".format, row_title="view",
                    column_title="to", **how)  # fmt: skip


def test_colors_are_shares_of_the_largest():
    found = drawn([[0.5, 0.25], [np.nan, 0.0]], "ab", "xy")
    assert re.findall(r'fill-opacity="([\d.]+)"', found) == ["1", "0.5", "0"]
    assert drawn([[0.5, 0.0]], "a", "xy", blank_zeros=True).count("fill-opacity") == 1


def test_spread_stands_below():
    found = drawn([[0.5]], ["a"], ["x"], spread=[[0.125]])
    assert ">±0.12</text>" in found
    assert "<title>a, x: 0.50 ±0.12</title>" in found


@pytest.mark.parametrize("n", (2, 12, 40))
def test_small_cells_have_tooltips_only(n):
    names = [f"class {k}" for k in range(n)]
    found = drawn(np.ones((n, n)), names, names)
    assert found.count('class="heat"') == found.count("<title>class 0, ") * n
    assert ('class="cell light"' in found) == (n < 40)


def test_no_number_at_all():
    assert "heat" not in drawn([[np.nan]], ["a"], ["x"])
    assert drawn([[0.0]], ["a"], ["x"]).count('fill-opacity="0"') == 1
