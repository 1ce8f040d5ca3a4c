"""Views from npy, npz and mat files; pickles are refused and never run."""

import pickle
import sys
import warnings
from pathlib import Path

import h5py
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from hotview.datasets import __file__ as package
from hotview.datasets import load_handwritten, read_views

X = np.array([[0.1, 2.0, np.nan], [4.0, -np.inf, 1e-300]])


class Bomb:
    """An object that writes a file when it is unpickled."""

    def __init__(self, target):
        self.target = target

    def __reduce__(self):
        return Path.touch, (self.target,)


def object_array(value):
    array = np.empty((1, 1), dtype=object)
    array[0, 0] = value
    return array


@pytest.mark.parametrize("dtype", ("<f8", ">f8", "<f4", ">f4", "f2", "g", "i1", "u8", "?"))
def test_npy_keeps_float32_and_makes_all_else_float64(tmp_path, dtype):
    for order, mmap in (("C", False), ("F", False), ("C", True), ("F", True)):
        values = np.array([[0, 1, 3], [1, 1, 0]]).astype(dtype, order=order)
        np.save(tmp_path / "scan.npy", values)
        got = read_views(tmp_path / "scan.npy", mmap=mmap)["scan"]
        assert got.dtype == (np.float32 if dtype[1:] == "f4" else np.float64)
        assert got.dtype.isnative
        np.testing.assert_array_equal(got, values)
        if dtype in ("<f8", "<f4"):  # of all others there is a copy
            assert isinstance(got, np.memmap) == mmap
            assert got.flags.writeable == (not mmap)


NOT_VIEWS = {
    "1-D": (np.ones(3), r"shape \(3,\), but a view is 2-D"),
    "no rows": (np.ones((0, 2)), r"\(0, 2\): there is nothing"),
    "text": (np.array([["a", "b"]]), "holds <U1"),
    "complex": (np.array([[1j]]), "holds complex128"),
    "records": (np.zeros((2, 1), [("a", "f8")]), r"holds \[\('a'"),
    "long integers": (np.array([[1, 2**53 + 1]]), f"{2**53 + 1}.*digits"),
    "long unsigned": (np.array([[2**64 - 1]], np.uint64), f"{2**64 - 1}.*digits"),
}


@pytest.mark.parametrize(("values", "message"), NOT_VIEWS.values(), ids=NOT_VIEWS)
def test_an_array_that_is_no_view_is_refused(tmp_path, values, message):
    np.save(tmp_path / "scan.npy", values)
    with pytest.raises(ValueError, match=rf"scan\.npy.*{message}"):
        read_views(tmp_path / "scan.npy")
    np.savez(tmp_path / "all.npz", scan=X, other=values)
    with pytest.raises(ValueError, match=rf"all\.npz.*'other'.*{message}"):
        read_views(tmp_path / "all.npz")
    assert list(read_views(tmp_path / "all.npz", variables=["scan"])) == ["scan"]


@pytest.mark.parametrize("save", (np.savez, np.savez_compressed))
def test_npz_is_a_view_per_array(tmp_path, save):
    save(tmp_path / "all.npz", b=X, a=X[:1].astype(np.float32))
    views = read_views(tmp_path / "all.npz")
    assert list(views) == ["b", "a"]
    np.testing.assert_array_equal(views["b"], X)
    np.testing.assert_array_equal(views["a"], X[:1].astype(np.float32))
    assert list(read_views(tmp_path / "all.npz", variables=["a", "b"])) == ["a", "b"]
    with pytest.raises(ValueError, match=r"all\.npz holds no view 'A'.*mean 'a'"):
        read_views(tmp_path / "all.npz", variables=["A"])
    save(tmp_path / "all.npz")
    with pytest.raises(ValueError, match=r"all\.npz holds no views"):
        read_views(tmp_path / "all.npz")


def test_npz_in_our_own_layout_gives_the_named_views_and_no_labels(tmp_path):
    views = read_views(Path(package).parent / "data" / "handwritten.npz")
    shipped = load_handwritten().views
    assert list(views) == list(shipped)
    for name, view in views.items():
        np.testing.assert_array_equal(view, shipped[name])
    np.savez(tmp_path / "all.npz", view_0=X, view_1=2 * X, view_names=["p", "q"], y=[0, 1])
    [(name, view)] = read_views(tmp_path / "all.npz", variables=["q"]).items()
    assert name == "q"
    np.testing.assert_array_equal(view, 2 * X)
    for arrays in (
        {"view_0": X, "view_names": ["p", "q"]},
        {"view_0": X, "view_1": X, "view_names": ["p"]},
        {"view_0": X, "view_2": X, "view_names": ["p", "q"]},
        {"view_0": X, "view_1": X, "view_names": ["p", "p"]},
    ):
        np.savez(tmp_path / "all.npz", **arrays)
        with pytest.raises(ValueError, match=r"all\.npz: view_names"):
            read_views(tmp_path / "all.npz")


def test_a_pickle_in_npy_is_refused_and_not_run(tmp_path):
    path, target = tmp_path / "scan.npy", tmp_path / "exploded"
    np.save(path, object_array(Bomb(target)), allow_pickle=True)
    for mmap in (False, True):
        with pytest.raises(ValueError, match=r"scan\.npy cannot be read as an npy file of numbers"):
            read_views(path, mmap=mmap)
    for bare in (path, tmp_path / "scan.npz"):
        bare.write_bytes(pickle.dumps(Bomb(target)))
        with pytest.raises(ValueError, match=f"{bare.name} cannot be read"):
            read_views(bare)
    assert not target.exists()
    np.load(path, allow_pickle=True)
    assert target.exists(), "the bomb of this test is a dud"


@pytest.mark.parametrize("member", ("other", "view_0", "view_names"))
def test_a_pickle_in_npz_is_refused_by_name_and_not_run(tmp_path, member):
    target = tmp_path / "exploded"
    arrays = {"view_names": np.array(["a"]), "view_0": X} if member != "other" else {"scan": X}
    arrays[member] = object_array(Bomb(target))
    np.savez(tmp_path / "all.npz", **arrays, allow_pickle=True)
    with pytest.raises(ValueError, match=rf"all\.npz cannot be read .*'{member}'"):
        read_views(tmp_path / "all.npz")
    if member == "other":  # which is not looked at unless it is asked for
        got = read_views(tmp_path / "all.npz", variables=["scan"])["scan"]
        np.testing.assert_array_equal(got, X)
    assert not target.exists()


SAVE = {
    "npy": lambda path: np.save(path, np.ones((50, 4))),
    "npz": lambda path: np.savez(path, a=np.ones((50, 4))),
    "h5ad": lambda path: write(path, np.ones((50, 4))),
    "h5mu": lambda path: write(path, np.ones((50, 4))),
}


@pytest.mark.parametrize("ending", SAVE)
def test_a_file_cut_short_is_named(tmp_path, ending):
    path = tmp_path / f"scan.{ending}"
    SAVE[ending](path)
    content = path.read_bytes()
    for share in (0, 0.5, 0.95):
        path.write_bytes(content[: int(share * len(content))])
        with pytest.raises(ValueError, match=f"{path.name} cannot be read as an {ending} file"):
            read_views(path)


def test_npy_and_npz_are_not_taken_for_one_another(tmp_path):
    np.save(tmp_path / "a.npy", X)
    np.savez(tmp_path / "a.npz", X)
    for old, new, message in (("npy", "npz", "single array"), ("npz", "npy", "magic string")):
        other = (tmp_path / f"a.{old}").rename(tmp_path / f"b.{new}")
        with pytest.raises(ValueError, match=rf"b\.{new} .*{message}"):
            read_views(other)


def write_mat(path, **variables):
    for name, value in variables.items():
        if isinstance(value, list):
            variables[name] = np.empty(len(value), dtype=object)
            variables[name][:] = value
    scipy.io.savemat(path, variables)


def test_mat_is_a_view_per_matrix_and_cell(tmp_path):
    write_mat(tmp_path / "all.mat", a=X, b=X.astype(np.float32), c=np.array([[1, 2], [3, 4]]))
    views = read_views(tmp_path / "all.mat")
    kinds = {"a": "float64", "b": "float32", "c": "float64"}
    assert {name: view.dtype.name for name, view in views.items()} == kinds
    np.testing.assert_array_equal(views["a"], X)
    write_mat(tmp_path / "all.mat", X=[X, X[:, :1], scipy.sparse.csc_array(np.eye(3))])
    views = read_views(tmp_path / "all.mat")
    assert list(views) == ["X_0", "X_1", "X_2"]
    np.testing.assert_array_equal(views["X_1"], X[:, :1])  # a view, though of one column
    assert isinstance(views["X_2"], scipy.sparse.csr_array)
    for variables, message in (
        ({"V": np.ones((2, 2, 2))}, r"all\.mat: variable 'V'.*\(2, 2, 2\)"),
        ({"V": [X, np.ones((0, 2))]}, r"all\.mat: variable 'V\{2\}'.*nothing in it"),
        ({"X": [X], "X_0": X}, r"Two views are called 'X_0', from .*all\.mat"),
    ):
        write_mat(tmp_path / "all.mat", **variables)
        with pytest.raises(ValueError, match=message):
            read_views(tmp_path / "all.mat")


@pytest.mark.parametrize("shape", ((2, 1), (1, 2)))
def test_mat_vectors_are_not_taken_for_views_unless_named(tmp_path, shape):
    write_mat(tmp_path / "all.mat", X=X, Y=np.ones(shape))
    with pytest.raises(ValueError, match=r"all\.mat: variable 'Y' is \d × \d.*labels.*variables"):
        read_views(tmp_path / "all.mat")
    assert read_views(tmp_path / "all.mat", variables=["Y"])["Y"].shape == shape


with warnings.catch_warnings():
    # These packages warn about their own dependencies while they are imported.
    warnings.simplefilter("ignore")
    anndata = pytest.importorskip("anndata")
    mudata = pytest.importorskip("mudata")

DENSE = np.array([[0.0, 1.5, 0.0], [2.0, 0.0, -3.0]])


def write(path, *values, names=("rna",)):
    """Write an h5ad file of one matrix or an h5mu file of several."""
    cells = [anndata.AnnData(value) for value in values]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the options of future versions
        if path.suffix == ".h5ad":
            cells[0].write_h5ad(path)
        else:
            mudata.MuData(dict(zip(names, cells, strict=True))).write_h5mu(path)


@pytest.mark.parametrize("kind", (np.asarray, scipy.sparse.csr_matrix, scipy.sparse.csc_matrix))
@pytest.mark.parametrize("dtype", (np.float32, np.float64, np.int32))
def test_h5ad_keeps_its_type_and_stays_sparse(tmp_path, kind, dtype):
    write(tmp_path / "cells.h5ad", kind(DENSE.astype(dtype)))
    [(name, got)] = read_views(tmp_path / "cells.h5ad").items()
    assert (name, got.dtype) == ("cells", np.float32 if dtype is np.float32 else np.float64)
    assert type(got) is (np.ndarray if kind is np.asarray else scipy.sparse.csr_array)
    dense = got if kind is np.asarray else got.toarray()
    np.testing.assert_array_equal(dense, DENSE.astype(dtype))


def test_h5mu_is_a_view_per_modality_in_mudatas_order(tmp_path):
    path = tmp_path / "cells.h5mu"
    write(path, DENSE, scipy.sparse.csr_matrix(2 * DENSE), names=["rna", "atac"])
    views = read_views(path)
    assert list(views) == ["rna", "atac"]
    np.testing.assert_array_equal(views["rna"], DENSE)
    assert type(views["atac"]) is scipy.sparse.csr_array
    np.testing.assert_array_equal(views["atac"].toarray(), 2 * DENSE)
    assert list(read_views(path, variables=["atac"])) == ["atac"]
    with pytest.raises(ValueError, match=r"cells\.h5mu holds no view 'RNAs'.*Did you mean 'rna'"):
        read_views(path, variables=["RNAs"])


@pytest.mark.parametrize("ending", ("h5ad", "h5mu"))
def test_a_file_without_matrices_is_named(tmp_path, monkeypatch, ending):
    path = tmp_path / f"cells.{ending}"
    with h5py.File(path, "w") as file:
        file["other"] = DENSE
    with pytest.raises(ValueError, match=rf"cells\.{ending} cannot be read as an {ending} file"):
        read_views(path)
    for module in ("anndata", "anndata.io", "anndata.experimental"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'cells\.{ending}.*pip install "hotview\[omics\]"'):
        read_views(path)


def test_bad_indices_are_an_error_not_a_crash(tmp_path):
    path = tmp_path / "cells.h5ad"
    write(path, scipy.sparse.csr_matrix(DENSE))
    with h5py.File(path, "r+") as file:
        file["X"]["indices"][0] = 10**6
    with pytest.raises(ValueError, match=r"cells\.h5ad"):
        read_views(path)
