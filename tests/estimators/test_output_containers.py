import anndata as ad
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse
from sklearn import config_context

from hotview import MultiViewEncoder
from hotview._validation import ViewTable, check_tables
from hotview.estimators.output_containers import output_container, wrap_rows

X = np.arange(6, dtype=np.float32).reshape(3, 2)
TABLE = ViewTable(np.zeros((3, 4)))


def test_the_estimators_own_choice_comes_first():
    model = MultiViewEncoder()
    assert output_container(model) == "default"
    with config_context(transform_output="polars"):
        assert output_container(model) == "polars"
        assert output_container(model.set_output(transform="pandas")) == "pandas"
        assert output_container(model.set_output(transform="default")) == "default"


@pytest.mark.parametrize(
    "view", (np.zeros((3, 4)), [[0.0]] * 3, sparse.csr_array((3, 4)), sparse.coo_matrix((3, 4)))
)
def test_arrays_are_passed_through(view):
    assert wrap_rows("default", X, ["a", "b"], check_tables([view])["view_0"]) is X


@pytest.mark.parametrize(
    "view", (pd.DataFrame(np.zeros((3, 1)), index=["x", "y", "z"]), ad.AnnData(np.zeros((3, 1))))
)
def test_by_default_frames_and_cells_give_frames_with_their_names(view):
    table = check_tables([view])["view_0"]
    frame = wrap_rows("default", X, ["a", "b"], table)
    index = view.index if isinstance(view, pd.DataFrame) else view.obs_names
    pd.testing.assert_frame_equal(frame, pd.DataFrame(X, index=index, columns=["a", "b"]))
    assert isinstance(wrap_rows("polars", X, ["a", "b"], table), pl.DataFrame)


def test_by_default_polars_arrow_and_torch_give_their_own():
    views = (pl.DataFrame(X), pa.table({"c": X[:, 0]}), torch.from_numpy(X).requires_grad_())
    of_polars, of_arrow, of_torch = (
        wrap_rows("default", X, ["a", "b"], table) for table in check_tables(views).values()
    )
    assert of_polars.equals(pl.DataFrame({"a": X[:, 0], "b": X[:, 1]}))
    assert of_arrow.equals(pa.table({"a": X[:, 0], "b": X[:, 1]}))
    assert torch.equal(of_torch, torch.from_numpy(X))
    assert not of_torch.requires_grad


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs CUDA")
def test_tensors_go_back_to_their_device():
    table = check_tables([torch.zeros(3, 4, device="cuda")])["view_0"]
    assert wrap_rows("default", X, ["a", "b"], table).device.type == "cuda"


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
