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
from pathlib import Path
from typing import Any

from measuring import RESULTS, write_part
from rich.console import Console

ROOT = Path(__file__).parent.parent
sys.path.append(str(ROOT / "tests" / "federated"))
from loopback import run_on_loopback
from sample_tables import FAULTS, SMALL, write_tables
from sample_tables import NAMES as SMALL_NAMES

from hotview.cli.federated_jobs import SAMPLE_NAMES, write_sample_federation
from hotview.federated import InProcessChannel, Server, Settings
from hotview.federated.app_template import write_app
from hotview.federated.configuration import open_client

TIMEOUT = 120.0


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
