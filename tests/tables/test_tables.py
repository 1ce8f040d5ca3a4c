import numpy as np
import pytest

from hotview.tables.files import Options, open_table, open_views, split_name
from hotview.tables.labels import read_ids


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


def test_names_of_views(folder):
    (folder / "a=b.csv").write_text("x\n1\n")
    assert split_name("a=b.csv") == (None, "a=b.csv")  # which is a file
    assert split_name("a=nope.csv") == ("a", "nope.csv")
    assert split_name("x" * 300 + "=blood.csv")[1] == "blood.csv"  # too long for a file
    for spec, message in (
        ("a/b=blood.csv", "without slashes"),
        ("=a.csv", "name=file"),
        ("a=", "name=file"),
    ):
        with pytest.raises(ValueError, match=message):
            split_name(spec)
    with pytest.raises(ValueError, match="Two views are called 'blood'"):
        open_views(["blood.csv", "blood=scan.npy"], Options())


def test_ids_come_from_the_column_or_a_table_of_their_own(folder):
    views = open_views(["blood.csv", "scan.npy"], Options())
    (folder / "who.csv").write_text("id\nbert\nanna\n")
    ids = read_ids(views, "id", {"scan": "who.csv"}, Options())
    assert ids == {"blood": ["anna", "bert"], "scan": ["bert", "anna"]}
    assert read_ids(views, "id", {}, Options())["scan"] is None
    assert read_ids(views, None, {}, Options()) == {"blood": None, "scan": None}
    with pytest.raises(ValueError, match=r"no column 'patient' to link view 'blood' by"):
        read_ids(views, "patient", {}, Options())
    with pytest.raises(ValueError, match=r"scan.npy to be a table"):
        open_table("scan.npy", Options())
