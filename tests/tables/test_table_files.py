"""What all tables share: columns, index, text and formulas; tables in memory; messages."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotview._messages import did_you_mean, listed, reading, within_memory
from hotview.data.arrow import ArrowTable
from hotview.data.options import Options
from hotview.data.table_file import TableFile, escape_formulas, unescape_formula
from hotview.datasets import read_views
from hotview.tables.parquet import ParquetTable


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


PEOPLE = pa.table(
    {
        "age": pa.array([31, None, 58]),
        "ill": pa.array([True, False, None]),
        "sex": pa.array(["F", None, " M "]),
        "ward": pa.array(["a", "b", "NA"]).dictionary_encode(),
        "dose": pa.array([decimal.Decimal("1.5"), None, decimal.Decimal(2)]),
        "never": pa.nulls(3),
        "long": pa.array(["x", "y", None], type=pa.large_string()),
        "seen": pa.array([datetime.date(2024, 1, 31)] * 3),
    }
)
NAN = np.nan


@pytest.fixture(params=("memory", "file"))
def table(request, tmp_path):
    """The same table in memory and in a parquet file: both read it alike."""
    if request.param == "memory":
        return ArrowTable("people", PEOPLE)
    pq.write_table(PEOPLE, tmp_path / "a.parquet")
    return ParquetTable(tmp_path / "a.parquet")


def test_numbers(table):
    X = table.read(["dose", "never", "ill", "age"])
    np.testing.assert_array_equal(X, [[1.5, NAN, 1, 31], [NAN, NAN, 0, NAN], [2, NAN, NAN, 58]])
    assert X.dtype == np.float64
    with pytest.raises(ValueError, match=r"column 'sex' holds string, not numbers \('F' in row 1"):
        table.read(["age", "sex"])
    table.options = Options(missing=["31", "2.0", "?", "0"])
    X = table.read(["age", "dose", "ill"])  # 0 is no number in a column of truth values
    np.testing.assert_array_equal(X, [[NAN, 1.5, 1], [NAN, NAN, 0], [58, NAN, NAN]])


def test_text(table):
    assert table.find_text() == ["sex", "ward", "long", "seen"]  # a date is text, too
    names = ["ward", "sex", "ill", "age", "seen"]
    expected = [["a", "b", None], ["F", None, "M"], ["True", "False", None], ["31", None, "58"]]
    expected.append(["2024-01-31"] * 3)
    assert table.read_text(names) == expected


def test_text_of_other_types():
    columns = {
        "view": pa.array(["a", None], type=pa.string_view()),
        "codes": pa.array([7, None]).dictionary_encode(),
        "flags": pa.array([True, None]).dictionary_encode(),
        "floats": pa.array([1.0, 2.5]),
        "ids": pa.array([20240131001.0, None]),
        "narrow": pa.array([33743.0, 0.1], type=pa.float32()),
        "others": pa.array([float("nan"), 1e300]),
    }
    table = ArrowTable("a", pa.table(columns))
    assert table.find_text() == ["view"]
    expected = [["a", None], ["7", None], ["True", None], ["1", "2.5"]]
    expected += [["20240131001", None], ["33743", "0.1"], [None, "1e+300"]]
    assert table.read_text(list(columns)) == expected


def test_the_nearest_name_is_proposed_or_the_known_ones_are_listed():
    assert did_you_mean("Patient_ID", ["age", "patient_id"]) == " Did you mean 'patient_id'?"
    assert did_you_mean("zzz", ["age", "iron"]) == " There are: 'age', 'iron'."
    assert did_you_mean("zzz", []) == ""
    assert listed(str(i) for i in range(10)).endswith("'9'")
    assert listed(str(i) for i in range(11)).endswith("'9', …")


def test_what_a_reader_raises_becomes_a_value_error_unless_it_is_not_the_files_fault():
    cause = KeyError("data")
    message = pytest.raises(ValueError, match=r"a\.mat .*KeyError.*data")
    with message as caught, reading("a.mat", ""):
        raise cause
    assert caught.value.__cause__ is cause
    with pytest.raises(PermissionError), reading("a.mat", "a MAT-file"):
        raise PermissionError
    with pytest.raises(MemoryError) as caught, within_memory("a.mat"), reading("a.mat", ""):
        raise MemoryError
    assert str(caught.value).count("a.mat") == 1
    assert "(MemoryError)" in str(caught.value)
