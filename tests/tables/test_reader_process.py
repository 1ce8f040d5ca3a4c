"""Files that end the process that reads them; tests of formats read without one."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from hotview.datasets import read_views
from hotview.tables import reader_process
from hotview.tables.reader_process import read_in_process

X = np.arange(6.0).reshape(3, 2)


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.setattr(reader_process, "read_in_process", read_in_process)
    cells = np.array([[X, None]], dtype=object)
    cells[0, 1] = scipy.sparse.csc_array(X)
    scipy.io.savemat(tmp_path / "scans.mat", {"A": X.astype(np.float32), "C": cells, "D": 1j * X})
    return tmp_path / "scans.mat"


def test_variables_arrive_as_they_were_stored(path):
    views = read_views(path, variables=["C", "A"])
    assert list(views) == ["C_0", "C_1", "A"]
    assert views["A"].dtype == np.float32
    for view in (views["C_0"], views["C_1"].toarray(), views["A"]):
        np.testing.assert_array_equal(view, X)


def test_a_process_that_is_killed_is_an_error(path, tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    program.write_text("import os; os.abort()")
    monkeypatch.setattr(reader_process, "__file__", str(program))
    with pytest.raises(ValueError, match=r"scans\.mat cannot be read as a MAT-file.*by SIGABRT"):
        read_views(path)


def test_more_memory_than_the_machine_has_is_an_error(path, reader_fork, monkeypatch):
    monkeypatch.setattr(reader_process, "read_in_process", reader_fork)
    monkeypatch.setitem(reader_process.TASKS, "mat", lambda path, names: np.empty(2**50))
    with pytest.raises(MemoryError, match=r"scans\.mat to fit into memory.*Unable to allocate"):
        read_views(path)
