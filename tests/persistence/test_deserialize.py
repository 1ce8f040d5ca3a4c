import numpy as np
import pytest

import hotview as hv
from hotview.persistence.deserialize import CLASSES, make_estimator, widths_of
from hotview.persistence.models import load_model


def test_both_estimators_can_be_put_together():
    assert set(CLASSES.values()) == {hv.MultiViewClassifier, hv.MultiViewEncoder}


def test_widths_come_from_parameters_and_views():
    facts = {"class": "MultiViewEncoder", "parameters": {"hidden": [7]}, "version": 4}
    facts["views"] = [["a", 3, None], ["b", 2, ["x", "y"]]]
    estimator = make_estimator(facts, "cpu")
    widths = widths_of(estimator, facts)
    assert widths.columns == [3, 2]
    assert widths.hidden == [(7,), (7,)]
    assert widths.n_classes == 0
    assert widths.decoders
    assert estimator._shapes == {"a": (3, None), "b": (2, ("x", "y"))}


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
