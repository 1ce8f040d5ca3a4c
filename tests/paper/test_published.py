import math

from paper.catalog import VIEWS
from paper.cells import Cell
from paper.models import MODELS
from paper.published import PUBLISHED, REMOVED, Figure, published_figure


def test_tables_are_complete():
    for task in ("semi-supervised", "unsupervised"):
        assert set(PUBLISHED[task]) == {"caltech7", "caltech20", "handwritten"}
        for table in PUBLISHED[task].values():
            assert list(table) == [model.name for model in MODELS]
    assert {dataset: tuple(views) for dataset, views in REMOVED.items()} == dict(VIEWS)


def test_numbers_stand_in_the_right_column():
    # Read from the paper's tables by hand: one of each column.
    semi, un = PUBLISHED["semi-supervised"], PUBLISHED["unsupervised"]
    assert semi["caltech7"]["HOT (11) + AE"] == Figure(88.98, 2.15)
    assert semi["caltech20"]["SW (9)"] == (72.50, 2.41)
    assert semi["handwritten"]["LSCCA"] == (87.98, 3.46)
    assert un["caltech7"]["DGCCA"] == (75.56, 4.59)
    assert un["caltech20"]["HOT (10)"] == (60.85, 3.31)
    assert un["handwritten"]["SW (8)"] == (65.67, 9.80)
    assert REMOVED["caltech7"]["HOG"] == (82.95, 2.12)
    assert REMOVED["handwritten"]["mor"] == (79.30, 2.58)


def test_sums_of_all_numbers():
    # A number that was typed wrong changes a sum; these were added up from the paper's source.
    means = [
        f.mean for task in PUBLISHED.values() for table in task.values() for f in table.values()
    ]
    stds = [f.std for task in PUBLISHED.values() for table in task.values() for f in table.values()]
    assert len(means) == 66
    assert math.isclose(sum(means), 5248.63, abs_tol=1e-6)
    assert math.isclose(sum(stds), 184.68, abs_tol=1e-6)


def test_figures_are_found_whatever_our_settings():
    for settings in ("paper", "robust"):
        cell = Cell("handwritten", "unsupervised", "HOT (11)", settings)
        assert published_figure(cell) == (87.12, 2.10)


def test_where_the_paper_is_silent_there_is_no_figure():
    silent = (
        Cell("handwritten", "unsupervised", "no coupling", "paper"),
        Cell("msrc", "unsupervised", "HOT (11)", "paper"),
        Cell("handwritten", "unsupervised", "HOT (11)", "paper", split=0),
        Cell("handwritten", "unsupervised", "HOT (11)", "paper", overrides=(("batch_size", 50),)),
        Cell("handwritten", "unsupervised", "HOT (10)", "paper", without="mor"),
        Cell("handwritten", "semi-supervised", "HOT (11)", "paper", without="mor"),
        Cell("handwritten", "unsupervised", "PCA + logistic regression", "-", without="mor"),
        Cell("caltech20", "unsupervised", "HOT (11)", "paper", without="HOG"),
    )
    assert [published_figure(cell) for cell in silent] == [None] * len(silent)
