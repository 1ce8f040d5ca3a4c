from decimal import Decimal

import anndata as ad
import h5py
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from scipy import sparse

from hotview._validation import check_tables, check_target, check_views
from hotview._validation.containers import (
    StoredRows,
    as_numbers,
    column_names,
    container_of,
    text_columns,
)

X = np.arange(12.0, dtype=np.float32).reshape(6, 2)
SOME = (slice(1, 4), slice(0, None, 2), np.array([4, 0, 4, 5]), np.array([], dtype=np.int64))


class OwnFrame(pd.DataFrame):
    """A frame of somebody else's, as there are many."""


def test_every_container_is_known():
    adata = ad.AnnData(sparse.csr_matrix(X))[1:3]
    for expected, views in {
        "pandas": (pd.DataFrame(X), OwnFrame(X)),
        "polars": (pl.DataFrame(X),),
        "pyarrow": (pa.table({"a": X[:, 0]}),),
        "torch": (torch.zeros(2, 2), torch.nn.Parameter(torch.zeros(2, 2))),
        "anndata": (ad.AnnData(X), adata),
        "numpy": (ad.AnnData(X)[1:3].X, adata.X, X, X.tolist(), sparse.coo_array(X), None),
    }.items():
        assert {container_of(view) for view in views} == {expected}


def people(matrix):
    names = pd.DataFrame(index=[f"cell {i}" for i in range(6)])
    return ad.AnnData(matrix, obs=names, var=pd.DataFrame(index=["CD3", "CD8"]))


@pytest.fixture
def on_disk(tmp_path):
    """AnnData in files, closed in the end."""
    opened = []

    def on_disk(matrix):
        path = tmp_path / f"{len(opened)}.h5ad"
        people(matrix).write_h5ad(path)
        opened.append(ad.read_h5ad(path, backed="r"))
        return opened[-1]

    yield on_disk
    for adata in opened:
        adata.file.close()


@pytest.mark.parametrize("kind", (np.array, sparse.csr_matrix, sparse.csc_matrix, sparse.csr_array))
@pytest.mark.parametrize("backed", (False, True))
def test_an_anndata_is_its_matrix_with_its_names(kind, backed, on_disk):
    adata = on_disk(kind(X)) if backed else people(kind(X))
    table = check_tables({"rna": adata})["rna"]
    assert (table.n_rows, table.n_columns, table.columns) == (6, 2, ("CD3", "CD8"))
    assert table.index.tolist() == [f"cell {i}" for i in range(6)]
    assert table.container == "anndata"
    for rows in SOME:
        np.testing.assert_array_equal(table.rows(rows), X[rows])
    np.testing.assert_array_equal(check_views({"rna": adata})["rna"], X)
    part = check_tables({"rna": adata[[4, 1]]})["rna"]
    np.testing.assert_array_equal(part.rows(slice(None)), X[[4, 1]])
    assert part.index.tolist() == ["cell 4", "cell 1"]
    if not backed and kind is np.array:
        assert np.shares_memory(check_tables([people(X)])["view_0"].data, X)
    if not backed and kind is sparse.csr_matrix:
        assert np.shares_memory(table.data.data, adata.X.data)


@pytest.mark.parametrize("kind", (np.array, sparse.csr_matrix))
@pytest.mark.parametrize(
    "some",
    (slice(None), [4, 0, 5], slice(1, 6, 2), X[:, 0] > 3, ["cell 3", "cell 1"]),
    ids=("all", "numbers", "slice", "mask", "names"),
)
def test_rows_on_disk_are_read_when_they_are_asked_for(kind, some, on_disk):
    adata = on_disk(kind(X))[some]
    table = check_tables([adata])["view_0"]
    assert isinstance(table.data, StoredRows)
    expected = people(X)[some].X
    np.testing.assert_array_equal(table.rows(slice(None)), expected)
    np.testing.assert_array_equal(table.rows(np.array([1, 0, 1])), expected[[1, 0, 1]])
    np.testing.assert_array_equal(check_views([adata])["view_0"], expected)


@pytest.mark.parametrize("kind", (np.array, sparse.csr_matrix, sparse.csc_matrix))
def test_some_genes_on_disk(kind, on_disk):
    some = on_disk(kind(X))[[4, 1], ["CD8"]]
    try:
        table = check_tables([some])["view_0"]
    except TypeError as error:
        if "fancy indexing" not in str(error):
            raise
        pytest.skip("this anndata cannot choose rows and columns of an array on disk")
    assert table.columns == ("CD8",)
    np.testing.assert_array_equal(table.rows(slice(None)), X[[4, 1], 1:])
    turned = check_tables([on_disk(kind(X))[:, ["CD8", "CD3"]]])["view_0"]
    np.testing.assert_array_equal(turned.rows(slice(None)), X[:, ::-1])


def test_a_dataset_of_h5py_is_a_view_too(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["X"], file["text"] = X, ["a", "b"]
        table = check_tables({"a": file["X"]})["a"]
        assert isinstance(table.data, StoredRows)
        np.testing.assert_array_equal(table.rows(np.array([5, 5, 1])), X[[5, 5, 1]])
        with pytest.raises(TypeError, match="'a' to hold real numbers"):
            check_tables({"a": file["text"]})
        with pytest.raises(ValueError, match=r"'a' to be 2-D.*\(2,\)"):
            check_tables({"a": file.create_dataset("flat", data=X[0])})


def test_an_anndata_needs_a_matrix_and_names_that_agree_where_rows_are_aligned():
    empty = ad.AnnData(obs=pd.DataFrame(index=["a", "b"]))
    with pytest.raises(ValueError, match=r"'rna' to be an AnnData with a matrix X.*X_pca"):
        check_tables({"rna": empty})
    turned = people(X)[::-1]
    check_tables({"rna": people(X), "atac": turned})
    with pytest.raises(ValueError, match="row labels of view 'rna' and of view 'atac' differ"):
        check_tables({"rna": people(X), "atac": turned}, aligned=True)


ODD = {"n": [1, None, 3], "flag": [True, None, False], "nothing": [None] * 3}
NUMBERS = [[1, 1, np.nan], [np.nan, np.nan, np.nan], [3, 0, np.nan]]


def in_pandas(columns):
    kinds = {"n": "Int64", "flag": "boolean", "nothing": "Float64"}
    cast = {name: pd.array(columns[name], dtype=kind) for name, kind in kinds.items()}
    return pd.DataFrame({**columns, **cast})


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
def test_decimals_are_numbers_and_small_floats_stay_small(frame):
    view = frame({"price": [Decimal("1.5"), None]})
    np.testing.assert_array_equal(check_views([view])["view_0"], [[1.5], [np.nan]])
    view = frame({"a": np.ones(2, dtype=np.float32), "b": np.zeros(2, dtype=np.float32)})
    assert check_views([view])["view_0"].dtype == np.float32


def test_columns_of_one_name_and_what_has_none():
    twice = pd.DataFrame(np.ones((2, 2)), columns=["a", "a"])
    assert text_columns(twice) == []
    assert text_columns(twice.astype({"a": object})) == ["a", "a"]
    for view in (np.zeros((2, 2)), [[1.0]], None):
        assert column_names(view) == text_columns(view) == []
        assert as_numbers(view) is None


@pytest.mark.parametrize(
    "y", ([0, 1, 1], ["a", "b", "b"], pd.Series([0.0, 1.0, 1.0]), torch.tensor([0, 1, 1]))
)
def test_labels_are_numbers_or_text_and_not_copied(y):
    labels = check_target(y, 3)
    assert type(labels) is np.ndarray
    assert labels.tolist() == list(y if isinstance(y, list) else y.tolist())
    assert check_target(labels, 3) is labels


@pytest.mark.parametrize(
    ("y", "error", "message"),
    (
        ([0, 1], ValueError, "each of the 3 rows, but it holds 2"),
        ([[0], [1], [1]], ValueError, r"1-D.*\(3, 1\).*ravel"),
        (1, ValueError, r"1-D.*\(\)"),
        ([[0], [1, 2], [3]], ValueError, "y to be a rectangular.*inhomogeneous.*same number"),
        (np.ma.array([0, 1, 1], mask=[0, 1, 0]), TypeError, "y to be a plain array.*masked"),
    ),
)
def test_what_cannot_be_labels_is_refused(y, error, message):
    with pytest.raises(error, match=message):
        check_target(y, 3)


@pytest.mark.parametrize("text", ("a\nb", "a\rb"))
def test_a_column_name_of_two_lines_is_refused(text):
    with pytest.raises(ValueError, match="the name of column 1 of view 'v' has a line break"):
        check_tables({"v": pd.DataFrame(X, columns=["a", text])})
