"""How a training begins: everybody is there, and all agree on whom and what they know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from hotview._types import Array
from hotview.federated.channel import Failure
from hotview.federated.messages import Message
from hotview.federated.response_validation import (
    RefusedError,
    check_answer,
    check_classes,
    check_codes,
)
from hotview.federated.settings import Settings

__all__ = ["Agreement", "agree"]

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
