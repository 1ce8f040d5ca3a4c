import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from hotview._types import LazyRows
from hotview._validation import EncodedView, check_tables, encoded_names
from hotview.data.columns import Column, ViewColumns

COLUMNS = ViewColumns((Column("age"), Column("sex", ("F", "M"))), 3)
X = np.array([[61.0, 1, 0], [48.0, 0, 1], [33.0, np.nan, np.nan]])


@pytest.mark.parametrize("data", (X, sparse.csr_array(X)), ids=("array", "sparse"))
def test_an_encoded_view_is_a_table_with_names_whose_numbers_are_not_copied(data):
    view = EncodedView(data, COLUMNS)
    table = check_tables({"a": view})["a"]
    assert table.columns == view.names
    assert table.encoding is COLUMNS
    assert (table.container, table.index) == ("numpy", None)
    if isinstance(data, np.ndarray):
        assert table.data is data
    assert [table.describe_column(j) for j in range(3)] == ["'age'", "'sex = F'", "'sex = M'"]


def test_rows_on_disk_stay_there():
    class Rows(LazyRows):
        def fill(self, block):
            raise AssertionError("read")

    table = check_tables({"a": EncodedView(Rows(X, np.array([0, 3])), COLUMNS)})["a"]
    assert table.is_lazy
    assert table.columns[0] == "age"


def test_where_it_comes_from_is_kept():
    index = pd.Index(["ann", "bob", "eve"])
    view = EncodedView(X, COLUMNS, index, "pandas")
    table = check_tables([view])["view_0"]
    assert table.index is index
    assert table.container == "pandas"
    part = view.take(np.array([2, 0]))
    assert part.index.tolist() == ["eve", "ann"]
    assert part.shape == (2, 3)
    assert len(part) == 2
    np.testing.assert_array_equal(part.X, X[[2, 0]])
    assert EncodedView(X, COLUMNS).take([1]).index is None


def test_numbers_must_be_as_wide_as_the_encoding():
    with pytest.raises(ValueError, match="encoded view 'a' to have 3 columns, but it has 2"):
        check_tables({"a": EncodedView(X[:, :2], COLUMNS)})
    with pytest.raises(TypeError, match="view 'a' to hold real numbers"):
        check_tables({"a": EncodedView(X.astype(str), COLUMNS)})
    assert encoded_names(COLUMNS) == ("age", "sex = F", "sex = M")
    assert encoded_names(ViewColumns(None, 3)) is None
