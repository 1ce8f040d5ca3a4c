import numpy as np
import pytest

from hotview.persistence.models import load_model
from hotview.persistence.serialize import check_plain, take_apart


def test_a_loaded_model_comes_apart_as_the_one_that_was_saved(saved, tmp_path):
    again = load_model(saved).save(tmp_path / "again.hotview")
    assert again.read_bytes() == saved.read_bytes()


def test_taking_apart_changes_nothing(saved):
    model = load_model(saved)
    tensors, facts = take_apart(model)
    facts["notes"]["new"] = 1
    facts["parameters"]["encoder_dim"] = 0
    tensors["columns.0.mean"].zero_()
    assert model.metadata_ == {}
    assert model.encoder_dim == 4
    assert model._columns["view_0"].mean.any()


def test_plain_things_are_copied():
    value = {"a": [1, 2.5, None, True, "x", {"b": []}]}
    copied = check_plain(value, "it")
    assert copied == value
    copied["a"][5]["b"].append(1)
    assert value["a"][5]["b"] == []


@pytest.mark.parametrize("value", (np.array(1), {"a": (1,)}, float("inf"), {None: 1}, {1, 2}))
def test_other_things_are_refused_by_their_place(value):
    with pytest.raises(TypeError, match=r"Expected it\[0\].* to be what JSON can hold"):
        check_plain([value], "it")
