import numpy as np
import pandas as pd
import pytest
import torch

from hotview._validation import check_target


@pytest.mark.parametrize(
    "y", ([0, 1, 1], ["a", "b", "b"], pd.Series([0.0, 1.0, 1.0]), torch.tensor([0, 1, 1]))
)
def test_labels_are_numbers_or_text(y):
    labels = check_target(y, 3)
    assert type(labels) is np.ndarray
    assert labels.tolist() == list(y if isinstance(y, list) else y.tolist())


def test_labels_are_not_copied():
    y = np.array([0, 1, 1])
    assert check_target(y, 3) is y


@pytest.mark.parametrize(
    ("y", "message"),
    (
        ([0, 1], "each of the 3 rows, but it holds 2"),
        ([[0], [1], [1]], r"1-D.*\(3, 1\).*ravel"),
        (1, r"1-D.*\(\)"),
        ([[0], [1, 2], [3]], "y to be a rectangular array"),
    ),
)
def test_labels_of_the_wrong_shape_are_refused(y, message):
    with pytest.raises(ValueError, match=message):
        check_target(y, 3)


def test_a_masked_target_is_refused():
    with pytest.raises(TypeError, match=r"y to be a plain array.*masked"):
        check_target(np.ma.array([0, 1, 1], mask=[False, True, False]), 3)
