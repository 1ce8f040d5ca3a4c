import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

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


def make_blobs(n=60, noise=0.1, seed=0, classes=("ant", "bee", "cow")):
    """Aligned views in which every class is a blob around its own center."""
    rng = np.random.default_rng(seed)
    codes = rng.permutation(np.arange(n) % len(classes))
    views = {}
    for s, (name, D) in enumerate(COLUMNS.items()):
        centers = 5.0 * np.arange(len(classes))[:, None] + np.random.default_rng(s).normal(size=D)
        views[name] = centers[codes] + noise * rng.normal(size=(n, D))
    return views, np.array(classes)[codes]


def shuffled(views, seed=0):
    rng = np.random.default_rng(seed)
    return {name: rng.permutation(X) for name, X in views.items()}


def fit(baseline, linked, y, rest):
    """Fit with the unlabeled rows, shuffled unless the baseline needs them aligned."""
    if isinstance(baseline, ConcatenatedLabelPropagation):
        return baseline.fit(linked, y, paired=rest)
    return baseline.fit(linked, y, unaligned=shuffled(rest))


def fit_on_blobs(Baseline, noise=0.1, **parameters):
    linked, y = make_blobs(12, noise, seed=1)
    rest, _ = make_blobs(90, noise, seed=2)
    return fit(Baseline(**parameters), linked, y, rest)


def standardized(X, *rows):
    scaler = StandardScaler().fit(X)
    return [scaler.transform(Z) for Z in rows]


def test_logistic_regression_is_the_pipeline_one_would_write():
    linked, y = make_blobs(30, noise=4.0, seed=1)
    rest = shuffled(make_blobs(90, noise=4.0, seed=2)[0])
    test, _ = make_blobs(40, noise=4.0, seed=3)
    pairs = [
        standardized(np.vstack([linked[s], rest[s]]), linked[s], test[s]) for s in ("a", "b", "c")
    ]
    train, new = (np.hstack(views) for views in zip(*pairs, strict=True))
    expected = LogisticRegression(max_iter=1000).fit(train, y)
    fitted = ConcatenatedLogisticRegression().fit(linked, y, unaligned=rest)
    np.testing.assert_allclose(fitted.predict_proba(test), expected.predict_proba(new), rtol=1e-10)
    np.testing.assert_array_equal(fitted.predict(test), expected.predict(new))


def test_pca_keeps_as_many_components_as_there_are_of_views_of_unit_variance():
    linked, y = make_blobs(30, noise=4.0, seed=1)
    rest = shuffled(make_blobs(90, noise=4.0, seed=2)[0])
    test, _ = make_blobs(40, noise=4.0, seed=3)
    pairs = []
    for s, kept in (("a", 3), ("b", 5), ("c", 1)):
        rows = np.vstack([linked[s], rest[s]])
        everything, *parts = standardized(rows, rows, linked[s], test[s])
        assert np.sum((everything / np.sqrt(COLUMNS[s])).var(axis=0)) == pytest.approx(1)
        pca = PCA(kept).fit(everything / np.sqrt(COLUMNS[s]))
        pairs.append([pca.transform(X / np.sqrt(COLUMNS[s])) for X in parts])
    train, new = (np.hstack(views) for views in zip(*pairs, strict=True))
    expected = LogisticRegression(C=10, max_iter=1000).fit(train, y).predict_proba(new)
    fitted = PCALogisticRegression(n_components=5).fit(linked, y, unaligned=rest)
    np.testing.assert_allclose(fitted.predict_proba(test), expected, atol=1e-3)


def nearest(distances, k):
    return np.argsort(distances, axis=1)[:, :k]


def spread_in_closed_form(Z, y, new, k):
    """F = (1 − α)(I − αS)⁻¹ Y with Y of equal mass per class, S = D^(−1/2) A D^(−1/2)."""
    n = len(Z)
    A = np.zeros((n, n))
    distances = cdist(Z, Z)
    np.fill_diagonal(distances, np.inf)
    np.put_along_axis(A, nearest(distances, k), 1.0, axis=1)
    A = (A + A.T) / 2
    S = A / np.sqrt(np.outer(A.sum(axis=1), A.sum(axis=1)))
    Y = np.zeros((n, 3))
    Y[: len(y)] = y[:, None] == ["ant", "bee", "cow"]
    F = np.linalg.solve(np.eye(n) - 0.95 * S, Y / Y.sum(axis=0))
    F /= F.sum(axis=1, keepdims=True)
    return F[nearest(cdist(new, Z), k)].mean(axis=1)


@pytest.fixture(scope="module")
def hard():
    """Overlapping blobs with unequal numbers of labels: linked, y, unlabeled, test rows."""
    linked, y = make_blobs(30, noise=4.0, seed=1)
    kept = np.flatnonzero((y == "ant") | (np.arange(30) < 9))
    linked = {name: X[kept] for name, X in linked.items()}
    rest, test = (make_blobs(n, noise=4.0, seed=seed)[0] for n, seed in ((90, 2), (40, 3)))
    return linked, y[kept], rest, test


def test_label_propagation_on_the_concatenation_solves_its_linear_system(hard):
    linked, y, rest, test = hard
    pairs = []
    for s, D in COLUMNS.items():
        rows = np.vstack([linked[s], rest[s]])
        rows, new = standardized(rows, rows, test[s])
        pca = PCA(min(4, D)).fit(rows)
        pairs.append([pca.transform(X) / np.sqrt(D) for X in (rows, new)])
    Z, new = (np.hstack(views) for views in zip(*pairs, strict=True))
    expected = spread_in_closed_form(Z, y, new, k=7)
    baseline = ConcatenatedLabelPropagation(n_components=4, n_neighbors=7)
    proba = baseline.fit(linked, y, paired=rest).predict_proba(test)
    np.testing.assert_allclose(proba, expected, rtol=1e-6)


def test_label_propagation_per_view_multiplies_the_views_scores(hard):
    linked, y, rest, test = hard
    product = 1.0
    for s in COLUMNS:
        rows = np.vstack([linked[s], rest[s]])
        rows, new = standardized(rows, rows, test[s])
        pca = PCA(min(4, COLUMNS[s])).fit(rows)
        scores = spread_in_closed_form(pca.transform(rows), y, pca.transform(new), k=7)
        product = product * (scores + 0.01)
    baseline = PerViewLabelPropagation(n_components=4, n_neighbors=7)
    proba = baseline.fit(linked, y, unaligned=rest).predict_proba(test)
    np.testing.assert_allclose(proba, product / product.sum(axis=1, keepdims=True), rtol=1e-6)


def test_labels_travel_along_unlabeled_rows():
    # One label on each of two long, thin curves: what is close to the label does not help.
    t = np.linspace(0, 1, 200)[:, None]
    curves = [np.hstack([t * 10, np.sin(6 * t) + shift]) for shift in (0.0, 0.8)]
    linked = {"a": np.vstack([curves[0][:1], curves[1][-1:]])}
    unlabeled = {"a": np.vstack(curves)}
    truth = np.repeat(["low", "high"], 200)
    y = ["low", "high"]
    propagated = PerViewLabelPropagation().fit(linked, y, unaligned=unlabeled)
    assert propagated.score(unlabeled, truth) == 1.0
    assert ConcatenatedLogisticRegression().fit(linked, y).score(unlabeled, truth) < 0.7


def test_rows_that_no_label_reaches_get_uniform_scores():
    rng = np.random.default_rng(0)
    blobs = [rng.normal(center, 0.1, size=(30, 2)) for center in (0, 10, 20)]
    linked = {"a": np.vstack([blobs[0][:2], blobs[1][:2]])}
    fitted = ConcatenatedLabelPropagation(n_neighbors=5)
    fitted.fit(linked, [0, 0, 1, 1], paired={"a": np.vstack(blobs)})
    expected = np.repeat([[1, 0], [0, 1], [0.5, 0.5]], 30, axis=0)
    np.testing.assert_allclose(fitted.predict_proba({"a": np.vstack(blobs)}), expected, atol=1e-12)


@pytest.mark.parametrize("Baseline", ALL)
def test_a_class_without_labels_is_never_predicted(Baseline):
    linked, y = make_blobs(30, seed=1)
    seen = y != "bee"
    linked = {name: X[seen] for name, X in linked.items()}
    test, truth = make_blobs(60, seed=3)
    fitted = fit(Baseline(), linked, y[seen], make_blobs(90, seed=2)[0])
    np.testing.assert_array_equal(fitted.classes_, ["ant", "cow"])
    assert set(fitted.predict(test)) <= {"ant", "cow"}
    assert fitted.score(test, truth) == pytest.approx(np.mean(truth != "bee"))


@pytest.mark.parametrize(("Baseline", "name"), ((ALL[0], "unaligned"), (ALL[3], "paired")))
def test_frames_with_text_are_encoded(Baseline, name):
    views, y = make_blobs(40)
    more, _ = make_blobs(30, seed=1)
    frames, arrays = [], []
    for part in (views, more):
        letter = np.where(part["c"][:, 0] > 5, "high", "low")
        frame = pd.DataFrame(part["a"]).add_prefix("a").assign(letter=letter)
        frames.append({**part, "a": frame})
        one_hot = OneHotEncoder(sparse_output=False).fit_transform(letter[:, None])
        arrays.append({**part, "a": np.hstack([part["a"], one_hot])})
    frames[1]["a"] = frames[1]["a"][frames[1]["a"].columns[::-1]]
    found, expected = (
        Baseline().fit(linked, y, **{name: rest}).predict_proba(linked)
        for linked, rest in (frames, arrays)
    )
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("Baseline", ALL)
def test_predictions_are_the_most_probable_classes(Baseline):
    test, y = make_blobs(50, seed=3)
    fitted = fit_on_blobs(Baseline)
    assert fitted.score(test, y) == 1.0
    np.testing.assert_array_equal(fitted.classes_, ["ant", "bee", "cow"])
    listed = [test["a"].astype(np.float32), np.rint(100 * test["b"]).astype(np.int16)]
    assert Baseline().fit(listed, y).score(listed, y) == 1.0
    blurred = make_blobs(50, noise=3.0, seed=3)[0]
    P = fit_on_blobs(Baseline, noise=3.0).predict_proba(blurred)
    assert P.shape == (50, 3)
    assert P.min() >= 0
    np.testing.assert_allclose(P.sum(axis=1), 1)
    expected = fitted.classes_[fitted.predict_proba(blurred).argmax(axis=1)]
    np.testing.assert_array_equal(fitted.predict(blurred), expected)


@pytest.mark.parametrize("Baseline", ALL)
def test_units_orders_and_names_do_not_matter_and_data_are_not_changed(Baseline, hard):
    linked, y, rest, test = hard
    before = [X.copy() for part in (linked, rest, test) for X in part.values()]
    fitted = fit(Baseline(), linked, y, rest)
    expected = fitted.predict_proba(test)
    again = fit(Baseline(), linked, y, rest).predict_proba(test)
    assert again.tobytes() == expected.tobytes()
    backward = {name: test[name] for name in reversed(test)}
    np.testing.assert_array_equal(fitted.predict_proba(backward), expected)
    after = [X for part in (linked, rest, test) for X in part.values()]
    for X, original in zip(after, before, strict=True):
        np.testing.assert_array_equal(X, original)
    order = np.random.default_rng(3).permutation(90)
    rest = {name: X[order] for name, X in rest.items()}  # aligned as before
    changed = [{name: 1000 * X - 7 for name, X in part.items()} for part in (linked, rest, test)]
    found = fit(Baseline(), changed[0], y, changed[1]).predict_proba(changed[2])
    np.testing.assert_allclose(found, expected, atol=1e-6)
    renamed = [{f"z{name}": part[name] for name in "cab"} for part in (linked, rest, test)]
    found = fit(Baseline(), renamed[0], y, renamed[1]).predict_proba(renamed[2])
    np.testing.assert_allclose(found, expected, atol=1e-3)  # the solver of the regression stops


@pytest.mark.parametrize(
    ("Baseline", "labels"),
    tuple(zip(ALL, ((3, 7, 40), ("x", "y", "z"), (-1, 0, 1), (0, 1, 2)), strict=True)),
)
def test_classes_are_whatever_the_labels_are(Baseline, labels):
    views, y = make_blobs(60, classes=labels)
    fitted = Baseline().fit(views, y)
    np.testing.assert_array_equal(fitted.classes_, sorted(labels))
    np.testing.assert_array_equal(fitted.predict(views), y)


@pytest.mark.parametrize("Baseline", ALL)
def test_few_rows_a_constant_view_and_parameters(Baseline):
    views = {"a": np.array([[0.0, 0.1], [5.0, 5.1], [0.2, 0.0]]), "b": np.ones((3, 4))}
    parameters = dict.fromkeys(Baseline().get_params(), 4)
    baseline = clone(Baseline(**parameters))
    with pytest.raises(NotFittedError):
        baseline.predict(views)
    assert np.isfinite(baseline.fit(views, [0, 1, 0]).predict_proba(views)).all()
    assert baseline.get_params() == parameters


def test_not_every_view_needs_unaligned_rows():
    linked, y = make_blobs(30, seed=1)
    rest, _ = make_blobs(90, seed=2)
    for Baseline in ALL[:3]:
        fitted = Baseline().fit(linked, y, unaligned={"c": rest["c"], "a": rest["a"][:17]})
        assert fitted.score(linked, y) == 1.0


@pytest.mark.parametrize(
    ("Baseline", "change", "message"),
    (
        (ALL[0], lambda v: {**v, "d": v["a"]}, r"among \['a', 'b', 'c'\], but got \['d'\]"),
        (ALL[1], lambda v: list(v.values())[:2], "Expected 3 views, as at fit, but got 2"),
        (ALL[2], lambda v: dict.fromkeys(v), "at least one of the views"),
        (ALL[3], lambda v: {**v, "b": v["b"][:, :7]}, "view 'b' to have 30 columns.*it has 7"),
        (ALL[2], lambda v: {**v, "b": v["b"][:7]}, "'b': 7"),
        (ALL[3], lambda v: {**v, "b": v["b"] + np.inf}, "view 'b' to hold finite"),
    ),
)
def test_prediction_refuses_what_is_not_as_in_fit(Baseline, change, message):
    with pytest.raises(ValueError, match=message):
        fit_on_blobs(Baseline).predict(change(make_blobs()[0]))


ONE_CLASS = {"y": np.full(60, "ant")}


@pytest.mark.parametrize(
    ("baseline", "change", "message"),
    (
        (ALL[0](), {"unaligned": {"d": np.zeros((5, 3))}}, r"among \['a'.*but got \['d'\]"),
        (ALL[1](), {"unaligned": [np.zeros((5, 3))]}, "3 views, as at fit, but got 1"),
        (ALL[2](), {"unaligned": {"a": np.zeros((5, 4))}}, "view 'a' to have 3 columns.* has 4"),
        (ALL[0](), {"unaligned": {"a": np.full((5, 3), np.inf)}}, "view 'a' to hold finite"),
        (ALL[3](), {"paired": make_blobs()[0] | {"b": np.zeros((7, 30))}}, "aligned.*'b': 7"),
        (ALL[3](), {"paired": {"a": np.zeros((5, 3))}}, r"all of.*but got \['a'\]"),
        (ALL[0](), ONE_CLASS, "at least two classes, but all are of one class, 'ant'"),
        (ALL[3](), ONE_CLASS, "at least two classes, but all are of one class, 'ant'"),
        (ALL[1](), {"y": np.zeros(59)}, "each of the 60 rows, but it holds 59"),
        (ALL[3](), {"y": np.zeros(59)}, "each of the 60 rows, but it holds 59"),
        (ALL[0](), {"Xs": None, "y": None}, "the collection is empty"),
        (ALL[0](), {"y": np.full(60, np.nan)}, "no row has a label"),
        (ALL[1](n_components=0), {}, "n_components to be a whole number"),
        (ALL[2](n_components=2.5), {}, "n_components to be a whole number"),
        (ALL[2](n_neighbors=0), {}, "n_neighbors to be a whole number"),
        (ALL[3](n_neighbors=-1), {}, "n_neighbors to be a whole number"),
    ),
)
def test_what_cannot_be_fitted_is_refused(baseline, change, message):
    rows = dict(zip(("Xs", "y"), make_blobs(), strict=True)) | change
    with pytest.raises(ValueError, match=message):
        baseline.fit(rows.pop("Xs"), rows.pop("y"), **rows)
