import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from hotview._lazy import LazyRows
from hotview._validation import ViewTable, check_tables
from hotview.training import imputation
from hotview.training.column_scaler import root_shares
from hotview.training.imputation import (
    column_medians,
    is_in_memory,
)


def medians(*tables, present=None, is_counts=False):
    views = [ViewTable(X) for X in tables]
    return column_medians(views, present or [None] * len(views), is_counts=is_counts)


def make_rows(n=21, d=5, seed=0):
    random = np.random.default_rng(seed)
    X = random.integers(-3, 4, size=(n, d)) * random.integers(0, 2, size=(n, d)) * 1.5
    X[random.random(X.shape) < 0.2] = np.nan
    return X


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(2, 30),
    d=st.integers(1, 5),
    cut=st.integers(1, 29),
    kinds=st.tuples(st.booleans(), st.booleans()),
    step=st.sampled_from([1, 40, 2**22]),
    seed=st.integers(0, 1000),
)
def test_medians_are_those_of_numpy_however_rows_are_stored(n, d, cut, kinds, step, seed):
    X = make_rows(n, d, seed)
    X[0] = 1.0  # every column has a value
    parts = [part for part in (X[:cut], X[cut:]) if len(part) > 0]
    tables = [
        sparse.csr_array(part) if is_sparse else part
        for part, is_sparse in zip(parts, kinds, strict=False)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(imputation, "_N_ENTRIES", step)
        np.testing.assert_array_equal(medians(*tables), np.nanmedian(X, axis=0))


def test_only_some_rows_count_and_nothing_is_changed():
    X = make_rows()
    stored, rows = sparse.csr_array(X), np.arange(3, 20)
    before = X.copy(), stored.copy()
    expected = np.nanmedian(np.concatenate([X[rows], X]), axis=0)
    for first, second in ((X, stored), (stored, X)):
        np.testing.assert_array_equal(medians(first, second, present=[rows, None]), expected)
    np.testing.assert_array_equal(X, before[0])
    np.testing.assert_array_equal(stored.data, before[1].data)


def test_a_cell_that_is_stored_in_parts_is_one_value_and_averages_are_in_float64():
    parts = sparse.csr_array(([1.0, 2.0, 5.0, 4.0], [0, 0, 0, 0], [0, 2, 3, 4]), shape=(3, 1))
    assert medians(parts).tolist() == [4.0]
    assert parts.nnz == 4
    assert medians(np.array([[1.0], [1 + 2**-23]], dtype=np.float32)).tolist() == [1 + 2**-24]
    X = make_rows()
    X[:, 2] = np.nan  # a column without values has no median
    for table in (X, sparse.csr_array(X)):
        assert np.flatnonzero(np.isnan(medians(table))).tolist() == [2]


@pytest.mark.parametrize("is_sparse", (False, True))
def test_medians_of_counts_are_those_of_their_roots(is_sparse):
    X = np.random.default_rng(0).poisson(0.8, size=(31, 6)).astype(np.float64)
    X[[3, 5], [1, 2]] = np.nan
    table = sparse.csr_array(X) if is_sparse else X
    expected = np.nanmedian(root_shares(X).astype(np.float64), axis=0)
    np.testing.assert_allclose(medians(table, is_counts=True), expected, rtol=1e-6)


class Lazy(LazyRows):
    def fill(self, block):
        self._array[:] = 1.0


def test_tables_in_files_are_not_in_memory(tmp_path):
    X = np.zeros((6, 2))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    lazy = Lazy(X.copy(), np.array([0, 6]))
    given = {
        "array": X,
        "part": X[::2, :1],
        "sparse": sparse.csr_array(X),
        "mapped": mapped,
        "part of mapped": mapped[2:],
        "lazy": lazy,
    }
    found = {name: is_in_memory(table) for name, table in check_tables(given).items()}
    assert [name for name, is_there in found.items() if is_there] == ["array", "part", "sparse"]
