import warnings

import numpy as np
import pandas as pd
import pytest

from hotview.datasets.files import Options
from hotview.ingest.tables import open_table, open_views, read_ids, split_name

with warnings.catch_warnings():
    # These packages warn about their own dependencies while they are imported.
    warnings.simplefilter("ignore")
    anndata = pytest.importorskip("anndata")
    mudata = pytest.importorskip("mudata")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id,iron\nanna,1\nbert,2\n")
    np.save(tmp_path / "scan.npy", np.ones((2, 3)))
    np.savez(tmp_path / "both.npz", left=np.zeros((2, 1)), right=np.ones((2, 2)))
    return tmp_path


def test_files_name_their_views_unless_the_user_does(folder):
    views = open_views(["blood.csv", "brain=scan.npy", "both.npz"], Options())
    assert [view.name for view in views] == ["blood", "brain", "left", "right"]
    assert views[0].table.names == ["id", "iron"]
    assert views[1].X.shape == (2, 3)


def test_two_views_of_one_name_raise(folder):
    (folder / "b").mkdir()
    (folder / "b" / "blood.csv").write_text("id,iron\n1,2\n")
    with pytest.raises(ValueError, match="Two views are called 'blood'"):
        open_views(["blood.csv", "b/blood.csv"], Options())


def test_a_file_with_an_equals_sign_is_a_file(folder):
    (folder / "a=b.csv").write_text("x\n1\n")
    assert split_name("a=b.csv") == (None, "a=b.csv")
    assert split_name("a=nope.csv") == ("a", "nope.csv")


def test_names_have_no_slashes(folder):
    with pytest.raises(ValueError, match="without slashes"):
        split_name("a/b=blood.csv")
    assert split_name("x" * 300 + "=blood.csv")[1] == "blood.csv"  # too long for a file


@pytest.mark.parametrize("spec", ("=a.csv", "a="))
def test_an_incomplete_name_raises(spec):
    with pytest.raises(ValueError, match="name=file"):
        split_name(spec)


def test_ids_come_from_the_column_or_a_table_of_their_own(folder):
    views = open_views(["blood.csv", "scan.npy"], Options())
    (folder / "who.csv").write_text("id\nbert\nanna\n")
    ids = read_ids(views, "id", {"scan": "who.csv"}, Options())
    assert ids == {"blood": ["anna", "bert"], "scan": ["bert", "anna"]}
    assert read_ids(views, "id", {}, Options())["scan"] is None
    assert read_ids(views, None, {}, Options()) == {"blood": None, "scan": None}


def test_a_table_without_the_column_of_ids_raises(folder):
    views = open_views(["blood.csv"], Options())
    with pytest.raises(ValueError, match=r"no column 'patient' to link view 'blood' by"):
        read_ids(views, "patient", {}, Options())


def test_labels_have_to_be_a_table(folder):
    with pytest.raises(ValueError, match=r"scan.npy to be a table"):
        open_table("scan.npy", Options())


def test_cells_of_omics_files_have_names(folder):
    cells = {"rna": ["c1", "c2"], "atac": ["c2", "c3"]}
    parts = {
        name: anndata.AnnData(
            np.eye(2, dtype=np.float32),
            obs=pd.DataFrame(index=index),
            var=pd.DataFrame(index=[f"{name}1", f"{name}2"]),
        )
        for name, index in cells.items()
    }
    parts["rna"].write_h5ad("rna.h5ad")
    with mudata.set_options(pull_on_update=False):
        mudata.MuData(parts).write("both.h5mu")
    views = open_views(["x=rna.h5ad"], Options())
    assert read_ids(views, "any", {}, Options()) == {"x": ["c1", "c2"]}
    views = open_views(["both.h5mu"], Options())
    assert {view.name: view.own_ids for view in views} == cells
