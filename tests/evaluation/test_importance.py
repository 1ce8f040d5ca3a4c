"""Permutation importance: planted columns, scikit-learn's, and rows that lack views."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from sklearn.inspection import permutation_importance as sklearn_importance
from sklearn.linear_model import LogisticRegression

from hotview import MultiViewClassifier
from hotview.evaluation import permutation_importance
from hotview.evaluation.importance import _Block, _permute

QUICK = {"max_epochs": 5, "n_estimators": 1, "hidden": (8,), "random_state": 0}


def draw(n, random, n_noise=4):
    """Column 1 of view "a" decides the class; all others are noise."""
    y = np.arange(n) % 2
    views = {name: random.normal(size=(n, n_noise + 1)) for name in ("a", "b")}
    views["a"][:, 1] += 3 * y
    return views, y


class Regression:
    """A logistic regression with the checks and columns of a classifier that is hardly trained."""

    def __init__(self, Xs, y):
        self.classifier = MultiViewClassifier(**{**QUICK, "max_epochs": 1}).fit(Xs, y)
        self.regression = LogisticRegression().fit(np.hstack(list(Xs.values())), y)
        self.absent = []

    def __getattr__(self, name):
        return getattr(self.classifier, name)

    def predict_proba(self, tables):
        X = [V.toarray() if sparse.issparse(V) else V for V in tables.values()]
        self.absent.append(np.isnan(X[0]).all(axis=1))
        return self.regression.predict_proba(np.nan_to_num(np.hstack(X)))


@pytest.fixture(scope="module")
def fitted():
    random = np.random.default_rng(0)
    return Regression(*draw(200, random)), *draw(300, random)


def test_the_column_that_decides_is_first_and_noise_is_not_different_from_0(fitted):
    found = permutation_importance(*fitted)
    assert (found.views.views[0], found.columns.views[0]) == ("a", "a")
    assert found.columns.columns[0] == "column 2"
    assert min(found.columns.loss_low[0], found.columns.accuracy_low[0]) > 0.2
    low, high = found.columns.loss_low[1:], found.columns.loss_high[1:]
    assert ((low <= 0) & (high >= 0)).sum() >= 7  # of 9 intervals, each of 95 %
    assert (found.columns.accuracy_low[1:] <= 0).all()
    assert found.views.loss_low[1] <= 0 <= found.views.loss_high[1]
    assert (found.n_rows, found.n_columns, found.n_repeats) == (300, 10, 5)


def test_it_is_that_of_scikit_learn(fitted):
    model, Xs, y = fitted
    ours = permutation_importance(model, Xs, y, n_repeats=20).columns
    numbers = [5 * (d["view"] == "b") + int(d["column"][7:]) - 1 for d in ours.to_dicts()]
    scorings = {"neg_log_loss": ours.loss_increase, "accuracy": ours.accuracy_drop}
    how = {"scoring": list(scorings), "n_repeats": 20, "random_state": 1}
    X = np.hstack([Xs["a"], Xs["b"]])
    for scoring, theirs in sklearn_importance(model.regression, X, y, **how).items():
        error = theirs.importances_std[numbers] * np.sqrt(2 / 20)  # of two means over 20
        difference = np.abs(scorings[scoring] - theirs.importances_mean[numbers])
        np.testing.assert_array_less(difference, 4 * error + 1e-9)


def test_the_seed_and_the_scoring_decide(fitted):
    one, same, other, by_accuracy = (
        permutation_importance(*fitted, n_repeats=1, random_state=seed, scoring=scoring)
        for seed, scoring in ((0, "log_loss"), (0, "log_loss"), (1, "log_loss"), (0, "accuracy"))
    )
    assert one.to_dict() == same.to_dict() != other.to_dict()
    assert (np.diff(one.columns.loss_increase) <= 0).all()
    assert (np.diff(by_accuracy.columns.accuracy_drop) <= 0).all()
    with pytest.raises(ValueError, match="scoring"):
        permutation_importance(*fitted, scoring="auc")


def test_the_encoded_columns_of_a_category_are_permuted_together():
    random = np.random.default_rng(0)

    def rows(n):
        y = np.arange(n) % 3
        site = np.array(["north", "south", "west"])[y]
        site[::10] = "south"
        first = pd.DataFrame({"age": random.normal(size=n), "site": site})
        return {"a": first, "b": random.normal(size=(n, 2))}, y

    model, (Xs, y) = MultiViewClassifier(**QUICK).fit(*rows(150)), rows(120)
    found = permutation_importance(model, Xs, y)
    assert found.accuracy == pytest.approx(model.score(Xs, y))
    P = model.predict_proba(Xs)
    assert found.log_loss == pytest.approx(-np.log(P[np.arange(120), y]).mean())
    assert [d["column"] for d in found.columns.to_dicts() if d["view"] == "a"] == ["site", "age"]
    assert found.n_columns == 4
    block = _Block.of_view("a", model.columns_["a"])
    assert (block.names, block.edges) == (["age", "site"], [0, 1, 4])
    assert found.columns.columns[0] == "site"
    # As it is the only informative column, permuting it is permuting the view.
    assert found.columns.loss_increase[0] == pytest.approx(found.views.loss_increase[0], rel=0.3)


@pytest.mark.filterwarnings("ignore:Predictions from view 'b'")
def test_a_wide_view_is_screened():
    random = np.random.default_rng(1)
    model, new = Regression(*draw(200, random, n_noise=70)), draw(200, random, n_noise=70)
    found = permutation_importance(model, *new, max_columns=10, n_repeats=2)
    assert found.columns.columns[0] == "column 2"
    assert 1 <= len(found.columns) <= 10
    assert found.n_columns == 142
    assert len(permutation_importance(model, *new, max_columns=0).columns) == 0


def test_rows_stay_absent_from_views(fitted):
    model, Xs, y = fitted
    lacks = np.arange(300) % 4 < 2
    model.absent.clear()
    views = {**Xs, "a": np.where(lacks[:, None], np.nan, Xs["a"])}
    found = permutation_importance(model, views, y, n_repeats=1)
    assert len(model.absent) == 1 + 2 + 10
    assert (np.array(model.absent) == lacks).all()
    # Half of the rows cannot be worse for a view that they do not have.
    (drop,) = (d["accuracy_drop"] for d in found.views.to_dicts() if d["view"] == "a")
    assert 0.1 < drop < 0.3


def test_sparse_views_are_permuted_as_dense_ones(fitted):
    model, Xs, y = fitted
    dense = {name: np.where(np.abs(X) < 0.5, 0.0, X) for name, X in Xs.items()}
    converted = {name: sparse.csr_array(X) for name, X in dense.items()}
    ours, theirs = (permutation_importance(model, X, y, n_repeats=1) for X in (converted, dense))
    np.testing.assert_allclose(ours.columns.loss_increase, theirs.columns.loss_increase, atol=1e-5)


def test_only_the_given_columns_move_and_a_row_keeps_the_only_value_that_it_has():
    X, order = np.arange(12.0).reshape(3, 4), np.array([2, 0, 1])
    expected = np.array([[0, 9, 10, 3], [4, 1, 2, 7], [8, 5, 6, 11]])
    np.testing.assert_array_equal(_permute(X, slice(1, 3), order), expected)
    found = _permute(sparse.csr_array(X), slice(1, 3), order)
    np.testing.assert_array_equal(found.toarray(), expected)
    assert X[0, 1] == 1
    found = _permute(np.array([[1, np.nan], [np.nan, 2]]), slice(0, 1), np.array([1, 0]))
    np.testing.assert_array_equal(found, [[1, np.nan], [1, 2]])  # not NaN throughout


def test_rows_without_a_known_class_are_left_out(fitted):
    model, Xs, y = fitted
    gaps = y.astype(float)
    gaps[:100], gaps[100] = np.nan, 7
    assert permutation_importance(model, Xs, gaps, n_repeats=1, max_columns=0).n_rows == 199
    with pytest.raises(ValueError, match="Expected at least 2 rows with a class of the model"):
        permutation_importance(model, Xs, np.full(300, np.nan))
    small = permutation_importance(model, Xs, y, n_repeats=1, max_columns=0, max_rows=50)
    assert small.n_rows == 50
