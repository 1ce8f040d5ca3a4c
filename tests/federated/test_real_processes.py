"""A SuperLink and three SuperNodes as processes on this machine, with TLS and authentication.

Minutes, most of which are the imports of processes: every message begins one. They are run by
``make test-federated``.
"""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch
from credentials import write_certificates, write_node_key
from loopback import exchanges, loopback, wait_until
from safetensors.torch import load_file
from sample_tables import FAULTS, NAMES, SMALL, write_tables

from hotview.federated import InProcessChannel, Server, Settings
from hotview.federated.app_template import write_app
from hotview.federated.configuration import open_client

pytestmark = pytest.mark.slow
LONG = 900  # seconds in which a whole training must be over


@pytest.fixture(scope="module")
def federation(tmp_path_factory):
    """One for all tests: a node reads its configuration anew with every message."""
    folder = tmp_path_factory.mktemp("federation")
    home = folder / "organizations"
    home.mkdir()
    with loopback(folder, *NAMES) as running:
        for name in NAMES:
            running.start_node(name, config=home / f"{name}.toml")
        for name in NAMES:
            running.wait_for(name, "SuperNode ID")
        yield running


@pytest.fixture
def home(federation):
    """The organizations' tables, and nothing that an earlier test left."""
    folder = federation.folder / "organizations"
    shutil.rmtree(folder)
    folder.mkdir()
    write_tables(folder)
    return folder


def start(federation, folder, settings, client=None, **run_config):
    app = folder / "study"
    if not app.exists():
        write_app(app, NAMES, settings)
    if client is not None:
        shutil.copy(client, app / "federation" / "client_app.py")
    return federation.run(app, {"folder": str(folder / "coordinator"), **run_config})


def outcome(federation, folder):
    federation.processes["run"].wait(LONG)
    path = folder / "coordinator" / "outcome.json"
    assert path.is_file(), federation.last_run()
    return json.loads(path.read_text())


def train_in_process(folder, settings):
    folder.mkdir()
    write_tables(folder)
    clients = {name: open_client(folder / f"{name}.toml") for name in NAMES}
    return Server(InProcessChannel(clients), settings).run()


def assert_same(told, home, result, twin):
    assert told["finished"] == result.finished == list(NAMES)
    losses = [row["loss"] for row in told["history"]]
    assert losses == pytest.approx([row["loss"] for row in result.history], abs=1e-5)
    for name in NAMES:
        found = load_file(home / name / "part.hotview")
        wanted = load_file(twin / name / "part.hotview")
        assert found.keys() == wanted.keys()
        for key, tensor in wanted.items():
            torch.testing.assert_close(found[key], tensor, atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("coupling", "label_holder"), (("hot-reference", "clinical"), ("hot-pairwise", None))
)
def test_a_training_is_that_of_one_process(federation, home, tmp_path, coupling, label_holder):
    settings = Settings(**SMALL, coupling=coupling, label_holder=label_holder)
    start(federation, tmp_path, settings)
    result = train_in_process(tmp_path / "twin", settings)
    told = outcome(federation, tmp_path)
    assert told["dropped"] == []
    rounds = [e["round"] for e in exchanges(federation.last_run()) if e["kind"] == "round"]
    assert rounds == [1, 2, 3, 4]  # the last is for what each has learned since
    assert_same(told, home, result, tmp_path / "twin")


def test_a_killed_coordinator_and_a_killed_node_go_on(federation, home, tmp_path):
    settings = Settings(**SMALL)
    start(federation, tmp_path, settings)
    wait_until((tmp_path / "coordinator" / "checkpoint.federated").exists, LONG)
    federation.kill_server_app()
    federation.kill("imaging")
    federation.kill("run")
    assert not (tmp_path / "coordinator" / "outcome.json").exists()
    federation.restart_node("imaging", config=home / "imaging.toml")
    start(federation, tmp_path, settings)
    result = train_in_process(tmp_path / "twin", settings)
    told = outcome(federation, tmp_path)
    assert re.search(r"goes on after round [12] of 3", federation.last_run())
    assert told["dropped"] == []
    assert_same(told, home, result, tmp_path / "twin")


def test_whoever_fails_is_left_out_of_the_round_and_comes_back(federation, home, tmp_path):
    timeout = 120
    (home / "faults.json").write_text(json.dumps({**FAULTS, "seconds": timeout + 10}))
    settings = Settings(**{**SMALL, "rounds": 10})
    client = Path(__file__).with_name("faulty_client.py")
    start(federation, tmp_path, settings, client, timeout=float(timeout))
    told = outcome(federation, tmp_path)
    reasons = {f"{drop['name']} {drop['round']}": drop["reason"] for drop in told["dropped"]}
    wanted = {
        "nan": "not finite",
        "shape": "of shape",
        "older": "its round is 3, and 4",
        "garbage": "garbage",
        "error": "ValueError: the organization's own log",
        "killed": "gone|late",
        "late": "late",
    }
    for when, fault in FAULTS.items():
        assert re.search(wanted[fault], reasons[when]), (when, reasons)
    present = [row["present"] for row in told["history"]]
    assert present == [2 if i in (2, 3, 4, 5, 6, 7, 9) else 3 for i in range(1, 11)], reasons
    assert told["finished"] == list(NAMES)
    log = federation.last_run()
    assert all(reason in log for reason in reasons.values())
    assert "Smith" not in log
    assert "Ann Smith" in federation.log("genetic")


def test_a_node_without_a_registered_key_is_refused(federation):
    write_node_key(federation.folder / "keys", "stranger")
    federation.start_node("stranger")
    assert federation.processes["stranger"].wait(120) != 0
    assert "Failed to activate SuperNode" in federation.log("stranger")


def test_a_node_without_a_key_is_refused(federation):
    federation.start_node("keyless", key=None)
    assert federation.processes["keyless"].wait(120) != 0
    assert "All SuperNodes must be registered" in federation.log("keyless")


def test_a_server_that_the_authority_does_not_vouch_for_is_not_spoken_to(federation):
    other = federation.folder / "other"
    other.mkdir()
    write_certificates(other)
    federation.start_node("careful", key="clinical", authority=other / "ca.crt", patience=5)
    assert federation.processes["careful"].wait(120) != 0
    assert "SuperNode ID" not in federation.log("careful")
