"""Scales and labels of SVG charts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Axis", "Frame", "shorten", "ticks", "whole_ticks"]


def shorten(text: str, n: int) -> str:
    """Return a name with its middle left out if it has more than n characters.

    Examples
    --------
    >>> from hotview.report.page.scales import shorten
    >>> shorten("morphological", 6), shorten("pix", 6)
    ('mor…al', 'pix')
    """
    if len(text) <= n:
        return text
    end = (n - 1) // 2  # names often differ at their end
    return f"{text[: n - 1 - end]}…{text[-end:]}"


def ticks(low: float, high: float, n: int = 5) -> list[float]:
    """Return about n multiples of 1, 2 or 5 times a power of ten between two ends.

    Examples
    --------
    >>> from hotview.report.page.scales import ticks
    >>> ticks(0.0, 1.0), ticks(3.0, 3.0)
    ([0.0, 0.2, 0.4, 0.6, 0.8, 1.0], [3.0])
    """
    if not high > low:
        return [low]
    raw = (high - low) / n
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(step * power for step in (1, 2, 5, 10) if step * power >= raw * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(k * step, 12) for k in range(first, last + 1)]


def whole_ticks(first: int, last: int) -> list[float]:
    """Return whole numbers between two ends."""
    if last - first < 12:
        step = 1 if last - first < 6 else 2
        return [float(k) for k in range(first, last + 1, step)]
    return ticks(float(first), float(last), 4)


@dataclass(frozen=True)
class Axis:
    """Title of an axis, values of its ticks and how to format them."""

    title: str
    ticks: Sequence[float]
    text: Callable[[float], str]


@dataclass(frozen=True)
class Frame:
    """Inner rectangle of a chart with linear scales: `x` and `y` are the values at its edges."""

    left: float
    top: float
    right: float
    bottom: float
    x: tuple[float, float] = (0.0, 1.0)
    y: tuple[float, float] = (0.0, 1.0)

    def at_x(self, value: float) -> float:
        """Return the horizontal position of a value."""
        low, high = self.x
        fraction = (value - low) / (high - low) if high > low else 0.5
        return self.left + (self.right - self.left) * fraction

    def at_y(self, value: float) -> float:
        """Return the vertical position of a value."""
        low, high = self.y
        fraction = (value - low) / (high - low) if high > low else 0.5
        return self.bottom - (self.bottom - self.top) * fraction

    def path(self, x: Iterable[float], y: Iterable[float]) -> str:
        """Return a line through points, interrupted where y is not finite."""
        parts, pen = [], "M"
        for a, b in zip(x, y, strict=True):
            if math.isfinite(b):
                parts.append(f"{pen}{self.at_x(a):.1f} {self.at_y(b):.1f}")
            pen = "L" if math.isfinite(b) else "M"
        return "".join(parts)
