import math

import pytest

from hotview import AutoencoderSpec, HOTReferenceSpec, MultiViewClassifier, MultiViewEncoder
from hotview.datasets import load_handwritten
from paper.catalog import EXPERIMENTS, GRIDS, VIEWS, value_of
from paper.cells import DATASETS, Cell
from paper.estimators import parameters_of
from paper.models import CONTROLS, DEFAULT, MODELS, PLAIN, ROBUST, SETTINGS

ALL = {name: experiment.cells(DATASETS) for name, experiment in EXPERIMENTS.items()}
METHODS = [model.name for model in MODELS]


def test_the_experiments_are_those_of_the_issue():
    assert list(EXPERIMENTS) == [
        "table2",
        "averaged",
        "table3",
        "table4",
        "figure2",
        "figure3",
        "figure4",
        "figure5",
        "claims",
        "synthetic",
    ]
    assert all(experiment.name == name for name, experiment in EXPERIMENTS.items())


@pytest.mark.parametrize("name", ALL)
def test_cells_are_unique(name):
    assert len(set(ALL[name])) == len(ALL[name])


def test_names_of_different_cells_differ():
    essences = {cell.essence for cells in ALL.values() for cell in cells}
    assert len({cell.id for cell in essences}) == len(essences)


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


def test_the_number_of_trainings_is_that_of_the_issue():
    # 11 rows on three datasets with and without labels, and 12 removals: 1,560 in one setting.
    wanted = ("handwritten", "caltech7", "caltech20")
    cells = {c for name in ("table2", "table3", "table4") for c in EXPERIMENTS[name].cells(wanted)}
    paper = [c for c in cells if c.settings == "paper" and not c.method.startswith("no coupling")]
    assert 20 * len(paper) == 1560


def test_table_4_removes_every_view_and_takes_all_views_from_table_3():
    assert tuple(load_handwritten().views) == VIEWS["handwritten"]
    for dataset, views in VIEWS.items():
        cells = EXPERIMENTS["table4"].cells([dataset])
        for settings, method in (("paper", "HOT (11)"), ("-", "PCA + logistic regression")):
            found = [c.without for c in cells if (c.settings, c.method) == (settings, method)]
            assert found == [None, *views]
        assert {cell for cell in cells if cell.without is None} <= set(ALL["table3"])


def test_plans_of_figures_2_and_5_are_those_of_table_3():
    for name in ("figure2", "figure5"):
        assert set(ALL[name]) <= set(ALL["table3"])
        assert EXPERIMENTS[name].keeps_plans
    assert {cell.method for cell in ALL["figure2"]} == {"HOT (11)"}
    assert {cell.method for cell in ALL["figure5"]} == {"HOT (10)", "HOT (11)"}


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


def test_the_view_weight_is_varied_where_it_acts():
    method, _ = GRIDS["figure4"]["view_regularizer__weight"]
    cell = Cell("handwritten", "semi-supervised", method, "paper")
    assert parameters_of(cell)["view_regularizer"] == "autoencoder"


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


def test_synthetic_views_go_through_both_tasks():
    cells = ALL["synthetic"]
    assert {cell.dataset for cell in cells} == {"synthetic"}
    for task in ("semi-supervised", "unsupervised"):
        there = {cell.method for cell in cells if cell.task == task}
        assert {*METHODS, "no coupling", *CONTROLS} <= there


def test_datasets_that_are_not_at_hand_are_left_out():
    cells = EXPERIMENTS["table2"].cells(["msrc", "synthetic"])
    assert {cell.dataset for cell in cells} == {"msrc"}
    assert EXPERIMENTS["figure3"].cells(["msrc"]) == ()
