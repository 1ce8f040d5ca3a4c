"""One organization: answers messages, and keeps everything else at home."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array
from hotview.estimators.parameters import pick_device
from hotview._files import alone_in
from hotview.federated.client_data import Holdings
from hotview.federated.client_policy import (
    check_beginning,
    check_federation,
    check_finite,
    check_holder,
    check_round,
    check_same,
    check_shared,
    check_willing,
)
from hotview.federated.labels import JointHead, asked_in, fuse, judge, split_linked
from hotview.federated.local_trainer import Learner, Lesson
from hotview.federated.messages import Message
from hotview.federated.partial_models import save_part
from hotview.federated.privacy import Privacy, Release, Releases, spent_by
from hotview.federated.settings import Settings
from hotview.federated.client_state import Standing, read_standing, write_standing

__all__ = ["Organization"]

_STATE, _PART = "state.federated", "part.hotview"


class Organization:
    """Whoever has one view. Each answer may come from another process: it all stands in a folder.

    Parameters
    ----------
    holdings : Holdings
        Its table.
    folder : str or Path
        Where its state and, in the end, its part of the model are kept.
    privacy : Privacy or None, default=None
        How projections are made private; None sends them as they are.
    device : str, default="auto"
        Where to compute.
    shares : collection of {"features", "labels"}, default=()
        What it is willing to send of linked people, where the settings ask for it.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> from hotview.federated import Message, Organization, hold
    >>> table = hold("clinical", np.random.default_rng(0).normal(size=(20, 3)))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Organization(table, folder).answer(Message("hello")).facts["name"]
    'clinical'
    """

    def __init__(
        self,
        holdings: Holdings,
        folder: str | Path,
        *,
        privacy: Privacy | None = None,
        device: str = "auto",
        shares: Collection[str] = (),
    ) -> None:
        self.holdings, self.folder, self.privacy = holdings, Path(folder), privacy
        self.device, self.shares = pick_device(device), frozenset(shares)
        if unknown := self.shares - {"features", "labels"}:
            raise ValueError(f"Expected shares of 'features' and 'labels', not {min(unknown)!r}.")
        self.learner: Learner | None = None
        self.standing: Standing | None = None

    @property
    def state(self) -> Path:
        """Where it is written down how far it has come, and what was released."""
        return self.folder / _STATE

    @property
    def part(self) -> Path:
        """Where its part of the model is in the end."""
        return self.folder / _PART

    def answer(self, message: Message) -> Message:
        """Answer a message; the same message again gets the same answer.

        Parameters
        ----------
        message : Message
            From the coordinator.

        Returns
        -------
        Message
            Of the same kind.
        """
        answers: dict[str, Callable[[Message], Message]] = {
            "hello": self._greet,
            "start": self._start,
            "round": self._take_part,
            "judge": self._judge,
            "fuse": self._fuse,
            "finish": self._finish,
        }
        try:
            return answers[message.kind](message)
        except BaseException:
            # Steps may have been taken that nobody will hear of: what counts is in the file.
            self.learner = self.standing = None
            raise

    def _greet(self, message: Message) -> Message:
        own = self.holdings
        return Message(
            "hello",
            {
                "name": own.name,
                "n_linked": len(own.linked),
                "digest": own.digest,
                "has_labels": bool(own.classes),
            },
        )

    def _start(self, message: Message) -> Message:
        settings = Settings.from_json(message.facts["settings"])
        check_willing(self.holdings, self.shares, settings)
        if "classes" not in message.facts:  # first everybody is asked what there is to learn
            is_holder = settings.label_holder == self.holdings.name
            classes = self.holdings.classes if is_holder else []
            return Message("start", {"classes": classes}, self._labels_to_share(settings, classes))
        self.folder.mkdir(parents=True, exist_ok=True)
        with alone_in(self.folder):
            return self._begin(message, settings)

    def _begin(self, message: Message, settings: Settings) -> Message:
        classes, names = check_beginning(self.holdings, message)
        standing = Standing(settings.to_json(), classes, names)
        if "codes" in message.arrays:
            standing.shared = check_shared(self.holdings, message, len(classes))
        standing.federation = str(message.facts["federation"])
        standing.table = self.holdings.fingerprint
        standing.releases = self._released_before()
        if self.privacy is not None:
            now = self._calibrate(settings, standing.releases)
            standing.releases, standing.budget = [*standing.releases, now], self._budget
        self.learner = self._make_learner(standing)
        self._keep(standing)
        return Message("start", {"name": self.holdings.name})

    def _labels_to_share(self, settings: Settings, classes: list[Any]) -> dict[str, Array]:
        """Classes of the linked individuals who teach, if that is what all agreed on."""
        if not settings.propagate_labels or not classes:
            return {}
        n = len(self.holdings.linked)
        codes = self.holdings.codes(classes)[self.holdings.linked]
        _, held = split_linked(n, settings.fusion_share, settings.random_state)
        codes[held] = -1
        return {"codes": codes}

    def _released_before(self) -> list[Releases]:
        """What earlier trainings have told: who begins anew gets no second budget."""
        path = self.state
        if not path.is_file():
            return []
        try:
            standing, _ = read_standing(path)
        except ValueError:
            if self.privacy is None:  # nothing counts
                return []
            raise
        return [one for one in standing.releases if one.times > 0]

    @property
    def _budget(self) -> list[float] | None:
        return None if self.privacy is None else [self.privacy.epsilon, self.privacy.delta]

    def _calibrate(self, settings: Settings, before: list[Releases]) -> Releases:
        assert self.privacy is not None
        if settings.coupling == "hot-pairwise":
            raise ValueError(
                "Expected coupling='hot-reference' where an organization asks for privacy: "
                "'hot-pairwise' sends second moments, which have no noise."
            )
        n = self.holdings.table.n_rows
        noise = self.privacy.calibrate(n, settings.batch_size, settings.rounds, before)
        return Releases(noise, n, settings.batch_size, 0)

    def _make_learner(self, standing: Standing) -> Learner:
        settings = Settings.from_json(standing.settings)
        release = None
        if self.privacy is not None and settings.coupling != "none":
            p = self.privacy
            release = Release(p.clip, standing.noise, settings.batch_size, p.seed)
        return Learner(
            settings,
            self.holdings,
            standing.classes,
            len(standing.names),
            self.device,
            release,
            standing.shared,
        )

    def _stand(self) -> tuple[Learner, Standing]:
        """Where it stands: in memory, or from its file."""
        if self.learner is None or self.standing is None:
            path = self.state
            if not path.is_file():
                raise ValueError(
                    f"Expected {self.holdings.name!r} to have begun, but there is no {path}. Begin "
                    "the training anew."
                )
            standing, tensors = read_standing(path)
            check_same(self.holdings, self._budget, standing)
            check_willing(self.holdings, self.shares, Settings.from_json(standing.settings))
            learner = self._make_learner(standing)
            standing.put_back(learner, tensors)
            self.learner, self.standing = learner, standing
        return self.learner, self.standing

    def _keep(self, standing: Standing) -> None:
        assert self.learner is not None
        write_standing(self.state, standing, self.learner)
        self.standing = standing

    def _take_part(self, message: Message) -> Message:
        with alone_in(self.folder):
            return self._take_round(message)

    def _take_round(self, message: Message) -> Message:
        learner, standing = self._stand()
        check_federation(self.holdings, message, standing)
        round = int(message.facts["round"])
        asked = hashlib.sha256(message.to_bytes()).hexdigest()
        if asked == standing.asked and standing.answer is not None:
            return standing.answer  # which got lost
        check_round(self.holdings, round, standing)
        lesson = self._lesson(message, standing)
        if "codes" in message.arrays and standing.shared is not None:
            standing.shared = check_shared(self.holdings, message, learner.n_classes)
            learner.hear(standing.shared)
        if round > 1:
            row = learner.learn(standing.report, lesson, round)
            check_finite(learner)
            standing.history.append({"epoch": round - 1, "loss": sum(row.values()), **row})
        settings = learner.settings
        report = learner.report(round, asked_in(round, settings, len(self.holdings.linked)))
        standing.report, standing.references = report, message.arrays.get("references")
        arrays: dict[str, Array] = {name: x.numpy() for name, x in report.sent.items()}
        facts: dict[str, Any] = {"name": self.holdings.name, "round": round}
        if self.privacy is not None and "quantiles" in arrays:
            standing.count_release()
            epsilon = spent_by(standing.releases, self.privacy.delta)
            facts["privacy"] = {"epsilon": epsilon, "delta": self.privacy.delta}
        standing.answer, standing.asked = Message("round", facts, arrays), asked
        self._keep(standing)
        return standing.answer

    def _lesson(self, message: Message, standing: Standing) -> Lesson:
        arrays = {name: torch.from_numpy(x) for name, x in message.arrays.items()}
        gradients = {
            name.removeprefix("gradient."): x
            for name, x in arrays.items()
            if name.startswith("gradient.")
        }
        before = standing.references
        about = int(message.facts.get("about", 0))
        if not all(bool(x.isfinite().all()) for x in arrays.values()):
            raise ValueError("what it tells is not finite")
        for name, x in gradients.items() if about == standing.report.round else ():
            if x.shape != standing.report.sent[name].shape:
                raise ValueError(f"its gradient of {name} has another shape than what was sent")
        return Lesson(
            about,
            gradients,
            message.facts.get("curvatures", {}),
            arrays.get("weights"),
            None if before is None else torch.from_numpy(before),
            arrays.get("references"),
        )

    def _judge(self, message: Message) -> Message:
        learner, standing = self._stand()
        check_federation(self.holdings, message, standing)
        check_holder(self.holdings, learner.settings)
        settings = learner.settings
        round = int(message.facts["round"])
        linked = asked_in(round, settings, len(self.holdings.linked)).scores
        scores = _named(message, "scores.")
        found = judge(scores, learner.linked_codes[linked], settings.head_weight)
        arrays = {f"gradient.{name}": x.numpy() for name, x in found.gradients.items()}
        n_known = int((learner.linked_codes[linked] >= 0).sum())
        curvature = settings.head_weight / (4 * max(1, n_known))  # see `Pull`
        facts = {"round": message.facts["round"], "loss": found.loss, "curvature": curvature}
        return Message("judge", facts, arrays)

    def _fuse(self, message: Message) -> Message:
        """How much each view counts, halfway; and a joint head, in the end."""
        learner, standing = self._stand()
        check_federation(self.holdings, message, standing)
        check_holder(self.holdings, learner.settings)
        s, n = learner.settings, len(self.holdings.linked)
        teaching, held = split_linked(n, s.fusion_share, s.random_state)
        is_last = bool(message.facts.get("last"))
        pool, head = fuse(
            message.facts["names"],
            _named(message, "held."),
            learner.linked_codes,
            _named(message, "features."),
            np.arange(n) if is_last else teaching,
            held,
            learner.n_classes,
            s.random_state,
        )
        if is_last:
            return Message("fuse", {}, {} if head is None else _as_arrays(head))
        told = {
            "names": list(message.facts["names"]),
            "complete": list(pool.complete),
            "partial": list(pool.partial),
            "power": float(pool.power),
        }
        return Message(
            "fuse", {"pool": told}, {"codes": learner.linked_codes} if s.propagate_labels else {}
        )

    def _finish(self, message: Message) -> Message:
        learner, standing = self._stand()
        check_federation(self.holdings, message, standing)
        save_part(self.part, learner, standing, message)
        return Message("finish", {"name": self.holdings.name})


def _named(message: Message, start: str) -> dict[str, Tensor]:
    """Arrays by organization, in the order in which the message lists these."""
    return {
        name: torch.from_numpy(message.arrays[f"{start}{name}"])
        for name in message.facts["names"]
        if f"{start}{name}" in message.arrays
    }


def _as_arrays(head: JointHead) -> dict[str, Array]:
    return {"weight": head.weight.astype(np.float32), "bias": head.bias.astype(np.float32)}
