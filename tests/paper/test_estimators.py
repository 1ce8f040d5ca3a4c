import math

import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from paper.cells import Cell
from paper.data import load_dataset, split_dataset
from paper.estimators import fit_arguments, make_estimator, parameters_of, training_rows
from paper.models import DEFAULT, PLAIN, SETTINGS

VARIED = {"device", "random_state", "verbose"}


def cell(task, method, settings="paper", **more):
    return Cell("handwritten", task, method, settings, **more)


@pytest.fixture(scope="module")
def data():
    return split_dataset(cell("unsupervised", "HOT (11)"), None, 0)


def test_the_papers_settings_are_taken_literally():
    given = make_estimator(cell("semi-supervised", "SW (9) + AE"), 3).get_params()
    without = ("coupling__n_references", "coupling__cost_decay")  # which sw-reference has not
    assert {name: given.get(name) for name in SETTINGS if name not in without} == {
        name: value for name, value in SETTINGS.items() if name not in without
    }
    losses = (given["coupling"].name, given["view_regularizer"].name)
    assert losses == ("sw-reference", "autoencoder")
    assert given["head_weight"] == 0
    assert given["random_state"] == 3
    assert given["verbose"] is False


@pytest.mark.parametrize(
    ("task", "kind"), (("semi-supervised", MultiViewClassifier), ("unsupervised", MultiViewEncoder))
)
def test_robust_settings_are_the_estimators_own(task, kind):
    model = make_estimator(cell(task, "no coupling", "robust"), 0)
    assert type(model) is kind
    plain = PLAIN if task == "semi-supervised" else {}
    own = {"preprocessing": "standardize", "alignment_weight": 0.0}
    expected = kind("none", "none", **own, **plain).get_params()
    given = model.get_params()
    assert all(given[name] == expected[name] for name in expected if name not in VARIED)


@pytest.mark.parametrize("settings", ("paper", "robust"))
@pytest.mark.parametrize("without", (None, "pix"))
def test_there_are_three_references_however_many_views(settings, without):
    model = make_estimator(cell("unsupervised", "HOT (11) + AE", settings, without=without), 0)
    assert model.coupling.n_references == 3


@pytest.mark.parametrize("settings", ("paper", "robust"))
def test_rows_of_the_tables_are_plain_networks(settings):
    given = make_estimator(cell("semi-supervised", "HOT (11)", settings), 0).get_params()
    assert (given["pseudo_labels"], given["fusion"], given["n_estimators"]) == (False, "average", 1)
    assert {name: given[name] for name in PLAIN} == dict(PLAIN)
    assert not set(PLAIN) & set(parameters_of(cell("unsupervised", "HOT (11)", "robust")))


def test_our_default_is_as_it_is():
    given = make_estimator(cell("semi-supervised", DEFAULT, "robust"), 0).get_params()
    expected = MultiViewClassifier().get_params()
    assert all(given[name] == expected[name] for name in expected if name not in VARIED)


def test_overrides_come_last():
    changes = (("coupling__orthogonality_weight", math.inf), ("coupling__n_projections", 10))
    given = parameters_of(cell("unsupervised", "HOT (11)", overrides=changes))
    assert given["coupling__orthogonality_weight"] == math.inf
    assert given["coupling__n_projections"] == 10
    changed = cell("semi-supervised", DEFAULT, "robust", overrides=(("coupling", "none"),))
    assert parameters_of(changed) == {"coupling": "none"}


def test_unaligned_rows_stay_shuffled(data):
    given = fit_arguments(cell("unsupervised", "SW (8)"), data)
    assert given["paired"] is False
    np.testing.assert_array_equal(given["Xs"]["pix"][:60], data.linked["pix"])
    np.testing.assert_array_equal(given["Xs"]["pix"][60:], data.unaligned["pix"])
    given = fit_arguments(cell("semi-supervised", "SW (8)"), data)
    assert given["Xs"] is data.linked
    assert given["y"] is data.target
    assert given["unaligned"] is data.unaligned


@pytest.mark.parametrize("method", ("LSCCA", "DGCCA", "AECCA"))
def test_methods_of_individuals_get_the_rest_aligned_and_without_labels(data, method):
    views = load_dataset("handwritten").views
    for task in ("semi-supervised", "unsupervised"):
        given = fit_arguments(cell(task, method), data)
        for name, X in given["Xs"].items():
            np.testing.assert_array_equal(X, views[name][data.split.train])
    assert given["paired"] is True
    y = fit_arguments(cell("semi-supervised", method), data)["y"]
    np.testing.assert_array_equal(y[:60], data.target)
    assert len(y) == 1200
    assert set(y[60:]) == {-1}


def test_training_rows_are_in_the_order_of_their_classes(data):
    digits = load_dataset("handwritten")
    np.testing.assert_array_equal(training_rows(data)["mor"], digits.views["mor"][data.split.train])
    np.testing.assert_array_equal(data.train_target, digits.target[data.split.train])
