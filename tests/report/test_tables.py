import io

import numpy as np
from rich.console import Console

from hotview.report.tables import matrix_table, number, signed


def rendered(table):
    console = Console(file=io.StringIO(), width=100, force_terminal=True, color_system="standard")
    console.print(table)
    return console.file.getvalue()


def test_shows_names_numbers_and_title():
    text = rendered(matrix_table([[0.125, 2.0]], ["pix"], ["fou", "mor"], title="Costs", digits=2))
    for part in ("Costs", "pix", "fou", "mor", "0.12", "2.00"):
        assert part in text


def test_nan_is_a_dot_and_the_extreme_is_bold():
    bold = "\x1b[1m"
    values = [[np.nan, 3.0, 1.0]]
    largest = rendered(matrix_table(values, ["a"], ["x", "y", "z"], title=""))
    smallest = rendered(matrix_table(values, ["a"], ["x", "y", "z"], title="", highlight="min"))
    assert "·" in largest
    assert f"{bold}3.000" in largest
    assert f"{bold}1.000" in smallest
    assert f"{bold}1.000" not in largest


def test_numbers_have_true_minus_signs_and_no_negative_zero():
    assert (number(-1.25, 2), number(-0.01), number(float("nan"))) == ("−1.25", "0.0", "–")
    assert (signed(0.25, 2), signed(-3.0), signed(-0.01)) == ("+0.25", "−3.0", "0.0")
