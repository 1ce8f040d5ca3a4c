from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.preprocessing import StandardScaler

from hotview._validation import check_tables
from hotview.evaluation import baseline_rows
from hotview.evaluation.baseline_rows import (
    BaselineRows,
    ViewTransformer,
    are_present,
    read_matrices,
    read_rows,
    stack_rows,
)

RNG = np.random.default_rng(0)
A, B = RNG.normal(size=(4, 2)), RNG.normal(size=(4, 3))


@pytest.fixture
def rows():
    """Four linked rows, the last absent from a; two rows of a with labels, three of b without."""
    a = A.copy()
    a[3] = np.nan
    return BaselineRows(
        np.array(["x", "y", "z"]),
        {"a": (2, None), "b": (3, None)},
        {"a": a, "b": B},
        np.array([0, -1, 0, 1]),
        {"a": A[:2] + 9, "b": B[:3] + 9},
        {"a": np.array([2, -1]), "b": np.full(3, -1)},
    )


def test_rows_of_a_view_are_those_that_it_has_linked_ones_first(rows):
    X, codes = rows.of_view("a")
    np.testing.assert_array_equal(X, np.vstack([A[:3], A[:2] + 9]))
    np.testing.assert_array_equal(codes, [0, -1, 0, 2, -1])
    assert rows.of_view("b")[1].tolist() == [0, -1, 0, 1, -1, -1, -1]


def test_a_view_with_labels_of_one_class_has_none_to_learn_from(rows):
    assert rows.labeled_views() == ["a", "b"]
    only = replace(rows, unaligned={}, unaligned_codes={})
    assert only.labeled_views() == ["b"]  # in a, both labels are of class 0


def test_shares_are_those_of_all_labels(rows):
    np.testing.assert_allclose(rows.shares, [0.5, 0.25, 0.25])


def test_labeled_rows_are_an_outer_join(rows):
    (linked, codes), (own, own_codes) = rows.labeled_parts()
    assert (list(linked), codes.tolist()) == (["a", "b"], [0, 0, 1])
    assert (list(own), own_codes.tolist()) == (["a"], [2])
    only_a = list(rows.select(["a"]).labeled_parts())
    assert [codes.tolist() for _, codes in only_a] == [[0, 0], [2]]  # the absent row is left out


def test_views_are_selected_everywhere(rows):
    b = rows.select(["b"])
    assert (list(b.linked), list(b.unaligned), list(b.unaligned_codes)) == (["b"],) * 3


def test_missing_cells_get_the_mean_and_absent_rows_zeros():
    X = RNG.normal(3, 2, size=(50, 4))
    X[:10, 0] = np.nan
    found = ViewTransformer(X).transform(np.vstack([X, np.full((1, 4), np.nan)]))
    expected = (X - np.nanmean(X, axis=0)) / np.nanstd(X, axis=0)
    np.testing.assert_allclose(found[:50], np.nan_to_num(expected), atol=1e-12)
    assert (found[50] == 0).all()


def test_a_column_without_any_value_is_zero():
    X = RNG.normal(size=(9, 3))
    X[:, 1] = np.nan
    found = ViewTransformer(X).transform(np.ones((2, 3)))
    assert np.isfinite(found).all()
    assert (found[:, 1] == 0).all()


def test_components_are_those_of_the_filled_columns():
    X = RNG.normal(size=(40, 6)) @ RNG.normal(size=(6, 6))
    X[:5, 2] = np.nan
    filled = np.nan_to_num(StandardScaler().fit_transform(X))
    expected = PCA(3).fit_transform(filled)
    transformer = ViewTransformer(X, 3)
    np.testing.assert_allclose(np.abs(transformer.transform(X)), np.abs(expected), atol=1e-9)
    assert (transformer.width, transformer.scale) == (3, pytest.approx(6**-0.5))


def test_a_sparse_view_is_reduced_by_a_truncated_svd(monkeypatch):
    monkeypatch.setattr(baseline_rows, "_SVD_COMPONENTS", 5)
    X = sparse.random_array((60, 30), density=0.2, rng=0, format="csr")
    svd = TruncatedSVD(5, random_state=0)
    expected = StandardScaler().fit_transform(svd.fit_transform(X))
    transformer = ViewTransformer(X)
    np.testing.assert_allclose(transformer.transform(X), expected, atol=1e-9)
    dense = transformer.transform(np.vstack([X.toarray(), np.full((1, 30), np.nan)]))
    np.testing.assert_allclose(dense[:60], expected, atol=1e-9)
    assert (dense[60] == 0).all()


def test_missing_cells_of_a_sparse_view_are_zeros():
    X = sparse.random_array((60, 30), density=0.2, rng=0, format="csr")
    holes = X.copy()
    holes.data[:3] = np.nan
    X.data[:3] = 0
    expected = ViewTransformer(X).transform(X)
    np.testing.assert_allclose(ViewTransformer(holes).transform(holes), expected)


def test_absent_rows_of_sparse_and_dense_tables():
    X = np.array([[np.nan, np.nan], [0.0, np.nan], [0.0, 0.0]])
    assert are_present(X).tolist() == are_present(sparse.csr_array(X)).tolist()
    assert are_present(X).tolist() == [False, True, True]


def test_a_dense_table_below_a_sparse_one():
    found = stack_rows([np.eye(2), sparse.csr_array(np.ones((1, 2)))])
    np.testing.assert_array_equal(found.toarray(), [[1, 0], [0, 1], [1, 1]])
    assert isinstance(stack_rows([np.eye(2), np.eye(2)]), np.ndarray)


def test_only_large_sparse_tables_stay_sparse(monkeypatch):
    X = sparse.csr_array(np.eye(4, dtype=np.int8))
    tables = check_tables({"a": X, "b": np.eye(4, dtype=bool)})
    assert isinstance(read_matrices(tables)["a"], np.ndarray)
    monkeypatch.setattr(baseline_rows, "MAX_CELLS", 15)
    large = read_matrices(tables)
    assert sparse.issparse(large["a"])
    assert large["a"].dtype == large["b"].dtype == np.float64
    block = read_matrices(tables, slice(1, 3), dense=True)["a"]
    np.testing.assert_array_equal(block, np.eye(4)[1:3])


@pytest.mark.parametrize("convert", (np.asarray, sparse.csr_array))
def test_infinity_is_refused(convert):
    tables = check_tables({"a": convert([[1.0, np.inf]])})
    with pytest.raises(ValueError, match="view 'a' to hold finite numbers, or NaN"):
        read_matrices(tables)


def test_a_sample_of_rows_keeps_labels_and_links():
    X = np.arange(100.0)[:, None]
    y = np.where(np.arange(100) % 20 == 0, np.arange(100) % 3, -1)
    found = read_rows(
        {"a": X, "b": -X}, y, {"b": X}, {"b": np.arange(100) % 2}, marker=-1, max_rows=10
    )
    np.testing.assert_array_equal(found.linked["a"], -found.linked["b"])
    kept = found.linked["a"][:, 0]
    assert len(np.unique(kept)) == len(found.codes) == 10
    assert set(range(0, 100, 20)) < set(kept)  # all that have a label
    np.testing.assert_array_equal(
        found.classes[found.codes[kept % 20 == 0]], kept[kept % 20 == 0] % 3
    )
    assert (found.codes[kept % 20 != 0] == -1).all()
    own = found.unaligned["b"][:, 0]
    np.testing.assert_array_equal(found.classes[found.unaligned_codes["b"]], own % 2)
    assert len(own) == 10
