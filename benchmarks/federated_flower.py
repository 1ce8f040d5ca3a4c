"""A federation through Flower itself: seconds of a round, bytes, and what becomes of faults.

    python benchmarks/federated_flower.py [--rounds N] [--out FILE]

A SuperLink and three SuperNodes run as processes on this machine, with TLS and authentication on,
as in ``make test-federated``. First the sample of ``hotview federated new --sample`` is trained:
three views of Handwritten, labels with one of them. Then a small federation is, in which
organizations fail in rounds that are known before: the coordinator tells in the end what
it made of them.

Ten minutes: every message begins a process, which imports torch.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from measuring import RESULTS, write_part
from rich.console import Console

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests" / "federated"))
from loopback import exchanges, loopback
from sample_tables import NAMES as SMALL_NAMES
from sample_tables import SMALL, write_tables

from hotview.cli.demo import SAMPLE_NAMES, write_sample_federation
from hotview.federated import InProcessChannel, Server, Settings
from hotview.federated.configuration import open_client, write_app

TIMEOUT, PATIENCE = 120.0, 3600.0
#: what happens in ten rounds, by organization and round; `faulty_client` lets it
FAULTS = {
    "genetic 2": "nan",
    "imaging 3": "shape",
    "genetic 4": "older",
    "imaging 5": "garbage",
    "genetic 6": "error",
    "imaging 7": "killed",
    "genetic 9": "late",
}


def run_on_loopback(
    folder: Path,
    app: Path,
    configurations: Mapping[str, Path],
    run_config: Mapping[str, object] | None = None,
) -> dict[str, Any]:
    """Run an app once, from nothing to the end; what came of it, its times and its bytes.

    `folder` is for logs, keys and the coordinator, and must be empty; `configurations` are those of
    the organizations by name. Bytes are those that the SuperLink counted, in both directions.
    """
    told = {"folder": str(folder / "coordinator"), **(run_config or {})}
    with loopback(folder, *configurations) as federation:
        for name, path in configurations.items():
            federation.start_node(name, config=path)
        for name in configurations:
            federation.wait_for(name, "SuperNode ID")
        begun = time.monotonic()
        federation.run(app, told).wait(PATIENCE)
        seconds = time.monotonic() - begun
        log, status = federation.log("run"), federation.status()
    outcome = folder / "coordinator" / "outcome.json"
    if not outcome.is_file():
        raise RuntimeError(f"the run came to nothing: {status['status']}\n{log}")
    return {
        "seconds": seconds,
        "exchanges": exchanges(log),
        "traffic": status["network-traffic"],
        "outcome": json.loads(outcome.read_text()),
    }


def sample(folder: Path, rounds: int) -> dict[str, Any]:
    """Seconds of the exchanges of every round, through Flower and in this process."""
    app = folder / "app"
    write_sample_federation(app, 0)
    paths = {name: app / "organizations" / f"{name}.toml" for name in SAMPLE_NAMES}
    logs = folder / "logs"
    logs.mkdir()
    found = run_on_loopback(logs, app, paths, {"rounds": rounds})
    by_round: dict[int, float] = {}
    for one in found["exchanges"]:
        if one["kind"] in ("round", "label_loss") and one["round"] is not None:
            by_round[one["round"]] = by_round.get(one["round"], 0.0) + one["seconds"]
    by_round.pop(rounds + 1, None)  # which is the end
    return {
        "rounds": rounds,
        "seconds": found["seconds"],
        "seconds_by_round": list(by_round.values()),
        "exchanges": found["exchanges"],
        "traffic": found["traffic"],
        "largest_message": max(row["bytes"] for row in found["outcome"]["history"]),
        "dropped": found["outcome"]["dropped"],
        "in_process_seconds_a_round": in_process(folder, rounds),
    }


def in_process(folder: Path, rounds: int) -> float:
    app = folder / "again"
    write_sample_federation(app, 0)
    paths = {name: app / "organizations" / f"{name}.toml" for name in SAMPLE_NAMES}
    clients = {name: open_client(path) for name, path in paths.items()}
    start = time.perf_counter()
    Server(InProcessChannel(clients), Settings(label_holder=SAMPLE_NAMES[0], rounds=rounds)).run()
    return (time.perf_counter() - start) / rounds


def fail(folder: Path) -> dict[str, Any]:
    """What the coordinator made of each fault."""
    home, app, logs = folder / "home", folder / "app", folder / "logs"
    home.mkdir(parents=True)
    logs.mkdir()
    write_tables(home)
    (home / "faults.json").write_text(json.dumps({**FAULTS, "seconds": TIMEOUT + 10}))
    write_app(app, SMALL_NAMES, Settings(**{**SMALL, "rounds": 10}))
    client = ROOT / "tests" / "federated" / "faulty_client.py"
    shutil.copy(client, app / "federation" / "client_app.py")
    paths = {name: home / f"{name}.toml" for name in SMALL_NAMES}
    found = run_on_loopback(logs, app, paths, {"timeout": TIMEOUT})
    reasons = {f"{d['name']} {d['round']}": d["reason"] for d in found["outcome"]["dropped"]}
    return {
        "faults": [
            {"who": who, "fault": fault, "reason": reasons.get(who)}
            for who, fault in FAULTS.items()
        ],
        "others": {who: why for who, why in reasons.items() if who not in FAULTS},
        "present": [row["present"] for row in found["outcome"]["history"]],
        "finished": found["outcome"]["finished"],
        "timeout": TIMEOUT,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=RESULTS / "federated_flower.json")
    given = parser.parse_args()
    console = Console()
    with tempfile.TemporaryDirectory() as folder, console.status("a sample through Flower …"):
        (Path(folder) / "faulty").mkdir()
        told = sample(Path(folder), given.rounds)
        console.print(told["seconds_by_round"], told["in_process_seconds_a_round"])
        failed = fail(Path(folder) / "faulty")
        console.print(failed)
    write_part(
        given.out, "cpu", "flwr", "torch", ratios={}, targets={}, sample=told, failing=failed
    )


if __name__ == "__main__":
    main()
