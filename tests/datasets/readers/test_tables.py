"""The choice of columns, in parquet files."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotview.datasets import read_views
from hotview.datasets.readers.parquet import ParquetTable
from hotview.datasets.readers.tables import TableFile, escape_formulas, unescape_formula


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.parquet"


def read(path, content, **options):
    table = content if isinstance(content, pa.Table) else pa.table(content)
    pq.write_table(table, path)
    return read_views(path, **options)["lab"]


def test_columns_are_chosen_by_their_whole_name(path):
    table = {"a": [1], "a.b": [2], "a.c": [3], "d": [4]}
    np.testing.assert_array_equal(read(path, table, columns=["d", "a"]), [[4, 1]])
    np.testing.assert_array_equal(read(path, table, drop=["a"]), [[2, 3, 4]])
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])
    with pytest.raises(ValueError, match=r"lab\.parquet: more than one column is called 'a'"):
        read(path, twice)


@pytest.mark.parametrize("name", ("patient", None))
def test_an_index_that_pandas_saved_is_not_taken_for_a_measurement(path, name):
    frame = pd.DataFrame({"a": [1.0, 2.0]}, index=pd.Index([10, 20], name=name))
    frame.to_parquet(path)
    column = name or "__index_level_0__"
    with pytest.raises(ValueError, match=rf"parquet: column '{column}' looks like a row index"):
        read_views(path)
    np.testing.assert_array_equal(read_views(path, drop=[column])["lab"], [[1], [2]])
    got = read_views(path, columns=[column, "a"])["lab"]
    np.testing.assert_array_equal(got, [[10, 1], [20, 2]])
    frame.reset_index(drop=True).to_parquet(path)
    np.testing.assert_array_equal(read_views(path)["lab"], [[1], [2]])


def test_text_and_names_of_two_lines_are_refused(path):
    pq.write_table(pa.table({"id": ["a", "b\nc"], "note": ["x", "y"]}), path)
    table = ParquetTable(path)
    assert table.read_text(["note"]) == [["x", "y"]]
    with pytest.raises(ValueError, match=r"column 'id' of .*lab\.parquet, in row 2, has a line"):
        table.read_text(["id"])
    with pytest.raises(ValueError, match=r"name of column 1 of .*lab\.parquet has a line break"):
        read(path, {"a\nb": [1.0]})


@pytest.mark.parametrize("method", ("read", "read_text"))
def test_a_table_larger_than_memory_is_named(path, method):
    class Large(TableFile):
        def find_text(self):
            return []

        def _read(self, names):
            return np.empty((10**9, 10**7))

        _read_text = _read

    with pytest.raises(MemoryError, match=r"lab\.parquet to fit into memory"):
        getattr(Large(path, ["a"], []), method)(["a"])


@pytest.mark.parametrize(
    "before", ("", " ", "\xa0", "\ufeff", "\u200b", "\x0b", "\x00", " \u2060 ")
)
def test_formulas_behind_characters_that_do_not_show_are_escaped(before):
    for cell in (f"{before}{sign}A1" for sign in "=+-@＝"):
        assert escape_formulas({cell: [cell]}) == {f"'{cell}": [f"'{cell}"]}
        assert unescape_formula(f"'{cell}") == cell
    assert escape_formulas({"x": ["-\u0663"]}) == {"x": ["'-\u0663"]}  # of another script


def test_numbers_and_other_text_are_not_escaped():
    for cell in (" -7", "-7", "+1.5e-3", "-.5", "-5.", "a=1", " a"):
        assert escape_formulas({cell: [cell]}) == {cell: [cell]}
    for cell in ("'-1.5", "'+3", "'t Hooft", "'", "''", "=x", "", None):
        assert unescape_formula(cell) == cell
