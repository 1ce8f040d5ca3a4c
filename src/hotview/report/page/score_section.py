"""What a classifier gets right: by view, by class, by confidence, beside other methods."""

from __future__ import annotations

import math

import numpy as np

from hotview.evaluation.record.schema import NumberScore, Proportion, Record, Rival, Scores
from hotview.report.numbers import signed
from hotview.report.page.dot_plot import Dot, dot_plot
from hotview.report.page.heat_map import heat_map
from hotview.report.page.line_charts import calibration_chart, number_chart
from hotview.report.page.markup import Markup, numbers, table, tag
from hotview.report.page.sentences import count, interval, percent, points, say_fall, say_rival
from hotview.report.page.svg import figure

__all__ = ["rival_figure", "score_figures", "view_figures"]

_CLASSES = 40  # that a matrix can show
_MISTAKES = 30


def view_figures(record: Record, scores: Scores) -> list[Markup]:
    """What each view, and each number of views, is worth."""
    found = [_falls(record, scores), _alone(record, scores)]
    return [*found, *([_numbers(scores.numbers)] if scores.numbers else [])]


def _falls(record: Record, scores: Scores) -> Markup:
    there = [score for score in scores.views if score.fall is not None]
    if not there:
        return Markup("")
    ends = [x for s in there if s.fall for x in (s.fall.low, s.fall.high, 0.0)]
    rows = [
        (s.view, record.views.index(s.view),
         [Dot(s.fall.value, s.fall.low, s.fall.high, said=say_fall(s.fall))])
        for s in there if s.fall is not None
    ]  # fmt: skip
    drawing = dot_plot(
        rows,
        ends=_round_out(min(ends), max(ends)),
        title="points of accuracy lost",
        text=points,
        line=0.0,
        label="Accuracy lost when each view is hidden, with 95 % intervals",
    )
    cells = [
        [s.view, percent(s.without.value), points(s.fall.value), interval(s.fall), f"{s.fall.n:,}"]
        for s in there
        if s.without is not None and s.fall is not None
    ]
    header = ["view", "accuracy without it", "lost", "95 % interval", "rows"]
    behind = table(header, cells, caption="Accuracy without each view")
    note = "The view is hidden when predicting; nothing is trained again. Bars: 95 % intervals."
    return figure("Without one view", note, drawing, numbers(behind))


def _alone(record: Record, scores: Scores) -> Markup:
    there = [(score.view, score.alone) for score in scores.views if score.alone is not None]
    rows = [(view, record.views.index(view), [_dot(found)]) for view, found in there]
    low = min([found.low for _, found in there], default=0.0)
    drawing = dot_plot(
        rows,
        ends=(max(0.0, math.floor(10 * low) / 10), 1.0),
        title="accuracy",
        text="{:.0%}".format,
        line=scores.accuracy.value,
        label="Accuracy with each view alone, with 95 % intervals",
    )
    cells = [[v, percent(x.value), interval(x), f"{x.n:,}"] for v, x in there]
    header = ["view", "accuracy", "95 % interval", "rows"]
    behind = table(header, cells, caption="Accuracy with each view alone")
    note = "All other views are hidden; nothing is trained again. Dashed: with all views."
    return figure("With one view only", note, drawing, numbers(behind))


def _dot(found: Proportion) -> Dot:
    said = f"{percent(found.value)}, {interval(found)}, {found.n:,} rows"
    return Dot(found.value, found.low, found.high, said=said)


def _round_out(low: float, high: float) -> tuple[float, float]:
    step = 0.05 if high - low > 0.1 else 0.01
    return math.floor(low / step) * step, math.ceil(high / step) * step


def _numbers(scores: list[NumberScore]) -> Markup:
    said = "Mean over subsets of the views; bars reach from the worst subset to the best."
    if any(one.n_subsets < one.n_possible for one in scores):
        said += " Not all subsets were tried; those that were are a random sample."
    cells = [
        [str(s.n_views), percent(s.mean), percent(s.low), percent(s.high),
         f"{s.n_subsets} of {s.n_possible:,}"]
        for s in scores
    ]  # fmt: skip
    header = ["views", "mean accuracy", "worst", "best", "subsets tried"]
    behind = table(header, cells, caption="Accuracy by number of views")
    drawing = number_chart(scores, "Accuracy against the number of views that are shown")
    return figure("With any number of views", said, drawing, numbers(behind))


def score_figures(record: Record, scores: Scores) -> list[Markup]:
    """Which classes are mistaken for which, and whether confidence can be believed."""
    return [_confusion(record, scores), _calibration(scores)]


def _confusion(record: Record, scores: Scores) -> Markup:
    X = np.array(scores.confusion)
    mistakes = _mistakes(X, scores.truths, record.classes)
    n_wrong = int(X.sum() - np.trace(X[: X.shape[1]]))
    note = f"{n_wrong:,} of {int(X.sum()):,} rows are mistaken."
    if len(record.classes) > _CLASSES:
        note += f" A matrix of {len(record.classes)} classes could not be read."
        return figure("Mistakes", note, mistakes)
    drawing = heat_map(
        X,
        scores.truths,
        record.classes,
        label="Confusion matrix: true classes down, predicted classes across",
        text="{:.0f}".format,
        row_title="true",
        column_title="predicted class",
        blank_zeros=True,
    )
    whole = table(
        ["true", *record.classes],
        [[name, *map(str, row)] for name, row in zip(scores.truths, X.tolist(), strict=True)],
        caption="Confusion matrix",
    )
    return figure("Mistakes", note, drawing, numbers(whole))


def _mistakes(X: np.ndarray, truths: list[str], classes: list[str]) -> Markup:
    pairs = [(int(X[i, j]), i, j) for i, j in np.argwhere(X) if i != j]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    rows = [[truths[i], classes[j], f"{n:,}"] for n, i, j in pairs[:_MISTAKES]]
    return table(["true", "predicted", "rows"], rows, caption="Most frequent mistakes", words=2)


def _calibration(scores: Scores) -> Markup:
    error = points(scores.calibration_error)
    gap = sum(b.accuracy.n * (b.confidence - b.accuracy.value) for b in scores.bins)
    way = "too high" if gap > 0 else "too low"
    note = (
        f"Confidence, the largest probability of a row, is off by {error} points on average "
        f"(expected calibration error); mostly it is {way}. Dashed: confidence equals "
        "accuracy. Larger points have more rows; bars are 95 % intervals."
    )
    cells = [
        [
            percent(b.confidence),
            percent(b.accuracy.value),
            interval(b.accuracy),
            f"{b.accuracy.n:,}",
        ]
        for b in scores.bins
    ]
    header = ["mean confidence", "accuracy", "95 % interval", "rows"]
    behind = table(header, cells, caption="Accuracy by confidence")
    drawing = calibration_chart(scores.bins, "Accuracy against confidence")
    return figure("Can its confidence be believed?", note, drawing, numbers(behind))


def rival_figure(rivals: list[Rival], *, more_labels: bool = False) -> Markup:
    """The model beside simple methods and the control."""
    there = [(r.name, r.difference) for r in rivals if r.difference is not None]
    cells = [[r.name, say_rival(r), *_compare(r)] for r in rivals]
    header = ["method", "verdict", "accuracy", "model ahead by", "95 % interval"]
    behind = table(header, cells, caption="The model beside other methods", words=2)
    note = (
        "Trained on the same rows, scored on the same rows. Right of the line the model is better. "
        "Bars: 95 % intervals of the difference, row by row."
    )
    if more_labels:
        note += " Simple methods have no use for the labels of rows that are in one view only."
    if not there:
        return figure("Beside other methods", note, behind)
    note += _where_all_views_are(rivals)
    ends = [x for _, d in there for x in (d.low, d.high, 0.0)]
    rows = [
        (name, None, [Dot(d.value, d.low, d.high, said=f"{points(d.value)} points, {interval(d)}")])
        for name, d in there
    ]
    drawing = dot_plot(
        rows,
        ends=_round_out(min(ends), max(ends)),
        title="points that the model is ahead",
        text=points,
        line=0.0,
        label="How far the model is ahead of other methods, with 95 % intervals",
    )
    return tag("div", figure("Beside other methods", note, drawing, behind), class_="wide")


def _where_all_views_are(rivals: list[Rival]) -> str:
    """Which rows these are, and how good the model is on them: fewer than those of the headline."""
    rival = next(r for r in rivals if r.accuracy is not None and r.difference is not None)
    assert rival.accuracy is not None
    assert rival.difference is not None
    ours = rival.accuracy.value + rival.difference.value
    n = count(rival.accuracy.n, "row")
    return f" Of the {n} that have all views, the model gets {percent(ours)} right."


def _compare(rival: Rival) -> list[str]:
    if rival.accuracy is None or rival.difference is None:
        return ["–"] * 3
    change = rival.difference
    return [percent(rival.accuracy.value), f"{signed(100 * change.value)} points", interval(change)]
