import numpy as np
import pytest

from hotview.ingest.dataset import DatasetFiles, read_dataset

BOTH = ("blood.csv", "scan.csv")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id,person,iron\n1,anna,0.5\n2,anna,0.7\n3,bert,0.2\n")
    (tmp_path / "scan.csv").write_text("id,size\n2,1.5\n3,2.5\n9,3.5\n")
    (tmp_path / "labels.csv").write_text("id,person,y\n1,anna,a\n2,anna,b\n3,bert,a\n9,carl,b\n")
    return tmp_path


def read(views=BOTH, labels="labels.csv", **more):
    return read_dataset(
        DatasetFiles(views, labels, "y", "id", **{"group_column": "person", **more})
    )


def test_groups_belong_to_ids_whatever_table_has_them(folder):
    dataset = read()
    assert dataset.groups.tolist() == ["anna", "bert"]
    assert {n: g.tolist() for n, g in dataset.unaligned_groups.items()} == {
        "blood": ["anna"],
        "scan": ["carl"],
    }
    assert dataset.labeled_groups == {"anna", "bert", "carl"}
    assert [len(view.columns) for view in dataset.preprocessing.views.values()] == [1, 1]
    assert not dataset.notes
    dataset = read(group_column=None, drop=["person"])
    assert dataset.groups is None
    assert (dataset.unaligned_groups, dataset.labeled_groups) == ({}, set())


def test_groups_of_views_without_ids_are_those_of_their_rows(folder):
    dataset = read_dataset(DatasetFiles(("blood.csv",), drop=["id"], group_column="person"))
    assert dataset.unaligned_groups["blood"].tolist() == ["anna", "anna", "bert"]


def test_a_table_of_ids_may_have_groups(folder):
    np.save("gene.npy", np.zeros((2, 3)))
    (folder / "who.csv").write_text("id,person\n2,anna\n12,dora\n")
    dataset = read((*BOTH, "gene.npy"), ids={"gene": "who.csv"})
    assert dataset.unaligned_groups["gene"].tolist() == ["dora"]


def test_groups_that_are_absent_contradictory_or_misspelled(folder):
    (folder / "labels.csv").write_text("id,y\n1,a\n2,b\n3,a\n9,b\n")
    dataset = read()
    assert dataset.unaligned_groups["scan"].tolist() == [None]
    assert "1 rows have no group in 'person': each is its own." in dataset.notes
    (folder / "labels.csv").write_text("id,person,y\n1,anna,a\n2,bert,b\n3,bert,a\n")
    with pytest.raises(ValueError, match=r"one group per row, but .* contradict each other"):
        read()
    with pytest.raises(ValueError, match=r"has a column 'persom' of groups\. Did you mean"):
        read(group_column="persom", drop=["person"])
