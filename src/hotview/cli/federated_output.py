"""What a simulated federation has, and what came of it, for people and for scripts."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import numpy as np
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from hotview.federated import Client, FederatedResult, Settings
from hotview.ot.plan import groups_of_pairs, groups_of_references
from hotview.report.tables import matrix_table

__all__ = ["describe_clients", "describe_outcome", "print_clients", "print_outcome"]

_TIE = 0.05  # as of Plan.view_labels
_PLAIN: dict[str, Any] = {"highlight": False, "markup": False}


def describe_clients(clients: Mapping[str, Client], settings: Settings) -> dict[str, Any]:
    """What every organization has, in plain values.

    Parameters
    ----------
    clients : dict of str to Client
        By name.
    settings : Settings
        How they will train.

    Returns
    -------
    dict
        That JSON can hold.
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
    joint: FederatedResult,
    settings: Settings,
    largest: Mapping[str, Mapping[str, int]],
    total: Mapping[str, int],
) -> dict[str, Any]:
    """What came of a training, in plain values.

    Parameters
    ----------
    joint : FederatedResult
        What the coordinator knows.
    settings : Settings
        How it was made.
    largest : dict of str to dict of str to int
        Bytes of the largest message to and from every organization.
    total : dict of str to int
        Bytes of all messages of each.

    Returns
    -------
    dict
        That JSON can hold.
    """
    return {
        "rounds": len(result.history),
        "history": list(result.history),
        "plan": _describe_plan(joint, settings),
        "bytes": {name: {**largest[name], "total": total[name]} for name in result.names},
        "dropped": result.dropped,
        "privacy": result.privacy,
        "finished": result.finished,
    }


def _describe_plan(joint: FederatedResult, settings: Settings) -> dict[str, Any] | None:
    if result.W is None or result.C is None:
        return None
    W = result.W.astype(np.float64)
    pairwise = settings.coupling == "hot-pairwise"
    found = groups_of_pairs(W, None, _TIE) if pairwise else groups_of_references(W, _TIE)
    names = np.array(result.present)
    groups = [names[found.labels == k].tolist() for k in np.unique(found.labels)]
    return {"names": result.present, "W": W.tolist(), "C": result.C.tolist(), "groups": groups}


def print_clients(facts: Mapping[str, Any], console: Console) -> None:
    """Print what every organization has.

    Parameters
    ----------
    facts : dict
        What `describe_clients` returned.
    console : Console
        Where to.
    """
    table = Table("organization", title="What was understood", title_justify="left")
    table.title_style = "bold"
    headings = ["rows", "columns", "linked", "labeled"]
    if any(one["epsilon"] is not None for one in facts["organizations"]):
        headings.append("epsilon")
    for heading in headings:
        table.add_column(heading, justify="right")
    for one in facts["organizations"]:
        cells = ("" if one[key] is None else f"{one[key]:,.10g}" for key in headings)
        table.add_row(escape(one["name"]), *cells)
    console.print(table, soft_wrap=False)
    holder = facts["settings"]["label_holder"]
    console.print(
        f"Labels are those of {holder}, from which others learn over linked rows."
        if holder
        else "No label holder: the views are encoded, and nothing is predicted.",
        **_PLAIN,
    )
    if "epsilon" in headings:
        console.print("The noise is chosen first, which takes seconds per organization.", **_PLAIN)


def print_outcome(facts: Mapping[str, Any], console: Console) -> None:
    """Print what came of a training.

    Parameters
    ----------
    facts : dict
        What `describe_clients` and `describe_outcome` returned, ``seconds``, ``parts`` and
        ``resume``, the command to go on with.
    console : Console
        Where to.
    """
    if facts["plan"] is not None:
        console.print(_plan_table(facts["plan"], facts["settings"]), soft_wrap=False)
    console.print(_traffic_table(facts), soft_wrap=False)
    for line in _lines(facts):
        console.print(line, **_PLAIN)


def _plan_table(plan: Mapping[str, Any], settings: Mapping[str, Any]) -> Table:
    W, names = np.array(plan["W"]), plan["names"]
    pairwise = settings["coupling"] == "hot-pairwise"
    columns = names if pairwise else [f"group {k}" for k in range(W.shape[1])]
    return matrix_table(W * len(W), names, columns, title="Plan W, rows adding up to 1")


def _traffic_table(facts: Mapping[str, Any]) -> Table:
    table = Table("organization", title="What crossed the wire, in bytes", title_justify="left")
    table.title_style = "bold"
    for heading in ("largest message to it", "largest from it", "all messages"):
        table.add_column(heading, justify="right")
    for name, sizes in facts["bytes"].items():
        cells = (f"{sizes[key]:,}" for key in ("to", "from", "total"))
        table.add_row(escape(name), *cells)
    return table


def _lines(facts: Mapping[str, Any]) -> list[str]:
    n, of = facts["rounds"], facts["settings"]["rounds"]
    steps = facts["settings"]["local_steps"]
    lines = [f"{n} of {of} rounds, {steps} steps at home in each, {facts['seconds']:.0f} s."]
    if facts["plan"] is not None:
        groups = "; ".join(", ".join(group) for group in facts["plan"]["groups"])
        lines.append(f"Groups of views by the plan: {groups}.")
    lines += [
        f"{name}: its projections are ({told['epsilon']:.3g}, {told['delta']:g})-differentially "
        "private."
        for name, told in facts["privacy"].items()
    ]
    lines += _dropped_lines(facts["dropped"])
    if facts["interrupted"]:
        return [*lines, f"Stopped by Ctrl-C, after a whole round. Go on: {facts['resume']}"]
    lines += [f"Part saved to {path}" for path in facts["parts"].values()]
    if facts["parts"]:
        parts = " ".join(shlex.quote(path) for path in facts["parts"].values())
        lines.append(f"Next: hotview federated join {parts} -o joint.hotview")
    return lines


def _dropped_lines(dropped: list[dict[str, Any]]) -> list[str]:
    if not dropped:
        return ["Nobody was left out of a round."]
    rounds: dict[tuple[str, str], list[str]] = {}
    for one in dropped:
        rounds.setdefault((one["name"], one["reason"]), []).append(str(one["round"]))
    return [
        f"{name} was left out of round {', '.join(which)}: {reason}"
        for (name, reason), which in rounds.items()
    ]
