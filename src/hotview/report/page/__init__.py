"""The HTML page of a record: one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
from importlib.resources import files
from pathlib import Path

from markupsafe import Markup

from hotview._files import atomic_write, check_output_path
from hotview.evaluation.record import Record
from hotview.report.canvas import style_variables
from hotview.report.page.render import render
from hotview.report.page.sections import make_sections
from hotview.report.page.sentences import (
    count,
    describe_accuracy,
    describe_comparison,
    describe_training,
)
from hotview.report.tables import format_interval, percent, points
from hotview.report.view_data import groups_of

__all__ = ["page", "write_report"]

#: Control characters are not allowed in HTML.
_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in range(32) if c not in (9, 10, 13)}


def write_report(record: Record, path: str | Path, *, title: str | None = None) -> Path:
    """Write the page of a record to a file.

    Parameters
    ----------
    record : Record
        From :func:`hotview.evaluation.record.make_record`.
    path : str or Path
        Path of the file; ends in ``.html``.
    title : str or None, default=None
        Title of the page.

    Returns
    -------
    Path
        The path.

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
    """Render the page of a record; the same record gives the same text.

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
    script = _read_resource("script.js")
    text = render(
        "page.html",
        record=record,
        title=title or f"Report on {count(len(record.views), 'view')}",
        summary=[s for s in (describe_training(record), describe_accuracy(record)) if s],
        comparison=[] if record.seen else describe_comparison(record.baselines or []),
        tiles=_make_tiles(record),
        sections=make_sections(record),
        style=Markup(f"{style_variables()}\n{_read_resource('style.css')}"),
        # The content security policy allows this script only, whatever names contain.
        script=Markup(script),
        script_digest=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
    )
    # Lone surrogates, which file names can hold, cannot be encoded.
    return str(text).encode("utf-8", "replace").decode("utf-8").translate(_CONTROLS)


def _read_resource(name: str) -> str:
    return files("hotview.report.page").joinpath(name).read_text(encoding="utf-8")


def _make_tiles(record: Record) -> list[tuple[str, str, str]]:
    """Return name, value and note of the headline numbers."""
    tiles = []
    if record.scores is not None:
        accuracy = record.scores.accuracy
        interval = f"{format_interval(accuracy)}, n = {accuracy.n:,}"
        tiles.append(("accuracy", percent(accuracy.value), interval))
        metrics = record.scores.metrics
        note = f"always predicting {metrics.majority_class}"
        tiles.append(("majority class", percent(metrics.majority.value), note))
        error = points(metrics.calibration_error.value)
        note = "mean gap of confidence and accuracy"
        tiles.append(("calibration error", f"{error} points", note))
    tiles.append(("views", str(len(record.views)), _describe_links(record)))
    if record.rows:
        low, high = min(record.rows.values()), max(record.rows.values())
        size = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        labels = f"; {count(record.n_labeled, 'label')} in total" if record.n_labeled else ""
        tiles.append(("rows on this page", size, f"per view{labels}"))
    return tiles


def _describe_links(record: Record) -> str:
    """Return the number of groups of views that hold or, of few views, of linked rows."""
    if record.model.view_similarity_ is not None and len(record.views) > 3:
        groups = groups_of(record.model)
        n = sum(groups.count(group) > 1 for group in set(groups))
        return f"{count(n, 'group')} that hold{'s' if n == 1 else ''}" if n else "no stable groups"
    linked = record.model.trained_on_.get("linked")
    return "" if linked is None else count(linked, "linked row") if linked else "no linked rows"
