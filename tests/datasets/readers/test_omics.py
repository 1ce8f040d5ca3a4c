"""AnnData and MuData files."""

import sys
import warnings

import h5py
import numpy as np
import pytest
import scipy.sparse

from hotview.datasets import read_views

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


@pytest.mark.parametrize("dtype", (np.float32, np.float64))
def test_h5ad_dense(tmp_path, dtype):
    write(tmp_path / "cells.h5ad", DENSE.astype(dtype))
    views = read_views(tmp_path / "cells.h5ad")
    assert list(views) == ["cells"]
    assert views["cells"].dtype == dtype
    np.testing.assert_array_equal(views["cells"], DENSE)


@pytest.mark.parametrize("kind", (scipy.sparse.csr_matrix, scipy.sparse.csc_matrix))
def test_h5ad_sparse_stays_sparse(tmp_path, kind):
    write(tmp_path / "cells.h5ad", kind(DENSE, dtype=np.float32))
    got = read_views({"rna": tmp_path / "cells.h5ad"})["rna"]
    assert type(got) is scipy.sparse.csr_array
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got.toarray(), DENSE)


def test_h5mu_is_a_view_per_modality_in_mudatas_order(tmp_path):
    path = tmp_path / "cells.h5mu"
    write(path, DENSE, scipy.sparse.csr_matrix(2 * DENSE), names=["rna", "atac"])
    views = read_views(path)
    assert list(views) == ["rna", "atac"]
    np.testing.assert_array_equal(views["rna"], DENSE)
    assert type(views["atac"]) is scipy.sparse.csr_array
    np.testing.assert_array_equal(views["atac"].toarray(), 2 * DENSE)
    assert list(read_views(path, variables=["atac"])) == ["atac"]


def test_h5mu_with_an_unknown_modality_asked_for(tmp_path):
    write(tmp_path / "cells.h5mu", DENSE, DENSE, names=["rna", "atac"])
    with pytest.raises(ValueError, match=r"cells\.h5mu holds no view 'RNAs'.*Did you mean 'rna'"):
        read_views(tmp_path / "cells.h5mu", variables=["RNAs"])


@pytest.mark.parametrize("ending", ("h5ad", "h5mu"))
def test_a_file_without_matrices_is_named(tmp_path, ending):
    with h5py.File(tmp_path / f"cells.{ending}", "w") as file:
        file["other"] = DENSE
    with pytest.raises(ValueError, match=rf"cells\.{ending} cannot be read as an {ending} file"):
        read_views(tmp_path / f"cells.{ending}")


@pytest.mark.parametrize("ending", ("h5ad", "h5mu"))
@pytest.mark.parametrize("share", (0, 0.5, 0.98))
def test_a_file_cut_short_is_named(tmp_path, ending, share):
    path = tmp_path / f"cells.{ending}"
    write(path, DENSE)
    content = path.read_bytes()
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(ValueError, match=rf"cells\.{ending} cannot be read as an {ending} file"):
        read_views(path)


def test_bad_indices_are_an_error_not_a_crash(tmp_path):
    path = tmp_path / "cells.h5ad"
    write(path, scipy.sparse.csr_matrix(DENSE))
    with h5py.File(path, "r+") as file:
        file["X"]["indices"][0] = 10**6
    with pytest.raises(ValueError, match=r"cells\.h5ad"):
        read_views(path)


@pytest.mark.parametrize("ending", ("h5ad", "h5mu"))
def test_without_anndata_the_error_says_what_to_install(tmp_path, monkeypatch, ending):
    (tmp_path / f"cells.{ending}").touch()
    for module in ("anndata", "anndata.io", "anndata.experimental"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ImportError, match=rf'cells\.{ending}.*pip install "hotview\[omics\]"'):
        read_views(tmp_path / f"cells.{ending}")
