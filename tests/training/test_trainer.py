import ast
import math
import pickle
from pathlib import Path

import pandas as pd
import pytest
import torch

import hotview
from hotview.losses import Terms
from hotview.losses.objective import Evaluation
from hotview.training.trainer import History, RunningMeans, make_optimizer, optimizer_step


def test_without_parameters_there_is_no_optimizer():
    assert make_optimizer([torch.nn.ReLU()], 0.1) is None


def test_frozen_parameters_are_left_out():
    layer = torch.nn.Linear(2, 3)
    layer.bias.requires_grad_(False)
    (group,) = make_optimizer([layer], 0.1).param_groups
    assert group["lr"] == pytest.approx(0.1)
    assert [id(p) for p in group["params"]] == [id(layer.weight)]


def test_a_step_follows_the_gradient_of_this_loss_alone():
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=0.1)
    for _ in range(2):
        optimizer_step(optimizer, x.square().sum())
    assert x.tolist() == pytest.approx([0.64, 0.64])


def test_gradients_are_reduced_before_the_update():
    x = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([x], lr=1.0)
    optimizer_step(optimizer, x.sum(), lambda: x.grad.mul_(0.5))
    assert x.tolist() == [0.5, 0.5]


def test_no_other_module_takes_an_optimizer_step():
    root = Path(hotview.__file__).parent
    found = {
        path.relative_to(root).as_posix()
        for path in root.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and (node.attr == "zero_grad" or (node.attr == "step" and "optimizer" in ast.unparse(node)))
    }
    assert found == {"training/trainer.py"}


def test_sums_are_means_over_steps_of_every_member():
    sums = RunningMeans()
    for step in (1.0, 3.0):
        parts = {"a": torch.tensor([step, 2 * step]), "b": torch.tensor(step)}
        sums.add(Evaluation(Terms(parts), []))
    assert sums.means(2) == [{"loss": 4.0, "a": 2.0, "b": 2.0}, {"loss": 6.0, "a": 4.0, "b": 2.0}]


def test_what_is_added_is_not_changed():
    sums, part = RunningMeans(), torch.ones(1)
    sums.add(Evaluation(Terms({"a": part}), []))
    sums.add(Evaluation(Terms({"a": part}), []))
    assert part.item() == 1


ROWS = [
    {"epoch": 1, "loss": 2.0},
    {"epoch": 2, "loss": 1.5, "validation_score": 0.5},
    {"epoch": 3, "loss": 1.0},
]


def test_rows_by_number_slice_and_name():
    history = History(ROWS)
    assert len(history) == 3
    assert history[0] == ROWS[0]
    assert history[-1] == ROWS[2]
    assert history[1:] == History(ROWS[1:])
    assert history["loss"] == [2.0, 1.5, 1.0]
    assert list(history) == ROWS
    assert list(reversed(history)) == ROWS[::-1]
    with pytest.raises(IndexError):
        history[3]


def test_what_was_not_recorded_in_an_epoch_is_nan():
    scores = History(ROWS)["validation_score"]
    assert scores[1] == 0.5
    assert math.isnan(scores[0])
    assert math.isnan(scores[2])


def test_what_was_never_recorded_is_an_error_that_lists_the_names():
    history = History(ROWS)
    assert history.names == ["epoch", "loss", "validation_score"]
    with pytest.raises(KeyError, match=r"'rank' was not recorded.*epoch, loss, validation_score"):
        history["rank"]


def test_nothing_that_is_read_or_was_given_changes_it():
    rows = [dict(row) for row in ROWS]
    history = History(rows)
    rows[0]["loss"] = 9.0
    rows.append({})
    history[0]["loss"] = 9.0
    next(iter(history))["loss"] = 9.0
    history["loss"].append(9.0)
    frame = history.to_pandas()
    frame.loc[0, "loss"] = 9.0
    assert list(history) == ROWS
    with pytest.raises(TypeError):
        history[0] = {}


def test_a_data_frame_of_it():
    frame = History(ROWS).to_pandas()
    pd.testing.assert_frame_equal(frame, pd.DataFrame(ROWS))
    rows = [{"loss": 1.0, "epoch": 1}, {"accuracy": 0.5}]
    assert list(History(rows).to_pandas().columns) == ["loss", "epoch", "accuracy"]


def test_an_empty_history():
    history = History()
    assert len(history) == 0
    assert history.names == []
    assert history.to_pandas().shape == (0, 0)
    assert not history


def test_equality_and_copies():
    assert History(ROWS) == History(ROWS)
    assert History(ROWS) != History(ROWS[:2])
    assert History(ROWS) != ROWS
    assert pickle.loads(pickle.dumps(History(ROWS))) == History(ROWS)


def test_it_says_what_it_holds():
    assert repr(History(ROWS)) == "History(3 epochs: epoch, loss, validation_score)"
