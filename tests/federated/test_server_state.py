"""The coordinator's checkpoint."""

import numpy as np
import pytest
import torch
from hotview.federated import Joint, Message, Settings
from hotview.federated.server import Agreement
from hotview.federated.server_state import Stage, read_stage, write_stage
from hotview.training.recorder import History
import json
from hotview.federated import Joint
from hotview.federated.server_state import write_outcome

W = np.full((2, 3), 1 / 6, dtype=np.float32)
CODES = np.array([1, -1, 0])


def stage():
    row = {"epoch": 1, "loss": 0.5}
    joint = Joint(["x", "y"], History([row]), W, 2 * W, ["x", "y"], [{"round": 1}], {"x": {}})
    lesson = Message("round", {"about": 1}, {"weights": W[0]})
    return Stage(
        Agreement("f", 4, ["a", 2]), joint, 1, {"x": lesson}, {"power": 1.0}, {"codes": CODES}
    )


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "c.federated"
    write_stage(path, stage(), Settings(), {"mean_cost": torch.ones(2)})
    found, center = read_stage(path, Settings(), ["y", "x"])
    assert found.agreement == stage().agreement
    assert list(found.joint.history) == list(stage().joint.history)
    np.testing.assert_array_equal(found.joint.W, W)
    np.testing.assert_array_equal(found.joint.C, 2 * W)
    assert found.joint.names == ["x", "y"]  # in the order of then
    assert (found.round, found.joint.dropped, found.joint.privacy) == (1, [{"round": 1}], {"x": {}})
    np.testing.assert_array_equal(found.soft_labels["x"].arrays["weights"], W[0])
    assert found.soft_labels["x"].facts == {"about": 1}
    assert found.pool == {"power": 1.0}
    np.testing.assert_array_equal(found.shared["codes"], CODES)
    assert center.keys() == {"mean_cost"}


def test_names_with_points_keep_their_lessons_apart(tmp_path):
    path, given = tmp_path / "c.federated", stage()
    given.soft_labels = {
        name: Message("round", {}, {"weights": np.full(3, i, np.float32)})
        for i, name in enumerate(("st", "st.mary", "st.mary.weights"))
    }
    write_stage(path, given, Settings(), {})
    found = read_stage(path, Settings(), ["x", "y"])[0].soft_labels
    assert {k: m.to_bytes() for k, m in found.items()} == {
        k: m.to_bytes() for k, m in given.soft_labels.items()
    }


def test_without_a_coupling_there_is_no_plan(tmp_path):
    path = tmp_path / "c.federated"
    one = stage()
    one.joint.W = one.joint.C = None
    write_stage(path, one, Settings(), {})
    assert read_stage(path, Settings(), ["x", "y"])[0].joint.W is None


@pytest.mark.parametrize(
    ("settings", "names", "problem"),
    (
        (Settings(quantiles=8), ["x", "y"], "quantiles was 64 then and is 8 now"),
        (Settings(rounds=99), ["x", "y"], "rounds was 20 then and is 99 now"),
        (Settings(), ["x", "z"], "organizations was"),
    ),
)
def test_another_training_is_refused(tmp_path, settings, names, problem):
    path = tmp_path / "c.federated"
    write_stage(path, stage(), Settings(), {})
    with pytest.raises(ValueError, match=problem):
        read_stage(path, settings, names)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "c.federated"
    write_stage(path, stage(), Settings(), {"mean_cost": torch.ones(2)})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="checksum is wrong"):
        read_stage(path, Settings(), ["x", "y"])


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


def test_without_a_coupling_there_is_no_plan_outcome(tmp_path):
    write_outcome(tmp_path / "outcome.json", Joint(["a", "b"]))
    assert json.loads((tmp_path / "outcome.json").read_text())["plan"] is None
