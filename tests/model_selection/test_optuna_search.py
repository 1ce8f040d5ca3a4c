import logging
import pickle
import signal
import sys

import numpy as np
import optuna
import pytest
from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
from sklearn.exceptions import FitFailedWarning
from sklearn.model_selection import StratifiedKFold

from hotview.evaluation import PCALogisticRegression
from hotview.model_selection import OptunaSearch

pytestmark = pytest.mark.filterwarnings("ignore:The latents of .* have collapsed:UserWarning")

SPACE = {"n_components": IntDistribution(1, 7)}
NONE = pytest.raises(ValueError, match="none could be fitted")


def values(search):
    return [(trial.params, trial.value) for trial in search.study_.trials]


def test_the_seed_reproduces_the_trials(make_views):
    views, y = make_views(noise=3.0)
    first, again, other, splitter = (
        values(OptunaSearch(PCALogisticRegression(), SPACE, n_trials=12, **how).fit(views, y))
        for how in (
            {"cv": 2, "random_state": 0},
            {"cv": 2, "random_state": 0},
            {"cv": 2, "random_state": 1},
            {"cv": StratifiedKFold(2), "random_state": 0},
        )
    )
    assert first == again
    assert first != other
    assert first[0][0] == splitter[0][0]
    generator = np.random.default_rng(0)
    OptunaSearch(PCALogisticRegression(), SPACE, n_trials=1, random_state=generator).fit(views, y)
    assert generator.random() != np.random.default_rng(0).random()


def test_searching_our_classifier_on_unaligned_views(make_views, small):
    views, y = make_views()
    more, labels = make_views(seed=1)
    hidden = np.where(np.arange(60) < 20, y, None)
    space = {
        "coupling": CategoricalDistribution(["none", "hot-reference"]),
        "learning_rate": FloatDistribution(5e-3, 0.03, log=True),
        "max_epochs": IntDistribution(1, 31, step=30),
    }
    search = OptunaSearch(small(pseudo_labels=False), space, n_trials=3, cv=2, random_state=2)
    search.fit(views, hidden, unaligned=more, unaligned_y={"b": labels})
    assert {type(value) for value in search.best_params_.values()} == {str, float, int}
    assert {trial.params["max_epochs"] for trial in search.study_.trials} == {1, 31}
    assert search.score(views, y) > 0.8
    assert search.transform(views)["a"].shape == (60, 4)
    again = pickle.loads(pickle.dumps(search))
    np.testing.assert_array_equal(again.predict(views), search.predict(views))


def test_a_search_without_any_score_says_so(make_views, small):
    failing = OptunaSearch(small(), {"max_epochs": IntDistribution(-3, -2)}, n_trials=2, cv=2)
    with pytest.warns(FitFailedWarning, match="max_epochs"), NONE:
        failing.fit(*make_views())
    with NONE:  # in time
        OptunaSearch(PCALogisticRegression(), SPACE, timeout=1e-9, cv=2).fit(*make_views())


class PressingKeys:
    """Presses Ctrl-C in the given epoch, counted over all trainings."""

    def __init__(self, when):
        self.when, self.n_epochs = when, 0

    def __sklearn_clone__(self):
        return self

    def __call__(self, epoch):
        self.n_epochs += 1
        if self.n_epochs == self.when:
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, even where the tests were started without it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
@pytest.mark.filterwarnings("ignore:Columns alone tell the class:UserWarning")
@pytest.mark.filterwarnings("ignore:Training was interrupted:UserWarning")
def test_ctrl_c_keeps_what_was_found(make_views, small):
    views, y = make_views()
    model = small(max_epochs=3, callbacks=(press := [PressingKeys(when=14)]))
    space = {"encoder_dim": IntDistribution(2, 8)}
    search = OptunaSearch(model, space, n_trials=10, cv=2, random_state=0)
    with pytest.warns(UserWarning, match="interrupted after 2 of 10 trials"):
        search.fit(views, y)
    # Half a training is no trial, and the last fit is a whole one.
    assert [trial.state.name for trial in search.study_.trials] == ["COMPLETE", "COMPLETE", "FAIL"]
    assert len(search.best_estimator_.history_) == 3
    assert press[0].n_epochs == 14 + 3
    early = small(max_epochs=3, callbacks=[PressingKeys(when=2)])
    with pytest.raises(KeyboardInterrupt):
        OptunaSearch(early, space, cv=2).fit(views, y)


def test_optuna_is_quiet_unless_asked(make_views, caplog):
    logger, before = logging.getLogger("optuna"), optuna.logging.get_verbosity()
    logger.addHandler(caplog.handler)
    try:
        for verbose in (False, True):
            search = OptunaSearch(PCALogisticRegression(), SPACE, n_trials=1, cv=2, verbose=verbose)
            search.fit(*make_views())
            assert ("Trial 0 finished" in caplog.text) is verbose
            assert optuna.logging.get_verbosity() == before
    finally:
        logger.removeHandler(caplog.handler)


@pytest.mark.parametrize(
    ("space", "error", "message"),
    (
        ({}, TypeError, "dict of Optuna's distributions"),
        ({"n_components": [1, 2]}, TypeError, r"\[1, 2\].*IntDistribution\(8, 64\)"),
        (IntDistribution(1, 2), TypeError, "dict of Optuna's distributions"),
        ({"n_parts": IntDistribution(1, 2)}, ValueError, "Invalid parameter 'n_parts'"),
    ),
)
def test_what_is_no_space_is_refused(space, error, message, make_views):
    with pytest.raises(error, match=message):
        OptunaSearch(PCALogisticRegression(), space, cv=2).fit(*make_views())


def test_without_optuna_the_extra_is_named(make_views, monkeypatch):
    monkeypatch.setitem(sys.modules, "optuna.distributions", None)
    with pytest.raises(ImportError, match=r'pip install "hotview\[search\]"'):
        OptunaSearch(PCALogisticRegression(), SPACE).fit(*make_views())
