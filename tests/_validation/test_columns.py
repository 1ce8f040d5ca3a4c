from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from hotview._validation import check_views
from hotview._validation.columns import as_numbers, column_names, text_columns

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
