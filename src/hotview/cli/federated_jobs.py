"""The work of ``hotview federated``: a simulation in one process, and a sample federation."""

from __future__ import annotations

import logging
import shlex
import shutil
import sys
import time
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from hotview._files import atomic_write
from hotview._types import Array
from hotview.cli.federated_output import (
    describe_clients,
    describe_outcome,
    print_clients,
    print_outcome,
)
from hotview.cli.output_files import write_table
from hotview.cli.runner import INTERRUPTED, as_usage, make_console, print_json
from hotview.datasets import load_handwritten
from hotview.federated import Client, Failure, InProcessChannel, Message, Privacy, Server, Settings
from hotview.federated.app_template import write_app
from hotview.federated.configuration import RunConfig, open_client, read_run_config
from hotview.federated.server_state import write_outcome

__all__ = [
    "SAMPLE_HOLDER",
    "SAMPLE_NAMES",
    "CountingChannel",
    "SimulationJob",
    "open_clients",
    "read_app",
    "run_simulation",
    "write_sample_federation",
]

#: organizations of the sample, which are views of the digits, and the one that has the labels
SAMPLE_NAMES, SAMPLE_HOLDER = ("fou", "kar", "mor"), "fou"
_N_NEW, _N_LINKED = 400, 200
_SAMPLE_CONFIG = """\
# Configuration of {name}. This file, and all files that it names, stay with {name}.
# Paths are relative to this file.
name = "{name}"
file = "{name}/{name}.csv"
folder = "{name}"  # its state and, in the end, its partial model: part.hotview
id_column = "id"
linked = "{name}/linked.txt"  # ids that all have in common, in the same order everywhere
"""


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


class CountingChannel(InProcessChannel):
    """A channel to clients in this process that counts bytes.

    Parameters
    ----------
    clients : dict of str to Client
        Clients by name.

    Attributes
    ----------
    largest : dict of str to dict of str to int
        Bytes of the largest message ``to`` and ``from`` each client.
    total : dict of str to int
        Bytes of all messages to and from each client.
    """

    def __init__(self, clients: Mapping[str, Client]) -> None:
        super().__init__(clients)
        self.largest = {name: {"to": 0, "from": 0} for name in clients}
        self.total = dict.fromkeys(clients, 0)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Call every client in turn, and count the bytes."""
        responses = super().exchange(messages, timeout)
        for direction, sent in (("to", messages), ("from", responses)):
            for name, message in sent.items():
                if isinstance(message, Message):
                    size = len(message.to_bytes())
                    self.largest[name][direction] = max(size, self.largest[name][direction])
                    self.total[name] += size
        return responses


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
    if not job.as_json:
        print_clients(facts, make_console())
    if job.dry_run:
        if job.as_json:
            print_json(facts)
        return 0
    config.folder.mkdir(parents=True, exist_ok=True)
    channel = CountingChannel(clients)
    checkpoint, outcome = _server_files(config)
    server = Server(channel, config.settings, checkpoint=checkpoint, verbose=sys.stderr.isatty())
    start = time.perf_counter()
    try:
        with _log_to_stderr():
            result = server.run()
    except RuntimeError as error:  # too few clients respond, which is not a bug
        raise ValueError(str(error)) from error
    write_outcome(outcome, result)
    stopped = len(result.rows) < config.settings.rounds
    facts |= describe_outcome(result, config.settings, channel.largest, channel.total) | {
        "seconds": time.perf_counter() - start,
        "interrupted": stopped,
        "resume": job.resume_command,
        "parts": {name: str(clients[name].model_path) for name in result.finished},
        "outcome": str(outcome),
    }
    if job.as_json:
        print_json(facts)
    else:
        print_outcome(facts, make_console())
    if stopped:
        return INTERRUPTED
    return 0 if len(result.finished) == len(clients) else 1


def _server_files(config: RunConfig) -> tuple[Path, Path]:
    """Return the paths of the checkpoint and of the result."""
    return config.folder / "checkpoint.federated", config.folder / "outcome.json"


def read_app(folder: Path, given: Mapping[str, Any]) -> RunConfig:
    """Read the run config in an app's ``pyproject.toml``.

    Parameters
    ----------
    folder : Path
        Folder of the app.
    given : dict of str to object
        Settings that replace those of the file; None where not given.

    Returns
    -------
    RunConfig
        The run config, whose folder is inside `folder`.
    """
    path = folder / "pyproject.toml"
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {folder} to be a federation, but there is no {path}. Write one: "
            "hotview federated new."
        )
    try:
        values = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Expected {path} to be TOML, but {error}.") from error
    except (KeyError, TypeError):
        raise ValueError(
            f"Expected [tool.flwr.app.config] in {path}, but it is not there. Write a federation: "
            "hotview federated new."
        ) from None
    replaced = {k.replace("_", "-"): value for k, value in given.items() if value is not None}
    with as_usage():
        config = read_run_config({**values, **replaced})
    return replace(config, folder=folder / config.folder)


def open_clients(job: SimulationJob, config: RunConfig) -> dict[str, Client]:
    """Read configurations and tables of all clients.

    Parameters
    ----------
    job : SimulationJob
        Options of the simulation.
    config : RunConfig
        Run config of the app.

    Returns
    -------
    dict of str to Client
        Clients by name.
    """
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
    checkpoint, outcome = _server_files(config)
    models = (client.model_path for client in clients.values())
    existing = [path for path in (checkpoint, *models) if path.exists()]
    if existing and not job.force:
        raise FileExistsError(
            f"{existing[0]} is there, of an earlier training. Go on from it with --resume, or "
            "begin anew with --force."
        )
    # The state has the privacy budget, too: the releases of a simulation went nowhere.
    for path in (checkpoint, outcome, *(client.state_path for client in clients.values())):
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


def write_sample_federation(folder: Path, random_state: int) -> list[Path]:
    """Write an app whose organizations have tables of digits, completely or not at all.

    200 individuals are linked: all three organizations have a row of them. 1,400 others are in one
    table each. One organization has labels. 400 more individuals are for evaluation.

    Parameters
    ----------
    folder : Path
        The folder to write; it must be empty or absent.
    random_state : int
        Seed of the sample and of the training.

    Returns
    -------
    list of Path
        Files of the organizations, and the labels for evaluation.
    """
    settings = Settings(label_holder=SAMPLE_HOLDER, random_state=random_state)
    app = write_app(folder, SAMPLE_NAMES, settings)
    try:
        return _write_sample_tables(app, random_state)
    except BaseException:  # including Ctrl-C; the folder held nothing else
        shutil.rmtree(app, ignore_errors=True)
        raise


def _write_sample_tables(folder: Path, random_state: int) -> list[Path]:
    digits = load_handwritten()
    random = np.random.default_rng(random_state)
    order = random.permutation(len(digits.target))
    new, linked, others = np.split(order, [_N_NEW, _N_NEW + _N_LINKED])
    # The digits are sorted: ids in order would reveal the labels.
    ids = np.array([f"person-{i:04d}" for i in 1 + random.permutation(len(order))])

    def columns(name: str, rows: Array) -> dict[str, Array]:
        X = digits.views[name][rows]
        return {"id": ids[rows], **{f"{name}_{j}": X[:, j] for j in range(X.shape[1])}}

    written = []
    for name, own in zip(SAMPLE_NAMES, np.array_split(others, len(SAMPLE_NAMES)), strict=True):
        home = folder / "organizations" / name
        home.mkdir()
        rows = random.permutation(np.concatenate([linked, own]))
        table, config = columns(name, rows), _SAMPLE_CONFIG.format(name=name)
        if name == SAMPLE_HOLDER:
            table["digit"] = digits.target[rows]
            config += 'label_column = "digit"\n'
        texts = {
            home.parent / f"{name}.toml": config,
            home / "linked.txt": "".join(f"{key}\n" for key in ids[linked]),
        }
        for path, text in texts.items():
            with atomic_write(path) as draft:
                draft.write_text(text, encoding="utf-8")
        written += [
            *texts,
            write_table(table, home / f"{name}.csv"),
            write_table(columns(name, new), home / "new.csv"),
        ]
    truth = {"id": ids[new], "digit": digits.target[new]}
    return [*written, write_table(truth, folder / "new-labels.csv")]
