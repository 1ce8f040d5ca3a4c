"""A SuperLink and three SuperNodes as processes on this machine, with TLS and authentication.

Minutes, in which they wait for Flower, which asks every three seconds and misses a process that was
killed after a minute. Every message begins a process of its own, forked from one that has imported
PyTorch (`forked_clients`), but where the README's commands are run as they stand. Answers that can
be read and are wrong are for ``test_server.py``.
"""

import json
import re
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path

import pytest
import torch
from credentials import write_certificates, write_node_key
from loopback import die_with_parent, exchanges, free_port, kill_all, loopback, quiet, wait_until
from safetensors.torch import load_file
from sample_tables import NAMES, write_tables
from sample_tables import SMALL as SAMPLE

from hotview.federated import InProcessChannel, Server, Settings
from hotview.federated.configuration import open_client, write_app

pytestmark = pytest.mark.slow
LONG = 900  # seconds in which a whole training must be over
SMALL = {**SAMPLE, "rounds": 2}
#: by organization and round; ``faulty_client.py`` lets it happen
FAILURES = {
    "imaging 1": "garbage",
    "genetic 2": "error",
    "imaging 3": "killed",
    "genetic 4": "late",
}


@contextmanager
def connected(folder):
    """A SuperLink and a SuperNode of every organization, all connected."""
    home = folder / "organizations"
    home.mkdir()
    write_tables(home)
    with loopback(folder, *NAMES, forks=True) as running:
        for name in NAMES:
            running.start_node(name, config=home / f"{name}.toml")
        for name in NAMES:
            running.wait_for(name, "SuperNode ID")
            wait_until((running.forks_of(name) / "flwr-clientapp").exists)
        yield running


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


@pytest.fixture(scope="module")
def failing(tmp_path_factory):
    """A training in which answers fail, beside the others, as it waits for most of its time."""
    folder, timeout = tmp_path_factory.mktemp("failing"), 60
    with connected(folder) as running:
        faults = {**FAILURES, "seconds": timeout + 10}
        (folder / "organizations" / "faults.json").write_text(json.dumps(faults))
        client = Path(__file__).with_name("faulty_client.py")
        start(running, folder, Settings(**{**SMALL, "rounds": 5}), client, timeout=float(timeout))
        yield running


@pytest.fixture(scope="module")
def federation(failing, tmp_path_factory):
    """One for all other tests."""
    with connected(tmp_path_factory.mktemp("federation")) as running:
        yield running


KILLED = Settings(**SMALL, coupling="hot-reference", label_holder="clinical")


@pytest.fixture(scope="module")
def killed(federation, tmp_path_factory):
    """A training whose coordinator and one node are killed; Flower misses the node in a minute."""
    folder = tmp_path_factory.mktemp("killed")
    start(federation, folder, KILLED)
    wait_until((folder / "coordinator" / "checkpoint.federated").exists, LONG)
    federation.kill_server_app()
    federation.kill("imaging")
    federation.kill("run")
    assert not (folder / "coordinator" / "outcome.json").exists()
    return folder


def blocks(text: str) -> dict[str, str]:
    """Commands of a README by the comment on their first line."""
    found = re.findall(r"```bash\n# ([^\n]*)\n(.*?)```", text, flags=re.DOTALL)
    assert len({heading for heading, _ in found}) == len(found)
    return dict(found)


@pytest.mark.usefixtures("failing", "killed")  # which wait beside it
def test_what_the_readme_says_is_all_there_is_to_do(tmp_path):
    """Its commands as they stand, on one machine; only ports are others."""
    settings = Settings(rounds=1, local_steps=2, quantiles=16)
    app = write_app(tmp_path / "study", NAMES, settings)
    write_tables(app / "organizations")
    text = (app / "README.md").read_text()
    text = re.sub(r"--port 910\d", lambda _: f"--port {free_port()}", text)
    said = blocks(text)
    environment = {**quiet(), "HOST": "localhost", "PORT": str(free_port())}
    started = []

    def do(commands):
        subprocess.run(
            ["bash", "-ec", commands],
            cwd=app,
            env=environment,
            check=True,
            capture_output=True,
            timeout=LONG,
        )

    def start(commands, log):
        with (app / log).open("wb") as out:
            process = subprocess.Popen(
                ["bash", "-c", f"exec env {commands}"],
                cwd=app,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,
            )
        started.append(process)

    def says(log, word):
        return lambda: word in (app / log).read_text()

    try:
        do(said["coordinator, once"])
        do(said["organizations, once, each its own"])
        start(said["coordinator, in a terminal of its own"], "superlink.log")
        wait_until(says("superlink.log", "Uvicorn running"))
        do(said["coordinator: where it is, and whose keys are whose"])
        nodes = said["organizations, each its own, in a terminal of its own"]
        for i, node in enumerate(re.split(r"\n(?=FLWR_HOME)", nodes)):
            start(node, f"node_{i}.log")
        do(said["coordinator, to begin or to go on"])
    finally:
        for process in started:
            kill_all(process)
    assert (app / "coordinator" / "outcome.json").is_file(), (app / "superlink.log").read_text()
    assert all((app / "organizations" / name / "part.hotview").is_file() for name in NAMES)


def test_a_training_of_which_processes_were_killed_is_that_of_one_process(
    federation, killed, tmp_path
):
    home = federation.folder / "organizations"
    federation.restart_node("imaging", config=home / "imaging.toml")
    start(federation, killed, KILLED)
    write_tables(tmp_path)
    clients = {name: open_client(tmp_path / f"{name}.toml") for name in NAMES}
    result = Server(InProcessChannel(clients), KILLED).run()
    told = outcome(federation, killed)
    assert re.search(r"goes on after round [12] of 2", federation.last_run())
    assert exchanges(federation.last_run())[-2]["round"] == 3  # for what each has learned since
    assert told["dropped"] == []
    assert told["finished"] == result.finished == list(NAMES)
    losses = [row["loss"] for row in told["history"]]
    assert losses == pytest.approx([row["loss"] for row in result.history], abs=1e-5)
    for name in NAMES:
        found, wanted = (load_file(path / name / "part.hotview") for path in (home, tmp_path))
        assert found.keys() == wanted.keys()
        for key, tensor in wanted.items():
            torch.testing.assert_close(found[key], tensor, atol=1e-5, rtol=0)


def test_strangers_and_a_server_that_the_authority_does_not_vouch_for_are_refused(federation):
    write_node_key(federation.folder / "keys", "stranger")
    other = federation.folder / "other"
    other.mkdir()
    write_certificates(other)
    federation.start_node("stranger")
    federation.start_node("keyless", key=None)
    federation.start_node("careful", key="clinical", authority=other / "ca.crt", patience=5)
    for name in ("stranger", "keyless", "careful"):
        assert federation.processes[name].wait(LONG) != 0
        assert "SuperNode ID" not in federation.log(name)
    assert "Failed to activate SuperNode" in federation.log("stranger")
    assert "All SuperNodes must be registered" in federation.log("keyless")


def test_whoever_fails_is_left_out_of_the_round_and_comes_back(failing):
    told = outcome(failing, failing.folder)
    reasons = {f"{drop['name']} {drop['round']}": drop["reason"] for drop in told["dropped"]}
    wanted = {
        "garbage": "garbage",
        "error": "ValueError: the organization's own log",
        "killed": "gone|late",
        "late": "late",
    }
    assert reasons.keys() == FAILURES.keys()
    for when, fault in FAILURES.items():
        assert re.search(wanted[fault], reasons[when]), (when, reasons)
    assert [row["present"] for row in told["history"]] == [2, 2, 2, 2, 3]
    assert told["finished"] == list(NAMES)
    log = failing.last_run()
    assert all(reason in log for reason in reasons.values())
    assert "Smith" not in log
    assert "Ann Smith" in failing.log("genetic")
