import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from optuna.distributions import FloatDistribution
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.model_selection import GroupKFold, KFold, LeaveOneOut, ShuffleSplit
from threadpoolctl import threadpool_limits

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.evaluation import PCALogisticRegression
from hotview.model_selection import GridSearch, OptunaSearch, cross_validate
from hotview.model_selection.cross_validation import OnRows, scoring_on_rows
from hotview.model_selection.rows import read_rows

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


class Recorder(ClassifierMixin, BaseEstimator):
    """Remembers what it was fitted to."""

    def fit(self, Xs, y, **more):
        self.seen_ = {"Xs": Xs, "y": y, **more}
        return self


def test_an_estimator_is_fitted_to_the_rows_it_is_given_and_to_no_other(make_rows, make_unaligned):
    y = np.array(["u", "v", None, "v"], dtype=object)
    rows = make_rows(y, make_unaligned(), {"b": ["u", None, "v", "v", "u"]})
    seen = rows.take(np.array([1, 2, 4, 5, 8, 12])).fit_estimator(Recorder()).seen_
    np.testing.assert_array_equal(seen["Xs"]["b"][:, 0], [1001, 1002])
    assert seen["y"].tolist() == ["v", None]
    np.testing.assert_array_equal(seen["unaligned"]["a"][:, 0], [4000, 4001])
    np.testing.assert_array_equal(seen["unaligned"]["b"][:, 0], [3000, 3004])
    assert {name: part.tolist() for name, part in seen["unaligned_y"].items()} == {"b": ["u", "u"]}
    assert set(rows.take(np.arange(3)).fit_estimator(Recorder()).seen_) == {"Xs", "y"}
    assert set(make_rows([0, 1, 1]).fit_estimator(Recorder()).seen_) == {"Xs", "y"}
    more = make_unaligned()["a"]  # a list is in the order of the linked views
    seen = make_rows([0, 1, 1], [more, None]).fit_estimator(Recorder()).seen_
    assert seen["unaligned"]["a"] is more


@pytest.mark.parametrize("cv", (3, KFold(3), ShuffleSplit(3, random_state=0), LeaveOneOut()))
def test_only_rows_with_a_label_are_held_out_and_all_others_train(cv, make_rows, make_unaligned):
    y = np.array([0, -1, 0, 1, 1, -1, 0, 1, 0, 1, 1, 0])
    folds = make_rows(y, make_unaligned(), {"b": [1, 0, 1, 0, 1]}).folds(cv, None)
    always = {1, 5, *range(12, 21)}
    for train, test in folds:
        assert always <= set(train)
        assert not set(test) & {*train, *always}
        assert [*train, *test] == [*sorted(train), *sorted(test)]
    if not isinstance(cv, ShuffleSplit):
        tested = np.concatenate([test for _, test in folds])
        assert sorted(tested) == np.flatnonzero(y >= 0).tolist()


@pytest.mark.parametrize(
    ("cv", "seed", "error", "message"),
    (
        ([([0], [1])], None, TypeError, "cv to be a number of folds or a splitter"),
        (KFold(2), 0, ValueError, "no random_state beside a splitter"),
        (1, None, ValueError, "n_splits to be a whole number of at least 2"),
    ),
)
def test_what_is_no_splitter_is_refused(cv, seed, error, message, make_rows):
    with pytest.raises(error, match=message):
        make_rows([0, 1, 0, 1]).folds(cv, seed)


@pytest.mark.parametrize(
    ("change", "message"),
    (
        ({"y": [0, 1]}, "each of the 3 rows, but it holds 2"),
        ({"y": None}, "y to hold a label for every row, but it is None"),
        ({"y": [0, 0, 0]}, "at least two classes"),
        ({"unaligned": [None, np.zeros((3, 2))]}, "'view_1' to have 1 columns"),
        ({"unaligned_y": {"view_0": [1]}}, "unaligned_y to label views that unaligned holds"),
    ),
)
def test_problems_are_checked_before_anything_is_fitted(change, message):
    problem = {"Xs": [np.zeros((3, 1)), np.zeros((3, 1))], "y": [0, 1, 1]}
    problem |= {"unaligned": None, "unaligned_y": None} | change
    with pytest.raises(ValueError, match=message):
        read_rows(Recorder(), **problem)


def test_half_a_training_is_no_result(make_rows):
    class Warns(Recorder):
        def __init__(self, text="Careful"):
            self.text = text

        def fit(self, Xs, y, **more):
            self.fit_warnings_ = ["Other", self.text]
            return super().fit(Xs, y, **more)

    rows = make_rows([0, 1, 0, 1])
    with pytest.raises(KeyboardInterrupt):
        rows.fit_estimator(Warns("Training was interrupted in epoch 3; ..."))
    assert rows.fit_estimator(Warns()).seen_


def test_labels_in_another_order_than_their_rows_are_refused():
    ids = [f"p{i}" for i in range(6)]
    views = {name: pd.DataFrame(np.ones((6, 2)), index=ids) for name in ("a", "b")}
    y = pd.Series([0, 1] * 3, index=ids)
    assert read_rows(MultiViewClassifier(), views, y).target.tolist() == [0, 1] * 3
    with pytest.raises(ValueError, match="row labels of view 'a' and of y differ"):
        read_rows(MultiViewClassifier(), views, y[::-1])


class GroupRecorder(Recorder):
    def fit(self, Xs, y, *, groups=None, unaligned_groups=None, **more):
        return super().fit(Xs, y, groups=groups, unaligned_groups=unaligned_groups, **more)


def grouped_rows(seed, y=None):
    """Linked and unaligned rows of twelve people, whose number is in the first column."""
    random = np.random.default_rng(seed)
    who = {name: random.integers(0, 12, n).astype(float) for name, n in (("", 30), ("a", 20))}
    linked = {"a": who[""][:, None] * [1, 0], "b": who[""][:, None]}
    y = random.choice([0, 1, -1], 30) if y is None else y
    names = {name: [f"person {i:g}" for i in part] for name, part in who.items()}
    more = {"unaligned": {"a": who["a"][:, None] * [1, 0]}, "unaligned_y": {"a": np.arange(20) % 2}}
    more |= {"groups": names[""], "unaligned_groups": {"a": names["a"]}}
    return read_rows(GroupRecorder(), linked, y, **more)


def people_of(rows):
    return {x for _, _, Xs in rows.parts() for x in Xs["a"][:, 0]}


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.filterwarnings("ignore:The groups parameter is ignored by ShuffleSplit:UserWarning")
@pytest.mark.parametrize("cv", (3, GroupKFold(3), ShuffleSplit(3, test_size=0.2, random_state=0)))
def test_nobody_is_trained_and_tested_on(cv):
    for seed in range(5):
        for y in (None, np.full(30, -1)):  # then unaligned rows are split
            rows = grouped_rows(seed, y)
            for train, test in rows.folds(cv, None):
                assert len(test) > 0
                assert not people_of(rows.take(train)) & people_of(rows.take(test))


def test_groups_are_passed_to_estimators_that_take_them():
    rows = grouped_rows(0)
    (train, _), *_ = rows.folds(2, 0)
    seen = rows.take(train).fit_estimator(GroupRecorder()).seen_
    for X, groups in (
        (seen["Xs"]["a"], seen["groups"]),
        (seen["unaligned"]["a"], seen["unaligned_groups"]["a"]),
    ):
        people = X[:, 0]
        assert len(people) == len(groups)
        assert ((people[:, None] == people) == (groups[:, None] == groups)).all()
    assert "groups" not in rows.take(train).fit_estimator(Recorder()).seen_


class Reader(ClassifierMixin, BaseEstimator):
    """Predicts what stands in the first column."""

    def __init__(self, shift=0):
        self.shift = shift

    def fit(self, Xs, y, **more):
        self.classes_ = np.array([0, 1])
        return self

    def predict(self, Xs):
        first = next(iter(Xs.values()))
        return np.asarray(first)[:, 0] + self.shift

    def score(self, Xs, y):
        return float(np.mean(self.predict(Xs) == y))


def test_rows_have_the_size_of_all_views(make_rows, make_unaligned):
    rows = make_rows([0, 1, 0, 1, 1], make_unaligned()).take(np.array([1, 2, 4]))
    entries = 5 * 3 + 4 * 2 + 5
    assert 8 * entries < sys.getsizeof(rows) < 8 * entries + 300


def test_rows_are_predicted_and_scored_in_the_views_they_are_in(make_rows, make_unaligned):
    every = make_rows([-1, -1, -1], make_unaligned(), {"b": [1, 0, 1, 0, 1]})
    sent = OnRows(Reader(shift=0.5)), every.take(np.array([0, 2, 3, 8]))
    model, rows = pickle.loads(pickle.dumps(sent))  # to another process
    np.testing.assert_array_equal(model.fit(rows).predict(rows), [0.5, 2.5, 4000.5, 3001.5])
    model = OnRows(Reader()).fit(rows)
    rows = every.take(np.array([0, 1, 2, 8]))
    assert model.score(rows, np.array([0.0, 1.0, 2.0, -1.0])) == 0.75
    scorer = pickle.loads(pickle.dumps(scoring_on_rows(Reader(), first_row)))
    assert scorer(model, rows, np.zeros(4)) == 3001 / 4


def first_row(estimator, Xs, y):
    assert isinstance(estimator, Reader)
    return estimator.predict(Xs)[0] * len(y) / len(Xs["b"])


def test_a_fitted_model_does_not_carry_the_rows(make_views):
    views, y = make_views()
    rows = read_rows(PCALogisticRegression(), views, y)
    model = OnRows(PCALogisticRegression()).fit(rows)
    assert not any(value is rows for value in vars(model).values())
    assert len(pickle.dumps(model)) < len(pickle.dumps(PCALogisticRegression().fit(views, y))) + 500


@pytest.mark.skipif(np.__version__ < "2", reason="scikit-learn dispatches to numpy 2")
def test_scikit_learn_may_dispatch_by_kinds_of_array(make_views, monkeypatch):
    monkeypatch.setenv("SCIPY_ARRAY_API", "1")
    views, y = make_views(noise=3.0)
    found = []
    for dispatch in (False, True):
        with config_context(array_api_dispatch=dispatch):
            scores = cross_validate(PCALogisticRegression(), views, y, cv=2, random_state=0)
            found.append(scores.test_score.tolist())
    assert found[0] == found[1]


def scores_of_all(small, make_views):
    """What cross-validation and both searches find, to the last bit."""
    model, (views, y) = small(max_epochs=1), make_views(noise=3.0)
    problem = {"Xs": views, "y": y, "unaligned": {"b": pd.DataFrame(make_views(seed=1)[0]["b"])}}
    how = {"cv": 2, "scoring": "neg_log_loss", "random_state": 0}
    grid = GridSearch(model, {"learning_rate": [0.01, 0.03]}, refit=False, **how).fit(**problem)
    space = {"learning_rate": FloatDistribution(0.01, 0.03)}
    optuna = OptunaSearch(model, space, n_trials=1, refit=False, **how).fit(**problem)
    return {
        "cross-validation": cross_validate(model, **problem, **how).test_score.tolist(),
        "grid": [grid.cv_results_[f"split{i}_test_score"].tolist() for i in range(2)],
        "optuna": [(trial.params, trial.value) for trial in optuna.study_.trials],
    }


@pytest.fixture(scope="module")
def here(small, make_views):
    return scores_of_all(small, make_views)


def test_numbers_do_not_depend_on_where_fits_run(here, elsewhere, make_views, small):
    with elsewhere():
        assert scores_of_all(small, make_views) == here


def test_numbers_do_not_depend_on_the_number_of_threads():
    digits = load_handwritten()
    views = {name: digits.views[name] for name in ("pix", "fou", "mor")}
    data = unalign(views, digits.target, random_state=0)
    model = MultiViewClassifier(n_estimators=1, pseudo_labels=False, max_epochs=1, random_state=0)
    how = {"unaligned": data.unaligned, "cv": 2, "scoring": "neg_log_loss", "random_state": 0}
    before, found = torch.get_num_threads(), []
    for n in (1, 2):
        torch.set_num_threads(n)
        with threadpool_limits(n):
            found.append(cross_validate(model, data.linked, data.target, **how).test_score)
            assert torch.get_num_threads() == n
    torch.set_num_threads(before)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize(
    ("scoring", "error", "message"),
    (
        (7, TypeError, "'scoring' parameter .* must be a str among.* Got 7"),
        ([], ValueError, "Empty list"),
        (["accuracy", "accuracy"], ValueError, "unique strings"),
        ([make_scorer(accuracy_score)], ValueError, "Use a dict of score name"),
        ("accurate", ValueError, "accurate"),
    ),
)
def test_what_is_no_score_is_refused(scoring, error, message):
    with pytest.raises(error, match=message):
        scoring_on_rows(Reader(), scoring)
