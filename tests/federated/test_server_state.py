"""Checkpoint and result of the server."""

import json
from dataclasses import replace

import numpy as np
import pytest
import torch

from hotview._archive import read_archive, write_archive
from hotview.federated import FederatedResult, InProcessChannel, Message, Server, Settings
from hotview.federated.coupling import ServerCoupling
from hotview.federated.schema import SentPool, Session
from hotview.federated.state import (
    SERVER_FORMAT,
    Checkpoint,
    ServerState,
    write_outcome,
    write_state,
)

NAMES = ["st", "st.mary", "st.mary.weights"]  # whose arrays have similar names
SETTINGS = Settings(
    **{"rounds": 3, "local_steps": 1, "n_references": 2, "label_holder": "st"},
    **{"quantiles": 4, "n_components": 2, "n_projections": 3, "share_labels": True},
)


def trained(settings=SETTINGS):
    """State of a server after a round, and its coupling."""
    random = torch.Generator().manual_seed(0)
    coupling, n = ServerCoupling(settings, NAMES), len(NAMES)
    updates = {}
    for name in NAMES:
        Q = torch.randn(3, 4, generator=random).sort(1).values
        arrays = {"quantiles": Q.numpy(), "moment": np.eye(2, dtype=np.float32)}
        updates[name] = Message("round", {"round": 1}, arrays)
    weights = [1.0] * n, [1.0] * (n + 1), [1.0] * n
    pool = SentPool(NAMES, *weights, 0.5) if settings.label_holder else None
    row = {"epoch": 1, "loss": 0.5, "present": n, "bytes": 100}
    dropped = [{"round": 1, "name": "st", "reason": "late"}]
    privacy = {"st": {"epsilon": 1.0, "delta": 1e-5}}
    result = FederatedResult(NAMES, [row], None, None, [], dropped, privacy)
    codes = {"codes": np.array([1, -1, 0, 0])} if settings.share_labels else {}
    classes = ["a", "b"] if settings.label_holder else []
    replies, curvatures = {}, {}
    if settings.coupling != "none":
        coupled = coupling.update(updates)
        result.W, result.C = coupled.plan.W.numpy(), coupled.plan.C.numpy()
        result.present, curvatures = NAMES, coupled.curvatures
        replies = coupled.replies
    sent = {}
    for name in NAMES:
        arrays = {k: x.numpy() for k, x in replies.get(name, {}).items()}
        metadata = {"curvatures": curvatures, "update_round": 1}
        sent[name] = Message("round", metadata, arrays)
    session = Session("f", settings, NAMES, classes, 4)
    return ServerState(session, result, 1, sent, pool, codes), coupling


def write_server_state(path, state, coupling):
    write_state(path, SERVER_FORMAT, Checkpoint(state, coupling.state()))


def read_server_state(path, settings, names):
    server = Server(InProcessChannel(dict.fromkeys(names)), settings)  # of whom none is needed
    server._read_checkpoint(path, names)
    return server.state, server.coupling


@pytest.mark.parametrize(
    "more",
    (
        {},
        {"coupling": "hot-pairwise"},
        {"coupling": "none", "label_holder": None, "share_labels": False},
    ),
)
def test_a_checkpoint_is_read_as_it_was_written(tmp_path, more):
    path, settings = tmp_path / "c.federated", replace(SETTINGS, **more)
    state, coupling = trained(settings)
    write_server_state(path, state, coupling)
    found, restored = read_server_state(path, settings, NAMES[::-1])
    assert found.session == state.session
    for name in ("names", "rows", "present", "dropped", "privacy", "finished"):
        assert getattr(found.result, name) == getattr(state.result, name)
    np.testing.assert_array_equal(found.result.W, state.result.W)
    np.testing.assert_array_equal(found.result.C, state.result.C)
    assert (found.round, found.pool) == (1, state.pool)
    assert {k: m.to_bytes() for k, m in found.updates.items()} == {
        k: m.to_bytes() for k, m in state.updates.items()
    }
    assert found.shared.keys() == state.shared.keys()
    for name, x in coupling.state().items():
        torch.testing.assert_close(restored.state()[name], x, rtol=0, atol=0, equal_nan=True)


def test_another_training_and_a_damaged_file_are_refused(tmp_path):
    path = tmp_path / "c.federated"
    state, coupling = trained()
    write_server_state(path, state, coupling)
    for changes, names, problem in (
        ({"quantiles": 8}, NAMES, "quantiles was 4 then and is 8 now"),
        ({}, ["st", "z"], "organizations was"),
    ):
        with pytest.raises(ValueError, match=problem):
            read_server_state(path, replace(SETTINGS, **changes), names)
    path.write_bytes(path.read_bytes()[:-1] + b"!")
    with pytest.raises(ValueError, match="checksum is wrong"):
        read_server_state(path, SETTINGS, NAMES)


def at(*path):
    """A change of one value of the metadata."""

    def change(value):
        def apply(content, tensors):
            for key in path[:-1]:
                content = content[key]
            content[path[-1]] = value

        return apply

    return change


def tensor(name, change):
    def apply(content, tensors):
        tensors[name] = change(tensors[name])

    return apply


NEXT = "server.updates.st.mary.arrays.weights"
RESULT = ("server", "result")


def rewrite(path, change, settings=SETTINGS):
    """Change a checkpoint; its checksum fits, as whoever can write the file can write that."""
    state, coupling = trained(settings)
    write_server_state(path, state, coupling)
    archive = read_archive(path, SERVER_FORMAT)
    change(archive.metadata["content"], archive.tensors)
    write_archive(path, SERVER_FORMAT, archive.tensors, archive.metadata)


CHANGES = (
    *(at("server", "round")(x) for x in (0, 4, True)),
    *(at(*RESULT, "rows")(x) for x in ([], [3], [{"epoch": 1}])),
    *(at(*RESULT, "rows", 0, "loss")(x) for x in ("x", float("inf"), 10**400)),
    *(at(*RESULT, "dropped")(x) for x in ([3], [{"round": 1, "name": "st"}])),
    at(*RESULT, "dropped", 0, "reason")("two\nlines"),
    *(at(*RESULT, "privacy")(x) for x in ({"st": {}}, {"z": {"epsilon": 1.0, "delta": 0.1}})),
    *(at(*RESULT, "present")(x) for x in ([], ["z"])),
    at(*RESULT, "finished")(["z"]),
    at("server", "session", "classes")(["a", "a"]),
    at("server", "session", "n_linked")(3),
    *(at("server", "pool")(x) for x in (3, {"names": []})),
    at("server", "pool", "power")(1e9),
    *(at("server", "updates")(x) for x in ({}, {"st": {}})),
    at("server", "updates", "st", "kind")("finish"),
    at("server", "updates", "st", "metadata")({"curvatures": {"scores": 1.0}}),
    *(tensor(NEXT, f) for f in (lambda x: x[:1], lambda x: x * torch.nan, lambda x: x + 9)),
    *(tensor("server.shared.codes", f) for f in (lambda x: x + 9, lambda x: x[:2])),
    *(tensor("server.result.W", f) for f in (lambda x: x[0], lambda x: -x)),
    *(tensor("server.result.C", f) for f in (lambda x: x.bfloat16(), lambda x: x / 0)),
    *(tensor("coupling.references", f) for f in (lambda x: x[:1], lambda x: x + 1e5)),
    *(tensor("coupling.0.exp_avg", f) for f in (lambda x: x.double(), lambda x: x / 0)),
    *(tensor("coupling.0.exp_avg_sq", f) for f in (lambda x: -x - 1, lambda x: x[0, 0, :1])),
    *(tensor("coupling.0.step", f) for f in (lambda x: -x, torch.Tensor.int)),
    *(tensor("coupling.mean_cost", f) for f in (lambda x: x[:, :1], lambda x: x / 0)),
    lambda content, tensors: tensors.pop("coupling.references"),
    lambda content, tensors: tensors.update({"coupling.1.step": torch.zeros(())}),
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_checkpoint_is_refused_by_name(tmp_path, change):
    rewrite(tmp_path / "c.federated", change)
    with pytest.raises(ValueError, match=r"Expected .*c\.federated to be a checkpoint"):
        read_server_state(tmp_path / "c.federated", SETTINGS, NAMES)


def test_stored_gradients_are_those_that_clients_accept(tmp_path):
    path, settings = tmp_path / "c.federated", replace(SETTINGS, coupling="hot-pairwise")
    wrong = tensor("server.updates.st.arrays.gradient.quantiles", lambda x: x + 9e5)
    rewrite(path, wrong, settings)
    with pytest.raises(ValueError, match="its gradient of quantiles, or its curvature"):
        read_server_state(path, settings, NAMES)


def test_the_result_is_written_as_json(tmp_path):
    path, result = tmp_path / "outcome.json", trained()[0].result
    write_outcome(path, result)
    assert json.loads(path.read_text()) == {
        "organizations": result.names,
        "history": result.rows,
        "dropped": result.dropped,
        "privacy": result.privacy,
        "finished": result.finished,
        "plan": {"names": result.present, "W": result.W.tolist(), "C": result.C.tolist()},
    }
    write_outcome(path, FederatedResult(["a", "b"]))  # without a coupling
    assert json.loads(path.read_text())["plan"] is None
