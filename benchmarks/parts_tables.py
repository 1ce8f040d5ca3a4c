"""Tables of what the default is without each of its parts, from the record of `parts.py`.

A difference is the default against the same without the part, signed such that above 0 the part
helps: accuracy is higher; log loss, calibration error and the distance between confidence and
accuracy are lower. Differences are averaged over the cells and splits of a dataset, and the units
of means and 80 % intervals of Student are datasets.

The rule, which was fixed before the run: a part stays if in at least one of the eight situations
its difference in accuracy, log loss or calibration error has an interval above 0, or a mean above
0.3 points of accuracy, 0.01 of log loss or 0.5 points of calibration error; else it is deleted or
leaves the default. Of 24 intervals, some lie above 0 by chance: the control, another seed, shows
how many, and so do intervals below 0.
"""

from __future__ import annotations

import json
import math
from functools import cache
from statistics import mean
from typing import Any

from situation_data import SITUATIONS
from speed_tables import table

from paper.statistics import half_width

RECORD = "default/parts.jsonl"
CONTROL = "another seed"
LEVEL = 0.80
#: least mean difference that counts by itself
MARGINS = {"accuracy": 0.003, "log_loss": 0.01, "calibration_error": 0.005}
#: unit and digits
UNITS = {"accuracy": (100, 2), "log_loss": (1, 4), "calibration_error": (100, 2), "gap": (100, 2)}
TITLES = {
    "accuracy": "accuracy, points",
    "log_loss": "log loss",
    "calibration_error": "calibration error, points",
    "gap": "confidence less accuracy, points",
}
#: parts that stay for what they make, whatever they do to the scores
NEEDED = {"no coupling": "the plan", "no alignment": "the common space"}
#: parts by which something else than scores is to be judged, too
ELSEWHERE = {
    "no diffusion targets": "look at the common space, too",
    "all neighbors": "look at predictions and files, too",
}

#: situation → dataset → differences of all cells and splits, in the order of `UNITS`
Differences = dict[str, dict[str, list[tuple[float, ...]]]]


def _scores(line: dict[str, Any]) -> tuple[float, ...]:
    """What is better the higher it is."""
    gap = abs(line["confidence_minus_accuracy"])
    return line["accuracy"], -line["log_loss"], -line["calibration_error"], -gap


@cache
def _pairs(text: str) -> dict[str, list[tuple[dict[str, Any], dict[str, Any]]]]:
    """The default's lines and those without a part on the same cells and splits, by part."""
    lines = [line for line in map(json.loads, text.splitlines()) if "error" not in line]
    names = ("situation", "setting", "dataset", "trial", "cell")
    keys = [tuple(line[name] for name in names) for line in lines]
    default = {k: x for k, x in zip(keys, lines, strict=True) if x["part"] == "default"}
    found: dict[str, list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for key, line in zip(keys, lines, strict=True):
        if line["part"] != "default" and key in default:
            found.setdefault(line["part"], []).append((default[key], line))
    # The control comes first, then what loses most accuracy without it.
    order = {
        part: mean(a["accuracy"] - b["accuracy"] for a, b in pairs) for part, pairs in found.items()
    }
    parts = sorted(found, key=lambda part: (part != CONTROL, -order[part]))
    return {part: found[part] for part in parts}


def names(text: str) -> list[str]:
    """The parts that were turned off, the control first."""
    return list(_pairs(text))


def _situation(line: dict[str, Any]) -> str:
    """Its letter; models of A with one view at hand are B."""
    only_one = line["situation"] == "A" and line["cell"] != "all views"
    return "B" if only_one else line["situation"]


def differences(text: str, part: str, trial: int | None = None) -> Differences:
    """Differences of one part, of all splits or of one."""
    found: Differences = {}
    for ours, other in _pairs(text)[part]:
        if trial is None or other["trial"] == trial:
            both = zip(_scores(ours), _scores(other), strict=True)
            of_situation = found.setdefault(_situation(other), {})
            of_situation.setdefault(other["dataset"], []).append(tuple(a - b for a, b in both))
    return {letter: found[letter] for letter in SITUATIONS if letter in found}


def summarize(found: Differences) -> dict[tuple[str, str], tuple[float, float]]:
    """Mean and half width of the interval over datasets, by situation and measure."""
    summary = {}
    for situation, datasets in found.items():
        means = [[mean(column) for column in zip(*x, strict=True)] for x in datasets.values()]
        for measure, values in zip(UNITS, zip(*means, strict=True), strict=True):
            half = half_width(values, test_to_train=0.0, level=LEVEL)
            summary[situation, measure] = mean(values), half
    return summary


def gains(
    summary: dict[tuple[str, str], tuple[float, float]], sign: int = 1
) -> list[tuple[str, str]]:
    """Situations and measures by which a part stays; with a sign of −1, in which it harms."""
    return [
        (situation, measure)
        for (situation, measure), (value, half) in summary.items()
        if measure in MARGINS and (sign * value > half or sign * value > MARGINS[measure])
    ]


def _signed(x: float, measure: str) -> str:
    unit, digits = UNITS[measure]
    return f"{unit * x:+.{digits}f}".replace("-", "−")


def _with_interval(value: float, half: float, measure: str) -> str:
    if math.isinf(half):  # one dataset
        return _signed(value, measure)
    ends = ", ".join(_signed(value + sign * half, measure) for sign in (-1, 1))
    return f"{_signed(value, measure)} [{ends}]"


def _verdict(part: str, n_gains: int) -> str:
    if part == CONTROL:
        return "control: chance would say " + ("stays" if n_gains else "leaves")
    if part in NEEDED:
        return f"stays: it makes {NEEDED[part]}" + ("" if n_gains else " (by the rule: leaves)")
    verdict = "stays" if n_gains else "leaves"
    return f"{verdict}; {ELSEWHERE[part]}" if part in ELSEWHERE else verdict


def _seconds(text: str, part: str, what: str) -> str:
    """Time without the part over that of the default, mean over situations and datasets."""
    ratios: dict[str, dict[str, list[float]]] = {}
    for ours, other in _pairs(text)[part]:
        of_situation = ratios.setdefault(_situation(other), {})
        ratio = other[what] / max(ours[what], 1e-6)
        of_situation.setdefault(other["dataset"], []).append(ratio)
    return f"{mean(mean(map(mean, x.values())) for x in ratios.values()):.2f}×"


def parts(text: str) -> str:
    """One row per part: where it gains most, its means over situations, its time, the verdict."""
    header = ["turned off", *(f"largest gain: {TITLES[measure]}" for measure in MARGINS)]
    header += [f"mean: {title}" for title in TITLES.values()]
    header += ["time of a fit without", "of predictions", "gains / losses", "verdict"]
    rows = []
    for part in _pairs(text):
        summary = summarize(differences(text, part))
        row = [part]
        for measure in MARGINS:
            of_measure = {s: x for (s, name), x in summary.items() if name == measure}
            best = max(of_measure, key=lambda s: of_measure[s][0])
            row.append(f"{best}: {_with_interval(*of_measure[best], measure)}")
        for measure in UNITS:
            values = [value for (_, name), (value, _) in summary.items() if name == measure]
            row.append(_signed(mean(values), measure))
        row += [_seconds(text, part, what) for what in ("seconds", "seconds_predict")]
        found, harms = gains(summary), gains(summary, -1)
        rows.append([*row, f"{len(found)} / {len(harms)}", _verdict(part, len(found))])
    return table(header, rows)


def losses(text: str) -> str:
    """Where the default is better without a part, by the same rule with the sign turned."""
    rows = []
    for part in _pairs(text):
        summary = summarize(differences(text, part))
        for situation, measure in gains(summary, -1):
            value = _with_interval(*summary[situation, measure], measure)
            row = [part, f"{situation}: {SITUATIONS[situation]}", TITLES[measure], value]
            rows.append((part != CONTROL, row))
    header = ["turned off", "situation", "measure", "difference"]
    return table(header, [row for _, row in sorted(rows, key=lambda pair: pair[0])])


def chance(text: str) -> str:
    """How often the rule would say of another seed that it stays."""
    if CONTROL not in _pairs(text):
        return "No other seed was run."
    trials = sorted({line["trial"] for _, line in _pairs(text)[CONTROL]})
    summaries = [summarize(differences(text, CONTROL, t)) for t in (None, *trials)]
    counts = [[len(gains(summary, sign)) for sign in (1, -1)] for summary in summaries]
    n = sum(measure in MARGINS for _, measure in summaries[0])
    either = counts[0]
    alone = [count for pair in counts[1:] for count in pair]
    return (
        f"By chance alone: of {n} situations and measures, the rule holds in {either[0]} for the "
        f"default over another seed, and in {either[1]} the other way around. Of single splits, "
        f"either way, it says stays in {sum(x > 0 for x in alone)} of {len(alone)}, by "
        f"{min(alone)} to {max(alone)} of {n}."
    )


TABLES = {"parts-situations": (RECORD, parts)}
