import numpy as np
import pytest
from optuna.distributions import IntDistribution
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from hotview.evaluation import PCALogisticRegression
from hotview.model_selection import GridSearch, OptunaSearch


def grid(**arguments):
    return GridSearch(PCALogisticRegression(), {"n_components": [1, 3, 7]}, **arguments)


def optuna(**arguments):
    space = {"n_components": IntDistribution(1, 7)}
    return OptunaSearch(PCALogisticRegression(), space, n_trials=3, **arguments)


BOTH = pytest.mark.parametrize("search", (grid, optuna))


@BOTH
def test_the_best_is_fitted_to_all_rows(search, make_views):
    views, y = make_views(noise=3.0)
    search = search(cv=2, random_state=0).fit(views, y)
    plain = PCALogisticRegression(**search.best_params_).fit(views, y)
    assert isinstance(search.best_estimator_, PCALogisticRegression)
    np.testing.assert_array_equal(search.predict_proba(views), plain.predict_proba(views))
    np.testing.assert_array_equal(search.predict(views), plain.predict(views))
    np.testing.assert_array_equal(search.classes_, np.unique(y))
    assert search.score(views, y) == plain.score(views, y)
    assert not hasattr(search, "transform")


@BOTH
def test_the_search_scores_as_it_was_told(search, make_views, log_likelihood):
    views, y = make_views(noise=3.0)
    search = search(cv=2, scoring=log_likelihood, random_state=0).fit(views, y)
    assert search.best_score_ < 0
    assert search.score(views, y) == pytest.approx(log_likelihood(search, views, y))


@BOTH
def test_a_search_is_an_estimator(search, make_views):
    search = search(cv=2, random_state=0)
    views, y = make_views()
    assert clone(search).get_params()["cv"] == 2
    assert search.get_params()["estimator__n_components"] == PCALogisticRegression().n_components
    with pytest.raises(NotFittedError):
        search.predict(views)
    before = dict(vars(search.estimator))
    search.fit(views, y)
    assert vars(search.estimator) == before


@BOTH
def test_without_a_refit_there_is_nothing_to_predict_with(search, make_views):
    views, y = make_views()
    search = search(cv=2, refit=False).fit(views, y)
    assert search.best_params_
    assert not hasattr(search, "best_estimator_")
    with pytest.raises(AttributeError, match="refit=True"):
        search.predict(views)
