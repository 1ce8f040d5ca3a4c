from paper.catalog import EXPERIMENTS
from paper.cells import DATASETS, Cell
from paper.schedule import expected_seconds, make_items

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
