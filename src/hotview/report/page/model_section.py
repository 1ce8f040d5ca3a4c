"""How the model learned, how it was set, and where it comes from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from hotview.evaluation.record.schema import Learning, Record
from hotview.report.page.dot_plot import Dot, dot_plot
from hotview.report.page.line_charts import curve_chart
from hotview.report.page.markup import Markup, join, numbers, table, tag
from hotview.report.page.sentences import NOT_RECORDED
from hotview.report.page.svg import figure

__all__ = ["learning_section", "origin_section"]


def learning_section(record: Record) -> list[Markup]:
    """Learning curves and effective ranks.

    Parameters
    ----------
    record : Record
        The record.

    Returns
    -------
    list of Markup
        Figures, or a sentence where nothing was recorded.
    """
    if record.learning is None:
        return [tag("p", "No history of the training was recorded.")]
    return [_curves(record.learning), *([_ranks(record)] if record.ranks else [])]


def _curves(learning: Learning) -> Markup:
    n = learning.n_estimators
    band = (
        f"Mean of {n} networks, in a band of one standard deviation." if n > 1 else "One network."
    )
    kept = len(learning.epochs)
    some = f" {kept} of {learning.n_epochs:,} epochs are drawn." if kept < learning.n_epochs else ""
    charts = [curve_chart(curve, learning.epochs) for curve in learning.terms]
    header = ["term", "first epoch", "last epoch", "spread of the last"]
    rows = [
        [c.name.replace("_", " "), f"{c.mean[0]:.4g}", f"{c.mean[-1]:.4g}", _number(c.std[-1])]
        for c in learning.terms
    ]
    behind = table(header, rows, caption="Terms of the loss")
    drawing = tag("div", *charts, class_="small-charts")
    note = f"{band}{some} Only terms that carry a weight above 0 steer the training."
    return tag("div", figure("Terms of the loss", note, drawing, numbers(behind)), class_="wide")


def _number(x: float) -> str:
    return "–" if x != x else f"{x:.4g}"


def _ranks(record: Record) -> Markup:
    rows = [
        (r.view, record.views.index(r.view),
         [Dot(r.mean, r.mean - r.std, r.mean + r.std, said=f"{r.mean:.1f} of {r.most}")])
        for r in record.ranks
    ]  # fmt: skip
    most = record.ranks[0].most
    drawing = dot_plot(
        rows,
        ends=(0.0, float(most)),
        title=f"effective rank, of {most} dimensions",
        text="{:.0f}".format,
        label="Effective rank of every view in the common space",
    )
    cells = [[r.view, f"{r.mean:.2f}", _number(r.std), str(r.most)] for r in record.ranks]
    header = ["view", "effective rank", "spread", "at most"]
    behind = table(header, cells, caption="Effective ranks")
    note = (
        "How many dimensions of the common space a view fills in the last epoch. Near 1, its rows "
        "have collapsed to a line, and it tells little."
    )
    return figure("Dimensions in use", note, drawing, numbers(behind))


def origin_section(record: Record) -> list[Markup]:
    """Warnings, settings, versions and the command.

    Parameters
    ----------
    record : Record
        The record.

    Returns
    -------
    list of Markup
        A part for each.
    """
    return [
        _part("Warnings of the training", _warnings(record)),
        _part("Reproduce this", _command(record)),
        _part("Settings", *_settings(record)),
        _part("Rows, files and versions", _facts(record)),
    ]


def _part(title: str, *inside: Markup) -> Markup:
    return tag("section", tag("h3", title), *inside)


def _warnings(record: Record) -> Markup:
    if record.remarks is None:
        return tag("p", f"Warnings were {NOT_RECORDED}.")
    if not record.remarks:
        return tag("p", "There were none.")
    return tag("ul", *(tag("li", remark) for remark in record.remarks), class_="warnings")


def _command(record: Record) -> Markup:
    command = record.notes.get("command")
    if not command:
        return tag("p", f"The command that trained this model was {NOT_RECORDED}.")
    button = tag("button", "Copy", type="button", class_="copy")
    code = tag("pre", tag("code", str(command)), tabindex="0", aria_label="Command")
    return tag("div", code, button, class_="command")


def _settings(record: Record) -> list[Markup]:
    changed = [s for s in record.settings if s.changed]
    rest = [s for s in record.settings if not s.changed]
    kept = "Files keep neither callbacks, own encoders, the device nor the seed."
    said = f"Settings that differ from the defaults: {len(changed)} of {len(record.settings)}."
    found = [tag("p", f"{said} {kept}", class_="note")]
    if changed:
        rows = [[s.name, s.value, s.default] for s in changed]
        found.append(table(["setting", "value", "default"], rows, caption="Changed", words=3))
    rows = [[s.name, s.value] for s in rest]
    usual = table(["setting", "value"], rows, caption="Settings at their defaults", words=2)
    return [*found, numbers(usual, "Settings at their defaults")]


def _facts(record: Record) -> Markup:
    told = record.trained_on
    rows = [[f"columns of {v}", str(n)] for v, n in zip(record.views, record.columns, strict=True)]
    if not told:
        rows.append(["training rows and versions", NOT_RECORDED])
    rows += [["linked rows", f"{told['linked']:,}"]] if "linked" in told else []
    rows += _pairs("unaligned rows of", told.get("unaligned"))
    classes = told.get("classes") or []
    rows += [[f"training rows of class {name}", f"{n:,}"] for name, n in classes]
    rows += _pairs("version of", told.get("versions"))
    files = record.notes.get("files")
    rows += [[f"file of {view}", _say_file(facts)] for view, facts in _items(files)]
    return numbers(table(["what", ""], rows, caption="Rows, files and versions", words=2), "Show")


def _pairs(what: str, facts: Any) -> list[list[str]]:
    return [[f"{what} {name}", f"{x:,}" if isinstance(x, int) else str(x)]
            for name, x in _items(facts)]  # fmt: skip


def _items(facts: Any) -> Iterable[tuple[Any, Any]]:
    return facts.items() if isinstance(facts, dict) else ()


def _say_file(facts: Any) -> Markup:
    if not isinstance(facts, dict):
        return join([str(facts)])
    told = [str(facts.get("path", NOT_RECORDED))]
    told += [f"sha256 {facts['sha256']}"] if "sha256" in facts else []
    return join(told, ", ")
