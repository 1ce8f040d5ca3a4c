import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from hotview.data.columns import Column, ViewColumns
from hotview.data.dates import DateFormat
from hotview.data.numbers import NumberFormat
from hotview.tables.preprocessing import (
    Preprocessing,
    TableRows,
    align_views,
    match_ids,
    match_rows,
    read_rows,
)

PREPROCESSING = Preprocessing(
    {
        "blood": ViewColumns((Column("iron"), Column("sex", ("F", "M"))), 3),
        "scan": ViewColumns(None, 2),
    },
    id_column="id",
    label_column="y",
    drop=("note",),
    text={"delimiter": ";"},
)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "blood.csv").write_text("id;sex;iron;note;extra\nanna;F;1;hm;0\nbert;M;2;;0\n")
    np.save(tmp_path / "scan.npy", np.eye(2))
    return tmp_path


def test_preprocessing_survives_json():
    columns = (
        Column("x", None, NumberFormat(",", ".", "mg")),
        Column("d", None, DateFormat("2024-01-31")),
    )
    formats = replace(
        PREPROCESSING,
        views={"blood": ViewColumns(columns, 2)},
        text={"delimiter": {"blood": ";", "": ","}, "missing": ["?"], "dates": "day-first"},
        match_ids=("zeros", "case"),
        group_column="person",
    )
    assert "person" in formats.left_out
    for one in (PREPROCESSING, formats):
        assert Preprocessing.from_json(json.loads(json.dumps(one.to_json()))) == one
    absent = {"match_ids", "group_column"}  # as in models of earlier versions
    assert not absent & set(PREPROCESSING.to_json())


@pytest.mark.parametrize(
    "changes",
    (
        {"views": 3},
        {"views": [["blood", {"columns": None, "n_columns": "3"}]]},
        {"views": [["blood", {"columns": [[3, None]], "n_columns": 1}]]},
        {"label_column": 3},
        {"drop": "note"},
        {"text": {"unknown": 1}},
        {"more": 1},
        {"match_ids": ["zero"]},
        {"match_ids": ["exact", "zeros"]},
        {"text": {"delimiter": {"blood": 5}}},
        {"views": [["a", {"columns": [["x", None, {"decimal": 5}]], "n_columns": 1}]]},
        {"views": [["a", {"columns": [["x", None, 5]], "n_columns": 1}]]},
    ),
)
def test_what_is_no_preprocessing_is_a_value_error(changes):
    with pytest.raises(ValueError, match="its preprocessing is not valid"):
        Preprocessing.from_json({**PREPROCESSING.to_json(), **changes})
    for values in (3, None, [], {}):
        with pytest.raises(ValueError, match="its preprocessing is not valid"):
            Preprocessing.from_json(values)


def test_new_files_are_read_as_those_of_the_fit(folder):
    rows = read_rows(PREPROCESSING, ["blood.csv"], {})
    np.testing.assert_array_equal(rows["blood"].X, [[1, 1, 0], [2, 0, 1]])
    assert rows["blood"].ids == ["anna", "bert"]
    assert rows["blood"].notes == ["blood.csv: columns not in the training data: 'extra'"]
    with pytest.raises(ValueError, match=r"has no view 'blod' .*Did you mean 'blood'"):
        read_rows(PREPROCESSING, ["blod=blood.csv"], {})
    (folder / "blood.csv").write_text("id;sex;iron\nanna;F;1,5\nbert;M;2\n")
    rows = read_rows(PREPROCESSING, ["blood.csv"], {})["blood"]
    np.testing.assert_array_equal(rows.X, [[1.5, 1, 0], [2, 0, 1]])
    [note] = rows.notes
    assert note.startswith("blood.csv: column 'iron' is written otherwise than at fit: decimal po")
    np.save("scan.npy", np.eye(3))
    with pytest.raises(ValueError, match=r"view 'scan' to have 2 columns, as at fit, but .* has 3"):
        read_rows(PREPROCESSING, ["scan.npy"], {})


def test_a_table_may_stand_for_a_matrix_if_it_is_as_wide(folder):
    (folder / "scan.csv").write_text("id;a;b\nanna;5;6\n")
    found = read_rows(PREPROCESSING, ["scan.csv"], {})["scan"]
    np.testing.assert_array_equal(found.X, [[5, 6]])
    assert found.notes == [
        "scan.csv: columns are matched by position; the training data had no column names."
    ]
    (folder / "scan.csv").write_text("id;a;b;c\nanna;5;6;7\n")
    with pytest.raises(ValueError, match=r"2 columns, as at fit, but .* has 3, not counting ids"):
        read_rows(PREPROCESSING, ["scan.csv"], {})


def test_rows_are_aligned_by_id_and_without_ids_row_i_is_the_same_individual():
    a = TableRows(np.array([[1.0], [2.0]]), ["x", "y"], [])
    rows = align_views({"a": a, "b": TableRows(sparse.csr_array([[5.0, 0.0]]), ["y"], [])})
    assert rows.ids.tolist() == ["x", "y"]
    np.testing.assert_array_equal(rows.views["b"], [[np.nan, np.nan], [5, 0]])
    assert rows.present["b"].tolist() == [False, True]
    X = np.ones((3, 1))
    same = TableRows(X, None, [])
    rows = align_views({"a": same, "b": same})
    assert rows.ids.tolist() == [1, 2, 3]
    assert rows.views["a"] is X
    with pytest.raises(ValueError, match="a: 3, b: 2"):
        align_views({"a": same, "b": TableRows(X[:2], None, [])})
    with pytest.raises(ValueError, match="'b' have none"):
        align_views({"a": TableRows(X, list("xyz"), []), "b": same})


def rows_of(**ids):
    return {name: TableRows(np.ones((len(own), 1)), own) for name, own in ids.items()}


def test_rows_of_new_files_are_matched_as_at_fit():
    given = rows_of(blood=["007", "8"], scan=["08", "7.0"])
    with pytest.raises(ValueError, match=r"^2 more ids would match.*match_ids=\['zeros'\]"):
        match_rows(given, PREPROCESSING)
    matched = match_rows(given, replace(PREPROCESSING, match_ids=("zeros",)))
    assert {name: rows.ids for name, rows in matched.items()} == {
        "blood": ["007", "8"],
        "scan": ["8", "007"],
    }
    exact = match_rows(given, replace(PREPROCESSING, match_ids=("exact",)))
    assert exact["scan"].ids == ["08", "7.0"]
    assert len(align_views(exact).ids) == 4
    assert align_views(matched).ids.tolist() == ["007", "8"]


def test_views_without_ids_are_left_alone():
    ids = {"blood": ["P1", None], "scan": None}
    for differences in ((), ("case",), ("exact",)):
        assert match_ids(ids, replace(PREPROCESSING, match_ids=differences)) == ids
    with pytest.raises(ValueError, match="'P1' in view 'blood' and 'p1' in labels"):
        match_ids(ids, PREPROCESSING, {"labels": ["p1"]})
