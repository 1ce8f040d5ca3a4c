"""MATLAB files, read in another process: versions 4 to 7 by scipy, version 7.3 by h5py."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csc_array, csr_array, issparse

from hotview._messages import ParameterError, check_known, reading
from hotview.data.options import File, Options
from hotview.tables import reader_process
from hotview.tables.arrays import CHOOSE, Matrix, as_view
from hotview.tables.reader_process import READABLE

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
    with reading(path, "a MAT-file"):
        arrays = reader_process.read_in_process(path, "mat", names or ())
    known = arrays.pop("names").tolist()
    classes = dict(zip(known, arrays.pop("classes").tolist(), strict=True))
    if len(classes) < len(known):
        twice = next(name for name in known if known.count(name) > 1)
        raise ValueError(f"{path} has two variables that are called {twice!r}.")
    chosen = _choose(path, classes, names)
    values: list[list[Any]] = [[] for _ in chosen]
    with reading(path, "a MAT-file"):
        for key, array in arrays.items():
            i, j, part = key.split(" ")
            if part == "":
                values[int(i)].append(array)
            elif part == "values":
                other = (arrays[f"{i} {j} {x}"] for x in ("rows", "pointers", "shape"))
                rows, pointers, shape = other
                csc: Any = csc_array((array, rows, pointers), shape=tuple(shape.tolist()))
                values[int(i)].append(csc)
    # Sparse matrices can be far larger than a file of this size can fill.
    sparse: list[Any] = [cell for cells in values for cell in cells if issparse(cell)]
    size = sum(max(cell.shape) for cell in sparse)
    limit = max(_SPARSE_AT_LEAST, _SPARSE_PER_BYTE * path.stat().st_size)
    if size > limit:
        raise ValueError(
            f"{path} has sparse matrices of {size:,} rows or columns, more than the {limit:,} that "
            "are read from a file of its size: it is damaged, or nearly all of them are empty. "
            "Remove empty rows and columns."
        )
    return {
        name: [_matrix(cell, path, f"{name}{{{i}}}") for i, cell in enumerate(cells, start=1)]
        if classes[name] == "cell"
        else _matrix(cells[0], path, name)
        for name, cells in zip(chosen, values, strict=True)
    }


def _choose(path: Path, classes: dict[str, str], names: Sequence[str] | None) -> list[str]:
    """Return the names to read, all of them present and of a class that can be read."""
    if not classes:
        raise ValueError(f"{path} holds no variables.")
    chosen = list(classes) if names is None else list(names)
    check_known(chosen, classes, f"{path} holds no variable")
    for name in chosen:
        if classes[name] not in READABLE:
            raise _not_numeric(path, name, classes[name])
    return chosen


def _not_numeric(path: Path, name: str, kind: str) -> ValueError:
    return ValueError(
        f"{path}: variable {name!r} is {kind}, not a real matrix or a cell array of them. "
        f"Name the variables to read, without this one."
    )


def _matrix(value: Any, path: Path, name: str) -> Matrix:
    """Return a real matrix in this machine's byte order, or raise."""
    if value.dtype.kind not in "biuf":  # the name of a class that is not read
        raise _not_numeric(path, name, str(value))
    if not issparse(value):
        return np.asarray(value, dtype=value.dtype.newbyteorder("="))
    sparse: Any = value
    with reading(path, "a MAT-file"):
        # scipy trusts the indices of a file and would write outside of its memory.
        sparse.check_format(full_check=True)
        return csr_array(sparse, dtype=np.float64)


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
