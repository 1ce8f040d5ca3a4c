"""The coordinator: brings organizations together, round by round, without seeing a row."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any
import torch
from hotview._types import Array
from hotview.federated.messages import Carrier, Failure
from hotview.federated.server_state import Joint, Stage, read_stage, write_stage
from hotview.federated.labels import asked_in
from hotview.federated.local_trainer import Report
from hotview.federated.messages import Message
from hotview.federated.response_validation import (
    RefusedError,
    check_answer,
    check_codes,
    check_judgment,
    check_pool,
    check_quantiles,
)
from hotview.federated.server_coupling import Center, Coupled
from hotview.federated.settings import Settings
from hotview.training.process_group import Interrupt
from hotview.training.progress import ProgressBar
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
import numpy as np
from hotview.federated.messages import Failure
from hotview.federated.response_validation import (
    RefusedError,
    check_answer,
    check_classes,
    check_codes,
)

__all__ = ["Agreement", "Coordinator", "agree"]

_TRIES = 3  # at what cannot be done without an answer
_MOST_REASON = 500  # characters; what others write must not fill the log and the checkpoint
_log = logging.getLogger(__name__)


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

    stage: Stage

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
        self.center = Center(settings, carrier.names)
        #: bytes of the largest message of this round, by organization
        self.traffic: dict[str, int] = {}

    def run(self) -> Joint:
        """Train from the beginning, or from the checkpoint, to the end.

        Returns
        -------
        Joint
            What came of it; parts of the model are with the organizations.
        """
        n = self.settings.rounds
        self.stage = stage = self._begin()
        with Interrupt() as interrupt, ProgressBar(n, shown=self.verbose) as bar:
            bar.step(stage.round)
            while stage.round < n and not interrupt.asked:
                self._take_round()
                if self.checkpoint is not None:
                    write_stage(self.checkpoint, stage, self.settings, self.center.state())
                bar.step()
        if stage.round < n:
            _log.warning("stopped after round %d of %d", stage.round, n)
        else:
            self._finish()
        return stage.joint

    def _begin(self) -> Stage:
        names = list(self.carrier.names)
        if self.checkpoint is None or not self.checkpoint.exists():
            return Stage(agree(self._exchange, names, self.settings), Joint(names))
        stage, tensors = read_stage(self.checkpoint, self.settings, names)
        self.center = Center(self.settings, stage.joint.names)
        self.center.restore(tensors)
        _log.info("goes on after round %d of %d", stage.round, self.settings.rounds)
        return stage

    # a round

    def _take_round(self) -> None:
        self.traffic = {}
        reports = self._gather(self.stage.round + 1)
        self.stage.round += 1
        coupled = None if self.settings.coupling == "none" else self.center.couple(reports)
        parts = {} if coupled is None else dict(coupled.parts)
        judged = self._judge(reports)
        if judged is not None:
            parts["view_heads"] = float(judged.facts["loss"])
        if self.stage.round == self.settings.weighing_round:
            self._weigh(reports)
        self.stage.soft_labels = {
            name: self._lesson(name, coupled, judged if name in reports else None)
            for name in self.stage.joint.names
        }
        self._record(parts, coupled, len(reports))

    def _gather(self, round: int) -> dict[str, Report]:
        """Reports of all who answer, of at least as many as must."""
        messages = {name: self._message(name, round) for name in self.stage.joint.names}
        reports: dict[str, Report] = {}
        for _ in range(_TRIES):
            missing = {name: m for name, m in messages.items() if name not in reports}
            for name, answer in self._exchange(missing).items():
                try:
                    reports[name] = self._check_report(name, answer, round)
                except RefusedError as refused:
                    self._drop(name, round, str(refused))
            if len(reports) >= self.settings.least:
                return {name: reports[name] for name in self.stage.joint.names if name in reports}
        raise RuntimeError(
            f"Expected at least {self.settings.least} organizations to answer in round {round}, "
            f"but {len(reports)} did, {_TRIES} times in a row. "
            + (
                "Begin anew when they are there."
                if self.checkpoint is None
                else f"Go on from {self.checkpoint} when they are there."
            )
        )

    def _message(self, name: str, round: int) -> Message:
        before = self.stage.soft_labels.get(name, Message("round"))
        facts = {**before.facts, "round": round, "federation": self.stage.agreement.federation}
        arrays = {**before.arrays, **self.stage.shared}
        if (G := self.center.references) is not None:
            arrays["references"] = G.numpy()
        return Message("round", facts, arrays)

    def _check_report(self, name: str, answer: Message | Failure, round: int) -> Report:
        s = self.settings
        shapes: dict[str, tuple[int, ...]] = {}
        is_last = round > s.rounds
        if s.coupling != "none" and not is_last:
            shapes["quantiles"] = (s.n_projections, s.quantiles)
        if s.coupling == "hot-pairwise" and not is_last:
            shapes["moment"] = (s.n_components, s.n_components)
        agreement = self.stage.agreement
        asked = asked_in(round, s, agreement.n_linked)
        widths = {"scores": len(agreement.classes), "held": len(agreement.classes)}
        for what, who in vars(asked).items():
            if len(who) > 0:
                shapes[what] = (len(who), widths.get(what, s.encoder_dim))
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
        self.stage.joint.privacy[name] = {key: told[key] for key in keys}

    def _judge(self, reports: Mapping[str, Report]) -> Message | None:
        """Gradients of all scores, from the label holder."""
        holder = self.settings.label_holder
        scores = {n: r.sent["scores"].numpy() for n, r in reports.items() if "scores" in r.sent}
        if holder is None or not scores:
            return None
        facts = {
            "round": self.stage.round,
            "federation": self.stage.agreement.federation,
            "names": list(scores),
        }
        message = Message("judge", facts, {f"scores.{n}": x for n, x in scores.items()})
        shapes = {f"gradient.{name}": x.shape for name, x in scores.items()}
        try:
            answer = self._exchange({holder: message})[holder]
            judged = check_answer(answer, "judge", {"round": self.stage.round}, shapes)
            check_judgment(judged)
        except RefusedError as refused:
            self._drop(holder, self.stage.round, f"as label holder, {refused}")
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
        return Message("round", {**facts, "about": self.stage.round if was_there else 0}, arrays)

    def _record(self, parts: dict[str, float], coupled: Coupled | None, n_present: int) -> None:
        row = {"epoch": self.stage.round, "loss": sum(parts.values()), **parts}
        busiest = max(self.traffic.values(), default=0)
        self.stage.joint.history._append({**row, "present": n_present, "bytes": busiest})
        if coupled is not None:
            self.stage.joint.W, self.stage.joint.C = coupled.plan.W.numpy(), coupled.plan.C.numpy()
            self.stage.joint.present = coupled.names

    def _drop(self, name: str, round: int, reason: str) -> None:
        reason = reason[:_MOST_REASON]
        _log.warning("round %d goes on without %r: %s", round, name, reason)
        self.stage.joint.dropped.append({"round": round, "name": name, "reason": reason})

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
        holder = self.settings.label_holder
        reports = self._gather(self.stage.round + 1)
        facts: dict[str, Any] = {"federation": self.stage.agreement.federation}
        if self.stage.joint.W is not None and self.stage.joint.C is not None:
            facts["plan"] = {
                "names": self.stage.joint.present,
                "W": self.stage.joint.W.tolist(),
                "C": self.stage.joint.C.tolist(),
            }
        arrays: dict[str, Array] = {}
        if (G := self.center.references) is not None:
            arrays["references"] = G.numpy()
        if self.stage.pool is not None:
            facts["pool"] = self.stage.pool
        if head := self._ask_for_head(reports):
            facts["head"] = list(reports)  # whose features it is of
        messages = {
            name: Message("finish", facts, {**arrays, **head} if name == holder else arrays)
            for name in self.stage.joint.names
        }
        for name, answer in self._exchange(messages).items():
            try:
                check_answer(answer, "finish", {"name": name}, {})
                self.stage.joint.finished.append(name)
            except RefusedError as refused:
                self._drop(name, self.stage.round + 1, str(refused))

    def _ask_for_head(self, reports: Mapping[str, Report]) -> dict[str, Array]:
        """What the label holder makes of all features, if they are shared; for itself alone."""
        fused = self._fuse(reports, last=True) if self.settings.share_features else None
        return {} if fused is None else fused.arrays

    def _weigh(self, reports: Mapping[str, Report]) -> None:
        """Let the label holder find out how much each view counts, and teach by all labels."""
        fused = self._fuse(reports, last=False)
        if fused is not None:
            self.stage.pool, self.stage.shared = fused.facts["pool"], fused.arrays

    def _fuse(self, reports: Mapping[str, Report], *, last: bool) -> Message | None:
        holder, agreement = self.settings.label_holder, self.stage.agreement
        if holder is None:
            return None
        facts = {"federation": agreement.federation, "names": list(reports), "last": last}
        arrays = {
            f"{what}.{name}": report.sent[what].numpy()
            for what in ("held", "features")
            for name, report in reports.items()
            if what in report.sent
        }
        for _ in range(_TRIES):  # no later round asks for it again
            answer = self._exchange({holder: Message("fuse", facts, arrays)})[holder]
            try:
                return _check_fused(answer, self.settings, agreement, list(reports), last=last)
            except RefusedError as refused:
                self._drop(holder, self.stage.round, f"as label holder, {refused}")
        return None


def _check_fused(
    answer: Message | Failure,
    settings: Settings,
    agreement: Agreement,
    names: list[str],
    *,
    last: bool,
) -> Message:
    if isinstance(answer, Failure):
        raise RefusedError(answer.reason)
    n = len(agreement.classes)
    if last:  # there is no head where a class was never seen
        shapes = {"weight": (n, len(names) * settings.encoder_dim), "bias": (n,)}
        return check_answer(answer, "fuse", {}, shapes if answer.arrays else {})
    check_pool(answer.facts.get("pool"), names)
    if settings.propagate_labels:
        check_codes(answer, agreement.n_linked, n)
        return answer
    return check_answer(answer, "fuse", {}, {})


Exchange = Callable[[Mapping[str, Message]], Mapping[str, Message | Failure]]


@dataclass(frozen=True)
class Agreement:
    """What is known of a training before its first round.

    Parameters
    ----------
    federation : str
        By which its messages are told from those of others.
    n_linked : int
        Linked individuals.
    classes : list
        Of the labels; none without a label holder.
    """

    federation: str
    n_linked: int
    classes: list[Any]


def agree(exchange: Exchange, names: Sequence[str], settings: Settings) -> Agreement:
    """Greet all organizations, ask the label holder for the classes, and let all begin.

    Parameters
    ----------
    exchange : callable
        Brings messages to organizations, and back their answers.
    names : sequence of str
        The organizations.
    settings : Settings
        What they are to agree on.

    Returns
    -------
    Agreement
        What they agreed on; else an error says who did not.
    """
    greeted = _greet(exchange, names)
    n_linked = _check_links(greeted)
    holder = settings.label_holder
    if holder is not None and holder not in greeted:
        raise ValueError(f"Expected label_holder among {list(names)}, but it is {holder!r}.")
    classes: list[Any] = []
    codes: dict[str, Array] = {}
    if holder is not None:
        classes, codes = _ask_for_classes(exchange, holder, settings, n_linked)
    federation = np.random.default_rng().bytes(8).hex()
    told = {
        "settings": settings.to_json(),
        "classes": classes,
        "names": list(names),
        "federation": federation,
    }
    for name, answer in exchange({name: Message("start", told, codes) for name in names}).items():
        try:
            check_answer(answer, "start", {"name": name}, {})
        except RefusedError as refused:
            raise ValueError(f"Expected {name!r} to begin, but {refused}") from None
    return Agreement(federation, n_linked, classes)


def _greet(exchange: Exchange, names: Sequence[str]) -> dict[str, Message]:
    greeted: dict[str, Message] = {}
    for name, answer in exchange({name: Message("hello") for name in names}).items():
        try:
            greeted[name] = check_answer(answer, "hello", {"name": name}, {})
        except RefusedError as refused:
            raise ValueError(
                f"Expected {name!r} to say hello, but {refused}. All organizations must be there "
                "when a training begins."
            ) from None
    return greeted


def _check_links(greeted: Mapping[str, Message]) -> int:
    counts = {name: answer.facts.get("n_linked") for name, answer in greeted.items()}
    if len({str(answer.facts.get("digest")) for answer in greeted.values()}) > 1:
        raise ValueError(
            "Expected all organizations to have agreed on the same linked ids in the same order, "
            f"but their lists differ (numbers of ids: {counts}). Agree again."
        )
    n_linked = next(iter(counts.values()))
    differ = any(count != n_linked for count in counts.values())
    if type(n_linked) is not int or n_linked < 0 or differ:
        raise ValueError(f"Expected organizations to count their linked ids, but {counts} came.")
    return n_linked


def _ask_for_classes(
    exchange: Exchange, holder: str, settings: Settings, n_linked: int
) -> tuple[list[Any], dict[str, Array]]:
    """The classes and, where labels are shared, those of linked individuals."""
    ask = Message("start", {"settings": settings.to_json()})
    answer = exchange({holder: ask})[holder]
    try:
        if isinstance(answer, Failure):
            raise RefusedError(answer.reason)
        classes = check_classes(answer.facts.get("classes"))
        if settings.propagate_labels:
            check_codes(answer, n_linked, len(classes))
        else:
            check_answer(answer, "start", {}, {})
    except RefusedError as refused:
        raise ValueError(f"Expected {holder!r} to tell the classes, but {refused}") from None
    if len(classes) < 2:
        raise ValueError(f"Expected {holder!r} to know two classes or more, not {classes!r}.")
    return classes, answer.arrays
