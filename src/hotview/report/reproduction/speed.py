"""How long things took: the runs behind the page, and the records of the speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hotview.report.markdown import ABSENT, listed, number, section, table
from hotview.report.reproduction.parts import Part, join_parts
from hotview.report.reproduction.results import Results

__all__ = ["distances_part", "duration", "plain_tables", "speed_part"]


def duration(seconds: float) -> str:
    """Write a time as people say it.

    Parameters
    ----------
    seconds : float
        The time.

    Returns
    -------
    str
        In seconds, minutes or hours.

    Examples
    --------
    >>> from hotview.report.reproduction.speed import duration
    >>> duration(4.25), duration(75), duration(600), duration(9000)
    ('4.2 s', '75 s', '10 min', '2.5 h')
    """
    if seconds < 10:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


def speed_part(results: Results) -> Part:
    """Say how long the experiments took, on what, and what training many at once gains.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A table of runs, one of experiments, and the record of replicas if there is one.

    Examples
    --------
    >>> from hotview.report.reproduction.results import Results
    >>> from hotview.report.reproduction.speed import speed_part
    >>> speed_part(Results({})).text.splitlines()[-1]
    'No run was noted.'
    """
    replicas = results.benches.get("replicas")
    parts = [_runs(results.runs), _experiments(results)]
    if replicas:
        told = "\n\n".join(plain_tables(replicas))
        parts.append(section("Many trainings at once", told, level=3))
    return join_parts("How long it took", map(Part, parts))


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return "No run was noted."
    header = ["command", "date", "machine", "processes", "trainings", "plain methods", "time"]
    return table(header, map(_run, runs), words=3)


def _run(run: Mapping[str, Any]) -> list[str]:
    remarks = [f"{run.get('failed')} failed"] * bool(run.get("failed"))
    remarks += ["interrupted"] * bool(run.get("interrupted"))
    said = f" ({', '.join(remarks)})" if remarks else ""
    told = (run.get(key, ABSENT) for key in ("date", "device", "jobs", "trainings", "controls"))
    return [f"`{run.get('command', ABSENT)}`{said}", *map(str, told), _time(run)]


def _time(run: Mapping[str, Any]) -> str:
    return duration(run["seconds"]) if "seconds" in run else ABSENT


def _experiments(results: Results) -> str:
    """What is in the files, which may be from several runs."""
    rows = [
        [
            outcome.name,
            str(outcome.record.get("trainings", ABSENT)),
            duration(outcome.record.get("seconds_of_training", 0.0)),
            listed(outcome.record.get("devices", ())),
        ]
        for outcome in results.outcomes.values()
    ]
    if not rows:
        return ""
    words = (
        "Trainings by experiment, and the seconds of training in them added up; experiments share "
        "trainings, which were run once."
    )
    header = ["experiment", "trainings", "time of training", "machine"]
    return f"{words}\n\n{table(header, rows)}"


def distances_part(results: Results) -> Part:
    """Show what the costs C cost with several ground distances.

    Parameters
    ----------
    results : Results
        All results.

    Returns
    -------
    Part
        A table of times and one of slopes; nothing if it was not measured.

    Examples
    --------
    >>> from hotview.report.reproduction.results import Results
    >>> from hotview.report.reproduction.speed import distances_part
    >>> distances_part(Results({})).text
    ''
    """
    bench = results.benches.get("ground_distances")
    if not bench:
        return Part("")
    names = list(bench["contestants"])
    meaning = "; ".join(f"*{name}*: {words}" for name, words in bench["contestants"].items())
    times = table(["N, K, J", *names], (_case(case, names) for case in bench["cases"]))
    machine = bench.get("machine", {})
    words = (
        f"Milliseconds for C of {bench['n_views']} views and K references and the gradient of its "
        f"mean, N points of dimension {bench['dimension']} in each, one thread of "
        f"{machine.get('processor', 'a processor')}. {meaning}."
    )
    blocks = [words, times, _slopes(bench, names)]
    return join_parts("Ground distances: what the costs cost", map(Part, blocks))


def _case(case: Mapping[str, Any], names: Sequence[str]) -> list[str]:
    sizes = f"{case['n']}, {case['k']}, {case['j']}"
    return [sizes, *(f"{case['ms'][name]:.3g}" for name in names)]


def _slopes(bench: Mapping[str, Any], names: Sequence[str]) -> str:
    """Exponents of growth: the last doubling tells more than all, where overhead counts."""
    header = ["grows with the power", *names]
    rows = (
        [f"of {axis}, {words}", *(_slope(found["slope"].get(name), key) for name in names)]
        for axis, found in bench.get("slopes", {}).items()
        for key, words in (("all", "fitted to all"), ("last_two", "largest two"))
    )
    return table(header, rows)


def _slope(found: Mapping[str, float] | None, key: str) -> str:
    return ABSENT if found is None else number(found[key], 2)


def plain_tables(record: Mapping[str, Any]) -> Iterator[str]:
    """Lay out whatever a record of the speed holds: its lists of flat objects, as they are.

    Parameters
    ----------
    record : mapping
        The record.

    Yields
    ------
    str
        A table per list.

    Examples
    --------
    >>> from hotview.report.reproduction.speed import plain_tables
    >>> print(*plain_tables({"cases": [{"replicas": 20, "ms": 12.5}]}))
    | replicas | ms |
    |---|--:|
    | 20 | 12.5 |
    """
    for value in record.values():
        rows = value if isinstance(value, list) else []
        if rows and all(isinstance(row, Mapping) for row in rows):
            names = list(dict.fromkeys(name for row in rows for name in row))
            yield table(names, ([_plain(row.get(name)) for name in names] for row in rows))


def _plain(value: Any) -> str:
    if value is None:
        return ABSENT
    return f"{value:.4g}" if isinstance(value, float) else str(value)
