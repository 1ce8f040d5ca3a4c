import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
)

from hotview.evaluation import assess, expected_calibration_error


@pytest.mark.parametrize("names", (np.array([3, 5, 9]), np.array(["a", "b", "c"])))
def test_numbers_are_scikit_learns(names):
    rng = np.random.default_rng(0)
    P = rng.dirichlet(np.ones(3), size=50)
    y = names[rng.integers(0, 3, 50)]
    predicted, found = names[P.argmax(axis=1)], assess(y, P, names)
    assert found.accuracy.value == accuracy_score(y, predicted)
    assert found.accuracy.low < found.accuracy.value < found.accuracy.high
    np.testing.assert_allclose(found.balanced_accuracy, balanced_accuracy_score(y, predicted))
    np.testing.assert_allclose(found.macro_f1, f1_score(y, predicted, average="macro"))
    np.testing.assert_allclose(found.log_loss, log_loss(y, P, labels=names))
    np.testing.assert_array_equal(found.confusion, confusion_matrix(y, predicted, labels=names))
    assert found.calibration_error == expected_calibration_error(P, y, names)


def test_a_class_that_is_not_known_is_always_missed():
    found = assess(["a", "z"], [[0.9, 0.1], [0.2, 0.8]], ["a", "b"])
    assert found.accuracy.value == 0.5
    assert found.classes == ["a", "b", "z"]
    assert found.confusion == [[1, 0, 0], [0, 0, 0], [0, 1, 0]]
    assert found.log_loss is None


def test_classes_that_do_not_occur_do_not_count():
    found = assess(["a", "a"], [[0.9, 0.1], [0.8, 0.2]], ["a", "b"])
    assert found.balanced_accuracy == found.macro_f1 == 1.0


def test_json_can_hold_it():
    import json

    facts = assess([1, 0], [[0.9, 0.1], [0.2, 0.8]], np.array([0, 1])).to_json()
    assert json.loads(json.dumps(facts)) == facts
