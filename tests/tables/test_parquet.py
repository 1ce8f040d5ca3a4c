"""Parquet files that are unpacked by row groups."""

import decimal
import os
import pickle
import resource
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import hotview as hv
from hotview.datasets import read_views
from hotview.tables import parquet
from hotview.tables.parquet import ParquetRows

random = np.random.default_rng(0)
SINGLE = {f"c{j}": random.normal(size=100).astype(np.float32) for j in range(3)}
MIXED = {
    **SINGLE,
    "whole": pa.array([None, *range(99)]),
    "yes": pa.array([True, None] * 50),
    "half": pa.array(np.arange(100, dtype=np.float16)),
    "never": pa.nulls(100),
}


@pytest.fixture(autouse=True)
def small(tmp_path, monkeypatch):
    """Everything counts as large, a few rows at a time, unpacked in a folder of its own."""
    monkeypatch.setattr(parquet, "_LARGE", 0)
    monkeypatch.setattr(parquet, "_BATCH_BYTES", 150)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "there"))
    (tmp_path / "there").mkdir()


@pytest.fixture
def unpacked(monkeypatch):
    """Row groups that pyarrow is asked for, one after the other."""
    asked, read = [], pq.ParquetFile.iter_batches

    def noted(self, **how):
        asked.extend(how["row_groups"])
        return read(self, **how)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", noted)
    return asked


def write(path, columns=SINGLE, group=10):
    pq.write_table(pa.table(columns), path, row_group_size=group)
    return path


@pytest.mark.parametrize(("columns", "group"), ((SINGLE, 7), (MIXED, 1), (MIXED, 1000)))
def test_a_large_file_is_mapped_and_the_same(tmp_path, group, columns):
    path = write(tmp_path / "a.parquet", columns, group)
    expected = read_views(path)["a"]
    assert isinstance(expected, np.ndarray)
    found = read_views(path, mmap=True)["a"]
    assert isinstance(found, ParquetRows)
    assert found.shape == expected.shape
    assert found.dtype == expected.dtype == (np.float32 if columns is SINGLE else np.float64)
    for rows in (slice(12, 31), np.array([99, 3, 50]), slice(None)):
        np.testing.assert_array_equal(found[rows], expected[rows])
    assert isinstance(found[:], np.memmap)
    assert not found[:].flags.writeable
    assert list((tmp_path / "there").iterdir()) == []  # nothing is left behind
    names = [*columns][::-2]
    found = read_views(path, mmap=True, columns=names)["a"]
    np.testing.assert_array_equal(found[:], read_views(path, columns=names)["a"])


def test_a_fit_is_the_same_to_the_last_bit(tmp_path):
    paths = [write(tmp_path / f"{name}.parquet", group=7) for name in "ab"]
    few = {"max_epochs": 1, "batch_size": 16, "hidden": (4,), "encoder_dim": 3, "n_components": 2}
    mapped, whole = (
        hv.MultiViewEncoder(**few, device="cpu", random_state=0).fit(read_views(paths, mmap=mmap))
        for mmap in (True, False)
    )
    X = read_views(paths)["a"]
    np.testing.assert_array_equal(mapped.transform_view(X, "a"), whole.transform_view(X, "a"))
    np.testing.assert_array_equal(mapped.plan_.W, whole.plan_.W)


def test_what_the_schema_tells_is_refused_at_once_and_what_values_tell_on_access(tmp_path):
    path = write(tmp_path / "a.parquet", {"x": ["a", "b"]})
    with pytest.raises(ValueError, match=r"a\.parquet: column 'x' holds string, not numbers"):
        read_views(path, mmap=True)
    write(path, {"x": [1, 2, 3, 2**60 + 1]}, group=2)
    with pytest.raises(ValueError, match="'x' holds the whole number") as whole:
        read_views(path)
    X = read_views(path, mmap=True)["a"]
    np.testing.assert_array_equal(X[:2], [[1], [2]])
    for _ in range(2):  # it does not become right by being asked for again
        with pytest.raises(ValueError, match="'x' holds the whole number") as found:
            X[3]
        assert str(found.value) == str(whole.value)


def test_a_file_that_changes_underneath_is_refused(tmp_path):
    path = write(tmp_path / "a.parquet")
    X = read_views(path, mmap=True)["a"]
    first = X[:10].copy()
    with open(path, "r+b") as stream:
        stream.write(b"PAR1")
    os.utime(path, ns=(0, 0))  # whatever the clock of the disk can tell apart
    with pytest.raises(ValueError, match=r"a\.parquet was changed while it was being read"):
        X[10:20]
    np.testing.assert_array_equal(X[:10], first)


@pytest.mark.parametrize("is_replaced", (True, False))
def test_a_file_that_is_replaced_or_gone_is_read_on(tmp_path, is_replaced):
    path = write(tmp_path / "a.parquet")
    expected, X = read_views(path)["a"], read_views(path, mmap=True)["a"]
    path.unlink()
    if is_replaced:
        other = write(tmp_path / "b.parquet", {name: column + 1 for name, column in SINGLE.items()})
        other.rename(path)
    np.testing.assert_array_equal(X[:], expected)


def test_a_damaged_group_is_named_when_it_is_asked_for(tmp_path):
    path = write(tmp_path / "a.parquet")
    start = pq.read_metadata(path).row_group(5).column(0).data_page_offset
    content = bytearray(path.read_bytes())
    content[start : start + 20] = b"\xff" * 20
    path.write_bytes(content)
    X = read_views(path, mmap=True)["a"]
    np.testing.assert_array_equal(X[:50, 0], SINGLE["c0"][:50])
    with pytest.raises(ValueError, match=r"a\.parquet cannot be read as a parquet file"):
        X[50]


def test_the_room_is_reserved_before_anything_is_read(tmp_path):
    path = write(tmp_path / "a.parquet")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, hard))
    try:
        with pytest.raises(OSError, match=r"room for 0\.0 GB in .*there, to unpack .*TMPDIR"):
            read_views(path, mmap=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_another_process_opens_it_again_and_reads_what_it_needs(tmp_path, unpacked):
    path = write(tmp_path / "a.parquet", MIXED)
    X = read_views(path, mmap=True)["a"]
    again = pickle.loads(pickle.dumps(X))
    assert unpacked == []  # by opening it
    np.testing.assert_array_equal(again[25:30], read_views(path)["a"][25:30])
    again[29:31]
    assert unpacked == [2, 3]
    write(path, {name: column[:50] for name, column in MIXED.items()})
    with pytest.raises(ValueError, match=r"to have 100 rows, as where it was read first, .* 50"):
        pickle.loads(pickle.dumps(X))


@pytest.mark.skipif(not os.path.exists("/proc/self/fd"), reason="tells what is open")
def test_files_are_closed_when_the_view_is_gone(tmp_path):
    open_now = len(os.listdir("/proc/self/fd"))
    X = read_views(write(tmp_path / "a.parquet"), mmap=True)["a"]
    part = X[:10]
    assert len(os.listdir("/proc/self/fd")) > open_now
    del X
    np.testing.assert_array_equal(part[:, 0], SINGLE["c0"][:10])  # whoever has rows keeps them
    del part
    assert len(os.listdir("/proc/self/fd")) == open_now


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
    "float16": (pa.array([np.float16(0.5), None, np.float16(2)], pa.float16()), [0.5, np.nan, 2]),
    "int8": (pa.array([1, None, -3], pa.int8()), [1, np.nan, -3]),
    "int64": (pa.array([2**53, None, -(2**53)]), [2**53, np.nan, -(2**53)]),
    "uint64": (pa.array([1, 2, 3], pa.uint64()), [1, 2, 3]),
    "bool": (pa.array([True, False, None]), [1, 0, np.nan]),
    "decimal": (pa.array([ONE_TENTH, None, -ONE_TENTH]), [0.1, np.nan, -0.1]),
    "null": (pa.nulls(3), [np.nan] * 3),
}


def test_numbers_of_any_type_become_float64_unless_all_are_float32_and_nulls_nan(path):
    got = read(path, {kind: column for kind, (column, _) in NUMERIC.items()})
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got.T, [expected for _, expected in NUMERIC.values()])
    single = pa.array([0.1, None], pa.float32())
    got = read(path, {"a": single, "b": single})
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, np.array([[0.1, 0.1], [np.nan, np.nan]], np.float32))
    assert read(path, {"a": single, "b": pa.array([1, 2])}).dtype == np.float64


NOT_NUMERIC = {
    "string": (pa.array([None, "x"]), "holds string.*'x' in row 2"),
    "category": (pa.array(["x"]).dictionary_encode(), "holds dictionary.*'x' in row 1"),
    "timestamp": (pa.array([10], pa.timestamp("ns")), "holds timestamp.*row 1"),
    "list": (pa.array([[1.0, 2.0]]), "holds list"),
    "all null text": (pa.array([None], pa.string()), "holds string.*None in row 1"),
    "long integer": (pa.array([2**53 + 1]), f"{2**53 + 1}.*digits"),
    "long decimal": (pa.array([decimal.Decimal(2**60)]), f"{2**60}.*digits"),
}


@pytest.mark.parametrize(("column", "message"), NOT_NUMERIC.values(), ids=NOT_NUMERIC)
def test_what_is_not_a_number_is_named(path, column, message):
    table = {"a": pa.array([1.0] * len(column)), "b": column}
    with pytest.raises(ValueError, match=rf"lab\.parquet: column 'b' .*{message}.*drop=\['b'\]"):
        read(path, table)
    np.testing.assert_array_equal(read(path, table, drop=["b"]), [[1.0]] * len(column))


def test_what_is_not_parquet_or_no_table_is_named(path):
    for columns in ({}, {"a": pa.array([], pa.float64())}):
        with pytest.raises(ValueError, match=r"lab\.parquet"):
            read(path, columns)
    pq.write_table(pa.table({"a": [1.0] * 100}), path)
    for content in (b"", b"PAR1", b"a,b\n1,2\n", path.read_bytes()[:-50]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"lab\.parquet cannot be read as a parquet file"):
            read_views(path)
