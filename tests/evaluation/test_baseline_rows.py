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
    baseline_rows,
)
from hotview.evaluation.baseline_rows import (
    ViewTransformer,
    are_present,
    read_matrices,
    read_rows,
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
    # A view that is left out is one that all rows lack.
    expected = fitted.predict_proba(hide(test[0], "a", slice(None)))
    for views in ({"b": test[0]["b"]}, {"a": None, "b": test[0]["b"]}, [None, test[0]["b"]]):
        np.testing.assert_array_equal(fitted.predict_proba(views), expected)
    # Linked rows without a label count as unlabeled.
    gaps = np.where(np.arange(60) < 30, y.astype(float), np.nan)
    first, rest = ({s: X[rows] for s, X in Xs.items()} for rows in (slice(30), slice(30, None)))
    expected = Baseline().fit(first, y[:30], unaligned=rest).predict_proba(test[0])
    np.testing.assert_allclose(Baseline().fit(Xs, gaps).predict_proba(test[0]), expected)


def test_logistic_regression_is_that_of_the_outer_join(train, test):
    Xs, y = train
    partial = hide(Xs, "a", slice(0, 20))
    own, own_y = draw(30, 2)
    own_y = np.where(np.arange(30) < 20, own_y, np.nan)
    more = {"unaligned": {"b": own["b"]}, "unaligned_y": {"b": own_y}}
    fitted = ConcatenatedLogisticRegression().fit(partial, y, **more)
    rows = {"a": Xs["a"][20:], "b": np.vstack([Xs["b"], own["b"]])}
    scalers = {s: StandardScaler().fit(X) for s, X in rows.items()}

    def join(views):
        return np.hstack([np.nan_to_num(scalers[s].transform(X)) for s, X in views.items()])

    labeled = {"a": np.full((20, 3), np.nan), "b": own["b"][:20]}
    expected = LogisticRegression(max_iter=1000)
    expected.fit(np.vstack([join(partial), join(labeled)]), np.concatenate([y, own_y[:20]]))
    for views in (test[0], hide(test[0], "a", slice(None))):
        P = expected.predict_proba(join(views))
        np.testing.assert_allclose(fitted.predict_proba(views), P, atol=1e-6)
    weights, other = np.arange(80.0), np.where(np.arange(80) < 20, 99, test[1])
    accuracy = np.average(fitted.predict(test[0]) == other, weights=weights)
    assert fitted.score(test[0], other, sample_weight=weights) == pytest.approx(accuracy)


def test_label_propagation_multiplies_the_views_that_a_row_has(train, test):
    fitted = PerViewLabelPropagation().fit(*train)
    alone = {s: PerViewLabelPropagation().fit({s: X}, train[1]) for s, X in train[0].items()}
    of_a, of_b = (alone[s].predict_proba({s: X}) for s, X in test[0].items())
    found = fitted.predict_proba(hide(test[0], "a", slice(0, 40)))
    np.testing.assert_allclose(found[:40], of_b[:40])
    product = of_a * of_b
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
    both = np.vstack([train[0]["a"], own["a"]]), np.concatenate([y, own_y])
    in_a = Baseline().fit(None, None, unaligned={"a": both[0]}, unaligned_y={"a": both[1]})
    predicted = in_a.predict({"a": train[0]["a"]})
    predicted[0] = y[0]
    by_hand = Baseline().fit({"b": train[0]["b"]}, predicted, unaligned={"b": unaligned["b"]})
    only_b = {"b": test[0]["b"]}
    expected = by_hand.predict_proba(only_b)
    np.testing.assert_allclose(fitted.predict_proba(only_b), expected, atol=1e-9)
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
    labels = {"a": np.zeros(20), "b": np.ones(10)}
    fitted = Baseline().fit(None, None, unaligned=views, unaligned_y=labels)
    np.testing.assert_allclose(fitted.predict_proba(Xs), [[2 / 3, 1 / 3]] * 40)


@pytest.mark.parametrize("Baseline", ALL)
def test_sparse_views_small_and_large(Baseline, train, test, monkeypatch):
    Xs, y = train
    thin = {**Xs, "b": sparse.csr_array(Xs["b"])}
    expected = Baseline().fit(*train).predict_proba(test[0])
    np.testing.assert_array_equal(Baseline().fit(thin, y).predict_proba(test[0]), expected)
    monkeypatch.setattr(baseline_rows, "MAX_CELLS", 100)  # in blocks of 12 rows
    reduced = Baseline().fit(thin, y, unaligned={"b": Xs["b"][:5]})
    assert reduced.score({**test[0], "b": sparse.coo_array(test[0]["b"])}, test[1]) > 0.9
    assert Baseline().fit(*train).predict_proba(test[0]) == pytest.approx(expected)


def test_missing_cells_get_the_mean_and_empty_columns_zeros():
    X = np.random.default_rng(0).normal(3, 2, size=(50, 4))
    X[:10, 0] = X[:, 3] = np.nan
    found = ViewTransformer(X).transform(np.vstack([X, np.ones((1, 4))]))
    expected = StandardScaler().fit_transform(X[:, :3])
    np.testing.assert_allclose(found[:50, :3], np.nan_to_num(expected), atol=1e-12)
    assert (found[:, 3] == 0).all()
    filled, transformer = np.nan_to_num(expected), ViewTransformer(X[:, :3], 2)
    components = np.abs(PCA(2).fit_transform(filled))
    np.testing.assert_allclose(np.abs(transformer.transform(X[:, :3])), components, atol=1e-9)
    assert (transformer.width, transformer.scale) == (2, pytest.approx(3**-0.5))


def test_a_sparse_view_is_reduced_by_a_truncated_svd_and_may_have_gaps(monkeypatch):
    monkeypatch.setattr(baseline_rows, "_SVD_COMPONENTS", 5)
    X = sparse.random_array((60, 30), density=0.2, rng=0, format="csr")
    reduced = TruncatedSVD(5, random_state=0).fit_transform(X)
    expected = StandardScaler().fit_transform(reduced)
    transformer = ViewTransformer(X)
    np.testing.assert_allclose(transformer.transform(X), expected, atol=1e-9)
    np.testing.assert_allclose(transformer.transform(X.toarray()), expected, atol=1e-9)
    holes = X.copy()
    holes.data[:3], X.data[:3] = np.nan, 0
    expected = ViewTransformer(X).transform(X)
    np.testing.assert_allclose(ViewTransformer(holes).transform(holes), expected)
    X = np.array([[np.nan, np.nan], [0.0, np.nan], [0.0, 0.0]])
    for table in (X, sparse.csr_array(X)):
        assert are_present(table).tolist() == [False, True, True]


def test_only_large_sparse_tables_stay_sparse(monkeypatch):
    tables = check_tables({"a": sparse.csr_array(np.eye(4, dtype=np.int8)), "b": np.eye(4) > 0})
    assert isinstance(read_matrices(tables)["a"], np.ndarray)
    monkeypatch.setattr(baseline_rows, "MAX_CELLS", 15)
    large = read_matrices(tables)
    assert sparse.issparse(large["a"])
    assert large["a"].dtype == large["b"].dtype == np.float64
    block = read_matrices(tables, slice(1, 3), dense=True)["a"]
    np.testing.assert_array_equal(block, np.eye(4)[1:3])
    rows = read_rows({"a": sparse.csr_array(np.eye(4))}, [0, 1, 0, 1], {"a": np.ones((1, 4))})
    np.testing.assert_array_equal(rows.views["a"].toarray(), np.vstack([np.eye(4), np.ones(4)]))
    assert rows.individuals["a"].tolist() == list(range(5))
    with pytest.raises(ValueError, match="view 'a' to hold finite numbers, or NaN"):
        read_matrices(check_tables({"a": sparse.csr_array([[1.0, np.inf]])}))


def test_a_sample_of_rows_keeps_labels_and_links():
    X = np.arange(100.0)[:, None]
    y = np.where(np.arange(100) % 20 == 0, np.arange(100) % 3, -1)
    linked, own = {"a": X, "b": -X}, {"b": np.arange(100) % 2}
    found = read_rows(linked, y, {"b": X}, own, marker=-1, max_rows=10)
    assert found.individuals["a"].tolist() == list(range(10))
    assert found.individuals["b"].tolist() == list(range(20))
    np.testing.assert_array_equal(found.views["a"], -found.views["b"][:10])
    kept, codes = found.views["a"][:, 0], found.codes[:10]
    assert len(np.unique(kept)) == 10
    assert set(range(0, 100, 20)) < set(kept)  # all that have a label
    labeled = kept % 20 == 0
    np.testing.assert_array_equal(found.classes[codes[labeled]], kept[labeled] % 3)
    assert (codes[~labeled] == -1).all()
    own = found.views["b"][10:, 0]
    np.testing.assert_array_equal(found.classes[found.codes[10:]], own % 2)
