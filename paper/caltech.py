"""Caltech-101 images described by six feature sets, read from the user's files."""

import hashlib
import os
import warnings
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from sklearn.utils import Bunch

from hotview._types import Array
from hotview._validation import check_target, check_views

#: The paper's table of views: name and number of columns, in the order of the published files.
_COLUMNS = {"Gabor": 48, "WM": 40, "CENTRIST": 254, "HOG": 1984, "GIST": 512, "LBP": 928}

#: Images of each category. All sizes differ, so that a size identifies the class.
_CATEGORIES = {
    "Faces": 435,
    "Leopards": 200,
    "Motorbikes": 798,
    "binocular": 33,
    "brain": 98,
    "camera": 50,
    "car_side": 123,
    "dollar_bill": 52,
    "ferry": 67,
    "garfield": 34,
    "hedgehog": 54,
    "pagoda": 47,
    "rhino": 59,
    "snoopy": 35,
    "stapler": 45,
    "stop_sign": 64,
    "water_lilly": 37,
    "windsor_chair": 56,
    "wrench": 39,
    "yin_yang": 60,
}


@dataclass(frozen=True)
class _Published:
    """A published file and its checksum."""

    name: str
    n_rows: int
    n_bytes: int
    sha256: str


_PUBLISHED = {
    7: _Published(
        "Caltech101-7.mat",
        1474,
        22_531_288,
        "f59a571b53c6791350e8bb71082446656ed4b7e2755c8b075ef1be547c11678c",
    ),
    20: _Published(
        "Caltech101-20.mat",
        2386,
        36_482_487,
        "aa51f62a9f37e177fb74abf7eab1bbe8c9a160e831835e20c3ff292793ac5658",
    ),
}

_REEXTRACTED = "caltech101_reextracted.npz"
_REEXTRACTED_SOURCE = "Caltech (re-extracted)"

_DESCR = """\
{source}: {n_rows} images of {n_classes} Caltech-101 categories, six descriptors
{origin}
Row i is the same image in every view. The views and their columns: Gabor 48, WM (wavelet
moments) 40, CENTRIST 254, HOG 1984, GIST 512, LBP 928. Values are unscaled: standardize each
view, on training rows only. The classes are unbalanced, from {smallest} to {largest} images.
Read from {file}.
"""
_ORIGINS = {
    True: "The published features, byte for byte.",
    False: "WARNING: shapes as published, but another checksum: not the published file.",
    None: (
        "The images of the paper's classes with the six descriptors extracted again: the same\n"
        "images, classes, counts and dimensions as the published features, but other numbers.\n"
        "Never present results on them as results on the paper's own features."
    ),
}


def load_caltech(n_classes: int, path: str | os.PathLike[str]) -> Bunch:
    """Load the 7 or 20 Caltech-101 classes of the paper, each image described by six views.

    The features are not in the package. The function reads the published ``Caltech101-7.mat``
    and ``Caltech101-20.mat`` (MATLAB 5 or 7.3), checks their shapes against the paper's table
    and their checksum, or reads ``caltech101_reextracted.npz``, which holds the same images with
    the descriptors extracted again, which ``source`` and ``DESCR`` state.

    Parameters
    ----------
    n_classes : int
        7 (1474 images) or 20 (2386 images).
    path : str or path-like
        The file, or a folder that holds it. In a folder the published file comes first.

    Returns
    -------
    Bunch
        With the fields

        views : dict of str to ndarray of float32
            ``Gabor`` (48 columns), ``WM`` (40), ``CENTRIST`` (254), ``HOG`` (1984), ``GIST``
            (512), ``LBP`` (928).
        target : ndarray of int64
            The class, from 0, in the order of the labels in the file.
        target_names : list of str
            The category of each class, identified by its number of images; the label of the
            file if no category has that number.
        view_names : list of str
            The names of the views, in order.
        source : str
            "Caltech101-7", "Caltech101-20" or "Caltech (re-extracted)".
        verified : bool
            Whether the file is, byte for byte, the published one.
        DESCR : str
            Description and origin.

    Raises
    ------
    FileNotFoundError
        There is no such file; the message says which one to get.
    ValueError
        `n_classes` is neither 7 nor 20, or the file does not have the paper's shapes.

    Warns
    -----
    UserWarning
        A .mat file has the right shapes, but not the checksum of the published one.

    Examples
    --------
    >>> from paper.caltech import load_caltech
    >>> load_caltech(7, "no/such/folder")
    Traceback (most recent call last):
    FileNotFoundError: No features of Caltech101-7 at no/such/folder. ...
    """
    if n_classes not in tuple(_PUBLISHED):
        raise ValueError(
            f"Expected n_classes to be 7 or 20, the subsets of the paper, but it is {n_classes!r}."
        )
    published = _PUBLISHED[n_classes]
    file, digest = _find_file(Path(path), published), ""
    if file.suffix == ".npz":
        views, labels = _read_reextracted(file, n_classes)
        source, verified = _REEXTRACTED_SOURCE, None
    else:
        views, labels = _read_published(file)
        with file.open("rb") as stream:
            digest = hashlib.file_digest(stream, "sha256").hexdigest()
        source, verified = Path(published.name).stem, digest == published.sha256
    checked = _check_shapes(views, labels, n_classes, file)
    if verified is False:
        warnings.warn(
            f"{file} has the shapes of the published {published.name}, but is not that file: "
            f"expected {published.n_bytes:,} bytes with sha256 {published.sha256}, but got "
            f"{file.stat().st_size:,} bytes with sha256 {digest}. Its numbers may differ: "
            "do not compare results with published ones before you know why.",
            UserWarning,
            stacklevel=2,
        )
    originals, target, sizes = np.unique(labels, return_inverse=True, return_counts=True)
    categories = {size: name for name, size in _CATEGORIES.items()}
    return Bunch(
        views=checked,
        target=target,
        target_names=[
            categories.get(int(n), f"{label:g}") for label, n in zip(originals, sizes, strict=True)
        ],
        view_names=list(checked),
        source=source,
        verified=bool(verified),
        DESCR=_DESCR.format(
            source=source,
            origin=_ORIGINS[verified],
            n_rows=len(target),
            n_classes=n_classes,
            smallest=sizes.min(),
            largest=sizes.max(),
            file=file.name,
        ),
    )


def _find_file(path: Path, published: _Published) -> Path:
    """Return the file at `path`, or the preferred file in the folder at `path`."""
    candidates = [path / published.name, path / _REEXTRACTED] if path.is_dir() else [path]
    for file in candidates:
        if file.is_file():
            return file
    raise FileNotFoundError(
        f"No features of {Path(published.name).stem} at {path}. Get the file that multi-view "
        "papers share (after Li, Nie, Huang and Huang, AAAI 2015), "
        f"{published.name} ({published.n_bytes:,} bytes, sha256 {published.sha256}), put it in a "
        "folder of your choice and pass that folder, or the file itself, as path. The "
        f"re-extracted features, {_REEXTRACTED}, are read in the same way."
    )


def _read_published(file: Path) -> tuple[list[Array], Array]:
    from hotview.tables.matlab import read_mat

    content = read_mat(file, names=["X", "Y"])
    views, labels = content["X"], content["Y"]
    if not isinstance(views, list) or not isinstance(labels, np.ndarray):
        raise ValueError(
            f"Expected X in {file} to be a cell array of matrices and Y a vector of labels, but "
            f"X is {type(views).__name__} and Y {type(labels).__name__}. Get the published file."
        )
    return list(check_views(views).values()), labels.ravel()


def _read_reextracted(file: Path, n_classes: int) -> tuple[list[Array], Array]:
    from hotview._messages import reading

    with reading(file, _REEXTRACTED):
        archive = np.load(file, allow_pickle=False)
    with archive as stored:
        members = [f"view_{s}" for s in range(len(_COLUMNS))]
        missing = {*members, "y", "rows_7", "y_7"} - set(stored.files)
        if missing:
            raise ValueError(
                f"Expected {file} to hold {_REEXTRACTED}, but it lacks {sorted(missing)}. "
                "Pass that file, or a folder that holds it."
            )
        rows, y = (stored["rows_7"], "y_7") if n_classes == 7 else (slice(None), "y")
        return [stored[name][rows] for name in members], stored[y]


def _check_shapes(
    views: list[Array], labels: Array, n_classes: int, file: Path
) -> dict[str, Array]:
    """Compare shapes with the paper's table; return the views by name, as float32."""
    n_rows = _PUBLISHED[n_classes].n_rows
    expected = [(n_rows, n_columns) for n_columns in _COLUMNS.values()]
    shapes = [X.shape for X in views]
    if shapes != expected:
        raise ValueError(
            f"Expected the {n_classes}-class file to hold six views of shapes {expected}, but "
            f"{file} holds {shapes}. Check that n_classes fits the file, and that it is complete."
        )
    check_target(labels, n_rows)
    n_found = len(np.unique(labels))
    if n_found != n_classes:
        raise ValueError(
            f"Expected labels of {n_classes} classes, but {file} holds {n_found}. "
            "Get the published file."
        )
    return {name: X.astype(np.float32) for name, X in zip(_COLUMNS, views, strict=True)}
