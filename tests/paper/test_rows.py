import pytest

from paper.cells import Cell
from paper.rows import table_rows

TASK = "semi-supervised"


def entry(test, method, settings, **more):
    cell = Cell("handwritten", TASK, method, settings, **more)
    return {"cell": cell.to_json(), "scores": {"test": test}}


SUMMARY = {
    "cells": [
        entry([0.90, 0.92], "HOT (11)", "paper"),
        entry([0.85, 0.87], "no coupling", "paper"),
        entry([0.95, 0.97], "HOT (11)", "robust"),
        entry([0.95, 0.95], "no coupling", "robust"),
        entry([0.94, None], "HOT (11) + AE", "robust"),
        entry([0.80, 0.90], "logistic regression", "-"),
    ]
}


@pytest.fixture
def rows():
    return {row.name: row for row in table_rows(SUMMARY, "handwritten", TASK)}


def test_settings_share_a_row(rows):
    assert list(rows) == ["HOT (11)", "no coupling", "HOT (11) + AE", "logistic regression"]
    assert rows["HOT (11)"].scores["paper"].mean == pytest.approx(91)
    assert rows["HOT (11)"].scores["robust"].mean == pytest.approx(96)
    assert rows["HOT (11)"].published == (90.05, 2.62)


def test_differences_are_to_the_control_of_the_same_settings(rows):
    differences = rows["HOT (11)"].differences
    assert differences["paper"].mean == pytest.approx(5)
    assert differences["robust"].mean == pytest.approx(1)
    assert rows["no coupling"].differences == {}
    assert rows["HOT (11) + AE"].differences == {}  # its control, with decoders, is not there


def test_only_synthetic_views_share_no_rows_between_trials():
    widths = {}
    for dataset in ("handwritten", "synthetic"):
        cells = [
            {"cell": Cell(dataset, TASK, method, "paper").to_json(), "scores": {"test": test}}
            for method, test in (("HOT (11)", [0.9, 0.94]), ("no coupling", [0.85, 0.87]))
        ]
        row, _ = table_rows({"cells": cells}, dataset, TASK)
        widths[dataset] = row.differences["paper"].high - row.differences["paper"].low
    wider = ((1 / 2 + 1 / 3) * 2) ** 0.5
    assert widths["handwritten"] == pytest.approx(wider * widths["synthetic"])


def test_missing_trials_are_counted(rows):
    assert rows["HOT (11) + AE"].scores["robust"].n == 1
    assert "paper" not in rows["HOT (11) + AE"].scores


def test_controls_are_known(rows):
    assert rows["logistic regression"].is_control
    assert rows["logistic regression"].published is None
    assert rows["logistic regression"].scores["-"].n == 2


def test_removed_views_are_compared_with_all_views():
    cells = [entry([0.8, 0.9], "HOT (11)", "paper")]
    cells.append(entry([0.7, 0.6], "HOT (11)", "paper", without="mor"))
    _, without = table_rows({"cells": cells}, "handwritten", TASK)
    assert without.name == "HOT (11), without mor"
    assert without.differences["paper"].mean == pytest.approx(-20)


def test_only_the_dataset_and_task_asked_for():
    assert table_rows(SUMMARY, "msrc", TASK) == []
    assert table_rows(SUMMARY, "handwritten", "unsupervised") == []
