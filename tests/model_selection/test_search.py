import numpy as np
import pandas as pd
import pytest
from optuna.distributions import CategoricalDistribution, IntDistribution
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import accuracy_score, balanced_accuracy_score, make_scorer
from sklearn.model_selection import KFold, StratifiedKFold

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.evaluation import ConcatenatedLogisticRegression, PCALogisticRegression
from hotview.model_selection import GridSearch, OptunaSearch, cross_validate, take_rows


def grid(**arguments):
    return GridSearch(PCALogisticRegression(), {"n_components": [1, 3, 7]}, **arguments)


def optuna(**arguments):
    space = {"n_components": IntDistribution(1, 7)}
    return OptunaSearch(PCALogisticRegression(), space, n_trials=3, **arguments)


BOTH = pytest.mark.parametrize("search", (grid, optuna))
pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")


@BOTH
def test_the_best_is_fitted_to_all_rows(search, make_views, log_likelihood):
    views, y = make_views(noise=3.0)
    search = search(cv=2, scoring=log_likelihood, random_state=0)
    assert clone(search).get_params()["cv"] == 2
    assert search.get_params()["estimator__n_components"] == PCALogisticRegression().n_components
    with pytest.raises(NotFittedError):
        search.predict(views)
    before = dict(vars(search.estimator))
    search.fit(views, y)
    assert vars(search.estimator) == before
    plain = PCALogisticRegression(**search.best_params_).fit(views, y)
    assert isinstance(search.best_estimator_, PCALogisticRegression)
    np.testing.assert_array_equal(search.predict_proba(views), plain.predict_proba(views))
    np.testing.assert_array_equal(search.predict(views), plain.predict(views))
    np.testing.assert_array_equal(search.classes_, np.unique(y))
    assert search.best_score_ < 0  # as it was told to score
    assert search.score(views, y) == pytest.approx(log_likelihood(plain, views, y))
    assert not hasattr(search, "transform")


METRICS = ["neg_log_loss", "accuracy"]


def test_several_metrics_are_those_of_each(make_views, log_likelihood):
    views, y = make_views(noise=3.0)
    how = {"cv": 3, "random_state": 0}
    model = PCALogisticRegression()
    named = cross_validate(model, views, y, scoring=METRICS, **how)
    for name in METRICS:
        alone = cross_validate(model, views, y, scoring=name, **how)
        np.testing.assert_array_equal(named[f"test_{name}"], alone.test_score)
    own = {"mine": log_likelihood, "balanced": "balanced_accuracy", "score": None}
    found = cross_validate(model, views, y, scoring=own, **how)
    np.testing.assert_allclose(found.test_mine, named.test_neg_log_loss)
    np.testing.assert_array_equal(found.test_score, named.test_accuracy)
    assert found.test_balanced.shape == (3,)


OPPOSITE = {"good": "accuracy", "bad": lambda model, Xs, y: -model.score(Xs, y)}


@pytest.mark.parametrize(
    ("name", "scoring"),
    ((METRICS[0], METRICS), *((name, OPPOSITE) for name in OPPOSITE)),
)
def test_the_metric_of_refit_decides(name, scoring, make_views):
    views, y = make_views(noise=3.0)
    several = grid(cv=2, scoring=scoring, refit=name, random_state=0).fit(views, y)
    own = OPPOSITE.get(name, name)
    alone = grid(cv=2, scoring=own, random_state=0).fit(views, y)
    assert several.best_params_ == alone.best_params_
    assert (several.best_score_, several.best_index_) == (alone.best_score_, alone.best_index_)
    for metric in scoring:
        assert several.cv_results_[f"mean_test_{metric}"].shape == (3,)
    assert several.score(views, y) == alone.score(views, y)
    if name == "bad":
        assert alone.best_index_ != grid(cv=2, random_state=0).fit(views, y).best_index_
        return
    rows = np.arange(0, len(y), 2)
    weights = np.isin(np.arange(len(y)), rows).astype(float)
    for search in (several, alone):
        some = search.score(take_rows(views, rows), y[rows])
        assert search.score(views, y, sample_weight=weights) == pytest.approx(some)


def test_trials_maximize_the_metric_of_refit_and_record_all(make_views):
    views, y = make_views(noise=3.0)
    how = {"cv": 3, "scoring": METRICS, "random_state": 0}
    search = optuna(refit="accuracy", **how).fit(views, y)
    for trial in search.study_.trials:
        assert trial.value == trial.user_attrs["mean_test_accuracy"]
        found = cross_validate(PCALogisticRegression(**trial.params), views, y, **how)
        for name in METRICS:
            mean = found[f"test_{name}"].mean()
            assert trial.user_attrs[f"mean_test_{name}"] == pytest.approx(mean)
    best = max(search.study_.trials, key=lambda trial: trial.value)
    assert (search.best_params_, search.best_score_) == (best.params, best.value)
    assert search.n_splits_ == 3
    assert search.score(views, y) == search.best_estimator_.score(views, y)


@pytest.mark.parametrize(
    ("search", "scoring", "refit", "message"),
    (
        (grid, METRICS, True, "refit to be the name of the metric that decides"),
        (optuna, METRICS, True, "refit to be the name of the metric that decides"),
        (grid, METRICS, "f1", "refit to be one of the metrics"),
        (optuna, "accuracy", "accuracy", "refit to be True or False"),
        (optuna, METRICS, False, "refit to name the metric that trials maximize"),
    ),
)
def test_the_metric_that_decides_must_be_clear(search, scoring, refit, message, make_views):
    with pytest.raises(ValueError, match=message):
        search(cv=2, scoring=scoring, refit=refit).fit(*make_views())


@BOTH
def test_without_a_refit_there_is_nothing_to_predict_with(search, make_views):
    views, y = make_views()
    found = search(cv=2, refit=False).fit(views, y)
    assert found.best_params_
    assert not hasattr(found, "best_estimator_")
    with pytest.raises(AttributeError, match="refit=True"):
        found.predict(views)
    if search is grid:
        several = grid(cv=2, scoring=METRICS, refit=False, random_state=0).fit(views, y)
        assert not hasattr(several, "best_params_")
        assert "rank_test_accuracy" in several.cv_results_


@pytest.mark.parametrize("scoring", (None, make_scorer(balanced_accuracy_score)))
def test_scores_are_those_of_fitting_and_scoring_by_hand(make_views, scoring):
    views, y = make_views(noise=3.0)
    keep = np.flatnonzero((y == "ant") | (np.arange(60) % 3 == 0))
    views, y, cv = take_rows(views, keep), y[keep], StratifiedKFold(3)
    found = cross_validate(ConcatenatedLogisticRegression(), views, y, cv=cv, scoring=scoring)
    expected = []
    for train, test in cv.split(keep, y):
        model = ConcatenatedLogisticRegression().fit(take_rows(views, train), y[train])
        score = accuracy_score if scoring is None else balanced_accuracy_score
        expected.append(score(y[test], model.predict(take_rows(views, test))))
    assert found.test_score.tolist() == expected
    assert len(set(expected)) > 1
    assert found.fit_time.shape == found.score_time.shape == (3,)
    assert "estimator" not in found


def test_rows_held_out_never_train_and_all_others_always_do(make_views):
    views, y = make_views()
    more, _ = make_views(seed=1)
    hidden = np.where(np.arange(60) < 20, None, y)
    views["b"][:, 0] = np.arange(60)
    seen, tested = [], []

    class Spy(PCALogisticRegression):
        def fit(self, Xs, y, *, unaligned=None):
            seen.append(Xs["b"][:, 0].tolist())
            assert unaligned["b"] is more["b"]
            known = np.flatnonzero(y != None)  # noqa: E711
            return super().fit(take_rows(Xs, known), y[known].astype(str))

        def score(self, Xs, y):
            tested.append(Xs["b"][:, 0].tolist())
            return super().score(Xs, y)

    how = {"unaligned": {"b": more["b"]}, "cv": 4, "random_state": 0}
    cross_validate(Spy(), views, hidden, **how)
    assert sorted(row for test in tested for row in test) == list(range(20, 60))
    for train, test in zip(seen, tested, strict=True):
        assert sorted(train + test) == list(range(60))


def test_unaligned_labels_alone(make_views, small):
    views, y = make_views()
    more, labels = make_views(seed=1)
    how = {"cv": 2, "random_state": 0, "return_estimator": True}
    for Xs, none, names in ((views, np.full(60, None), "b"), (None, None, "ab")):
        how |= {"unaligned": more, "unaligned_y": dict.fromkeys(names, labels)}
        found = cross_validate(small(max_epochs=40), Xs, none, **how)
        assert found.test_score.min() > 0.8
        for model in found.estimator:
            assert isinstance(model, MultiViewClassifier)
            assert model.score(views, y) > 0.8


def test_lists_of_views_and_the_seed(make_views):
    views, y = make_views(noise=3.0)
    listed = list(views.values())
    first, again, other = (
        cross_validate(ConcatenatedLogisticRegression(), Xs, y, cv=3, random_state=seed).test_score
        for Xs, seed in ((views, 0), (listed, 0), (listed, 1))
    )
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)


def test_the_search_finds_the_best_of_the_grid(make_views):
    views, y = make_views(noise=3.0)
    search, numbers = grid(cv=3, random_state=0).fit(views, y), [1, 3, 7]
    scores = [
        cross_validate(PCALogisticRegression(n), views, y, cv=3, random_state=0).test_score.mean()
        for n in numbers
    ]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], scores)
    assert search.best_score_ == pytest.approx(max(scores))
    assert search.best_index_ == int(np.argmax(scores))
    assert search.best_params_ == {"n_components": numbers[search.best_index_]}
    assert search.cv_results_["param_n_components"].tolist() == numbers
    assert search.n_splits_ == 3


@pytest.mark.parametrize("kind", ("grid", "optuna"))
def test_a_combination_that_fails_is_never_the_best(kind, make_views, small):
    views, y = make_views()
    more, _ = make_views(seed=1)
    couplings, how = ["lscca", "none"], {"cv": 2, "random_state": 3}
    search = GridSearch(small(max_epochs=2), {"coupling": couplings}, **how)
    if kind == "optuna":
        space = {"coupling": CategoricalDistribution(couplings)}
        search = OptunaSearch(small(max_epochs=2), space, n_trials=3, **how)
    with pytest.warns() as record:
        search.fit(views, y, unaligned=more)
    failed = [w for w in record if issubclass(w.category, FitFailedWarning)]
    assert "lscca" in str(failed[0].message)
    assert search.best_params_ == {"coupling": "none"}
    if kind == "optuna":
        assert {trial.state.name for trial in search.study_.trials} == {"COMPLETE", "FAIL"}
    else:
        assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [True, False]


@pytest.mark.parametrize(
    ("run", "error", "message"),
    (
        (lambda *rows: cross_validate(MultiViewEncoder(), *rows), TypeError, "score"),
        (lambda *rows: cross_validate(MultiViewClassifier("x"), *rows), ValueError, "^Expected co"),
        (GridSearch(PCALogisticRegression(), {"n": [1]}).fit, ValueError, "Invalid parameter 'n'"),
    ),
)
def test_errors_of_estimators_are_raised(run, error, message, make_views):
    with pytest.raises(error, match=message):
        run(*make_views())


@pytest.fixture
def visits():
    """Five visits of 24 people who look like nobody else, with a class by chance."""
    random = np.random.default_rng(0)
    person = random.permutation(np.repeat(np.arange(24), 5))
    looks = {name: random.normal(size=(24, 30)) for name in ("a", "b")}
    views = {name: X[person] + 0.1 * random.normal(size=(120, 30)) for name, X in looks.items()}
    return views, random.permutation(np.arange(24) % 2)[person], person


def test_groups_are_not_rewarded_for_knowing_people(visits):
    views, y, person = visits
    how = {"cv": 4, "random_state": 0}
    for search in (grid(**how), optuna(**how)):
        assert search.fit(views, y).best_score_ > 0.9
        assert search.fit(views, y, groups=person).best_score_ < 0.75
    model = PCALogisticRegression(n_components=25)
    for groups, low, high in ((None, 0.9, 1), (person, 0, 0.75)):
        scores = cross_validate(model, views, y, groups=groups, **how).test_score
        assert low <= scores.mean() <= high


def test_frames_with_text_are_split_by_rows_and_encoded_by_their_training_rows():
    random, y = np.random.default_rng(0), np.arange(60) % 2
    sex = np.where(random.random(60) < 0.1, "F", np.where(y > 0, "F", "M"))
    people = pd.DataFrame({"sex": sex, "age": random.normal(size=60)})
    people.loc[[0, 1], "sex"] = "D"  # in one fold only
    views = {"people": people, "scan": random.normal(size=(60, 3))}
    order = {"people": people[["age", "sex"]][2:]}
    with pytest.warns(UserWarning, match="'D' in column 'sex' of view 'people'"):
        scores = cross_validate(
            ConcatenatedLogisticRegression(), views, y, cv=KFold(5), unaligned=order
        )
    assert np.mean(scores["test_score"]) > 0.8
    model = MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    model.set_params(device="cpu")
    search = GridSearch(model, {"encoder_dim": [2, 3]}, cv=2, random_state=0)
    search.fit(views, y, unaligned={"people": people})  # so that all folds know D
    columns = search.best_estimator_.columns_["people"].columns
    assert columns[0].categories == ("D", "F", "M")
    assert search.predict(order).shape == (58,)
