"""Sentences about the similarity of views, the same on the command line and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from hotview._types import Array, IntArray
from hotview.similarity.alignment import MAX_ROWS
from hotview.similarity.common_space import CommonSpace
from hotview.similarity.view_similarity import (
    SIGNIFICANT,
    Pair,
    ViewSimilarity,
    replaces_total,
)

_FEW_VIEWS = 3  # whose pairs are all named
_SCALE = "on a scale from 0 (unrelated) to 1 (rows are equally far apart in both)"


def describe_similarity(
    found: ViewSimilarity, names: Sequence[str], n_linked: int = 0
) -> list[str]:
    """Say what linked rows show: which views share information, how much, and in which groups.

    Parameters
    ----------
    found : ViewSimilarity
        The similarities.
    names : sequence of str
        Names of the views.
    n_linked : int, default=0
        Number of all linked rows, of which a sample may have been compared.

    Returns
    -------
    list of str
        Sentences, three with four views and more.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import measure_similarity
    >>> from hotview.similarity.sentences import describe_similarity
    >>> random = np.random.default_rng(0)
    >>> X = random.normal(size=(60, 3))
    >>> found = measure_similarity([X, X + random.normal(size=X.shape)], [6, 12], random=random)
    >>> describe_similarity(found, ["labs", "vitals"])[0].partition(", similarity")[0]
    "By 60 linked rows, 'labs' and 'vitals' share information"
    """
    pairs = [pair for pair in found.pairs() if pair.is_known]
    if len(names) <= _FEW_VIEWS:
        sentences = _describe_pairs(found, names, pairs)
    else:
        sentences = [_describe_shared(names, pairs), _describe_range(found, names, pairs)]
        sentences.append(_describe_groups(found, names))
    n_rows = [pair.n_rows for pair in pairs]
    rows = f"{_range(n_rows)} linked rows"
    if max(n_rows) == MAX_ROWS < n_linked:
        rows = f"a sample of {n_linked:,} linked rows ({MAX_ROWS} of every pair)"
    sentences[0] = f"By {rows}, {sentences[0]}"
    n_left_out = len(names) * (len(names) - 1) // 2 - len(pairs)
    if n_left_out > 0:
        which = "1 pair has" if n_left_out == 1 else f"{n_left_out} pairs have"
        sentences[0] += f" {which} too few linked rows in common to be compared."
    return sentences


def describe_shapes(costs: Array, p_value: float, names: Sequence[str]) -> list[str]:
    """Say which views have similar shapes, where no rows are linked.

    Parameters
    ----------
    costs : ndarray of shape (S, S)
        Sliced Wasserstein costs between the principal components of the views.
    p_value : float
        That of the plan over them, against permuted views.
    names : sequence of str
        Names of the views.

    Returns
    -------
    list of str
        Two sentences.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.sentences import describe_shapes
    >>> costs = np.array([[0, 1, 3], [1, 0, 2], [3, 2, 0]])
    >>> describe_shapes(costs, 1.0, ["a", "b", "c"])[1].partition(":")[0]
    "In shape, 'a' and 'b' are most alike"
    """
    S = len(names)
    first = "No rows are linked, so that it cannot be measured what views share."
    s, t = min(combinations(range(S), 2), key=lambda pair: float(costs[pair]))
    which = "the views" if S == 2 else f"{names[s]!r} and {names[t]!r}"
    alike = f"In shape, {which} are {'compared' if S == 2 else 'most alike'}: "
    alike += f"the cost of transport between their principal components is {costs[s, t]:.3f}"
    if S > 2:
        alike += f", and {costs.max():.3f} between the least alike"
    if S > _FEW_VIEWS and p_value > SIGNIFICANT:
        alike += f"; permuted columns differ as much (p = {p_value:.2f})"
    return [first, f"{alike}. Tables of one shape need not share any information."]


def describe_common_space(found: CommonSpace, names: Sequence[str]) -> str:
    """Say whether latents of different views can be compared.

    Parameters
    ----------
    found : CommonSpace
        The measure, from linked rows that were held out.
    names : sequence of str
        Names of the views.

    Returns
    -------
    str
        A sentence.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity import measure_common_space
    >>> from hotview.similarity.sentences import describe_common_space
    >>> Z = np.random.default_rng(0).normal(size=(60, 2))
    >>> found = measure_common_space([Z[:9], Z[:9]], [Z, Z])
    >>> describe_common_space(found, ["labs", "vitals"]).partition(":")[0]
    'In the common space, rows of different views can be compared'
    """
    pairs = [p for p in combinations(range(len(names)), 2) if np.isfinite(found.foscttm[p])]
    count = _range([int(found.n_rows[pair]) for pair in pairs])
    verb = "can" if found.is_comparable else "cannot"
    text = (
        f"In the common space, rows of different views {verb} be compared: of {count} linked rows "
        f"that were held out, {100 * found.mean_foscttm:.0f} % of the rows of the other view are "
        f"nearer than the individual's own (FOSCTTM {_number(found.mean_foscttm)}, 95 % interval "
        f"{_number(found.low)} to {_number(found.high)}; chance is 0.50)"
    )
    if len(pairs) > 1:
        s, t = max(pairs, key=lambda pair: float(found.foscttm[pair]))
        text += f", least near are {names[s]!r} and {names[t]!r}, {_number(found.foscttm[s, t])}"
    return f"{text}."


def name_groups(groups: IntArray, names: Sequence[str]) -> list[list[str]]:
    """Names of the views of every group, largest groups first.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.similarity.sentences import name_groups
    >>> name_groups(np.array([0, 1, 1]), ["a", "b", "c"])
    [['b', 'c'], ['a']]
    """
    labels = groups.tolist()
    found = [
        [name for name, group in zip(names, labels, strict=True) if group == k]
        for k in sorted(set(labels))
    ]
    return sorted(found, key=lambda group: -len(group))


def _describe_pairs(
    found: ViewSimilarity, names: Sequence[str], pairs: Sequence[Pair]
) -> list[str]:
    """All pairs of two or three views, and what they share within classes."""
    parts = []
    for pair in pairs:
        verb = "share" if pair.is_significant else "do not measurably share"
        which = f"{_both(pair, names)} {verb} information"
        parts.append(f"{which}, similarity {_interval(pair)}, p = {pair.p_value:.3f}")
    total = f"{'; '.join(parts)}; {_SCALE}."
    within = [] if found.within_classes is None else found.within_classes.pairs()
    known = [
        _interval(pair) + ("" if len(names) == 2 else f" for {_both(pair, names)}")
        for pair in within
        if pair.is_known
    ]
    text = f"Within classes, beyond what the class explains, it is {'; '.join(known)}."
    return [total, text] if known else [total]


def _describe_shared(names: Sequence[str], pairs: Sequence[Pair]) -> str:
    """How many pairs share information, and which views share none."""
    shared = [pair for pair in pairs if pair.is_significant]
    how = f"(p ≤ {SIGNIFICANT} after correction for {len(pairs)} pairs)"
    if not shared:
        return f"no two views measurably share information {how}."
    if len(shared) == len(pairs):
        return f"every pair of views shares information {how}."
    compared, connected = (
        {s for p in some for s in (p.first, p.second)} for some in (pairs, shared)
    )
    alone = [repr(names[s]) for s in sorted(compared - connected)]
    rest = f"; {_join(alone)} with no other view measurably" if alone else ""
    return f"{len(shared)} of {len(pairs)} pairs of views share information {how}{rest}."


def _describe_range(found: ViewSimilarity, names: Sequence[str], pairs: Sequence[Pair]) -> str:
    """The most and the least similar pair."""
    ends = [choose(pairs, key=lambda pair: pair.value) for choose in (max, min)]
    most, least = (f"{_both(pair, names)}, {_interval(pair)}" for pair in ends)
    text = f"Most similar are {most}; least, {least}; {_SCALE}."
    if found.within_classes is None:
        return text
    within = [float(found.within_classes.value[pair.first, pair.second]) for pair in ends]
    if not np.isfinite(within).all():
        return text
    left = " and ".join(map(_number, within))
    return f"{text} Within classes, beyond what the class explains, these are {left}."


def _describe_groups(found: ViewSimilarity, names: Sequence[str]) -> str:
    """The groups that hold, or that there are none."""
    if np.isnan(found.value).any():
        return "Groups of views are not looked for: not all pairs could be compared."
    if found.groups is None:
        return (
            "No stable groups of views: which views are more similar to each other than to others "
            "changes between random halves of the linked rows, or differs too little."
        )
    groups = name_groups(found.groups, names)
    together = "; ".join(_join(list(map(repr, group))) for group in groups if len(group) > 1)
    alone = [repr(group[0]) for group in groups if len(group) == 1]
    each = "" if len(alone) < 2 else "each of "
    rest = f"; {each}{_join(alone)} is in no group" if alone else ""
    within = found.within_classes
    where = " within classes" if within and replaces_total(within, found) else ""
    return (
        f"Groups of views that hold: {together}{rest}. In {100 * found.stability:.0f} % of random "
        f"halves of the linked rows, all pairs of a group are more similar{where} than all others."
    )


def _both(pair: Pair, names: Sequence[str]) -> str:
    return f"{names[pair.first]!r} and {names[pair.second]!r}"


def _interval(pair: Pair) -> str:
    low = max(pair.low, 0.0) if pair.is_significant else pair.low  # 0 is the least that it can be
    return f"{_number(pair.value)} (95 % interval {_number(low)} to {_number(pair.high)})"


def _number(x: float) -> str:
    return f"{round(x, 2) + 0.0:.2f}".replace("-", "−")


def _range(n: Sequence[int]) -> str:
    return f"{n[0]}" if min(n) == max(n) else f"{min(n)} to {max(n)}"


def _join(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
