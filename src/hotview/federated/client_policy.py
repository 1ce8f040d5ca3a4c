"""What an organization goes by: messages that it does not answer, whoever sends them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hotview._types import IntArray
from hotview.federated.client_data import Holdings
from hotview.federated.local_trainer import Learner
from hotview.federated.messages import Message
from hotview.federated.response_validation import check_classes, check_codes
from hotview.federated.settings import Settings
from hotview.federated.client_state import Standing

__all__ = [
    "check_beginning",
    "check_federation",
    "check_finite",
    "check_holder",
    "check_round",
    "check_same",
    "check_shared",
    "check_willing",
]


def check_willing(own: Holdings, shares: Collection[str], settings: Settings) -> None:
    """Refuse to send what nobody here agreed to, or has: settings are the coordinator's.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    shares : collection of {"features", "labels"}
        What it is willing to send.
    settings : Settings
        Of the federation.
    """
    is_holder = settings.label_holder == own.name
    if is_holder and not own.classes:
        raise ValueError(
            f"Expected {own.name!r} to hold the labels, but none of its rows has one. Say which "
            "column holds them: label_column."
        )
    asked = {"features"} if settings.share_features else set()
    if settings.propagate_labels and is_holder:
        asked |= {"labels"}
    if refused := sorted(asked - set(shares)):
        raise ValueError(
            f"{own.name!r} is asked to send {refused[0]} of linked people, and has not agreed to. "
            f"Write share = {refused} into its configuration, or set share_{refused[0]} to false"
        )


def check_beginning(own: Holdings, message: Message) -> tuple[list[Any], list[str]]:
    """Refuse classes and names that cannot be: they end up in the part of the model.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    message : Message
        With which a training begins.

    Returns
    -------
    classes : list
        Of the labels.
    names : list of str
        All organizations.
    """
    names = message.facts.get("names")
    if (
        not isinstance(names, list)
        or not all(isinstance(name, str) for name in names)
        or len(set(names)) < len(names)
        or own.name not in names
    ):
        raise ValueError(
            f"Expected different names of organizations, {own.name!r} among them, but something "
            "else came"
        )
    return check_classes(message.facts.get("classes")), names


def check_shared(own: Holdings, message: Message, n_classes: int) -> IntArray:
    """Refuse shared labels that cannot be.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    message : Message
        Which holds them, and may hold more.
    n_classes : int
        Classes.

    Returns
    -------
    ndarray of int64
        Classes of linked individuals, −1 where unknown.
    """
    codes: IntArray = message.arrays["codes"]
    check_codes(Message(message.kind, {}, {"codes": codes}), len(own.linked), n_classes)
    return codes


def check_same(own: Holdings, budget: list[float] | None, standing: Standing) -> None:
    """Refuse to go on with another table, or with noise that was never chosen.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    budget : list of float, or None
        ε and δ, if it asks for any.
    standing : Standing
        Where it stood.
    """
    if standing.budget != budget:
        then, now = (
            "without privacy" if x is None else "with epsilon = {} and delta = {}".format(*x)
            for x in (standing.budget, budget)
        )
        raise ValueError(
            f"Expected {own.name!r} to go on as it began, {then}, but now it is {now}. Set it "
            "back, or begin the training anew."
        )
    if standing.table != own.fingerprint:
        raise ValueError(
            f"Expected the table of {own.name!r} to stay as it was when the training began, but "
            "it has changed. Put it back, or begin the training anew."
        )


def check_federation(own: Holdings, message: Message, standing: Standing) -> None:
    """Refuse a message of another training.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    message : Message
        From the coordinator.
    standing : Standing
        Where the organization stands.
    """
    if message.facts.get("federation") != standing.federation:
        raise ValueError(f"it is of another training than {own.name!r} began; begin anew")


def check_round(own: Holdings, round: int, standing: Standing) -> None:
    """Refuse rounds that are over, or that nobody agreed on: there is no noise for them.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    round : int
        Which round is asked for.
    standing : Standing
        Where the organization stands.
    """
    last, n = standing.report.round, Settings.from_json(standing.settings).rounds
    if round <= last:
        raise ValueError(f"round {round} is over: {own.name!r} has answered round {last}")
    if round > n + 1:  # the one after the last tells what was learned in it
        spent = "" if standing.budget is None else "the privacy budget is spent: "
        raise ValueError(
            f"{spent}round {round} is past the end that {own.name!r} agreed on, {n} rounds. Begin "
            "a training of more rounds"
        )


def check_holder(own: Holdings, settings: Settings) -> None:
    """What labels say is told by the one organization that was chosen for it.

    Parameters
    ----------
    own : Holdings
        Of the organization.
    settings : Settings
        Of the federation.
    """
    if settings.label_holder != own.name:
        raise ValueError(
            f"{own.name!r} is asked for what labels say, but label_holder is "
            f"{settings.label_holder!r}"
        )


def check_finite(learner: Learner) -> None:
    """Refuse steps after which nothing could be learned any more.

    Parameters
    ----------
    learner : Learner
        After them; where it was before is in its file.
    """
    if not all(bool(p.isfinite().all()) for p in learner.network.parameters()):
        raise ValueError("what it tells leads to weights that are not finite")
