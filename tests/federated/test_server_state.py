"""Checkpoint and result of the server."""

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


def test_a_checkpoint_is_read_as_it_was_written(tmp_path):
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


def test_names_with_dots_keep_their_updates_apart(tmp_path):
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


def test_the_result_is_written_as_json(tmp_path):
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
    values = json.loads((tmp_path / "outcome.json").read_text())
    assert values["organizations"] == result.names
    assert values["history"] == [{"epoch": 1, "loss": 0.5}]
    assert values["dropped"] == result.dropped
    assert values["privacy"] == result.privacy
    assert values["finished"] == ["clinical"]
    assert values["plan"]["names"] == ["clinical", "imaging"]
    np.testing.assert_array_equal(values["plan"]["W"], result.W)
    np.testing.assert_array_equal(values["plan"]["C"], result.C)


def test_an_outcome_without_a_coupling_has_no_plan(tmp_path):
    write_outcome(tmp_path / "outcome.json", FederatedResult(["a", "b"]))
    assert json.loads((tmp_path / "outcome.json").read_text())["plan"] is None
