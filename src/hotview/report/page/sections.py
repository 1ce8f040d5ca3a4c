"""Sections of the page: each function computes the charts and numbers of one template."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from markupsafe import Markup

from hotview.evaluation.metrics import Difference
from hotview.evaluation.record.schema import (
    MAJORITY,
    MAX_BASELINE_ROWS,
    NullSummary,
    Record,
    Scores,
)
from hotview.report.chart_data import (
    Dot,
    accuracy_drops,
    confusion,
    make_dot,
    plan_matrix,
    similarity,
)
from hotview.report.page.charts import (
    calibration_chart,
    curve_chart,
    dot_plot,
    embedding_chart,
    heat_map,
    subset_chart,
    view_graph,
)
from hotview.report.page.render import render
from hotview.report.page.sentences import (
    NOT_RECORDED,
    describe_drop,
    describe_null,
    describe_view,
    format_interval,
    percent,
    points,
)
from hotview.report.tables import number

__all__ = [
    "embedding_section",
    "error_section",
    "learning_section",
    "plan_section",
    "provenance_section",
    "view_section",
]

_MAX_CLASSES = 40  # of a confusion matrix that is drawn
_MAX_ERRORS = 30  # rows of the table of errors
_MAX_STD_COLUMNS = 8  # of a plan whose cells have room for standard deviations


def plan_section(record: Record) -> Markup:
    """Return the plan, its groups, its graph and its permutation null."""
    plan = record.plan
    if plan is None:
        return render("plan.html", record=record, plan=None)
    matrix = plan_matrix(record, by_group=True)
    target = "view" if plan.pairwise else "reference"
    plan_chart = heat_map(
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
    weights = similarity(plan.W, pairwise=plan.pairwise)
    pairs = [(a, b, weights[a, b]) for a, b in zip(*np.triu_indices(len(weights), 1), strict=True)]
    has_null = plan.null is not None and len(record.views) >= 4
    return render(
        "plan.html",
        record=record,
        plan=plan,
        null_sentence=describe_null(plan, len(record.views)),
        view_sentences=[describe_view(record, s) for s in range(len(record.views))],
        matrix=matrix,
        plan_chart=plan_chart,
        plan_rows=list(zip(matrix.rows, cells, strict=True)),
        graph_chart=view_graph(record),
        pairs=sorted(pairs, key=lambda pair: -pair[2]),
        null_chart=_null_chart(plan.null) if has_null and plan.null else None,
        costliest=record.views[int(np.argmax(plan.null.costs))] if plan.null else None,
    )


def _null_chart(null: NullSummary) -> Markup:
    observed = Dot("these views", null.relative_cost, tooltip=f"{null.relative_cost:.3f}")
    permuted = [Dot("permuted", x, tooltip=f"{x:.3f}", style="dot faint") for x in null.noise]
    low = min(null.relative_cost, *null.noise)
    return dot_plot(
        [observed, *permuted],
        ends=(max(0.0, float(np.floor(10 * low - 0.5) / 10)), 1.0),
        title="relative cost of the plan, before training",
        text="{:g}".format,
        label=f"Relative cost of the plan, {null.relative_cost:.2f}, and of {len(null.noise)} "
        "plans of permuted views",
    )


def view_section(record: Record, scores: Scores) -> Markup:
    """Return accuracies without each view, with each view alone and with subsets of views."""
    drops = accuracy_drops(record)
    drop_chart = alone_chart = None
    if drops:
        drop_chart = dot_plot(
            [make_dot(name, d, view=view, tooltip=describe_drop(d)) for name, view, d in drops],
            ends=_round_ends([d for _, _, d in drops]),
            title="accuracy drop (points)",
            text=points,
            reference=0.0,
            label="Accuracy drop when each view is hidden, with 95 % intervals",
        )
    alone = [(score.view, score.alone) for score in scores.views if score.alone is not None]
    dots = [
        make_dot(view, x, view=record.views.index(view),
                 tooltip=f"{percent(x.value)}, {format_interval(x)}, {x.n:,} rows")
        for view, x in alone
    ]  # fmt: skip
    alone_chart = dot_plot(
        dots,
        ends=(max(0.0, math.floor(10 * min([x.low for _, x in alone], default=0.0)) / 10), 1.0),
        title="accuracy",
        text="{:.0%}".format,
        reference=scores.accuracy.value,
        label="Accuracy with each view alone, with 95 % intervals",
    )
    return render(
        "views.html",
        scores=scores,
        drop_chart=drop_chart,
        alone_chart=alone_chart,
        subset_chart=subset_chart(scores.subsets) if scores.subsets else None,
        sampled=any(s.n_subsets < s.n_possible for s in scores.subsets),
    )


def _round_ends(differences: Sequence[Difference]) -> tuple[float, float]:
    """Return rounded ends of a scale that covers 0 and all intervals."""
    low = min(0.0, *(d.low for d in differences))
    high = max(0.0, *(d.high for d in differences))
    step = 0.05 if high - low > 0.1 else 0.01
    return math.floor(low / step) * step, math.ceil(high / step) * step


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
        baseline_chart = dot_plot(
            [make_dot(b.name, d, tooltip=f"{points(d.value)} points, {format_interval(d)}")
             for b, d in scored],
            ends=_round_ends([d for _, d in scored]),
            title="accuracy of the model minus that of the baseline (points)",
            text=points,
            reference=0.0,
            label="Accuracy of the model minus that of each baseline, with 95 % intervals",
        )  # fmt: skip
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
        rank_chart = dot_plot(
            [Dot(r.view, r.mean, r.mean - r.std, r.mean + r.std, record.views.index(r.view),
                 f"{r.mean:.1f} of {r.max_rank}") for r in ranks],
            ends=(0.0, float(ranks[0].max_rank)),
            title=f"effective rank, of {ranks[0].max_rank} dimensions",
            text="{:.0f}".format,
            label="Effective rank of each view in the common space",
        )  # fmt: skip
    curves = [curve_chart(c, learning.epochs) for c in learning.terms] if learning else []
    return render(
        "learning.html", learning=learning, ranks=ranks, curve_charts=curves, rank_chart=rank_chart
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
    items += [(f"unaligned rows of {v}", n) for v, n in _pairs(trained_on.get("unaligned"))]
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
