import copy

import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from hotview.evaluation import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)

ALL = (
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
    ConcatenatedLabelPropagation,
)
COLUMNS = {"a": 3, "b": 30, "c": 1}


def make_blobs(n=60, noise=0.1, seed=0):
    """Aligned views in which every class is a blob around its own center."""
    rng = np.random.default_rng(seed)
    codes, views = rng.permutation(np.arange(n) % 3), {}
    for s, (name, D) in enumerate(COLUMNS.items()):
        centers = 5.0 * np.arange(3)[:, None] + np.random.default_rng(s).normal(size=D)
        views[name] = centers[codes] + noise * rng.normal(size=(n, D))
    return views, np.array(["ant", "bee", "cow"])[codes]


def shuffled(views):
    rng = np.random.default_rng(0)
    return {name: rng.permutation(X) for name, X in views.items()}


def fit(baseline, linked, y, rest):
    """Fit with the unlabeled rows, shuffled unless the baseline needs them aligned."""
    if isinstance(baseline, ConcatenatedLabelPropagation):
        return baseline.fit(linked, y, paired=rest)
    return baseline.fit(linked, y, unaligned=shuffled(rest))


def fit_on_blobs(Baseline):
    return fit(Baseline(), *make_blobs(12, seed=1), make_blobs(90, seed=2)[0])


def standardized(X, *rows):
    scaler = StandardScaler().fit(X)
    return [scaler.transform(Z) for Z in rows]


def test_pca_keeps_as_many_components_as_there_are_of_views_of_unit_variance():
    linked, y = make_blobs(30, noise=4.0, seed=1)
    rest, test = (make_blobs(n, noise=4.0, seed=seed)[0] for n, seed in ((90, 2), (40, 3)))
    pairs = []
    for s, kept in (("a", 3), ("b", 5), ("c", 1)):
        rows = np.vstack([linked[s], rest[s]])
        parts = [X / np.sqrt(COLUMNS[s]) for X in standardized(rows, rows, linked[s], test[s])]
        assert np.sum(parts[0].var(axis=0)) == pytest.approx(1)
        pairs.append([PCA(kept).fit(parts[0]).transform(X) for X in parts[1:]])
    train, new = (np.hstack(views) for views in zip(*pairs, strict=True))
    expected = LogisticRegression(C=10, max_iter=1000).fit(train, y).predict_proba(new)
    fitted = PCALogisticRegression(n_components=5).fit(linked, y, unaligned=shuffled(rest))
    np.testing.assert_allclose(fitted.predict_proba(test), expected, atol=1e-3)


def spread_in_closed_form(Z, y, new, k=7):
    """F = (1 − α)(I − αS)⁻¹ Y with Y of equal mass per class, S = D^(−1/2) A D^(−1/2)."""
    n, distances = len(Z), cdist(Z, Z)
    np.fill_diagonal(distances, np.inf)
    A = np.zeros((n, n))
    np.put_along_axis(A, np.argsort(distances, axis=1)[:, :k], 1.0, axis=1)
    A = (A + A.T) / 2
    S = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    Y = np.zeros((n, 3))
    Y[: len(y)] = y[:, None] == ["ant", "bee", "cow"]
    F = np.linalg.solve(np.eye(n) - 0.95 * S, Y / Y.sum(axis=0))
    F /= F.sum(axis=1, keepdims=True)
    return F[np.argsort(cdist(new, Z), axis=1)[:, :k]].mean(axis=1)


@pytest.fixture(scope="module")
def hard():
    """Overlapping blobs with unequal numbers of labels: linked, y, unlabeled, test rows."""
    linked, y = make_blobs(30, noise=4.0, seed=1)
    kept = np.flatnonzero((y == "ant") | (np.arange(30) < 9))
    linked = {name: X[kept] for name, X in linked.items()}
    rest, test = (make_blobs(n, noise=4.0, seed=seed)[0] for n, seed in ((90, 2), (40, 3)))
    return linked, y[kept], rest, test


def test_label_propagation_solves_its_linear_system_on_the_concatenation_or_view_by_view(hard):
    linked, y, rest, test = hard
    pairs, product = [], 1.0
    for s, D in COLUMNS.items():
        rows = np.vstack([linked[s], rest[s]])
        rows, new = standardized(rows, rows, test[s])
        pca = PCA(min(4, D)).fit(rows)
        rows, new = pca.transform(rows), pca.transform(new)
        pairs.append([rows / np.sqrt(D), new / np.sqrt(D)])
        product = product * (spread_in_closed_form(rows, y, new) + 0.01)
    Z, new = (np.hstack(views) for views in zip(*pairs, strict=True))
    few = {"n_components": 4, "n_neighbors": 7}
    P = ConcatenatedLabelPropagation(**few).fit(linked, y, paired=rest).predict_proba(test)
    np.testing.assert_allclose(P, spread_in_closed_form(Z, y, new), rtol=1e-6)
    P = PerViewLabelPropagation(**few).fit(linked, y, unaligned=rest).predict_proba(test)
    np.testing.assert_allclose(P, product / product.sum(axis=1, keepdims=True), rtol=1e-6)


def test_rows_that_no_label_reaches_get_uniform_scores():
    centers = np.repeat([0.0, 10.0, 20.0], 30)[:, None]
    blobs = np.random.default_rng(0).normal(centers, 0.1, size=(90, 2))
    fitted = ConcatenatedLabelPropagation(n_neighbors=5)
    fitted.fit({"a": blobs[[0, 1, 30, 31]]}, [0, 0, 1, 1], paired={"a": blobs})
    expected = np.repeat([[1, 0], [0, 1], [0.5, 0.5]], 30, axis=0)
    np.testing.assert_allclose(fitted.predict_proba({"a": blobs}), expected, atol=1e-12)


@pytest.mark.parametrize(("Baseline", "name"), ((ALL[0], "unaligned"), (ALL[3], "paired")))
def test_frames_with_text_are_encoded(Baseline, name):
    (views, y), frames, arrays = make_blobs(40), [], []
    for part in (views, make_blobs(30, seed=1)[0]):
        letter = np.where(part["c"][:, 0] > 5, "high", "low")
        frame = pd.DataFrame(part["a"]).add_prefix("a").assign(letter=letter)
        frames.append({**part, "a": frame})
        one_hot = np.column_stack([letter == "high", letter == "low"])
        arrays.append({**part, "a": np.hstack([part["a"], one_hot])})
    frames[1]["a"] = frames[1]["a"][frames[1]["a"].columns[::-1]]
    found, expected = (
        Baseline().fit(linked, y, **{name: rest}).predict_proba(linked)
        for linked, rest in (frames, arrays)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("Baseline", ALL)
def test_predictions_are_the_most_probable_classes(Baseline):
    views, y = make_blobs(50, seed=3)
    listed = [views["a"].astype(np.float32), np.rint(100 * views["b"]).astype(np.int16)]
    assert Baseline().fit(listed, y).score(listed, y) == 1.0
    blurred, fitted = make_blobs(50, noise=3.0, seed=3)[0], fit_on_blobs(Baseline)
    assert fitted.score(views, y) == 1.0
    np.testing.assert_array_equal(fitted.classes_, ["ant", "bee", "cow"])
    P = fitted.predict_proba(blurred)
    assert P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1)
    expected = fitted.classes_[P.argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(blurred), expected)


@pytest.mark.parametrize("Baseline", ALL)
def test_units_orders_and_names_do_not_matter_and_data_are_not_changed(Baseline, hard):
    linked, y, rest, test = hard
    before = copy.deepcopy((linked, rest, test))
    fitted, again = (fit(Baseline(), linked, y, rest) for _ in range(2))
    expected = fitted.predict_proba(test)
    assert again.predict_proba(test).tobytes() == expected.tobytes()
    backward = fitted.predict_proba(dict(reversed(test.items())))
    np.testing.assert_array_equal(backward, expected)
    np.testing.assert_equal((linked, rest, test), before)
    order = np.random.default_rng(3).permutation(90)
    rest = {name: X[order] for name, X in rest.items()}  # aligned as before
    changed = [{name: 1000 * X - 7 for name, X in part.items()} for part in (linked, rest, test)]
    found = fit(Baseline(), changed[0], y, changed[1]).predict_proba(changed[2])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    renamed = [{f"z{name}": part[name] for name in "cab"} for part in (linked, rest, test)]
    found = fit(Baseline(), renamed[0], y, renamed[1]).predict_proba(renamed[2])
    np.testing.assert_allclose(found, expected, atol=1e-3)  # the solver of the regression stops


@pytest.mark.parametrize("Baseline", ALL)
def test_few_rows_a_constant_view_and_parameters(Baseline):
    views = {"a": np.array([[0.0, 0.1], [5.0, 5.1], [0.2, 0.0]]), "b": np.ones((3, 4))}
    parameters = dict.fromkeys(Baseline().get_params(), 4)
    baseline = clone(Baseline(**parameters))
    with pytest.raises(NotFittedError):
        baseline.predict(views)
    assert np.isfinite(baseline.fit(views, [0, 1, 0]).predict_proba(views)).all()
    assert baseline.get_params() == parameters


@pytest.mark.parametrize(
    ("Baseline", "change", "message"),
    (
        (ALL[0], lambda v: {**v, "d": v["a"]}, r"among \['a', 'b', 'c'\], but got \['d'\]"),
        (ALL[1], lambda v: list(v.values())[:2], "Expected 3 views, as at fit, but got 2"),
        (ALL[2], lambda v: dict.fromkeys(v), "at least one of the views"),
        (ALL[3], lambda v: {**v, "b": v["b"][:, :7]}, "view 'b' to have 30 columns.*it has 7"),
        (ALL[3], lambda v: {**v, "b": v["b"] + np.inf}, "view 'b' to hold finite"),
    ),
)
def test_prediction_refuses_what_is_not_as_in_fit(Baseline, change, message):
    with pytest.raises(ValueError, match=message):
        fit_on_blobs(Baseline).predict(change(make_blobs()[0]))


@pytest.mark.parametrize(
    ("baseline", "change", "message"),
    (
        (ALL[0](), {"unaligned": {"d": np.zeros((5, 3))}}, r"among \['a'.*but got \['d'\]"),
        (ALL[2](), {"unaligned": {"a": np.zeros((5, 4))}}, "view 'a' to have 3 columns.* has 4"),
        (ALL[0](), {"unaligned": {"a": np.full((5, 3), np.inf)}}, "view 'a' to hold finite"),
        (ALL[3](), {"paired": make_blobs()[0] | {"b": np.zeros((7, 30))}}, "aligned.*'b': 7"),
        (ALL[3](), {"paired": {"a": np.zeros((5, 3))}}, r"all of.*but got \['a'\]"),
        (ALL[3](), {"y": np.full(60, "ant")}, "two classes, but all are of one class, 'ant'"),
        (ALL[1](), {"y": np.zeros(59)}, "each of the 60 rows, but it holds 59"),
        (ALL[0](), {"Xs": None, "y": None}, "Xs is None and unaligned is empty"),
        (ALL[0](), {"y": np.full(60, np.nan)}, "no row has a label"),
        (ALL[1](n_components=0), {}, "n_components to be a whole number"),
        (ALL[2](n_components=2.5), {}, "n_components to be a whole number"),
        (ALL[3](n_neighbors=-1), {}, "n_neighbors to be a whole number"),
    ),
)
def test_what_cannot_be_fitted_is_refused(baseline, change, message):
    rows = dict(zip(("Xs", "y"), make_blobs(), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        baseline.fit(rows.pop("Xs"), rows.pop("y"), **rows)
