"""The whole page, in one file."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from hotview._files import atomic_write, check_output_path
from hotview.evaluation.record.schema import Record
from hotview.report.page.embedding import space_chart
from hotview.report.page.markup import Markup, join, numbers, table, tag
from hotview.report.page.model_section import learning_section, origin_section
from hotview.report.page.plan_section import plan_section
from hotview.report.page.score_section import rival_figure, score_figures, view_figures
from hotview.report.page.sentences import (
    count,
    interval,
    percent,
    points,
    say_accuracy,
    say_training,
)
from hotview.report.page.svg import figure
from hotview.report.palette import style_variables

__all__ = ["page", "write_report"]

_ADDS = (
    "accuracies with their intervals, what each view is worth, mistakes, calibration and the "
    "common space"
)


def write_report(record: Record, path: str | Path, *, title: str | None = None) -> Path:
    """Write a page about a model: one file, which needs no network.

    Parameters
    ----------
    record : Record
        From :func:`hotview.evaluation.record.make_record`.
    path : str or Path
        Where to; ends in ``.html``.
    title : str or None, default=None
        Title of the page.

    Returns
    -------
    Path
        Where it is.

    Examples
    --------
    >>> import tempfile
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.evaluation.record import make_record
    >>> from hotview.report.page import write_report
    >>> views = make_views(50, n_views=4, random_state=0).views
    >>> record = make_record(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(record, f"{folder}/report.html").name
    'report.html'
    """
    path = check_output_path(path, (".html", ".htm"))
    text = page(record, title=title)
    with atomic_write(path) as draft:
        draft.write_text(text, encoding="utf-8")
    return path


def page(record: Record, *, title: str | None = None) -> str:
    """The page as text; the same record gives the same text.

    Parameters
    ----------
    record : Record
        The record.
    title : str or None, default=None
        Title of the page.

    Returns
    -------
    str
        HTML.
    """
    heading = title or f"Report on {count(len(record.views), 'view')}"
    sections = _sections(record)
    script = _resource("script.js")
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    # No text of a user's can load anything or run, whatever it holds: only our script may.
    policy = f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", http_equiv="Content-Security-Policy", content=policy),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        tag("title", heading),
        tag("style", Markup(f"{style_variables()}\n{_resource('style.css')}")),
    )
    links = [tag("a", name, href=f"#{key}") for key, name, _ in sections]
    body = tag(
        "body",
        tag("a", "Skip to the content", href="#content", class_="skip"),
        tag("header", *_opening(record, heading)),
        tag("nav", *links, aria_label="Sections"),
        tag("main", *(_section(*section) for section in sections), id="content"),
        tag("footer", tag("p", "Made by hotview. This file needs no network.")),
        tag("script", Markup(script)),
    )
    return f"<!doctype html>\n{tag('html', head, body, lang='en')}\n"


def _resource(name: str) -> str:
    return files("hotview.report.page").joinpath(name).read_text(encoding="utf-8")


def _opening(record: Record, heading: str) -> list[Markup]:
    switch = tag("button", "Dark theme", type="button", class_="theme", aria_pressed="false")
    tiles = [
        tag("div", tag("dt", name), tag("dd", value, *([tag("small", more)] if more else [])))
        for name, value, more in _tiles(record)
    ]
    said = [tag("p", say_training(record), class_="lead")]
    if accuracy := say_accuracy(record):
        said.append(tag("p", accuracy, class_="lead"))
    said += _missing(record)
    return [tag("div", tag("h1", heading), switch, class_="top"), *said, tag("dl", *tiles)]


def _missing(record: Record) -> list[Markup]:
    """What the page cannot tell, and what would make it."""
    if not record.rows:
        how = [tag("code", "--data"), f" adds {_ADDS}."]
        return [tag("p", "This page has what the model alone can tell; ", *how, class_="callout")]
    if record.scores is None and record.kind == "MultiViewClassifier":
        said = "None of the rows has a label, so nothing can be said about accuracy."
        return [tag("p", said, class_="callout")]
    if record.seen:
        said = (
            "These rows were trained on. For honest accuracies, give rows that the model has "
            "never seen."
        )
        return [tag("p", said, class_="callout", role="note")]
    return []


def _tiles(record: Record) -> list[tuple[str, str, str]]:
    found = []
    if record.scores is not None:
        accuracy = record.scores.accuracy
        found.append(
            ("accuracy", percent(accuracy.value), f"{interval(accuracy)}, n = {accuracy.n:,}")
        )
        error = points(record.scores.calibration_error)
        found.append(("calibration error", f"{error} points", "gap of confidence and accuracy"))
    groups = len(set(record.plan.groups)) if record.plan else 0
    in_groups = f"in {count(groups, 'group')}" if groups else "no plan"
    found.append(("views", str(len(record.views)), in_groups))
    if record.plan and record.plan.null and len(record.views) > 3:
        p = record.plan.null.p_value
        found.append(("p of the null", f"{p:.2f}", "before training, beside noise"))
    if record.rows:
        least, most = min(record.rows.values()), max(record.rows.values())
        each = f"{most:,}" if least == most else f"{least:,} to {most:,}"
        found.append(("rows of a view", each, f"{count(record.n_labeled, 'label')} in all"))
    return found


def _sections(record: Record) -> list[tuple[str, str, list[Markup]]]:
    found = [("plan", "Which views belong together", plan_section(record))]
    scores = record.scores
    if scores is not None:
        worth = tag("div", *view_figures(record, scores), class_="grid")
        found.append(("worth", "What each view is worth", [worth]))
        rights = [tag("div", *score_figures(record, scores), class_="grid")]
        rights.append(_rivals(record))
        found.append(("right", "Right and wrong", rights))
    if record.space is not None:
        found.append(("space", "The common space", [_space(record)]))
    found.append(("learning", "How it learned", learning_section(record)))
    found.append(("origin", "Where it comes from", origin_section(record)))
    return found


def _section(key: str, name: str, inside: list[Markup]) -> Markup:
    return tag("section", tag("h2", name, id=f"{key}-title"), *inside, id=key,
               aria_labelledby=f"{key}-title")  # fmt: skip


def _rivals(record: Record) -> Markup:
    if record.rivals is not None:
        labels = record.trained_on.get("unaligned_labeled")
        return rival_figure(record.rivals, more_labels=bool(labels and any(labels.values())))
    said = "Simple methods were not trained beside it: that needs the rows of the training."
    return tag("p", said, class_="note")


def _space(record: Record) -> Markup:
    space = record.space
    assert space is not None
    n = len(space.views)
    some = f"{n:,} of {space.n_points:,} points, drawn at random. " if n < space.n_points else ""
    who = (
        "A point is a row of one view. Point at it, or use the arrow keys: the same individual "
        "lights up in all views."
        if space.linked
        else "A point is a row of one view. Rows of different views do not correspond."
    )
    why = f" There is no UMAP layout: {space.reason}." if space.reason else ""
    drawing = space_chart(space, record.views, record.classes)
    sizes = [[record.views[s], f"{space.views.count(s):,}", f"{record.rows[record.views[s]]:,}"]
             for s in sorted(set(space.views))]  # fmt: skip
    behind = table(["view", "points drawn", "rows"], sizes, caption="Points of the common space")
    title = "Rows of all views, by the first network"
    return tag("div", figure(title, f"{some}{who}{why}", join([drawing]), numbers(behind)),
               class_="wide")  # fmt: skip
