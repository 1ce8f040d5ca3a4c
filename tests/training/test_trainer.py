import pytest
import torch

from hotview.training.trainer import make_optimizer


def test_without_parameters_there_is_no_optimizer():
    assert make_optimizer([torch.nn.ReLU()], 0.1) is None


def test_frozen_parameters_are_left_out():
    layer = torch.nn.Linear(2, 3)
    layer.bias.requires_grad_(False)
    (group,) = make_optimizer([layer], 0.1).param_groups
    assert group["lr"] == pytest.approx(0.1)
    assert [id(p) for p in group["params"]] == [id(layer.weight)]
