from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from hotview._validation import check_views
from hotview._validation.columns import as_array, as_numbers, column_names, text_columns

ODD = {"n": [1, None, 3], "flag": [True, None, False], "nothing": [None] * 3}
NUMBERS = [[1, 1, np.nan], [np.nan, np.nan, np.nan], [3, 0, np.nan]]


def in_pandas(columns):
    kinds = {"n": "Int64", "flag": "boolean", "nothing": "Float64"}
    return pd.DataFrame(
        {k: pd.array(v, dtype=kinds[k]) if k in kinds else v for k, v in columns.items()}
    )


FRAMES = pytest.mark.parametrize("frame", (in_pandas, pl.DataFrame, pa.table))


@FRAMES
def test_missing_and_boolean_values_become_numbers(frame):
    view = frame(ODD)
    assert column_names(view) == list(ODD)
    assert text_columns(view) == []
    np.testing.assert_array_equal(as_numbers(view), NUMBERS)
    np.testing.assert_array_equal(check_views({"a": view})["a"], NUMBERS)


@FRAMES
def test_text_is_named_and_never_turned_into_numbers(frame):
    view = frame({**ODD, "sex": ["f", "m", None], "born": ["1961", "1972", "1985"]})
    assert text_columns(view) == ["sex", "born"]
    assert as_numbers(view) is None
    with pytest.raises(TypeError, match=r"'a' to hold real numbers.*not numeric: 'sex', 'born'"):
        check_views({"a": view})


@pytest.mark.parametrize("frame", (pl.DataFrame, pa.table))
def test_decimals_are_numbers(frame):
    view = frame({"price": [Decimal("1.5"), None]})
    np.testing.assert_array_equal(check_views([view])["view_0"], [[1.5], [np.nan]])


def test_columns_of_one_name():
    twice = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    assert text_columns(twice) == []
    assert text_columns(twice.astype({"a": object})) == ["a", "a"]


@pytest.mark.parametrize("frame", (pl.DataFrame, pa.table))
def test_small_floats_stay_small(frame):
    view = frame({"a": np.ones(2, dtype=np.float32), "b": np.zeros(2, dtype=np.float32)})
    assert check_views([view])["view_0"].dtype == np.float32


def test_what_is_no_frame_has_no_columns():
    for view in (np.zeros((2, 2)), [[1.0]], None):
        assert column_names(view) == text_columns(view) == []
        assert as_numbers(view) is None


X = np.arange(6.0).reshape(3, 2)


@pytest.mark.parametrize(
    "values",
    (
        X.tolist(),
        pd.DataFrame(X),
        torch.tensor(X, requires_grad=True),
        sparse.csc_array(X),
        sparse.lil_matrix(X),
    ),
    ids=("lists", "pandas", "tensor", "sparse array", "sparse matrix"),
)
def test_whatever_looks_like_an_array_becomes_one(values):
    found = as_array("X", values)
    assert type(found) is np.ndarray
    np.testing.assert_array_equal(found, X)


@pytest.mark.parametrize("values", (X, X[:, ::-1], torch.tensor(X), pd.DataFrame(X)))
def test_the_memory_is_shared_where_numpy_can(values):
    memory = values if isinstance(values, np.ndarray) else np.asarray(values)
    assert np.shares_memory(as_array("X", values), memory)


def test_a_masked_array_is_refused_because_its_mask_would_be_lost():
    with pytest.raises(TypeError, match=r"view 'a' to be a plain array.*X\.filled\(np\.nan\)"):
        as_array("view 'a'", np.ma.array(X))


def test_rows_of_different_length_are_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"y to be a rectangular.*inhomogeneous.*same number"):
        as_array("y", [[1.0], [1.0, 2.0]])


def test_a_type_that_numpy_does_not_know_is_refused_with_the_reason():
    with pytest.raises(ValueError, match=r"y to be a rectangular.*BFloat16"):
        as_array("y", torch.zeros(3, dtype=torch.bfloat16))
