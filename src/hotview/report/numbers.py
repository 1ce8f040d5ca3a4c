"""How numbers are written for people: true minus signs, and a dash for none."""

from __future__ import annotations

import numpy as np

__all__ = ["ABSENT", "number", "signed"]

#: Stands where there is no number.
ABSENT = "–"


def number(x: float, digits: int = 1) -> str:
    """Write a number with a true minus sign, and never a negative zero.

    Parameters
    ----------
    x : float
        The number; NaN is written as a dash.
    digits : int, default=1
        Decimals.

    Returns
    -------
    str
        The number.

    Examples
    --------
    >>> from hotview.report.numbers import number
    >>> number(-1.25, 2), number(-0.01), number(float("nan"))
    ('−1.25', '0.0', '–')
    """
    if np.isnan(x):
        return ABSENT
    text = f"{abs(x):.{digits}f}"
    return f"−{text}" if x < 0 and float(text) else text


def signed(x: float, digits: int = 1) -> str:
    """Write a difference, with its sign.

    Parameters
    ----------
    x : float
        The difference.
    digits : int, default=1
        Decimals.

    Returns
    -------
    str
        The difference.

    Examples
    --------
    >>> from hotview.report.numbers import signed
    >>> signed(0.25, 2), signed(-3.0), signed(-0.01)
    ('+0.25', '−3.0', '0.0')
    """
    text = number(x, digits)
    return f"+{text}" if x > 0 and float(text) else text
