"""The common space as a cloud of points that can be asked who they are."""

from __future__ import annotations

import json

import numpy as np
from numpy.typing import NDArray

from hotview.evaluation.record.schema import Layout, Space
from hotview.report.page.markup import Markup, join, tag
from hotview.report.page.svg import chart, mark, view_color
from hotview.report.palette import CLASS_COLORS

__all__ = ["space_chart"]

_WIDTH, _HEIGHT, _ROOM = 720.0, 500.0, 14.0
_SIZE = 3.2
_CLASSES = 40  # that a legend names


def space_chart(space: Space, views: list[str], classes: list[str]) -> Markup:
    """Draw the points, with switches for their colors, their layout and their views.

    Parameters
    ----------
    space : Space
        The points.
    views, classes : list of str
        Names.

    Returns
    -------
    Markup
        Controls, the drawing, and the data that the page's script reads.

    Examples
    --------
    >>> from hotview.evaluation.record.schema import Layout, Space
    >>> from hotview.report.page.embedding import space_chart
    >>> layout = Layout("PCA", ["first", "second"], [[0.0, 0.0], [1.0, 1.0]])
    >>> space = Space([layout], [0, 1], [0, 0], [-1, -1], [-1, -1], ["a"], True, 2)
    >>> space_chart(space, ["pix", "mor"], []).count("<circle")
    4
    """
    places = [_fit(layout) for layout in space.layouts]
    there = sorted(set(space.views))
    groups = [_group(space, s, places[0]) for s in there]
    drawing = chart(
        _WIDTH,
        _HEIGHT,
        "Points of the common space. Arrow keys move from individual to individual.",
        *groups,
        tag("path", d="", class_="bond"),
        role="application",
        tabindex="0",
        class_="chart cloud",
    )
    controls = [_color_switch(space), _layout_switch(space), _view_switches(there, views)]
    return tag(
        "div",
        tag("div", *controls, class_="controls"),
        tag("div", drawing, tag("div", class_="tip", hidden=True), class_="stage"),
        tag("p", *_axes(space.layouts), class_="note"),
        tag("p", class_="told", role="status"),
        _legend(space, classes),
        _data(space, views, classes, places),
        class_="space by-view",
        id="cloud",
    )


def _fit(layout: Layout) -> NDArray[np.float64]:
    """Places inside the drawing; both axes have the same unit."""
    X = np.asarray(layout.places, dtype=float).reshape(-1, 2)
    low, high = (X.min(axis=0), X.max(axis=0)) if len(X) else (np.zeros(2), np.ones(2))
    room = np.array([_WIDTH, _HEIGHT]) - 2 * _ROOM
    extent = np.maximum(high - low, 1e-12)
    unit = float(np.min(room / extent))
    middle = (X - (low + high) / 2) * unit * [1, -1] + [_WIDTH / 2, _HEIGHT / 2]
    found: NDArray[np.float64] = middle.round(1)
    return found


def _group(space: Space, s: int, places: NDArray[np.float64]) -> Markup:
    """The points of a view, which have its color unless they are colored by class."""
    return tag("g", *_points(space, s, places), class_=f"points of-{s}", fill=view_color(s))


def _points(space: Space, s: int, places: NDArray[np.float64]) -> list[Markup]:
    found = []
    for i, view in enumerate(space.views):
        if view == s:
            x, y = places[i]
            look = f"{_class('c', space.truth[i])} {_class('p', space.predicted[i])}"
            found.append(mark(x, y, s, _SIZE, class_=look, data_i=str(i), fill=None))
    return found


def _class(letter: str, k: int) -> str:
    return f"{letter}-none" if k < 0 else f"{letter}{k % len(CLASS_COLORS)}"


def _switch(legend: str, name: str, options: list[tuple[str, str]]) -> Markup:
    """Radio buttons, of which the first is chosen."""
    buttons = [
        tag("label", tag("input", type="radio", name=name, value=value, checked=i == 0), text)
        for i, (value, text) in enumerate(options)
    ]
    return tag("fieldset", tag("legend", legend), *buttons)


def _color_switch(space: Space) -> Markup:
    options = [("view", "view")]
    options += [("class", "class")] if max(space.truth, default=-1) >= 0 else []
    options += [("predicted", "predicted class")] if max(space.predicted, default=-1) >= 0 else []
    return _switch("Color by", "color", options)


def _layout_switch(space: Space) -> Markup:
    if len(space.layouts) < 2:
        return Markup("")
    return _switch("Layout", "layout", [(str(k), x.name) for k, x in enumerate(space.layouts)])


def _view_switches(there: list[int], views: list[str]) -> Markup:
    boxes = [
        tag(
            "label",
            tag("input", type="checkbox", name="view", value=str(s), checked=True),
            _swatch(s),
            views[s],
        )
        for s in there
    ]
    return tag("fieldset", tag("legend", "Views"), *boxes)


def _swatch(s: int) -> Markup:
    return chart(12.0, 12.0, "", mark(6.0, 6.0, s, 4.0), class_="swatch", aria_hidden="true")


def _legend(space: Space, classes: list[str]) -> Markup:
    used = sorted({k for k in (*space.truth, *space.predicted) if 0 <= k < len(classes)})
    if not used:
        return Markup("")
    items = [
        tag("li", tag("i", style=f"background:var(--class-{k % len(CLASS_COLORS)})"), classes[k])
        for k in used[:_CLASSES]
    ]
    if len(used) > _CLASSES:
        items.append(tag("li", f"and {len(used) - _CLASSES} more"))
    return tag("ul", *items, class_="legend", aria_label="Colors of the classes")


def _axes(layouts: list[Layout]) -> list[Markup]:
    """What the axes of every layout are; the script shows one of them."""
    said = []
    for k, layout in enumerate(layouts):
        across, up = layout.axes
        text = f"Across: {across}. Up: {up}." if across else _DISTANCES.format(layout.name)
        said.append(tag("span", text, class_="axes", data_layout=str(k), hidden=k > 0))
    return said


_DISTANCES = "{}: neighbors are kept together; distances and directions mean nothing."


def _data(
    space: Space, views: list[str], classes: list[str], places: list[NDArray[np.float64]]
) -> Markup:
    names = [*classes, "any other class"]
    facts = {
        "views": views,
        "classes": names,
        "view": space.views,
        "individual": space.individuals,
        "truth": space.truth,
        "predicted": space.predicted,
        "ids": space.ids,
        "linked": space.linked,
        "layouts": [found.tolist() for found in places],
    }
    text = json.dumps(facts, separators=(",", ":"))
    for character in "<>&":  # or text of the user's could end the element
        text = text.replace(character, f"\\u{ord(character):04x}")
    return join([tag("script", Markup(text), type="application/json", id="points")])
