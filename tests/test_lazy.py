import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from hotview._types import LazyRows
from hotview._validation import check_tables
from hotview.preprocessing import rows as view_rows
from hotview.preprocessing.table_scan import scan_tables

X = np.random.default_rng(0).normal(size=(10, 3))
EDGES = np.array([0, 3, 3, 7, 10])  # nothing is in the second block


class Counted(LazyRows):
    """Rows of X, recording the filled blocks."""

    def __init__(self, edges=EDGES):
        self.where, self.filled = np.full_like(X, 1e300), []
        super().__init__(self.where, edges)

    def fill(self, block):
        rows = slice(*self._edges[block : block + 2])
        self.where[rows] = X[rows]
        self.filled.append(block)


KEYS = {
    "a slice": (slice(4, 6), {2}),
    "over an edge": (slice(2, 4), {0, 2}),
    "up to an edge": (slice(0, 3), {0}),
    "backwards": (slice(6, 3, -1), {2}),
    "nothing": (slice(5, 5), set()),
    "one row": (3, {2}),
    "numbers": (np.array([9, 0, 9]), {0, 3}),
    "no numbers": (np.array([], dtype=int), set()),
    "a mask": (np.arange(10) == 7, {3}),
    "rows and a column": ((slice(0, 2), 1), {0}),
    "all": (slice(None), {0, 2, 3}),
    "an ellipsis and a column": ((..., 0), {0, 2, 3}),
    "a mask of entries": (X > 0, {0, 2, 3}),
}


@pytest.mark.parametrize("kind", KEYS)
def test_only_accessed_blocks_are_filled_and_once(kind):
    key, blocks = KEYS[kind]
    rows = Counted()
    for _ in range(2):
        np.testing.assert_array_equal(rows[key], X[key])
    assert set(rows.filled) - {1} == blocks
    assert len(set(rows.filled)) == len(rows.filled)


def test_it_has_the_interface_of_an_array():
    rows = Counted()
    assert (rows.shape, rows.ndim, rows.dtype, len(rows)) == ((10, 3), 2, np.float64, 10)
    assert rows.filled == []
    np.testing.assert_array_equal(np.asarray(rows, dtype=np.float32), X.astype(np.float32))
    assert np.shares_memory(np.asarray(rows), rows.where)
    assert not np.shares_memory(np.array(rows), rows.where)
    np.testing.assert_array_equal(np.mean(rows, axis=0), X.mean(axis=0))
    for key in (10, -11, np.array([0, 10])):
        with pytest.raises(IndexError):
            rows[key]


def test_a_block_that_failed_is_filled_on_the_next_access(monkeypatch):
    rows = Counted()
    with monkeypatch.context() as patch:
        patch.setattr(Counted, "fill", lambda self, block: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            rows[:2]
    np.testing.assert_array_equal(rows[:2], X[:2])


def test_concurrent_threads_fill_every_block_once():
    class Slow(Counted):
        def fill(self, block):
            time.sleep(0.01)  # until all threads wait
            super().fill(block)

    rows = Slow(np.arange(11))
    with ThreadPoolExecutor(5) as threads:
        found = list(threads.map(lambda _: rows[2:8].copy(), range(5)))
    assert rows.filled == [2, 3, 4, 5, 6, 7]
    for part in found:
        np.testing.assert_array_equal(part, X[2:8])


def test_a_table_fills_the_rows_it_returns():
    rows = Counted()
    table = check_tables({"a": rows})["a"]
    assert (table.n_rows, table.n_columns, table.container) == (10, 3, "numpy")
    assert table.is_lazy
    assert not table.is_array
    assert rows.filled == []
    np.testing.assert_array_equal(table.rows(np.array([5, 4])), X[[5, 4]])
    assert rows.filled == [2]
    np.testing.assert_array_equal(table.rows(slice(0, 9)), X[:9])


def test_means_are_those_of_the_array_to_the_last_bit(monkeypatch):
    for name, value in (("_MANY", 1), ("CHUNK", 15), ("_CACHED", 6)):
        monkeypatch.setattr(view_rows, name, value)  # two rows at a time of an array, else five
    how = {"preprocessing": "standardize", "impute": None}
    found, expected = (
        scan_tables("a", list(check_tables([one]).values()), **how).scaler for one in (Counted(), X)
    )
    np.testing.assert_array_equal(found.mean, expected.mean)
    np.testing.assert_array_equal(found.scale, expected.scale)
