"""MATLAB files of both families, read alike; the 7.3 files are built as MATLAB lays them out."""

from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from hotview.datasets.readers.matlab import read_mat

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
@pytest.mark.parametrize("kind", (str, Path))
def test_matrices_come_back_as_matlab_shows_them(path, write, kind):
    write(path, A=A, B=B)
    content = read_mat(kind(path))
    assert list(content) == ["A", "B"]
    assert_same(content["A"], A)
    assert_same(content["B"], B)


@BOTH
@pytest.mark.parametrize("dtype", ("bool", "int8", "uint8", "int32", "int64", "uint64", "float32"))
def test_a_matrix_keeps_the_type_of_its_matlab_class(path, write, dtype):
    value = np.array([[0, 1], [1, 1], [0, 1]], dtype=dtype)
    write(path, A=value)
    assert_same(read_mat(path)["A"], value)


@pytest.mark.parametrize("name", ("testmatrix", "testsparse"))
def test_doubles_that_matlab_packed_into_bytes_are_doubles(name):
    path = SCIPY_FILES / f"{name}_6.1_SOL2.mat"
    if not path.exists():
        pytest.skip("scipy is installed without its test files")
    assert scipy.io.loadmat(path)[name].dtype == np.uint8
    assert read_mat(path)[name].dtype == np.float64


@BOTH
def test_a_cell_array_is_a_list_down_the_columns(path, write):
    write(path, X=cells([[A, B], [2 * A, SPARSE], [3 * A, INTEGERS]]))
    got = read_mat(path)["X"]
    assert [type(value).__name__ for value in got] == ["ndarray"] * 4 + ["csr_array", "ndarray"]
    for value, expected in zip(got[:4], [A, 2 * A, 3 * A, B], strict=True):
        assert_same(value, expected)
    np.testing.assert_array_equal(got[4].toarray(), SPARSE.toarray())
    assert_same(got[5], INTEGERS)


@BOTH
@pytest.mark.parametrize("dtype", (np.float64, bool))
@pytest.mark.parametrize("scale", (1, 0), ids=["some", "all zero"])
def test_a_sparse_matrix_is_a_csr_array(path, write, dtype, scale):
    dense = (scale * SPARSE.toarray()).astype(dtype)
    write(path, S=scipy.sparse.csc_array(dense))
    got = read_mat(path)["S"]
    assert isinstance(got, scipy.sparse.csr_array)
    assert got.dtype == np.float64
    np.testing.assert_array_equal(got.toarray(), dense)


@BOTH
def test_empty_matrices_and_cell_arrays_keep_their_shape(path, write):
    write(path, E=np.zeros((0, 3)), X=cells([[np.zeros((2, 0)), A]]))
    content = read_mat(path)
    assert content["E"].shape == (0, 3)
    assert [value.shape for value in content["X"]] == [(2, 0), (2, 3)]


@BOTH
def test_only_the_named_variables_are_read_in_their_order(path, write):
    write(path, A=A, note="some text", B=B)
    assert list(read_mat(path, names=["B", "A"])) == ["B", "A"]


@BOTH
def test_an_unknown_name_is_an_error_with_the_nearest_one(path, write):
    write(path, labels=A)
    with pytest.raises(ValueError, match=r"a file\.mat.*'lables'.*Did you mean 'labels'"):
        read_mat(path, names=["lables"])


NOT_NUMERIC = [
    (write5, "char", {"V": "text"}),
    (write73, "char", {"V": "text"}),
    (write5, "struct", {"V": {"field": 1}}),
    (write5, "complex", {"V": A * 1j}),
    (write73, "complex", {"V": A * 1j}),
    (write5, "complex", {"V": SPARSE * 1j}),
    (write5, r"V\{2\}.*char", {"V": cells([[A, "text"]])}),
    (write73, r"V\{2\}.*char", {"V": cells([[A, "text"]])}),
    (write5, r"V\{2\}.*complex", {"V": cells([[A, A * 1j]])}),
    (write5, r"V\{2\}.*struct", {"V": cells([[A, {"field": 1}]])}),
    (write5, r"V\{1\}.*cell array in a cell", {"V": cells([[cells([[A]]), A]])}),
    (write73, r"V\{1\}.*cell array in a cell", {"V": cells([[[[A]], A]])}),
]


@pytest.mark.parametrize(("write", "kind", "variables"), NOT_NUMERIC)
@pytest.mark.parametrize("names", (None, ["V"]), ids=["all", "named"])
def test_what_is_not_numeric_is_named_and_not_left_out_unasked(path, write, kind, variables, names):
    write(path, A=A, **variables)
    with pytest.raises(ValueError, match=rf"a file\.mat.*'V.*{kind}|a file\.mat.*'{kind}"):
        read_mat(path, names=names)
    assert list(read_mat(path, names=["A"])) == ["A"]


@pytest.mark.filterwarnings("ignore")
def test_imaginary_parts_are_not_dropped_when_warnings_are_off(path):
    write5(path, V=A * 1j)
    with pytest.raises(ValueError, match="'V' is complex"):
        read_mat(path)


@pytest.mark.parametrize("kind", ("struct", "function_handle", "string"))
def test_groups_and_objects_of_a_73_file_are_refused(path, kind):
    write73(path, A=A)
    with h5py.File(path, "r+") as file:
        file.create_group("V").attrs["MATLAB_class"] = np.bytes_(kind)
    with pytest.raises(ValueError, match=f"'V' is {kind}"):
        read_mat(path)


def test_hdf5_that_matlab_did_not_write_is_refused_as_its_orientation_is_unknown(path):
    with h5py.File(path, "w") as file:
        file["A"] = A
    with pytest.raises(ValueError, match=r"a file\.mat.*'A' is not written by MATLAB"):
        read_mat(path)


def test_function_handles_of_a_real_file_are_refused_by_name():
    path = SCIPY_FILES / "some_functions.mat"
    if not path.exists():
        pytest.skip("scipy is installed without its test files")
    with pytest.raises(ValueError, match=r"some_functions\.mat.*'sqr' is function"):
        read_mat(path)
    assert list(read_mat(path, names=["a"])) == ["a"]


def test_a_missing_file_is_named(path):
    with pytest.raises(FileNotFoundError, match=r"a file\.mat"):
        read_mat(path)


@pytest.mark.parametrize(
    "content", (b"", b"a,b\n1,2\n", b"\x00" * 200, b"PK\x03\x04" * 100, b"MATLAB 5.0".ljust(128))
)
def test_what_is_not_a_mat_file_is_named(path, content):
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"a file\.mat"):
        read_mat(path)


@BOTH
@pytest.mark.parametrize("share", (0.3, 0.6, 0.9, 0.99))
def test_a_file_cut_short_is_named(path, write, share):
    write(path, A=np.random.default_rng(0).normal(size=(50, 7)))
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=r"a file\.mat cannot be read as a MAT-file"):
        read_mat(path)


def test_a_file_without_variables_is_named(path):
    write5(path)
    with pytest.raises(ValueError, match=r"a file\.mat holds no variables"):
        read_mat(path)


@pytest.mark.parametrize(("part", "value"), (("ir", 2**40), ("jc", 2**40), ("ir", 2)))
def test_indices_that_point_outside_of_a_sparse_matrix_are_an_error_not_a_crash(path, part, value):
    write73(path, S=SPARSE)
    with h5py.File(path, "r+") as file:
        file["S"][part][1] = value
    with pytest.raises(ValueError, match=r"a file\.mat cannot be read"):
        read_mat(path)


@pytest.mark.parametrize("format", ("4", "5", "7.3"))
@pytest.mark.parametrize("in_cells", (False, True), ids=["one", "cells"])
def test_sparse_matrices_far_larger_than_their_file_are_refused(path, format, in_cells):
    n_rows = 4 * 10**6 if in_cells else 10**8
    one = scipy.sparse.csc_array(([1.0], ([5], [0])), shape=(n_rows, 1))
    variables = {"A": cells([[one] * 3]) if in_cells else one}
    if in_cells and format == "4":  # which has no cell arrays
        variables = dict.fromkeys("ABC", one)
    if format == "7.3":
        write73(path, **variables)
    else:
        scipy.io.savemat(path, variables, format=format)
    with pytest.raises(ValueError, match=r"a file\.mat has sparse matrices of 1.*000 rows"):
        read_mat(path)


@BOTH
def test_a_sparse_matrix_may_have_many_empty_rows(path, write):
    write(path, A=scipy.sparse.csc_array(([1.0], ([5], [0])), shape=(10**6, 1)))
    got = read_mat(path)["A"]
    assert got.shape == (10**6, 1)
    assert got.sum() == got[5, 0] == 1


@pytest.mark.parametrize("kind", ("double", "cell"))
def test_an_empty_matrix_with_a_shape_that_is_not_empty_is_refused(path, kind):
    write73(path, A=np.zeros((0, 3)))
    with h5py.File(path, "r+") as file:
        file["A"][:] = [10**5, 10**5]
        file["A"].attrs["MATLAB_class"] = np.bytes_(kind)
    with pytest.raises(ValueError, match=r"a file\.mat cannot be read.*\(100000, 100000\)"):
        read_mat(path)
