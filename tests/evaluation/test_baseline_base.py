"""What the baselines do with missing cells, rows, views, links and labels."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA, TruncatedSVD
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hotview._validation import check_tables
from hotview.evaluation import (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
    baseline_base,
    baseline_rows,
)
from hotview.evaluation.baseline_rows import (
    ViewTransformer,
    are_present,
    read_matrices,
    read_rows,
    stack_rows,
)

ALL = (ConcatenatedLogisticRegression, PCALogisticRegression, PerViewLabelPropagation)
WIDTHS = {"a": 3, "b": 5}


def draw(n, seed, classes=3, noise=1.0):
    """Aligned rows of two views, in which classes are blobs, and their classes."""
    rng = np.random.default_rng(seed)
    y = rng.permutation(np.arange(n) % classes)
    centers = {s: np.random.default_rng(D).normal(0, 4, (classes, D)) for s, D in WIDTHS.items()}
    return {s: C[y] + noise * rng.normal(size=(n, C.shape[1])) for s, C in centers.items()}, y


def hide(views, name, rows):
    """The views, one of which lacks some rows."""
    X = views[name].copy()
    X[rows] = np.nan
    return {**views, name: X}


@pytest.fixture(scope="module")
def train():
    return draw(60, 0)


@pytest.fixture(scope="module")
def test():
    return draw(80, 1)


@pytest.mark.parametrize("Baseline", ALL)
def test_rows_and_cells_may_be_missing_everywhere(Baseline, train, test):
    Xs, y = train
    holes = hide(hide(Xs, "a", slice(0, 20)), "b", (slice(20, 40), 2))
    fitted = Baseline().fit(holes, y, unaligned={"a": np.full((3, 3), np.nan)})
    partial = hide(hide(test[0], "b", slice(0, 30)), "a", (slice(30, 60), 0))
    P = fitted.predict_proba(partial)
    np.testing.assert_allclose(P.sum(axis=1), 1)
    assert fitted.score(partial, test[1]) > 0.9


def test_logistic_regression_is_that_of_the_outer_join(train, test):
    Xs, y = train
    partial = hide(Xs, "a", slice(0, 20))
    own, own_y = draw(30, 2)
    own_y = np.where(np.arange(30) < 20, own_y, np.nan)
    fitted = ConcatenatedLogisticRegression().fit(
        partial, y, unaligned={"b": own["b"]}, unaligned_y={"b": own_y}
    )
    scalers = {
        "a": StandardScaler().fit(Xs["a"][20:]),
        "b": StandardScaler().fit(np.vstack([Xs["b"], own["b"]])),
    }

    def join(views):
        return np.hstack([np.nan_to_num(scalers[s].transform(X)) for s, X in views.items()])

    labeled = {"a": np.full((20, 3), np.nan), "b": own["b"][:20]}
    expected = LogisticRegression(max_iter=1000)
    expected.fit(np.vstack([join(partial), join(labeled)]), np.concatenate([y, own_y[:20]]))
    P = expected.predict_proba(join(test[0]))
    np.testing.assert_allclose(fitted.predict_proba(test[0]), P, atol=1e-6)
    only_b = {"a": np.full((80, 3), np.nan), "b": test[0]["b"]}
    P = expected.predict_proba(join(only_b))
    np.testing.assert_allclose(fitted.predict_proba({"b": test[0]["b"]}), P, atol=1e-6)


@pytest.mark.parametrize("Baseline", ALL)
def test_a_view_that_is_left_out_is_one_that_all_rows_lack(Baseline, train, test):
    fitted = Baseline().fit(*train)
    expected = fitted.predict_proba(hide(test[0], "a", slice(None)))
    for views in ({"b": test[0]["b"]}, {"a": None, "b": test[0]["b"]}, [None, test[0]["b"]]):
        np.testing.assert_array_equal(fitted.predict_proba(views), expected)


def test_label_propagation_multiplies_the_views_that_a_row_has(train, test):
    fitted = PerViewLabelPropagation().fit(*train)
    alone = {s: PerViewLabelPropagation().fit({s: train[0][s]}, train[1]) for s in WIDTHS}
    expected = {s: alone[s].predict_proba({s: test[0][s]}) for s in WIDTHS}
    found = fitted.predict_proba(hide(test[0], "a", slice(0, 40)))
    np.testing.assert_allclose(found[:40], expected["b"][:40])
    product = expected["a"] * expected["b"]
    product /= product.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(found[40:], product[40:])


@pytest.mark.parametrize("Baseline", ALL)
def test_nobody_linked_and_a_class_with_labels_in_one_view_only(Baseline, train, test):
    others, other_y = draw(60, 3)
    kept = other_y != 0
    for rows in (slice(None), kept):
        unaligned = {"a": train[0]["a"], "b": others["b"][rows]}
        labels = {"a": train[1], "b": other_y[rows]}
        fitted = Baseline().fit(None, None, unaligned=unaligned, unaligned_y=labels)
        assert fitted.score({"a": test[0]["a"]}, test[1]) > 0.9
        known = slice(None) if rows is not kept else test[1] != 0
        assert fitted.score({"b": test[0]["b"][known]}, test[1][known]) > 0.9


@pytest.mark.parametrize("Baseline", ALL)
def test_labels_of_one_view_are_carried_to_the_other_by_linked_rows(Baseline, train, test):
    own, own_y = draw(50, 4)
    unaligned = {"a": own["a"], "b": draw(70, 5)[0]["b"]}
    y = np.full(60, np.nan)
    y[0] = (train[1][0] + 1) % 3  # what is given is kept, even if it is wrong
    fitted = Baseline().fit(train[0], y, unaligned=unaligned, unaligned_y={"a": own_y})
    in_a = Baseline().fit(
        None, None, unaligned={"a": np.vstack([train[0]["a"], own["a"]])},
        unaligned_y={"a": np.concatenate([y, own_y])},
    )  # fmt: skip
    predicted = in_a.predict({"a": train[0]["a"]})
    predicted[0] = y[0]
    by_hand = Baseline().fit({"b": train[0]["b"]}, predicted, unaligned={"b": unaligned["b"]})
    only_b = {"b": test[0]["b"]}
    np.testing.assert_allclose(
        fitted.predict_proba(only_b), by_hand.predict_proba(only_b), atol=1e-9
    )
    assert fitted.score(only_b, test[1]) > 0.9
    only_a = fitted.predict_proba({"a": test[0]["a"]})
    np.testing.assert_allclose(only_a, in_a.predict_proba({"a": test[0]["a"]}), atol=1e-9)
    mixed = hide(test[0], "a", slice(0, 40))  # each row by a view with labels, if it has one
    np.testing.assert_allclose(fitted.predict_proba(mixed)[40:], only_a[40:])


@pytest.mark.parametrize("Baseline", ALL)
def test_without_labels_and_links_a_view_predicts_the_shares(Baseline, train, test):
    Xs, y = train
    some = np.where((y == 0) | (np.arange(60) < 30), y, -1)
    labels = [int(c) if c >= 0 else None for c in some]
    fitted = Baseline().fit(None, None, unaligned=Xs, unaligned_y={"a": labels})
    shares = np.bincount(some[some >= 0]) / (some >= 0).sum()
    np.testing.assert_allclose(fitted.predict_proba({"b": test[0]["b"]}), [shares] * 80)
    assert set(fitted.predict({"b": test[0]["b"]})) == {0}
    assert fitted.score({"a": test[0]["a"]}, test[1]) > 0.9
    Xs, y = draw(40, 0, classes=2)  # each view with labels of one class
    views = {"a": Xs["a"][y == 0], "b": Xs["b"][y == 1][:10]}
    fitted = Baseline().fit(
        None, None, unaligned=views, unaligned_y={"a": np.zeros(20), "b": np.ones(10)}
    )
    np.testing.assert_allclose(fitted.predict_proba(Xs), [[2 / 3, 1 / 3]] * 40)


@pytest.mark.parametrize("Baseline", ALL)
def test_linked_rows_without_a_label_count_as_unlabeled(Baseline, train, test):
    Xs, y = train
    gaps = np.where(np.arange(60) < 30, y.astype(float), np.nan)
    first = {s: X[:30] for s, X in Xs.items()}
    rest = {s: X[30:] for s, X in Xs.items()}
    expected = Baseline().fit(first, y[:30], unaligned=rest).predict_proba(test[0])
    np.testing.assert_allclose(Baseline().fit(Xs, gaps).predict_proba(test[0]), expected)


@pytest.mark.parametrize("Baseline", ALL)
def test_sparse_views_small_and_large(Baseline, train, test, monkeypatch):
    Xs, y = train
    thin = {**Xs, "b": sparse.csr_array(Xs["b"])}
    expected = Baseline().fit(*train).predict_proba(test[0])
    np.testing.assert_array_equal(Baseline().fit(thin, y).predict_proba(test[0]), expected)
    monkeypatch.setattr(baseline_rows, "MAX_CELLS", 100)
    monkeypatch.setattr(baseline_base, "MAX_CELLS", 100)  # in blocks of 12 rows
    reduced = Baseline().fit(thin, y, unaligned={"b": Xs["b"][:5]})
    assert reduced.score({**test[0], "b": sparse.coo_array(test[0]["b"])}, test[1]) > 0.9
    assert Baseline().fit(*train).predict_proba(test[0]) == pytest.approx(expected)


def test_rows_may_have_weights(train):
    X, y = train
    model = ConcatenatedLogisticRegression().fit(X, y)
    other = np.where(np.arange(60) < 20, 99, y)  # a third is wrong
    weights = np.where(np.arange(60) < 20, 1.0, 3.0)
    expected = np.average(model.predict(X) == other, weights=weights)
    assert model.score(X, other, sample_weight=weights) == pytest.approx(expected)


# what is done with rows and columns


def test_missing_cells_get_the_mean_and_absent_rows_and_empty_columns_zeros():
    X = np.random.default_rng(0).normal(3, 2, size=(50, 4))
    X[:10, 0] = X[:, 3] = np.nan
    found = ViewTransformer(X).transform(np.vstack([X, np.full((1, 4), np.nan), np.ones((1, 4))]))
    expected = StandardScaler().fit_transform(X[:, :3])
    np.testing.assert_allclose(found[:50, :3], np.nan_to_num(expected), atol=1e-12)
    assert (found[50] == 0).all()
    assert (found[:, 3] == 0).all()


def test_components_are_those_of_the_filled_columns():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(40, 6)) @ rng.normal(size=(6, 6))
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


def test_missing_cells_and_absent_rows_of_a_sparse_view():
    X = sparse.random_array((60, 30), density=0.2, rng=0, format="csr")
    holes = X.copy()
    holes.data[:3] = np.nan
    X.data[:3] = 0
    expected = ViewTransformer(X).transform(X)
    np.testing.assert_allclose(ViewTransformer(holes).transform(holes), expected)
    X = np.array([[np.nan, np.nan], [0.0, np.nan], [0.0, 0.0]])
    for table in (X, sparse.csr_array(X)):
        assert are_present(table).tolist() == [False, True, True]


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
    stacked = stack_rows([np.eye(2), sparse.csr_array(np.ones((1, 2)))])
    np.testing.assert_array_equal(stacked.toarray(), [[1, 0], [0, 1], [1, 1]])
    assert isinstance(stack_rows([np.eye(2), np.eye(2)]), np.ndarray)
    infinite = check_tables({"a": sparse.csr_array([[1.0, np.inf]])})
    with pytest.raises(ValueError, match="view 'a' to hold finite numbers, or NaN"):
        read_matrices(infinite)


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
