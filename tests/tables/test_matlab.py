"""MATLAB files of both families, read alike; the 7.3 files are built as MATLAB lays them out."""

import io
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from hotview.tables import reader_process
from hotview.tables.matlab import read_mat
from hotview.tables.reader_process import DTYPES, READABLE, read_in_process

A = np.array([[1.5, 2.0, 3.0], [4.0, np.nan, 6.0]])
B = np.arange(8, dtype=np.float32).reshape(2, 4) / 3
INTEGERS = np.array([[1, 2], [3, -4]], dtype=np.int16)
SPARSE = scipy.sparse.csc_array(np.array([[0.0, 2.0, 0.0], [3.0, 0.0, 0.0]]))

# Written by MATLAB itself, of several versions.
SCIPY_FILES = Path(scipy.io.matlab.__file__).parent / "tests" / "data"


def cells(rows):
    """Make the object array that scipy writes as a cell array."""
    array = np.empty((len(rows), len(rows[0])), dtype=object)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            array[i, j] = value
    return array


def write5(path, **variables):
    scipy.io.savemat(path, variables, do_compression=True)


class Mat73:
    """Write variables as MATLAB 7.3 does: transposed, with class attributes and references."""

    classes = {  # noqa: RUF012
        "float64": "double", "float32": "single", "bool": "logical", "complex128": "double"
    }  # fmt: skip

    def __init__(self, file):
        self.file = file
        self.refs = file.create_group("#refs#")

    def write(self, name, value, group=None):
        group = self.file if group is None else group
        if isinstance(value, list):
            item = self.cell(name, value, group)
        elif isinstance(value, str):
            item = group.create_dataset(name, data=np.array([[ord(c)] for c in value], np.uint16))
            item.attrs["MATLAB_class"] = np.bytes_("char")
        elif scipy.sparse.issparse(value):
            item = self.sparse(name, value, group)
        else:
            item = self.matrix(name, value, group)
        return item

    def cell(self, name, rows, group):
        references = np.empty((len(rows[0]), len(rows)), dtype=h5py.ref_dtype)
        for i, row in enumerate(rows):
            for j, value in enumerate(row):
                references[j, i] = self.write(f"{name}_{i}_{j}", value, self.refs).ref
        item = group.create_dataset(name, data=references, dtype=h5py.ref_dtype)
        item.attrs["MATLAB_class"] = np.bytes_("cell")
        return item

    def matrix(self, name, value, group):
        if value.size == 0:  # an empty matrix is stored as its shape
            item = group.create_dataset(name, data=np.array(value.shape, np.uint64))
            item.attrs["MATLAB_empty"] = np.uint8(1)
        elif value.dtype.kind == "c":
            pair = np.empty(value.T.shape, dtype=[("real", "f8"), ("imag", "f8")])
            pair["real"], pair["imag"] = value.T.real, value.T.imag
            item = group.create_dataset(name, data=pair)
        else:
            stored = value.T.astype(np.uint8) if value.dtype == bool else value.T
            item = group.create_dataset(name, data=stored, compression="gzip")
        kind = self.classes.get(value.dtype.name, value.dtype.name)
        item.attrs["MATLAB_class"] = np.bytes_(kind)
        return item

    def sparse(self, name, value, group):
        item = group.create_group(name)
        item.attrs["MATLAB_class"] = np.bytes_("logical" if value.dtype == bool else "double")
        item.attrs["MATLAB_sparse"] = np.uint64(value.shape[0])
        item["jc"] = value.indptr.astype(np.uint64)
        if value.nnz:  # MATLAB leaves these out otherwise
            item["ir"] = value.indices.astype(np.uint64)
            item["data"] = value.data.astype(np.uint8 if value.dtype == bool else np.float64)
        return item


def write73(path, **variables):
    with h5py.File(path, "w", userblock_size=512) as file:
        writer = Mat73(file)
        for name, value in variables.items():
            listed = [list(row) for row in value] if is_cell(value) else value
            writer.write(name, listed)
    with open(path, "r+b") as file:  # the block before the HDF5 part that says what this is
        file.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64".ljust(124) + b"\x00\x02IM")


def is_cell(value):
    return isinstance(value, np.ndarray) and value.dtype == object


BOTH = pytest.mark.parametrize("write", (write5, write73), ids=["5", "7.3"])


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a file.mat"


def assert_same(got, expected):
    assert type(got) is type(expected)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@BOTH
def test_matrices_keep_the_type_of_their_class_in_the_order_asked_for(path, write):
    values = {name: np.array([[0, 1], [1, 1], [0, 1]], dtype) for name, dtype in DTYPES.items()}
    write(path, **values, A=A, note="some text", B=B)
    content = read_mat(str(path), names=["B", "A", *values])
    assert list(content) == ["B", "A", *values]
    for name, value in {**values, "A": A, "B": B}.items():
        assert_same(content[name], value)
    with pytest.raises(ValueError, match=r"a file\.mat.*'notes'.*Did you mean 'note'"):
        read_mat(path, names=["notes"])


@BOTH
def test_a_cell_array_is_a_list_down_the_columns_and_may_have_empty_ones(path, write):
    write(path, X=cells([[A, B], [2 * A, SPARSE], [3 * A, INTEGERS]]))
    got = read_mat(path)["X"]
    assert [type(value).__name__ for value in got] == ["ndarray"] * 4 + ["csr_array", "ndarray"]
    for value, expected in zip(got[:4], [A, 2 * A, 3 * A, B], strict=True):
        assert_same(value, expected)
    np.testing.assert_array_equal(got[4].toarray(), SPARSE.toarray())
    assert_same(got[5], INTEGERS)
    write(path, E=np.zeros((0, 3)), X=cells([[np.zeros((2, 0)), A]]))
    content = read_mat(path)
    assert content["E"].shape == (0, 3)
    assert [value.shape for value in content["X"]] == [(2, 0), (2, 3)]


@BOTH
@pytest.mark.parametrize("scale", (1, 0), ids=["some", "all zero"])
def test_a_sparse_matrix_is_a_csr_array(path, write, scale):
    for dtype in (np.float64, bool):
        dense = (scale * SPARSE.toarray()).astype(dtype)
        write(path, S=scipy.sparse.csc_array(dense))
        got = read_mat(path)["S"]
        assert isinstance(got, scipy.sparse.csr_array)
        assert got.dtype == np.float64
        np.testing.assert_array_equal(got.toarray(), dense)


NOT_NUMERIC = [
    (write5, "char", {"V": "text"}),
    (write73, "char", {"V": "text"}),
    (write5, "struct", {"V": {"field": 1}}),
    (write5, "complex", {"V": A * 1j}),
    (write73, "complex", {"V": A * 1j}),
    (write5, "complex", {"V": SPARSE * 1j}),
    (write5, r"V\{2\}.*char", {"V": cells([[A, "text"]])}),
    (write73, r"V\{2\}.*char", {"V": cells([[A, "text"]])}),
    (write5, r"V\{1\}.*cell array in a cell", {"V": cells([[cells([[A]]), A]])}),
    (write73, r"V\{1\}.*cell array in a cell", {"V": cells([[[[A]], A]])}),
]


@pytest.mark.parametrize(("write", "kind", "variables"), NOT_NUMERIC)
def test_what_is_not_numeric_is_named_and_not_left_out_unasked(path, write, kind, variables):
    write(path, A=A, **variables)
    for names in (None, ["V"]):
        with pytest.raises(ValueError, match=rf"a file\.mat.*'V.*{kind}|a file\.mat.*'{kind}"):
            read_mat(path, names=names)
    assert list(read_mat(path, names=["A"])) == ["A"]


def test_groups_and_objects_of_a_73_file_are_refused(path):
    for kind in ("struct", "function_handle", "string", None):
        write73(path, A=A)
        with h5py.File(path, "r+") as file:
            if kind is None:  # its orientation is unknown
                file["V"] = A
            else:
                file.create_group("V").attrs["MATLAB_class"] = np.bytes_(kind)
        with pytest.raises(ValueError, match=f"'V' is {kind or 'not written by MATLAB'}"):
            read_mat(path)


def test_what_is_not_a_mat_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"a file\.mat"):
        read_mat(path)
    for content in (b"", b"a,b\n1,2\n", b"\x00" * 200, b"PK\x03\x04" * 100, b"MATLAB".ljust(128)):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"a file\.mat"):
            read_mat(path)
    write5(path)
    with pytest.raises(ValueError, match=r"a file\.mat holds no variables"):
        read_mat(path)


@BOTH
def test_a_file_cut_short_is_named(path, write):
    write(path, A=np.random.default_rng(0).normal(size=(50, 7)))
    content = path.read_bytes()
    for share in (0.3, 0.6, 0.9, 0.99):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=r"a file\.mat cannot be read as a MAT-file"):
            read_mat(path)


def test_indices_and_shapes_that_contradict_a_matrix_are_an_error_not_a_crash(path):
    for part, value in (("ir", 2**40), ("jc", 2**40), ("ir", 2)):
        write73(path, S=SPARSE)
        with h5py.File(path, "r+") as file:
            file["S"][part][1] = value
        with pytest.raises(ValueError, match=r"a file\.mat cannot be read"):
            read_mat(path)
    for kind in ("double", "cell"):
        write73(path, A=np.zeros((0, 3)))
        with h5py.File(path, "r+") as file:
            file["A"][:] = [10**5, 10**5]  # of a matrix that is empty
            file["A"].attrs["MATLAB_class"] = np.bytes_(kind)
        with pytest.raises(ValueError, match=r"a file\.mat cannot be read.*\(100000, 100000\)"):
            read_mat(path)


@pytest.mark.parametrize(("format", "n_cells"), (("4", 1), ("5", 1), ("5", 3), ("7.3", 3)))
def test_sparse_matrices_far_larger_than_their_file_are_refused(path, format, n_cells):
    def write(n_rows):
        one = scipy.sparse.csc_array(([1.0], ([5], [0])), shape=(n_rows, 1))
        variables = {"A": one if n_cells == 1 else cells([[one] * n_cells])}
        if format == "7.3":
            write73(path, **variables)
        else:
            scipy.io.savemat(path, variables, format=format)

    write(10**8 if n_cells == 1 else 4 * 10**6)  # more than 10⁷ together
    with pytest.raises(ValueError, match=r"a file\.mat has sparse matrices of 1.*000 rows"):
        read_mat(path)
    write(10**6)
    got = read_mat(path)["A"]
    got = got if n_cells == 1 else got[-1]
    assert got.shape == (10**6, 1)
    assert got.sum() == got[5, 0] == 1


# Versions 4 to 7: as scipy reads them, and damaged ones without a crash.

X = np.random.default_rng(0).standard_normal((40, 4))
CELLS = np.array([[X, None], [X[:, :3].astype("f4"), None]], dtype=object)
CELLS[:, 1] = [scipy.sparse.csc_array(np.eye(5)), X > 0]
#: On machines of both byte orders.
WRITTEN_BY_MATLAB = sorted(SCIPY_FILES.glob("*.mat"))


def as_bytes(compress=False, format="5", **variables):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, do_compression=compress, format=format)
    return file.getvalue()


def assert_equal(ours, scipys):
    if isinstance(ours, list):
        for own, other in zip(ours, scipys.ravel(order="F"), strict=True):
            assert_equal(own, other)
    elif scipy.sparse.issparse(scipys):
        np.testing.assert_array_equal(ours.toarray(), scipys.toarray())
    elif ours.size or scipys.size:
        np.testing.assert_array_equal(ours, scipys, strict=ours.dtype == scipys.dtype)
        assert ours.dtype == scipys.dtype.newbyteorder("=")
        assert ours.flags.writeable


@pytest.mark.parametrize("path", WRITTEN_BY_MATLAB, ids=lambda path: path.name)
def test_numeric_variables_are_read_as_by_scipy(path):
    if h5py.is_hdf5(path) or path.name.startswith(("bad", "malformed", "corrupted", "debigged")):
        pytest.skip("of version 7.3, or damaged on purpose")
    for name, _, kind in scipy.io.whosmat(path):
        if kind in READABLE:
            with suppress(ValueError):  # complex, or a cell of text
                assert_equal(
                    read_mat(path, names=[name])[name], scipy.io.loadmat(path, mat_dtype=True)[name]
                )


def test_whole_numbers_of_version_4_are_doubles(path):
    scipy.io.savemat(path, {"i": np.arange(6, dtype="i4")}, format="4")
    assert_same(read_mat(path)["i"], np.arange(6.0)[None])


@pytest.mark.parametrize("compress", (False, True))
@pytest.mark.parametrize("number", (0, 11, 14, 2**31 - 1, 2**32 - 1))
def test_damaged_sizes_types_and_shapes_are_refused_or_harmless(tmp_path, compress, number):
    content, path = as_bytes(A=X[:3, :2], X=CELLS[:1, :1]), tmp_path / "a.mat"
    size = struct.unpack_from("<I", content, 132)[0]
    messages = []
    for place in range(136, 136 + size - 4, 4):
        damaged = bytearray(content)
        struct.pack_into("<I", damaged, place, number)
        if compress:
            packed = zlib.compress(damaged[128 : 136 + size])
            damaged[128 : 136 + size] = struct.pack("<II", 15, len(packed)) + packed
        path.write_bytes(damaged)
        try:
            read_mat(path)
        except ValueError as error:
            messages.append(str(error))
    assert len(messages) >= 5
    assert all("a.mat" in message for message in messages)


def test_wrong_checksums_two_variables_of_a_name_and_cells_in_cells_are_refused(path):
    content = as_bytes(compress=True, A=np.ones((50, 50)))
    body = b""
    for _ in range(5000):  # as deep as would exhaust the stack
        flags = struct.pack("<IIII", 6, 8, 1, 0) + struct.pack("<IIii", 5, 8, 1, 1)
        body = flags + struct.pack("<IBBBB", 0x10001, 65, 0, 0, 0) + body
        body = struct.pack("<II", 14, len(body)) + body
    for data, problem in (
        (content[:-1] + bytes([content[-1] ^ 1]), "cannot be read"),
        (content + content[128:], "has two variables that are called 'A'"),
        (b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + body, "cannot be read|cell array in a cell"),
    ):
        path.write_bytes(data)
        with pytest.raises(ValueError, match=rf"a file\.mat.*({problem})"):
            read_mat(path)


# The other process itself, which the other tests do without.


def test_variables_arrive_as_they_were_stored(path, monkeypatch):
    monkeypatch.setattr(reader_process, "read_in_process", read_in_process)
    write5(path, C=cells([[A, SPARSE]]), B=B, D=1j * A)
    content = read_mat(path, names=["C", "B"])
    assert list(content) == ["C", "B"]
    assert_same(content["B"], B)
    assert_same(content["C"][0], A)
    np.testing.assert_array_equal(content["C"][1].toarray(), SPARSE.toarray())


def test_a_process_that_is_killed_is_an_error(path, tmp_path, monkeypatch):
    monkeypatch.setattr(reader_process, "read_in_process", read_in_process)
    program = tmp_path / "program.py"
    program.write_text("import os; os.abort()")
    monkeypatch.setattr(reader_process, "__file__", str(program))
    write5(path, A=A)
    with pytest.raises(ValueError, match=r"a file\.mat cannot be read as a MAT-file.*by SIGABRT"):
        read_mat(path)


def test_more_memory_than_the_machine_has_is_an_error(path, monkeypatch):
    write5(path, A=A)
    monkeypatch.setitem(reader_process.TASKS, "mat", lambda path, names: np.empty(2**50))
    with pytest.raises(MemoryError, match=r"a file\.mat to fit into memory.*Unable to allocate"):
        read_mat(path)
