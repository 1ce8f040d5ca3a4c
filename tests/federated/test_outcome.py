import json

import numpy as np

from hotview.federated import Joint
from hotview.federated.outcome import write_outcome
from hotview.training.history import History


def test_what_the_coordinator_knows_can_be_read(tmp_path):
    joint = Joint(
        ["clinical", "genetic", "imaging"],
        History([{"epoch": 1, "loss": 0.5}]),
        np.full((2, 3), 1 / 6),
        np.ones((2, 3)),
        ["clinical", "imaging"],
        [{"round": 1, "name": "genetic", "reason": "late"}],
        {"clinical": {"epsilon": 8.0, "delta": 1e-5}},
        ["clinical"],
    )
    write_outcome(tmp_path / "outcome.json", joint)
    told = json.loads((tmp_path / "outcome.json").read_text())
    assert told["organizations"] == joint.names
    assert told["history"] == [{"epoch": 1, "loss": 0.5}]
    assert told["dropped"] == joint.dropped
    assert told["privacy"] == joint.privacy
    assert told["finished"] == ["clinical"]
    assert told["plan"]["names"] == ["clinical", "imaging"]
    np.testing.assert_array_equal(told["plan"]["W"], joint.W)
    np.testing.assert_array_equal(told["plan"]["C"], joint.C)


def test_without_a_coupling_there_is_no_plan(tmp_path):
    write_outcome(tmp_path / "outcome.json", Joint(["a", "b"]))
    assert json.loads((tmp_path / "outcome.json").read_text())["plan"] is None
