import json
import math

import pytest

from paper.cells import Cell, control_of
from paper.models import CONTROLS, DEFAULT

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


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: cell.id)
def test_a_cell_survives_json(cell):
    assert Cell.from_json(json.loads(json.dumps(cell.to_json(), allow_nan=False))) == cell


def test_infinity_is_a_word_in_json_and_in_names():
    cell = CELLS[4]
    assert cell.to_json()["overrides"] == {"coupling__orthogonality_weight": "inf"}
    assert cell.id.endswith("orthogonality_weight=inf")


def test_names_are_readable_and_safe_for_files():
    assert CELLS[0].id == "handwritten_semi-supervised_hot-11-ae_paper"
    assert CELLS[5].id == "msrc_label-propagation-aligned"
    for cell in CELLS:
        assert set(cell.id) <= set("abcdefghijklmnopqrstuvwxyz0123456789-_=.")
    assert len({cell.id for cell in CELLS}) == len(CELLS)


def test_the_order_of_overrides_does_not_matter():
    pairs = (("coupling__n_projections", 10), ("batch_size", 50))
    one, other = (
        Cell("msrc", "unsupervised", "HOT (11)", "paper", overrides=given)
        for given in (pairs, pairs[::-1])
    )
    assert one == other
    assert one.id == other.id


@pytest.mark.parametrize(
    ("fields", "message"),
    (
        (("mnist", "unsupervised", "HOT (11)", "paper"), "dataset to be one of handwritten"),
        (("msrc", "supervised", "HOT (11)", "paper"), "task to be one of semi-supervised"),
        (("msrc", "-", "HOT (11)", "paper"), "task to be one of"),
        (("msrc", "unsupervised", "HOT (12)", "paper"), "method to be one of LSCCA"),
        (("msrc", "unsupervised", "HOT (11)", "-"), "settings to be one of paper, robust"),
        (("msrc", "unsupervised", "logistic regression", "paper"), "settings to be one of -"),
        (("msrc", "semi-supervised", DEFAULT, "paper"), "is semi-supervised and robust"),
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


def test_what_is_a_control_has_none():
    assert control_of(control_of(Cell("msrc", "semi-supervised", DEFAULT, "robust"))) is None
    assert control_of(Cell("msrc", "unsupervised", "no coupling + AE", "paper")) is None
    assert control_of(Cell("msrc", "unsupervised", "logistic regression", "-")) is None
