from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pytest
import torch
from torch import Tensor

from hotview._codec import decode, encode


@dataclass(frozen=True)
class Inner:
    x: Tensor
    mask: Tensor | None
    scale: float


@dataclass(frozen=True)
class Outer:
    name: str
    inner: list[Inner]
    array: npt.NDArray[np.float64]
    sizes: tuple[int, ...]
    state: dict[str, Tensor]
    flag: bool
    best: Inner | None
    reg: float | Tensor


def example():
    inner = [Inner(torch.ones(2), None, 0.5), Inner(torch.zeros(3), torch.ones(1), 2)]
    return Outer("a", inner, np.arange(3.0), (1, 2), {"w.0": torch.ones(1)}, True, None, 0.1)


def test_dataclasses_are_decoded_as_they_were_from_copies():
    tensors, value = {}, example()
    facts = encode(Outer, value, tensors)
    assert sorted(tensors) == ["array", "inner.0.x", "inner.1.mask", "inner.1.x", "state.w.0"]
    again = decode(Outer, facts, tensors)
    assert isinstance(again.sizes, tuple)
    assert again.best is again.inner[0].mask is None
    assert torch.equal(again.inner[1].x, torch.zeros(3))
    np.testing.assert_array_equal(again.array, np.arange(3.0))
    assert again.state.keys() == {"w.0"}
    tensors["array"].zero_()
    assert value.array.any()


REFUSED = {
    "name": [None],
    "inner": [[3], [{"x": None}]],
    "sizes": [[1.5], [True], [-1], [2**31]],
    "flag": [1],
    "reg": ["0.1", float("nan")],
    "other": [1],
}


@pytest.mark.parametrize("name", REFUSED)
def test_values_of_other_types_are_refused(name):
    tensors = {}
    facts = encode(Outer, example(), tensors)
    for value in REFUSED[name]:
        with pytest.raises(ValueError, match=f"(cannot be|it lacks|unexpected).*|'{name}"):
            decode(Outer, {**facts, name: value}, tensors)


def test_what_is_missing_is_refused():
    tensors = {}
    facts = encode(Outer, example(), tensors)
    for of, name in ((tensors, "array"), (tensors, "inner.0.x"), (facts, "name")):
        value = of.pop(name)
        with pytest.raises(ValueError, match=f"it lacks '{name}'"):
            decode(Outer, facts, tensors)
        of[name] = value
