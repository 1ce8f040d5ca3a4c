"""Flower's ClientApp and ServerApp of a federation."""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from hotview.federated.configuration import open_client, read_client_config, read_run_config
from hotview.federated.flower_channel import FlowerChannel, pack, pack_name, unpack
from hotview.federated.messages import MessageHandler
from hotview.federated.server import Server
from hotview.federated.server_state import write_outcome

from flwr.app import Context  # isort: skip; flower_channel turns its telemetry off first
from flwr.app import Message as FlowerMessage  # isort: skip
from flwr.clientapp import ClientApp  # isort: skip
from flwr.serverapp import Grid, ServerApp  # isort: skip

__all__ = ["make_client_app", "make_server_app"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


def make_client_app(open_handler: Callable[[Path], MessageHandler] | None = None) -> ClientApp:
    """Return the ClientApp of an organization.

    The node configuration of its SuperNode has the path of the client's configuration:
    ``--node-config 'config="organizations/clinical.toml"'``. Flower starts a process for every
    message; the client's state between messages is in its folder.

    Parameters
    ----------
    open_handler : callable or None, default=None
        Returns the message handler for the path of a configuration; None opens a `Client`.

    Returns
    -------
    ClientApp
        For ``clientapp`` in the ``pyproject.toml`` of a Flower app.

    Examples
    --------
    >>> from hotview.federated.flower import make_client_app
    >>> app = make_client_app()
    """
    open_handler = open_handler or open_client
    app = ClientApp()

    @app.query("name")
    def query_name(message: FlowerMessage, context: Context) -> FlowerMessage:
        _, name = _read_node_config(context)
        return FlowerMessage(pack_name(name), reply_to=message)

    @app.train()
    def train(message: FlowerMessage, context: Context) -> FlowerMessage:
        path, own_name = _read_node_config(context)
        name, request = unpack(message.content)
        if name != own_name:
            raise ValueError(f"it is configured as {own_name!r}, but its key is that of {name!r}")
        response = _hide_error_text(lambda: open_handler(path).handle(request))
        return FlowerMessage(pack(response, name), reply_to=message)

    return app


def make_server_app() -> ServerApp:
    """Return the ServerApp of the coordinator.

    It reads ``[tool.flwr.app.config]`` and ``flwr run --run-config``, waits for the clients and
    trains. The result is written to ``outcome.json`` in its folder. An earlier run that did not
    finish is resumed from the checkpoint in this folder.

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
        _print_log()
        config = read_run_config(context.run_config)
        config.folder.mkdir(parents=True, exist_ok=True)
        channel = FlowerChannel(grid, config.organizations)
        _log.info("waits for %s", ", ".join(config.organizations))
        checkpoint = config.folder / "checkpoint.federated"
        # The first round needs all clients; a resumed training does not.
        at_least = config.settings.min_clients if checkpoint.exists() else None
        channel.wait_for_clients(config.patience, at_least=at_least)
        result = Server(
            channel, config.settings, checkpoint=checkpoint, timeout=config.timeout
        ).run()
        write_outcome(config.folder / "outcome.json", result)

    return app


def _print_log() -> None:
    """Print log records to stdout, which Flower streams to the user who started the run."""
    logger = logging.getLogger("hotview.federated")
    handler = logging.StreamHandler(sys.stdout)
    handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)


def _read_node_config(context: Context) -> tuple[Path, str]:
    """Return the path of a client's configuration, and the client's name."""
    path = context.node_config.get("config")
    if not isinstance(path, str):
        raise ValueError(
            "Expected a SuperNode that was started with --node-config 'config=\"FILE.toml\"', but "
            f"config is {path!r}."
        )
    return Path(path), _hide_error_text(lambda: read_client_config(path).name)


def _hide_error_text(function: Callable[[], T]) -> T:
    """Call a function; replace an error by its type, because its text may quote data."""
    try:
        return function()
    except Exception as error:
        traceback.print_exc()
        kind = type(error).__name__
    raise RuntimeError(f"{kind}: the organization's own log has the rest")
