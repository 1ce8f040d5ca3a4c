import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.cli.fitting import fit_study, make_estimator
from hotview.cli.running import UsageError
from hotview.datasets.people.study import Files, read_study


@pytest.fixture
def labeled(files):
    return read_study(Files([str(f) for f in files[:2]], str(files[3]), "state", "id"))


@pytest.fixture
def unlabeled(files):
    return read_study(Files([str(f) for f in files[:2]], id_column="id"))


def test_labels_make_a_classifier(labeled, unlabeled):
    assert type(make_estimator(labeled, {})) is MultiViewClassifier
    assert type(make_estimator(unlabeled, {})) is MultiViewEncoder


def test_flags_that_were_not_given_leave_the_default(labeled):
    flags = {"entropy": 0.5, "max_epochs": None, "hidden": "16,8", "views": ["a"], "force": True}
    given = make_estimator(labeled, flags).get_params()
    expected = {**MultiViewClassifier().get_params(), "entropy": 0.5, "hidden": (16, 8)}
    expected["unlabeled_marker"] = None  # a study has None for no label, and nothing else
    assert {**given, "verbose": "auto"} == expected


def test_no_hidden_layer_is_0(labeled):
    assert make_estimator(labeled, {"hidden": "0"}).hidden == ()


def test_flags_of_classifiers_need_labels(unlabeled):
    with pytest.raises(UsageError, match="--validation-fraction is for classifiers"):
        make_estimator(unlabeled, {"validation_fraction": 0.2})


def test_a_study_is_fitted_as_python_would(labeled):
    how = {"max_epochs": 1, "n_replicas": 2, "hidden": (4,), "random_state": 0}
    ours, theirs = MultiViewClassifier(**how), MultiViewClassifier(**how)
    fit_study(ours, labeled)
    theirs.fit(labeled.linked, labeled.target, unaligned=labeled.unaligned)
    np.testing.assert_array_equal(
        ours.predict_proba(labeled.linked), theirs.predict_proba(labeled.linked)
    )
