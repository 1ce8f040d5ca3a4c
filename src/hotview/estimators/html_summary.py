"""What an estimator has learned, as HTML for notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from hotview.similarity.sentences import describe_similarity

if TYPE_CHECKING:
    from hotview.model.model import Model

__all__ = ["summarize_as_html"]

_MAX_VIEWS = 30  # that have a row of their own


def summarize_as_html(estimator: Any) -> str:
    """Summarize a fitted estimator: rows, views, accuracy on left-out labels, similarity, warnings.

    Parameters
    ----------
    estimator : MultiViewClassifier or MultiViewEncoder
        The estimator.

    Returns
    -------
    str
        HTML without scripts; all names are escaped.

    Examples
    --------
    >>> from hotview import MultiViewEncoder
    >>> from hotview.datasets import make_views
    >>> from hotview.estimators.html_summary import summarize_as_html
    >>> views = make_views(50, n_views=2, random_state=0).views
    >>> html = summarize_as_html(MultiViewEncoder(max_epochs=1, random_state=0).fit(views))
    >>> "<td>view_0</td>" in html
    True
    """
    model: Model = estimator.model_
    sentences = [_describe_rows(model)]
    if (found := model.view_similarity) is not None:
        sentences += describe_similarity(found, model.names, model.trained_on.get("linked", 0))[:1]
    parts = [
        f"<strong>{escape(type(estimator).__name__)}</strong>, fitted",
        *(f"<div>{escape(sentence)}</div>" for sentence in sentences),
        _table(*_list_views(model)),
        *(f"<div><strong>Warning:</strong> {escape(w)}</div>" for w in model.warnings),
    ]
    return f'<div class="hotview">{"".join(parts)}</div>'


def _describe_rows(model: Model) -> str:
    trained_on = model.trained_on
    parts = [f"{trained_on.get('linked', 0):,} linked rows"]
    if classes := trained_on.get("classes") or []:
        n_labels = sum(n for _, n in classes)
        parts.append(f"{n_labels:,} labels of {len(classes)} classes")
    text = ", ".join(parts) + "."
    scores = model.out_of_fold.get("all views")
    if scores and classes:
        text += f" Accuracy on {scores['n']:,} labels that were left out: "
        text += f"{100 * scores['accuracy']:.1f} %."
        name, n_most = max(classes, key=lambda of_class: of_class[1])
        text += f" Of all labels, {100 * n_most / n_labels:.1f} % are {name!r}."
    return text


def _list_views(model: Model) -> tuple[list[str], list[list[str]]]:
    """Return headings, and name, columns, unlinked rows and accuracy of every view."""
    unaligned = model.trained_on.get("unaligned", {})
    scores, rows = model.out_of_fold, []
    for name, n_columns in list(model.n_features_per_view.items())[:_MAX_VIEWS]:
        cells = [name, f"{n_columns:,}", f"{unaligned.get(name, 0):,}"]
        if scores:
            own = scores.get(name)
            cells.append("–" if own is None else f"{100 * own['accuracy']:.1f}")
        rows.append(cells)
    if (n_more := model.n_views - len(rows)) > 0:
        rows.append([f"and {n_more} more"])
    accuracy = ["accuracy, left-out labels (%)"] if scores else []
    return ["view", "columns", "unlinked rows", *accuracy], rows


def _table(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(heading)}</th>" for heading in headings)
    body = "".join(
        f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>" for cells in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
