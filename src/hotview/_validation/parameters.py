"""Validation of parameters: numbers in a range, and choices from a list."""

import difflib
import math
from collections.abc import Callable, Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

#: raises an error that begins with the name if the value is invalid
Check = Callable[[str, Any], object]


def check_values(
    values: Mapping[str, Any],
    checks: Mapping[str, Check],
    *,
    prefix: str = "",
    optional: Iterable[str] = (),
) -> None:
    """Check every value that has a check of its name.

    Parameters
    ----------
    values : dict of str to object
        The parameters.
    checks : dict of str to callable
        Functions of this module, by name of the parameter.
    prefix : str, default=""
        Put before the names, for the error.
    optional : iterable of str, default=()
        Parameters that may be None.

    Examples
    --------
    >>> from hotview._validation import check_count, check_values
    >>> check_values({"n_views": 6, "patience": None}, {"n_views": check_count})
    """
    for name, value in values.items():
        if name in checks and not (value is None and name in optional):
            checks[name](prefix + name, value)


def check_share(name: str, share: Any, *, below_one: bool = False) -> float:
    """Check that a parameter is a share, a number from 0 to 1.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    share : float
        Its value.
    below_one : bool, default=False
        Whether 1 is not allowed.

    Returns
    -------
    float
        The share.

    Examples
    --------
    >>> from hotview._validation import check_share
    >>> check_share("labeled", 0.05)
    0.05
    """
    if not _is_number(share) or not 0 <= float(share) <= 1:  # not NaN either
        raise ValueError(
            f"Expected {name} to be a share, a number from 0 to 1, but it is {share!r}. "
            f"For five percent write {name}=0.05."
        )
    if below_one and share == 1:
        raise ValueError(f"Expected {name} below 1, but it is {share!r}. Use 0.9.")
    return float(share)


def check_count(name: str, count: Any, *, at_least: int = 1) -> int:
    """Check that a parameter is a whole number of at least `at_least`.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    count : int
        Its value.
    at_least : int, default=1
        Smallest allowed value.

    Returns
    -------
    int
        The number.

    Examples
    --------
    >>> from hotview._validation import check_count
    >>> check_count("n_views", 6)
    6
    """
    if isinstance(count, bool) or not isinstance(count, Integral) or count < at_least:
        rounded = round(count) if _is_number(count) and math.isfinite(count) else 0
        raise ValueError(
            f"Expected {name} to be a whole number of at least {at_least}, but it is {count!r}. "
            f"Pass an int, as in {name}={max(rounded, at_least, 1)}."
        )
    return int(count)


def check_weight(name: str, weight: Any, *, infinite: bool = False) -> float:
    """Check that a parameter is a weight: a finite number of at least 0.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    weight : float
        Its value.
    infinite : bool, default=False
        Whether infinity is allowed, for a constraint that is to be met exactly.

    Returns
    -------
    float
        The weight.

    Examples
    --------
    >>> from hotview._validation import check_weight
    >>> check_weight("regularizer_weight", 0)
    0.0
    """
    if infinite and weight == math.inf:
        return math.inf
    if not _is_number(weight) or not 0 <= float(weight) < math.inf:
        raise ValueError(
            f"Expected {name} to be a finite number of at least 0, but it is {weight!r}. "
            f"Write {name}=0 to switch it off."
        )
    return float(weight)


def check_positive(name: str, number: Any) -> float:
    """Check that a parameter is a positive, finite number.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    number : float
        Its value.

    Returns
    -------
    float
        The number.

    Examples
    --------
    >>> from hotview._validation import check_positive
    >>> check_positive("learning_rate", 0.001)
    0.001
    """
    if not _is_number(number) or not 0 < float(number) < math.inf:
        raise ValueError(
            f"Expected {name} to be a positive, finite number, but it is {number!r}. "
            f"Pass a float, as in {name}=0.1."
        )
    return float(number)


def check_switch(name: str, switch: Any) -> bool:
    """Check that a parameter is True or False, or "no" would mean yes.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    switch : bool
        Its value.

    Returns
    -------
    bool
        The value.

    Examples
    --------
    >>> from hotview._validation import check_switch
    >>> check_switch("standardize", False)
    False
    """
    if not isinstance(switch, bool | np.bool_):
        raise ValueError(
            f"Expected {name} to be True or False, but it is {switch!r}. "
            f"Write {name}=False to do without."
        )
    return bool(switch)


def check_choice(name: str, choice: Any, choices: Iterable[str]) -> str:
    """Check that a parameter is one of some strings; the error suggests the nearest.

    Parameters
    ----------
    name : str
        Name of the parameter, for the error.
    choice : str
        Its value.
    choices : iterable of str
        Allowed values.

    Returns
    -------
    str
        The choice.

    Examples
    --------
    >>> from hotview._validation import check_choice
    >>> check_choice("reduction", "mean", ("mean", "sum"))
    'mean'
    """
    words = list(choices)
    if isinstance(choice, str) and choice in words:
        return choice
    raise ValueError(
        f"Expected {name} to be one of {', '.join(map(repr, words))}, but it is {choice!r}. "
        + suggest(choice, words, f"Write {name}={words[0]!r}, say.")
    )


def suggest(word: Any, words: Iterable[str], otherwise: str) -> str:
    """Return a sentence that suggests the nearest of some words, or another if none is near.

    Parameters
    ----------
    word : object
        What was given.
    words : iterable of str
        What was expected.
    otherwise : str
        The other sentence.

    Returns
    -------
    str
        The sentence.

    Examples
    --------
    >>> from hotview._validation.parameters import suggest
    >>> suggest("labz", ["blood", "labs"], "Rename it.")
    "Did you mean 'labs'?"
    """
    near = difflib.get_close_matches(str(word).lower(), list(words), n=1, cutoff=0.5)
    return f"Did you mean {near[0]!r}?" if near else otherwise


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool | np.bool_)
