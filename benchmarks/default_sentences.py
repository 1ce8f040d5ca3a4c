"""Sentences about the default, from ``results/default``."""

from __future__ import annotations

import json
import re
from collections import Counter
from statistics import mean
from typing import Any

import parts_tables
import situation_tables
from evidence import (
    LABELS,
    SIMPLE,
    VERDICT,
    Evidence,
    accuracies,
    best_simple,
    by_verdict,
    count,
    count_sides,
    listed,
    same_splits,
    sentence,
    side,
    signed,
    values,
    written,
)

from paper.statistics import Difference

SEMI = "semi-supervised"
#: short names of the rows of the table of situations
SITUATIONS = {
    "A": "all views at hand",
    "B": "one view at hand",
    "C": "a view without labels",
    "D": "nobody linked",
    "E": "rows with some of the views",
    "F, 0.45": "unequal classes",
    "F, 95 to 5": "two classes, 95 to 5",
    "G": "more labels",
    "H, other table": "labels in another table with another class mix",
    "H, both tables": "two tables with different class mixes",
}


def _default_gains(evidence: Evidence) -> dict[str, Difference]:
    """The default over the best simple method, by dataset."""
    found = accuracies(evidence.read("default/accuracy.jsonl"))
    gains = {}
    for (dataset, _), methods in found.items():
        best = best_simple(methods)
        pair = [[100 * x for x in x_s] for x_s in same_splits(methods, "default", best)]
        gains[LABELS[dataset]] = evidence.compare(f"default − {best}, {LABELS[dataset]}", *pair)
    return gains


def _synthetic_gain(evidence: Evidence) -> tuple[str, Difference]:
    where = ("synthetic", "synthetic")
    simple = {m: evidence.scores(*where, m, "-", SEMI) for m in SIMPLE}
    best = max(simple, key=lambda name: mean(simple[name]))
    ours = evidence.scores(*where, "hotview default", "robust", SEMI)
    return best, evidence.compare(f"default − {best}, synthetic", ours, simple[best], 0.0)


@sentence
def default_simple(evidence: Evidence) -> str:
    """With few labels, beside the best simple method."""
    gains = _default_gains(evidence)
    best, gain = _synthetic_gain(evidence)
    return (
        f"Beside the best of three simple methods, with 5 % linked labels, the default is "
        f"{by_verdict(gains)}. On synthetic views, which are not in that table, the default before "
        f"its super learner is {VERDICT[side(gain)]} {best} ({written(gain)})."
    )


@sentence
def default_losses(evidence: Evidence) -> str:
    """Where a simple method has the higher mean."""
    gains = _default_gains(evidence)
    behind = [f"{k} ({written(d)})" for k, d in gains.items() if d.mean < 0]
    _, gain = _synthetic_gain(evidence)
    if gain.mean < 0:
        behind.append(f"synthetic views ({written(gain)}, before the super learner)")
    sure = [k for k, d in gains.items() if side(d) == "above"]
    low = f"A simple method has the higher mean on {listed(behind)}. " if behind else ""
    ahead = f"only on {listed(sure)}" if sure else "on none of the datasets"
    ahead = "on all of these datasets" if len(sure) == len(gains) else ahead
    return f"{low}The interval of what the default gains lies above 0 {ahead}."


@sentence
def calibration_of_few(evidence: Evidence) -> str:
    """Calibration errors of all methods on scGEM and MSRC-v1."""
    found = accuracies(evidence.read("default/accuracy.jsonl"))
    parts = []
    for dataset in ("scgem", "msrc"):
        methods = found[dataset, 0.05]
        errors = {name: 100 * mean(values(methods[name], "ece")) for name in (*SIMPLE, "default")}
        for name, error in errors.items():
            evidence.note(f"calibration error, {dataset}, {name}", f"{error:.2f}")
        low, high = min(errors.values()), max(errors.values())
        parts.append(f"from {low:.1f} to {high:.1f} points on {LABELS[dataset]}")
    return f"calibration errors of the default and the simple methods are {listed(parts)}"


@sentence
def situations(evidence: Evidence) -> str:
    """Where the default is ahead of the best simple tool, on average over cells."""
    evidence.read("default/situations.jsonl")
    evidence.read("default/situation_weights.jsonl")
    found = _situation_gains(evidence)
    by_side = {s: [SITUATIONS[k] for k, d in found.items() if side(d) == s] for s in VERDICT}
    low = [f"{SITUATIONS[k]}, {signed(d.mean)}" for k, d in found.items() if d.mean < 0]
    parts = [f"lies above 0 in {len(by_side['above'])} of {len(found)} rows"]
    if by_side["around"]:
        parts.append(f"holds 0 in {len(by_side['around'])} ({'; '.join(by_side['around'])})")
    if by_side["below"]:
        parts.append(f"lies below 0 in {len(by_side['below'])} ({'; '.join(by_side['below'])})")
    tail = f" The mean is negative in {len(low)} ({'; '.join(low)})." if low else ""
    return f"The interval of the mean difference {listed(parts)}.{tail}"


def _situation_gains(evidence: Evidence) -> dict[str, Difference]:
    found = {}
    for situation in SITUATIONS:
        gains = situation_tables.gains(situation)
        name = f"default − best simple tool, {situation}"
        found[situation] = evidence.compare(name, gains, [0.0] * len(gains))
    return found


@sentence
def simple_tools_ahead(evidence: Evidence) -> str:
    """For the guide: where the best simple tool is ahead on average."""
    evidence.read("default/situations.jsonl")
    found = _situation_gains(evidence)
    low = [SITUATIONS[k] for k, d in found.items() if d.mean < 0]
    level = [SITUATIONS[k] for k, d in found.items() if d.mean >= 0 and side(d) == "around"]
    first = (
        f"the best simple tool has the higher mean with {listed(low)}"
        if low
        else ("the best simple tool has the higher mean in none")
    )
    second = f"; with {listed(level)} the two are level" if level else ""
    few, many = found["A"].mean, found["G"].mean
    third = (
        f"; with 20 or 50 % labels the default is ahead by {many:.1f} points, with 5 % by {few:.1f}"
    )
    return f"{first}{second}{third}"


@sentence
def handwritten_all_views(evidence: Evidence) -> str:
    """Situation A on Handwritten."""
    evidence.read("default/situations.jsonl")
    gains = situation_tables.gain_in("A", "handwritten")
    found = evidence.compare(
        "default − best simple tool, A, handwritten", gains, [0.0] * len(gains)
    )
    return (
        f"On Handwritten with all views (A) the default is {VERDICT[side(found)]} the best simple "
        f"tool ({written(found)})"
    )


@sentence
def reduction_on_fresh_data(evidence: Evidence) -> str:
    """What the reduction of columns gains on data that did not choose it."""
    lines = [json.loads(x) for x in evidence.read("default/reduced_views.jsonl").splitlines()]
    gaps = {}
    for dataset in ("snareseq", "msrc_v1", "scgem"):
        pair = [
            [100 * x["accuracy"] for x in lines if (x["dataset"], x["method"]) == (dataset, method)]
            for method in ("default", "as before: every column standardized")
        ]
        gaps[dataset] = evidence.compare(f"default − standardized, {dataset}", *pair)
    level = [name for name, d in gaps.items() if side(d) == "around"]
    if len(level) == len(gaps):
        return "their intervals hold 0"
    return f"the intervals of {listed([n for n in gaps if n not in level])} do not hold 0"


@sentence
def unlabeled_view(evidence: Evidence) -> str:
    """A view without labels, beside label propagation and a plain network."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in map(json.loads, evidence.read("default/unlabeled_view.jsonl").splitlines()):
        key = tuple(line[k] for k in ("dataset", "from", "to", "linked"))
        cases.setdefault(key, []).append(line)
    gaps, plain = {}, {}
    for key, trials in cases.items():
        ours, simple, network = (
            [100 * t[k] for t in trials] for k in ("default", "label propagation", "plain network")
        )
        name = " ".join(map(str, key))
        gaps[key] = evidence.compare(f"default − label propagation, {name}", ours, simple)
        plain[key] = evidence.compare(f"default − plain network, {name}", ours, network)
    sides, low = count_sides(gaps.values()), min(d.mean for d in gaps.values())
    high = max(d.mean for d in gaps.values())
    behind = sum(d.mean < 0 for d in plain.values())
    level = Counter(LABELS[key[0]] for key, d in gaps.items() if side(d) == "around")
    where = f" ({listed(f'{n} of {name}' for name, n in level.items())})" if level else ""
    below = f", and lies below it in {sides['below']}" if sides["below"] else ""
    network = "has the lower mean in all" if behind == 0 else f"has the higher mean in {behind}"
    return (
        f"The default differs from label propagation by {signed(low)} to {signed(high)} "
        f"points; the "
        f"interval lies above 0 in {sides['above']} of {len(gaps)} cases, holds it in "
        f"{sides['around']}{where}{below}. The plain network, trained through the linked rows, "
        f"{network}."
    )


@sentence
def few_links(evidence: Evidence) -> str:
    """How few linked rows sufficed."""
    cases: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for line in map(json.loads, evidence.read("default/unlabeled_view.jsonl").splitlines()):
        if line["linked"] <= 20:
            key = tuple(line[k] for k in ("dataset", "from", "to", "linked"))
            cases.setdefault(key, []).append(line)
    higher, sure = 0, 0
    for key, trials in cases.items():
        ours, simple = ([100 * t[k] for t in trials] for k in ("default", "label propagation"))
        found = evidence.compare(" ".join(map(str, key)), ours, simple)
        higher, sure = higher + (found.mean > 0), sure + (found.low > 0)
    n = len(cases)
    return (
        f"with eight to twenty in all, the default had a higher mean accuracy than label "
        f"propagation "
        f"in {count(higher, n)} of our settings, by more than chance in {sure}"
    )


@sentence
def gromov_wasserstein(evidence: Evidence) -> str:
    """Alignment without links, and whether its own cost knows."""
    datasets = json.loads(evidence.read("default/without_links.json"))["datasets"]
    parts = []
    for name in ("snareseq", "scgem"):
        found = [
            (mean(one["accuracy"].values()), one["cost"])
            for one in datasets[name]["gromov_wasserstein"]
        ]
        for accuracy, cost in found:
            evidence.note(f"{name}, cost {cost:.4f}", f"{100 * accuracy:.1f}")
        best, chosen = max(found), min(found, key=lambda pair: pair[1])
        own = (
            "and its own cost prefers that setting"
            if best == chosen
            else (f"but {100 * chosen[0]:.0f} % with the one that its own cost prefers")
        )
        parts.append(
            f"the class of {100 * best[0]:.0f} % of the cells of {LABELS[name]} with its best "
            f"setting, {own}"
        )
    return f"Gromov–Wasserstein transport (POT) finds {listed(parts)}"


@sentence
def parts(evidence: Evidence) -> str:
    """How often chance alone says of a part that it stays."""
    text = parts_tables.chance(evidence.read(parts_tables.RECORD))
    evidence.note("another seed", ", ".join(re.findall(r"\d+", text)))
    return text


@sentence
def transport_with_labels(evidence: Evidence) -> str:
    """What the coupling adds to the accuracy where all views have labels."""
    text = evidence.read(parts_tables.RECORD)
    found = parts_tables.summarize(parts_tables.differences(text, "no coupling"))
    gaps = {s: x for (s, what), x in found.items() if what == "accuracy" and s in "ABDEFG"}
    for situation, (value, half) in gaps.items():
        interval = f"{100 * value:+.2f} [{100 * (value - half):+.2f}, {100 * (value + half):+.2f}]"
        evidence.note(f"default - coupling='none', {situation}", interval)
    largest = 100 * max(abs(value) for value, _ in gaps.values())
    above = sum(value > half for value, half in gaps.values())
    return (
        f"where all views have labels, it changes the mean accuracy by at most {largest:.1f} "
        f"points in {len(gaps)} situations, and the interval lies above 0 in {above or 'none'}"
    )


@sentence
def parts_in_c(evidence: Evidence) -> str:
    """Parts without which a view without labels is less overconfident."""
    text = evidence.read(parts_tables.RECORD)
    told = []
    for part in parts_tables.names(text):
        found = parts_tables.summarize(parts_tables.differences(text, part))
        value, half = (100 * x for x in found["C", "calibration_error"])
        if value < -half and value < -1:
            told.append(f"*{part}* ({value:+.1f} [{value - half:+.1f}, {value + half:+.1f}])")
            evidence.note(f"calibration error in C, {part}", told[-1])
    return (
        "In situation C, in which the probabilities are furthest from calibrated, the calibration "
        f"error is lower by more than a point with {listed(told)}."
    ).replace("-", "−")
