import io
import json
import math
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from rich.console import Console

from paper import environment
from paper.cells import Cell
from paper.data import load_dataset
from paper.environment import gpu_lock, one_thread, pick_device
from paper.estimators import make_estimator, plain_parameters
from paper.inventory import take_inventory
from paper.json_files import plain, write_json
from paper.progress import TrainingsBar
from paper.records import FORMAT, ForeignRecordError, read_record, record_path, write_record
from paper.runs import append_run, read_runs
from paper.schedule import make_items

CELL = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
CONTROL = Cell("handwritten", "-", "logistic regression", "-")
RECORD = {"trial": 7, "scores": {"test": 0.9}, "dataset": {"fingerprint": "abc"}}


def test_a_record_is_where_it_should_be_and_comes_back(tmp_path):
    path = write_record(tmp_path, CELL, RECORD)
    assert path.relative_to(tmp_path).as_posix() == f"records/{CELL.id}/trial-007.json"
    found = read_record(tmp_path, CELL, 7, "abc")
    assert found == {"format": FORMAT, "cell": CELL.to_json(), **RECORD}


def change(**changes):
    return lambda record: json.dumps({**record, **changes})


@pytest.mark.parametrize(
    ("spoil", "message"),
    (
        (lambda record: json.dumps(record)[:-20], "cannot be read as a record"),
        (lambda record: "\udcff", "cannot be read as a record"),
        (lambda record: "[1, 2]", "expected 'hotview-record-1', but got 'list'"),
        (change(format="hotview-record-0"), "but got 'hotview-record-0'"),
        (change(cell={}), "another cell or trial"),
        (change(dataset={"fingerprint": "def"}), "from other data: expected fingerprint abc"),
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


def finish(out, cell, *trials, **changed):
    for trial in trials:
        about = {"fingerprint": load_dataset(cell.dataset, None, trial).fingerprint}
        record = {"trial": trial, "scores": {}, "dataset": about}
        if not cell.is_control:
            given = plain_parameters(make_estimator(cell, trial))
            record["parameters"] = {**given, **changed}
        write_record(out, cell, record)


@pytest.mark.parametrize("again", (False, True))
def test_what_is_foreign_is_neither_missing_nor_finished(tmp_path, again):
    write_record(tmp_path, CELL, {"trial": 1, "scores": {}, "dataset": {"fingerprint": "other"}})
    path = record_path(tmp_path, CELL, 2)
    path.write_text("half a rec")
    found = take_inventory(tmp_path, [CELL], 4, again=again)
    assert (found.missing, found.n_finished) == ({CELL: (0, 3)}, 0)
    other, half = found.foreign
    assert "from other data" in other
    assert str(path) in half


def test_what_is_not_there_or_of_other_parameters_is_missing(tmp_path):
    finish(tmp_path, CELL, 0)
    finish(tmp_path, CELL, 2, device="cuda", random_state=99, verbose=True)
    found = take_inventory(tmp_path, [CELL, CELL], 4)
    assert found.missing == {CELL: (1, 3)}
    assert (found.n_missing, found.n_finished, found.n_stale, found.foreign) == (2, 2, 0, ())
    finish(tmp_path, CELL, 1, coupling__n_projections=7)
    found = take_inventory(tmp_path, [CELL], 4)
    assert found.missing == {CELL: (1, 3)}
    assert (found.n_finished, found.n_stale) == (2, 1)
    both = [replace(CONTROL, task=task) for task in ("semi-supervised", "unsupervised")]
    both = take_inventory(tmp_path, both, 1)  # of one essence, which counts once
    assert both.missing == {CONTROL: (0,)}


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


def test_runs_are_noted_in_order(tmp_path):
    assert read_runs(tmp_path) == []
    for seconds in (1.5, 2.5):
        path = append_run(tmp_path, {"seconds": seconds})
    assert read_runs(tmp_path) == [{"seconds": 1.5}, {"seconds": 2.5}]
    # Reports take every .json of this folder for an experiment.
    assert path.relative_to(tmp_path).as_posix() == "paper/runs.jsonl"


def test_items_hold_every_missing_trial_once_and_the_longest_first():
    long = Cell("caltech20", "unsupervised", "HOT (11) + AE", "paper")
    missing = {CELL: tuple(range(20)), CONTROL: (1, 2, 3, 9), long: (0,)}
    for device, together in (("cpu", 10), ("cuda:0", 20)):
        items = make_items(missing, device)
        for cell, trials in missing.items():
            found = [t for item in items if item.cell == cell for t in item.trials]
            assert sorted(found) == list(trials)
        assert {len(item.trials) for item in items if item.cell == CELL} == {together}
    firsts = [item.cell for item in make_items(dict.fromkeys(missing, (0,)))]
    assert firsts == [long, CELL, CONTROL]
    # What was together stays together, or the last bits depended on where a run was interrupted.
    assert {item.trials for item in make_items({CELL: (0, 9, 10, 12)})} == {(0, 9), (10, 12)}


def test_numbers_of_all_libraries_become_plain():
    for given, expected in (
        (torch.tensor([[1 / 3, 2 / 3]], dtype=torch.float64), [[0.333, 0.667]]),
        (np.array([1, 2]), [1, 2]),
        (np.float32(0.5), 0.5),
        ({"yes": np.True_}, {"yes": True}),
        ((128,), [128]),
        ([math.nan, math.inf, -math.inf], [None, "inf", "-inf"]),
        ([None, "pix"], [None, "pix"]),
    ):
        found = plain(given, 3)
        assert found == expected
        json.dumps(found, allow_nan=False)


def test_a_file_is_whole_or_absent(tmp_path):
    path = tmp_path / "new" / "folder" / "a.json"
    write_json(path, {"x": 1})
    assert path.read_text() == '{"x": 1}\n'
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_json(path, {"x": math.nan})
    assert path.read_text() == '{"x": 1}\n'
    assert [file.name for file in path.parent.iterdir()] == ["a.json"]


def test_a_device_that_is_not_there_is_refused():
    assert pick_device("cpu") == "cpu"
    assert pick_device("auto") in ("cpu", "cuda")
    with pytest.raises(ValueError, match="Expected device to be 'auto' or"):
        pick_device("abacus")


def test_one_thread_inside_and_as_many_as_before_after():
    torch.set_num_threads(before := 2)
    try:
        with suppress(RuntimeError), one_thread():
            assert torch.get_num_threads() == 1
            raise RuntimeError
        assert torch.get_num_threads() == before
    finally:
        torch.set_num_threads(1)


def test_few_train_on_a_gpu_at_a_time(tmp_path, monkeypatch):
    monkeypatch.setattr(environment.tempfile, "gettempdir", lambda: str(tmp_path))
    inside, most = [], []

    def work(name):
        with gpu_lock("cuda:0"):
            inside.append(name)
            time.sleep(0.05)
            most.append(len(inside))
            inside.remove(name)

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3), timeout=120))
    assert most == [1, 1, 1]


def test_ten_lines_at_most_in_a_file():
    console = Console(file=io.StringIO(), width=80)
    with TrainingsBar(100, 100.0, console) as bar:
        for _ in range(100):
            bar.advance(1, 1.0)
    lines = console.file.getvalue().splitlines()
    assert len(lines) == 10
    assert lines[0].startswith("10/100 trainings, about")
    assert lines[-1] == "100/100 trainings, about 0 s left"
