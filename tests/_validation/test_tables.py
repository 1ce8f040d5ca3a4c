import tracemalloc
from collections.abc import Mapping

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from scipy import sparse

from hotview._validation import (
    ViewTable,
    check_aligned_tables,
    check_known_tables,
    check_tables,
    check_views,
)

X = np.arange(6.0).reshape(3, 2)
NAMES = ("clinical", "genetic", "imaging")
SHAPES = {"clinical": (2, ("age", "dose")), "genetic": (2, None), "imaging": (1, None)}


def frame(*columns):
    return pd.DataFrame(X[:, : len(columns)], columns=list(columns))


def test_where_two_views_are_needed_one_table_is_told_at_once():
    expected = r"list of two or more tables.*single DataFrame\. .*scikit-learn has estimators"
    with pytest.raises(TypeError, match=expected) as error:
        check_tables(pd.DataFrame(X), at_least=2)
    assert "[X]" not in str(error.value)
    for views, but in (([X], "got 1\\. Add .*scikit-learn"), ([], "the collection is empty")):
        with pytest.raises(ValueError, match=f"at least 2 views, but {but}"):
            check_tables(views, at_least=2)
    assert list(check_tables([X, X], at_least=2)) == ["view_0", "view_1"]


@pytest.mark.parametrize(
    "kind", (np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.coo_array)
)
def test_rows_are_those_asked_for_whatever_holds_them(kind):
    X = np.arange(12.0).reshape(4, 3)
    table = check_tables({"a": kind(X)})["a"]
    assert (table.n_rows, table.n_columns, table.columns) == (4, 3, None)
    for rows in (slice(1, 3), slice(2, 9), np.array([3, 0, 0]), np.empty(0, dtype=np.int64)):
        part = table.rows(rows)
        assert type(part) is np.ndarray
        np.testing.assert_array_equal(part, X[rows])
    table.rows(np.array([1]))[:] = 7
    assert X.max() == 11
    if kind is not np.asarray:  # a sparse view stays sparse until rows are asked for
        assert table.data.format == "csr"


@pytest.mark.parametrize("dtype", ("f4", "f8", "i4", "u1", "?"))
def test_numbers_are_not_copied(dtype):
    view = X.astype(dtype)
    assert check_tables([view])["view_0"].data is view
    assert check_views((view,))["view_0"] is view
    tensor, table = torch.tensor(view), sparse.csr_matrix(view)
    for data in (check_tables([tensor])["view_0"].data, check_views([tensor])["view_0"]):
        assert data.dtype == view.dtype
        assert data.__array_interface__["data"][0] == tensor.data_ptr()
    assert np.shares_memory(check_tables([table])["view_0"].data.data, table.data)


@pytest.mark.parametrize(
    ("view", "names"),
    (
        (frame("age", "dose"), ("age", "dose")),
        (pl.DataFrame(X, schema=["age", "dose"]), ("age", "dose")),
        (pa.table({"age": X[:, 0], "dose": X[:, 1]}), ("age", "dose")),
        (pd.DataFrame(X), None),
        (pd.DataFrame(X, columns=["age", 1]), None),  # which is no text
    ),
)
def test_a_frame_keeps_the_names_of_its_columns(view, names):
    assert check_tables([view])["view_0"].columns == names


def test_a_table_knows_what_it_came_in():
    people = pd.DataFrame(X, index=["Ada", "Bo", "Cy"])
    views = [people, pl.DataFrame(X), torch.zeros(3, 2), X, sparse.csr_array(X)]
    first, *others = tables = list(check_tables(views).values())
    assert [t.container for t in tables] == ["pandas", "polars", "torch", "numpy", "numpy"]
    assert [t.device for t in tables] == [None, None, torch.device("cpu"), None, None]
    assert list(first.index) == ["Ada", "Bo", "Cy"]
    assert [t.index for t in others] == [None] * 4


def test_views_of_different_length_are_only_refused_when_aligned():
    views = {"a": X, "b": sparse.csr_array(X[:2])}
    assert [table.n_rows for table in check_tables(views).values()] == [3, 2]
    assert len(check_views(views)["b"]) == 2
    for check in (check_tables, check_views):
        with pytest.raises(ValueError, match=r"aligned views.*'a': 3, 'b': 2"):
            check(views, aligned=True)
        assert list(check({"b": X, "a": -X}, aligned=True)) == ["b", "a"]


@pytest.mark.parametrize(
    "views",
    (
        {"imaging": X[:, :1], "clinical": X},
        {"imaging": X[:, :1], "genetic": None, "clinical": X},
        [X, None, X[:, :1]],
        (X, None, X[:, :1]),
    ),
    ids=("missing key", "None in a dict", "None in a list", "None in a tuple"),
)
def test_absent_views_are_left_out_and_the_order_is_that_of_fit(views):
    before = list(views)
    tables = check_known_tables(views, NAMES, SHAPES)
    assert list(tables) == ["clinical", "imaging"]
    assert tables["clinical"].data is X
    assert len(views) == len(before)
    # Names of columns matter only where both sides have them.
    assert check_known_tables({"clinical": frame("age", "dose")}, NAMES, SHAPES)
    assert check_known_tables({"genetic": frame("any", "thing")}, NAMES, SHAPES)


@pytest.mark.parametrize(
    ("views", "error", "message"),
    (
        ({"clinical": X, "x": X, "y": X}, ValueError, r"among \['clinical'.*got \['x', 'y'\]"),
        ({"Clinical": X}, ValueError, r"got \['Clinical'\].*rename"),
        ([X, X], ValueError, r"3 views, as at fit, but got 2.*None"),
        ([X] * 4, ValueError, r"3 views, as at fit, but got 4"),
        ([], ValueError, r"at least one view, .* empty\. Pass \{'clinical': X, …\}"),
        ({}, ValueError, r"at least one of the views \['clinical'.*all are absent"),
        ([None, None, None], ValueError, "all are absent"),
        (X, TypeError, r"single ndarray\. Pass one view of several .* \{'clinical': X\}"),
        (np.zeros((3, 3, 2)), TypeError, r"single ndarray\. Turn a stack of views into list\(X\)"),
        ({"genetic": X[:, :1]}, ValueError, "'genetic' to have 2 columns, as at fit, .* has 1"),
        ({"imaging": sparse.csr_array(X)}, ValueError, "'imaging' to have 1 columns"),
        (
            {"clinical": frame("age", "height")},
            ValueError,
            "column 1 is 'height' instead .* Rename",
        ),
        ({"clinical": frame("dose", "age")}, ValueError, r"another order: pass X\[columns\]"),
    ),
)
def test_what_does_not_fit_the_views_of_fit_is_refused(views, error, message):
    with pytest.raises(error, match=message):
        check_known_tables(views, NAMES, SHAPES)


def frames(*indices):
    indices = [index if index is None else list(index) for index in indices]
    return {f"v{i}": pd.DataFrame(np.eye(3), index=index) for i, index in enumerate(indices)}


def test_row_labels_that_agree_or_say_nothing_are_aligned():
    for indices in (("abc", "abc"), (None, "abc"), (None, None), (None, [7, 8, 9])):
        assert len(check_tables(frames(*indices), aligned=True)) == 2
    tables = check_tables(frames("abc"))
    for y in (pd.Series([0, 1, 2]), [0, 1, 2]):
        assert check_aligned_tables(tables, y) == 3
    with pytest.raises(ValueError, match="row labels of view 'v0' and of y differ"):
        check_aligned_tables(tables, pd.Series([0, 1, 2], index=["c", "b", "a"]))


@pytest.mark.parametrize(
    "indices", (("abc", "cba"), (None, [2, 0, 1]), (None, [1, 2, 3]), (None, range(1, 4)))
)
def test_row_labels_in_another_order_are_not_aligned(indices):
    views = frames(*indices)
    check_tables(views)
    message = r"row labels of view 'v0' and of view 'v1' differ.*X\.loc\[ids\].*reset_index"
    with pytest.raises(ValueError, match=message):
        check_tables(views, aligned=True)


@pytest.mark.parametrize("order", ("C", "F"))
def test_rows_are_taken_in_any_layout_without_copying_the_rest(order):
    X = np.asarray(np.arange(40_000.0).reshape(2000, 20), order=order)
    rows = np.array([7, 3, 1999])
    tracemalloc.start()
    found = ViewTable(X).rows(rows)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    np.testing.assert_array_equal(found, X[rows])
    assert peak < X.nbytes / 10


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


@pytest.mark.parametrize(
    "view",
    (
        X.tolist(),
        frame("a", "b"),
        pl.DataFrame(X),
        torch.tensor(X, requires_grad=True),
        sparse.csr_array(X),
        sparse.coo_matrix(X),
        sparse.lil_matrix(X),
        X.view(np.matrix),
    ),
    ids=lambda view: type(view).__name__,
)
def test_every_kind_of_table_becomes_the_same_array(view):
    checked = check_views([view])["view_0"]
    assert type(checked) is np.ndarray
    assert checked.dtype == np.float64
    np.testing.assert_array_equal(checked, X)


REFUSED = (
    (X, TypeError, r"dict or list of tables, .* single ndarray\. .*name, as in \{'clinical': X"),
    (None, TypeError, "single NoneType"),
    ((view for view in [X]), TypeError, "single generator"),
    ([], ValueError, "at least one view"),
    ({}, ValueError, "at least one view"),
    ({1: X}, TypeError, r"one is 1 \(int\)"),
    ({"": X}, TypeError, "non-empty string"),
    (Repeating(), ValueError, r"\['age'\] occur more than once"),
)
REFUSED_TABLES = (
    (X[:, 0], ValueError, r"to be 2-D.*\(3,\).*reshape\(-1, 1\)"),
    (X.reshape(1, 3, 2), ValueError, r"to be 2-D.*\(1, 3, 2\)"),
    (X[:0], ValueError, r"to have at least one row.*\(0, 2\)"),
    (X[:, :0], ValueError, r"to have at least one column.*\(3, 0\)"),
    (X.astype(object), TypeError, "to hold real numbers.*object"),
    (X + 1j, TypeError, "to hold real numbers.*complex128.*imaginary part"),
    (X.astype("M8[s]"), TypeError, "to hold real numbers.*datetime64"),
    (None, TypeError, "to hold real numbers.*It is None: leave"),
    ([[1, 2], [3]], ValueError, "to be a rectangular array"),
    (np.ma.array(X, mask=X > 3), TypeError, r"masked.*filled\(np.nan\)"),
    (torch.zeros(3, 2, dtype=torch.bfloat16), ValueError, r"BFloat16.*\.float\(\)"),
    (frame("age").assign(sex="f", city="A"), TypeError, "not numeric: 'sex', 'city'"),
    (sparse.csr_array(X + 1j), TypeError, "to hold real numbers.*complex128"),
    (sparse.csr_array((3, 0)), ValueError, r"to have at least one column.*\(3, 0\)"),
    (sparse.csr_array((0, 2)), ValueError, r"to have at least one row.*\(0, 2\)"),
)


@pytest.mark.parametrize(("views", "error", "message"), REFUSED)
def test_what_cannot_be_views_is_refused(views, error, message):
    with pytest.raises(error, match=message):
        check_views(views)


@pytest.mark.parametrize(("view", "error", "message"), REFUSED_TABLES)
@pytest.mark.parametrize("check", (check_tables, check_views))
def test_what_cannot_be_a_table_is_refused_by_name(check, view, error, message):
    with pytest.raises(error, match=f"'age'.*{message}"):
        check({"good": X, "age": view})


@pytest.mark.skipif(sparse.coo_array(X[0]).ndim == 2, reason="scipy makes it 2-D")
def test_a_sparse_row_is_refused():
    with pytest.raises(ValueError, match=r"'a' to be 2-D.*\(2,\)"):
        check_tables({"a": sparse.coo_array(X[0])})


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
    frame.loc[0, "age"] = None
    found = check_views({"clinical": frame})["clinical"]
    np.testing.assert_array_equal(found, [[np.nan, 1], [2, 0]])


ARRAYS = hnp.arrays(np.float64, hnp.array_shapes(min_dims=2, max_dims=2))


@given(ARRAYS, st.text("aé _0", min_size=1))
def test_any_finite_or_holey_table_passes_under_any_name(view, name):
    before = view.copy()
    assert check_views({name: view}, aligned=True)[name] is view
    np.testing.assert_array_equal(view, before)


@pytest.mark.parametrize("name", ("/a", "..", "a/../b", "a\tb", "x" * 1001, "\ud800", "..\\a"))
def test_names_that_no_file_could_hold_are_refused_before_the_work(name):
    with pytest.raises(ValueError, match="one that files can hold"):
        check_views({name: np.ones((2, 2))})
    assert list(check_views({"größe/a..b": np.ones((2, 2))})) == ["größe/a..b"]
