import pickle
import sys

import numpy as np
import pandas as pd
import pytest
import torch
from optuna.distributions import FloatDistribution
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone, is_classifier
from sklearn.metrics import accuracy_score, make_scorer
from sklearn.utils import _safe_indexing
from threadpoolctl import threadpool_limits

from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.evaluation import PCALogisticRegression
from hotview.model_selection import GridSearch, OptunaSearch, cross_validate
from hotview.model_selection.problem import read_problem
from hotview.model_selection.row_estimator import OnRows, Rows, scoring_on_rows

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


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


def test_rows_are_taken_as_scikit_learn_takes_them(make_problem, make_unaligned):
    rows = Rows(make_problem([0, 1, 0, 1, 1], make_unaligned()), np.array([1, 2, 4]))
    assert rows.shape == (3,)
    taken = _safe_indexing(rows, np.array([0, 2]))
    assert taken.problem is rows.problem
    assert taken.numbers.tolist() == [1, 4]
    entries = 5 * 3 + 4 * 2 + 5  # of all views
    assert 8 * entries < sys.getsizeof(rows) < 8 * entries + 300


def test_rows_are_predicted_and_scored_in_the_views_they_are_in(make_problem, make_unaligned):
    problem = make_problem([-1, -1, -1], make_unaligned(), {"b": [1, 0, 1, 0, 1]})
    model = OnRows(Reader(shift=0.5)).fit(Rows(problem, problem.numbering.rows))
    rows = Rows(problem, np.array([0, 2, 3, 8]))
    np.testing.assert_array_equal(model.predict(rows), [0.5, 2.5, 4000.5, 3001.5])
    model = OnRows(Reader()).fit(rows)
    rows = Rows(problem, np.array([0, 1, 2, 8]))
    assert model.score(rows, np.array([0.0, 1.0, 2.0, -1.0])) == 0.75
    scorer = pickle.loads(pickle.dumps(scoring_on_rows(Reader(), first_row)))
    assert scorer(model, rows, np.zeros(4)) == 3001 / 4


def first_row(estimator, Xs, y):
    assert isinstance(estimator, Reader)
    return estimator.predict(Xs)[0] * len(y) / len(Xs["b"])


def test_parameters_are_those_of_the_estimator():
    model = OnRows(Reader())
    again = clone(model).set_params(shift=3)
    assert again.estimator.shift == 3
    assert model.estimator.shift == 0
    assert is_classifier(model)
    assert not hasattr(model, "predict_proba")


def test_they_can_be_sent_to_another_process(make_problem, make_unaligned):
    rows = Rows(make_problem([0, 1, 1], make_unaligned()), np.arange(7))
    model, rows = pickle.loads(pickle.dumps((OnRows(Reader(shift=2)), rows)))
    np.testing.assert_array_equal(model.fit(rows).predict(rows.take([1, 3])), [3, 4002])


def test_a_fitted_model_does_not_carry_the_rows(make_views):
    views, y = make_views()
    problem = read_problem(PCALogisticRegression(), views, y, None, None)
    model = OnRows(PCALogisticRegression()).fit(Rows(problem, problem.numbering.rows))
    assert not any(value is problem for value in vars(model).values())
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


def scores_of_all(model, views, y, more):
    """What cross-validation and both searches find, to the last bit."""
    problem = {"Xs": views, "y": y, "unaligned": more}
    how = {"cv": 2, "scoring": "neg_log_loss", "random_state": 0}
    grid = GridSearch(model, {"learning_rate": [0.01, 0.03]}, refit=False, **how).fit(**problem)
    space = {"learning_rate": FloatDistribution(0.01, 0.03)}
    optuna = OptunaSearch(model, space, n_trials=2, refit=False, **how).fit(**problem)
    return {
        "cross-validation": cross_validate(model, **problem, **how).test_score.tolist(),
        "grid": [grid.cv_results_[f"split{i}_test_score"].tolist() for i in range(2)],
        "optuna": [(trial.params, trial.value) for trial in optuna.study_.trials],
    }


def test_numbers_do_not_depend_on_where_fits_run(elsewhere, make_views, small):
    views, y = make_views(noise=3.0)
    more = pd.DataFrame(make_views(seed=1)[0]["b"])
    problem = (small(max_epochs=3), views, y, {"b": more})
    here = scores_of_all(*problem)
    with elsewhere():
        assert scores_of_all(*problem) == here


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
        (7, TypeError, "scoring to be the name of a score.*but it is 7"),
        ([], ValueError, "names of several scores"),
        (["accuracy", "accuracy"], ValueError, "names of several scores, each once"),
        ([make_scorer(accuracy_score)], ValueError, "a dict of scores by name"),
        ({"a": 7}, TypeError, "scoring to be the name of a score"),
        ("accurate", ValueError, "accurate"),
    ),
)
def test_what_is_no_score_is_refused(scoring, error, message):
    with pytest.raises(error, match=message):
        scoring_on_rows(Reader(), scoring)
