"""The work of ``hotview federated simulate``: all organizations in one process."""

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

from hotview._files import whole_file
from hotview._types import Array, IntArray
from hotview.cli.federated_output import (
    describe_clients,
    describe_outcome,
    print_clients,
    print_outcome,
)
from hotview.cli.output_files import write_table
from hotview.cli.runner import INTERRUPTED, as_usage, make_console, print_json
from hotview.datasets import load_handwritten
from hotview.federated import (
    Client,
    Failure,
    FederatedResult,
    InProcessChannel,
    Message,
    Privacy,
    Server,
)
from hotview.federated.app_template import write_app
from hotview.federated.configuration import RunConfig, open_client, read_run_config
from hotview.federated.server_state import write_outcome
from hotview.federated.settings import Settings

__all__ = [
    "HOLDER",
    "NAMES",
    "CountingChannel",
    "Job",
    "open_clients",
    "read_app",
    "run_simulation",
    "write_sample_federation",
]

CHECKPOINT, OUTCOME = "checkpoint.federated", "outcome.json"


@dataclass(frozen=True)
class Job:
    """What was asked for.

    Parameters
    ----------
    app : Path
        The folder that ``hotview federated new`` wrote.
    settings : dict of str to object
        Settings to use instead of those of the app; None where not given.
    privacy : Privacy or None
        What all organizations ask for, instead of what their configurations say.
    dry_run : bool
        Whether to stop before training.
    resume : bool
        Whether to go on from a checkpoint.
    force : bool
        Whether to begin anew where a training is.
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
    def flags(self) -> list[str]:
        """What has to be said again to go on."""
        given = {name: value for name, value in self.settings.items() if value is not None}
        if self.privacy is not None:
            given |= {"epsilon": self.privacy.epsilon, "delta": self.privacy.delta}
        words = [str(self.app)]
        for name, value in given.items():
            words += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
        return words


class CountingChannel(InProcessChannel):
    """Organizations in this process; counts what passes.

    Parameters
    ----------
    organizations : dict of str to Client
        Who answers.

    Attributes
    ----------
    largest : dict of str to dict of str to int
        Bytes of the largest message ``to`` and ``from`` each organization.
    total : dict of str to int
        Bytes of all messages to and from each.
    """

    def __init__(self, organizations: Mapping[str, Client]) -> None:
        super().__init__(organizations)
        self.largest = {name: {"to": 0, "from": 0} for name in organizations}
        self.total = dict.fromkeys(organizations, 0)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Let everybody answer in turn, and count."""
        answers = super().exchange(messages, timeout)
        for way, passed in (("to", messages), ("from", answers)):
            for name, message in passed.items():
                if isinstance(message, Message):
                    size = len(message.to_bytes())
                    self.largest[name][way] = max(size, self.largest[name][way])
                    self.total[name] += size
        return answers


def run_simulation(job: Job) -> int:
    """Run an app without a network.

    Parameters
    ----------
    job : Job
        What was asked for.

    Returns
    -------
    int
        0, 1 if an organization could not save its part, or 130 if Ctrl-C ended the training, which
        goes on from there with ``--resume``.
    """
    config = read_app(job.app, job.settings)
    clients = open_clients(job, config)
    if not job.dry_run:
        _make_room(job, config, clients)
    facts = describe_clients(clients, config.settings)
    if not job.as_json:
        print_clients(facts, make_console())
    if job.dry_run:
        if job.as_json:
            print_json(facts)
        return 0
    config.folder.mkdir(parents=True, exist_ok=True)
    channel = CountingChannel(clients)
    coordinator = Server(
        channel,
        config.settings,
        checkpoint=config.folder / CHECKPOINT,
        verbose=sys.stderr.isatty(),
    )
    start = time.perf_counter()
    with _telling_log():
        result = _run(coordinator)
    write_outcome(config.folder / OUTCOME, joint)
    stopped = len(result.history) < config.settings.rounds
    facts |= describe_outcome(joint, config.settings, channel.largest, channel.total)
    facts |= {"seconds": time.perf_counter() - start, "interrupted": stopped}
    facts["resume"] = shlex.join(["hotview", "federated", "simulate", *job.flags, "--resume"])
    facts["parts"] = {name: str(clients[name].model_path) for name in result.finished}
    facts["outcome"] = str(config.folder / OUTCOME)
    if job.as_json:
        print_json(facts)
    else:
        print_outcome(facts, make_console())
    if stopped:
        return INTERRUPTED
    return 0 if len(result.finished) == len(clients) else 1


def _run(coordinator: Server) -> FederatedResult:
    try:
        return coordinator.run()
    except RuntimeError as error:  # too few are left: which is no fault of the program
        raise ValueError(str(error)) from error


def read_app(folder: Path, given: Mapping[str, Any]) -> RunConfig:
    """What an app's ``pyproject.toml`` says, with other settings where some are given.

    Parameters
    ----------
    folder : Path
        Of the app.
    given : dict of str to object
        Settings by name; None where not given.

    Returns
    -------
    RunConfig
        Whose folder is that of the coordinator, in `folder`.
    """
    path = folder / "pyproject.toml"
    if not path.is_file():
        raise FileNotFoundError(
            f"Expected {folder} to be a federation, but there is no {path}. Write one: "
            "hotview federated new."
        )
    try:
        told = tomllib.loads(path.read_text(encoding="utf-8"))["tool"]["flwr"]["app"]["config"]
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"Expected {path} to be TOML, but {error}.") from error
    except (KeyError, TypeError):
        raise ValueError(
            f"Expected [tool.flwr.app.config] in {path}, but it is not there. Write a federation: "
            "hotview federated new."
        ) from None
    more = {k.replace("_", "-"): value for k, value in given.items() if value is not None}
    with as_usage():
        config = read_run_config({**told, **more})
    return replace(config, folder=folder / config.folder)


def open_clients(job: Job, config: RunConfig) -> dict[str, Client]:
    """Read the tables of all organizations.

    Parameters
    ----------
    job : Job
        What was asked for.
    config : RunConfig
        Of the app.

    Returns
    -------
    dict of str to Client
        By name.
    """
    clients = {}
    for name in config.organizations:
        path = job.app / "organizations" / f"{name}.toml"
        if not path.is_file():
            raise FileNotFoundError(
                f"Expected {path}, which says what {name} has, but it is not there. A simulation "
                "needs those of all organizations; between machines each has its own."
            )
        # Whoever simulates plays all sides, and agrees for them.
        client = open_client(path, shares=("features", "labels"))
        if client.data.name != name:
            raise ValueError(f"Expected {path} to be of {name!r}, not {client.data.name!r}.")
        if job.privacy is not None:
            client.privacy = job.privacy
        clients[name] = client
    return clients


def _make_room(job: Job, config: RunConfig, clients: Mapping[str, Client]) -> None:
    """Refuse to begin where a training is, unless told to."""
    checkpoint, outcome = config.folder / CHECKPOINT, config.folder / OUTCOME
    if job.resume:
        return
    there = [
        path
        for path in (checkpoint, *(one.model_path for one in clients.values()))
        if path.exists()
    ]
    if there and not job.force:
        raise FileExistsError(
            f"{there[0]} is there, of an earlier training. Go on from it with --resume, or begin "
            "anew with --force."
        )
    # What was released in a simulation, nobody has seen: it does not count any more.
    for path in (checkpoint, outcome, *(one.state for one in clients.values())):
        path.unlink(missing_ok=True)


@contextmanager
def _telling_log() -> Iterator[None]:
    """Show what the coordinator logs as other lines on stderr are shown, each of them once."""
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


#: organizations, which are views of the digits, and whose of them the labels are
NAMES, HOLDER = ("fou", "kar", "mor"), "fou"
_N_NEW, _N_LINKED = 400, 200
_LABEL = "digit"
_TOML = """\
# What {name} has, and how it takes part. It stays with {name}, and so does all that it names.
# Paths are relative to this file.
name = "{name}"
file = "{name}/{name}.csv"
folder = "{name}"  # where its state is kept and, in the end, its part of the model: part.hotview
id_column = "id"
linked = "{name}/linked.txt"  # ids that all agreed on, in the same order everywhere
"""


def write_sample_federation(folder: Path, random_state: int) -> list[Path]:
    """Write an app whose organizations have tables already, all of it or nothing.

    200 people are known to all three organizations, which have agreed on them; 1,400 others to one
    each. One organization has the labels of its people. 400 more, whom nobody has trained on, are
    there to check by.

    Parameters
    ----------
    folder : Path
        Where to; there must be nothing in it.
    random_state : int
        Seed of who is where, and of the training.

    Returns
    -------
    list of Path
        What organizations have, and the labels to check by.
    """
    settings = Settings(label_holder=HOLDER, random_state=random_state)
    app = write_app(folder, NAMES, settings)
    try:
        return _write(app, random_state)
    except BaseException:  # Ctrl-C too: in a folder that was empty, nothing else can be lost
        shutil.rmtree(app, ignore_errors=True)
        raise


def _write(folder: Path, random_state: int) -> list[Path]:
    digits = load_handwritten()
    random = np.random.default_rng(random_state)
    order = random.permutation(len(digits.target))
    new, linked, others = np.split(order, [_N_NEW, _N_NEW + _N_LINKED])
    # The digits are sorted; numbers in order would tell what they are.
    ids = np.array([f"person-{i:04d}" for i in 1 + random.permutation(len(order))])
    written = []
    for name, own in zip(NAMES, np.array_split(others, len(NAMES)), strict=True):
        home = folder / "organizations" / name
        home.mkdir()
        rows = random.permutation(np.concatenate([linked, own]))
        X = digits.views[name]
        labels = {_LABEL: digits.target[rows]} if name == HOLDER else {}
        table = {**_columns(ids, X, rows, name), **labels}
        written += [
            _write_text(home.parent / f"{name}.toml", _configuration(name)),
            write_table(table, home / f"{name}.csv"),
            _write_text(home / "linked.txt", "".join(f"{key}\n" for key in ids[linked])),
            write_table(_columns(ids, X, new, name), home / "new.csv"),
        ]
    truth = {"id": ids[new], _LABEL: digits.target[new]}
    return [*written, write_table(truth, folder / "new-labels.csv")]


def _configuration(name: str) -> str:
    return _TOML.format(name=name) + (f'label_column = "{_LABEL}"\n' if name == HOLDER else "")


def _columns(ids: Array, X: Array, rows: IntArray, name: str) -> Mapping[str, Any]:
    return {"id": ids[rows], **{f"{name}_{j}": X[rows, j] for j in range(X.shape[1])}}


def _write_text(path: Path, text: str) -> Path:
    with whole_file(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path
