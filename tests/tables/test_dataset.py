from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from hotview.tables import parquet as readers_parquet
from hotview.tables.dataset import DatasetFiles, read_dataset


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id,iron\nanna,1\nbert,2\ncarl,3\n")
    (tmp_path / "scan.csv").write_text("size,id\n10,dora\n20,carl\n30,anna\n")
    (tmp_path / "labels.csv").write_text("id,y\nanna,ill\nbert,well\nzoe,ill\n")
    np.save(tmp_path / "genes.npy", np.arange(8.0).reshape(4, 2))
    return tmp_path


BOTH = ("blood.csv", "scan.csv")
LABELED = {"labels": "labels.csv", "label_column": "y", "id_column": "id"}


def test_ids_in_both_views_are_linked_and_other_rows_keep_their_labels(folder):
    dataset = read_dataset(DatasetFiles(BOTH, **LABELED))
    assert dataset.ids.tolist() == ["anna", "carl"]
    assert dataset.target.tolist() == ["ill", None]
    np.testing.assert_array_equal(dataset.linked["blood"], [[1], [3]])
    np.testing.assert_array_equal(dataset.linked["scan"], [[30], [20]])
    np.testing.assert_array_equal(dataset.unaligned["blood"], [[2]])
    assert dataset.unaligned_target["blood"].tolist() == ["well"]
    np.testing.assert_array_equal(dataset.unaligned["scan"], [[10]])
    assert "scan" not in dataset.unaligned_target
    assert any("1 ids of labels are in no view" in note for note in dataset.notes)


def test_without_ids_everything_is_unaligned_and_a_table_may_have_its_own_labels(folder):
    dataset = read_dataset(DatasetFiles(BOTH, drop=["id"]))
    assert len(dataset.ids) == 0
    assert not dataset.has_labels
    np.testing.assert_array_equal(dataset.unaligned["scan"], [[10], [20], [30]])
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
    (folder / "scan.csv").write_text("id,size,y\nanna,1,\nbert,2,x\ncarl,3,1\n")
    dataset = read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id"))
    assert dataset.target.tolist() == ["1", "x"]  # text in one view makes all of them text


def test_a_marker_may_stand_for_no_label(folder):
    (folder / "labels.csv").write_text("id,y\nanna,-1\nbert,1\ncarl,0\n")
    with_class = read_dataset(DatasetFiles(BOTH, **LABELED))
    assert with_class.target.tolist() == [-1, 0]
    assert any("-1 counts as a class" in note for note in with_class.notes)
    dataset = read_dataset(DatasetFiles(BOTH, **LABELED, unlabeled_marker="-1"))
    assert dataset.target.tolist() == [None, 0]
    assert dataset.labeled_ids == ["carl", "bert"]


UNKNOWN = "'x' of lab holds numbers and 'unknown', and is read as categories."


@pytest.mark.parametrize(
    ("cells", "more", "note"),
    (
        (["5", "-", "6", "n/a", "7"], {}, "2 rows of 'lab' have no value, and count as absent"),
        (["20240115", "20240228", ""], {}, "numbers like dates, such as 20240115, but used"),
        (["20240115", "20241328"], {}, None),
        (["20240115", "7"], {}, None),
        (["20240115.5"] * 2, {}, None),
        (["1", "2", "3", "unknown"] * 5, {}, UNKNOWN),
        (["1", "2", "3", "unknown"] * 5, {"categorical": ["x"]}, None),
        (["1", "2", "F", "M", "D"] * 4, {}, None),
    ),
)
def test_notes_on_cells(folder, cells, more, note):
    rows = "".join(f"p{i},{cell}\n" for i, cell in enumerate(cells))
    (folder / "lab.csv").write_text(f"id,x\n{rows}")
    notes = read_dataset(DatasetFiles(["lab.csv"], drop=["id"], **more)).notes
    found = [str(text) for text in notes if "like dates" in text or "categories" in text]
    assert any(note in text for text in notes) if note else found == []


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


def test_views_without_common_ids_are_absent_from_linked_rows_and_noted(folder):
    (folder / "third.csv").write_text("id,x\numa,1\nvera,2\n")
    dataset = read_dataset(DatasetFiles((*BOTH, "genes.npy", "third.csv"), **LABELED))
    assert dataset.ids.tolist() == ["anna", "carl"]
    for name, rows in {"genes": 4, "third": 2}.items():
        assert np.isnan(dataset.linked[name]).all()
        assert len(dataset.linked[name]) == 2
        assert len(dataset.unaligned[name]) == rows
    assert (dataset.links["blood", "scan"], dataset.links["blood", "third"]) == (2, 0)
    assert any("no ids in 'genes'" in note for note in dataset.notes)
    assert "No id of 'third' is in another view, so no row there is linked." in dataset.notes


def test_ids_of_a_matrix_come_from_a_table(folder):
    (folder / "who.csv").write_text("id\nanna\nbert\ncarl\ndora\n")
    dataset = read_dataset(DatasetFiles((*BOTH, "genes.npy"), **LABELED, ids={"genes": "who.csv"}))
    assert dataset.ids.tolist() == ["anna", "bert", "carl", "dora"]
    np.testing.assert_array_equal(dataset.linked["genes"], [[0, 1], [2, 3], [4, 5], [6, 7]])
    np.testing.assert_array_equal(dataset.linked["scan"], [[30], [np.nan], [20], [10]])
    (folder / "who.csv").write_text("id\nanna\nbert\n")
    with pytest.raises(ValueError, match="id for each of the 4 rows of view 'genes'"):
        read_dataset(
            DatasetFiles(("genes.npy", "blood.csv"), id_column="id", ids={"genes": "who.csv"})
        )


@pytest.mark.parametrize(
    ("given", "message"),
    (
        ({"labels": "labels.csv", "id_column": "id"}, "Pass label_column"),
        ({"labels": "labels.csv", "label_column": "y"}, "Pass id_column"),
        ({"label_column": "z", "id_column": "id"}, "No view has a column 'z'"),
        ({"ids": {"scan": "labels.csv"}}, "ids needs id_column"),
        ({"id_column": "id", "ids": {"brain": "labels.csv"}}, "No view is called 'brain'"),
        ({"id_column": "id", "categorical": ["irn"]}, "Did you mean 'iron'"),
    ),
)
def test_inconsistent_settings_raise(folder, given, message):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    with pytest.raises(ValueError, match=message):
        read_dataset(DatasetFiles(BOTH, **given))
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


def test_a_large_parquet_file_stays_on_disk_and_a_column_like_an_id_is_noted(tmp_path, monkeypatch):
    x = np.random.default_rng(0).normal(size=5000)
    columns = {"x": x, "who": np.arange(5000.0), "nearly": np.minimum(np.arange(5000.0), 4998)}
    parquet.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=1000)
    monkeypatch.setattr(readers_parquet, "_LARGE", 0)
    dataset = read_dataset(DatasetFiles([str(tmp_path / "a.parquet")]))
    assert not isinstance(dataset.rows["a"], np.ndarray)
    assert dataset.unaligned["a"] is dataset.rows["a"]
    np.testing.assert_array_equal(dataset.rows["a"][:], np.column_stack(list(columns.values())))
    (note,) = dataset.notes
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


def test_rows_are_linked_in_pairs_and_nan_where_absent(folder):
    (folder / "third.csv").write_text("id,x\ndora,1\nanna,2\nbert,3\n")
    dataset = read_dataset(DatasetFiles((*BOTH, "third.csv"), **LABELED))
    assert dataset.ids.tolist() == ["anna", "bert", "carl", "dora"]
    np.testing.assert_array_equal(dataset.linked["blood"], [[1], [2], [3], [np.nan]])
    np.testing.assert_array_equal(dataset.linked["scan"], [[30], [np.nan], [20], [10]])
    np.testing.assert_array_equal(dataset.linked["third"], [[2], [3], [np.nan], [1]])
    assert dataset.target.tolist() == ["ill", "well", None, None]
    assert dataset.links == {("blood", "scan"): 2, ("blood", "third"): 2, ("scan", "third"): 2}
    assert dataset.is_complete.tolist() == [True, False, False, False]
    assert dataset.label_counts == {"ill": 1, "well": 1}  # an id in several views counts once
    assert dataset.unaligned == {}
    some = dataset.take_linked(np.array([3, 0]))
    assert some.links == {("blood", "scan"): 1, ("blood", "third"): 1, ("scan", "third"): 2}
    assert some.is_complete.tolist() == [False, True]


def test_no_link_at_all_stops_with_the_first_ids(folder):
    (folder / "scan.csv").write_text("size,id\n10,dora\n20,emil\n")
    message = (
        r"No id is in two views, so no rows are linked. First ids: blood: 'anna', scan: 'dora'"
    )
    with pytest.raises(ValueError, match=rf"ids in 'id' that several views share. {message}") as e:
        read_dataset(DatasetFiles(BOTH, **LABELED))
    assert "drop=['id']" in str(e.value)
    with pytest.raises(ValueError, match=r"There are no ids in 'genes'.*ids=\{'genes': 'FILE'\}"):
        read_dataset(DatasetFiles(("blood.csv", "genes.npy"), **LABELED))
    assert len(read_dataset(DatasetFiles(BOTH, drop=["id"])).ids) == 0


def test_views_that_all_have_labels_need_no_links(folder):
    (folder / "scan.csv").write_text("size,id\n10,dora\n20,zoe\n")
    dataset = read_dataset(DatasetFiles(BOTH, **LABELED))
    assert dataset.unaligned_target["scan"].tolist() == [None, "ill"]
    note = "No id is in two views, so no rows are linked; every view learns from labels."
    assert note in dataset.notes


@pytest.fixture
def spelled(folder):
    """Tables whose ids differ in leading zeros: 7 and 8 in all, 9 in the labels only."""
    (folder / "blood.csv").write_text("id,iron\n007,1\n008,2\n010,3\n")
    (folder / "scan.csv").write_text("id,size\n8,20\n7,10\n11,30\n")
    (folder / "labels.csv").write_text("id,y\n7.0,ill\n8,well\n09,ill\n")
    return DatasetFiles(BOTH, **LABELED)


def test_ids_that_differ_in_spelling_stop_until_it_is_said_whether_they_do(spelled):
    message = r"^3 more ids would match if leading zeros or '.0' at the end did not count, such as "
    with pytest.raises(ValueError, match=message) as caught:
        read_dataset(spelled)
    assert "'007' in view 'blood' and '7' in view 'scan'" in str(caught.value)
    assert "Pass match_ids=['zeros'] to link them, or match_ids=['exact'] if" in str(caught.value)
    dataset = read_dataset(replace(spelled, match_ids=("zeros",)))
    assert dataset.ids.tolist() == ["007", "008"]  # as in the first file
    np.testing.assert_array_equal(dataset.linked["scan"], [[10], [20]])
    assert dataset.target.tolist() == ["ill", "well"]
    assert dataset.preprocessing.match_ids == ("zeros",)


def test_ids_of_labels_stop_too(spelled, folder):
    (folder / "scan.csv").write_text("id,size\n008,20\n007,10\n")
    message = r"^2 more ids .*'007' in view 'blood' and '7.0' in labels"
    with pytest.raises(ValueError, match=message):
        read_dataset(spelled)
    with pytest.raises(ValueError, match=r"no row has one. 3 labels are of ids in no view: '7.0'"):
        read_dataset(replace(spelled, match_ids=("exact",)))
    counts = read_dataset(replace(spelled, match_ids=("zeros",))).label_counts
    assert counts == {"ill": 1, "well": 1}


def test_rows_of_the_fit_are_recognized_in_any_spelling_that_tells_them_apart(spelled, folder):
    for name in ("blood", "scan"):
        (folder / f"{name}.csv").write_text("id,x\nP 07,1\np08,2\n")
    (folder / "labels.csv").write_text("id,y\nP 07,ill\np08,well\n")
    dataset = read_dataset(spelled)
    assert dataset.labeled_ids == ["p7", "p8"]
    assert dataset.hashed_without == ("spaces", "case", "zeros")
    exact = read_dataset(replace(spelled, match_ids=("exact",)))
    assert exact.labeled_ids == ["P 07", "p08"]
    for name in ("blood", "scan"):
        (folder / f"{name}.csv").write_text("id,x\nP 07,1\np08,2\np 07,3\n")  # somebody else
    assert read_dataset(spelled).labeled_ids == ["P 07", "p08"]


def test_tables_of_labels_and_ids_have_formats_of_their_own(folder):
    (folder / "labels.csv").write_bytes("id;y\nanna;müde\nbert;wach\n".encode("latin-1"))
    (folder / "who.csv").write_text("id|n\nanna|1\nbert|2\nzoe|3\numa|4\n")
    text = {"delimiter": {"labels": ";", "who": "|"}, "encoding": {"labels": "latin-1"}}
    files = DatasetFiles(("blood.csv", "genes.npy"), **LABELED, ids={"genes": "who.csv"}, text=text)
    dataset = read_dataset(files)
    assert dataset.target.tolist() == ["müde", "wach"]
    with pytest.raises(ValueError, match=r"No file is called 'label'.*mean 'labels'.*delimiter"):
        read_dataset(replace(files, text={"delimiter": {"label": ";"}}))


@pytest.fixture
def visits(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id,person,iron\n1,anna,0.5\n2,anna,0.7\n3,bert,0.2\n")
    (tmp_path / "scan.csv").write_text("id,size\n2,1.5\n3,2.5\n9,3.5\n")
    (tmp_path / "labels.csv").write_text("id,person,y\n1,anna,a\n2,anna,b\n3,bert,a\n9,carl,b\n")
    return tmp_path


def read_visits(views=BOTH, labels="labels.csv", **more):
    return read_dataset(
        DatasetFiles(views, **LABELED | {"labels": labels, "group_column": "person", **more})
    )


def test_groups_belong_to_ids_whatever_table_has_them_or_to_rows_without_ids(visits):
    dataset = read_visits()
    assert dataset.groups.tolist() == ["anna", "bert"]
    assert {n: g.tolist() for n, g in dataset.unaligned_groups.items()} == {
        "blood": ["anna"],
        "scan": ["carl"],
    }
    assert dataset.labeled_groups == {"anna", "bert", "carl"}
    assert [len(view.columns) for view in dataset.preprocessing.views.values()] == [1, 1]
    assert not dataset.notes
    dataset = read_visits(group_column=None, drop=["person"])
    assert dataset.groups is None
    assert (dataset.unaligned_groups, dataset.labeled_groups) == ({}, set())
    dataset = read_dataset(DatasetFiles(("blood.csv",), drop=["id"], group_column="person"))
    assert dataset.unaligned_groups["blood"].tolist() == ["anna", "anna", "bert"]
    np.save("gene.npy", np.zeros((2, 3)))  # a table of ids may have groups
    (visits / "who.csv").write_text("id,person\n2,anna\n12,dora\n")
    dataset = read_visits((*BOTH, "gene.npy"), ids={"gene": "who.csv"})
    assert dataset.unaligned_groups["gene"].tolist() == ["dora"]


def test_groups_that_are_absent_contradictory_or_misspelled(visits):
    (visits / "labels.csv").write_text("id,y\n1,a\n2,b\n3,a\n9,b\n")
    dataset = read_visits()
    assert dataset.unaligned_groups["scan"].tolist() == [None]
    assert "1 rows have no group in 'person': each is its own." in dataset.notes
    (visits / "labels.csv").write_text("id,person,y\n1,anna,a\n2,bert,b\n3,bert,a\n")
    with pytest.raises(ValueError, match=r"one group per row, but .* contradict each other"):
        read_visits()
    with pytest.raises(ValueError, match=r"has a column 'persom' of groups\. Did you mean"):
        read_visits(group_column="persom", drop=["person"])
