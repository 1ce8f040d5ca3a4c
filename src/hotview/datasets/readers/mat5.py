"""MAT-files of versions 4 to 7, read by Python alone: native readers crash on damaged files."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from io import BufferedIOBase
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from scipy.sparse import coo_array, csc_array

from hotview._types import Array

__all__ = ["DTYPES", "Variable", "list_variables"]

#: MATLAB's numeric classes and their numpy types; 7.3 files store logical as uint8.
DTYPES: dict[str, np.dtype[Any]] = {
    "double": np.dtype(np.float64),
    "single": np.dtype(np.float32),
    "logical": np.dtype(np.bool_),
    **{f"{u}int{bits}": np.dtype(f"{u}int{bits}") for u in ("", "u") for bits in (8, 16, 32, 64)},
}

_BYTE, _DOUBLE, _MATRIX, _COMPRESSED = 2, 9, 14, 15
_TYPES = dict(zip((1, 2, 3, 4, 5, 6, 7, 9, 12, 13), "bBhHiIfdqQ", strict=True))
_NUMERIC = [f"{u}int{bits}" for bits in (8, 16, 32, 64) for u in ("", "u")]
_CLASSES = dict(enumerate(("cell", "struct", "object", "char", "sparse", "double", "single"), 1))
_CLASSES |= dict(enumerate((*_NUMERIC, "function", "opaque"), 8))
_LOGICAL, _COMPLEX = 1 << 9, 1 << 11  # flags of a matrix
_HEADER_BYTES = 4096  # that hold the class, the shape and the name of a variable
_BLOCK = 2**16  # compressed bytes at once
_TYPES_4, _CLASSES_4 = "dfihHB", ("double", "char", "sparse")

Element: TypeAlias = "tuple[int, memoryview]"


class Variable(NamedTuple):
    """A variable of a MAT-file.

    Attributes
    ----------
    kind : str
        Its MATLAB class.
    read : callable
        Called with the open file, returns an array, a sparse array, a list for a cell array, or
        the name of a class that is not read.
    """

    kind: str
    read: Callable[[BufferedIOBase], Any]


def list_variables(file: BufferedIOBase) -> dict[str, Variable]:
    """Return the variables of a MAT-file of version 4 to 7, by name.

    Every size is compared with the bytes that there are before it is used.

    Parameters
    ----------
    file : binary file
        The file.

    Returns
    -------
    dict of str to Variable
        The variables, in their order.

    Examples
    --------
    >>> import io
    >>> from scipy.io import savemat
    >>> file = io.BytesIO()
    >>> savemat(file, {"A": np.eye(2)})
    >>> {name: (v.kind, v.read(file).tolist()) for name, v in list_variables(file).items()}
    {'A': ('double', [[1.0, 0.0], [0.0, 1.0]])}
    """
    size = file.seek(0, 2)
    file.seek(0)
    start = file.read(128)
    if 0 in start[:4]:
        found = _list_4(file, size)
    else:
        order = {b"\x00\x01IM": "<", b"\x01\x00MI": ">"}.get(start[124:])
        if order is None:
            raise ValueError("Its first 128 bytes are not those of a MAT-file.")
        found = _list_5(file, size, order)
    variables: dict[str, Variable] = {}
    for name, variable in found:
        if name in variables:
            raise ValueError(f"Two variables are called {name!r}.")
        variables[name] = variable
    return variables


def _list_5(file: BufferedIOBase, size: int, order: str) -> Iterator[tuple[str, Variable]]:
    at = 128
    while at < size:
        file.seek(at)
        kind, n_bytes = struct.unpack(f"{order}II", file.read(8))
        if at + 8 + n_bytes > size or kind not in (_MATRIX, _COMPRESSED):
            raise EOFError(f"No variable of {n_bytes} bytes can begin at byte {at}.")
        data = _read_5(file, at, order, limit=_HEADER_BYTES)
        header = _parse_header(_split(data, order), order)
        if header.name:  # the workspace of functions has none
            read = partial(_read_variable_5, at=at, order=order)
            yield header.name, Variable(header.kind, read)
        at += 8 + n_bytes


def _read_variable_5(file: BufferedIOBase, at: int, order: str) -> Any:
    return _parse_matrix(_read_5(file, at, order), order)


def _read_5(file: BufferedIOBase, at: int, order: str, limit: int = 2**33) -> memoryview:
    """Return the content of the matrix at a position, or its first bytes."""
    file.seek(at)
    kind, n_bytes = struct.unpack(f"{order}II", file.read(8))
    if kind == _COMPRESSED:
        return memoryview(_unpack(file, n_bytes, order, limit))[8:]
    content = bytearray(min(n_bytes, limit))  # unlike bytes, these may be changed by users
    return memoryview(content)[: file.readinto(content)]


def _unpack(file: BufferedIOBase, n_bytes: int, order: str, limit: int) -> bytearray:
    """Decompress a matrix, with its type and size, until `limit` bytes."""
    stream, content = zlib.decompressobj(), bytearray()
    end, size, wanted = file.tell() + n_bytes, 8, 8
    while len(content) < wanted:
        packed = stream.unconsumed_tail or file.read(min(end - file.tell(), _BLOCK))
        if not packed:
            raise EOFError("Compressed data end too early.")
        content += stream.decompress(packed, wanted - len(content))
        if len(content) == 8 == size:
            kind, n_inside = struct.unpack(f"{order}II", content)
            if kind != _MATRIX:
                raise ValueError(f"Expected a compressed matrix, but found type {kind}.")
            size += n_inside
            wanted = min(size, limit)
    if wanted == size:
        rest = stream.decompress(stream.unconsumed_tail + file.read(end - file.tell()), 1)
        if rest or not stream.eof:
            raise ValueError("Compressed data do not end where they should.")
    return content


def _split(data: memoryview, order: str) -> Iterator[Element]:
    """Yield the type and the content of each element."""
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from(f"{order}II", data, at)
        start, step = at + 8, 8 + size + -size % 8
        if kind >> 16:  # at most four bytes, in place of the size
            kind, size, start, step = kind & 0xFFFF, kind >> 16, at + 4, 8
        if start + size > min(at + step, len(data)):
            raise EOFError(f"Expected an element of {size} bytes, but there are fewer.")
        yield kind, data[start : start + size]
        at += step


def _take(elements: Iterator[Element]) -> Element:
    element = next(elements, None)
    if element is None:
        raise EOFError("A variable ends too early.")
    return element


class _Header(NamedTuple):
    kind: str
    shape: list[int]
    name: str
    is_complex: bool


def _parse_header(elements: Iterator[Element], order: str) -> _Header:
    flags = int(_parse_numbers(_take(elements), order)[0])
    kind = _CLASSES[flags & 0xFF]
    # Objects have no shape.
    shape = [] if kind == "opaque" else _parse_numbers(_take(elements), order).tolist()
    if any(size < 0 for size in shape):
        raise ValueError(f"No matrix has the shape {shape}.")
    name = bytes(_take(elements)[1]).decode("ascii")
    if kind in DTYPES and flags & _LOGICAL:
        kind = "logical"
    return _Header(kind, shape, name, bool(flags & _COMPLEX))


def _parse_numbers(element: Element, order: str, kind: int | None = None) -> Array:
    code = _TYPES.get(element[0] if kind is None else kind)
    if code is None:
        raise ValueError(f"Expected numbers, but found an element of type {element[0]}.")
    stored = np.dtype(order + code)
    values = np.frombuffer(element[1], dtype=stored)
    return values.astype(stored.newbyteorder("="), copy=False)


def _parse_matrix(data: memoryview, order: str, *, is_cell: bool = False) -> Any:
    if not data:  # an empty cell
        return np.zeros((0, 0))
    elements = _split(data, order)
    kind, shape, _, is_complex = _parse_header(elements, order)
    if is_complex:
        return "complex"
    if kind == "sparse":
        return _parse_sparse(elements, shape, order)
    if kind == "cell":
        if is_cell:
            return "a cell array in a cell array"
        cells = list(elements)
        if len(cells) != math.prod(shape) or {kind for kind, _ in cells} - {_MATRIX}:
            raise ValueError(f"Expected cells of shape {shape}, but there are {len(cells)}.")
        return [_parse_matrix(cell, order, is_cell=True) for _, cell in cells]
    if kind not in DTYPES:
        return kind
    values = _parse_numbers(_take(elements), order)
    if len(values) != math.prod(shape):
        raise ValueError(f"Expected numbers of shape {shape}, but there are {len(values)}.")
    matrix: Array = values.reshape(shape, order="F").astype(DTYPES[kind], copy=False)
    return np.require(matrix, requirements="A")


def _parse_sparse(elements: Iterator[Element], shape: list[int], order: str) -> Any:
    rows, pointers = (_parse_numbers(_take(elements), order) for _ in range(2))
    n, values = int(pointers[-1]), _take(elements)
    # MATLAB calls the bytes of a logical matrix doubles.
    is_logical = values[0] == _DOUBLE and len(values[1]) == n
    data = _parse_numbers(values, order, kind=_BYTE if is_logical else None)
    n_rows, n_columns = shape
    return csc_array((data[:n], rows[:n], pointers), shape=(n_rows, n_columns))


def _list_4(file: BufferedIOBase, size: int) -> Iterator[tuple[str, Variable]]:
    at = 0
    while at < size:
        file.seek(at)
        raw = file.read(20)
        order = "<" if 0 <= struct.unpack("<i", raw[:4])[0] < 5000 else ">"
        code, n_rows, n_columns, is_complex, n_name = struct.unpack(f"{order}5i", raw)
        machine, stored, kind = code // 1000, _TYPES_4[code // 10 % 10], _CLASSES_4[code % 10]
        if min(n_rows, n_columns, n_name) < 0 or machine != (order == ">"):
            raise ValueError(f"No variable can begin at byte {at}.")
        dtype = np.dtype(order + stored)
        start = at + 20 + n_name
        n_bytes = n_rows * n_columns * dtype.itemsize * (2 if is_complex else 1)
        if start + n_bytes > size:
            raise EOFError(f"Expected a variable of {n_bytes} bytes at byte {start}.")
        name = file.read(n_name).split(b"\0")[0].decode("ascii")
        where = {"start": start, "dtype": dtype, "shape": (n_rows, n_columns)}
        read = partial(_read_4, kind="complex" if is_complex else kind, **where)
        yield name, Variable(kind, read)
        at = start + n_bytes


def _read_4(
    file: BufferedIOBase, start: int, dtype: np.dtype[Any], shape: tuple[int, int], kind: str
) -> Any:
    if kind in ("complex", "char"):
        return kind
    file.seek(start)
    values = np.frombuffer(file.read(math.prod(shape) * dtype.itemsize), dtype)
    matrix = values.reshape(shape, order="F").astype(np.float64)
    if kind != "sparse":
        return matrix
    if shape[1] == 4:
        return "complex"
    with np.errstate(invalid="raise"):  # the last row is the shape
        rows, columns = matrix[:, :2].T.astype(np.int64)
    data, places = matrix[:-1, 2], (rows[:-1] - 1, columns[:-1] - 1)
    return coo_array((data, places), shape=(int(rows[-1]), int(columns[-1])))
