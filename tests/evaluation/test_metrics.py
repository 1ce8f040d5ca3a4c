"""How far probabilities can be believed."""

import numpy as np
import pytest

from hotview.evaluation import expected_calibration_error


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
