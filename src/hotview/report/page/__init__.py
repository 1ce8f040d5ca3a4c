"""The HTML page of a record: one file that needs no network."""

from __future__ import annotations

import base64
import hashlib
import math
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from hotview._files import atomic_write, check_output_path
from hotview.evaluation.record import Record, describe_settings, describe_views
from hotview.evaluation.scores import MAJORITY, MAX_BASELINE_ROWS
from hotview.report import chart_data, tables, view_data
from hotview.report.canvas import style_variables
from hotview.report.page import charts
from hotview.report.page.sentences import (
    NOT_RECORDED,
    count,
    describe_accuracy,
    describe_comparison,
    describe_shapes,
    describe_training,
    render,
)
from hotview.report.tables import ABSENT, format_interval, number, percent, points
from hotview.semisupervised.sentences import describe_contributions
from hotview.similarity.view_similarity import UNCERTAIN, Pair

__all__ = ["page", "write_report"]

#: Control characters are not allowed in HTML.
_CONTROLS = {c: "\N{REPLACEMENT CHARACTER}" for c in range(32) if c not in (9, 10, 13)}
_MAX_PAIRS = 15  # pairs of views that are drawn with their intervals
_MIN_GRAPH, _MIN_HEAT_MAP = 4, 12  # views of a graph, and of a heat map in its place
_MAX_STD_COLUMNS = 8  # of a plan whose cells have room for standard deviations


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
    summary = describe_training(record), describe_accuracy(record)
    script = _read_resource("script.js")
    text = render(
        "page.html",
        record=record,
        title=title or f"Report on {count(len(record.views), 'view')}",
        summary=filter(None, summary),
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
    model, links = record.model, ""
    if model.view_similarity_ is not None and len(record.views) > 3:
        groups = view_data.groups_of(model)
        n = sum(groups.count(group) > 1 for group in set(groups))
        links = f"{count(n, 'group')} that hold{'s' if n == 1 else ''}" if n else "no stable groups"
    elif (linked := model.trained_on_.get("linked")) is not None:
        links = count(linked, "linked row") if linked else "no linked rows"
    tiles.append(("views", str(len(record.views)), links))
    if record.rows:
        low, high = min(record.rows.values()), max(record.rows.values())
        size = f"{high:,}" if low == high else f"{low:,} to {high:,}"
        labels = f"; {count(record.n_labeled, 'label')} in total" if record.n_labeled else ""
        tiles.append(("rows on this page", size, f"per view{labels}"))
    return tiles


def make_sections(record: Record) -> list[tuple[str, str, Markup]]:
    """Return id, title and content of all sections of the page."""
    has_scores = record.scores is not None
    titles = {
        "similarity": ("Which views belong together", True),
        "metrics": ("Metrics", has_scores),
        "views": ("Accuracy by view", has_scores),
        "importance": ("Which views and columns matter", record.importance is not None),
        "errors": ("Errors and calibration", has_scores),
        "space": ("The common space", record.embedding is not None),
        "plan": ("The plan of the paper", record.model.plan_ is not None),
        "learning": ("Training", True),
        "provenance": ("Provenance", True),
    }
    return [(key, title, make_section(key, record)) for key, (title, has) in titles.items() if has]


def make_section(key: str, record: Record) -> Markup:
    """Return the content of a section.

    Templates read the record and its model, and draw by the functions of `charts`, `data` (of
    charts) and `tables`; what takes more than that is computed here.
    """
    compute = {"similarity": _similarity, "plan": _plan, "provenance": _provenance}.get(key)
    return render(
        f"{key}.html",
        record=record,
        model=record.model,
        charts=charts,
        data=chart_data,
        of_views=view_data,
        tables=tables,
        MAJORITY=MAJORITY,
        MAX_BASELINE_ROWS=MAX_BASELINE_ROWS,
        UNCERTAIN=UNCERTAIN,
        **({} if compute is None else compute(record.model)),
    )


def _similarity(model: Any) -> dict[str, Any]:
    """Return what views share by linked rows or, without any, how similar their shapes are."""
    views, overview = model.view_names_, None
    text = {
        "sentences": describe_views(model),
        "contributions": describe_contributions(getattr(model, "out_of_fold_", {})),
    }
    if model.view_similarity_ is None:
        # Of two views, the sentences have the only number.
        costs = view_data.shape_costs(model) if len(views) > 2 else None
        return text | {"pairs": None, "costs": costs, "note": describe_shapes(model)}
    pairs = view_data.list_pairs(model)
    known = [pair for pair in pairs if pair.is_known]
    has_within = any(math.isfinite(pair.within) for pair in pairs)
    if len(views) >= _MIN_GRAPH and any(pair.is_significant for pair in pairs):
        overview = charts.view_graph(model)
        if len(views) >= _MIN_HEAT_MAP:
            overview = charts.heat_map(view_data.similarity_matrix(model))
    return text | {
        "pairs": [_pair_cells(views, pair, has_within=has_within) for pair in pairs],
        "n_known": len(known),
        "n_drawn": min(len(known), _MAX_PAIRS),
        "has_within": has_within,
        "chart": charts.pair_chart(views, known[:_MAX_PAIRS]),
        "overview": overview,
        "is_graph": len(views) < _MIN_HEAT_MAP,
        "view_rows": _view_rows(model, known),
    }


def _pair_cells(views: Sequence[str], pair: Pair, *, has_within: bool) -> list[str]:
    """Return the row of a pair in the table of all pairs; one column of names fits phones."""
    cells = [f"{views[pair.first]} – {views[pair.second]}", *[ABSENT] * 3]
    if pair.is_known:
        interval = f"{number(pair.low, 2)} to {number(pair.high, 2)}"
        cells[1:] = [number(pair.value, 2), interval, f"{pair.p_value:.3f}"]
    within = [number(pair.within, 2)] if has_within else []
    return [*cells, *within, str(pair.n_rows)]


def _view_rows(model: Any, pairs: Sequence[Pair]) -> list[list[str]]:
    """Return name, group, most similar view and its similarity, for each view."""
    groups, views, rows = view_data.groups_of(model), model.view_names_, []
    for s in view_data.sort_views(model):
        group = str(groups[s] + 1) if groups and groups.count(groups[s]) > 1 else ABSENT
        cells = [ABSENT, ABSENT]
        if closest := next((pair for pair in pairs if s in (pair.first, pair.second)), None):
            other = closest.second if s == closest.first else closest.first
            cells = [views[other], number(closest.value, 2)]
        rows.append([views[s], group, *cells])
    return rows


def _plan(model: Any) -> dict[str, Any]:
    """Return the plan of the paper, with its standard deviation over trainings."""
    matrix = view_data.plan_matrix(model, shares=True)
    narrow = matrix if len(matrix.columns) <= _MAX_STD_COLUMNS else replace(matrix, std=None)
    cells = [[number(x, 3) for x in row] for row in matrix.values]
    if matrix.std is not None:
        rows = zip(cells, matrix.std, strict=True)
        cells = [[f"{x} ± {std:.3f}" for x, std in zip(*row, strict=True)] for row in rows]
    return {"matrix": matrix, "chart": charts.heat_map(narrow), "cells": cells}


def _provenance(model: Any) -> dict[str, Any]:
    """Return settings, rows, files and versions."""
    trained_on = model.trained_on_
    items = [(f"columns of {v}", model.n_features_per_view_[v]) for v in model.view_names_]
    if not trained_on:
        items.append(("training rows and versions", NOT_RECORDED))
    if "linked" in trained_on:
        items.append(("linked rows", trained_on["linked"]))
    items += [(f"unlinked rows of {v}", n) for v, n in _pairs(trained_on.get("unaligned"))]
    items += [(f"training rows of class {c}", n) for c, n in trained_on.get("classes") or []]
    items += [(f"version of {name}", x) for name, x in _pairs(trained_on.get("versions"))]
    for view, file in _pairs(model.metadata_.get("files")):
        text = str(file)
        if isinstance(file, dict):
            text = str(file.get("path", NOT_RECORDED))
            text += f", sha256 {file['sha256']}" if "sha256" in file else ""
        items.append((f"file of {view}", text))
    texts = [(name, f"{x:,}" if isinstance(x, int) else str(x)) for name, x in items]
    return {"settings": describe_settings(model), "items": texts}


def _pairs(mapping: Any) -> list[tuple[Any, Any]]:
    """Return the items of a dict; nothing for metadata of another type."""
    return list(mapping.items()) if isinstance(mapping, dict) else []
