"""The server: runs the rounds of a federated training, without access to rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from hotview._codec import shorten
from hotview._files import output_lock
from hotview._threads import catch_interrupt
from hotview._types import Array
from hotview.federated.coupling import CouplingResult, ServerCoupling
from hotview.federated.messages import Channel, Failure, Message, to_line
from hotview.federated.schema import SentPool, Session, check_names, check_request, check_response
from hotview.federated.settings import Settings
from hotview.federated.state import (
    SERVER_FORMAT,
    Checkpoint,
    FederatedResult,
    ServerState,
    read_state,
    state_errors,
    write_state,
)
from hotview.training.progress import ProgressBar

_N_TRIES = 3  # for responses that the training cannot do without
_MAX_DROPPED = 10_000  # that a checkpoint keeps
_log = logging.getLogger(__name__)

Exchange = Callable[[Mapping[str, Message]], Mapping[str, Message | Failure]]


class Server:
    """Server of a federated training.

    Parameters
    ----------
    channel : Channel
        Channel to the clients.
    settings : Settings
        Settings of the training.
    checkpoint : str or Path or None, default=None
        File that is written after every round; if it exists, the training is resumed from it.
    timeout : float, default=600.0
        Maximum response time of a client, in seconds.
    verbose : bool, default=False
        Whether to show progress.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.datasets import make_views
    >>> from hotview.federated import Client, ClientData, InProcessChannel, Server, Settings
    >>> views = make_views(60, n_views=3, random_state=0).views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clients = {
    ...         name: Client(ClientData.from_table(name, X), Path(folder) / name)
    ...         for name, X in views.items()
    ...     }
    ...     settings = Settings(rounds=2, local_steps=2, quantiles=16)
    ...     result = Server(InProcessChannel(clients), settings).run()
    >>> result.finished, result.W.shape
    (['view_0', 'view_1', 'view_2'], (3, 3))
    """

    state: ServerState

    def __init__(
        self,
        channel: Channel,
        settings: Settings,
        *,
        checkpoint: str | Path | None = None,
        timeout: float = 600.0,
        verbose: bool = False,
    ) -> None:
        self.channel, self.settings, self.timeout = channel, settings, timeout
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.verbose = verbose
        check_names(channel.names)
        self.coupling = ServerCoupling(settings, channel.names)
        #: bytes of the largest message to and from each client, and of all its messages
        self.traffic = {name: {"to": 0, "from": 0, "total": 0} for name in channel.names}
        self._largest = 0  # bytes of the largest message of this round

    def run(self) -> FederatedResult:
        """Train from the start, or from the checkpoint, to the end.

        Returns
        -------
        FederatedResult
            The result; the partial models are with the clients.
        """
        n, names, path = self.settings.rounds, list(self.channel.names), self.checkpoint
        with nullcontext() if path is None else output_lock(path):
            if path is None or not path.exists():
                session = start_session(self._exchange, names, self.settings)
                self.state = ServerState(session, FederatedResult(names))
            else:
                self._read_checkpoint(path, names)
                _log.info("goes on after round %d of %d", self.state.round, n)
            with catch_interrupt() as interrupt, ProgressBar(n, shown=self.verbose) as bar:
                bar.step(self.state.round)
                while self.state.round < n and not interrupt.requested:
                    self._run_round()
                    if path is not None:
                        content = Checkpoint(self.state, self.coupling.state())
                        write_state(path, SERVER_FORMAT, content)
                    bar.step()
            if self.state.round < n:
                _log.warning("stopped after round %d of %d", self.state.round, n)
            else:
                self._finish()
            return self.state.result

    def _read_checkpoint(self, path: Path, names: list[str]) -> None:
        """Take the state of a checkpoint; everything in it is checked."""
        checkpoint = read_state(path, SERVER_FORMAT, Checkpoint)
        session = checkpoint.server.session
        now = {**self.settings.to_json(), "organizations": sorted(names)}
        then = {**session.settings.to_json(), "organizations": sorted(session.names)}
        if differing := [k for k in now if now[k] != then[k]]:
            key = differing[0]
            raise ValueError(
                f"Expected {path} to be of a training with the same settings, but {key} was "
                f"{shorten(then[key])} then and is {now[key]!r} now. Delete the file to begin anew."
            )
        self.state, self.coupling = checkpoint.server, ServerCoupling(self.settings, session.names)
        with state_errors(path, SERVER_FORMAT):
            self.coupling.restore(checkpoint.coupling)
            for name in session.names:  # updates that clients accept in the next round
                check_request(self._round_message(name, self.state.round + 1), session)

    def _run_round(self) -> None:
        state, result = self.state, self.state.result
        self._largest = 0
        updates = self._collect_updates(state.round + 1)
        state.round += 1
        coupled = None if self.settings.coupling == "none" else self.coupling.update(updates)
        terms = {} if coupled is None else dict(coupled.parts)
        labels = self._ask_label_holder("label_loss", updates, state.round)
        if labels is not None:
            terms["view_heads"] = float(labels.metadata["loss"])
        fusion = self._ask_label_holder("fusion", updates, state.round)
        if fusion is not None:
            state.pool, state.shared = SentPool(**fusion.metadata["pool"]), fusion.arrays
        state.updates = {
            name: self._make_server_update(name, coupled, labels if name in updates else None)
            for name in result.names
        }
        row = {"epoch": state.round, "loss": sum(terms.values()), **terms}
        row |= {"present": len(updates), "bytes": self._largest}
        result.rows.append(row)
        if coupled is not None:
            result.W, result.C = coupled.plan.W.numpy(), coupled.plan.C.numpy()
            result.present = coupled.names

    def _collect_updates(self, round: int) -> dict[str, Message]:
        """Return the updates of all clients that respond, at least `min_clients`."""
        result = self.state.result
        messages = {name: self._round_message(name, round) for name in result.names}
        updates: dict[str, Message] = {}
        for _ in range(_N_TRIES):
            missing = {name: m for name, m in messages.items() if name not in updates}
            for name, valid in self._ask(missing, round).items():
                if privacy := valid.metadata.get("privacy"):
                    result.privacy[name] = privacy
                updates[name] = valid
            if len(updates) >= self.settings.min_clients:
                return {name: updates[name] for name in messages if name in updates}
        remedy = "Begin anew" if self.checkpoint is None else f"Go on from {self.checkpoint}"
        raise RuntimeError(
            f"Expected at least {self.settings.min_clients} organizations to answer in round "
            f"{round}, but {len(updates)} did, {_N_TRIES} times in a row. {remedy} when they are "
            "there."
        )

    def _round_message(self, name: str, round: int) -> Message:
        update = self.state.updates.get(name, Message("round"))
        metadata = {**update.metadata, "round": round, "session": self.state.session.id}
        arrays = {**update.arrays, **self.state.shared, **self._references()}
        return Message("round", metadata, arrays)

    def _references(self) -> dict[str, Array]:
        G = self.coupling.references
        return {} if G is None else {"references": G.numpy()}

    def _ask_label_holder(
        self, kind: str, updates: Mapping[str, Message], round: int
    ) -> Message | None:
        """Send what clients sent of linked rows in a round to the label holder, if it is needed.

        Returns its response: gradients of all scores, fusion weights or a joint head; None where
        none is valid.
        """
        holder, session = self.settings.label_holder, self.state.session
        keys = ("scores",) if kind == "label_loss" else ("held_out", "features")
        is_due = {
            "label_loss": "scores" in session.linked_query(round),
            "fusion": round == self.settings.fusion_round,
            "head": self.settings.share_features,
        }
        if holder is None or not is_due[kind]:
            return None
        metadata: dict[str, Any] = {"session": session.id, "names": list(updates)}
        if kind == "label_loss":
            metadata["round"] = round
        arrays = {
            f"{key}.{name}": update.arrays[key]
            for key in keys
            for name, update in updates.items()
            if key in update.arrays
        }
        message = Message(kind, metadata, arrays)
        # No later round repeats the request for weights.
        for _ in range(1 if kind == "label_loss" else _N_TRIES):
            if valid := self._ask({holder: message}, self.state.round, "as label holder, "):
                return valid[holder]
        return None

    def _ask(
        self, messages: Mapping[str, Message], round: int, role: str = ""
    ) -> dict[str, Message]:
        """Return the valid responses; a client that has none is left out of the round."""
        valid, dropped = dict[str, Message](), self.state.result.dropped
        for name, response in self._exchange(messages).items():
            try:
                valid[name] = check_response(response, messages[name], name, self.state.session)
            except ValueError as error:
                reason = to_line(f"{role}{error}")
                _log.warning("round %d goes on without %r: %s", round, name, reason)
                dropped.append({"round": round, "name": name, "reason": reason})
                del dropped[:-_MAX_DROPPED]
        return valid

    def _make_server_update(
        self, name: str, coupled: CouplingResult | None, labels: Message | None
    ) -> Message:
        """Return the next update of a client."""
        was_present = coupled is None or name in coupled.names
        arrays, curvatures = dict[str, Array](), dict[str, float]()
        if coupled is not None:
            arrays = {k: x.numpy() for k, x in coupled.replies.get(name, {}).items()}
            curvatures |= coupled.curvatures if was_present else {}
        if labels is not None:
            arrays["gradient.scores"] = labels.arrays[f"gradient.{name}"]
            curvatures["scores"] = float(labels.metadata["curvature"])
        update_round = self.state.round if was_present else 0
        return Message("round", {"curvatures": curvatures, "update_round": update_round}, arrays)

    def _exchange(self, messages: Mapping[str, Message]) -> dict[str, Message | Failure]:
        responses = self.channel.exchange(messages, self.timeout)
        for way, sent in (("to", messages), ("from", responses)):
            for name, message in sent.items():
                if isinstance(message, Message):
                    size, traffic = len(message.to_bytes()), self.traffic[name]
                    traffic[way] = max(size, traffic[way])
                    traffic["total"] += size
                    self._largest = max(size, self._largest)
        return responses

    def _finish(self) -> None:
        """Train on the last gradients, and let all clients save their partial models."""
        state, result = self.state, self.state.result
        round = state.round + 1
        updates = self._collect_updates(round)
        pool = None if state.pool is None else vars(state.pool)
        metadata: dict[str, Any] = {"session": state.session.id, "plan": result.plan, "pool": pool}
        references = self._references()
        messages = dict.fromkeys(result.names, Message("finish", metadata, references))
        head = self._ask_label_holder("head", updates, round)
        if head is not None and head.arrays and (holder := self.settings.label_holder) is not None:
            metadata = {**metadata, "head": list(updates)}  # the views of its features
            messages[holder] = Message("finish", metadata, {**references, **head.arrays})
        result.finished += self._ask(messages, round)


def start_session(exchange: Exchange, names: Sequence[str], settings: Settings) -> Session:
    """Start a training at all clients, which must have the same linked ids.

    Parameters
    ----------
    exchange : callable
        Sends messages to clients, and returns their responses.
    names : sequence of str
        Names of the clients.
    settings : Settings
        Settings of the training.

    Returns
    -------
    Session
        The session; an error names a client that cannot take part.
    """

    def ask(
        names: Sequence[str], request: Message, session: Session, purpose: str, remedy: str = ""
    ) -> dict[str, Message]:
        valid: dict[str, Message] = {}
        for name, response in exchange(dict.fromkeys(names, request)).items():
            try:
                valid[name] = check_response(response, request, name, session)
            except ValueError as error:
                raise ValueError(f"Expected {name!r} to {purpose}, but {error}{remedy}") from None
        return valid

    session = Session(np.random.default_rng().bytes(8).hex(), settings, list(names), [], 0)
    remedy = ". All organizations must be there when a training begins."
    hellos = ask(names, Message("hello"), session, "say hello", remedy)
    session = replace(session, n_linked=_check_hellos(hellos))
    facts = {"settings": settings.to_json()}
    codes: dict[str, Array] = {}
    if (holder := settings.label_holder) is not None:
        if holder not in hellos:
            raise ValueError(f"Expected label_holder among {list(names)}, but it is {holder!r}.")
        request = Message("classes", facts)
        response = ask([holder], request, session, "send the classes")[holder]
        classes, codes = response.metadata["classes"], response.arrays
        if len(classes) < 2:
            raise ValueError(f"Expected {holder!r} to have two classes or more, not {classes!r}.")
        session = replace(session, classes=classes)
    metadata = {**facts, "session": session.id, "classes": session.classes, "names": session.names}
    ask(names, Message("start", metadata, codes), session, "begin")
    return session


def _check_hellos(hellos: Mapping[str, Message]) -> int:
    """Return the number of linked ids; these and the format of models must agree."""
    facts = {name: hello.metadata for name, hello in hellos.items()}
    formats = {name: own["model_format"] for name, own in facts.items()}
    if others := _find_others(formats):
        raise ValueError(
            "Expected all organizations to write models of one format, because others cannot be "
            f"joined in the end, but that of {others} differs (formats: {formats}). Install the "
            "same version of hotview everywhere."
        )
    counts: dict[str, int] = {name: own["n_linked"] for name, own in facts.items()}
    if others := _find_others({name: (own["digest"], counts[name]) for name, own in facts.items()}):
        raise ValueError(
            "Expected all organizations to have the same linked ids in the same order, but their "
            f"lists differ (numbers of ids: {counts}): look at that of {others} first. Agree again."
        )
    return next(iter(counts.values()))


def _find_others(values: Mapping[str, Hashable]) -> str:
    """Return the names of clients whose value is not that of most, or of the first."""
    most, _ = Counter(values.values()).most_common(1)[0]
    return " and ".join(repr(name) for name, value in values.items() if value != most)
