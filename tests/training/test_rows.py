import tracemalloc

import numpy as np
import pytest
import torch
from scipy import sparse

from hotview._validation import ViewTable
from hotview.training.column_scaler import ColumnScaler
from hotview.training.rows import ViewRows

CPU = torch.device("cpu")
AS_THEY_ARE = ColumnScaler(np.zeros(2), np.ones(2), None)


def numbered(n, start=0):
    """Rows whose entries say which they are."""
    return (np.arange(start, start + n)[:, None] * [1.0, 10.0]).astype(np.float32)


def make(present=None, kind=np.asarray):
    tables = [
        ViewTable(kind(numbered(5))),
        ViewTable(kind(numbered(4, 100))),
        ViewTable(kind(numbered(6, 200))),
    ]
    return ViewRows(tables, AS_THEY_ARE, CPU, present)


@pytest.mark.parametrize("kind", (np.asarray, sparse.csr_array))
def test_tables_are_numbered_through(kind):
    rows = make(kind=kind)
    assert rows.n_rows == 15
    assert rows.n_columns == 2
    expected = [*range(5), *range(100, 104), *range(200, 206)]
    assert rows.take(np.arange(15))[:, 0].tolist() == expected
    order = np.random.default_rng(0).permutation(15)
    taken = rows.take(order)
    assert taken[:, 0].tolist() == [expected[i] for i in order]
    assert taken[:, 1].tolist() == [10 * expected[i] for i in order]
    assert taken.dtype == torch.float32
    assert rows.take(np.array([], dtype=np.int64)).shape == (0, 2)
    assert rows.part(3, 11)[:, 0].tolist() == expected[3:11]


@pytest.mark.parametrize("kind", (np.asarray, sparse.csr_array))
def test_absent_rows_have_no_number(kind):
    rows = make([np.array([1, 4]), np.array([], dtype=np.int64), np.arange(6)], kind)
    expected = [1, 4, *range(200, 206)]
    assert rows.n_rows == 8
    order = np.array([7, 0, 3, 1, 1, 2])
    assert rows.take(order)[:, 0].tolist() == [expected[i] for i in order]
    assert rows.part(0, 8)[:, 0].tolist() == expected


@pytest.mark.parametrize("order", ([4, 0, 2, 1, 3], [0, 0, 1, 1, 2]))
def test_chosen_rows_keep_their_order_also_when_they_are_as_many_as_there_are(order):
    rows = ViewRows([ViewTable(numbered(5))], AS_THEY_ARE, CPU, [np.array(order)])
    assert rows.take(np.arange(5))[:, 0].tolist() == order


@pytest.mark.parametrize("often", (False, True))
@pytest.mark.parametrize("present", (None, [np.array([4, 0, 2])]))
def test_a_part_is_what_its_numbers_take(present, often):
    rows = ViewRows([ViewTable(numbered(5))], AS_THEY_ARE, CPU, present, often=often)
    for start, stop in ((0, 2), (1, 3), (2, 100)):
        numbers = np.arange(start, min(stop, rows.n_rows))
        torch.testing.assert_close(rows.part(start, stop), rows.take(numbers), rtol=0, atol=0)


def test_taking_rows_changes_nothing_and_copies_only_them():
    X = np.ones((100_000, 20), dtype=np.float32)  # 8 MB
    tables = [ViewTable(X), ViewTable(X[:1000])]
    X.flags.writeable = False
    columns = ColumnScaler(np.ones(20), np.full(20, 2.0), None)
    tracemalloc.start()
    rows = ViewRows(tables, columns, CPU)
    taken = rows.take(np.arange(0, 100_100, 1001))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert rows.tables[0].data is X
    assert torch.equal(taken, torch.zeros(100, 20))
    assert peak < 100_000  # a batch is 8 kB, and rows that are all there are not counted


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_an_accelerator_gets_all_rows_at_once():
    tables = [ViewTable(numbered(5)), ViewTable(numbered(4, 100))]
    rows = ViewRows(tables, AS_THEY_ARE, torch.device("cuda"), [np.array([1, 4]), np.arange(4)])
    taken = rows.take(np.array([3, 0]))
    assert taken.device.type == "cuda"
    assert taken[:, 0].tolist() == [101, 1]


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_an_accelerator_does_not_keep_rows_that_are_taken_once():
    X = numbered(5)
    rows = ViewRows([ViewTable(X)], AS_THEY_ARE, torch.device("cuda"), once=True)
    assert rows.ready is None
    np.testing.assert_array_equal(rows.part(1, 4).cpu(), X[1:4])
