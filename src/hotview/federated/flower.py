"""The two sides of a federation as Flower runs them: a ClientApp and a ServerApp."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hotview.federated.messages import Answering
from hotview.federated.flower_channel import pack, tell_name, unpack
from hotview.federated.configuration import open_organization, read_configuration
from hotview.federated.server import Coordinator
from hotview.federated.flower_channel import GridCarrier
from hotview.federated.server_state import write_outcome
from hotview.federated.configuration import read_run_config

from flwr.app import Context  # isort: skip; after ours, which tell it to be quiet
from flwr.app import Message as Parcel  # isort: skip
from flwr.clientapp import ClientApp  # isort: skip
from flwr.serverapp import Grid, ServerApp  # isort: skip

__all__ = ["make_client_app", "make_server_app"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


def make_client_app(open_member: Callable[[Path], Answering] | None = None) -> ClientApp:
    """The side of an organization.

    Its SuperNode says where its configuration is: ``--node-config
    'config="organizations/clinical.toml"'``. Every message begins a process, which finds what
    earlier ones left in the organization's folder.

    Parameters
    ----------
    open_member : callable or None, default=None
        Gives who answers, from the path of a configuration; None opens an `Organization`.

    Returns
    -------
    ClientApp
        For ``clientapp`` in the ``pyproject.toml`` of a Flower app.

    Examples
    --------
    >>> from hotview.federated.flower import make_client_app
    >>> app = make_client_app()
    """
    opened = open_member or open_organization
    app = ClientApp()

    @app.query("who")
    def who(message: Parcel, context: Context) -> Parcel:
        path = _path(context)
        return Parcel(tell_name(_at_home(lambda: read_configuration(path).name)), reply_to=message)

    @app.train()
    def train(message: Parcel, context: Context) -> Parcel:
        path = _path(context)
        own = _at_home(lambda: read_configuration(path).name)
        name, asked = unpack(message.content)
        if name != own:
            raise ValueError(f"it is configured as {own!r}, but its key is that of {name!r}")
        answer = _at_home(lambda: opened(path).answer(asked))
        return Parcel(pack(answer, name), reply_to=message)

    return app


def make_server_app() -> ServerApp:
    """The side of whoever brings the organizations together.

    It reads what ``[tool.flwr.app.config]`` and ``flwr run --run-config`` say, waits for the
    organizations and couples them. What it knows in the end is in ``outcome.json`` in its folder.
    Where an earlier run ended before its time, it goes on from the checkpoint in there.

    Returns
    -------
    ServerApp
        For ``serverapp`` in the ``pyproject.toml`` of a Flower app.

    Examples
    --------
    >>> from hotview.federated.flower import make_server_app
    >>> app = make_server_app()
    """
    app = ServerApp()

    @app.main()
    def main(grid: Grid, context: Context) -> None:
        _show_log()
        config = read_run_config(context.run_config)
        config.folder.mkdir(parents=True, exist_ok=True)
        carrier = GridCarrier(grid, config.organizations)
        _log.info("waits for %s", ", ".join(config.organizations))
        checkpoint = config.folder / "checkpoint.federated"
        # All are there when a training begins; later it goes on with fewer.
        least = config.settings.least if checkpoint.exists() else None
        carrier.gather(config.patience, at_least=least)
        joint = Coordinator(
            carrier, config.settings, checkpoint=checkpoint, timeout=config.timeout
        ).run()
        write_outcome(config.folder / "outcome.json", joint)

    return app


def _show_log() -> None:
    """Print what our modules log: Flower sends what is printed to whoever started the run."""
    logger = logging.getLogger("hotview.federated")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _path(context: Context) -> Path:
    path = context.node_config.get("config")
    if not isinstance(path, str):
        raise ValueError(
            "Expected a SuperNode that was started with --node-config 'config=\"FILE.toml\"', but "
            f"config is {path!r}."
        )
    return Path(path)


def _at_home(do: Callable[[], T]) -> T:
    """Do what touches data; of an error only its kind leaves, because its text may quote data."""
    try:
        return do()
    except Exception as error:
        traceback.print_exc()
        kind = type(error).__name__
    raise RuntimeError(f"{kind}: the organization's own log has the rest")
