import json

import pytest

from paper.cells import Cell
from paper.records import (
    FORMAT,
    ForeignRecordError,
    own_parameters,
    read_record,
    record_path,
    write_record,
)

CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
RECORD = {"trial": 7, "scores": {"test": 0.9}, "dataset": {"fingerprint": "abc"}}


def test_a_record_is_where_it_should_be_and_comes_back(tmp_path):
    path = write_record(tmp_path, CELL, RECORD)
    assert path == record_path(tmp_path, CELL, 7)
    assert path.relative_to(tmp_path).as_posix() == f"records/{CELL.id}/trial-007.json"
    found = read_record(tmp_path, CELL, 7, "abc")
    assert found == {"format": FORMAT, "cell": CELL.to_json(), **RECORD}
    assert read_record(tmp_path, CELL, 8) is None


def test_a_control_has_one_record_for_both_tasks(tmp_path):
    semi, un = (
        Cell("handwritten", task, "logistic regression", "-")
        for task in ("semi-supervised", "unsupervised")
    )
    write_record(tmp_path, semi, RECORD)
    assert read_record(tmp_path, un, 7)["scores"] == {"test": 0.9}


def test_parameters_that_came_later_count_where_they_change_anything():
    before = own_parameters({"encoder_dim": 3})
    assert own_parameters({"encoder_dim": 3, "fusion": "average", "pseudo_labels": False}) == before
    assert own_parameters({"encoder_dim": 3, "fusion": "weighted"}) != before
    assert own_parameters({"encoder_dim": 3, "pseudo_labels": True}) != before


def change(**changes):
    return lambda record: json.dumps({**record, **changes})


@pytest.mark.parametrize(
    ("spoil", "message"),
    (
        (lambda record: json.dumps(record)[:-20], "cannot be read as a record"),
        (lambda record: "", "cannot be read as a record"),
        (lambda record: "\udcff", "cannot be read as a record"),
        (lambda record: "[1, 2]", "expected 'hotview-record-1', but got 'list'"),
        (change(format="hotview-record-0"), "but got 'hotview-record-0'"),
        (change(format=None), "is not a record of this format"),
        (change(trial=6), "another cell or trial"),
        (change(cell={}), "another cell or trial"),
        (change(dataset={"fingerprint": "def"}), "from other data: expected fingerprint abc"),
        (change(dataset=None), "from other data"),
        (change(scores=None), "has no scores"),
    ),
)
def test_what_is_not_the_record_is_told(tmp_path, spoil, message):
    path = write_record(tmp_path, CELL, RECORD)
    text = spoil(json.loads(path.read_text()))
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ForeignRecordError, match=message) as error:
        read_record(tmp_path, CELL, 7, "abc")
    assert str(path) in str(error.value)
