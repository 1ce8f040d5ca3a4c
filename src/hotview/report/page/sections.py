"""Sections of the page: each function computes the charts and numbers of one template."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from hotview.evaluation.importance import PermutationImportance
from hotview.evaluation.record.schema import MAJORITY, MAX_BASELINE_ROWS, Record, Scores
from hotview.report.chart_data import (
    UNCERTAIN,
    Dot,
    DotChart,
    Pair,
    confusion,
    drop_dots,
    effect_dots,
    groups_of,
    list_pairs,
    make_dot,
    plan_matrix,
    plan_of,
    round_ends,
    shape_costs,
    similarity_matrix,
    sort_views,
)
from hotview.report.metric_tables import describe_metrics, metric_tables
from hotview.report.page.charts import (
    calibration_chart,
    curve_chart,
    dot_plot,
    embedding_chart,
    heat_map,
    pair_chart,
    subset_chart,
    view_graph,
)
from hotview.report.page.render import render
from hotview.report.page.sentences import (
    NOT_RECORDED,
    describe_shapes,
    format_interval,
    percent,
    points,
)
from hotview.report.tables import ABSENT, number

__all__ = ["make_sections"]

_MAX_PAIRS = 15  # pairs of views that are drawn with their intervals
_MIN_GRAPH, _MIN_HEAT_MAP = 4, 12  # views of a graph, and of a heat map in its place
_MAX_CLASSES = 40  # of a confusion matrix that is drawn
_MAX_EFFECTS = 15  # columns that are drawn with their importance
_EFFECT_LENGTH = 20  # characters of a column beside its bar
_MAX_ERRORS = 30  # rows of the table of errors
_MAX_STD_COLUMNS = 8  # of a plan whose cells have room for standard deviations


def make_sections(record: Record) -> list[tuple[str, str, Markup]]:
    """Return id, title and content of all sections of the page."""
    sections = [("similarity", "Which views belong together", similarity_section(record))]
    if record.scores is not None:
        sections.append(("metrics", "Metrics", metric_section(record.scores)))
        sections.append(("views", "Accuracy by view", view_section(record, record.scores)))
    if record.importance is not None:
        title = "Which views and columns matter"
        sections.append(("importance", title, importance_section(record, record.importance)))
    if record.scores is not None:
        sections.append(("errors", "Errors and calibration", error_section(record, record.scores)))
    if record.embedding is not None:
        sections.append(("space", "The common space", embedding_section(record)))
    if record.plan is not None:
        sections.append(("plan", "The plan of the paper", plan_section(record)))
    sections.append(("learning", "Training", learning_section(record)))
    sections.append(("provenance", "Provenance", provenance_section(record)))
    return sections


def similarity_section(record: Record) -> Markup:
    """Return what views share by linked rows or, without any, how similar their shapes are."""
    if record.similarity is None:
        return render("similarity.html", record=record, pairs=None, **_shapes(record))
    pairs = list_pairs(record)
    known = [pair for pair in pairs if pair.is_known]
    has_within = any(math.isfinite(pair.within) for pair in pairs)
    return render(
        "similarity.html",
        record=record,
        pairs=[_pair_cells(record, pair, has_within=has_within) for pair in pairs],
        n_known=len(known),
        n_drawn=min(len(known), _MAX_PAIRS),
        has_within=has_within,
        chart=pair_chart(record, known[:_MAX_PAIRS]),
        overview=_overview(record) if any(pair.is_significant for pair in pairs) else None,
        is_graph=len(record.views) < _MIN_HEAT_MAP,
        has_groups=bool(groups_of(record)),
        uncertain=UNCERTAIN,
        view_rows=_view_rows(record, known),
    )


def _overview(record: Record) -> Markup | None:
    """Return all views in one chart: a graph or, of many views, a heat map."""
    if len(record.views) < _MIN_GRAPH:
        return None
    if len(record.views) < _MIN_HEAT_MAP:
        return view_graph(record)
    return heat_map(
        similarity_matrix(record),
        label="Heat map of the similarity of all pairs of views",
        text=lambda x: f"{x:.2f}".removeprefix("0"),  # cells are small
        row_title="view",
        column_title="similarity to the view",
        largest=1.0,
    )


def _pair_cells(record: Record, pair: Pair, *, has_within: bool) -> list[str]:
    """Return the row of a pair in the table of all pairs; one column of names fits phones."""
    cells = [f"{record.views[pair.first]} – {record.views[pair.second]}"]
    if pair.is_known:
        interval = f"{number(pair.low, 2)} to {number(pair.high, 2)}"
        cells += [number(pair.value, 2), interval, f"{pair.p_value:.3f}"]
    else:
        cells += [ABSENT] * 3
    within = [number(pair.within, 2)] if has_within else []
    return [*cells, *within, str(pair.n_rows)]


def _view_rows(record: Record, pairs: Sequence[Pair]) -> list[list[str]]:
    """Return name, group, most similar view and its similarity, for each view."""
    groups, rows = groups_of(record), []
    for s in sort_views(record):
        group = str(groups[s] + 1) if groups and groups.count(groups[s]) > 1 else ABSENT
        closest = next((pair for pair in pairs if s in (pair.first, pair.second)), None)
        cells = [ABSENT, ABSENT]
        if closest is not None:
            other = closest.second if s == closest.first else closest.first
            cells = [record.views[other], number(closest.value, 2)]
        rows.append([record.views[s], group, *cells])
    return rows


def _shapes(record: Record) -> dict[str, Any]:
    """Return the costs between views before training, as variables of the template."""
    costs = shape_costs(record)
    if costs is None or len(record.views) == 2:  # the sentences have the only number
        return {"shapes_chart": None}
    chart = heat_map(
        costs,
        label="Heat map of the costs between the views before training",
        text="{:.3f}".format,
        row_title="view",
        column_title="cost of transport to the view",
    )
    cells = [[number(x, 4) for x in row] for row in costs.values]
    return {
        "shapes_chart": chart,
        "shapes_note": describe_shapes(record),
        "shapes_rows": list(zip(costs.rows, cells, strict=True)),
    }


def plan_section(record: Record) -> Markup:
    """Return the plan of the paper, with its standard deviation over trainings."""
    plan, matrix = plan_of(record), plan_matrix(record, shares=True)
    target = "view" if plan.pairwise else "reference"
    chart = heat_map(
        matrix if len(matrix.columns) <= _MAX_STD_COLUMNS else replace(matrix, std=None),
        label=f"Heat map of the plan: share of each view transported to each {target}",
        text="{:.2f}".format,
        row_title="view",
        column_title=f"share transported to the {target}",
    )
    cells = [[number(x, 3) for x in row] for row in matrix.values]
    if matrix.std is not None:
        rows = zip(cells, matrix.std, strict=True)
        cells = [[f"{x} ± {std:.3f}" for x, std in zip(*row, strict=True)] for row in rows]
    return render(
        "plan.html",
        plan=plan,
        n_members=record.n_members,
        target=target,
        matrix=matrix,
        chart=chart,
        rows=list(zip(matrix.rows, cells, strict=True)),
    )


def metric_section(scores: Scores) -> Markup:
    """Return all metrics with their intervals, by class and for the positive class."""
    tables, sentences = metric_tables(scores.metrics), describe_metrics(scores.metrics)
    return render("metrics.html", tables=tables, sentences=sentences)


def view_section(record: Record, scores: Scores) -> Markup:
    """Return accuracies without each view, with each view alone and with subsets of views."""
    drops = drop_dots(record)
    dots = [
        make_dot(score.view, x, f"{percent(x.value)}, {format_interval(x)}, {x.n:,} rows",
                 record.views.index(score.view))
        for score in scores.views if (x := score.alone) is not None
    ]  # fmt: skip
    alone = DotChart(
        dots,
        ends=(max(0.0, math.floor(10 * min([d.low for d in dots], default=0.0)) / 10), 1.0),
        title="accuracy",
        text="{:.0%}".format,
        reference=scores.accuracy.value,
        label="Accuracy with each view alone, with 95 % intervals",
    )
    return render(
        "views.html",
        scores=scores,
        drop_chart=dot_plot(drops) if drops.dots else None,
        alone_chart=dot_plot(alone),
        subset_chart=subset_chart(scores.subsets) if scores.subsets else None,
        sampled=any(s.n_subsets < s.n_possible for s in scores.subsets),
    )


def importance_section(record: Record, importance: PermutationImportance) -> Markup:
    """Return the permutation importance of views, and of the columns with the largest effects."""

    def draw(effects: Sequence[Mapping[str, Any]]) -> Markup:
        return dot_plot(effect_dots(record, effects), name_length=_EFFECT_LENGTH)

    views, columns = importance.views.to_dicts(), importance.columns.to_dicts()[:_MAX_EFFECTS]
    return render(
        "importance.html",
        importance=importance,
        views=views,
        columns=columns,
        view_chart=draw(views),
        column_chart=draw(columns) if columns else None,
        n_others=importance.n_columns - len(columns),
    )


def error_section(record: Record, scores: Scores) -> Markup:
    """Return the confusion matrix, the calibration and the comparison with baselines."""
    X = np.array(scores.confusion)
    confusion_chart = baseline_chart = None
    if len(record.classes) <= _MAX_CLASSES:
        confusion_chart = heat_map(
            confusion(record),
            label="Confusion matrix: true classes by row, predicted classes by column",
            text="{:.0f}".format,
            row_title="true",
            column_title="predicted class",
        )
    errors = sorted((-X[i, j], i, j) for i, j in np.argwhere(X) if i != j)
    fits = [b for b in record.baselines or [] if b.name != MAJORITY]
    scored = [(b, b.difference) for b in fits if b.difference is not None]
    if scored:
        dots = [
            make_dot(b.name, d, f"{points(d.value)} points, {format_interval(d)}", scale=100)
            for b, d in scored
        ]
        chart = DotChart(
            dots,
            ends=round_ends(dots),
            title="accuracy of the model minus that of the baseline (points)",
            reference=0.0,
            label="Accuracy of the model minus that of each baseline, with 95 % intervals",
        )
        baseline_chart = dot_plot(chart)
    gap = sum(b.accuracy.n * (b.confidence - b.accuracy.value) for b in scores.bins)
    sizes = [record.trained_on.get("linked", 0)]
    sizes += [n for _, n in _pairs(record.trained_on.get("unaligned"))]
    return render(
        "errors.html",
        record=record,
        scores=scores,
        n_rows=int(X.sum()),
        n_errors=int(X.sum() - np.trace(X[: X.shape[1]])),
        confusion_chart=confusion_chart,
        errors=[(int(-n), i, j) for n, i, j in errors[:_MAX_ERRORS]],
        calibration_chart=calibration_chart(scores.bins),
        overconfident=gap > 0,
        baseline_chart=baseline_chart or "",
        has_fits=bool(fits),
        is_sampled=max(sizes) > MAX_BASELINE_ROWS,
        max_rows=MAX_BASELINE_ROWS,
    )


def embedding_section(record: Record) -> Markup:
    """Return the points of the common space."""
    chart = embedding_chart(record)
    return render("space.html", record=record, embedding=record.embedding, chart=chart)


def learning_section(record: Record) -> Markup:
    """Return learning curves and effective ranks."""
    learning, ranks, rank_chart = record.learning, record.ranks, None
    if ranks:
        dots = [Dot(r.view, r.mean, r.mean - r.std, r.mean + r.std, record.views.index(r.view),
                    f"{r.mean:.1f} of {r.max_rank}") for r in ranks]  # fmt: skip
        chart = DotChart(
            dots,
            ends=(0.0, float(ranks[0].max_rank)),
            title=f"effective rank, of {ranks[0].max_rank} dimensions",
            label="Effective rank of each view in the common space",
        )
        rank_chart = dot_plot(chart)
    curves = [curve_chart(c, learning.epochs) for c in learning.terms] if learning else []
    return render(
        "learning.html",
        learning=learning,
        n_members=record.n_members,
        ranks=ranks,
        curve_charts=curves,
        rank_chart=rank_chart,
    )


def provenance_section(record: Record) -> Markup:
    """Return warnings, command, settings, rows, files and versions."""
    trained_on = record.trained_on
    items: list[tuple[str, Any]] = [
        (f"columns of {v}", n) for v, n in zip(record.views, record.columns, strict=True)
    ]
    if not trained_on:
        items.append(("training rows and versions", NOT_RECORDED))
    if "linked" in trained_on:
        items.append(("linked rows", trained_on["linked"]))
    items += [(f"unlinked rows of {v}", n) for v, n in _pairs(trained_on.get("unaligned"))]
    items += [(f"training rows of class {c}", n) for c, n in trained_on.get("classes") or []]
    items += [(f"version of {name}", x) for name, x in _pairs(trained_on.get("versions"))]
    for view, file in _pairs(record.metadata.get("files")):
        text = str(file)
        if isinstance(file, dict):
            text = str(file.get("path", NOT_RECORDED))
            text += f", sha256 {file['sha256']}" if "sha256" in file else ""
        items.append((f"file of {view}", text))
    texts = [(name, f"{x:,}" if isinstance(x, int) else str(x)) for name, x in items]
    return render("provenance.html", record=record, items=texts)


def _pairs(mapping: Any) -> list[tuple[Any, Any]]:
    """Return the items of a dict; nothing for metadata of another type."""
    return list(mapping.items()) if isinstance(mapping, dict) else []
