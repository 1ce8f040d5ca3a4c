"""Tables in memory, read as their files are."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotview.datasets.readers.arrow import ArrowTable
from hotview.datasets.readers.parquet import ParquetTable

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


def test_text(table):
    assert table.find_text() == ["sex", "ward", "long", "seen"]  # a date is text, too
    names = ["ward", "sex", "ill", "age", "seen"]
    expected = [["a", "b", None], ["F", None, "M"], ["True", "False", None], ["31", None, "58"]]
    expected.append(["2024-01-31"] * 3)
    assert table.read_text(names) == expected


def test_what_is_not_a_number(table):
    with pytest.raises(ValueError, match=r"column 'sex' holds string, not numbers \('F' in row 1"):
        table.read(["age", "sex"])
    with pytest.raises(ValueError, match=r"column 'seen' holds date32"):
        table.read(["seen"])


def test_numbers_may_mean_missing(table):
    table.missing = ["31", "2.0", "?", "0"]
    X = table.read(["age", "dose", "ill"])  # 0 is no number in a column of truth values
    np.testing.assert_array_equal(X, [[NAN, 1.5, 1], [NAN, NAN, 0], [58, NAN, NAN]])


def test_float32_stays_and_an_index_that_pandas_saved_is_known():
    frame = pd.DataFrame({"age": np.ones(2, np.float32)}, index=["ann", "bob"])
    table = ArrowTable("a", pa.Table.from_pandas(frame))
    assert table.saved_index == ["__index_level_0__"]
    assert table.read(["age"]).dtype == np.float32


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


def test_messages_begin_with_the_name():
    with pytest.raises(ValueError, match=r"^sheet 'Lab' of a\.xlsx: more than one column.*'x'"):
        ArrowTable("sheet 'Lab' of a.xlsx", pa.table([[1], [2]], names=["x", "x"]))
    large = ArrowTable("patients", pa.table({"id": [2**53 + 1]}))
    with pytest.raises(ValueError, match=r"^patients: column 'id' holds the whole number 9007"):
        large.read(["id"])
    nested = ArrowTable("patients", pa.table({"tags": [["a"]]}))
    with pytest.raises(ValueError, match=r"^patients cannot be read as a table"):
        nested.read_text(["tags"])
