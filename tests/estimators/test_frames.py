import numpy as np
import pandas as pd
import polars as pl
import pytest
from sklearn import config_context

from hotview import MultiViewEncoder
from hotview._validation import Table, check_tables
from hotview.estimators.frames import output_container, wrap_rows

X = np.arange(6, dtype=np.float32).reshape(3, 2)
TABLE = Table(np.zeros((3, 4)))


def test_the_estimators_own_choice_comes_first():
    model = MultiViewEncoder()
    assert output_container(model) == "default"
    with config_context(transform_output="polars"):
        assert output_container(model) == "polars"
        assert output_container(model.set_output(transform="pandas")) == "pandas"
        assert output_container(model.set_output(transform="default")) == "default"


def test_arrays_are_passed_through():
    assert wrap_rows("default", X, ["a", "b"], TABLE) is X


def test_pandas_frames_have_the_index_of_what_came():
    index = pd.Index(["x", "y", "z"], name="who")
    table = check_tables([pd.DataFrame(np.zeros((3, 4)), index=index)])["view_0"]
    frame = wrap_rows("pandas", X, ["a", "b"], table)
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, index=index, columns=["a", "b"]))
    assert np.shares_memory(frame.to_numpy(), X)
    plain = wrap_rows("pandas", X, ["a", "b"], TABLE)
    assert plain.index.tolist() == [0, 1, 2]


def test_polars_frames():
    frame = wrap_rows("polars", X, ["a", "b"], TABLE)
    assert frame.equals(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}))


def test_an_unknown_container_is_refused():
    model = MultiViewEncoder()
    model._sklearn_output_config = {"transform": "arrow"}
    with pytest.raises(ValueError, match="'default', 'pandas', 'polars'"):
        output_container(model)
