import json
import math

import pytest

from hotview import AutoencoderSpec, HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview.datasets import load_handwritten
from paper.catalog import EXPERIMENTS, GRIDS, VIEWS, value_of
from paper.cells import DATASETS, Cell, control_of
from paper.models import CONTROLS, DEFAULT, MODELS, PLAIN, ROBUST, SETTINGS
from paper.published import PUBLISHED, REMOVED, Figure, published_figure

ALL = {name: experiment.cells(DATASETS) for name, experiment in EXPERIMENTS.items()}
CELLS = (
    Cell("handwritten", "semi-supervised", "HOT (11) + AE", "paper"),
    Cell("handwritten", "unsupervised", "HOT (11)", "robust", without="mor"),
    Cell("caltech7", "unsupervised", "SW (8)", "paper", overrides=(("batch_size", 50),)),
    Cell("handwritten", "unsupervised", "HOT (10)", "paper", split=0),
    Cell(
        "handwritten",
        "unsupervised",
        "HOT (10)",
        "paper",
        overrides=(("coupling__orthogonality_weight", math.inf),),
    ),
    Cell("msrc", "-", "label propagation, aligned", "-"),
)


def test_a_cell_survives_json():
    for cell in CELLS:
        assert Cell.from_json(json.loads(json.dumps(cell.to_json(), allow_nan=False))) == cell
    assert CELLS[4].to_json()["overrides"] == {"coupling__orthogonality_weight": "inf"}


def test_names_are_readable_and_safe_for_files():
    assert CELLS[0].id == "handwritten_semi-supervised_hot-11-ae_paper"
    assert CELLS[5].id == "msrc_label-propagation-aligned"
    for cell in CELLS:
        assert set(cell.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_=.")
    assert len({cell.id for cell in CELLS}) == len(CELLS)
    essences = {cell.essence for cells in ALL.values() for cell in cells}
    assert len({cell.id for cell in essences}) == len(essences)
    pairs = (("coupling__n_projections", 10), ("batch_size", 50))  # in any order
    one, other = (Cell("msrc", "unsupervised", "HOT (11)", "paper", overrides=given)
                  for given in (pairs, pairs[::-1]))  # fmt: skip
    assert (one, one.id) == (other, other.id)


@pytest.mark.parametrize(
    ("fields", "message"),
    (
        (("mnist", "unsupervised", "HOT (11)", "paper"), "dataset to be one of handwritten"),
        (("msrc", "supervised", "HOT (11)", "paper"), "task to be one of semi-supervised"),
        (("msrc", "unsupervised", "HOT (12)", "paper"), "method to be one of LSCCA"),
        (("msrc", "unsupervised", "HOT (11)", "-"), "settings to be one of paper, robust"),
        (("msrc", "unsupervised", DEFAULT, "robust"), "is semi-supervised and robust"),
    ),
)
def test_what_does_not_exist_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        Cell(*fields)


def test_a_control_is_run_once_for_both_tasks():
    for name in CONTROLS:
        semi, un = (
            Cell("handwritten", task, name, "-") for task in ("semi-supervised", "unsupervised")
        )
        assert semi != un
        assert semi.essence == un.essence
        assert semi.id == un.id
    trained = Cell("handwritten", "semi-supervised", "HOT (11)", "paper")
    assert trained.essence == trained


def test_controls_differ_in_what_is_tested_alone():
    task, settings = "semi-supervised", "robust"
    pairs = {
        "HOT (11)": "no coupling",
        "AECCA": "no coupling + AE",
        "SW (9) + AE": "no coupling + AE",
    }
    for method, expected in pairs.items():
        control = control_of(Cell("msrc", task, method, settings))
        assert control == Cell("msrc", task, expected, settings)
    default = Cell("msrc", task, DEFAULT, settings)
    assert dict(control_of(default).overrides) == {"coupling": "none"}
    assert control_of(CELLS[1]) == Cell("handwritten", "unsupervised", "HOT (11)", "robust")
    assert control_of(CELLS[4]) == Cell("handwritten", "unsupervised", "HOT (10)", "paper")
    for control in (control_of(default), Cell("msrc", "unsupervised", "logistic regression", "-")):
        assert control_of(control) is None


METHODS = [model.name for model in MODELS]


@pytest.mark.parametrize(("name", "n_extra"), (("table2", 2), ("table3", 0)))
def test_every_table_has_all_rows_in_both_settings_and_all_controls(name, n_extra):
    for dataset in ("handwritten", "caltech7", "caltech20", "msrc"):
        cells = EXPERIMENTS[name].cells([dataset])
        for settings in ("paper", "robust"):
            there = [cell.method for cell in cells if cell.settings == settings]
            plain = [method for method in there if method != DEFAULT]
            assert plain == [*METHODS, "no coupling", "no coupling + AE"]
        assert [cell.method for cell in cells if cell.is_control] == list(CONTROLS)
        assert len(cells) == 2 * 13 + 5 + n_extra


def test_table_4_removes_every_view_and_takes_all_views_from_table_3():
    assert tuple(load_handwritten().views) == VIEWS["handwritten"]
    for dataset, views in VIEWS.items():
        cells = EXPERIMENTS["table4"].cells([dataset])
        for settings, method in (("paper", "HOT (11)"), ("-", "PCA + logistic regression")):
            found = [c.without for c in cells if (c.settings, c.method) == (settings, method)]
            assert found == [None, *views]
        assert {cell for cell in cells if cell.without is None} <= set(ALL["table3"])


@pytest.mark.parametrize(("name", "table"), (("figure3", "table3"), ("figure4", "table2")))
def test_curves_vary_one_parameter_and_share_a_point_with_the_table(name, table):
    for settings in ("paper", "robust"):
        cells = [cell for cell in ALL[name] if cell.settings == settings]
        assert all(len(cell.overrides) <= 1 for cell in cells)
        for parameter, (method, values) in GRIDS[name].items():
            curve = [
                c for c in cells if c.method == method and set(dict(c.overrides)) <= {parameter}
            ]
            assert sorted(value_of(cell, parameter) for cell in curve) == sorted(values)
            assert sum(cell in ALL[table] for cell in curve) == 1


@pytest.mark.parametrize(
    ("task", "kind"), (("semi-supervised", MultiViewClassifier), ("unsupervised", MultiViewEncoder))
)
def test_what_counts_as_unchanged_is_the_default_of_the_estimator(task, kind):
    specs = {"coupling": HOTReferenceSpec(n_references=3), "view_regularizer": AutoencoderSpec()}
    defaults = kind(**specs).get_params()
    defaults["view_regularizer__weight"] = kind._regularizer_weight
    plain = defaults | (dict(PLAIN) if task == "semi-supervised" else {})
    assert dict(ROBUST[task]) == {name: plain[name] for name in ROBUST[task]}
    varied = {parameter for grid in GRIDS.values() for parameter in grid}
    assert varied <= set(ROBUST[task])
    assert varied <= set(SETTINGS)


def test_claims_hold_the_exact_constraint_beside_the_relaxed_one():
    exact = [
        c
        for c in ALL["claims"]
        if dict(c.overrides).get("coupling__orthogonality_weight") == math.inf
    ]
    assert len(exact) == 8
    tables = {*ALL["table2"], *ALL["table3"]}
    for cell in exact:
        relaxed = Cell(cell.dataset, cell.task, cell.method, cell.settings)
        assert relaxed in ALL["claims"]
        assert relaxed in tables


def test_the_stability_of_plans_is_judged_on_one_split():
    fixed = [c for c in ALL["claims"] if c.split is not None]
    assert {cell.split for cell in fixed} == {0}
    paper = {tuple(v for _, v in c.overrides) for c in fixed if c.settings == "paper"}
    assert paper == {(3, "iid"), (10, "orthogonal"), (50, "orthogonal")}
    assert len(fixed) == 2 * (3 + 1)
    # The paper's directions are named, so that the cell is not the one of other splits.
    assert not set(fixed) & {*ALL["table3"]}


def test_datasets_that_are_not_at_hand_are_left_out():
    cells = EXPERIMENTS["table2"].cells(["msrc", "synthetic"])
    assert {cell.dataset for cell in cells} == {"msrc"}
    assert EXPERIMENTS["figure3"].cells(["msrc"]) == ()


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
