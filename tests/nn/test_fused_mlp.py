import copy

import pytest
import torch
from torch import nn

from hotview.nn import fused_mlp
from hotview.nn.fused_mlp import run_modules
from hotview.nn.mlp import make_linear, make_perceptron

COLUMNS = (4, 7, 3, 5)


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def modules():
    """Perceptrons of three depths, and a layer without a bias."""
    made = [
        make_perceptron(D, hidden, 2, seeded(D))
        for D, hidden in zip(COLUMNS, [(6,), (8, 5), ()], strict=False)
    ]
    return [*made, make_linear(COLUMNS[3], 2, seeded(9), bias=False)]


def rows(dtype=torch.float32):
    return [torch.randn(6, D, generator=seeded(D), dtype=dtype) for D in COLUMNS]


def joined(Ys):
    return [type(Y.grad_fn).__name__ for Y in Ys] == ["_PerceptronsBackward"] * len(Ys)


def test_values_and_gradients_are_those_of_the_modules():
    ours, theirs = modules(), modules()
    Xs, others = ([X.requires_grad_() for X in rows()] for _ in range(2))
    Ys, expected = run_modules(ours, Xs), [f(X) for f, X in zip(theirs, others, strict=True)]
    assert joined(Ys)
    for each in (Ys, expected):
        sum((s + 1) * Y.square().sum() for s, Y in enumerate(each)).backward()
    parameters = [[p for f in fs for p in f.parameters()] for fs in (ours, theirs)]
    for x, y in [*zip(Xs, others, strict=True), *zip(*parameters, strict=True)]:
        torch.testing.assert_close(x.grad, y.grad)
    for Y, other in zip(Ys, expected, strict=True):
        torch.testing.assert_close(Y, other)


def test_gradients_are_those_of_differences():
    f, X = make_perceptron(4, (6, 5), 2, seeded(0)).double(), rows(torch.float64)[0]
    tensors = [x.detach().requires_grad_() for x in (X, *f.parameters())]
    assert torch.autograd.gradcheck(lambda *x: fused_mlp._Perceptrons.apply([3], *x), tensors)


def test_rows_and_weights_are_not_changed():
    fs, Xs = modules(), rows()
    before = copy.deepcopy([*Xs, *(p.detach() for f in fs for p in f.parameters())])
    sum(Y.sum() for Y in run_modules(fs, Xs)).backward()
    assert all(map(torch.equal, [*Xs, *(p.detach() for f in fs for p in f.parameters())], before))


def test_what_is_frozen_gets_no_gradient_and_asks_for_none():
    fs, Xs = modules(), rows()
    fs[0].requires_grad_(False)
    fs[1][2].weight.requires_grad_(False)
    Ys = run_modules(fs, Xs)
    assert [Y.requires_grad for Y in Ys] == [False, True, True, True]
    sum(Y.sum() for Y in Ys).backward()
    parameters = [p for f in fs for p in f.parameters()]
    assert all((p.grad is not None) == p.requires_grad for p in parameters)


def test_a_view_without_a_loss_has_no_gradient():
    fs, Xs = modules(), [X.requires_grad_() for X in rows()]
    run_modules(fs, Xs)[1].sum().backward()
    has = [[p.grad is not None for p in (X, *f.parameters())] for f, X in zip(fs, Xs, strict=True)]
    assert [set(each) for each in has] == [{False}, {True}, {False}, {False}]


def test_tied_weights_get_the_gradients_of_all_their_uses():
    f, Xs = make_perceptron(4, (4,), 4, seeded(0)), [rows()[0], rows()[0] + 1]
    g = copy.deepcopy(f)
    sum(Y.square().sum() for Y in run_modules([f, f], Xs)).backward()
    sum(g(X).square().sum() for X in Xs).backward()
    for p, q in zip(f.parameters(), g.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_gradients_can_be_asked_for_twice():
    f = make_perceptron(4, (6, 5), 2, seeded(0))
    loss = run_modules([f], rows()[:1])[0].square().sum()
    first, second = (torch.autograd.grad(loss, f[0].weight, retain_graph=True) for _ in range(2))
    assert torch.equal(*first, *second)


def hooked():
    f = make_perceptron(3, (4,), 2, seeded(0))
    f[0].register_forward_hook(lambda module, inputs, Y: Y + 1)
    return f


def ending_in_a_relu():
    return nn.Sequential(nn.Linear(3, 2), nn.ReLU())


def with_a_sigmoid():
    return nn.Sequential(nn.Linear(3, 4), nn.Sigmoid(), nn.Linear(4, 2))


class Doubled(nn.Linear):
    def forward(self, X):
        return 2 * super().forward(X)


@pytest.mark.parametrize(
    "make",
    (
        hooked,
        ending_in_a_relu,
        with_a_sigmoid,
        lambda: Doubled(3, 2),
        lambda: nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 4), nn.Linear(4, 2)),
        nn.Sequential,
    ),
)
def test_whatever_else_a_module_is_it_is_called(make):
    f, plain, X = make(), modules()[0], torch.randn(5, 3, generator=seeded(1))
    Ys = run_modules([f, plain], [X, rows()[0]])
    assert not joined(Ys)
    torch.testing.assert_close(Ys[0], f(X))


def test_modules_are_called_where_nothing_learns_or_others_choose_the_precision():
    fs, Xs = modules(), rows()
    with torch.no_grad():
        assert not fused_mlp._can_be_joined(Xs)
    with torch.autocast("cpu", torch.bfloat16):
        assert run_modules(fs, Xs)[0].dtype == torch.bfloat16
    assert not fused_mlp._can_be_joined([X.expand(2, 6, -1) for X in Xs])  # of replicas


def test_each_view_must_come():
    with pytest.raises(ValueError, match="zip"):
        run_modules(modules(), rows()[:2])


def test_a_layer_that_comes_twice_is_used_twice():
    a, b, r = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4), torch.nn.ReLU()
    module, X = torch.nn.Sequential(a, r, b, r, a), torch.randn(7, 4)
    (found,) = run_modules([module], [X])
    torch.testing.assert_close(found, module(X))
    expected = torch.autograd.grad(module(X).square().sum(), list(module.parameters()))
    grads = torch.autograd.grad(found.square().sum(), list(module.parameters()))
    torch.testing.assert_close(grads, expected)


def test_a_replaced_forward_is_called():
    layer, X = torch.nn.Linear(4, 3), torch.randn(7, 4)
    layer.forward = lambda x: torch.zeros(len(x), 3)
    assert torch.equal(run_modules([layer], [X])[0], torch.zeros(7, 3))
