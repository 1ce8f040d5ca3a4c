import pytest
import torch

from hotview.losses import Terms
from hotview.losses.objective import Evaluation
from hotview.training.course import Sums, diverged


def test_sums_are_means_over_steps_of_every_member():
    sums = Sums()
    for step in (1.0, 3.0):
        parts = {"a": torch.tensor([step, 2 * step]), "b": torch.tensor(step)}
        sums.add(Evaluation(Terms(parts), []))
    assert sums.means(2) == [{"loss": 4.0, "a": 2.0, "b": 2.0}, {"loss": 6.0, "a": 4.0, "b": 2.0}]


def test_what_is_added_is_not_changed():
    sums, part = Sums(), torch.ones(1)
    sums.add(Evaluation(Terms({"a": part}), []))
    sums.add(Evaluation(Terms({"a": part}), []))
    assert part.item() == 1


def test_the_error_names_the_epoch_and_a_remedy():
    with pytest.raises(FloatingPointError, match=r"in epoch 3 \(x\).*Lower learning_rate"):
        raise diverged(3, "x")
