"""Sections of the page, one per template: what templates do not read from the record itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from markupsafe import Markup

from hotview.estimators.out_of_fold import describe_contributions
from hotview.evaluation.record import Record, describe_settings, describe_views
from hotview.evaluation.scores import MAJORITY, MAX_BASELINE_ROWS
from hotview.report import chart_data, tables, view_data
from hotview.report.page import charts, sentences
from hotview.report.page.render import render
from hotview.report.tables import ABSENT, number
from hotview.report.view_data import Pair

_MAX_PAIRS = 15  # pairs of views that are drawn with their intervals
_MIN_GRAPH, _MIN_HEAT_MAP = 4, 12  # views of a graph, and of a heat map in its place
_MAX_STD_COLUMNS = 8  # of a plan whose cells have room for standard deviations


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
        return text | {"pairs": None, "costs": costs, "note": sentences.describe_shapes(model)}
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
        items.append(("training rows and versions", sentences.NOT_RECORDED))
    if "linked" in trained_on:
        items.append(("linked rows", trained_on["linked"]))
    items += [(f"unlinked rows of {v}", n) for v, n in _pairs(trained_on.get("unaligned"))]
    items += [(f"training rows of class {c}", n) for c, n in trained_on.get("classes") or []]
    items += [(f"version of {name}", x) for name, x in _pairs(trained_on.get("versions"))]
    for view, file in _pairs(model.metadata_.get("files")):
        text = str(file)
        if isinstance(file, dict):
            text = str(file.get("path", sentences.NOT_RECORDED))
            text += f", sha256 {file['sha256']}" if "sha256" in file else ""
        items.append((f"file of {view}", text))
    texts = [(name, f"{x:,}" if isinstance(x, int) else str(x)) for name, x in items]
    return {"settings": describe_settings(model), "items": texts}


def _pairs(mapping: Any) -> list[tuple[Any, Any]]:
    """Return the items of a dict; nothing for metadata of another type."""
    return list(mapping.items()) if isinstance(mapping, dict) else []
