"""HDF5 files: damaged ones, and what AnnData files hold beside the matrix."""

import anndata
import h5py
import mudata
import numpy as np
import pandas as pd
import pytest

from hotview.datasets import read_views
from hotview.tables import reader_process
from hotview.tables.arrays import obs_text, read_obs
from hotview.tables.reader_process import open_hdf5, read_in_process

TEXTS = [f"cell-{i}" for i in range(300)]


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "texts.h5"
    with h5py.File(path, "w") as file:
        file["names"] = TEXTS  # of variable length, in heaps
        file["X"] = np.ones((3, 2))
    return path


def test_a_file_that_is_damaged_or_on_which_the_library_would_not_return(path, monkeypatch):
    monkeypatch.setattr(reader_process, "read_in_process", read_in_process)
    monkeypatch.setattr(reader_process, "_SECONDS", 2.0)
    with open_hdf5(path, "an HDF5 file", "names") as file:
        assert file["names"].asstr()[:].tolist() == TEXTS
    whole = path.read_bytes()
    first = whole.index(b"GCOL") + 16
    endless = whole[:first] + bytes(16) + whole[first + 16 :]  # free space of size 0
    for content, problem in ((b"", ""), (endless, "takes longer than 2 seconds")):
        path.write_bytes(content)
        message = pytest.raises(ValueError, match=rf"texts\.h5 cannot .* HDF5 .*{problem}")
        with message, open_hdf5(path, "an HDF5 file", "names"):
            pass


@pytest.fixture
def cells():
    names = {"rna": ["c1", "c2", "c3"], "atac": ["c2", "c3", "c4"]}
    found = {}
    for view, index in names.items():
        found[view] = anndata.AnnData(
            np.eye(3, 4, dtype=np.float32),
            obs=pd.DataFrame(index=index),
            var=pd.DataFrame(index=[f"{view}{j}" for j in range(4)]),
        )
        found[view].obsm["X_pca"] = np.arange(6.0).reshape(3, 2)
        found[view].layers["lognorm"] = 2 * found[view].X
    found["rna"].obs["kind"] = pd.Categorical(["B", None, "T"])
    found["rna"].obs["donor"] = [1, 2, 1]
    return found


@pytest.fixture
def whole(cells):
    with mudata.set_options(pull_on_update=False):
        yield mudata.MuData(cells)


def test_columns_are_text_with_gaps(cells, tmp_path):
    cells["rna"].write_h5ad(tmp_path / "rna.h5ad")
    table = read_obs(tmp_path / "rna.h5ad")[""]
    assert table.read_text(["kind", "donor"]) == [["B", None, "T"], ["1", "2", "1"]]
    assert table.find_text() == table.names == ["kind", "donor"]
    with pytest.raises(TypeError, match="to be text"):
        table.read(["donor"])
    assert obs_text(pd.Series([1.0, 2.5, None])) == ["1", "2.5", None]


def test_columns_of_the_whole_belong_to_every_modality(whole, tmp_path):
    whole.obs["kind"] = pd.Series({"c2": "T", "c3": "T", "c4": "B"})
    whole.write(tmp_path / "both.h5mu")
    tables = read_obs(tmp_path / "both.h5mu")
    assert tables["rna"].read_text(["kind"]) == [["B", "T", "T"]]  # its gap is filled
    assert tables["atac"].read_text(["kind"]) == [["T", "T", "B"]]
    whole.obs["kind"] = pd.Series({"c1": "T"})
    whole.write(tmp_path / "both.h5mu")
    with pytest.raises(ValueError, match="one value of 'kind' for every cell"):
        read_obs(tmp_path / "both.h5mu")


def test_entries_of_obsm_and_layers_are_views(whole, cells, tmp_path):
    whole.write(tmp_path / "both.h5mu")
    cells["rna"].write_h5ad(tmp_path / "rna.h5ad")
    views = read_views(tmp_path / "both.h5mu", obsm={"rna": "X_pca"}, layer={"atac": "lognorm"})
    np.testing.assert_array_equal(views["rna"], cells["rna"].obsm["X_pca"])
    np.testing.assert_array_equal(views["atac"], 2 * cells["atac"].X)
    views = read_views({"x": tmp_path / "rna.h5ad"}, obsm="X_pca")
    assert views["x"].shape == (3, 2)


@pytest.mark.parametrize(
    ("options", "message"),
    (
        ({"obsm": {"rnaa": "X_pca"}}, "No file is called 'rnaa'.*Did you mean 'rna'"),
        ({"obsm": "X_pc"}, "to have obsm 'X_pc', but it has none.*Did you mean 'X_pca'"),
        ({"layer": {"atac": "counts"}}, "'atac' to have layers 'counts'.*There are: 'lognorm'"),
        ({"obsm": "X_pca", "layer": "lognorm"}, "but got both"),
    ),
)
def test_what_is_not_there_is_named(options, message, whole, tmp_path):
    whole.write(tmp_path / "both.h5mu")
    with pytest.raises(ValueError, match=message):
        read_views(tmp_path / "both.h5mu", **options)
    (tmp_path / "a.csv").write_text("x\n1\n2\n")
    with pytest.raises(ValueError, match=r"a\.csv: .*obsm.* is for \.h5ad, \.h5mu"):
        read_views(tmp_path / "a.csv", obsm={"a": "X_pca"})
