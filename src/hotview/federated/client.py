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

from hotview._files import file_lock
from hotview._types import Array
from hotview.estimators.parameters import pick_device
from hotview.federated.client_data import ClientData
from hotview.federated.client_state import ClientState, read_client_state, write_client_state
from hotview.federated.labels import fit_fusion, label_loss, linked_query, split_linked
from hotview.federated.local_trainer import LocalTrainer, ServerUpdate
from hotview.federated.messages import Message
from hotview.federated.partial_models import save_partial_model
from hotview.federated.privacy import GaussianMechanism, Privacy, ReleaseRecord, total_epsilon
from hotview.federated.schema import Session, check_request, check_training_request
from hotview.federated.settings import Settings
from hotview.model.files import MODEL_FORMAT

__all__ = ["Client"]


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
        check_request(message, len(self.data.linked))
        handlers: dict[str, Callable[[Message], Message]] = {
            "hello": self._hello,
            "start": self._start,
            "round": self._run_round,
            "label_loss": self._label_loss,
            "fusion": self._fit_fusion,
            "finish": self._finish,
        }
        if message.kind == "start":
            self.folder.mkdir(parents=True, exist_ok=True)
        # Two concurrent requests would both start from the same state: two releases for one.
        with file_lock(self.folder / ".lock"):
            try:
                return handlers[message.kind](message)
            except BaseException:
                # The state in memory may be that of an unfinished round; the file is not.
                self.trainer = self.state = None
                raise

    def _hello(self, message: Message) -> Message:
        data = self.data
        linked = {"n_linked": len(data.linked), "digest": data.digest}
        return Message("hello", {"name": data.name, **linked, "model_format": MODEL_FORMAT})

    def _start(self, message: Message) -> Message:
        settings = Settings.from_json(message.metadata["settings"])
        self._check_consent(settings)
        if "classes" not in message.metadata:  # the server first queries the label holder
            return self._classes(settings)
        names = message.metadata["names"]
        if self.data.name not in names:
            raise ValueError(
                f"Expected names of organizations with {self.data.name!r} among them, but it is "
                "not there"
            )
        releases = self._earlier_releases()
        if self.privacy is not None:
            releases.append(self._calibrate(self.privacy, settings, releases))
        state = ClientState(
            settings.to_json(),
            message.metadata["classes"],
            names,
            session_id=str(message.metadata["session"]),
            table_fingerprint=self.data.fingerprint,
            releases=releases,
            budget=self._budget,
            shared_codes=message.arrays.get("codes"),
        )
        self.trainer = self._make_trainer(state)
        self._save(state)
        return Message("start", {"name": self.data.name})

    def _check_consent(self, settings: Settings) -> None:
        """Refuse settings that send data which the client has not consented to send, or lacks."""
        name = self.data.name
        is_holder = settings.label_holder == name
        if is_holder and not self.data.classes:
            raise ValueError(
                f"Expected {name!r} to hold the labels, but none of its rows has one. Name the "
                "column of labels: label_column."
            )
        requested = {"features"} if settings.share_features else set()
        if settings.share_labels and is_holder:
            requested |= {"labels"}
        if refused := sorted(requested - self.shares):
            raise ValueError(
                f"{name!r} is asked to send {refused[0]} of linked rows, and has not consented. "
                f"Write share = {refused} into its configuration, or set share_{refused[0]} to "
                "false"
            )

    def _classes(self, settings: Settings) -> Message:
        """Return the classes and, where labels are shared, those of the training rows."""
        data = self.data
        if settings.label_holder != data.name:
            return Message("start", {"classes": []})
        arrays: dict[str, Array] = {}
        if settings.share_labels:
            codes = data.codes(data.classes)[data.linked]
            codes[self._split_linked(settings)[1]] = -1
            arrays["codes"] = codes
        return Message("start", {"classes": data.classes}, arrays)

    def _split_linked(self, settings: Settings) -> tuple[Array, Array]:
        return split_linked(len(self.data.linked), settings.fusion_fraction, settings.random_state)

    def _earlier_releases(self) -> list[ReleaseRecord]:
        """Return the releases of earlier trainings, which count toward the same budget."""
        if not self.state_path.is_file():
            return []
        try:
            state = read_client_state(self.state_path).client
        except ValueError:
            if self.privacy is None:
                return []
            raise
        return [record for record in state.releases if record.n_releases > 0]

    @property
    def _budget(self) -> list[float] | None:
        return None if self.privacy is None else [self.privacy.epsilon, self.privacy.delta]

    def _calibrate(
        self, privacy: Privacy, settings: Settings, before: list[ReleaseRecord]
    ) -> ReleaseRecord:
        if settings.coupling == "hot-pairwise":
            raise ValueError(
                "Expected coupling='hot-reference' where an organization asks for privacy: "
                "'hot-pairwise' sends second moments, which have no noise."
            )
        n = self.data.table.n_rows
        noise = privacy.calibrate(n, settings.batch_size, settings.rounds, before)
        return ReleaseRecord(noise, n, settings.batch_size, 0)

    def _make_trainer(self, state: ClientState) -> LocalTrainer:
        settings = Settings.from_json(state.settings)
        mechanism = None
        if self.privacy is not None and settings.coupling != "none":
            clip, seed = self.privacy.clip, self.privacy.seed
            mechanism = GaussianMechanism(clip, state.noise, settings.batch_size, seed)
        n_views, codes = len(state.names), state.shared_codes
        return LocalTrainer(
            settings, self.data, state.classes, n_views, self.device, mechanism, codes
        )

    def _resume(self, message: Message) -> tuple[LocalTrainer, ClientState]:
        """Return trainer and state of the training that a message belongs to."""
        if not self.state_path.is_file():
            raise ValueError(
                f"Expected {self.data.name!r} to have begun, but there is no {self.state_path}. "
                "Begin the training anew."
            )
        digest = self._digest_state()  # another process may have written the file
        if self.trainer is None or self.state is None or digest != self._state_digest:
            content = read_client_state(self.state_path)
            state = content.client
            self._check_unchanged(state)
            self._check_consent(Settings.from_json(state.settings))
            self.trainer = content.restore(self.state_path, self.data, self._make_trainer)
            self.state, self._state_digest = state, digest
        if message.metadata.get("session") != self.state.session_id:
            raise ValueError(f"it is of another training than {self.data.name!r} began; begin anew")
        session = Session(self.state.session_id, len(self.data.linked), self.state.classes)
        check_training_request(message, self.trainer.settings, session, self.state.names)
        return self.trainer, self.state

    def _check_unchanged(self, state: ClientState) -> None:
        """Refuse to continue a training with another privacy budget or another table."""
        name = self.data.name
        if state.budget != self._budget:
            then, now = (
                "without privacy" if x is None else "with epsilon = {} and delta = {}".format(*x)
                for x in (state.budget, self._budget)
            )
            raise ValueError(
                f"Expected {name!r} to continue as it began, {then}, but now it is {now}. Set it "
                "back, or begin the training anew."
            )
        if state.table_fingerprint != self.data.fingerprint:
            raise ValueError(
                f"Expected the table of {name!r} to stay as it was when the training began, but "
                "it has changed. Put it back, or begin the training anew."
            )

    def _resume_label_holder(self, message: Message) -> LocalTrainer:
        """Return the trainer, or raise an error where this is not the label holder."""
        trainer, _ = self._resume(message)
        if (holder := trainer.settings.label_holder) != self.data.name:
            raise ValueError(
                f"{self.data.name!r} received a request for the label holder, which is {holder!r}"
            )
        return trainer

    def _save(self, state: ClientState) -> None:
        assert self.trainer is not None
        write_client_state(self.state_path, state, self.trainer)
        self.state, self._state_digest = state, self._digest_state()

    def _digest_state(self) -> str:
        return hashlib.sha256(self.state_path.read_bytes()).hexdigest()

    def _run_round(self, message: Message) -> Message:
        trainer, state = self._resume(message)
        round = int(message.metadata["round"])
        digest = hashlib.sha256(message.to_bytes()).hexdigest()
        is_repeated = digest == state.request_digest
        if is_repeated and state.response is not None:
            return state.response  # it was lost on the way
        if not is_repeated:
            self._check_round(round, trainer.settings.rounds, state)
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
            row = trainer.train(state.update, _read_server_update(message, state), round)
            if row is not None:
                state.history.append({"epoch": round - 1, "loss": sum(row.values()), **row})
        query = linked_query(round, trainer.settings, len(self.data.linked))
        state.update = trainer.make_update(round, query)
        state.references, state.noise_seed = message.arrays.get("references"), ""
        arrays: dict[str, Array] = {k: x.numpy() for k, x in state.update.sent.items()}
        metadata: dict[str, Any] = {"name": self.data.name, "round": round}
        if self.privacy is not None and "quantiles" in arrays:
            epsilon = total_epsilon(state.releases, self.privacy.delta)
            metadata["privacy"] = {"epsilon": epsilon, "delta": self.privacy.delta}
        state.response = Message("round", metadata, arrays)
        self._save(state)
        return state.response

    def _check_round(self, round: int, n: int, state: ClientState) -> None:
        """Refuse rounds that are over, or past the number that the noise is calibrated for."""
        name, last = self.data.name, state.request_round
        if round <= last:
            raise ValueError(f"round {round} is over: {name!r} has answered round {last}")
        if round > n + 1:  # the round after the last trains once more, and sends no quantiles
            spent = "" if state.budget is None else "the privacy budget is spent: "
            raise ValueError(
                f"{spent}round {round} is past the end of the training of {name!r}, {n} rounds. "
                "Begin a training of more rounds"
            )

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

    def _label_loss(self, message: Message) -> Message:
        """Return the gradients of all views' scores, at the label holder."""
        trainer = self._resume_label_holder(message)
        settings = trainer.settings
        round = int(message.metadata["round"])
        linked = linked_query(round, settings, len(self.data.linked)).scores
        codes = trainer.linked_codes[linked]
        loss, gradients = label_loss(_by_client(message, "scores."), codes, settings.head_weight)
        arrays = {f"gradient.{name}": x.numpy() for name, x in gradients.items()}
        # The bound of `quadratic_surrogate`, for a mean over labeled rows.
        curvature = settings.head_weight / (4 * max(1, int((codes >= 0).sum())))
        metadata = {"round": round, "loss": loss, "curvature": curvature}
        return Message("label_loss", metadata, arrays)

    def _fit_fusion(self, message: Message) -> Message:
        """Return fusion weights halfway, and a joint head in the end, at the label holder."""
        trainer = self._resume_label_holder(message)
        settings = trainer.settings
        training, held_out = self._split_linked(settings)
        is_last = bool(message.metadata.get("is_last"))
        pool, head = fit_fusion(
            message.metadata["names"],
            _by_client(message, "held_out."),
            trainer.linked_codes,
            _by_client(message, "features."),
            np.arange(len(self.data.linked)) if is_last else training,
            held_out,
            trainer.n_classes,
            settings.random_state,
        )
        if is_last:
            return Message("fusion", {}, {k: x.astype(np.float32) for k, x in head.items()})
        weights = {"names": list(message.metadata["names"]), "power": float(pool.power)}
        weights |= {"complete": list(pool.complete), "partial": list(pool.partial)}
        shared = {"codes": trainer.linked_codes} if settings.share_labels else {}
        return Message("fusion", {"pool": weights}, shared)

    def _finish(self, message: Message) -> Message:
        trainer, state = self._resume(message)
        save_partial_model(self.model_path, trainer, state, message)
        return Message("finish", {"name": self.data.name})


def _read_server_update(message: Message, state: ClientState) -> ServerUpdate:
    arrays = {name: torch.from_numpy(x) for name, x in message.arrays.items()}
    prefix = "gradient."
    return ServerUpdate(
        message.metadata.get("update_round") or 0,
        {k.removeprefix(prefix): x for k, x in arrays.items() if k.startswith(prefix)},
        message.metadata.get("curvatures") or {},
        arrays.get("weights"),
        None if state.references is None else torch.from_numpy(state.references),
        arrays.get("references"),
    )


def _by_client(message: Message, prefix: str) -> dict[str, Tensor]:
    """Return the arrays with a prefix by client, in the order of the message's names."""
    return {
        name: torch.from_numpy(message.arrays[f"{prefix}{name}"])
        for name in message.metadata["names"]
        if f"{prefix}{name}" in message.arrays
    }
