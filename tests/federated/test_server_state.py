"""The coordinator's checkpoint."""

import json

import numpy as np
import pytest
import torch

from hotview.federated import FederatedResult, Message, Settings
from hotview.federated.server_state import (
    ServerState,
    Session,
    read_server_state,
    write_outcome,
    write_server_state,
)

W = np.full((2, 3), 1 / 6, dtype=np.float32)
CODES = np.array([1, -1, 0])


def state():
    row = {"epoch": 1, "loss": 0.5}
    result = FederatedResult(["x", "y"], [row], W, 2 * W, ["x", "y"], [{"round": 1}], {"x": {}})
    server_update = Message("round", {"update_round": 1}, {"weights": W[0]})
    return ServerState(
        Session("f", 4, ["a", 2]), result, 1, {"x": server_update}, {"power": 1.0}, {"codes": CODES}
    )


def test_what_is_written_is_read_again(tmp_path):
    path = tmp_path / "c.federated"
    write_server_state(path, state(), Settings(), {"mean_cost": torch.ones(2)})
    found, center = read_server_state(path, Settings(), ["y", "x"])
    assert found.session == state().session
    assert list(found.result.history) == list(state().result.history)
    np.testing.assert_array_equal(found.result.W, W)
    np.testing.assert_array_equal(found.result.C, 2 * W)
    assert found.result.names == ["x", "y"]  # in the order of then
    assert (found.round, found.result.dropped, found.result.privacy) == (
        1,
        [{"round": 1}],
        {"x": {}},
    )
    np.testing.assert_array_equal(found.updates["x"].arrays["weights"], W[0])
    assert found.updates["x"].metadata == {"update_round": 1}
    assert found.pool == {"power": 1.0}
    np.testing.assert_array_equal(found.shared["codes"], CODES)
    assert center.keys() == {"mean_cost"}


def test_names_with_points_keep_their_lessons_apart(tmp_path):
    path, given = tmp_path / "c.federated", state()
    given.updates = {
        name: Message("round", {}, {"weights": np.full(3, i, np.float32)})
        for i, name in enumerate(("st", "st.mary", "st.mary.weights"))
    }
    write_server_state(path, given, Settings(), {})
    found = read_server_state(path, Settings(), ["x", "y"])[0].updates
    assert {k: m.to_bytes() for k, m in found.items()} == {
        k: m.to_bytes() for k, m in given.updates.items()
    }


def test_without_a_coupling_there_is_no_plan(tmp_path):
    path = tmp_path / "c.federated"
    one = state()
    one.result.W = one.result.C = None
    write_server_state(path, one, Settings(), {})
    assert read_server_state(path, Settings(), ["x", "y"])[0].result.W is None


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
    write_server_state(path, state(), Settings(), {})
    with pytest.raises(ValueError, match=problem):
        read_server_state(path, settings, names)


def test_a_damaged_file_is_refused(tmp_path):
    path = tmp_path / "c.federated"
    write_server_state(path, state(), Settings(), {"mean_cost": torch.ones(2)})
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(ValueError, match="checksum is wrong"):
        read_server_state(path, Settings(), ["x", "y"])


def test_what_the_coordinator_knows_can_be_read(tmp_path):
    result = FederatedResult(
        ["clinical", "genetic", "imaging"],
        [{"epoch": 1, "loss": 0.5}],
        np.full((2, 3), 1 / 6),
        np.ones((2, 3)),
        ["clinical", "imaging"],
        [{"round": 1, "name": "genetic", "reason": "late"}],
        {"clinical": {"epsilon": 8.0, "delta": 1e-5}},
        ["clinical"],
    )
    write_outcome(tmp_path / "outcome.json", result)
    told = json.loads((tmp_path / "outcome.json").read_text())
    assert told["organizations"] == result.names
    assert told["history"] == [{"epoch": 1, "loss": 0.5}]
    assert told["dropped"] == result.dropped
    assert told["privacy"] == result.privacy
    assert told["finished"] == ["clinical"]
    assert told["plan"]["names"] == ["clinical", "imaging"]
    np.testing.assert_array_equal(told["plan"]["W"], result.W)
    np.testing.assert_array_equal(told["plan"]["C"], result.C)


def test_an_outcome_without_a_coupling_has_no_plan(tmp_path):
    write_outcome(tmp_path / "outcome.json", FederatedResult(["a", "b"]))
    assert json.loads((tmp_path / "outcome.json").read_text())["plan"] is None
