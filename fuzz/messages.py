"""Federated messages, states and partial models: damaged, or of a hostile member or server."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from fuzz.campaign import Problem
from fuzz.models import check_refusal, mutate_file
from fuzz.mutators import mutate_array, mutate_bytes, mutate_json
from hotview.datasets import make_views
from hotview.federated import (
    Client,
    ClientData,
    Failure,
    InProcessChannel,
    Message,
    Server,
    Settings,
)
from hotview.federated.partial_models import join_partial_models
from hotview.federated.state import CLIENT_FORMAT, SERVER_FORMAT
from hotview.model.files import _MODEL

__all__ = ["ClientMessages", "FederatedFiles", "ServerMessages"]

NAMES = ("clinical", "genetic", "imaging")
_N_ROWS, _N_LINKED = 30, 15


def make_settings() -> Settings:
    """Return the settings of a small training."""
    return Settings(
        rounds=2,
        local_steps=2,
        quantiles=6,
        n_components=3,
        encoder_dim=4,
        hidden=(5,),
        n_references=2,
        n_projections=4,
        batch_size=16,
        label_holder="genetic",
        linked_batch=8,
    )


def make_data() -> dict[str, ClientData]:
    """Return the tables of three organizations, one of which has labels."""
    data = make_views(
        _N_ROWS, n_views=3, n_columns=[4, 5, 6], n_classes=2, labeled=1.0, random_state=1
    )
    ids = [f"patient-{i}" for i in range(_N_ROWS)]
    labels = [("ill", "well")[k] for k in data.linked_target]
    return {
        name: ClientData.from_table(
            name,
            X,
            ids=ids,
            linked_ids=ids[:_N_LINKED],
            labels=labels if name == "genetic" else None,
        )
        for name, X in zip(NAMES, data.linked.values(), strict=True)
    }


class _Recorder(InProcessChannel):
    """Keeps every message with its response, and the client's folder before it."""

    def __init__(self, clients: Mapping[str, Client], folder: Path) -> None:
        super().__init__(clients)
        self.folder, self.n = folder, 0

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        responses: dict[str, Message | Failure] = {}
        for name, message in messages.items():
            kept = self.folder / f"{self.n:03d}-{name}"
            kept.mkdir()
            before = self.clients[name].folder  # type: ignore[attr-defined]
            if before.is_dir():
                shutil.copytree(before, kept / "state")
            responses |= super().exchange({name: message}, timeout)
            response = responses[name]
            assert isinstance(response, Message), response
            (kept / "message").write_bytes(message.to_bytes())
            (kept / "response").write_bytes(response.to_bytes())
            self.n += 1
        return responses


def record_training(folder: Path) -> None:
    """Run a training, and keep all that crosses, the states and the partial models."""
    clients = {
        name: Client(data, folder / "clients" / name, device="cpu")
        for name, data in make_data().items()
    }
    (folder / "crossed").mkdir()
    channel = _Recorder(clients, folder / "crossed")
    Server(channel, make_settings(), checkpoint=folder / "server.checkpoint").run()


def mutate_message(random: np.random.Generator, data: bytes) -> Message:
    """Return a changed message, as it arrives."""
    if random.random() < 0.3:
        return Message.from_bytes(mutate_bytes(random, data))
    message = Message.from_bytes(data)
    metadata, arrays = message.metadata, dict(message.arrays)
    kind = random.random()
    if kind < 0.5 or not arrays:
        metadata = mutate_json(random, metadata)
    else:
        name = sorted(arrays)[random.integers(len(arrays))]
        if kind < 0.55:
            del arrays[name]
        elif kind < 0.6:
            arrays[f"{name}x"] = arrays[name]
        else:
            arrays[name] = mutate_array(random, arrays[name])
    return Message.from_bytes(Message(message.kind, metadata, arrays).to_bytes())


@dataclass(frozen=True)
class ClientMessages:
    """Messages to a client: refused with the state as before, or answered."""

    def prepare(self, folder: Path) -> None:
        """Keep an honest training."""
        record_training(folder)

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Send a client a changed message and, if it refuses, the honest one."""
        crossed = sorted((originals / "crossed").iterdir())
        kept = crossed[random.integers(len(crossed))]
        if (kept / "state").is_dir():
            shutil.copytree(kept / "state", folder / "state")
        name, honest = kept.name.partition("-")[2], (kept / "message").read_bytes()
        client = Client(make_data()[name], folder / "state", device="cpu")
        try:
            message = mutate_message(random, honest)
        except (TypeError, ValueError):
            return "not a message"
        (folder / "changed").write_bytes(message.to_bytes())
        try:
            response = client.handle(message)
            Message.from_bytes(response.to_bytes())
            return "accepted"
        except ValueError:
            pass
        response = client.handle(Message.from_bytes(honest))
        if response.to_bytes() != (kept / "response").read_bytes():
            raise Problem("after a refused message the client answers the honest one differently")
        return "refused"


class _Replay:
    """A channel that repeats recorded responses, one of them changed."""

    def __init__(self, folder: Path, changed: int, random: np.random.Generator) -> None:
        self.names = list(NAMES)
        self.responses: dict[tuple[str, str, Any], list[Path]] = {}
        for path in sorted((folder / "crossed").iterdir()):
            message = Message.from_bytes((path / "message").read_bytes())
            key = (path.name.partition("-")[2], message.kind, message.metadata.get("round"))
            self.responses.setdefault(key, []).append(path / "response")
        self.left, self.random = changed, random

    def exchange(
        self, messages: Mapping[str, Message], timeout: float
    ) -> dict[str, Message | Failure]:
        return {name: self._respond(name, message) for name, message in messages.items()}

    def _respond(self, name: str, message: Message) -> Message | Failure:
        paths = self.responses[name, message.kind, message.metadata.get("round")]
        data = (paths.pop(0) if len(paths) > 1 else paths[0]).read_bytes()
        self.left -= 1
        if self.left != 0:
            return Message.from_bytes(data)
        try:
            return mutate_message(self.random, data)
        except (TypeError, ValueError) as error:
            return Failure(str(error))


@dataclass(frozen=True)
class ServerMessages:
    """Responses to a server: it goes on without the member, or stops with an explanation."""

    def prepare(self, folder: Path) -> None:
        """Keep an honest training."""
        record_training(folder)

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Train with one changed response."""
        n = len(list((originals / "crossed").iterdir()))
        channel = _Replay(originals, int(random.integers(1, n + 1)), random)
        path = folder / "server.checkpoint"
        try:
            result = Server(channel, make_settings(), checkpoint=path).run()
        except (ValueError, RuntimeError) as error:
            if not str(error).startswith("Expected"):
                raise Problem(f"an error that does not explain: {error!r}") from error
            return "refused"
        if result.W is None or not np.isfinite(result.W).all():
            raise Problem("the plan is not finite")
        return "accepted" if not result.dropped else "went on without"


@dataclass(frozen=True)
class FederatedFiles:
    """States and partial models: refused by an error that names the file, or usable."""

    def prepare(self, folder: Path) -> None:
        """Keep an honest training."""
        record_training(folder)

    def run(self, random: np.random.Generator, originals: Path, folder: Path) -> str:
        """Change one of the three files, and use it."""
        kind = random.integers(3)
        format = (CLIENT_FORMAT, SERVER_FORMAT, _MODEL)[kind]
        if random.random() < 0.2:
            format = None  # type: ignore[assignment]
        run = (self._run_client, self._run_server, self._run_join)[kind]
        try:
            return run(random, originals, folder, format)
        except _NotWrittenError:
            return "not written"

    def _run_client(
        self, random: np.random.Generator, originals: Path, folder: Path, format: Any
    ) -> str:
        crossed = sorted((originals / "crossed").glob("*/state/state.federated"))
        kept = crossed[random.integers(len(crossed))]
        path = folder / "state" / "state.federated"
        path.parent.mkdir()
        _mutate(random, kept, path, format)
        name = kept.parts[-3].partition("-")[2]
        message = Message.from_bytes((kept.parents[1] / "message").read_bytes())
        client = Client(make_data()[name], path.parent, device="cpu")
        return _outcome(lambda: client.handle(message).to_bytes(), path)

    def _run_server(
        self, random: np.random.Generator, originals: Path, folder: Path, format: Any
    ) -> str:
        path = folder / "server.checkpoint"
        _mutate(random, originals / path.name, path, format)
        channel = _Replay(originals, -1, random)
        return _outcome(Server(channel, make_settings(), checkpoint=path).run, path)

    def _run_join(
        self, random: np.random.Generator, originals: Path, folder: Path, format: Any
    ) -> str:
        paths = [originals / "clients" / name / "part.hotview" for name in NAMES]
        changed = int(random.integers(3))
        path = folder / "part.hotview"
        _mutate(random, paths[changed], path, format)
        paths[changed] = path
        return _outcome(lambda: join_partial_models(paths, folder / "joined.hotview"), path)


class _NotWrittenError(Exception):
    """What was changed cannot be written."""


def _mutate(random: np.random.Generator, original: Path, path: Path, format: Any) -> None:
    try:
        mutate_file(random, original, path, format)
    except (TypeError, ValueError) as error:
        raise _NotWrittenError from error


def _outcome(call: Any, path: Path) -> str:
    try:
        call()
    except (ValueError, RuntimeError) as error:
        return "refused" if "of another training" in str(error) else check_refusal(error, path)
    return "accepted"
