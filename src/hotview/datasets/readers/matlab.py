"""MATLAB files: versions 4 to 7 are read by scipy in another process, version 7.3 by h5py."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, issparse

from hotview._messages import ParameterError
from hotview._types import Array
from hotview.datasets.options import File, Options
from hotview.datasets.readers import reader_process
from hotview.datasets.readers.arrays import CHOOSE, Matrix, as_view
from hotview.datasets.readers.errors import did_you_mean, reading
from hotview.datasets.readers.reader_process import DTYPES, READABLE, open_hdf5

#: Rows or columns of the sparse matrices of a file, per byte of it and in any case.
_SPARSE_PER_BYTE, _SPARSE_AT_LEAST = 8, 10**7


def read_mat(
    path: str | os.PathLike[str], *, names: Sequence[str] | None = None
) -> dict[str, Matrix | list[Matrix]]:
    """Read the numeric variables of a MATLAB file, whichever version wrote it.

    A matrix comes back as MATLAB shows it (a vector is ``n × 1`` or ``1 × n``, a 7.3 file is
    transposed back) and in the type of its MATLAB class. A sparse matrix becomes a
    ``scipy.sparse.csr_array`` of float64. A cell array of matrices becomes a list, in MATLAB's
    order (down the columns). Nothing in the file is executed.

    Parameters
    ----------
    path : str or path-like
        A MAT-file of version 4, 5, 6, 7 or 7.3.
    names : sequence of str or None, default=None
        The variables to read, in this order; the others are ignored. None reads them all, in
        the file's order, and raises if one is not numeric (char, struct, function, object,
        complex, a cell array of those), so that no variable is skipped silently.

    Returns
    -------
    dict of str to array, csr_array or a list of those
        One entry per variable.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        Not a MAT-file, a damaged one, one without variables, an unknown name in ``names``,
        or a variable that is not numeric. The message names the file and the variable.

    Examples
    --------
    >>> import os, tempfile
    >>> import numpy as np
    >>> from scipy.io import savemat
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "two.mat")
    ...     cells = np.empty(2, dtype=object)
    ...     cells[:] = [np.eye(3), np.ones((3, 5))]
    ...     savemat(path, {"X": cells, "Y": np.array([[1], [2], [2]])})
    ...     content = read_mat(path)
    >>> [view.shape for view in content["X"]], content["Y"].shape
    ([(3, 3), (3, 5)], (3, 1))
    """
    path = Path(path)
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}.")
    import h5py

    if h5py.is_hdf5(path):
        with open_hdf5(path, "a MAT-file") as file:
            # "#refs#" and "#subsystem#" hold the insides of cells and objects.
            classes = {name: _hdf5_class(file[name]) for name in file if not name.startswith("#")}
        chosen = _choose(path, classes, names)
        with open_hdf5(path, "a MAT-file", *chosen, "#refs#") as file:
            values = {name: _hdf5_value(file, file[name]) for name in chosen}
    else:
        with reading(path, "a MAT-file"):
            arrays = reader_process.read_in_process(path, "mat", names or ())
        known = arrays["names"].tolist()
        classes = dict(zip(known, arrays["classes"].tolist(), strict=True))
        if len(classes) < len(known):
            twice = next(name for name in known if known.count(name) > 1)
            raise ValueError(f"{path} has two variables that are called {twice!r}.")
        chosen = _choose(path, classes, names)
        with reading(path, "a MAT-file"):
            cells = _join_parts(arrays)
        values = {
            name: cells[i] if classes[name] == "cell" else cells[i][0]
            for i, name in enumerate(chosen)
        }
    _refuse_large_shapes(path, values)
    return {
        name: [_matrix(cell, path, f"{name}{{{i}}}") for i, cell in enumerate(value, start=1)]
        if isinstance(value, list)
        else _matrix(value, path, name)
        for name, value in values.items()
    }


def _choose(path: Path, classes: dict[str, str], names: Sequence[str] | None) -> list[str]:
    """Return the names to read, all of them present and of a class that can be read."""
    if not classes:
        raise ValueError(f"{path} holds no variables.")
    chosen = list(classes) if names is None else list(names)
    for name in chosen:
        if name not in classes:
            hint = did_you_mean(name, classes)
            raise ValueError(f"{path} holds no variable {name!r}.{hint}")
        if classes[name] not in READABLE:
            raise _not_numeric(path, name, classes[name])
    return chosen


def _not_numeric(path: Path, name: str, kind: str) -> ValueError:
    return ValueError(
        f"{path}: variable {name!r} is {kind}, not a real matrix or a cell array of them. "
        f"Name the variables to read, without this one."
    )


def _refuse_large_shapes(path: Path, values: dict[str, Any]) -> None:
    """Raise if sparse matrices are far larger than a file of this size can fill."""
    cells = [cell for v in values.values() for cell in (v if isinstance(v, list) else [v])]
    sparse: list[Any] = [cell for cell in cells if issparse(cell)]
    size = sum(max(cell.shape) for cell in sparse)
    limit = max(_SPARSE_AT_LEAST, _SPARSE_PER_BYTE * path.stat().st_size)
    if size > limit:
        raise ValueError(
            f"{path} has sparse matrices of {size:,} rows or columns, more than the {limit:,} that "
            "are read from a file of its size: it is damaged, or nearly all of them are empty. "
            "Remove empty rows and columns."
        )


def _matrix(value: Any, path: Path, name: str) -> Matrix:
    """Return a real matrix in this machine's byte order, or raise."""
    if isinstance(value, list):
        raise _not_numeric(path, name, "a cell array in a cell array")
    if isinstance(value, str) or value.dtype.kind not in "biuf":  # a class that is not read
        raise _not_numeric(path, name, str(value))
    if not issparse(value):
        return np.asarray(value, dtype=value.dtype.newbyteorder("="))
    sparse: Any = value
    with reading(path, "a MAT-file"):
        # scipy trusts the indices of a file and would write outside of its memory.
        sparse.check_format(full_check=True)
        return csr_array(sparse, dtype=np.float64)


def _join_parts(arrays: dict[str, Array]) -> defaultdict[int, list[Any]]:
    """Return the cells of every variable from what another process has read."""
    cells: defaultdict[int, list[Any]] = defaultdict(list)
    for key, array in arrays.items():
        place, _, part = key.rpartition(" ")
        if part == "" and place:
            cells[int(place.split()[0])].append(array)
        elif part == "values":
            rows, columns, shape = (arrays[f"{place} {x}"] for x in ("rows", "columns", "shape"))
            sparse = csc_array((array, rows, columns), shape=tuple(shape.tolist()))
            cells[int(place.split()[0])].append(sparse)
    return cells


def _hdf5_class(item: Any) -> str:
    if "MATLAB_sparse" in item.attrs:
        return "sparse"
    name = item.attrs.get("MATLAB_class", b"not written by MATLAB (it has no MATLAB_class)")
    return str(name.decode() if isinstance(name, bytes) else name)


def _hdf5_value(file: Any, item: Any) -> Any:
    """Return a matrix, a list for a cell array, or the name of a class that is not read."""
    kind = _hdf5_class(item)
    if kind == "sparse":
        return _hdf5_sparse(item)
    if item.attrs.get("MATLAB_empty", 0):
        # The data of an empty matrix is its shape.
        shape = tuple(int(size) for size in item[()])
        if 0 not in shape:
            raise ValueError(f"An empty matrix has the shape {shape}.")
        return [] if kind == "cell" else np.zeros(shape, DTYPES.get(kind, np.float64))
    if kind == "cell":
        # HDF5 lists the axes in reverse, so C order here is MATLAB's column order.
        return [_hdf5_value(file, file[reference]) for reference in item[()].ravel()]
    if kind not in DTYPES:
        return kind
    value = item[()].T
    # A complex matrix is a compound of "real" and "imag".
    return "complex" if value.dtype.names else value.astype(DTYPES[kind], copy=False)


def _hdf5_sparse(item: Any) -> Any:
    pointers = item["jc"][()].astype(np.int64)
    shape = (int(item.attrs["MATLAB_sparse"]), len(pointers) - 1)
    # MATLAB leaves "data" and "ir" out when every entry is zero.
    if "data" not in item:
        return csc_array(shape, dtype=np.float64)
    data = item["data"][()]
    if data.dtype.names:
        return "complex"
    return csc_array((data, item["ir"][()].astype(np.int64), pointers), shape=shape)


def read_mat_views(file: File, options: Options) -> list[tuple[str, Matrix]]:
    """Read the views of a MATLAB file: a cell array ``X`` of matrices is ``X_0``, ``X_1``, ….

    Unless variables are named, a vector (perhaps labels) and what is not numeric are refused.
    """
    path, views = file.path, []
    for name, value in read_mat(path, names=options.variables).items():
        where = f"{path}: variable {name!r}"
        if isinstance(value, list):
            places = [f"{path}: variable '{name}{{{s}}}'" for s in range(1, len(value) + 1)]
            cells = map(as_view, value, places, repeat(CHOOSE))  # named as MATLAB writes them
            views += [(f"{name}_{s}", cell) for s, cell in enumerate(cells)]
            continue
        if options.variables is None and 1 in value.shape:
            shape = " × ".join(map(str, value.shape))
            text = f"{where} is {shape}: these may be labels rather than a view."
            raise ParameterError(text, CHOOSE)
        views.append((name, as_view(value, where, CHOOSE)))
    return views
