import math

import numpy as np
import pytest
from scipy.stats import binomtest
from sklearn.metrics import (
    accuracy_score,
    balanced_accuracy_score,
    confusion_matrix,
    f1_score,
    log_loss,
)

from hotview.evaluation import assess, expected_calibration_error
from hotview.evaluation.metrics import accuracy_with_interval, compare_accuracies


def test_probabilities_from_which_labels_are_drawn_are_calibrated():
    random = np.random.default_rng(0)
    P = random.dirichlet([0.5, 0.5, 0.5], size=20_000)
    y = (random.random((20_000, 1)) > P.cumsum(axis=1)).sum(axis=1)
    assert expected_calibration_error(P, y, [0, 1, 2]) < 0.01
    sharper = P**3 / (P**3).sum(axis=1, keepdims=True)
    assert expected_calibration_error(sharper, y, [0, 1, 2]) > 0.1


def test_it_is_the_mean_gap_of_the_bins():
    P = np.array([[0.9, 0.1], [0.9, 0.1], [0.4, 0.6], [0.4, 0.6]])
    y = np.array(["a", "b", "b", "b"])
    assert expected_calibration_error(P, y, ["a", "b"]) == pytest.approx((0.4 + 0.4) / 2)


def test_classes_that_no_column_has_are_missed():
    P = np.array([[1.0, 0.0]] * 4)
    assert expected_calibration_error(P, [2, 2, 2, 2], [0, 1]) == 1.0


def test_columns_must_fit_the_classes():
    with pytest.raises(ValueError, match="2 probabilities"):
        expected_calibration_error(np.ones((3, 4)) / 4, [0, 1, 0], [0, 1])


@pytest.mark.parametrize(("k", "n"), ((0, 1), (0, 20), (7, 20), (20, 20), (387, 400)))
def test_the_interval_of_a_share_is_scipys(k, n):
    found = accuracy_with_interval([True] * k + [False] * (n - k))
    truth = binomtest(k, n).proportion_ci(method="wilson")
    assert (found.value, found.n) == (k / n, n)
    assert (found.low, found.high) == pytest.approx((truth.low, truth.high))


def test_a_difference_is_that_of_pairs():
    random = np.random.default_rng(0)
    a, b = random.random(200) < 0.8, random.random(200) < 0.6
    found = compare_accuracies(a, b)
    d = a.astype(float) - b
    assert found.value == pytest.approx(d.mean())
    assert found.error == pytest.approx(d.std(ddof=1) / math.sqrt(200))
    assert found.low < found.value < found.high
    assert found.high - found.low == pytest.approx(2 * 1.96 * found.error, rel=0.03)
    back = compare_accuracies(b, a)
    assert (back.value, back.low) == pytest.approx((-found.value, -found.high))


def test_agreement_about_every_row_is_no_certainty():
    found = compare_accuracies([True] * 30, [True] * 30)
    assert found.value == found.error == 0
    assert found.low < 0 < found.high
    few = compare_accuracies([True] * 3, [True] * 3)
    assert few.high > found.high


def test_one_row_has_no_error():
    assert math.isnan(compare_accuracies([True], [False]).error)


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


def test_an_unknown_class_counts_as_an_error():
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
