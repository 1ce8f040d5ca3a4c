"""Rows taken and streamed to a device, as by `ColumnScaler` and `check_finite` on the CPU."""

import re
import tracemalloc
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
import torch
from scipy import sparse

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview._validation import ViewTable
from hotview.datasets import make_views
from hotview.preprocessing import row_stream
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.pca import fit_components
from hotview.preprocessing.row_stream import RawRows, check_rows, map_rows
from hotview.preprocessing.rows import ViewRows
from hotview.preprocessing.table_scan import EXTREME, check_finite
from tests.training.small_training import Lazy

CPU = torch.device("cpu")
DEVICES = [CPU] + [torch.device("cuda")] * torch.cuda.is_available()
ON_DEVICES = pytest.mark.parametrize("device", DEVICES, ids=str)
N, D, CHUNK = 40, 6, 7
SCALER = ColumnScaler(
    np.array([0.1, 1e6 + 0.3, -7.0, 0.0, 3e-5, 1.0]),
    np.array([1.0, 3.0, 1 / 3, 1.0, 1e-5, 7.0]),
    None,
)
IMPUTING = replace(SCALER, fill=SCALER.mean, impute="mean")
MARKING = replace(
    IMPUTING,
    mean=np.append(SCALER.mean, [0.1, 1 / 3]),
    scale=np.append(SCALER.scale, [0.3, 2**0.5 / 3]),
    impute="mean+indicator",
    indicators=np.array([1, 5]),
)
PLAIN = ColumnScaler(np.zeros(2), np.ones(2), None)


@pytest.fixture
def streamed(monkeypatch):
    """Rows are streamed to the CPU as they are to a GPU, in small chunks."""
    monkeypatch.setattr(row_stream, "_STREAMED", {"cpu": 0, "cuda": 0})
    for device in ("cpu", "cuda"):
        monkeypatch.setitem(row_stream._CHUNK, device, CHUNK)


def make_rows(dtype="f8", n=N, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, D)) * 10 * SCALER.scale + SCALER.mean
    is_narrow = dtype == "f2" or np.dtype(dtype).kind in "biu"
    return (abs(X) % 100 if is_narrow else X).astype(dtype)


def with_holes(X, *, entries):
    X = X.copy()
    X[[0, 12, 39]] = np.nan
    if entries:
        X[[3, 20, 38], [0, 1, 5]] = np.nan
    return X


def wide(scaler):
    X = make_rows()
    if scaler.indicators is not None:  # of which no component may be 0 but for rounding
        X[[3, 20, 38], [1, 1, 5]] = np.nan
    return fit_components(scaler, X, CPU)


def as_view(X, scaler=SCALER, *, device=CPU, name="age", impute=None):
    table = ViewTable(X)
    view = ViewRows([table], scaler, device, once=True)
    check_rows(view, partial(check_finite, name, table, impute, scaler))
    return view


def fail(Xs):
    raise RuntimeError("a number that is too large")


def take(views):
    """All rows of all views, side by side."""
    return map_rows(lambda Xs: torch.hstack([Xs[s] for s in views]), views)


def assert_same_bits(found, expected):
    found, expected = np.asarray(found), np.asarray(expected)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(np.isnan(found), np.isnan(expected))
    known = ~np.isnan(expected)
    np.testing.assert_array_equal(found[known].view("i4"), expected[known].view("i4"))


@ON_DEVICES
@pytest.mark.parametrize("dtype", ("f8", "f2", ">f4", "g", "i8", "?"))
def test_rows_are_standardized_as_on_the_cpu(dtype, device, streamed):
    X = make_rows(dtype)
    view = as_view(X, device=device)
    assert_same_bits(take({0: view}), SCALER.transform(X))


@ON_DEVICES
@pytest.mark.parametrize(
    ("scaler", "dtype", "components"),
    (
        *((SCALER, "f4", False), (SCALER, "f8", True), (IMPUTING, "f4", True)),
        *((MARKING, "f4", False), (MARKING, "f8", True)),
    ),
)
def test_absent_rows_stay_so_and_missing_entries_are_filled(
    dtype, scaler, components, device, streamed
):
    is_imputed = scaler.fill is not None
    scaler = wide(scaler) if components else scaler
    X = with_holes(make_rows(dtype), entries=is_imputed)
    X[5, 0], X[6, 0] = 1e17, -1e17  # large, but valid
    view = as_view(X, scaler, device=device, impute=scaler.impute)
    view.check = None  # the exact check, of which there is no need
    found = take({0: view})
    assert np.flatnonzero(np.isnan(found).all(axis=1)).tolist() == [0, 12, 39]
    assert_same_bits(found, scaler.transform(X))
    if not is_imputed:
        return
    X[N - 2, 2] = np.inf  # imputation fills nothing but NaN
    with pytest.raises(ValueError, match=rf"in 1 entry.*row {N - 2}, column 2"):
        take({0: as_view(X, scaler, device=device, impute=scaler.impute)})


@ON_DEVICES
def test_no_operation_is_rounded_otherwise_whatever_the_size_of_numbers(device, streamed):
    random = np.random.default_rng(0)
    sizes = 10.0 ** random.integers(-44, 17, size=(2000, D))
    X = (random.normal(size=sizes.shape) * sizes).astype(np.float32)
    X[::7] = -0.0
    scaler = replace(SCALER, scale=np.array([1.0, 3.0, 1e-20, 1e10, 3e-41, 0.3]))
    raw = RawRows(ViewRows([ViewTable(X)], scaler, device, once=True))
    with np.errstate(over="ignore"):
        assert_same_bits(raw.load(0, len(X))[0].cpu(), scaler.transform(X))


@pytest.mark.parametrize("dtype", ("f4", "i8"))
def test_arrays_of_any_layout_are_read_and_not_changed(dtype, streamed, tmp_path):
    X = make_rows(dtype)
    np.save(tmp_path / "X.npy", X)
    arrays = [
        X.copy(),
        np.asfortranarray(X),
        np.repeat(X, 2, axis=1)[:, ::2],
        np.load(tmp_path / "X.npy", mmap_mode="r"),
    ]
    for array in arrays:
        array.flags.writeable = False  # of which torch would warn
    views = {s: as_view(array) for s, array in enumerate(arrays)}
    assert all(row_stream._is_raw(view) for view in views.values())
    assert_same_bits(take(views), np.tile(SCALER.transform(X), 4))
    assert all((array == X).all() for array in arrays)


@ON_DEVICES
def test_tables_of_other_kinds_are_standardized_on_the_cpu(device, streamed):
    X = make_rows()
    counts = np.random.default_rng(0).poisson(0.5, size=(N, D))
    of_counts = ColumnScaler(np.zeros(D), np.ones(D), None, "counts")
    views = {
        0: as_view(X, device=device),
        2: as_view(sparse.csr_array(X), device=device),
        3: as_view(Lazy(X, 17), device=device),
        5: as_view(counts, of_counts, device=device),
        6: ViewRows([ViewTable(X[:11]), ViewTable(X[11:])], SCALER, device, once=True),
        7: ViewRows([ViewTable(X)], SCALER, device, [np.arange(N)[::-1]], once=True),
    }
    assert [s for s, view in views.items() if row_stream._is_raw(view)] == [0]
    expected = [SCALER.transform(X)] * 3 + [of_counts.transform(counts)]
    expected += [SCALER.transform(X), SCALER.transform(X[::-1])]
    assert_same_bits(take(views), torch.hstack(expected))


@pytest.mark.parametrize(
    "compute",
    (
        lambda Xs: Xs[0].double()[:, :, None],
        lambda Xs: (Xs[0][:, 0] > 0).long(),
        lambda Xs: Xs[0].T.contiguous().T,
    ),
)
@pytest.mark.parametrize("n", (1, 7, 40))
def test_results_of_consecutive_chunks_may_have_any_shape_and_type(compute, n, streamed):
    sizes, X = [], make_rows(n=n)
    found = map_rows(compute, {0: as_view(X)}, sizes.append)
    np.testing.assert_array_equal(found, compute({0: SCALER.transform(X)}).numpy(), strict=True)
    assert found.flags.writeable
    assert sizes == [CHUNK] * (n // CHUNK) + [n % CHUNK] * (n % CHUNK > 0)


@ON_DEVICES
@pytest.mark.parametrize(
    ("value", "row", "dtype", "components"),
    (
        *((np.nan, 0, "f4", False), (np.nan, 13, "f8", True), (np.inf, N - 1, "f4", True)),
        *((-np.inf, 0, "g", False), (-1e25, 13, "f8", True), (-1e25, N - 1, "f4", False)),
    ),
)
def test_invalid_entries_are_found_wherever_they_are(
    value, row, dtype, components, device, streamed
):
    X, Y = make_rows(dtype), make_rows(seed=1)
    X[row, 4] = value
    scaler = wide(SCALER) if components else SCALER
    with pytest.raises(ValueError, match=rf"in 1 entry.*row {row}, column 4") as expected:
        check_finite("age", ViewTable(X), None, scaler)
    views = {0: as_view(Y, device=device), 1: as_view(X, scaler, device=device)}
    with pytest.raises(ValueError, match=re.escape(str(expected.value)) + "$"):
        take(views)


def test_an_invalid_entry_explains_the_errors_that_it_causes(streamed):
    X = make_rows()
    with pytest.raises(RuntimeError, match="too large"):
        map_rows(fail, {0: as_view(X)})
    X[2, 0] = np.inf
    with pytest.raises(ValueError, match="infinity in 1 entry, the first in row 2"):
        map_rows(fail, {0: as_view(X)})


@pytest.mark.parametrize("size", (0.3, 0.999, 1.001))
def test_what_is_nearly_extreme_is_left_to_the_exact_check(size, streamed):
    X, calls = make_rows(), []
    X[30, 3] = size * EXTREME
    view = as_view(X)
    exact = view.check
    view.check = lambda: calls.append("called") or exact()
    if size > 1:
        with pytest.raises(ValueError, match="extreme values in 1 entry, the first in row 30"):
            take({0: view})
    else:
        assert_same_bits(take({0: view}), SCALER.transform(X))
    assert calls == ["called"]
    tiny = replace(SCALER, mean=np.zeros(D), scale=np.full(D, 0.75e-45))  # 1.4e-45 in float32
    X = np.zeros((N, D), dtype=np.float32)
    X[-1, -1] = 1e-27
    with pytest.raises(ValueError, match=f"extreme values in 1 entry, the first in row {N - 1}"):
        take({0: as_view(X, tiny)})


def test_what_goes_wrong_while_reading_ahead_or_writing_is_raised(streamed, monkeypatch):
    class Gone(Lazy):
        def fill(self, block):
            raise OSError("the disk is gone")

    def full(*_):
        raise MemoryError("no memory is left")

    table = ViewTable(Gone(make_rows(), 17))
    with pytest.raises(OSError, match="the disk is gone"):
        take({0: ViewRows([table], SCALER, CPU, once=True)})
    monkeypatch.setattr(row_stream, "_write", full)
    for n in (1, N):
        with pytest.raises(MemoryError, match="no memory is left"):
            take({0: as_view(make_rows(n=n))})


@pytest.mark.parametrize("kind", (MultiViewClassifier, MultiViewEncoder))
def test_estimators_do_the_same_whether_rows_are_streamed_or_not(kind, monkeypatch):
    data = make_views(N, n_views=3, n_columns=[5, 6, 4], labeled=1.0, random_state=0)
    views = {name: X.copy() for name, X in data.linked.items()}
    views["view_2"][[5, 30], 1] = np.nan
    small = {"max_epochs": 1, "hidden": (8,), "batch_size": 16, "random_state": 0}
    small |= {"coupling": "none", "impute": "median+indicator"}
    model = kind(**small).fit(views, data.linked_target)
    views["view_0"][[3, 20]] = np.nan
    views["view_1"] = views["view_1"].astype("f4")
    wrong = {**views, "view_2": views["view_2"].copy()}
    wrong["view_2"][N - 1, 3] = np.inf
    output = model.predict_proba if hasattr(model, "predict_proba") else model.transform
    outputs = []
    for streamed in ({}, {"cpu": 0}):
        monkeypatch.setattr(row_stream, "_STREAMED", streamed)
        found = output(views)
        outputs.append(np.hstack([*found.values()]) if isinstance(found, dict) else found)
        with pytest.raises(ValueError, match=rf"'view_2'.*row {N - 1}, column 3"):
            output(wrong)
    np.testing.assert_allclose(outputs[0], outputs[1], rtol=1e-5, atol=1e-6)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@pytest.mark.parametrize("dtype", ("f4", "f8"))
def test_a_gpu_reads_no_row_before_it_is_there_nor_writes_a_result_too_soon(dtype):
    """Many chunks, and computations that are much slower than copies, or much faster."""
    device = torch.device("cuda")
    X = make_rows(dtype, 20 * 65536 + 5)
    expected = SCALER.transform(X)
    slow = torch.eye(D, device=device)
    for n_products in (0, 0, 300):

        def compute(Xs, n_products=n_products):
            Z = Xs[0]
            for _ in range(n_products):
                Z = Z @ slow  # by 1 and 0: exact, unless in TF32
            return torch.hstack([Z, Xs[1]])

        views = {0: as_view(X, device=device), 1: as_view(X[::-1], device=device)}
        assert_same_bits(map_rows(compute, views), torch.hstack([expected, expected.flip(0)]))
    X[-1, 2] = np.nan
    with pytest.raises(ValueError, match=f"NaN in 1 entry, the first in row {len(X) - 1}"):
        take({0: as_view(X, device=device)})


def numbered(n, start=0):
    """Rows whose entries say which they are."""
    return (np.arange(start, start + n)[:, None] * [1.0, 10.0]).astype(np.float32)


@pytest.mark.parametrize(
    ("kind", "often"), ((np.asarray, False), (np.asarray, True), (sparse.csr_array, False))
)
def test_rows_of_tables_are_numbered_through_but_for_absent_ones(kind, often):
    tables = [ViewTable(kind(numbered(n, start))) for n, start in ((5, 0), (4, 100), (6, 200))]
    whole = [*range(5), *range(100, 104), *range(200, 206)]
    some = [np.array([4, 1]), np.array([], dtype=np.int64), np.arange(6)]
    for present, expected in ((None, whole), (some, [4, 1, *range(200, 206)])):
        rows, n = ViewRows(tables, PLAIN, CPU, present, often=often), len(expected)
        assert (rows.n_rows, rows.n_columns) == (n, 2)
        random = np.random.default_rng(0)
        for order in (random.permutation(n), random.integers(n, size=n)):
            taken = rows.take(order)
            assert taken.dtype == torch.float32
            np.testing.assert_array_equal(taken, np.outer(np.array(expected)[order], [1, 10]))
        for start, stop in ((0, 2), (3, 7), (5, 100)):
            assert rows.part(start, stop)[:, 0].tolist() == expected[start:stop]
        assert rows.take(np.array([], dtype=np.int64)).shape == (0, 2)


@pytest.mark.parametrize("order", ([4, 0, 2, 1, 3], [0, 0, 1, 1, 2]))
def test_chosen_rows_keep_their_order_also_when_they_are_as_many_as_there_are(order):
    rows = ViewRows([ViewTable(numbered(5))], PLAIN, CPU, [np.array(order)])
    assert rows.take(np.arange(5))[:, 0].tolist() == order


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
def test_an_accelerator_keeps_all_rows_but_not_those_that_are_taken_once():
    tables, gpu = [ViewTable(numbered(5)), ViewTable(numbered(4, 100))], torch.device("cuda")
    rows = ViewRows(tables, PLAIN, gpu, [np.array([1, 4]), np.arange(4)])
    taken = rows.take(np.array([3, 0]))
    assert taken.device.type == "cuda"
    assert taken[:, 0].tolist() == [101, 1]
    once = ViewRows(tables, PLAIN, gpu, once=True)
    assert once.ready is None
    np.testing.assert_array_equal(once.part(1, 4).cpu(), numbered(5)[1:4])
