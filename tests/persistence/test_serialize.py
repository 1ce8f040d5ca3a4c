import numpy as np
import pytest

import hotview as hv
from hotview._codec import decode, encode
from hotview.persistence.models import load_model
from hotview.persistence.schema import CLASSES, SavedModel
from hotview.persistence.serialize import (
    check_plain,
    network_widths,
    restore_parameters,
    serialize,
)


def test_both_estimators_can_be_saved():
    assert set(CLASSES.values()) == {hv.MultiViewClassifier, hv.MultiViewEncoder}


def test_widths_come_from_parameters_and_views(saved):
    model = serialize(load_model(saved))
    estimator = restore_parameters(model, "cpu", {})
    widths = network_widths(estimator, model)
    assert widths.columns == [20, 20, 20]
    assert widths.hidden == [(8,)] * 3
    assert widths.n_classes == 4
    assert not widths.decoders
    assert estimator._shapes == dict.fromkeys(estimator.view_names_, (20, None))


def test_a_loaded_model_is_saved_in_the_same_bytes(saved, tmp_path):
    again = load_model(saved).save(tmp_path / "again.hotview")
    assert again.read_bytes() == saved.read_bytes()


def test_serializing_changes_nothing(saved):
    model, tensors = load_model(saved), {}
    facts = encode(SavedModel, serialize(model), tensors)
    facts["metadata"]["new"] = 1
    facts["parameters"]["encoder_dim"] = 0
    tensors["columns.0.mean"].zero_()
    assert model.metadata_ == {}
    assert model.encoder_dim == 4
    assert model._columns["view_0"].mean.any()


def test_a_model_is_decoded_as_it_was_encoded(saved):
    tensors, again = {}, {}
    facts = encode(SavedModel, serialize(load_model(saved)), tensors)
    assert encode(SavedModel, decode(SavedModel, facts, tensors), again) == facts
    assert again.keys() == tensors.keys()


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


def test_arrays_of_a_loaded_model_can_be_written_to(saved):
    model = load_model(saved)
    model.references_ += 1
    model._columns["view_0"].mean[:] = 0


@pytest.mark.parametrize(
    "labels", (np.array(["x", "long"], dtype="U20"), [True, False], [1.0, 2.0], np.uint8([3, 4]))
)
def test_classes_keep_their_kind(tmp_path, labels):
    X = np.random.default_rng(0).normal(size=(12, 3))
    y = np.asarray(labels)[np.arange(12) % 2]
    model = hv.MultiViewClassifier(max_epochs=1, n_estimators=1, hidden=(4,), random_state=0)
    model.fit([X, X], y)
    loaded = load_model(model.save(tmp_path / "m.hotview"))
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.classes_.tolist() == model.classes_.tolist()
