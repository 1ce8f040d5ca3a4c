import tracemalloc

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import StandardScaler

from hotview._validation import ViewTable, check_tables
from hotview.preprocessing import column_scaler, table_scan
from hotview.preprocessing import rows as view_rows
from hotview.preprocessing.column_scaler import (
    IMPUTATIONS,
    column_medians,
    is_in_memory,
    root_shares,
)
from hotview.preprocessing.table_scan import check_finite, scan_tables
from tests.training.small_training import Lazy


@pytest.fixture(params=(7, 2**21))
def chunk(request, monkeypatch):
    """How many entries are looked at together: a row, or all."""
    for module in (view_rows, table_scan):
        monkeypatch.setattr(module, "CHUNK", request.param)


def make_rows(n=30, D=4, seed=0):
    random = np.random.default_rng(seed)
    return random.normal(size=(n, D)) * [1, 10, 0.1, 3] + [0, 5, -2, 100]


def scan(*tables, preprocessing="standardize", impute=None):
    return scan_tables(
        "age", [ViewTable(X) for X in tables], preprocessing=preprocessing, impute=impute
    )


@settings(max_examples=30, deadline=None)
@given(
    n=st.integers(2, 40),
    D=st.integers(1, 5),
    cut=st.integers(0, 39),
    offset=st.floats(-1e6, 1e6),
    scale=st.floats(0.01, 100),
    seed=st.integers(0, 1000),
    chunk=st.sampled_from((1, 7, 40, 2**21)),
)
def test_any_table_against_scikit_learn(n, D, cut, offset, scale, seed, chunk):
    X = np.random.default_rng(seed).normal(size=(n, D)) * scale + offset
    tables = [part for part in (X[:cut], X[cut:]) if len(part) > 0]
    scaler = StandardScaler().fit(X)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_rows, "CHUNK", chunk)
        found = scan(*tables)
    np.testing.assert_allclose(found.scaler.mean, scaler.mean_, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(found.scaler.scale, scaler.scale_, rtol=1e-4)
    expected = scaler.transform(X)
    np.testing.assert_allclose(found.scaler.transform(X), expected, rtol=1e-4, atol=1e-4)
    assert found.present == [None] * len(tables)  # all
    assert found.scaler.fill is None


@pytest.mark.parametrize(
    ("dtype", "offset"), (("f2", 0), (">f4", 0), ("u1", 0), ("?", 0), ("f4", 1e6), ("f8", -1e7))
)
def test_every_kind_of_number_also_far_from_zero(dtype, offset):
    X = np.random.default_rng(0).integers(0, 2, size=(20, 3)) * (1 if dtype == "?" else 100)
    view = (X + offset).astype(dtype)
    expected = StandardScaler().fit_transform(X.astype(float))
    np.testing.assert_allclose(scan(view).scaler.transform(view), expected, rtol=0, atol=1e-4)


@pytest.mark.parametrize(("dtype", "order", "impute"), (("f4", "C", None), ("f8", "F", "mean")))
def test_the_callers_arrays_are_not_changed(dtype, order, impute):
    X = np.array(make_rows(), dtype=dtype, order=order)
    if impute:
        X[3, 1] = np.nan
    before = X.copy()
    X.flags.writeable = False
    applied = scan(X, impute=impute).scaler.transform(X)
    assert applied.is_contiguous()
    applied += 1
    np.testing.assert_array_equal(X, before)
    untouched = scan(X, preprocessing="none", impute=impute).scaler.transform(X)
    assert not np.shares_memory(untouched.numpy(), X)
    np.testing.assert_allclose(untouched[4:], X[4:], rtol=1e-6)  # standardizing is left out


@pytest.mark.parametrize("impute", (None, "mean"))
def test_infinity_is_refused_with_its_place(chunk, impute):
    X = make_rows()
    X[7, 2] = X[9, 0] = np.inf
    X[20, 1] = -np.inf
    message = r"'age' to hold finite.*infinity in 3 entries, the first in row 7, column 2\..*cap"
    for look in (scan, lambda X, impute: check_finite("age", ViewTable(X), impute)):
        with pytest.raises(ValueError, match=message):
            look(X, impute=impute)


def test_nan_is_refused_with_its_place_and_the_remedy(chunk):
    X, Y = make_rows(), make_rows(6)
    X[3] = np.nan  # an absent row, not an error
    X[7, 2] = X[7, 3] = X[9, 0] = Y[1, 1] = np.nan
    remedy = r"impute='mean' fills.*, in this view alone impute=\{'age': 'mean'\};.*absent"
    place = "entries, the first in row 7, column 2"
    with pytest.raises(ValueError, match=rf"'age'.*NaN in 4 {place}\. {remedy}"):
        scan(X, Y)
    with pytest.raises(ValueError, match=f"NaN in 3 {place}"):
        check_finite("age", ViewTable(X), None)


def with_holes(X, seed=3):
    X = X.copy()
    holes = np.random.default_rng(seed).random(X.shape) < 0.3
    holes[:, 0] = False
    X[holes] = np.nan
    return X


def expected_of(method, X, new):
    """What scikit-learn makes of rows; columns are scaled by the cells that are known."""
    imputer = SimpleImputer(strategy=method.partition("+")[0], add_indicator="+" in method).fit(X)
    filled, d = imputer.transform(new), X.shape[1]
    marks = imputer.transform(X)[:, d:]
    parts = [StandardScaler().fit(X).transform(filled[:, :d])]
    if marks.shape[1] > 0:
        parts.append(StandardScaler().fit(marks).transform(filled[:, d:]))
    return np.hstack(parts), imputer.statistics_


@pytest.mark.parametrize("method", IMPUTATIONS)
def test_every_method_against_scikit_learn(method, chunk):
    dtype = "f8" if "median" in method else "f4"
    X = with_holes(make_rows().astype(dtype))
    new = with_holes(make_rows(seed=1).astype(dtype), seed=4)
    new[5, 0] = np.nan  # no cell of this column is missing from the training rows
    found = scan(X[:11], X[11:], impute=method).scaler
    for rows in (X, new):
        expected, statistics = expected_of(method, X.astype(np.float64), rows.astype(np.float64))
        np.testing.assert_allclose(found.fill, statistics, rtol=1e-12)
        np.testing.assert_allclose(found.transform(rows), expected, rtol=1e-4, atol=1e-4)
    assert (found.impute, found.n_columns, found.n_outputs) == (method, 4, expected.shape[1])
    assert (found.indicators is not None) == ("+" in method)


@pytest.mark.parametrize(
    ("preprocessing", "is_sparse"), (("standardize", False), ("none", True), ("components", False))
)
def test_indicators_are_scaled_or_left_as_they_are(preprocessing, is_sparse):
    X = with_holes(make_rows())
    table = sparse.csr_array(X) if is_sparse else X
    found = scan(table, preprocessing=preprocessing, impute="median+indicator").scaler
    marks = np.isnan(X[:, 1:]).astype(np.float64)
    expected = marks if preprocessing == "none" else StandardScaler().fit_transform(marks)
    np.testing.assert_allclose(found.transform(table)[:, 4:], expected, rtol=1e-5, atol=1e-6)
    plain = scan(table, preprocessing=preprocessing, impute="median").scaler
    np.testing.assert_array_equal(found.transform(table)[:, :4], plain.transform(table))


@pytest.mark.parametrize("is_sparse", (False, True))
def test_wide_counts_are_reduced_together_with_their_indicators(is_sparse):
    X = np.random.default_rng(0).poisson(0.3, size=(80, 300)).astype(np.float64)
    X[::3, 7] = X[1::3, 9] = np.nan
    table = sparse.csr_array(X) if is_sparse else X
    found = scan(table, preprocessing="auto", impute="median+indicator").scaler
    assert (found.kind, found.n_outputs, found.components.shape) == ("counts", 64, (302, 64))
    assert found.indicators.tolist() == [7, 9]
    share = np.isnan(X[:, [7, 9]]).mean(axis=0)
    np.testing.assert_allclose(found.mean[300:], share)
    np.testing.assert_allclose(found.scale[300:], (share * (1 - share)) ** 0.25)
    roots = root_shares(X)
    filled = np.where(np.isnan(roots), found.fill, roots)
    whole = (np.hstack([filled, np.isnan(X[:, [7, 9]])]) - found.mean) / found.scale
    np.testing.assert_allclose(found.transform(table), whole @ found.components, atol=1e-4)


def test_absent_rows_have_no_indicators():
    X = with_holes(make_rows())
    X[[2, 9]] = np.nan
    for table in (X, sparse.csr_array(X)):
        found = scan(table, impute="median+indicator").scaler.transform(table).numpy()
        assert found.shape == (30, 7)
        assert np.flatnonzero(np.isnan(found).any(axis=1)).tolist() == [2, 9]
        assert np.isnan(found[[2, 9]]).all()
    whole = make_rows()  # of which no cell is missing
    whole[3] = np.nan
    found = scan(whole, impute="mean+indicator").scaler
    assert (found.indicators, found.n_outputs, found.impute) == (None, 4, "mean+indicator")


def test_medians_of_rows_in_files_are_those_of_some_rows(monkeypatch):
    X = with_holes(make_rows(99))
    whole = scan(Lazy(X), impute="median").scaler.fill
    np.testing.assert_array_equal(whole, np.nanmedian(X, axis=0))  # there are few
    monkeypatch.setattr(view_rows.sample_rows, "__defaults__", (None, 9))
    rows = np.linspace(0, 98, 9).astype(int)
    X[rows, 1] = np.nan
    some = scan(Lazy(X), impute="median").scaler.fill
    expected = np.nanmedian(X[rows][:, [0, 2, 3]], axis=0)
    np.testing.assert_array_equal(some[[0, 2, 3]], expected)
    np.testing.assert_allclose(some[1], np.nanmean(X[:, 1]))  # no median is known


@pytest.mark.parametrize("impute", (None, "mean"))
def test_a_row_that_is_nan_throughout_is_absent(chunk, impute):
    X = make_rows()
    absent = [0, 5, 6, 29]
    holey = X.copy()
    holey[absent] = np.nan
    found = scan(holey, holey[:1], X[:2], impute=impute)
    kept = [i for i in range(30) if i not in absent]
    first, second, third = found.present
    assert (first.tolist(), second.tolist(), third) == (kept, [], None)
    expected = StandardScaler().fit(np.concatenate([X[kept], X[:2]]))
    np.testing.assert_allclose(found.scaler.mean, expected.mean_)
    np.testing.assert_allclose(found.scaler.scale, expected.scale_)
    assert check_finite("age", ViewTable(holey), impute).tolist() == kept
    # Where it is taken all the same, it stays recognizable instead of becoming the mean.
    assert torch.isnan(found.scaler.transform(holey[:1])).all()


@pytest.mark.parametrize(
    ("value", "dtype"), ((0.0, "f8"), (0.1, "f4"), (-1e9, "f4"), (1e-30, "f8"))
)
def test_constant_columns_are_found_and_become_0(value, dtype):
    X = (make_rows(500) * [1e-12, 1, 1e12, 1]).astype(dtype)  # of any size
    X[:, 1] = X[:, 3] = value
    found = scan(X)
    assert found.constant.tolist() == [1, 3]
    applied = found.scaler.transform(X)
    assert applied[:, [1, 3]].abs().max() <= 1e-6
    np.testing.assert_allclose(applied[:, [0, 2]].std(0, correction=0), 1, rtol=1e-4)


def with_column(X, j, values):
    X[:, j] = values
    return X


TOO_LARGE = r"'age' to hold numbers of ordinary.*column 2.*Rescale"


@pytest.mark.parametrize(
    ("X", "options", "message"),
    (
        (with_column(make_rows(), 2, np.nan), {"impute": "mean"}, r"column 2 is NaN.*Drop"),
        (with_column(make_rows(), 2, np.nan), {"impute": "median"}, r"column 2 is NaN.*Drop"),
        (np.full((3, 2), np.nan), {}, "'age' to have at least 2 rows with values.*has 0"),
        (np.eye(3)[:1], {}, "at least 2 rows with values.*has 1"),
        (make_rows() * [1, 1, 1e200, 1], {}, TOO_LARGE),
        (with_column(make_rows(), 2, 1e39), {"preprocessing": "none"}, TOO_LARGE),
    ),
    ids=str,
)
def test_columns_and_rows_that_cannot_be_used_are_refused(X, options, message):
    with pytest.raises(ValueError, match=message):
        scan(X, **options)


def test_numbers_that_float32_does_not_hold_are_standardized():
    X = with_column(make_rows(), 2, 1e39 * (-1.0) ** np.arange(30))
    expected = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(scan(X).scaler.transform(X), expected, rtol=1e-5, atol=1e-6)


def test_a_table_is_looked_at_without_a_copy_of_it(monkeypatch):
    monkeypatch.setattr(view_rows, "CHUNK", 2**14)
    X = np.ones((200_000, 20), dtype=np.float32)  # 16 MB
    X[::2] = 2
    tracemalloc.start()
    scan(X)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    # The numbers of the rows that are present take 8 bytes each, twice while they are put together.
    assert peak < 200_000 * 16 + 3e6


def test_extreme_values_are_those_far_from_what_a_column_held():
    known, X = scan(make_rows() * [1, 1e25, 1, 1]).scaler, make_rows(seed=1)
    X[:, 1] *= 1e25  # ordinary in this column
    assert len(check_finite("age", ViewTable(X), None, known)) == 30
    X[3, 2], X[8, 0], X[11, 0] = 1e25, -1e25, 1e10  # the last is merely large
    message = r"extreme values in 2 entries, the first in row 3, column 2"
    with pytest.raises(ValueError, match=message):
        check_finite("age", ViewTable(X), None, known)
    assert len(check_finite("age", ViewTable(X), None)) == 30  # for who knows no better


@pytest.mark.parametrize("preprocessing", ("auto", "pca", "standardize", "none"))
def test_sparse_tables_have_the_statistics_of_dense_ones(preprocessing, chunk, monkeypatch):
    monkeypatch.setattr(table_scan, "WIDE", 5)
    X = np.random.default_rng(0).poisson(0.4, size=(50, 8)).astype(np.float64)
    X[:, 3] = 0
    tables = [sparse.csr_array(part) for part in (X[:20], X[20:])]
    found, expected = (
        scan(*parts, preprocessing=preprocessing) for parts in (tables, (X[:20], X[20:]))
    )
    assert found.scaler.kind == expected.scaler.kind
    assert (found.scaler.kind == "counts") == (preprocessing == "auto")
    np.testing.assert_allclose(found.scaler.mean, expected.scaler.mean, atol=1e-12)
    np.testing.assert_allclose(found.scaler.scale, expected.scaler.scale, rtol=1e-9)
    np.testing.assert_array_equal(found.constant, [3])
    reduced = found.scaler.transform(tables[0])
    torch.testing.assert_close(
        reduced.abs(), expected.scaler.transform(X[:20]).abs(), rtol=1e-3, atol=1e-3
    )


@pytest.mark.parametrize("value", (np.nan, np.inf))
def test_values_of_sparse_tables_that_are_not_finite_are_found(value):
    X, known = sparse.csr_array(np.eye(6)), scan(sparse.csr_array(np.eye(6))).scaler
    X.data[2] = value
    for look in (scan, lambda X: check_finite("age", ViewTable(X), None, known)):
        with pytest.raises(ValueError, match="in 1 entry, the first in row 2, column 2"):
            look(X)


def test_views_of_counts_refuse_negative_numbers(monkeypatch):
    monkeypatch.setattr(table_scan, "WIDE", 5)
    X = np.random.default_rng(0).poisson(0.4, size=(50, 8))
    scaler = scan(X, preprocessing="auto").scaler
    for kind in (np.asarray, sparse.csr_array):
        check_finite("age", ViewTable(kind(X)), None, scaler)
        wrong = X.copy()
        wrong[3, 2] = -4
        with pytest.raises(ValueError, match=r"negative numbers in 1 entry.*row 3, column 2.*pca"):
            check_finite("age", ViewTable(kind(wrong)), None, scaler)


def test_a_wide_table_without_any_present_row_beside_others_is_reduced(monkeypatch):
    monkeypatch.setattr(table_scan, "WIDE", 5)
    X = np.random.default_rng(0).normal(size=(30, 8))
    found = scan(np.full((2, 8), np.nan), X, preprocessing="auto")
    assert found.scaler.components.shape == (8, 8)
    assert [len(found.present[0]), found.present[1]] == [0, None]


def medians(*tables, present=None, is_counts=False):
    views = [ViewTable(X) for X in tables]
    return column_medians(views, present or [None] * len(views), is_counts=is_counts)


def make_values(n=21, d=5, seed=0):
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
    X = make_values(n, d, seed)
    X[0] = 1.0  # every column has a value
    parts = [part for part in (X[:cut], X[cut:]) if len(part) > 0]
    tables = [
        sparse.csr_array(part) if is_sparse else part
        for part, is_sparse in zip(parts, kinds, strict=False)
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(column_scaler, "_N_ENTRIES", step)
        np.testing.assert_array_equal(medians(*tables), np.nanmedian(X, axis=0))


def test_only_some_rows_count_and_nothing_is_changed():
    X = make_values()
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
    X = make_values()
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


def test_tables_in_files_are_not_in_memory(tmp_path):
    X = np.zeros((6, 2))
    np.save(tmp_path / "X.npy", X)
    mapped = np.load(tmp_path / "X.npy", mmap_mode="r")
    there, elsewhere = (X, X[::2, :1], sparse.csr_array(X)), (mapped, mapped[2:], Lazy(X))
    for tables, expected in ((there, True), (elsewhere, False)):
        assert {is_in_memory(table) for table in check_tables(tables).values()} == {expected}
