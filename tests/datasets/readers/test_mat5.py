"""MAT-files of versions 4 to 7: as scipy reads them, and damaged ones without a crash."""

import io
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from hotview.datasets.readers.mat5 import DTYPES, list_variables
from hotview.datasets.readers.matlab import read_mat

X = np.random.default_rng(0).standard_normal((40, 4))
CELLS = np.array([[X, None], [X[:, :3].astype("f4"), None]], dtype=object)
CELLS[:, 1] = [scipy.sparse.csc_array(np.eye(5)), X > 0]
VARIABLES = {"A": X, "X": CELLS, "count": np.arange(6, dtype=np.int16).reshape(2, 3), "t": "text"}
#: Written by MATLAB itself, of several versions and on machines of both byte orders.
WRITTEN_BY_MATLAB = sorted((Path(scipy.io.matlab.__file__).parent / "tests/data").glob("*.mat"))


def write(compress=False, format="5", **variables):
    file = io.BytesIO()
    scipy.io.savemat(file, variables, do_compression=compress, format=format)
    return file.getvalue()


def read(content):
    file = io.BytesIO(content)
    return {name: v.read(file) for name, v in list_variables(file).items() if v.kind != "char"}


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
    with path.open("rb") as file:
        for name, variable in list_variables(file).items():
            ours = variable.read(file)
            cells = ours if isinstance(ours, list) else [ours]
            if not any(isinstance(cell, str) for cell in cells):
                assert_equal(ours, scipy.io.loadmat(path, mat_dtype=True)[name])


@pytest.mark.parametrize("compress", (False, True))
def test_what_scipy_writes_is_read_back(compress):
    content = read(write(compress, **VARIABLES))
    assert_equal(content["A"], X)
    assert_equal(content["X"], CELLS)
    assert_equal(content["count"], VARIABLES["count"])


@pytest.mark.parametrize("dtype", ("?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f8"))
def test_sparse_matrices_of_every_type_are_read_as_by_scipy(dtype):
    low = 0 if dtype == "?" or dtype[0] == "u" else -1
    dense = np.array([[low, 0], [0, 5], [200 if dtype == "u1" else 100, 0]]).astype(dtype)
    content = write(A=scipy.sparse.csc_array(dense))
    assert_equal(read(content)["A"], scipy.io.loadmat(io.BytesIO(content))["A"])
    np.testing.assert_array_equal(read(content)["A"].toarray(), dense)


def test_version_4_is_read_as_doubles():
    sparse = scipy.sparse.csc_array(np.array([[0, 2.5], [0, 0], [1, 0]]))
    content = read(write(format="4", A=X, i=np.arange(6, dtype="i4").reshape(2, 3), s=sparse))
    assert_equal(content["A"], X)
    assert_equal(content["i"], np.arange(6.0).reshape(2, 3))
    assert_equal(content["s"], sparse)


def test_a_damaged_type_is_an_error_and_not_the_end_of_the_process(tmp_path):
    content = bytearray(write(A=X))
    content[176] ^= 1 << 1  # the type of the numbers becomes one that does not exist
    path = tmp_path / "damaged.mat"
    path.write_bytes(content)
    code = f"from hotview.datasets import read_views; read_views({str(path)!r})"
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert ended.returncode == 1  # negative after a signal
    assert "ValueError" in ended.stderr
    assert "damaged.mat cannot be read as a MAT-file" in ended.stderr


@pytest.mark.parametrize("compress", (False, True))
@pytest.mark.parametrize("number", (0, 11, 14, 2**31 - 1, 2**32 - 1))
def test_damaged_sizes_types_and_shapes_are_refused_or_harmless(tmp_path, compress, number):
    content, path = write(A=X[:3, :2], X=CELLS[:1, :1]), tmp_path / "a.mat"
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


def test_sizes_are_compared_with_the_file_before_memory_is_taken(tmp_path):
    content = bytearray(write(A=X[:1]))
    struct.pack_into("<ii", content, 160, 2**31 - 1, 2**31 - 1)  # the shape
    with pytest.raises(ValueError, match="Expected numbers of shape"):
        read(bytes(content))
    struct.pack_into("<I", content, 180, 2**32 - 1)  # the bytes of the numbers
    with pytest.raises(EOFError, match="4294967295 bytes"):
        read(bytes(content))
    packed = zlib.compress(struct.pack("<II", 14, 2**32 - 1) + content[136:])
    with pytest.raises(EOFError, match="end too early"):
        read(bytes(content[:128]) + struct.pack("<II", 15, len(packed)) + packed)
    header = struct.pack("<5i", 0, 2**31 - 1, 2**31 - 1, 0, 2)
    with pytest.raises(EOFError, match="bytes at byte 22"):
        read(header + b"A\0" + bytes(100))


def test_damaged_compressed_numbers_are_refused_by_their_checksum():
    content = write(compress=True, A=np.ones((50, 50)))
    with pytest.raises(zlib.error):
        read(content[:-1] + bytes([content[-1] ^ 1]))


def test_cells_in_cells_are_not_entered():
    body = b""
    for _ in range(5000):  # as deep as would exhaust the stack
        flags = struct.pack("<IIII", 6, 8, 1, 0) + struct.pack("<IIii", 5, 8, 1, 1)
        body = flags + struct.pack("<IBBBB", 0x10001, 65, 0, 0, 0) + body
        body = struct.pack("<II", 14, len(body)) + body
    assert read(b"MATLAB 5.0".ljust(124) + b"\x00\x01IM" + body) == {
        "A": ["a cell array in a cell array"]
    }


def test_two_variables_of_one_name_are_refused():
    content = write(A=X)
    with pytest.raises(ValueError, match="Two variables are called 'A'"):
        read(content + content[128:])


def test_every_numeric_class_keeps_its_type():
    variables = {name: np.eye(2).astype(dtype) for name, dtype in DTYPES.items()}
    content = read(write(**variables))
    assert {name: X.dtype for name, X in content.items()} == DTYPES
