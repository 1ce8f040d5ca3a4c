import pickle

import numpy as np
import pytest
from sklearn.exceptions import FitFailedWarning

from hotview.evaluation import PCALogisticRegression
from hotview.model_selection import GridSearch, cross_validate

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")

GRID = {"n_components": [1, 3, 7]}


def test_the_search_finds_the_best_of_the_grid(make_views):
    views, y = make_views(noise=3.0)
    search = GridSearch(PCALogisticRegression(), GRID, cv=3, random_state=0).fit(views, y)
    scores = [
        cross_validate(PCALogisticRegression(n), views, y, cv=3, random_state=0).test_score.mean()
        for n in GRID["n_components"]
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert search.best_score_ == pytest.approx(max(scores))
    assert search.best_index_ == int(np.argmax(scores))
    assert search.best_params_ == {"n_components": GRID["n_components"][search.best_index_]}
    assert search.cv_results_["param_n_components"].tolist() == GRID["n_components"]
    assert search.n_splits_ == 3


def test_searching_our_classifier(make_views, small):
    views, y = make_views()
    more, _ = make_views(seed=1)
    hidden = np.where(np.arange(60) < 20, y, None)
    search = GridSearch(
        small(learning_rate=0.01, pseudo_labels=False),
        {"max_epochs": [1, 30], "coupling": ["none", "hot-reference"]},
        cv=2,
        random_state=0,
    ).fit(views, hidden, unaligned=more)
    assert search.best_params_["max_epochs"] == 30
    assert search.score(views, y) > 0.8
    assert search.transform(views)["a"].shape == (60, 4)
    assert search.predict({"b": views["b"][:3]}).shape == (3,)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(views), search.predict(views))


def test_a_combination_that_fails_comes_last(make_views, small):
    views, y = make_views()
    more, _ = make_views(seed=1)
    grid = {"coupling": ["lscca", "none"]}
    search = GridSearch(small(max_epochs=2), grid, cv=2, random_state=0)
    with pytest.warns() as record:
        search.fit(views, y, unaligned=more)
    assert any(issubclass(w.category, FitFailedWarning) for w in record)
    assert search.best_params_ == {"coupling": "none"}
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]


def test_unknown_parameters_are_named(make_views):
    views, y = make_views()
    with pytest.raises(ValueError, match="Invalid parameter 'n_parts'"):
        GridSearch(PCALogisticRegression(), {"n_parts": [1]}, cv=2).fit(views, y)
