"""The work of ``hotview federated simulate``: a training in one process, and what it prints."""

from __future__ import annotations

import logging
import shlex
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from hotview.cli.runner import INTERRUPTED, as_usage, make_table, print_result
from hotview.federated import (
    Client,
    InProcessChannel,
    Privacy,
    Server,
    Settings,
)
from hotview.federated.configuration import RunConfig, open_client, read_run_config
from hotview.federated.state import write_outcome
from hotview.report.tables import matrix_table


@dataclass(frozen=True)
class SimulationJob:
    """Options of a simulation.

    Parameters
    ----------
    app : Path
        The folder that ``hotview federated new`` wrote.
    settings : dict of str to object
        Settings that replace those of the app; None where not given.
    privacy : Privacy or None
        Privacy of all clients, which replaces that of their configurations.
    dry_run : bool
        Whether to stop before training.
    resume : bool
        Whether to resume from a checkpoint.
    force : bool
        Whether to replace an earlier training.
    as_json : bool
        Whether to print JSON.
    """

    app: Path
    settings: Mapping[str, Any]
    privacy: Privacy | None
    dry_run: bool
    resume: bool
    force: bool
    as_json: bool

    @property
    def resume_command(self) -> str:
        """The command that resumes the training."""
        given = {name: value for name, value in self.settings.items() if value is not None}
        if self.privacy is not None:
            given |= {"epsilon": self.privacy.epsilon, "delta": self.privacy.delta}
        words = ["hotview", "federated", "simulate", str(self.app)]
        for name, value in given.items():
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return shlex.join([*words, "--resume"])


def run_simulation(job: SimulationJob) -> int:
    """Train a federation in this process.

    Parameters
    ----------
    job : SimulationJob
        Options of the simulation.

    Returns
    -------
    int
        0, 1 if a client could not save its partial model, or 130 if Ctrl-C stopped the training,
        which ``--resume`` continues.
    """
    config = read_app(job.app, job.settings)
    clients = open_clients(job, config)
    if not job.dry_run:
        _clear_earlier_training(job, config, clients)
    facts = describe_clients(clients, config.settings)
    if job.dry_run or not job.as_json:
        print_result(facts, *client_parts(facts), as_json=job.as_json)
    if job.dry_run:
        return 0
    config.folder.mkdir(parents=True, exist_ok=True)
    channel, is_shown = InProcessChannel(clients), sys.stderr.isatty()
    server = Server(channel, config.settings, checkpoint=config.checkpoint, verbose=is_shown)
    start = time.perf_counter()
    try:
        with _log_to_stderr():
            result = server.run()
    except RuntimeError as error:  # too few clients respond, which is not a bug
        raise ValueError(str(error)) from error
    write_outcome(config.outcome, result)
    stopped = len(result.rows) < config.settings.rounds
    facts = {
        **result.to_json(),
        **facts,
        "rounds": len(result.rows),
        "bytes": server.traffic,
        "seconds": time.perf_counter() - start,
        "interrupted": stopped,
        "resume": job.resume_command,
        "parts": {name: str(clients[name].model_path) for name in result.finished},
        "outcome": str(config.outcome),
    }
    print_result(facts, *outcome_parts(facts), as_json=job.as_json)
    if stopped:
        return INTERRUPTED
    return 0 if len(result.finished) == len(clients) else 1


def read_app(folder: Path, given: Mapping[str, Any]) -> RunConfig:
    """Read the run config in an app's ``pyproject.toml``, some of whose settings are replaced."""
    path, remedy = folder / "pyproject.toml", "Write a federation: hotview federated new."
    if not path.is_file():
        problem = f"Expected {folder} to be a federation, but there is no {path}."
        raise FileNotFoundError(f"{problem} {remedy}")
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    except (KeyError, TypeError, ValueError) as error:
        problem = f"Expected [tool.flwr.app.config] in {path}, but it cannot be read ({error!r})."
        raise ValueError(f"{problem} {remedy}") from error
    replaced = {k.replace("_", "-"): value for k, value in given.items() if value is not None}
    with as_usage():
        config = read_run_config({**values, **replaced})
    return replace(config, folder=folder / config.folder)


def open_clients(job: SimulationJob, config: RunConfig) -> dict[str, Client]:
    """Read configurations and tables of all clients, by name."""
    clients = {}
    for name in config.organizations:
        path = job.app / "organizations" / f"{name}.toml"
        if not path.is_file():
            raise FileNotFoundError(
                f"Expected {path}, the configuration of {name}, but it is not there. A simulation "
                "needs those of all organizations; between machines each has its own."
            )
        # The user of a simulation has all tables, and consents for all clients.
        client = open_client(path, shares=("features", "labels"))
        if client.data.name != name:
            raise ValueError(f"Expected {path} to be of {name!r}, not {client.data.name!r}.")
        if job.privacy is not None:
            client.privacy = job.privacy
        clients[name] = client
    return clients


def _clear_earlier_training(
    job: SimulationJob, config: RunConfig, clients: Mapping[str, Client]
) -> None:
    """Delete an earlier training with ``--force``; refuse to replace it without."""
    if job.resume:
        return
    models = (client.model_path for client in clients.values())
    existing = [path for path in (config.checkpoint, *models) if path.exists()]
    if existing and not job.force:
        raise FileExistsError(
            f"{existing[0]} is there, of an earlier training. Go on from it with --resume, or "
            "begin anew with --force."
        )
    # The state has the privacy budget, too: the releases of a simulation went nowhere.
    states = (client.state_path for client in clients.values())
    for path in (config.checkpoint, config.outcome, *states):
        path.unlink(missing_ok=True)


@contextmanager
def _log_to_stderr() -> Iterator[None]:
    """Print the log of the server to stderr, each line once."""
    seen: set[str] = set()

    def is_new(record: logging.LogRecord) -> bool:
        text = record.getMessage()
        new = text not in seen
        seen.add(text)
        return new

    logger = logging.getLogger("hotview.federated")
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("hotview: %(message)s"))
    handler.addFilter(is_new)
    logger.addHandler(handler)
    before, logger.propagate = logger.propagate, False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.propagate = before


def describe_clients(clients: Mapping[str, Client], settings: Settings) -> dict[str, Any]:
    """Return a description of the clients' tables, as values that JSON can represent."""
    return {
        "organizations": [
            {
                "name": name,
                "rows": client.data.table.n_rows,
                "columns": client.data.table.n_columns,
                "linked": len(client.data.linked),
                "labeled": sum(label is not None for label in client.data.labels.tolist()),
                "epsilon": None if client.privacy is None else client.privacy.epsilon,
            }
            for name, client in clients.items()
        ],
        "settings": settings.to_json(),
    }


def client_parts(facts: Mapping[str, Any]) -> Iterator[str | Table]:
    """Tables and lines on the output of `describe_clients`."""
    headings = ["rows", "columns", "linked", "labeled"]
    if any(client["epsilon"] is not None for client in facts["organizations"]):
        headings.append("epsilon")
    rows = [
        [client["name"], *("" if client[k] is None else f"{client[k]:,.10g}" for k in headings)]
        for client in facts["organizations"]
    ]
    yield make_table(("organization", *headings), rows, title="Tables")
    holder = facts["settings"]["label_holder"]
    if holder:
        yield f"Labels are those of {holder}; other views are trained with them over linked rows."
    else:
        yield "No label holder: the views are encoded, and nothing is predicted."
    if "epsilon" in headings:
        yield "The noise is calibrated first, for seconds per organization."


def outcome_parts(facts: Mapping[str, Any]) -> Iterator[str | Table]:
    """Tables and lines on a training, and on its clients, as `run_simulation` describes them."""
    plan, settings = facts["plan"], facts["settings"]
    if plan is not None:
        W, names = np.array(plan["W"]), plan["names"]
        pairwise = settings["coupling"] == "hot-pairwise"
        columns = names if pairwise else [f"group {k}" for k in range(W.shape[1])]
        yield matrix_table(W * len(W), names, columns, title="Plan W, rows adding up to 1")
    headings = ("organization", "largest message to it", "largest from it", "all messages")
    rows = [(name, *sizes.values()) for name, sizes in facts["bytes"].items()]
    yield make_table(headings, rows, title="Traffic, in bytes")
    yield (
        f"{facts['rounds']} of {settings['rounds']} rounds, {settings['local_steps']} local steps "
        f"in each, {facts['seconds']:.0f} s."
    )
    for name, p in facts["privacy"].items():
        epsilon, delta = f"{p['epsilon']:.3g}", f"{p['delta']:g}"
        yield f"{name}: its projections are ({epsilon}, {delta})-differentially private."
    rounds: dict[tuple[str, str], list[str]] = {}
    for drop in facts["dropped"]:
        rounds.setdefault((drop["name"], drop["reason"]), []).append(str(drop["round"]))
    for (name, reason), numbers in rounds.items():
        yield f"{name} was left out of round {', '.join(numbers)}: {reason}"
    if not rounds:
        yield "No organization was left out of a round."
    parts = list(facts["parts"].values())
    if facts["interrupted"]:
        yield f"Stopped by Ctrl-C, after a complete round. Go on: {facts['resume']}"
    elif parts:
        yield from (f"Part saved to {path}" for path in parts)
        yield f"Next: hotview federated join {shlex.join(parts)} -o joint.hotview"
