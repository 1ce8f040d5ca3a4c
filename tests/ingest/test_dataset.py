import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hotview.datasets.readers import parquet as readers_parquet
from hotview.ingest.dataset import DatasetFiles, read_dataset


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id,iron\nanna,1\nbert,2\ncarl,3\n")
    (tmp_path / "scan.csv").write_text("size,id\n10,dora\n20,carl\n30,anna\n")
    (tmp_path / "labels.csv").write_text("id,y\nanna,ill\nbert,well\nzoe,ill\n")
    np.save(tmp_path / "genes.npy", np.arange(8.0).reshape(4, 2))
    return tmp_path


BOTH = ("blood.csv", "scan.csv")


def test_ids_in_all_views_are_linked_with_or_without_a_label(folder):
    dataset = read_dataset(DatasetFiles(BOTH, "labels.csv", "y", "id"))
    assert dataset.ids.tolist() == ["anna", "carl"]
    assert dataset.target.tolist() == ["ill", None]
    np.testing.assert_array_equal(dataset.linked["blood"], [[1], [3]])
    np.testing.assert_array_equal(dataset.linked["scan"], [[30], [20]])


def test_every_other_row_is_unaligned_and_keeps_its_label(folder):
    dataset = read_dataset(DatasetFiles(BOTH, "labels.csv", "y", "id"))
    np.testing.assert_array_equal(dataset.unaligned["blood"], [[2]])
    assert dataset.unaligned_target["blood"].tolist() == ["well"]
    np.testing.assert_array_equal(dataset.unaligned["scan"], [[10]])
    assert "scan" not in dataset.unaligned_target


def test_an_id_in_several_views_counts_once(folder):
    (folder / "third.csv").write_text("id,x\nbert,1\ndora,2\n")
    (folder / "scan.csv").write_text("size,id\n10,dora\n20,bert\n30,anna\n")
    dataset = read_dataset(DatasetFiles((*BOTH, "third.csv"), "labels.csv", "y", "id"))
    assert dataset.ids.tolist() == ["anna", "bert", "dora"]
    assert dataset.is_complete.tolist() == [False, True, False]  # anna is in two of three
    assert dataset.label_counts == {"ill": 1, "well": 1}


def test_without_ids_everything_is_unaligned(folder):
    dataset = read_dataset(DatasetFiles(BOTH, drop=["id"]))
    assert len(dataset.ids) == 0
    assert not dataset.has_labels
    np.testing.assert_array_equal(dataset.unaligned["scan"], [[10], [20], [30]])


def test_labels_in_a_views_own_table_need_no_ids(folder):
    (folder / "blood.csv").write_text("iron,y\n1,0\n2,1\n3,\n")
    dataset = read_dataset(DatasetFiles(("blood.csv", "genes.npy"), label_column="y"))
    assert dataset.unaligned_target["blood"].tolist() == [0, 1, None]
    assert dataset.label_counts == {0: 1, 1: 1}
    assert dataset.preprocessing.views["blood"].n_columns == 1  # the labels are no measurement


def test_labels_in_the_views_of_linked_rows_are_put_together(folder):
    (folder / "blood.csv").write_text("id,iron,y\nanna,1,1\nbert,2,\n")
    (folder / "scan.csv").write_text("id,size,y\nanna,1,\nbert,2,0\n")
    dataset = read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id"))
    assert dataset.target.tolist() == [1, 0]
    (folder / "scan.csv").write_text("id,size,y\nanna,1,7\nbert,2,0\n")
    with pytest.raises(ValueError, match="contradict"):
        read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id"))


def test_text_in_one_views_labels_makes_all_of_them_text(folder):
    (folder / "blood.csv").write_text("id,iron,y\nanna,1,1\nbert,2,\ncarl,3,1\n")
    (folder / "scan.csv").write_text("id,size,y\nanna,1,\nbert,2,x\ncarl,3,\n")
    dataset = read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id"))
    assert dataset.target.tolist() == ["1", "x", "1"]


def test_bad_ids_raise_also_where_only_one_view_has_any(folder):
    (folder / "blood.csv").write_text("id,iron\nanna,1\nanna,2\n")
    with pytest.raises(ValueError, match="1 come more often: 'anna'"):
        read_dataset(DatasetFiles(("blood.csv", "genes.npy"), id_column="id"))


def test_a_marker_may_stand_for_no_label(folder):
    (folder / "labels.csv").write_text("id,y\nanna,-1\nbert,1\ncarl,0\n")
    with_class = read_dataset(DatasetFiles(BOTH, "labels.csv", "y", "id"))
    assert with_class.target.tolist() == [-1, 0]
    assert any("-1 counts as a class" in note for note in with_class.notes)
    dataset = read_dataset(DatasetFiles(BOTH, "labels.csv", "y", "id", unlabeled_marker="-1"))
    assert dataset.target.tolist() == [None, 0]
    assert dataset.labeled_ids == ["carl", "bert"]


def test_numeric_columns_that_look_like_ids_are_noted(folder):
    rows = "\n".join(f"p{i},{100 + i},{i % 3}" for i in range(30))
    (folder / "blood.csv").write_text(f"id,number,iron\n{rows}\nanna,130,0\n")
    dataset = read_dataset(DatasetFiles(BOTH, id_column="id"))
    assert any("'number' of blood: whole numbers, all different" in note for note in dataset.notes)
    assert not any("'iron'" in note for note in dataset.notes)


def test_text_is_the_same_in_parquet_and_csv(folder):
    people = {"id": [" anna", "bert", "carl"], "sex": ["F", "", "NA"], "iron": [1.0, 2.0, 3.0]}
    people["ill"] = [True, False, True]
    parquet.write_table(pa.table(people), "blood.parquet")
    dataset = read_dataset(
        DatasetFiles(("blood.parquet", "scan.csv"), label_column="ill", id_column="id")
    )
    assert dataset.ids.tolist() == ["anna", "carl"]
    assert dataset.target.tolist() == ["True", "True"]  # as in a csv of pandas
    assert dataset.preprocessing.views["blood"].categorical[0].categories == ("F",)


def test_a_view_without_ids_is_absent_from_linked_rows_and_noted(folder):
    dataset = read_dataset(DatasetFiles((*BOTH, "genes.npy"), "labels.csv", "y", "id"))
    assert np.isnan(dataset.linked["genes"]).all()
    assert dataset.linked["genes"].shape == (2, 2)
    assert dataset.unaligned["genes"].shape == (4, 2)
    assert any("no ids in 'genes'" in note for note in dataset.notes)


def test_ids_of_a_matrix_come_from_a_table(folder):
    (folder / "who.csv").write_text("id\nanna\nbert\ncarl\ndora\n")
    dataset = read_dataset(
        DatasetFiles((*BOTH, "genes.npy"), "labels.csv", "y", "id", {"genes": "who.csv"})
    )
    assert dataset.ids.tolist() == ["anna", "bert", "carl", "dora"]
    np.testing.assert_array_equal(dataset.linked["genes"], [[0, 1], [2, 3], [4, 5], [6, 7]])
    np.testing.assert_array_equal(dataset.linked["scan"], [[30], [np.nan], [20], [10]])
    (folder / "who.csv").write_text("id\nanna\nbert\n")
    with pytest.raises(ValueError, match="id for each of the 4 rows of view 'genes'"):
        read_dataset(
            DatasetFiles(("genes.npy", "blood.csv"), id_column="id", ids={"genes": "who.csv"})
        )


def test_labels_of_unknown_ids_are_noted(folder):
    dataset = read_dataset(DatasetFiles(BOTH, "labels.csv", "y", "id"))
    assert any("1 ids of labels are in no view" in note for note in dataset.notes)


@pytest.mark.parametrize(
    ("files", "message"),
    (
        (
            DatasetFiles(BOTH, "labels.csv", id_column="id"),
            "Pass label_column",
        ),
        (DatasetFiles(BOTH, "labels.csv", "y"), "Pass id_column"),
        (DatasetFiles(BOTH, ids={"scan": "labels.csv"}), "ids needs id_column"),
        (DatasetFiles(BOTH, id_column="id", drop=["x"]), "No table has a column 'x'.*drop"),
        (DatasetFiles(BOTH, id_column="id", categorical=["irn"]), "Did you mean 'iron'"),
        (
            DatasetFiles(BOTH, id_column="id", ids={"brain": "labels.csv"}),
            "No view is called 'brain'",
        ),
        (DatasetFiles(BOTH, label_column="z", id_column="id"), "No view has a column 'z'"),
    ),
)
def test_inconsistent_settings_raise(folder, files, message):
    with pytest.raises(ValueError, match=message):
        read_dataset(files)


def test_files_are_not_changed(folder):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    read_dataset(DatasetFiles((*BOTH, "genes.npy"), "labels.csv", "y", "id"))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_large_parquet_file_stays_on_disk_and_few_rows_are_read(tmp_path, monkeypatch):
    random = np.random.default_rng(0)
    columns = {"x": random.normal(size=5000), "n": np.arange(5000.0) % 7}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1000)
    groups, read = [], parquet.ParquetFile.iter_batches

    def recording(self, **options):
        groups.extend(options["row_groups"])
        return read(self, **options)

    monkeypatch.setattr(parquet.ParquetFile, "iter_batches", recording)
    monkeypatch.setattr(readers_parquet, "_LARGE", 0)
    dataset = read_dataset(DatasetFiles([str(tmp_path / "a.parquet")]))
    assert not isinstance(dataset.rows["a"], np.ndarray)
    assert dataset.unaligned["a"] is dataset.rows["a"]
    assert dataset.notes == []
    assert groups == [0]
    np.testing.assert_array_equal(dataset.rows["a"][:], np.column_stack(list(columns.values())))


def test_a_column_like_an_id_is_noted_in_a_large_parquet_file_too(tmp_path, monkeypatch):
    columns = {"who": np.arange(5000.0), "nearly": np.minimum(np.arange(5000.0), 4998)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1000)
    monkeypatch.setattr(readers_parquet, "_LARGE", 0)
    (note,) = read_dataset(DatasetFiles([str(tmp_path / "a.parquet")])).notes
    assert note.startswith("'who' of a: whole numbers, all different")


def test_an_estimator_is_told_the_columns_and_copies_nothing(folder):
    (folder / "blood.csv").write_text("id,iron,sex\nanna,1,F\nbert,2,M\ncarl,3,F\neve,4,M\n")
    dataset = read_dataset(DatasetFiles((*BOTH, "genes.npy"), id_column="id"))
    arguments = dataset.fit_arguments
    linked, unaligned = arguments["Xs"], arguments["unaligned"]
    assert linked["blood"].X is dataset.linked["blood"]
    assert linked["blood"].names == ("iron", "sex = F", "sex = M")
    assert unaligned["blood"].columns is dataset.preprocessing.views["blood"]
    assert unaligned["genes"] is dataset.unaligned["genes"]  # a matrix has no names
