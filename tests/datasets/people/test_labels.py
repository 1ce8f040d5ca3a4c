import pytest

from hotview.datasets.people.labels import labels_by_id, merge_labels, read_labels


@pytest.mark.parametrize(
    ("cells", "expected"),
    (
        ("1,2,", [1, 2, None]),
        ("1.0,2.0,", [1, 2, None]),  # as pandas saves whole numbers beside gaps
        ("1,x,NA", ["1", "x", None]),
        ("flu,none,None", ["flu", "none", "None"]),  # an answer, not a gap
        ("0.5,1,2", ["0.5", "1", "2"]),
        ("true,false,true", ["true", "false", "true"]),
    ),
)
def test_labels_are_whole_numbers_or_text(table, cells, expected):
    rows = "\n".join(f"{i},{cell}" for i, cell in enumerate(cells.split(",")))
    assert read_labels(table(f"id,y\n{rows}\n"), "y") == expected


def test_numbers_can_be_read_as_text(table):
    assert read_labels(table("id,y\n1,7\n"), "y", as_text=True) == ["7"]


def test_labels_know_whose_they_are(table):
    assert labels_by_id(table("y,id\nill,anna\n,bert\n"), "id", "y") == {
        "anna": "ill",
        "bert": None,
    }


@pytest.mark.parametrize(
    ("text", "message"),
    (
        ("id,y\nanna,1\nanna,1\n", "id 'anna' comes more than once"),
        ("id,y\nanna,1\n,1\n", "row 2 has no id"),
        ("who,y\nanna,1\n", "no column 'id' of ids"),
        ("id,z\nanna,1\n", "no column 'y' of labels"),
    ),
)
def test_what_cannot_be_labels_is_refused(table, text, message):
    with pytest.raises(ValueError, match=message):
        labels_by_id(table(text), "id", "y")


def test_tables_that_contradict_each_other_are_refused():
    with pytest.raises(ValueError, match="contradict each other about 1: 'anna'"):
        merge_labels({"a": {"anna": 1, "bert": 2}, "b": {"anna": 0, "bert": 2}})
