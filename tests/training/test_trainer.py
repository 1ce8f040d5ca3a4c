import math
import pickle

import pandas as pd
import pytest
import torch

from hotview.losses import Terms
from hotview.losses.objective import Evaluation
from hotview.training.trainer import History, RunningMeans


def test_sums_are_means_over_steps_of_every_member():
    sums = RunningMeans()
    for step in (1.0, 3.0):
        parts = {"a": torch.tensor([step, 2 * step]), "b": torch.tensor(step)}
        sums.add(Evaluation(Terms(parts), []))
    assert sums.means(2) == [{"loss": 4.0, "a": 2.0, "b": 2.0}, {"loss": 6.0, "a": 4.0, "b": 2.0}]


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
    assert repr(history) == "History(3 epochs: epoch, loss, validation_score)"
    scores = history["validation_score"]  # not recorded in all epochs
    assert scores[1] == 0.5
    assert math.isnan(scores[0])
    with pytest.raises(IndexError):
        history[3]
    with pytest.raises(KeyError, match=r"'rank' was not recorded.*epoch, loss, validation_score"):
        history["rank"]
    empty = History()
    assert (len(empty), empty.names, empty.to_pandas().shape) == (0, [], (0, 0))
    assert not empty
    assert history == History(ROWS) == pickle.loads(pickle.dumps(history))
    assert history != History(ROWS[:2])
    assert history != ROWS
    pd.testing.assert_frame_equal(history.to_pandas(), pd.DataFrame(ROWS))


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
