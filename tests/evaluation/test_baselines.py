import numpy as np
import pandas as pd
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from hotview.datasets import load_handwritten, unalign
from hotview.evaluation import (
    ConcatenatedLabelPropagation,
    ConcatenatedLogisticRegression,
    PCALogisticRegression,
    PerViewLabelPropagation,
)

UNALIGNED = (ConcatenatedLogisticRegression, PCALogisticRegression, PerViewLabelPropagation)
ALL = (*UNALIGNED, ConcatenatedLabelPropagation)
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


@pytest.mark.parametrize("Baseline", ALL)
def test_separated_blobs_are_classified(Baseline):
    test, y = make_blobs(50, seed=3)
    fitted = fit_on_blobs(Baseline)
    assert fitted.score(test, y) == 1.0
    np.testing.assert_array_equal(fitted.predict(test), y)
    np.testing.assert_array_equal(fitted.classes_, ["ant", "bee", "cow"])


@pytest.mark.parametrize("Baseline", ALL)
def test_probabilities_are_probabilities_and_agree_with_the_prediction(Baseline):
    test, _ = make_blobs(50, noise=3.0, seed=3)
    fitted = fit_on_blobs(Baseline, noise=3.0)
    proba = fitted.predict_proba(test)
    assert proba.shape == (50, 3)
    assert proba.min() >= 0
    np.testing.assert_allclose(proba.sum(axis=1), 1)
    np.testing.assert_array_equal(fitted.predict(test), fitted.classes_[proba.argmax(axis=1)])


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


@pytest.mark.parametrize("Baseline", UNALIGNED)
def test_the_order_of_unaligned_rows_does_not_matter(Baseline, hard):
    linked, y, rest, test = hard
    first, second = (
        Baseline().fit(linked, y, unaligned=shuffled(rest, seed)).predict_proba(test)
        for seed in (0, 1)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


def test_the_order_of_paired_rows_does_not_matter_as_long_as_they_are_aligned(hard):
    linked, y, rest, test = hard
    order = np.random.default_rng(0).permutation(90)
    turned = {name: X[order] for name, X in rest.items()}
    first, second = (
        ConcatenatedLabelPropagation().fit(linked, y, paired=views).predict_proba(test)
        for views in (rest, turned)
    )
    np.testing.assert_allclose(first, second, atol=1e-6)


@pytest.mark.parametrize("Baseline", ALL)
def test_units_do_not_matter(Baseline, hard):
    linked, y, rest, test = hard
    parts = [{name: 1000 * X - 7 for name, X in part.items()} for part in (linked, rest, test)]
    expected = fit(Baseline(), linked, y, rest).predict_proba(test)
    changed = fit(Baseline(), parts[0], y, parts[1]).predict_proba(parts[2])
    np.testing.assert_allclose(changed, expected, atol=1e-6)


@pytest.mark.parametrize("Baseline", ALL)
def test_the_order_and_the_names_of_the_views_do_not_matter(Baseline, hard):
    linked, y, rest, test = hard
    fitted = fit(Baseline(), linked, y, rest)
    expected = fitted.predict_proba(test)
    backward = {name: test[name] for name in reversed(test)}
    np.testing.assert_array_equal(fitted.predict_proba(backward), expected)
    renamed = [{f"z{name}": part[name] for name in "cab"} for part in (linked, rest, test)]
    again = fit(Baseline(), renamed[0], y, renamed[1]).predict_proba(renamed[2])
    np.testing.assert_allclose(again, expected, atol=1e-3)  # the solver of the regression stops


@pytest.mark.parametrize("Baseline", ALL)
def test_views_can_be_lists_of_float32_and_integers(Baseline):
    views, y = make_blobs(30)
    listed = [views["a"].astype(np.float32), np.rint(100 * views["b"]).astype(np.int16)]
    assert Baseline().fit(listed, y).score(listed, y) == 1.0


@pytest.mark.parametrize("Baseline", ALL)
def test_the_same_data_give_the_same_bytes_and_are_not_changed(Baseline, hard):
    linked, y, rest, test = hard
    before = [X.copy() for part in (linked, rest, test) for X in part.values()]
    first, second = (fit(Baseline(), linked, y, rest).predict_proba(test) for _ in range(2))
    assert first.tobytes() == second.tobytes()
    after = [X for part in (linked, rest, test) for X in part.values()]
    for X, expected in zip(after, before, strict=True):
        np.testing.assert_array_equal(X, expected)


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


@pytest.mark.parametrize("labels", ((3, 7, 40), ("x", "y", "z"), (-1, 0, 1)))
@pytest.mark.parametrize("Baseline", ALL)
def test_classes_are_whatever_the_labels_are(Baseline, labels):
    views, y = make_blobs(60, classes=labels)
    fitted = Baseline().fit(views, y)
    np.testing.assert_array_equal(fitted.classes_, sorted(labels))
    np.testing.assert_array_equal(fitted.predict(views), y)


@pytest.mark.parametrize("Baseline", ALL)
def test_few_rows_and_a_constant_view_are_no_problem(Baseline):
    views = {"a": np.array([[0.0, 0.1], [5.0, 5.1], [0.2, 0.0]]), "b": np.ones((3, 4))}
    fitted = Baseline().fit(views, [0, 1, 0])
    assert np.isfinite(fitted.predict_proba(views)).all()


@pytest.mark.parametrize("Baseline", UNALIGNED)
def test_not_every_view_needs_unaligned_rows(Baseline):
    linked, y = make_blobs(30, seed=1)
    rest, _ = make_blobs(90, seed=2)
    fitted = Baseline().fit(linked, y, unaligned={"c": rest["c"], "a": rest["a"][:17]})
    assert fitted.score(linked, y) == 1.0


@pytest.mark.parametrize("Baseline", ALL)
def test_parameters_are_stored_and_cloned(Baseline):
    parameters = dict.fromkeys(Baseline().get_params(), 4)
    baseline = Baseline(**parameters)
    assert clone(baseline).get_params() == parameters
    assert fit_on_blobs(Baseline, **parameters).get_params() == parameters


@pytest.mark.parametrize("Baseline", ALL)
def test_prediction_before_fit_is_refused(Baseline):
    with pytest.raises(NotFittedError):
        Baseline().predict(make_blobs()[0])


def without(views, name):
    return {s: X for s, X in views.items() if s != name}


@pytest.mark.parametrize("Baseline", ALL)
@pytest.mark.parametrize(
    ("change", "message"),
    (
        (lambda v: {**v, "d": v["a"]}, r"among \['a', 'b', 'c'\], but got \['d'\]"),
        (lambda v: list(v.values())[:2], "Expected 3 views, as at fit, but got 2"),
        (lambda v: dict.fromkeys(v), "at least one of the views"),
        (lambda v: {**v, "b": v["b"][:, :7]}, "view 'b' to have 30 columns.*it has 7"),
        (lambda v: {**v, "b": v["b"][:7]}, "'b': 7"),
        (lambda v: {**v, "b": v["b"] + np.inf}, "view 'b' to hold finite"),
    ),
)
def test_prediction_refuses_what_is_not_as_in_fit(Baseline, change, message):
    fitted = fit_on_blobs(Baseline)
    with pytest.raises(ValueError, match=message):
        fitted.predict(change(make_blobs()[0]))


@pytest.mark.parametrize("Baseline", UNALIGNED)
@pytest.mark.parametrize(
    ("unaligned", "message"),
    (
        ({"d": np.zeros((5, 3))}, r"among \['a', 'b', 'c'\], but got \['d'\]"),
        ([np.zeros((5, 3))], "Expected 3 views, as at fit, but got 1"),
        ({"a": np.zeros((5, 4))}, "view 'a' to have 3 columns.*it has 4"),
        ({"a": np.full((5, 3), np.inf)}, "view 'a' to hold finite numbers, or NaN"),
    ),
)
def test_unaligned_rows_that_do_not_fit_are_refused(Baseline, unaligned, message):
    with pytest.raises(ValueError, match=message):
        Baseline().fit(*make_blobs(), unaligned=unaligned)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        (lambda v: without(v, "b"), r"all of.*but got \['a', 'c'\]"),
        (lambda v: {**v, "b": v["b"][:7]}, "aligned.*'b': 7"),
    ),
)
def test_paired_rows_that_are_not_aligned_are_refused(change, message):
    views, y = make_blobs()
    with pytest.raises(ValueError, match=message):
        ConcatenatedLabelPropagation().fit(views, y, paired=change(views))


def test_label_propagation_on_the_concatenation_takes_no_unaligned_rows():
    views, y = make_blobs()
    with pytest.raises(TypeError, match="unaligned"):
        ConcatenatedLabelPropagation().fit(views, y, unaligned=views)


@pytest.mark.parametrize("Baseline", ALL)
def test_labels_that_cannot_be_learned_are_refused(Baseline):
    views, y = make_blobs()
    with pytest.raises(ValueError, match="at least two classes, but all are of one class, 'ant'"):
        Baseline().fit(views, np.full(60, "ant"))
    with pytest.raises(ValueError, match="each of the 60 rows, but it holds 59"):
        Baseline().fit(views, y[1:])


@pytest.mark.parametrize(
    ("baseline", "message"),
    (
        (PCALogisticRegression(n_components=0), "n_components to be a whole number"),
        (PerViewLabelPropagation(n_components=2.5), "n_components to be a whole number"),
        (PerViewLabelPropagation(n_neighbors=0), "n_neighbors to be a whole number"),
        (ConcatenatedLabelPropagation(n_neighbors=-1), "n_neighbors to be a whole number"),
    ),
)
def test_impossible_parameters_are_refused(baseline, message):
    with pytest.raises(ValueError, match=message):
        baseline.fit(*make_blobs())


@pytest.mark.parametrize("seed", (0, 1))
def test_accuracies_on_handwritten_digits(seed):
    # Over seeds 0, …, 9 the means are 88.3, 92.7, 96.2 and 96.4 %.
    digits = load_handwritten()
    data = unalign(digits.views, digits.target, random_state=seed)
    least = dict(zip(ALL, (0.80, 0.87, 0.94, 0.95), strict=True))
    for Baseline in ALL:
        rows = "paired" if Baseline is ConcatenatedLabelPropagation else "unaligned"
        fitted = Baseline().fit(data.linked, data.target, **{rows: data[rows]})
        assert fitted.score(data.test, data.test_target) > least[Baseline], Baseline


@pytest.mark.parametrize("Baseline", ALL)
def test_frames_with_text_are_encoded(Baseline):
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
    name = "paired" if Baseline is ConcatenatedLabelPropagation else "unaligned"
    found, expected = (
        Baseline().fit(linked, y, **{name: rest}).predict_proba(linked)
        for linked, rest in (frames, arrays)
    )
    np.testing.assert_array_equal(found, expected)
