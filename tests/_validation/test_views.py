from collections.abc import Mapping

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hotview._validation import check_target, check_views

X = np.arange(6.0).reshape(3, 2)


class Repeating(Mapping):
    """A mapping that, unlike a dict, gives one key twice."""

    def __getitem__(self, key):
        return X

    def __iter__(self):
        return iter(["age", "age"])

    def __len__(self):
        return 2

    def items(self):
        return [("age", X), ("age", X)]


def test_a_dict_keeps_its_names_and_order():
    assert list(check_views({"genetic": X, "clinical": X})) == ["genetic", "clinical"]


@pytest.mark.parametrize("collection", (list, tuple))
def test_a_sequence_is_numbered(collection):
    assert list(check_views(collection([X, X, X]))) == ["view_0", "view_1", "view_2"]


@pytest.mark.parametrize("dtype", ("f2", "f4", "f8", "i4", "u1", "?"))
def test_a_good_array_passes_through_untouched(dtype):
    view = X.astype(dtype)
    assert check_views([view])["view_0"] is view


def test_the_result_is_a_new_dict():
    views = {"a": X}
    check_views(views)["b"] = X
    assert list(views) == ["a"]


def test_missing_values_are_left_alone():
    holes = np.array([[np.nan, 1.0], [np.inf, 2.0]])
    np.testing.assert_array_equal(check_views([holes])["view_0"], holes)


@pytest.mark.parametrize(
    "view",
    (
        X.tolist(),
        pd.DataFrame(X, columns=["a", "b"]),
        torch.tensor(X),
        torch.tensor(X, requires_grad=True),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        X.view(np.matrix),
    ),
    ids=["lists", "pandas", "tensor", "tensor with gradient", "sparse", "sparse matrix", "matrix"],
)
def test_every_kind_of_table_becomes_the_same_array(view):
    checked = check_views([view])["view_0"]
    assert type(checked) is np.ndarray
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, X)


def test_a_polars_frame_becomes_the_same_array():
    polars = pytest.importorskip("polars", reason="polars is not installed")
    frame = polars.DataFrame({"a": X[:, 0], "b": X[:, 1]})
    np.testing.assert_array_equal(check_views([frame])["view_0"], X)


def test_a_tensor_keeps_its_precision_and_its_memory():
    tensor = torch.zeros(3, 2)
    checked = check_views([tensor])["view_0"]
    assert checked.dtype == np.float32
    assert checked.__array_interface__["data"][0] == tensor.data_ptr()


@pytest.mark.parametrize(
    ("views", "error", "message"),
    (
        (X, TypeError, r"single ndarray.*\[X\]"),
        (pd.DataFrame(X), TypeError, "single DataFrame"),
        (None, TypeError, "single NoneType"),
        ("abc", TypeError, "single str"),
        ((view for view in [X]), TypeError, "single generator"),
        ([], ValueError, "at least one view"),
        ({}, ValueError, "at least one view"),
        ({1: X}, TypeError, r"one is 1 \(int\)"),
        ({"": X}, TypeError, "non-empty string"),
        (Repeating(), ValueError, r"\['age'\] occur more than once"),
        ({"age": X[:, 0]}, ValueError, r"'age' to be 2-D.*\(3,\).*reshape\(-1, 1\)"),
        ({"scan": X.reshape(1, 3, 2)}, ValueError, r"'scan' to be 2-D.*\(1, 3, 2\)"),
        ({"age": X[:0]}, ValueError, r"'age' to have at least one row.*\(0, 2\)"),
        ({"age": X[:, :0]}, ValueError, r"'age' to have at least one column.*\(3, 0\)"),
        ({"age": X.astype(object)}, TypeError, "'age' to hold real numbers.*object"),
        ({"age": X.astype(str)}, TypeError, "'age' to hold real numbers.*<U"),
        ({"age": X + 1j}, TypeError, "'age' to hold real numbers.*complex128.*imaginary part"),
        ({"age": X.astype("M8[s]")}, TypeError, "'age' to hold real numbers.*datetime64"),
        ({"age": None}, TypeError, "'age' to hold real numbers.*It is None: leave"),
        ({"age": [[1, 2], [3]]}, ValueError, "'age' to be a rectangular array"),
        ({"age": np.ma.array(X, mask=X > 3)}, TypeError, r"'age'.*masked.*filled\(np.nan\)"),
        (
            {"age": torch.zeros(3, 2, dtype=torch.bfloat16)},
            ValueError,
            r"'age'.*BFloat16.*\.float\(\)",
        ),
    ),
)
def test_what_cannot_be_views_is_refused_by_name(views, error, message):
    with pytest.raises(error, match=message):
        check_views(views)


def test_text_columns_of_a_frame_are_named():
    frame = pd.DataFrame({"age": [1.0, 2.0], "sex": ["f", "m"], "city": ["A", "B"]})
    with pytest.raises(TypeError, match=r"'clinical'.*not numeric: 'sex', 'city'"):
        check_views({"clinical": frame})


@pytest.mark.parametrize(
    "frame",
    (
        pd.DataFrame({"age": [1.0, 2.0], "smoker": [True, False]}),
        pd.DataFrame({"age": [1.0, 2.0], "smoker": [1, 0]}).astype("Float64"),
        pd.DataFrame({"age": [1, 2], "smoker": [True, False]}).convert_dtypes(),
    ),
    ids=("mixed", "nullable", "nullable and mixed"),
)
def test_frames_of_any_numbers_become_numbers(frame):
    np.testing.assert_array_equal(check_views({"clinical": frame})["clinical"], [[1, 1], [2, 0]])


def test_what_pandas_calls_na_becomes_nan():
    frame = pd.DataFrame({"age": pd.array([1.5, None], dtype="Float64")})
    np.testing.assert_array_equal(check_views({"clinical": frame})["clinical"], [[1.5], [np.nan]])


def test_views_of_different_length_are_only_refused_when_aligned():
    views = {"a": X, "b": X[:2]}
    assert len(check_views(views)["b"]) == 2
    assert len(check_views({"a": X, "b": X}, aligned=True)) == 2
    with pytest.raises(ValueError, match="'a': 3, 'b': 2"):
        check_views(views, aligned=True)


@given(
    hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2)), st.text("aé _0", min_size=1)
)
def test_any_finite_or_holey_table_passes_under_any_name(view, name):
    before = view.copy()
    assert check_views({name: view}, aligned=True)[name] is view
    np.testing.assert_array_equal(view, before)


@pytest.mark.parametrize("name", ("/a", "..", "a/../b", "a\tb", "x" * 1001, "\ud800", "..\\a"))
def test_names_that_no_file_could_hold_are_refused_before_the_work(name):
    with pytest.raises(ValueError, match="one that files can hold"):
        check_views({name: np.ones((2, 2))})
    assert list(check_views({"größe/a..b": np.ones((2, 2))})) == ["größe/a..b"]


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
