"""Output of ``hotview federated simulate``: tables and results, as text and as JSON."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotview.federated import Client, FederatedResult, Settings
from hotview.report.tables import matrix_table

__all__ = ["describe_clients", "describe_outcome", "print_clients", "print_outcome"]

_TIE = 0.05  # the default of Plan.view_labels
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False}


def describe_clients(clients: Mapping[str, Client], settings: Settings) -> dict[str, Any]:
    """Return a description of the clients' tables.

    Parameters
    ----------
    clients : dict of str to Client
        Clients by name.
    settings : Settings
        Settings of the training.

    Returns
    -------
    dict
        Values that JSON can represent.
    """
    return {
        "organizations": [
            {
                "name": name,
                "rows": client.data.table.n_rows,
                "columns": client.data.table.n_columns,
                "linked": len(client.data.linked),
                "labeled": sum(label is not None for label in client.data.labels.tolist()),
                "epsilon": None if client.privacy is None else client.privacy.epsilon,
            }
            for name, client in clients.items()
        ],
        "settings": settings.to_json(),
    }


def describe_outcome(
    result: FederatedResult,
    settings: Settings,
    largest: Mapping[str, Mapping[str, int]],
    total: Mapping[str, int],
) -> dict[str, Any]:
    """Return a description of a result.

    Parameters
    ----------
    result : FederatedResult
        The result.
    settings : Settings
        Settings of the training.
    largest : dict of str to dict of str to int
        Bytes of the largest message to and from every client.
    total : dict of str to int
        Bytes of all messages of every client.

    Returns
    -------
    dict
        Values that JSON can represent.
    """
    return {
        "rounds": len(result.rows),
        "history": result.rows,
        "plan": result.plan,
        "bytes": {name: {**largest[name], "total": total[name]} for name in result.names},
        "dropped": result.dropped,
        "privacy": result.privacy,
        "finished": result.finished,
    }


def _client_table(title: str, headings: Sequence[str], rows: Mapping[str, Sequence[str]]) -> Table:
    """Return a table with one row per client."""
    table = Table("organization", title=title, title_justify="left", title_style="bold")
    for heading in headings:
        table.add_column(heading, justify="right")
    for name, cells in rows.items():
        table.add_row(escape(name), *cells)
    return table


def print_clients(facts: Mapping[str, Any], console: Console) -> None:
    """Print the description of the clients' tables.

    Parameters
    ----------
    facts : dict
        The output of `describe_clients`.
    console : Console
        The console.
    """
    clients = facts["organizations"]
    headings = ["rows", "columns", "linked", "labeled"]
    if any(client["epsilon"] is not None for client in clients):
        headings.append("epsilon")
    rows = {
        client["name"]: ["" if client[k] is None else f"{client[k]:,.10g}" for k in headings]
        for client in clients
    }
    console.print(_client_table("Tables", headings, rows), soft_wrap=False)
    holder = facts["settings"]["label_holder"]
    console.print(
        f"Labels are those of {holder}; other views are trained with them over linked rows."
        if holder
        else "No label holder: the views are encoded, and nothing is predicted.",
        **_PLAIN,
    )
    if "epsilon" in headings:
        console.print("The noise is calibrated first, for seconds per organization.", **_PLAIN)


def print_outcome(facts: Mapping[str, Any], console: Console) -> None:
    """Print the description of a result.

    Parameters
    ----------
    facts : dict
        The outputs of `describe_clients` and `describe_outcome`, ``seconds``, ``parts``,
        ``interrupted`` and ``resume``, the command that resumes the training.
    console : Console
        The console.
    """
    plan, settings = facts["plan"], facts["settings"]
    if plan is not None:
        W, names = np.array(plan["W"]), plan["names"]
        pairwise = settings["coupling"] == "hot-pairwise"
        columns = names if pairwise else [f"group {k}" for k in range(W.shape[1])]
        table = matrix_table(W * len(W), names, columns, title="Plan W, rows adding up to 1")
        console.print(table, soft_wrap=False)
    headings = ("largest message to it", "largest from it", "all messages")
    rows = {
        name: [f"{sizes[key]:,}" for key in ("to", "from", "total")]
        for name, sizes in facts["bytes"].items()
    }
    console.print(_client_table("Traffic, in bytes", headings, rows), soft_wrap=False)
    lines = [
        f"{facts['rounds']} of {settings['rounds']} rounds, {settings['local_steps']} local steps "
        f"in each, {facts['seconds']:.0f} s."
    ]
    lines += [
        f"{name}: its projections are ({p['epsilon']:.3g}, {p['delta']:g})-differentially private."
        for name, p in facts["privacy"].items()
    ]
    lines += _dropped_lines(facts["dropped"])
    if facts["interrupted"]:
        lines.append(f"Stopped by Ctrl-C, after a complete round. Go on: {facts['resume']}")
    else:
        lines += [f"Part saved to {path}" for path in facts["parts"].values()]
        if facts["parts"]:
            parts = shlex.join(facts["parts"].values())
            lines.append(f"Next: hotview federated join {parts} -o joint.hotview")
    for line in lines:
        console.print(line, **_PLAIN)


def _dropped_lines(dropped: list[dict[str, Any]]) -> list[str]:
    if not dropped:
        return ["No organization was left out of a round."]
    rounds: dict[tuple[str, str], list[str]] = {}
    for drop in dropped:
        rounds.setdefault((drop["name"], drop["reason"]), []).append(str(drop["round"]))
    return [
        f"{name} was left out of round {', '.join(numbers)}: {reason}"
        for (name, reason), numbers in rounds.items()
    ]
