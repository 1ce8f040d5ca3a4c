import numpy as np
import pytest

from hotview.tables.files import OpenView
from hotview.tables.labels import LabelSource, find_labels, match_classes, parse_classes


@pytest.mark.parametrize(
    ("cells", "expected"),
    (
        (["1", "2"], [1, 2]),
        (["1.0", "2.0", "-3"], [1, 2, -3]),  # as pandas saves whole numbers beside gaps
        (["1", "x", "1"], ["1", "x", "1"]),
        (["01", "1", "1"], ["01", "1", "1"]),  # which are not the same
        (["1_0", "10", "10"], ["1_0", "10", "10"]),
        (["12345678901234567890"] * 2, ["12345678901234567890"] * 2),
    ),
)
def test_classes_are_whole_numbers_or_text(cells, expected):
    classes = parse_classes(cells)
    assert [classes[cell] for cell in cells] == expected


@pytest.mark.parametrize(
    ("cells", "message"),
    ((["0.5", "1", "2"], "fractions"), (["a", "b", "c"], "all 3 are different")),
)
def test_labels_that_are_no_classes_raise(cells, message):
    with pytest.raises(ValueError, match=message):
        parse_classes(cells)


@pytest.mark.parametrize(
    ("classes", "cells", "expected"),
    (
        (np.array([1, 2]), ["1", "2.0", "x", None], [1, 2, "x", None]),
        (np.array(["1", "x"]), ["1", "1.0", "x"], ["1", "1.0", "x"]),
        (np.array([False, True]), ["True", "False"], [True, False]),
        (np.array([1.0, 2.0]), ["1", "2.0"], [1.0, 2.0]),
    ),
)
def test_labels_are_matched_with_the_classes_of_a_model(classes, cells, expected):
    assert match_classes(cells, classes) == expected


def test_labels_are_read_by_id(table):
    text = "y,id\nill,anna\n,bert\n?,carl\nnone,dora\nNA,emil\n"
    cells = find_labels(LabelSource(table(text), "y", "id", unlabeled_marker="?"), (), {})
    expected = {"anna": "ill", "bert": None, "carl": None, "dora": "none", "emil": None}
    assert cells.by_id == cells.as_classes().by_id == expected


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("id,y\nanna,1\nanna,1\n", "id 'anna' occurs more than once"),
        ("id,y\nanna,1\n,1\n", "row 2 has no id"),
        ("who,y\nanna,1\n", "no column 'id' of ids"),
        ("id,z\nanna,1\n", "no column 'y' of labels"),
    ),
)
def test_invalid_tables_of_labels_raise(table, text, message):
    with pytest.raises(ValueError, match=message):
        find_labels(LabelSource(table(text), "y", "id"), (), {})


def test_views_have_labels_of_their_own(table):
    a = OpenView("a", "a.csv", table("id,y\nanna,1\nbert,\n"))
    b = OpenView("b", "b.csv", table("y\n0\n1\n", "b.csv"))
    cells = find_labels(LabelSource(None, "y", "id"), [a, b], {"a": ["anna", "bert"], "b": None})
    assert cells.by_id == {"anna": "1", "bert": None}
    assert cells.by_view == {"b": ["0", "1"]}
    with pytest.raises(ValueError, match="id 'anna' occurs more than once"):
        find_labels(LabelSource(None, "y", "id"), [a], {"a": ["anna", "anna"]})
