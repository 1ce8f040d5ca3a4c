"""Tables of ``docs/federated.md``, from the records of the benchmarks."""

from __future__ import annotations

from statistics import median, stdev
from typing import Any

from speed_tables import table

Record = dict[str, Any]
FAULTS = {
    "nan": "sends NaN",
    "shape": "sends arrays of another shape",
    "older": "sends its answer of an older round",
    "garbage": "sends bytes that are no message",
    "error": "has an error of its own",
    "killed": "is killed while it works",
    "late": "is late",
}
SETTINGS = {"rounds": "rounds", "local_steps": "local steps", "quantiles": "quantiles"}


def _accuracy(row: Record) -> str:
    found = row["accuracies"]
    spread = f" ± {100 * stdev(found):.1f}" if len(found) > 1 else ""
    return f"{100 * row['mean']:.1f}{spread}"


def _bytes(row: Record) -> str:
    return f"{row['bytes'] / 1000:.1f}" if "bytes" in row else "–"


def _of(record: Record, group: str) -> list[Record]:
    return [row for row in record["cpu"]["rows"] if row["group"] == group]


def ways(record: Record) -> str:
    """Ways to train: accuracy, bytes and seconds."""
    rows = []
    for row in _of(record, "ways"):
        seconds = f"{row['seconds_per_round']:.2f}" if "seconds_per_round" in row else "–"
        rows.append([row["name"], _accuracy(row), _bytes(row), seconds])
    return table(["", "accuracy, %", "largest message, kB", "seconds a round, in process"], rows)


def settings(record: Record) -> str:
    """Rounds, local steps and quantiles, the others as usual."""
    (usual,) = (row for row in _of(record, "ways") if row["name"] == "federated")
    rows = []
    for group, title in SETTINGS.items():
        found = [(int(row["name"]), row) for row in _of(record, group)]
        found.append((int(record["cpu"]["usual"][group]), usual))
        for n, row in sorted(found, key=lambda pair: pair[0]):
            mark = " (usual)" if row is usual else ""
            rows.append([f"{title}: {n}{mark}", _accuracy(row), _bytes(row)])
    return table(["", "accuracy, %", "largest message, kB"], rows)


def epsilon(record: Record) -> str:
    """Accuracy against ε of all rounds together."""
    (usual,) = (row for row in _of(record, "ways") if row["name"] == "federated")
    (control,) = (
        row for row in _of(record, "ways") if row["name"] == "federated, without coupling"
    )
    rows = []
    for row in _of(record, "epsilon"):
        told = row["privacy"]
        rows.append([f"{told['epsilon']:.2f}", f"{told['delta']:g}", _accuracy(row)])
    rows += [["no noise", "", _accuracy(usual)], ["without coupling", "", _accuracy(control)]]
    return table(["ε", "δ", "accuracy, %"], rows)


def flower(record: Record) -> str:
    """Seconds of a round through Flower, and in one process."""
    told = record["cpu"]["sample"]
    rounds = told["seconds_by_round"]
    rows = [
        ["seconds a round, through Flower (median)", f"{median(rounds):.1f}"],
        ["seconds a round, in one process", f"{told['in_process_seconds_a_round']:.2f}"],
        [f"seconds of {told['rounds']} rounds, with beginning and end", f"{told['seconds']:.0f}"],
        ["largest message, kB", f"{told['largest_message'] / 1000:.1f}"],
    ]
    return table(["three organizations, labels with one of them", ""], rows)


def faults(record: Record) -> str:
    """Faults in real processes, and the line of the log."""
    rows = []
    for one in record["cpu"]["failing"]["faults"]:
        name, round = one["who"].split()
        why = "**not noticed**" if one["reason"] is None else f"`{one['reason']}`"
        rows.append([f"`{name}` {FAULTS[one['fault']]}", round, why])
    header = "| what happens | round | left out of it, because |\n|---|--:|---|"
    return "\n".join([header, *("| " + " | ".join(cells) + " |" for cells in rows)])


TABLES = {
    "federated-ways": ("bench/federated.json", ways),
    "federated-settings": ("bench/federated.json", settings),
    "federated-epsilon": ("bench/federated.json", epsilon),
    "federated-flower": ("bench/federated_flower.json", flower),
    "federated-faults": ("bench/federated_flower.json", faults),
}
