"""The coordinator: brings organizations together, round by round, without seeing a row."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from hotview._archive import Kind, read_archive, write_archive
from hotview._types import Array
from hotview.federated.answers import RefusedError, check_answer, check_quantiles
from hotview.federated.carrier import Carrier, Failure
from hotview.federated.center import Center, Coupled
from hotview.federated.labels import split_linked
from hotview.federated.learner import Report
from hotview.federated.messages import Message
from hotview.federated.settings import Settings
from hotview.training.history import History
from hotview.training.interrupt import Interrupt
from hotview.training.progress import ProgressBar

__all__ = ["Coordinator", "Joint"]

_CHECKPOINT = Kind("hotview federation", 1, "a checkpoint", "Delete it to begin anew.")
_TRIES = 3  # at a round with too few answers
_log = logging.getLogger(__name__)


@dataclass
class Joint:
    """What the coordinator knows in the end.

    Parameters
    ----------
    names : list of str
        The organizations.
    history : History
        A row per round: parts of the loss, how many were there, and bytes to and from the busiest.
    W, C : ndarray or None
        The last plan and its costs, over the organizations `present`.
    present : list of str
        Who was there in the last round.
    dropped : list of dict
        Who was left out of which round, and why.
    privacy : dict of str to dict
        ε and δ by organization, where it asked for any.
    finished : list of str
        Who has saved its part.
    """

    names: list[str]
    history: History = field(default_factory=History)
    W: Array | None = None
    C: Array | None = None
    present: list[str] = field(default_factory=list)
    dropped: list[dict[str, Any]] = field(default_factory=list)
    privacy: dict[str, dict[str, float]] = field(default_factory=dict)
    finished: list[str] = field(default_factory=list)


class Coordinator:
    """Runs a federated training.

    Parameters
    ----------
    carrier : Carrier
        Brings messages to the organizations.
    settings : Settings
        What they agree on.
    checkpoint : str or Path or None, default=None
        A file that is written after every round; if it is there already, the training goes on.
    timeout : float, default=600.0
        Seconds after which an answer is late.
    verbose : bool, default=False
        Whether progress is shown.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from hotview.datasets import make_views
    >>> from hotview.federated import Coordinator, InProcess, Organization, Settings, hold
    >>> views = make_views(60, n_views=3, random_state=0).views
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     members = {
    ...         name: Organization(hold(name, X), Path(folder) / name) for name, X in views.items()
    ...     }
    ...     settings = Settings(rounds=2, local_steps=2, quantiles=16)
    ...     joint = Coordinator(InProcess(members), settings).run()
    >>> joint.finished, joint.W.shape
    (['view_0', 'view_1', 'view_2'], (3, 3))
    """

    def __init__(
        self,
        carrier: Carrier,
        settings: Settings,
        *,
        checkpoint: str | Path | None = None,
        timeout: float = 600.0,
        verbose: bool = False,
    ) -> None:
        self.carrier, self.settings, self.timeout = carrier, settings, timeout
        self.checkpoint = None if checkpoint is None else Path(checkpoint)
        self.verbose = verbose
        self.joint = Joint(list(carrier.names))
        self.center = Center(settings, carrier.names)
        self.round, self.n_linked = 0, 0
        self.classes: list[Any] = []
        self.federation = ""
        #: what each organization is told of its last report, and what stands in it
        self.lessons: dict[str, Message] = {}
        self.traffic: dict[str, int] = {}

    def run(self) -> Joint:
        """Train from the beginning, or from the checkpoint, to the end.

        Returns
        -------
        Joint
            What came of it; parts of the model are with the organizations.
        """
        if self.checkpoint is not None and self.checkpoint.exists():
            self._restore(self.checkpoint)
            _log.info("goes on after round %d of %d", self.round, self.settings.rounds)
        else:
            self._begin()
        s = self.settings
        with Interrupt() as interrupt, ProgressBar(s.rounds, shown=self.verbose) as bar:
            bar.step(self.round)
            while self.round < s.rounds and not interrupt.asked:
                self._take_round()
                self._save()
                bar.step()
        if self.round < s.rounds:
            _log.warning("stopped after round %d of %d", self.round, s.rounds)
            return self.joint
        self._finish()
        return self.joint

    # beginning

    def _begin(self) -> None:
        hello = self._exchange({name: Message("hello") for name in self.joint.names})
        greeted: dict[str, Message] = {}
        for name, answer in hello.items():
            try:
                greeted[name] = check_answer(answer, "hello", {"name": name}, {})
            except RefusedError as refused:
                raise ValueError(
                    f"Expected {name!r} to say hello, but {refused}. All organizations must be "
                    "there when a training begins."
                ) from None
        self._check_agreement(greeted)
        self.federation = _new_name()
        self.classes, codes = self._ask_for_classes()
        told = {
            "settings": self.settings.to_json(),
            "classes": self.classes,
            "names": self.joint.names,
            "federation": self.federation,
        }
        for name, answer in self._exchange(
            {name: Message("start", told, codes) for name in self.joint.names}
        ).items():
            if isinstance(answer, Failure):
                raise ValueError(f"Expected {name!r} to begin, but {answer.reason}")

    def _check_agreement(self, greeted: Mapping[str, Message]) -> None:
        digests = {name: answer.facts.get("digest") for name, answer in greeted.items()}
        if len(set(digests.values())) > 1:
            counts = {name: answer.facts.get("n_linked") for name, answer in greeted.items()}
            raise ValueError(
                "Expected all organizations to have agreed on the same linked ids in the same "
                f"order, but their lists differ (numbers of ids: {counts}). Agree again."
            )
        self.n_linked = int(next(iter(greeted.values())).facts["n_linked"])
        holder = self.settings.label_holder
        if holder is not None and holder not in greeted:
            raise ValueError(f"Expected label_holder among {list(greeted)}, but it is {holder!r}.")

    def _ask_for_classes(self) -> tuple[list[Any], dict[str, Array]]:
        """The classes and, where labels are shared, those of linked individuals."""
        holder = self.settings.label_holder
        if holder is None:
            return [], {}
        ask = Message("start", {"settings": self.settings.to_json()})
        answer = self._exchange({holder: ask})[holder]
        if isinstance(answer, Failure):
            raise ValueError(f"Expected {holder!r} to tell the classes, but {answer.reason}")
        classes = answer.facts.get("classes")
        if not isinstance(classes, list) or len(classes) < 2:
            raise ValueError(f"Expected {holder!r} to know two classes or more, not {classes!r}.")
        shares = self.settings.share_labels
        fits = set(answer.arrays) == ({"codes"} if shares else set())
        if not fits or any(x.shape != (self.n_linked,) for x in answer.arrays.values()):
            raise ValueError(f"Expected {holder!r} to tell what was asked for, and nothing else.")
        return classes, answer.arrays

    # a round

    def _take_round(self) -> None:
        self.traffic = {}
        reports = self._gather(self.round + 1)
        self.round += 1
        coupled = None if self.settings.coupling == "none" else self.center.couple(reports)
        parts = {} if coupled is None else dict(coupled.parts)
        judged = self._judge(reports)
        if judged is not None:
            parts["view_heads"] = float(judged.facts["loss"])
        self.lessons = {
            name: self._lesson(name, coupled, judged if name in reports else None)
            for name in self.joint.names
        }
        self._record(parts, coupled, len(reports))

    def _gather(self, round: int, *, last: bool = False) -> dict[str, Report]:
        """Reports of all who answer, of at least as many as must."""
        messages = {name: self._message(name, round, last=last) for name in self.joint.names}
        reports: dict[str, Report] = {}
        for _ in range(_TRIES):
            missing = {name: m for name, m in messages.items() if name not in reports}
            for name, answer in self._exchange(missing).items():
                try:
                    reports[name] = self._check_report(name, answer, round, last=last)
                except RefusedError as refused:
                    self._drop(name, round, str(refused))
            if len(reports) >= self.settings.least:
                return {name: reports[name] for name in self.joint.names if name in reports}
        raise RuntimeError(
            f"Expected at least {self.settings.least} organizations to answer in round {round}, "
            f"but {len(reports)} did, {_TRIES} times in a row. "
            + (
                "Begin anew when they are there."
                if self.checkpoint is None
                else f"Go on from {self.checkpoint} when they are there."
            )
        )

    def _message(self, name: str, round: int, *, last: bool) -> Message:
        before = self.lessons.get(name, Message("round"))
        facts = {**before.facts, "round": round, "federation": self.federation, "last": last}
        arrays = dict(before.arrays)
        if (G := self.center.references) is not None:
            arrays["references"] = G.numpy()
        return Message("round", facts, arrays)

    def _check_report(
        self, name: str, answer: Message | Failure, round: int, *, last: bool
    ) -> Report:
        s = self.settings
        shapes: dict[str, tuple[int, ...]] = {}
        if s.coupling != "none":
            shapes["quantiles"] = (s.n_projections, s.quantiles)
        if s.coupling == "hot-pairwise":
            shapes["moment"] = (s.n_components, s.n_components)
        teaching, held = split_linked(self.n_linked, s.fusion_share, s.random_state)
        n = len(held) if last else min(len(teaching), s.linked_batch) * (not s.share_labels)
        if self.classes and n > 0:
            shapes["scores"] = (n, len(self.classes))
        if last and s.share_features and self.classes:
            shapes["features"] = (self.n_linked, s.n_features)
        checked = check_answer(answer, "round", {"name": name, "round": round}, shapes)
        check_quantiles(checked)
        self._note_privacy(name, checked.facts.get("privacy"))
        sent = {key: torch.from_numpy(x) for key, x in checked.arrays.items()}
        return Report(round, sent=sent)

    def _note_privacy(self, name: str, told: Any) -> None:
        if told is None:
            return
        keys = ("epsilon", "delta")
        fits = isinstance(told, dict) and all(isinstance(told.get(k), float) for k in keys)
        if not fits:
            raise RefusedError("what it says of privacy cannot be understood")
        self.joint.privacy[name] = {key: told[key] for key in keys}

    def _judge(self, reports: Mapping[str, Report]) -> Message | None:
        """Gradients of all scores, from the label holder."""
        holder = self.settings.label_holder
        scores = {n: r.sent["scores"].numpy() for n, r in reports.items() if "scores" in r.sent}
        if holder is None or not scores:
            return None
        facts = {"round": self.round, "federation": self.federation, "names": list(scores)}
        message = Message("judge", facts, {f"scores.{n}": x for n, x in scores.items()})
        shapes = {f"gradient.{name}": x.shape for name, x in scores.items()}
        try:
            answer = self._exchange({holder: message})[holder]
            judged = check_answer(answer, "judge", {"round": self.round}, shapes)
            for key in ("loss", "curvature"):
                if not isinstance(judged.facts.get(key), float):
                    raise RefusedError(f"its {key} is no number")
        except RefusedError as refused:
            self._drop(holder, self.round, f"as label holder, {refused}")
            return None
        return judged

    def _lesson(self, name: str, coupled: Coupled | None, judged: Message | None) -> Message:
        """What an organization is told of its report, or, if it was not there, of the others'."""
        facts: dict[str, Any] = {"curvatures": {}}
        arrays: dict[str, Array] = {}
        if coupled is not None and name in coupled.gradients:
            arrays = {f"gradient.{k}": x.numpy() for k, x in coupled.gradients[name].items()}
            facts["curvatures"] = dict(coupled.curvatures)
        if coupled is not None and coupled.weights:
            S, K = len(coupled.names), coupled.plan.W.shape[1]
            uniform = torch.full((K,), 1 / (S * K))
            arrays["weights"] = coupled.weights.get(name, uniform).numpy()
        if judged is not None:
            arrays["gradient.scores"] = judged.arrays[f"gradient.{name}"]
            facts["curvatures"] = {
                **facts["curvatures"],
                "scores": float(judged.facts["curvature"]),
            }
        was_there = coupled is None or name in coupled.names
        return Message("round", {**facts, "about": self.round if was_there else 0}, arrays)

    def _record(self, parts: dict[str, float], coupled: Coupled | None, n_present: int) -> None:
        row = {"epoch": self.round, "loss": sum(parts.values()), **parts}
        busiest = max(self.traffic.values(), default=0)
        self.joint.history._append({**row, "present": n_present, "bytes": busiest})
        if coupled is not None:
            self.joint.W, self.joint.C = coupled.plan.W.numpy(), coupled.plan.C.numpy()
            self.joint.present = coupled.names

    def _drop(self, name: str, round: int, reason: str) -> None:
        _log.warning("round %d goes on without %r: %s", round, name, reason)
        self.joint.dropped.append({"round": round, "name": name, "reason": reason})

    def _exchange(self, messages: Mapping[str, Message]) -> dict[str, Message | Failure]:
        answers = self.carrier.exchange(messages, self.timeout)
        for name, message in messages.items():
            answer = answers[name]
            back = 0 if isinstance(answer, Failure) else len(answer.to_bytes())
            size = max(len(message.to_bytes()), back)
            self.traffic[name] = max(size, self.traffic.get(name, 0))
        return answers

    # the end

    def _finish(self) -> None:
        reports = self._gather(self.round + 1, last=True)
        facts: dict[str, Any] = {"federation": self.federation}
        if self.joint.W is not None and self.joint.C is not None:
            facts["plan"] = {
                "names": self.joint.present,
                "W": self.joint.W.tolist(),
                "C": self.joint.C.tolist(),
            }
        arrays: dict[str, Array] = {}
        if (G := self.center.references) is not None:
            arrays["references"] = G.numpy()
        fused = self._fuse(reports)
        if fused is not None:
            facts["pool"] = fused.facts["pool"]
        messages = {}
        for name in self.joint.names:
            is_holder = fused is not None and name == self.settings.label_holder
            more = fused.arrays if is_holder and fused is not None else {}
            messages[name] = Message("finish", facts, {**arrays, **more})
        for name, answer in self._exchange(messages).items():
            if isinstance(answer, Failure):
                self._drop(name, self.round + 1, answer.reason)
            else:
                self.joint.finished.append(name)

    def _fuse(self, reports: Mapping[str, Report]) -> Message | None:
        holder, s = self.settings.label_holder, self.settings
        if holder is None:
            return None
        facts = {"federation": self.federation, "names": list(reports)}
        arrays = {
            f"{what}.{name}": report.sent[what].numpy()
            for what in ("scores", "features")
            for name, report in reports.items()
            if what in report.sent
        }
        answer = self._exchange({holder: Message("fuse", facts, arrays)})[holder]
        if isinstance(answer, Failure) or not isinstance(answer.facts.get("pool"), dict):
            reason = answer.reason if isinstance(answer, Failure) else "it tells no weights"
            self._drop(holder, s.rounds + 1, f"as label holder, {reason}")
            return None
        return answer

    # its checkpoint

    def _save(self) -> None:
        if self.checkpoint is None:
            return
        joint, tensors = self.joint, {f"center.{k}": x for k, x in self.center.state().items()}
        for name, lesson in self.lessons.items():
            arrays = {f"lesson.{name}.{k}": torch.from_numpy(x) for k, x in lesson.arrays.items()}
            tensors |= arrays
        if joint.W is not None and joint.C is not None:
            tensors |= {"W": torch.from_numpy(joint.W), "C": torch.from_numpy(joint.C)}
        facts = {
            "settings": self.settings.to_json(),
            "names": joint.names,
            "federation": self.federation,
            "round": self.round,
            "classes": self.classes,
            "n_linked": self.n_linked,
            "lessons": {name: lesson.facts for name, lesson in self.lessons.items()},
            "history": list(joint.history),
            "present": joint.present,
            "dropped": joint.dropped,
            "privacy": joint.privacy,
        }
        write_archive(self.checkpoint, _CHECKPOINT, tensors, facts)

    def _restore(self, path: Path) -> None:
        archive = read_archive(path, _CHECKPOINT)
        facts, tensors = archive.facts, archive.tensors
        try:
            self._check_same(path, facts)
            self.round, self.classes = facts["round"], facts["classes"]
            self.n_linked, self.federation = facts["n_linked"], facts["federation"]
            self.center.restore(_part(tensors, "center."))
            self.lessons = {
                name: Message(
                    "round",
                    told,
                    {k: x.numpy() for k, x in _part(tensors, f"lesson.{name}.").items()},
                )
                for name, told in facts["lessons"].items()
            }
            self.joint.history = History(facts["history"])
            self.joint.present, self.joint.dropped = facts["present"], facts["dropped"]
            self.joint.privacy = facts["privacy"]
            if "W" in tensors:
                self.joint.W, self.joint.C = tensors["W"].numpy(), tensors["C"].numpy()
        except (KeyError, TypeError) as error:
            raise _CHECKPOINT.refuse(path, f"its parts do not fit ({error})") from error

    def _check_same(self, path: Path, facts: Mapping[str, Any]) -> None:
        now = {**self.settings.to_json(), "names": sorted(self.joint.names)}
        then = {**facts["settings"], "names": sorted(facts["names"])}
        differ = [k for k in now if k != "rounds" and now[k] != then.get(k)]
        if differ:
            raise ValueError(
                f"Expected {path} to be of a training with the same settings, but "
                f"{differ[0]} was {then.get(differ[0])!r} then and is {now[differ[0]]!r} now. "
                "Delete the file to begin anew."
            )
        order: Sequence[str] = facts["names"]
        self.joint.names = list(order)
        self.center = Center(self.settings, order)


def _part(tensors: Mapping[str, torch.Tensor], start: str) -> dict[str, torch.Tensor]:
    return {k.removeprefix(start): x for k, x in tensors.items() if k.startswith(start)}


def _new_name() -> str:
    """A name for this training, by which a message of another one is told apart."""
    return np.random.default_rng().bytes(8).hex()
