"""What the templates of the page need: their environment, marks, and sentences on a record."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from hotview.evaluation.metrics import Difference
from hotview.evaluation.record import Record
from hotview.evaluation.scores import MAJORITY, BaselineScore
from hotview.report.canvas import view_style
from hotview.report.tables import ABSENT, format_interval, number, percent, points, signed
from hotview.similarity.view_similarity import SIGNIFICANT

NOT_RECORDED = "not recorded"
#: Corners of the marks that are not circles, in half widths.
_CORNERS = {
    "diamond": ((0, -1), (1, 0), (0, 1), (-1, 0)),
    "square": ((-1, -1), (1, -1), (1, 1), (-1, 1)),
    "triangle": ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
}


def count(n: int, singular: str, plural: str | None = None) -> str:
    """Return a number with its noun."""
    return f"{n:,} {singular if n == 1 else plural or f'{singular}s'}"


def unbroken(text: str) -> str:
    """Return a sentence in which no line ends inside a percentage or a p-value."""
    for part in (" %", "p = ", "p ≤ "):
        text = text.replace(part, part.replace(" ", "\N{NO-BREAK SPACE}"))
    return text


def describe_training(record: Record) -> Markup:
    """Return what was trained, on which rows and for how long."""
    model, task = record.model, "learned a common space without labels"
    if record.kind == "MultiViewClassifier":
        task = f"learned {count(len(record.classes), 'class', 'classes')}"
    names = [Markup("<em>{}</em>").format(name) for name in record.views]
    views = Markup(" and ").join(filter(None, (Markup(", ").join(names[:-1]), names[-1])))
    sentence = Markup("A <code>{}</code> {} from {}, {}. ").format(
        record.kind, task, count(len(names), "view"), views
    )
    trained_on = model.trained_on_
    if not trained_on:
        return sentence + "The number of training rows is not recorded."
    sentence += _describe_rows(trained_on)
    if "seconds" in trained_on:
        members = count(len(model.networks_), "network") if any(model.histories_) else "it"
        device = trained_on.get("device", "an unknown device")
        sentence += f" Training {members} took {trained_on['seconds']:,.1f} seconds on {device}."
    return sentence


def _describe_rows(trained_on: dict[str, Any]) -> str:
    parts = []
    if trained_on.get("linked"):
        n_labeled = trained_on.get("linked_labeled", 0)
        n_text = "all" if n_labeled == trained_on["linked"] else f"{n_labeled:,}"
        labeled = f" ({n_text} of them labeled)" if trained_on.get("classes") else ""
        parts.append(f"{count(trained_on['linked'], 'linked row')}{labeled}")
    if sizes := list((trained_on.get("unaligned") or {}).values()):
        low, high = min(sizes), max(sizes)
        size = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        where = "in each view" if len(sizes) > 1 else "in one view"
        labels = trained_on.get("unaligned_labeled") or {}
        n = sum(labels.values()) if isinstance(labels, dict) else int(labels)
        labeled = f" ({n:,} labels in total)" if n else ""
        parts.append(f"{size} unlinked rows {where}{labeled}")
    return f"It was trained on {' and '.join(parts)}." if parts else ""


def describe_accuracy(record: Record) -> Markup:
    """Return the accuracy and its interval; empty without scores."""
    if record.scores is None:
        return Markup("")
    accuracy = record.scores.accuracy
    rows = "training rows" if record.seen else "rows with a known class"
    sentence = Markup(
        "Of {:,} {}, it predicts <strong>{}</strong> correctly (95 % interval {}). "
    ).format(accuracy.n, rows, percent(accuracy.value), format_interval(accuracy))
    metrics = record.scores.metrics
    sentence += Markup("Always predicting the most frequent class, <em>{}</em>, gets {}. ").format(
        metrics.majority_class, percent(metrics.majority.value)
    )
    if record.seen:
        sentence += Markup(
            "<strong>These rows were in training: these metrics are optimistically biased. "
            "</strong>"
        )
    return sentence + (
        "The interval covers the sampling of rows like these; it does not cover another training "
        "or rows of another distribution."
    )


def describe_shapes(model: Any) -> str:
    """Return what the costs between views before training are, and whether they differ by chance.

    With three views or fewer, no pair can be closer than by chance.
    """
    text = (
        "Cost of transport between the principal components of two views: how differently their "
        "rows are distributed. The stronger the color, the less alike. Shapes are compared, not "
        "individuals."
    )
    null = model.plan_.null if model.plan_ else None
    if null is None or len(model.view_names_) < 4:
        return text
    n = len(null.W)
    n_like = round(null.p_value * (n + 1)) - 1
    verdict = "Some views are closer than others"
    if null.p_value > SIGNIFICANT:
        verdict = "That some are closer than others may be chance"
    return unbroken(
        f"{text} {verdict}: of {n} copies of the tables with shuffled "
        f"columns, {n_like or 'none'} {'shows' if n_like <= 1 else 'show'} this as clearly "
        f"(p = {null.p_value:.2f})."
    )


def describe_baseline(baseline: BaselineScore) -> str:
    """Return whether the accuracies of the model and a baseline differ significantly."""
    difference = baseline.difference
    if difference is None:
        return f"not compared: {baseline.reason}"
    if difference.low <= 0 <= difference.high:
        return "no significant difference"
    return "the model is better" if difference.low > 0 else "the model is worse"


def describe_comparison(baselines: Sequence[BaselineScore]) -> list[str]:
    """Return sentences if the majority class, or the best of the other baselines, is as good.

    Examples
    --------
    >>> from hotview.evaluation.metrics import Difference, Proportion
    >>> from hotview.evaluation.scores import BaselineScore
    >>> from hotview.report.page.sentences import describe_comparison
    >>> worse = Difference(-0.1, 0.02, -0.14, -0.06, 99)
    >>> score = BaselineScore("logistic regression", Proportion(0.95, 0.9, 0.98, 99), worse)
    >>> describe_comparison([score])[0].partition(":")[0]
    'Logistic regression is better'
    """
    scored = [
        (b.name, b.accuracy.value, b.difference)
        for b in baselines
        if b.accuracy is not None and b.difference is not None
    ]
    sentences = [_describe_majority(x, d) for name, x, d in scored if name == MAJORITY]
    others = [score for score in scored if score[0] != MAJORITY]
    if others:
        sentences.append(_describe_best(*min(others, key=lambda score: score[2].value)))
    return [sentence for sentence in sentences if sentence]


def _describe_majority(accuracy: float, d: Difference) -> str:
    """Return that the model is not better than the majority class; nothing if it is."""
    if d.low > 0:
        return ""
    result = "no better" if d.value <= 0 else "not significantly better"
    return (
        f"In accuracy, the model is {result} than always predicting the most frequent class: "
        f"{percent(accuracy + d.value)} against {percent(accuracy)} ({_describe_difference(d)})."
    )


def _describe_best(name: str, accuracy: float, d: Difference) -> str:
    """Return that a baseline is better or as good; nothing if the model is better."""
    if d.value > 0:
        return ""
    result, advice = "as good", "It may be all that is needed."
    if d.high < 0:
        result, advice = "better", "For rows like these, use it."
    return (
        f"{name[0].upper()}{name[1:]} is {result}: {percent(accuracy)} against "
        f"{percent(accuracy + d.value)} ({_describe_difference(d)}). {advice}"
    )


def _describe_difference(d: Difference) -> str:
    return f"difference {signed(100 * d.value)} points, 95 % interval {format_interval(d)}"


def render(template: str, **data: Any) -> Markup:
    """Render a template of the page; text in `data` is escaped unless it is Markup.

    Parameters
    ----------
    template : str
        File name of the template.
    **data : Any
        Variables of the template.

    Returns
    -------
    Markup
        HTML or SVG.

    Examples
    --------
    >>> from hotview.report.page.sentences import render
    >>> render("view_graph.svg", size=(9, 9), label="<a>", edges=[], nodes=[], arcs=[]).strip()
    Markup('<svg viewBox="0 0 9 9" role="img" aria-label="&lt;a&gt;" class="chart"></svg>')
    """
    return Markup(_environment().get_template(template).render(data))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("hotview.report.page"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shorten_float,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.policies["json.dumps_kwargs"] = {"separators": (",", ":")}
    environment.filters |= {
        "interval": format_interval,
        "interval_below": interval_below,
        "is_finite": math.isfinite,
        "number": number,
        "percent": percent,
        "points": points,
        "short": lambda x: ABSENT if math.isnan(x) else f"{x:.4g}",
        "signed_points": lambda x: signed(100 * x),
        "thousands": "{:,}".format,
        "unbroken": unbroken,
    }
    environment.globals |= {
        "describe_baseline": describe_baseline,
        "mark_path": mark_path,
        "shorten": shorten,
        "view_style": view_style,
    }
    return environment


def interval_below(cell: str) -> str | Markup:
    """Return a number with the interval that follows it in parentheses on a line of its own."""
    value, parenthesis, interval = cell.rpartition(" (")
    if not parenthesis:
        return cell
    return Markup("{} <small>({}</small>").format(value, interval)


def shorten_float(value: Any) -> Any:
    """Return a coordinate with at most two decimals, the same on every machine."""
    if isinstance(value, float):
        return f"{value:.2f}".rstrip("0").rstrip(".")
    return value


def mark_path(shape: str, x: float, y: float, size: float) -> str:
    """Return the outline of a mark around a point."""
    corners = [f"{x + size * a:.1f} {y + size * b:.1f}" for a, b in _CORNERS[shape]]
    return f"M{' L'.join(corners)}Z"


def shorten(text: str, n: int) -> str:
    """Return a name with its middle left out if it has more than n characters.

    Examples
    --------
    >>> from hotview.report.page.sentences import shorten
    >>> shorten("morphological", 6), shorten("pix", 6)
    ('mor…al', 'pix')
    """
    if len(text) <= n:
        return text
    end = (n - 1) // 2  # names often differ at their end
    return f"{text[: n - 1 - end]}…{text[-end:]}"
