"""A client: responds to messages of the server, and keeps its data and state in its folder."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Collection
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._codec import require
from hotview._files import file_lock
from hotview._types import Array
from hotview.federated.client_data import ClientData
from hotview.federated.local_trainer import LocalTrainer, fit_fusion, fit_head, label_loss
from hotview.federated.messages import Message
from hotview.federated.partial_models import save_partial_model
from hotview.federated.privacy import (
    Budget,
    GaussianMechanism,
    Privacy,
    ReleaseRecord,
    total_epsilon,
)
from hotview.federated.schema import SentPool, Session, check_request, read_request
from hotview.federated.settings import Settings
from hotview.federated.state import (
    CLIENT_FORMAT,
    ClientFile,
    ClientState,
    read_state,
    state_errors,
    write_state,
)
from hotview.model.files import MODEL_FORMAT
from hotview.model.parameters import pick_device


class Client:
    """Client of an organization that owns one view.

    Each message may be handled by another process: the state is in a folder.

    Parameters
    ----------
    data : ClientData
        Data of the client.
    folder : str or Path
        Folder of its state and, in the end, its partial model.
    privacy : Privacy or None, default=None
        Differential privacy of projections; None sends them as they are.
    device : str, default="auto"
        Device of the training.
    shares : collection of {"features", "labels"}, default=()
        Data of linked rows that the client consents to send, where the settings require it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hotview.federated import Client, ClientData, Message
    >>> data = ClientData.from_table("clinical", np.random.default_rng(0).normal(size=(20, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Client(data, folder).handle(Message("hello")).metadata["name"]
    'clinical'
    """

    def __init__(
        self,
        data: ClientData,
        folder: str | Path,
        *,
        privacy: Privacy | None = None,
        device: str = "auto",
        shares: Collection[str] = (),
    ) -> None:
        self.data, self.folder, self.privacy = data, Path(folder), privacy
        self.device, self.shares = pick_device(device), frozenset(shares)
        if unknown := self.shares - {"features", "labels"}:
            raise ValueError(f"Expected shares of 'features' and 'labels', not {min(unknown)!r}.")
        self.trainer: LocalTrainer | None = None
        self.state: ClientState | None = None
        self._state_digest = ""  # of the file that `trainer` and `state` are of

    @property
    def state_path(self) -> Path:
        """File of the training's state and of all releases."""
        return self.folder / "state.federated"

    @property
    def model_path(self) -> Path:
        """File of the partial model."""
        return self.folder / "part.hotview"

    def handle(self, message: Message) -> Message:
        """Respond to a message; a repeated message gets the same response.

        Parameters
        ----------
        message : Message
            A request of the server.

        Returns
        -------
        Message
            A response of the same kind.
        """
        handlers: dict[str, Callable[[Message, Any], Message]] = {
            "hello": self._hello,
            "classes": self._classes,
            "start": self._start,
            "round": self._run_round,
            "label_loss": self._label_loss,
            "fusion": self._fit_fusion,
            "head": self._fit_head,
            "finish": self._finish,
        }
        request = read_request(message)
        if message.kind == "start":
            self.folder.mkdir(parents=True, exist_ok=True)
        # Two concurrent requests would both start from the same state: two releases for one.
        with file_lock(self.folder / ".lock"):
            try:
                return handlers[message.kind](message, request)
            except BaseException:
                # The state in memory may be that of an unfinished round; the file is not.
                self.trainer = self.state = None
                raise

    def _hello(self, message: Message, request: Any) -> Message:
        data = self.data
        linked = {"n_linked": len(data.linked), "digest": data.digest}
        return Message("hello", {"name": data.name, **linked, "model_format": MODEL_FORMAT})

    def _classes(self, message: Message, request: Any) -> Message:
        """Return the classes and, where labels are shared, those of the training rows."""
        data, settings = self.data, request.settings
        self._check_consent(settings)
        if settings.label_holder != data.name:
            return Message("classes", {"classes": []})
        arrays: dict[str, Array] = {}
        if settings.share_labels:
            codes = data.codes(data.classes)[data.linked]
            session = Session("", settings, [data.name], [], len(codes))
            codes[session.split_linked()[1]] = -1
            arrays["codes"] = codes
        return Message("classes", {"classes": data.classes}, arrays)

    def _start(self, message: Message, request: Any) -> Message:
        name, n_linked = self.data.name, len(self.data.linked)
        session = Session(
            request.session, request.settings, request.names, request.classes, n_linked
        )
        check_request(message, session)
        self._check_consent(session.settings)
        problem = f"Expected names of organizations with {name!r} among them, but it is not there"
        require(name in session.names, problem)
        state = ClientState(
            session,
            self.data.fingerprint,
            releases=self._plan_releases(session.settings),
            budget=self._budget,
            shared_codes=message.arrays.get("codes"),
        )
        self.trainer = self._make_trainer(state)
        self._save(state)
        return Message("start", {"name": name})

    def _check_consent(self, settings: Settings) -> None:
        """Refuse settings that send data which the client has not consented to send, or lacks."""
        name, requested = self.data.name, {"features"} if settings.share_features else set()
        if settings.label_holder == name:
            problem = f"Expected {name!r} to hold the labels, but none of its rows has one."
            require(len(self.data.classes) > 0, f"{problem} Name their column: label_column.")
            requested |= {"labels"} if settings.share_labels else set()
        if refused := sorted(requested - self.shares):
            raise ValueError(
                f"{name!r} is asked to send {refused[0]} of linked rows, and has not consented. "
                f"Write share = {refused} into its configuration, or set share_{refused[0]} to "
                "false"
            )

    @property
    def _budget(self) -> Budget | None:
        return None if self.privacy is None else Budget(self.privacy.epsilon, self.privacy.delta)

    def _plan_releases(self, settings: Settings) -> list[ReleaseRecord]:
        """Return earlier releases, which count toward the same budget, and those of a training."""
        before: list[ReleaseRecord] = []
        try:
            if self.state_path.is_file():
                state = read_state(self.state_path, CLIENT_FORMAT, ClientFile).client
                before = [record for record in state.releases if record.n_releases > 0]
        except ValueError:
            if self.privacy is not None:
                raise
        if self.privacy is None:
            return before
        require(
            settings.coupling != "hot-pairwise",
            "Expected coupling='hot-reference' where an organization asks for privacy: "
            "'hot-pairwise' sends second moments, which have no noise.",
        )
        n, size = self.data.table.n_rows, settings.batch_size
        noise = self.privacy.calibrate(n, size, settings.rounds, before)
        return [*before, ReleaseRecord(noise, n, size, 0)]

    def _make_trainer(self, state: ClientState) -> LocalTrainer:
        settings, mechanism = state.session.settings, None
        if self.privacy is not None and settings.coupling != "none":
            clip, seed = self.privacy.clip, self.privacy.seed
            mechanism = GaussianMechanism(clip, state.noise, settings.batch_size, seed)
        return LocalTrainer(state.session, self.data, self.device, mechanism, state.shared_codes)

    def _resume(self, message: Message, request: Any) -> tuple[LocalTrainer, ClientState]:
        """Return trainer and state of the training that a message belongs to."""
        name, path = self.data.name, self.state_path
        problem = f"Expected {name!r} to have begun, but there is no {path}"
        require(path.is_file(), f"{problem}. Begin the training anew.")
        digest = self._digest_state()  # another process may have written the file
        if self.trainer is None or self.state is None or digest != self._state_digest:
            content = read_state(path, CLIENT_FORMAT, ClientFile)
            self._check_consent(content.client.session.settings)
            self._check_unchanged(content.client)
            self.trainer = self._make_trainer(content.client)
            with state_errors(path, CLIENT_FORMAT):
                content.load_into(self.trainer)
            self.state, self._state_digest = content.client, digest
        problem = f"it is of another training than {name!r} began; begin anew"
        require(request.session == self.state.session.id, problem)
        check_request(message, self.state.session)
        return self.trainer, self.state

    def _check_unchanged(self, state: ClientState) -> None:
        """Refuse a state of another budget or table, or that no training of these rows gives."""
        name = self.data.name
        then, now = (
            f"with epsilon = {x.epsilon} and delta = {x.delta}" if x else "without privacy"
            for x in (state.budget, self._budget)
        )
        problem = f"Expected {name!r} to continue as it began, {then}, but now it is {now}"
        fits = state.budget == self._budget
        require(fits, f"{problem}. Set it back, or begin the training anew.")
        problem = f"Expected the table of {name!r} to stay as it was when the training began, but"
        fits = state.table_fingerprint == self.data.fingerprint
        require(fits, f"{problem} it has changed. Put it back, or begin the training anew.")
        with state_errors(self.state_path, CLIENT_FORMAT):
            data, session = self.data, state.session
            require(name in session.names, f"its names do not include {name!r}")
            require(session.n_linked == len(data.linked), "its linked rows are others")
            state.check_arrays()
            if state.budget is not None:
                record, size = state.releases[-1], session.settings.batch_size
                fits = (record.n_rows, record.sample_size) == (data.table.n_rows, size)
                require(fits, "its releases are of another table")

    def _resume_label_holder(self, message: Message, request: Any) -> tuple[LocalTrainer, Session]:
        """Return trainer and session, or raise an error where this is not the label holder."""
        trainer, state = self._resume(message, request)
        name, holder = self.data.name, state.session.settings.label_holder
        problem = f"{name!r} received a request for the label holder, which is {holder!r}"
        require(name == holder, problem)
        return trainer, state.session

    def _save(self, state: ClientState) -> None:
        assert self.trainer is not None
        write_state(self.state_path, CLIENT_FORMAT, ClientFile.of(state, self.trainer))
        self.state, self._state_digest = state, self._digest_state()

    def _digest_state(self) -> str:
        return hashlib.sha256(self.state_path.read_bytes()).hexdigest()

    def _run_round(self, message: Message, request: Any) -> Message:
        trainer, state = self._resume(message, request)
        round: int = request.round
        digest = hashlib.sha256(message.to_bytes()).hexdigest()
        is_repeated = digest == state.request_digest
        if is_repeated and state.response is not None:
            return state.response  # it was lost on the way
        if not is_repeated:
            name, n, last = self.data.name, trainer.settings.rounds, state.request_round
            require(round > last, f"round {round} is over: {name!r} has answered round {last}")
            # The round after the last trains once more, and sends no quantiles.
            spent = "" if state.budget is None else "the privacy budget is spent: "
            problem = f"{spent}round {round} is past the end of the training of {name!r}, {n}"
            require(round <= n + 1, f"{problem} rounds. Begin a training of more rounds")
            # From here on rows are used, and nothing is refused.
            state.request_digest, state.request_round, state.response = digest, round, None
            if trainer.mechanism is not None and round <= trainer.settings.rounds:
                self._record_release(state)
        if trainer.mechanism is not None and state.noise_seed:
            trainer.mechanism.seed = int(state.noise_seed)
        if "codes" in message.arrays and state.shared_codes is not None:
            state.shared_codes = message.arrays["codes"]
            trainer.set_shared_labels(state.shared_codes)
        if round > 1:
            row = trainer.train(state.update, message, state.references, round)
            if row is not None:
                state.history.append({"epoch": round - 1, "loss": sum(row.values()), **row})
        state.update = trainer.make_update(round, state.session.linked_query(round))
        state.references, state.noise_seed = message.arrays.get("references"), ""
        arrays: dict[str, Array] = {k: x.numpy() for k, x in state.update.sent.items()}
        metadata: dict[str, Any] = {"name": self.data.name, "round": round}
        if self.privacy is not None and "quantiles" in arrays:
            epsilon = total_epsilon(state.releases, self.privacy.delta)
            metadata["privacy"] = {"epsilon": epsilon, "delta": self.privacy.delta}
        state.response = Message("round", metadata, arrays)
        self._save(state)
        return state.response

    def _record_release(self, state: ClientState) -> None:
        """Count a release before it is computed, whatever becomes of it.

        The file also gets the seed of the noise: a repeated request, after a crash, gives the same
        numbers again, and is no other release.
        """
        assert self.privacy is not None
        seed = self.privacy.seed
        state.noise_seed = str(secrets.randbits(128) if seed is None else seed)
        *before, last = state.releases
        state.releases = [*before, replace(last, n_releases=last.n_releases + 1)]
        self._save(state)

    def _label_loss(self, message: Message, request: Any) -> Message:
        """Return the gradients of all views' scores, at the label holder."""
        trainer, session = self._resume_label_holder(message, request)
        weight, linked = session.settings.head_weight, session.linked_query(request.round)["scores"]
        codes = trainer.linked_codes[linked]
        loss, gradients = label_loss(_by_client(message, "scores."), codes, weight)
        arrays = {f"gradient.{name}": x.numpy() for name, x in gradients.items()}
        # The bound of `quadratic_surrogate`, for a mean over labeled rows.
        curvature = weight / (4 * max(1, int((codes >= 0).sum())))
        metadata = {"round": request.round, "loss": loss, "curvature": curvature}
        return Message("label_loss", metadata, arrays)

    def _fit_fusion(self, message: Message, request: Any) -> Message:
        """Return the fusion weights, halfway, at the label holder."""
        trainer, session = self._resume_label_holder(message, request)
        (training, held_out), codes = session.split_linked(), trainer.linked_codes
        F, joint = _features(message), None
        head = fit_head(F, codes, training, trainer.n_classes)
        if F is not None and head:
            joint = F[held_out] @ head["weight"].T + head["bias"]
        scores = _by_client(message, "held_out.")
        names, seed = request.names, session.settings.random_state
        weights = fit_fusion(scores, joint, codes[held_out], len(names), seed)
        shared = {"codes": codes} if session.settings.share_labels else {}
        return Message("fusion", {"pool": vars(SentPool.of(names, weights))}, shared)

    def _fit_head(self, message: Message, request: Any) -> Message:
        """Return the joint head, in the end, at the label holder."""
        trainer, session = self._resume_label_holder(message, request)
        everyone = np.arange(session.n_linked)
        head = fit_head(_features(message), trainer.linked_codes, everyone, trainer.n_classes)
        return Message("head", {}, {k: x.astype(np.float32) for k, x in head.items()})

    def _finish(self, message: Message, request: Any) -> Message:
        trainer, state = self._resume(message, request)
        save_partial_model(self.model_path, trainer, state, message)
        return Message("finish", {"name": self.data.name})


def _by_client(message: Message, prefix: str) -> dict[str, Tensor]:
    """Return the arrays with a prefix by client, in the order of the message's names."""
    return {
        name: torch.from_numpy(message.arrays[f"{prefix}{name}"])
        for name in message.metadata["names"]
        if f"{prefix}{name}" in message.arrays
    }


def _features(message: Message) -> Array | None:
    """Return the features of all linked rows, views side by side, if they are shared."""
    views = _by_client(message, "features.").values()
    return torch.cat(list(views), 1).double().numpy() if views else None
