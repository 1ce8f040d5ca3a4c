import ast
from pathlib import Path

import pytest
import torch

import hotview
from hotview.training.trainer import make_optimizer, optimizer_step


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
