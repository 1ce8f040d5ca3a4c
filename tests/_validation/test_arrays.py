import numpy as np
import pandas as pd
import pytest
import torch
from scipy import sparse

from hotview._validation.arrays import as_array

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
