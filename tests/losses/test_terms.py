import pytest
import torch

from hotview.losses import Terms


def make_terms():
    x = torch.tensor([1.0, 2.0, 4.0], dtype=torch.float64, requires_grad=True)
    return x, Terms({"transport": 2 * x[0], "orthogonality": x[1] * x[2]})


def test_the_total_is_the_sum_of_the_parts():
    _, terms = make_terms()
    assert terms.total.item() == 2 + 8
    assert terms["transport"].item() == 2
    assert terms["orthogonality"].item() == 8


def test_the_total_carries_the_gradient_of_every_part():
    x, terms = make_terms()
    terms.total.backward()
    assert x.grad.tolist() == [2, 4, 2]


def test_no_part_adds_up_to_nothing():
    total = Terms({}).total
    assert total.item() == 0
    assert total.shape == ()
    assert not total.requires_grad


def test_a_weight_multiplies_every_part_and_leaves_the_terms_alone():
    x, terms = make_terms()
    weighted = terms.times(0.5)
    assert {name: part.item() for name, part in weighted.parts.items()} == {
        "transport": 1,
        "orthogonality": 4,
    }
    assert terms.total.item() == 10
    weighted.total.backward()
    assert x.grad.tolist() == [1, 2, 1]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_the_total_keeps_the_precision_of_the_parts(dtype):
    assert Terms({"a": torch.tensor(0.1, dtype=dtype)}).total.dtype == dtype


def test_a_part_that_is_not_there():
    with pytest.raises(KeyError, match="agreement"):
        make_terms()[1]["agreement"]
