"""Flower's ClientApp and ServerApp of a federation, and the channel through its SuperLink."""

from __future__ import annotations

import logging
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from hotview.federated.configuration import open_client, read_client_config, read_run_config
from hotview.federated.messages import Failure, Message, MessageHandler, to_line
from hotview.federated.server import Server
from hotview.federated.state import write_outcome

os.environ.setdefault("FLWR_TELEMETRY_ENABLED", "0")  # both are read when Flower is imported
os.environ.setdefault("FLWR_DISABLE_UPDATE_CHECK", "1")
try:
    import flwr.app
    from flwr.app import ConfigRecord, Context, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
except ImportError as error:
    raise ImportError(
        'Federated training between machines needs Flower: pip install "hotview[federated]"'
    ) from error
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

T = TypeVar("T")
_log = logging.getLogger(__name__)
_RECORD = "hotview"
_POLL_INTERVAL = 0.2  # seconds; Flower's own loop polls every three
_MALFORMED = (AttributeError, DecodeError, KeyError, TypeError, ValueError)
_DISCONNECTED = "gone: its node is not connected"
_REASONS = {  # by Flower's error code
    3: "late: the message or its answer expired on the way",
    4: "late: its answer expired on the way",
    5: _DISCONNECTED,
    7: "its node does not trust this app",
    8: "gone: its process ended before it had answered",
}


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

    @app.train()
    def train(message: flwr.app.Message, context: Context) -> flwr.app.Message:
        path = context.node_config.get("config")
        if not isinstance(path, str):
            raise ValueError(
                "Expected a SuperNode that was started with --node-config 'config=\"FILE.toml\"', "
                f"but config is {path!r}."
            )
        own_name = _hide_error_text(lambda: read_client_config(path).name)
        name, request = unpack(message.content)
        if name != own_name:
            raise ValueError(f"it is configured as {own_name!r}, but its key is that of {name!r}")
        response = _hide_error_text(lambda: open_handler(Path(path)).handle(request))
        return flwr.app.Message(pack(response, name), reply_to=message)

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
        # Flower streams stdout to the user who started the run.
        handler = logging.StreamHandler(sys.stdout)
        handler.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        logger = logging.getLogger("hotview.federated")
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
        config = read_run_config(context.run_config)
        config.folder.mkdir(parents=True, exist_ok=True)
        channel = FlowerChannel(grid, config.organizations)
        _log.info("waits for %s", ", ".join(config.organizations))
        settings, path = config.settings, config.checkpoint
        # The first round needs all clients; a resumed training does not.
        at_least = settings.min_clients if path.exists() else None
        channel.wait_for_clients(config.patience, at_least=at_least)
        result = Server(channel, settings, checkpoint=path, timeout=config.timeout).run()
        write_outcome(config.outcome, result)

    return app


def _hide_error_text(function: Callable[[], T]) -> T:
    """Call a function; replace an error by its type, because its text may quote data."""
    try:
        return function()
    except Exception as error:
        traceback.print_exc()
        kind = type(error).__name__
    raise RuntimeError(f"{kind}: the organization's own log has the rest")


def pack(message: Message, name: str) -> RecordDict:
    """Encode a message as Flower content.

    Parameters
    ----------
    message : Message
        The message.
    name : str
        Name of the client that receives or sends it.

    Returns
    -------
    RecordDict
        Flower content.

    Examples
    --------
    >>> from hotview.federated.messages import Message
    >>> from hotview.federated.flower import pack, unpack
    >>> unpack(pack(Message("round", {"round": 3}), "clinical"))
    ('clinical', Message(kind='round', metadata={'round': 3}, arrays={}))
    """
    return RecordDict({_RECORD: ConfigRecord({"name": name, "message": message.to_bytes()})})


def unpack(content: RecordDict) -> tuple[str, Message]:
    """Decode the output of `pack`.

    Parameters
    ----------
    content : RecordDict
        Untrusted content; whatever is not a message raises a ValueError.

    Returns
    -------
    name : str
        Name of the client.
    message : Message
        The message.

    Examples
    --------
    >>> from flwr.app import RecordDict
    >>> from hotview.federated.flower import unpack
    >>> unpack(RecordDict())
    Traceback (most recent call last):
    ValueError: it is no message
    """
    record = content.config_records.get(_RECORD) or ConfigRecord()
    name, data = record.get("name"), record.get("message")
    if not isinstance(name, str) or not isinstance(data, bytes):
        raise ValueError("it is no message")
    return name, Message.from_bytes(data)


def read_reply(reply: Any, name: str) -> Message | Failure:
    """Decode the response of a client.

    Parameters
    ----------
    reply : flwr.app.Message, Exception or None
        The reply, the error raised while it was read, or None without a reply.
    name : str
        Name of the client that must have sent it.

    Returns
    -------
    Message or Failure
        The response, or the reason why there is none.

    Examples
    --------
    >>> from hotview.federated.flower import read_reply
    >>> read_reply(None, "clinical")
    Failure(reason='late: no answer in time')
    """
    if reply is None:
        return Failure("late: no answer in time")
    if isinstance(reply, Exception):
        return Failure(f"garbage: {type(reply).__name__}")
    if reply.has_error():
        code, text = reply.error.code, reply.error.reason
        text = re.sub(r"^<class '[\w.]+'>:<'(.*)'>$", r"\1", text or "", flags=re.DOTALL)
        problem = text or f"Flower's error {code}"
        return Failure(_REASONS.get(code) or f"an error over there: {problem}")
    try:
        sender, message = unpack(reply.content)
    except ValueError as error:
        return Failure(f"garbage: {error}")
    if sender != name:
        return Failure(f"garbage: it calls itself {to_line(sender)!r}")
    return message


class FlowerChannel:
    """Channel to clients behind Flower's SuperNodes.

    A node belongs to the client under whose name its key was registered (``flwr supernode
    register clinical.pub --name clinical``), so that none can impersonate another.

    Parameters
    ----------
    grid : Grid
        The grid of a Flower ServerApp.
    names : sequence of str
        Names of the clients; other nodes are ignored.

    Attributes
    ----------
    names : list of str
        Names of the clients.

    Examples
    --------
    >>> from hotview.federated.flower import FlowerChannel
    >>> def main(grid, context):  # of a ServerApp
    ...     channel = FlowerChannel(grid, ["clinical", "genetic"])
    ...     channel.wait_for_clients(patience=600)
    """

    def __init__(self, grid: Grid, names: Sequence[str]) -> None:
        self.names = list(names)
        self._grid = grid
        self._ignored: set[str] = set()

    def wait_for_clients(self, patience: float, *, at_least: int | None = None) -> None:
        """Wait until every client is connected.

        Parameters
        ----------
        patience : float
            Maximum waiting time, in seconds.
        at_least : int or None, default=None
            Number of clients that are enough when the time is over; None means all.
        """
        end = time.monotonic() + patience
        while problems := self._nodes(self.names)[1]:
            if time.monotonic() > end:
                break
            time.sleep(_POLL_INTERVAL)
        listed = "; ".join(f"{name}: {problem}" for name, problem in problems.items())
        needed = len(self.names) if at_least is None else at_least
        if len(self.names) - len(problems) < needed:
            raise TimeoutError(
                f"Expected {needed} of {self.names} to be connected within {patience:g} seconds, "
                f"but {listed}. Start their SuperNodes, or look at their logs."
            )
        if problems:
            _log.warning("goes on without all: %s", listed)

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        """Send a message to each client, and return the responses.

        Parameters
        ----------
        messages : dict of str to Message
            Messages by client.
        timeout : float
            Maximum waiting time, in seconds.

        Returns
        -------
        dict of str to (Message or Failure)
            One response per message.
        """
        nodes, problems = self._nodes(messages)
        # Messages expire: a node that reconnects must not work on rounds that are over.
        sent = {
            name: flwr.app.Message(pack(messages[name], name), node, "train", ttl=timeout)
            for name, node in nodes.items()
        }
        start = time.monotonic()
        responses: dict[str, Message | Failure] = {k: Failure(x) for k, x in problems.items()}
        for name, reply in self._send(sent, timeout).items():
            responses[name] = read_reply(reply, name)
        kinds = {f"{m.kind} {m.metadata.get('round', '')}".strip() for m in messages.values()}
        _log.info(
            "%s: %d of %d answered in %.1f s",
            ", ".join(sorted(kinds)),
            sum(isinstance(response, Message) for response in responses.values()),
            len(messages),
            time.monotonic() - start,
        )
        return responses

    def _nodes(self, names: Iterable[str]) -> tuple[dict[str, int], dict[str, str]]:
        """Return the nodes of clients by name, and why other clients cannot be reached."""
        nodes: dict[str, list[int]] = {}
        for node in self._grid.get_nodes():
            nodes.setdefault(node.name, []).append(node.node_id)
        for name in sorted(nodes.keys() - {*self.names, *self._ignored}):
            problem = f"called {name!r} is none of {self.names}" if name else "has no name"
            _log.warning("a node %s: it is ignored. Register its key with --name", problem)
            self._ignored.add(name)
        problems: dict[str, str] = {}
        for name in names:
            if (n := len(nodes.get(name, ()))) != 1:
                problems[name] = f"refused: {n} nodes have its name" if n else _DISCONNECTED
        return {name: nodes[name][0] for name in names if name not in problems}, problems

    def _send(self, sent: Mapping[str, flwr.app.Message], timeout: float) -> dict[str, Any]:
        """Return the replies, or the errors of reading them, by name; None for one that is late."""
        end, replies = time.monotonic() + timeout, dict[str, Any].fromkeys(sent)
        ids = self._grid.push_messages(sent.values()) if sent else ()
        waiting = {id: name for id, name in zip(ids, sent, strict=True) if id}
        while waiting and time.monotonic() < end:
            for id in list(waiting):
                try:  # one at a time, so that a malformed reply affects no other
                    received: list[Any] = list(self._grid.pull_messages([id]))
                except _MALFORMED as error:
                    received = [error]
                if received:
                    replies[waiting.pop(id)] = received[0]
            time.sleep(_POLL_INTERVAL if waiting else 0)
        return replies
