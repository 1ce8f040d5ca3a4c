import copy

import pytest
import torch

from hotview.training.adam import Adam

SHAPES = ((3, 4), (5,), (2, 2, 2))


def parameters():
    """Of two types, as one's own encoder may have them."""
    generator = torch.Generator().manual_seed(0)
    *singles, double = (torch.randn(shape, generator=generator) for shape in SHAPES)
    return [p.requires_grad_() for p in (*singles, double.double())]


def take_step(optimizer, ps, t, without=()):
    optimizer.zero_grad()
    parts = [
        ((p - i) ** 2 * (t + 1)).sum() + p.sin().sum() for i, p in enumerate(ps) if i not in without
    ]
    sum(parts).backward()
    optimizer.step()


def same_bits(ps, qs):
    return all(map(torch.equal, ps, qs))


@pytest.mark.parametrize("missing", ({}, {0: {1}}, {4: {0, 2}}, {t: {1} for t in range(9)}))
def test_bits_are_those_of_torch_whatever_has_a_gradient(missing):
    ps, qs = parameters(), parameters()
    ours, theirs = Adam(ps, 0.01), torch.optim.Adam(qs, lr=0.01, fused=True)
    for t in range(9):
        take_step(ours, ps, t, missing.get(t, ()))
        take_step(theirs, qs, t, missing.get(t, ()))
    assert same_bits(ps, qs)
    for i in range(len(ps)):
        mine, other = (o.state_dict()["state"].get(i, {}) for o in (ours, theirs))
        assert {name: x.tolist() for name, x in mine.items()} == {
            name: x.tolist() for name, x in other.items()
        }


def test_tensors_are_looked_up_once():
    ps = parameters()
    optimizer = Adam(ps, 0.01)
    take_step(optimizer, ps, 0)
    known = optimizer._known
    take_step(optimizer, ps, 1)
    assert optimizer._known is known
    assert known.all_steps.tolist() == [2.0] * len(ps)


def test_a_state_that_was_loaded_goes_on_with_the_same_bits():
    ps, qs = parameters(), parameters()
    ours, other = Adam(ps, 0.01), Adam(qs, 0.01)
    for t in range(3):
        take_step(ours, ps, t)
    for t in range(2):  # elsewhere before
        take_step(other, qs, t + 5)
    with torch.no_grad():
        for p, q in zip(ps, qs, strict=True):
            q.copy_(p)
    other.load_state_dict(copy.deepcopy(ours.state_dict()))
    for t in range(3, 6):
        take_step(ours, ps, t)
        take_step(other, qs, t)
    assert same_bits(ps, qs)


def test_a_learning_rate_that_is_changed_is_used():
    ps, qs = parameters(), parameters()
    ours, theirs = Adam(ps, 0.01), torch.optim.Adam(qs, lr=0.01, fused=True)
    for t in range(6):
        for optimizer, xs in ((ours, ps), (theirs, qs)):
            optimizer.param_groups[0]["lr"] = 0.01 / (t + 1)
            take_step(optimizer, xs, t)
    assert same_bits(ps, qs)


def test_a_closure_is_called():
    ps = parameters()
    optimizer = Adam(ps, 0.01)
    for t in range(2):
        take_step(optimizer, ps, t)
    assert optimizer.step(lambda: 3.0) == 3.0
