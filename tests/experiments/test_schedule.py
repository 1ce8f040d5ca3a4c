from hotview.experiments import schedule
from hotview.experiments.catalog import EXPERIMENTS
from hotview.experiments.cells import DATASETS, Cell
from hotview.experiments.records import read_record, record_path
from hotview.experiments.schedule import (
    Item,
    expected_seconds,
    make_items,
    run_item,
    run_items,
)

TRAINED = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
CONTROL = Cell("handwritten", "-", "logistic regression", "-")


def test_items_hold_every_missing_trial_once():
    missing = {TRAINED: tuple(range(25)), CONTROL: (1, 2, 3, 9)}
    for device in ("cpu", "cuda"):
        items = make_items(missing, device)
        for cell, trials in missing.items():
            found = [t for item in items if item.cell == cell for t in item.trials]
            assert sorted(found) == list(trials)


def test_more_trials_are_trained_together_on_a_gpu():
    missing = {TRAINED: tuple(range(20))}
    assert [len(item.trials) for item in make_items(missing, "cpu")] == [10, 10]
    assert [len(item.trials) for item in make_items(missing, "cuda:0")] == [20]


def test_what_was_together_stays_together_when_some_is_done():
    # Or the last bits could depend on where a run was interrupted.
    assert {item.trials for item in make_items({TRAINED: (0, 9, 10, 12)})} == {(0, 9), (10, 12)}


def test_the_longest_come_first():
    cells = [
        Cell("handwritten", "unsupervised", "HOT (11)", "paper"),
        Cell("handwritten", "-", "logistic regression", "-"),
        Cell("caltech20", "unsupervised", "HOT (11) + AE", "paper"),
    ]
    items = make_items(dict.fromkeys(cells, (0,)))
    assert [cells.index(item.cell) for item in items] == [2, 0, 1]


def test_every_cell_has_an_expected_time():
    for experiment in EXPERIMENTS.values():
        for cell in experiment.cells(DATASETS):
            assert 0 < expected_seconds(cell, "cuda") <= expected_seconds(cell) < 600


def test_small_batches_take_longer():
    usual = Cell("handwritten", "unsupervised", "HOT (11)", "paper")
    small = Cell(
        "handwritten", "unsupervised", "HOT (11)", "paper", overrides=(("batch_size", 50),)
    )
    assert expected_seconds(small) > 2 * expected_seconds(usual)


def test_one_failure_does_not_stop_the_rest(tmp_path):
    wrong = Item(Cell("handwritten", "-", "logistic regression", "-", without="nose"), (0,))
    bad = Item(Cell("msrc", "-", "logistic regression", "-"), (0,))
    good = Item(CONTROL, (0,))
    done = list(run_items([wrong, bad, good], tmp_path))
    assert done[0].error.startswith("ValueError: handwritten has no view 'nose'")
    assert done[1].error.startswith("FileNotFoundError: It is not in the package")
    assert done[2].error is None
    assert read_record(tmp_path, good.cell, 0) is not None
    assert not record_path(tmp_path, wrong.cell, 0).exists()


def test_an_item_writes_all_its_records(tmp_path):
    run_item(Item(CONTROL, (1, 3)), tmp_path)
    names = sorted(path.name for path in record_path(tmp_path, CONTROL, 0).parent.iterdir())
    assert names == ["trial-001.json", "trial-003.json"]


def test_one_training_that_diverges_does_not_cost_the_others_theirs(tmp_path, monkeypatch):
    def run(cell, trials, device, data):
        if 1 in trials:
            raise FloatingPointError("The loss is no longer finite")
        return [{"trial": trial, "scores": {"test": 0.5}} for trial in trials]

    monkeypatch.setattr(schedule, "run_cell", run)
    done = run_item(Item(TRAINED, (0, 1, 2)), tmp_path)
    assert done.error == "trial 1: The loss is no longer finite"
    assert [read_record(tmp_path, TRAINED, t) is not None for t in range(3)] == [True, False, True]
