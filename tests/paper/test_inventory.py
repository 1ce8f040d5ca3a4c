import json

import pytest

from paper.cells import Cell
from paper.data import load_dataset
from paper.estimators import make_estimator, plain_parameters
from paper.inventory import take_inventory
from paper.records import record_path, write_record

CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
CONTROLS = [
    Cell("handwritten", task, "logistic regression", "-")
    for task in ("semi-supervised", "unsupervised")
]


def finish(out, cell, *trials, **changed):
    for trial in trials:
        about = {"fingerprint": load_dataset(cell.dataset, None, trial).fingerprint}
        record = {"trial": trial, "scores": {}, "dataset": about}
        if not cell.is_control:
            given = plain_parameters(make_estimator(cell, trial))
            record["parameters"] = {**given, **changed}
        write_record(out, cell, record)


def test_only_what_is_not_there_is_missing(tmp_path):
    finish(tmp_path, CELL, 0, 2)
    found = take_inventory(tmp_path, [CELL], 4)
    assert found.missing == {CELL: (1, 3)}
    assert (found.n_missing, found.n_finished, found.foreign) == (2, 2, ())


def test_finished_cells_are_not_listed(tmp_path):
    finish(tmp_path, CELL, 0, 1)
    assert take_inventory(tmp_path, [CELL], 2).missing == {}
    assert take_inventory(tmp_path, [CELL], 2, again=True).missing == {CELL: (0, 1)}


def test_cells_of_one_essence_count_once(tmp_path):
    found = take_inventory(tmp_path, [*CONTROLS, CELL, CELL], 3)
    assert found.missing == {CONTROLS[0].essence: (0, 1, 2), CELL: (0, 1, 2)}


@pytest.mark.parametrize("again", (False, True))
def test_what_is_foreign_is_neither_missing_nor_finished(tmp_path, again):
    path = record_path(tmp_path, CELL, 1)
    path.parent.mkdir(parents=True)
    path.write_text("half a rec")
    found = take_inventory(tmp_path, [CELL], 3, again=again)
    assert found.missing == {CELL: (0, 2)}
    assert found.n_finished == 0
    assert len(found.foreign) == 1
    assert str(path) in found.foreign[0]


def test_records_of_other_data_are_foreign(tmp_path):
    write_record(tmp_path, CELL, {"trial": 0, "scores": {}, "dataset": {"fingerprint": "other"}})
    found = take_inventory(tmp_path, [CELL], 1)
    assert found.missing == {}
    assert "from other data" in found.foreign[0]


def test_synthetic_views_have_a_fingerprint_per_trial(tmp_path):
    cell = Cell("synthetic", "unsupervised", "HOT (11)", "paper")
    finish(tmp_path, cell, 0, 1)
    assert take_inventory(tmp_path, [cell], 2).n_finished == 2


def test_records_of_other_parameters_are_run_again(tmp_path):
    finish(tmp_path, CELL, 0, 2)
    finish(tmp_path, CELL, 1, coupling__n_projections=7)
    found = take_inventory(tmp_path, [CELL], 3)
    assert found.missing == {CELL: (1,)}
    assert (found.n_finished, found.n_stale, found.foreign) == (2, 1, ())


def test_records_from_before_there_were_votes_are_those_of_plain_networks(tmp_path):
    plain_row = Cell("handwritten", "semi-supervised", "HOT (11)", "robust")
    default = Cell("handwritten", "semi-supervised", "hotview default", "robust")
    for one in (plain_row, default):
        finish(tmp_path, one, 0)
        path = record_path(tmp_path, one, 0)
        record = json.loads(path.read_text())
        for name in ("pseudo_labels", "fusion"):
            del record["parameters"][name]
        path.write_text(json.dumps(record))
    found = take_inventory(tmp_path, [plain_row, default], 1)
    assert found.missing == {default: (0,)}
    assert (found.n_finished, found.n_stale) == (1, 1)


def test_seed_device_and_progress_are_no_other_parameters(tmp_path):
    finish(tmp_path, CELL, 0, device="cuda", random_state=99, verbose=True)
    assert take_inventory(tmp_path, [CELL], 1).missing == {}
