"""Parquet files as tables."""

import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from hotview.datasets import read_views


@pytest.fixture
def path(tmp_path):
    return tmp_path / "lab.parquet"


def read(path, content, **options):
    table = content if isinstance(content, pa.Table) else pa.table(content)
    pq.write_table(table, path, row_group_size=2)
    return read_views(path, **options)["lab"]


ONE_TENTH = decimal.Decimal("0.1")
NUMERIC = {
    "float64": (pa.array([0.1, None, -np.inf]), [0.1, np.nan, -np.inf]),
    "float16": (pa.array([0.5, None, 2], pa.float16()), [0.5, np.nan, 2]),
    "int8": (pa.array([1, None, -3], pa.int8()), [1, np.nan, -3]),
    "int64": (pa.array([2**53, None, -(2**53)]), [2**53, np.nan, -(2**53)]),
    "uint64": (pa.array([1, 2, 3], pa.uint64()), [1, 2, 3]),
    "bool": (pa.array([True, False, None]), [1, 0, np.nan]),
    "decimal": (pa.array([ONE_TENTH, None, -ONE_TENTH]), [0.1, np.nan, -0.1]),
    "null": (pa.nulls(3), [np.nan] * 3),
}


@pytest.mark.parametrize("kind", NUMERIC)
def test_numbers_of_any_type_become_float64_and_nulls_nan(path, kind):
    column, expected = NUMERIC[kind]
    got = read(path, {"a": column, "b": pa.array([1.0, 2.0, 3.0])})
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got, np.column_stack([expected, [1, 2, 3]]))


def test_float32_is_kept_if_all_columns_are(path):
    single = pa.array([0.1, None], pa.float32())
    got = read(path, {"a": single, "b": single})
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([[0.1, 0.1], [np.nan, np.nan]], np.float32))
    assert read(path, {"a": single, "b": pa.array([1, 2])}).dtype == np.float64


NOT_NUMERIC = {
    "string": (pa.array([None, "x"]), "holds string.*'x' in row 2"),
    "category": (pa.array(["x"]).dictionary_encode(), "holds dictionary.*'x' in row 1"),
    "timestamp": (pa.array([10], pa.timestamp("ns")), "holds timestamp.*row 1"),
    "date": (pa.array([10], pa.date32()), "holds date32"),
    "list": (pa.array([[1.0, 2.0]]), "holds list"),
    "struct": (pa.array([{"x": 1}]), "holds struct"),
    "all null text": (pa.array([None], pa.string()), "holds string.*None in row 1"),
    "long integer": (pa.array([2**53 + 1]), f"{2**53 + 1}.*digits"),
    "long unsigned": (pa.array([2**64 - 1], pa.uint64()), f"{2**64 - 1}.*digits"),
    "long decimal": (pa.array([decimal.Decimal(2**60)]), f"{2**60}.*digits"),
}


@pytest.mark.parametrize("kind", NOT_NUMERIC)
def test_what_is_not_a_number_is_named(path, kind):
    column, message = NOT_NUMERIC[kind]
    table = {"a": pa.array([1.0] * len(column)), "b": column}
    with pytest.raises(ValueError, match=rf"lab\.parquet: column 'b' .*{message}.*drop=\['b'\]"):
        read(path, table)
    np.testing.assert_array_equal(read(path, table, drop=["b"]), [[1.0]] * len(column))


@pytest.mark.parametrize("columns", ({}, {"a": pa.array([], pa.float64())}))
def test_a_table_without_columns_or_rows_is_refused(path, columns):
    with pytest.raises(ValueError, match=r"lab\.parquet"):
        read(path, columns)


@pytest.mark.parametrize("content", (b"", b"PAR1", b"a,b\n1,2\n", "half"))
def test_what_is_not_parquet_is_named(path, content):
    if content == "half":
        pq.write_table(pa.table({"a": [1.0] * 100}), path)
        content = path.read_bytes()[:-50]
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"lab\.parquet cannot be read as a parquet file"):
        read_views(path)
