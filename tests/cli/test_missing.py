import numpy as np
import pytest
from scipy import sparse

from hotview.cli.missing import check_cells, count_missing
from hotview.ingest.columns import Column, ViewColumns
from hotview.ingest.preprocessing import AlignedRows, Preprocessing
from hotview.training.process_group import ProcessGroup

COLUMNS = ViewColumns((Column("iron"), Column("sex", ("F", "M"))), 3)
NAN = np.nan


def people(X):
    ids = np.array([f"p{i}" for i in range(len(X))], dtype=object)
    return AlignedRows(ids, {"blood": X}, True, {"blood": np.ones(len(X), dtype=bool)})


def test_missing_cells_have_the_names_of_their_columns():
    X = np.array([[NAN, 1, 0], [NAN, NAN, NAN], [2.0, NAN, NAN]])
    assert count_missing(X, COLUMNS) == {"iron": 1, "sex": 1}
    assert count_missing(X, ViewColumns(None, 3)) == {"column 1": 1, "column 2": 1, "column 3": 1}
    assert count_missing(sparse.csr_array(np.eye(3)), COLUMNS) == {}


def test_several_processes_count_in_their_own_rows_and_add_up():
    class Ours(ProcessGroup):
        def collect(self, array):
            sent.append(array)
            return sent

    X, sent = np.full((5, 3), NAN), []
    X[:, 1:] = 1.0
    looked_at = []

    class Watched:
        shape = X.shape

        def __getitem__(self, rows):
            looked_at.append((rows.start, rows.stop))
            return X[rows]

    count_missing(Watched(), COLUMNS, Ours(0, 2))
    assert count_missing(Watched(), COLUMNS, Ours(1, 2)) == {"iron": 5}
    assert looked_at == [(0, 2), (2, 5)]


def test_missing_cells_are_refused_unless_something_fills_them():
    X = np.array([[NAN, 1, 0], [2.0, 0, 1]])
    recipe = Preprocessing({"blood": COLUMNS})
    with pytest.raises(ValueError, match=r"view 'blood' are missing, in 'iron'. .*--impute mean"):
        check_cells(people(X), recipe, None)
    check_cells(people(X), recipe, "mean")


def test_people_of_whom_nothing_is_known_are_named():
    X = np.array([[1.0, 1, 0], [NAN, NAN, NAN]])
    with pytest.raises(ValueError, match=r"Nothing is known of 1 of 2: 'p1'"):
        check_cells(people(X), Preprocessing({"blood": COLUMNS}), "mean")
