import numpy as np
import pytest

from hotview.estimators.view_columns import as_slice, resolve_views

NAMES = np.array(["age", "sex", "bmi", "gene_1", "gene_2"], dtype=object)


def resolved(slices, n=5, names=None):
    return {view: columns.tolist() for view, columns in resolve_views(slices, n, names).items()}


@pytest.mark.parametrize(
    ("slices", "expected"),
    (
        ({"a": slice(0, 2), "b": slice(2, None)}, {"a": [0, 1], "b": [2, 3, 4]}),
        ({"a": slice(None, -2), "b": slice(-2, 5)}, {"a": [0, 1, 2], "b": [3, 4]}),
        ({"a": slice(0, 5, 2), "b": slice(1, 5, 2)}, {"a": [0, 2, 4], "b": [1, 3]}),
        ([[4, 0], [1]], {"view_0": [4, 0], "view_1": [1]}),
        ((np.array([0, 1]), range(2, 4)), {"view_0": [0, 1], "view_1": [2, 3]}),
        ({"a": [-1], "b": [0]}, {"a": [4], "b": [0]}),
        ({"a": ["bmi", "age"], "b": slice(3, None)}, {"a": [2, 0], "b": [3, 4]}),
        ({"a": NAMES[:2], "b": tuple(NAMES[3:])}, {"a": [0, 1], "b": [3, 4]}),
    ),
)
def test_columns_are_found_by_slice_number_and_name(slices, expected):
    assert resolved(slices, names=NAMES) == expected


@pytest.mark.parametrize(
    ("slices", "message"),
    (
        (None, "view_slices to be a dict or list.*it is None.*slice"),
        ("age", "view_slices to be a dict or list"),
        (slice(0, 3), "view_slices to be a dict or list"),
        ({}, "at least two views, but it holds 0"),
        ({"a": slice(0, 5)}, "at least two views, but it holds 1"),
        ({"a": [0, 1], "b": [1, 2]}, "column 1 is in 'a' and again in 'b'"),
        ({"a": slice(0, 3), "b": [4, 2]}, "column 2 is in 'a' and again in 'b'"),
        ({"a": [0, 0], "b": [1]}, "column 0 is in 'a' and again in 'a'"),
        ({"a": [0, -5], "b": [1]}, "column 0 is in 'a' and again in 'a'"),
        ({"a": [0], "b": [5]}, r"\['b'\] to stay within.*n_features = 5, but it names 5"),
        ({"a": [0], "b": [-6]}, "it names -6"),
        ({"a": slice(0, 2), "b": slice(2, 6)}, "it names 6"),
        ({"a": slice(0, 2), "b": slice(7, None)}, "it names 7"),
        ({"a": slice(0, 5), "b": slice(5, None)}, "'b' to have at least one.*n_features = 5"),
        ({"a": slice(0, 5), "b": slice(3, 3)}, "'b' to have at least one column"),
        ({"a": [], "b": [1]}, "'a' to have at least one column"),
        ({"a": ["age", "size"], "b": ["sex"]}, "none named 'size'.*'age', 'sex', 'bmi'"),
        ({"a": [3.0], "b": [1]}, r"\['a'\] to be a slice or a list.*\[3.0\]"),
        ({"a": "age", "b": [1]}, r"\['a'\] to be a slice or a list.*Write \['age'\]"),
        ({"a": 2, "b": [1]}, r"\['a'\] to be a slice or a list.*Write \[2\]"),
        ({"a": [True, False], "b": [1]}, r"\['a'\] to be a slice or a list"),
        ({"a": slice("age", "sex"), "b": [4]}, "slice of column numbers.*one by one"),
        ({"a": ["age", 4], "b": [1]}, "none named"),
    ),
)
def test_what_makes_no_views_is_refused(slices, message):
    with pytest.raises(ValueError, match=message):
        resolve_views(slices, 5, NAMES)


def test_names_need_a_table_that_has_them():
    with pytest.raises(ValueError, match=r"X to be a data frame.*has no names"):
        resolve_views({"a": ["age"], "b": ["sex"]}, 5, None)


@pytest.mark.parametrize(
    ("columns", "expected"), (([2, 3, 4], slice(2, 5)), ([0], slice(0, 1)), ([1, 3], [1, 3]))
)
def test_columns_that_follow_each_other_are_not_copied(columns, expected):
    X = np.arange(10.0).reshape(2, 5)
    found = as_slice(np.array(columns))
    assert found == expected if isinstance(expected, slice) else found.tolist() == expected
    np.testing.assert_array_equal(X[:, found], X[:, columns])
    assert np.shares_memory(X[:, found], X) == isinstance(expected, slice)
