"""Policy of a client: the requests that it refuses, whoever sends them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from hotview.federated.client_data import ClientData
from hotview.federated.client_state import ClientState
from hotview.federated.messages import Message
from hotview.federated.settings import Settings

__all__ = ["check_consent", "check_round", "check_start", "check_unchanged"]


def check_consent(data: ClientData, shares: Collection[str], settings: Settings) -> None:
    """Refuse settings that send data which the client has not consented to send, or lacks.

    Parameters
    ----------
    data : ClientData
        Data of the client.
    shares : collection of {"features", "labels"}
        Data of linked rows that it consents to send.
    settings : Settings
        Settings of the training, which are the server's.
    """
    is_holder = settings.label_holder == data.name
    if is_holder and not data.classes:
        raise ValueError(
            f"Expected {data.name!r} to hold the labels, but none of its rows has one. Name the "
            "column of labels: label_column."
        )
    requested = {"features"} if settings.share_features else set()
    if settings.share_labels and is_holder:
        requested |= {"labels"}
    if refused := sorted(requested - set(shares)):
        raise ValueError(
            f"{data.name!r} is asked to send {refused[0]} of linked rows, and has not consented. "
            f"Write share = {refused} into its configuration, or set share_{refused[0]} to false"
        )


def check_start(data: ClientData, message: Message) -> tuple[list[Any], list[str]]:
    """Refuse names without that of the client.

    Parameters
    ----------
    data : ClientData
        Data of the client.
    message : Message
        The request that starts a training.

    Returns
    -------
    classes : list
        Classes of the labels.
    names : list of str
        Names of all clients.
    """
    names: list[str] = message.metadata["names"]
    if data.name not in names:
        raise ValueError(
            f"Expected names of organizations with {data.name!r} among them, but it is not there"
        )
    return message.metadata["classes"], names


def check_unchanged(data: ClientData, budget: list[float] | None, state: ClientState) -> None:
    """Refuse to continue a training with another privacy budget or another table.

    Parameters
    ----------
    data : ClientData
        Data of the client.
    budget : list of float, or None
        ε and δ of the client; None without privacy.
    state : ClientState
        State of the training.
    """
    if state.budget != budget:
        then, now = (
            "without privacy" if x is None else "with epsilon = {} and delta = {}".format(*x)
            for x in (state.budget, budget)
        )
        raise ValueError(
            f"Expected {data.name!r} to continue as it began, {then}, but now it is {now}. Set it "
            "back, or begin the training anew."
        )
    if state.table_fingerprint != data.fingerprint:
        raise ValueError(
            f"Expected the table of {data.name!r} to stay as it was when the training began, but "
            "it has changed. Put it back, or begin the training anew."
        )


def check_round(data: ClientData, round: int, state: ClientState) -> None:
    """Refuse rounds that are over, or past the number that the noise is calibrated for.

    Parameters
    ----------
    data : ClientData
        Data of the client.
    round : int
        The requested round.
    state : ClientState
        State of the training.
    """
    last, n = state.request_round, Settings.from_json(state.settings).rounds
    if round <= last:
        raise ValueError(f"round {round} is over: {data.name!r} has answered round {last}")
    if round > n + 1:  # the round after the last trains once more, and sends no quantiles
        spent = "" if state.budget is None else "the privacy budget is spent: "
        raise ValueError(
            f"{spent}round {round} is past the end of the training of {data.name!r}, {n} rounds. "
            "Begin a training of more rounds"
        )
