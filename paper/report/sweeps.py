"""Figures 3 and 4: accuracy against one parameter at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from hotview.report.figures import new_figure
from paper.catalog import GRIDS, value_of
from paper.cells import Cell, control_of
from paper.markdown import section, table
from paper.models import SETTINGS
from paper.report.curves import plot_curve
from paper.report.parts import (
    SETTINGS_WORDS,
    Part,
    join_parts,
    missing_words,
    not_run,
    picture,
    written_difference,
    written_score,
)
from paper.report.results import Entry, Outcome, Results, difference

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "LETTERS", "Sweep", "find_sweeps", "sweeps_part"]

#: Figure → the table whose task it has.
FIGURES: Mapping[str, str] = {"figure3": "table3", "figure4": "table2"}

#: What the paper calls what the figures vary.
LETTERS: Mapping[str, str] = {
    "batch_size": "batch size",
    "n_projections": "projections M",
    "n_references": "references K",
    "orthogonality_weight": "α (orthogonality_weight)",
    "regularizer_weight": "τ (regularizer_weight)",
    "coupling_weight": "γ (coupling_weight)",
}

_TITLES = {
    "figure3": "Figure 3: batch size, projections and references",
    "figure4": "Figure 4: the weights α, τ and γ",
}
_WORDS = """Mean ± standard deviation over the trials. The dashed line and the band are the same \
without coupling (of the table, at its usual settings); the dotted line marks the paper's value. \
Differences are to that value, on the same splits."""


@dataclass(frozen=True)
class Sweep:
    """Accuracy along the values of one parameter, all else fixed.

    Parameters
    ----------
    figure : str
        Where it is shown.
    parameter : str
        What varies.
    settings : str
        What is fixed.
    points : mapping of float to Entry
        What was found at each value, in their order.
    control : Entry or None
        The same without coupling.

    Examples
    --------
    >>> from paper.report.sweeps import Sweep
    >>> Sweep("figure3", "n_references", "paper", {}, None).marked
    3.0
    """

    figure: str
    parameter: str
    settings: str
    points: Mapping[float, Entry]
    control: Entry | None

    @property
    def marked(self) -> float:
        """The paper's value."""
        return float(SETTINGS[self.parameter])


def find_sweeps(results: Results, figure: str) -> list[Sweep]:
    """Collect the sweeps of a figure.

    Parameters
    ----------
    results : Results
        All results.
    figure : str
        ``"figure3"`` or ``"figure4"``.

    Returns
    -------
    list of Sweep
        Those that were run, settings by settings.

    Examples
    --------
    >>> from paper.report.results import Results
    >>> from paper.report.sweeps import find_sweeps
    >>> find_sweeps(Results({}), "figure3")
    []
    """
    outcome = results.outcomes.get(figure)
    if outcome is None:
        return []
    found = (
        _sweep(results, outcome, dataset, parameter, settings)
        for dataset in outcome.datasets
        for settings in SETTINGS_WORDS
        for parameter in GRIDS[figure]
    )
    return [sweep for sweep in found if sweep.points]


def _sweep(
    results: Results, outcome: Outcome, dataset: str, parameter: str, settings: str
) -> Sweep:
    method, _ = GRIDS[outcome.name][parameter]
    entries = [
        entry
        for entry in outcome.select(dataset=dataset, method=method, settings=settings)
        if {name for name, _ in entry.cell.overrides} <= {parameter}
    ]
    entries.sort(key=lambda entry: float(value_of(entry.cell, parameter)))
    points = {float(value_of(entry.cell, parameter)): entry for entry in entries}
    usual = replace(entries[0].cell, overrides=()) if entries else None
    control = results.find(FIGURES[outcome.name], _uncoupled(usual))
    return Sweep(outcome.name, parameter, settings, points, control)


def _uncoupled(cell: Cell | None) -> Cell | None:
    return None if cell is None else control_of(cell)


def sweeps_part(results: Results, figure: str) -> Part:
    """Show figure 3 or 4.

    Parameters
    ----------
    results : Results
        All results.
    figure : str
        ``"figure3"`` or ``"figure4"``.

    Returns
    -------
    Part
        A picture per settings, and the numbers in it.

    Examples
    --------
    >>> from paper.report.results import Results
    >>> from paper.report.sweeps import sweeps_part
    >>> sweeps_part(Results({}), "figure4").text.splitlines()[-1]
    'Not run; `python -m paper run figure4` runs it.'
    """
    title = _TITLES[figure]
    if figure not in results.outcomes:
        return join_parts(title, [Part(not_run(figure))])
    sweeps = find_sweeps(results, figure)
    parts = (_settings_part(figure, settings, sweeps) for settings in SETTINGS_WORDS)
    return join_parts(title, [Part(_WORDS), *parts])


def _settings_part(figure: str, settings: str, sweeps: list[Sweep]) -> Part:
    chosen = [sweep for sweep in sweeps if sweep.settings == settings]
    words = SETTINGS_WORDS[settings]
    if not chosen:
        return Part("")
    name = f"{figure}-{settings}.svg"
    shown = picture(name, f"Accuracy against the parameters, {words}")
    header = ["parameter", "value", "accuracy", "to the paper's value"]
    rows = (row for sweep in chosen for row in _rows(sweep))
    text = section(words[0].upper() + words[1:], shown, table(header, rows, words=1), level=3)
    return Part(text, {name: partial(_draw, chosen)})


def _rows(sweep: Sweep) -> Iterator[list[str]]:
    usual = sweep.points.get(sweep.marked)
    for value, entry in sweep.points.items():
        gain = None if entry is usual else difference(entry, usual)
        yield [
            LETTERS[sweep.parameter],
            f"{value:g}{missing_words(entry.missing)}",
            written_score(entry.score()),
            written_difference(gain),
        ]


def _draw(sweeps: list[Sweep]) -> Figure:
    figure, axes = new_figure(len(sweeps), panel_size=4.2)
    for sweep, ax in zip(sweeps, axes, strict=True):
        _draw_sweep(sweep, ax)
    axes[0].set_ylabel("test accuracy, %")
    _share_scale(axes)
    handles = {
        label: h for ax in axes for h, label in zip(*ax.get_legend_handles_labels(), strict=True)
    }
    figure.legend(handles.values(), handles, loc="outside lower center", ncols=3, frameon=False)
    return figure


def _draw_sweep(sweep: Sweep, ax: Axes) -> None:
    control, entries = sweep.control, list(sweep.points.values())
    plot_curve(
        [f"{value:g}" for value in sweep.points],
        [_known(entry) for entry in entries],
        ax=ax,
        label="mean ± standard deviation",
        control=("no coupling", _known(control)) if control else None,
        marked=("the paper's value", f"{sweep.marked:g}"),
        title=f"{LETTERS[sweep.parameter]}: {entries[0].cell.method}",
    )


def _known(entry: Entry) -> list[float]:
    return [score for score in entry.scores["test"] if score is not None]


def _share_scale(axes: list[Axes]) -> None:
    """One scale for all panels, so that a steep curve looks steep."""
    limits = [ax.get_ylim() for ax in axes]
    for ax in axes:
        ax.set_ylim(min(low for low, _ in limits), max(high for _, high in limits))
