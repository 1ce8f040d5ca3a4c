"""Durations of the runs behind the page, and records of the speed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from paper.markdown import ABSENT, listed, number, section, table
from paper.report.parts import Part, join_parts
from paper.report.results import Results

__all__ = ["distances_part", "duration", "replica_rows", "speed_part"]


def duration(seconds: float) -> str:
    """Format a duration.

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
    >>> from paper.report.speed import duration
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
    >>> from paper.report.results import Results
    >>> from paper.report.speed import speed_part
    >>> speed_part(Results({})).text.splitlines()[-1]
    'No run was noted.'
    """
    replicas = results.benches.get("replicas")
    parts = [_runs(results.runs), _experiments(results)]
    if replicas:
        parts.append(section("Many trainings at once", *_replicas(replicas), level=3))
    return join_parts("How long it took", map(Part, parts))


def _runs(runs: Sequence[Mapping[str, Any]]) -> str:
    if not runs:
        return "No run was noted."
    header = ["command", "date", "machine", "processes", "trainings", "plain methods", "time"]
    return table(header, map(_run, runs), words=3)


def _run(run: Mapping[str, Any]) -> list[str]:
    remarks = [f"{run.get('failed')} failed"] * bool(run.get("failed"))
    remarks += ["interrupted"] * bool(run.get("interrupted"))
    suffix = f" ({', '.join(remarks)})" if remarks else ""
    columns = (run.get(key, ABSENT) for key in ("date", "device", "jobs", "trainings", "controls"))
    return [f"`{run.get('command', ABSENT)}`{suffix}", *map(str, columns), _time(run)]


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
        "Trainings by experiment, and the time from data to model added up (on a GPU it includes "
        "the wait for a turn); experiments share "
        "trainings, which were run once."
    )
    header = ["experiment", "trainings", "time of training", "machine"]
    return f"{words}\n\n{table(header, rows)}"


def _replicas(record: Mapping[str, Any]) -> tuple[str, str]:
    words = (
        "Milliseconds per training of the paper's settings on Handwritten, semi-supervised, each "
        "on a split of its own; how many times faster than one after another."
    )
    header = ["machine", "training", "threads", "how", "ms, fit", "faster", "ms, steps", "faster"]
    return words, table(header, replica_rows(record), words=4)


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
    >>> from paper.report.results import Results
    >>> from paper.report.speed import distances_part
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
    """Exponents of growth, of all sizes and of the last doubling, where overhead is small."""
    header = ["grows with the power", *names]
    rows = (
        [f"of {axis}, {words}", *(_slope(found["slope"].get(name), key) for name in names)]
        for axis, found in bench.get("slopes", {}).items()
        for key, words in (("all", "fitted to all"), ("last_two", "largest two"))
    )
    return table(header, rows)


def _slope(found: Mapping[str, float] | None, key: str) -> str:
    return ABSENT if found is None else number(found[key], 2)


def replica_rows(record: Mapping[str, Any]) -> Iterator[list[str]]:
    """Lay out what training many at once gains over one after another.

    Parameters
    ----------
    record : mapping
        Device to its cases, as ``benchmarks/replicas.py`` writes them.

    Yields
    ------
    list of str
        Machine, training, threads, how; milliseconds per training and how many times faster it is
        than the first of the others, for the whole fit and for the steps alone.

    Examples
    --------
    >>> from paper.report.speed import replica_rows
    >>> took, times = {"fit": 0.5, "steps": 0.25}, {"fit": 2.0, "steps": 3.0}
    >>> case = {"training": "HOT (11)", "seconds_per_training": {"20 replicas": took}}
    >>> case |= {"threads": 1, "ratio": {"20 replicas": times}}
    >>> list(replica_rows({"cpu": {"machine": "2 cores", "cases": [case]}}))
    [['2 cores', 'HOT (11)', '1', '20 replicas', '500', '2.0×', '250', '3.0×']]
    """
    for part in record.values():
        for case in part.get("cases", ()):
            what = [part["machine"], case["training"], str(case["threads"])]
            for name, took in case["seconds_per_training"].items():
                faster = case["ratio"][name]
                yield [*what, name, *(t for key in took for t in _took(took[key], faster[key]))]


def _took(seconds: float, faster: float) -> tuple[str, str]:
    ms = 1000 * seconds
    return f"{ms:,.0f}" if ms >= 100 else f"{ms:.3g}", f"{number(faster)}×"
