"""Sentences about the similarity of views, the same on the command line and in the report."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from hotview._types import Array, IntArray
from hotview.similarity.common_space import CommonSpace
from hotview.similarity.view_similarity import (
    MAX_ROWS,
    PairSimilarity,
    ViewSimilarity,
    replaces_total,
)

__all__ = ["describe_common_space", "describe_shapes", "describe_similarity", "name_groups"]

_SIGNIFICANT = 0.05
_FEW_VIEWS = 3  # whose pairs are all named
_SCALE = "on a scale from 0 (unrelated) to 1 (rows are equally far apart in both)"

Pairs = list[tuple[int, int]]


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
    pairs = [pair for pair in combinations(range(len(names)), 2) if np.isfinite(found.value[pair])]
    if len(names) <= _FEW_VIEWS:
        sentences = _describe_pairs(found, names, pairs, n_linked)
    else:
        sentences = [_describe_shared(found, names, pairs, n_linked)]
        sentences += [_describe_range(found, names, pairs), _describe_groups(found, names)]
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
    if S > _FEW_VIEWS and p_value > _SIGNIFICANT:
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
    S = len(names)
    pairs = [pair for pair in combinations(range(S), 2) if np.isfinite(found.foscttm[pair])]
    n = [int(found.n_rows[pair]) for pair in pairs]
    count = f"{n[0]}" if min(n) == max(n) else f"{min(n)} to {max(n)}"
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
    found: ViewSimilarity, names: Sequence[str], pairs: Pairs, n_linked: int
) -> list[str]:
    """All pairs of two or three views."""
    parts = []
    for s, t in pairs:
        verb = "share" if found.p_value[s, t] <= _SIGNIFICANT else "do not measurably share"
        p = f"p = {found.p_value[s, t]:.3f}"
        which = f"{names[s]!r} and {names[t]!r} {verb} information"
        parts.append(f"{which}, similarity {_interval(found, s, t)}, {p}")
    total = f"By {_count_rows(found, pairs, n_linked)}, {'; '.join(parts)}; {_SCALE}."
    within, known = found.within_classes, []
    for s, t in pairs:
        if within is not None and np.isfinite(within.value[s, t]):
            which = "" if len(names) == 2 else f" for {names[s]!r} and {names[t]!r}"
            known.append(f"{_interval(within, s, t)}{which}")
    text = f"Within classes, beyond what the class explains, it is {'; '.join(known)}."
    return [total, text] if known else [total]


def _describe_shared(
    found: ViewSimilarity, names: Sequence[str], pairs: Pairs, n_linked: int
) -> str:
    """How many pairs share information, and which views share none."""
    shared = np.zeros(found.value.shape, dtype=bool)
    for pair in pairs:
        shared[pair] = shared[pair[::-1]] = found.p_value[pair] <= _SIGNIFICANT
    n = int(shared.sum()) // 2
    how = f"(p ≤ {_SIGNIFICANT} after correction for {len(pairs)} pairs)"
    by = f"By {_count_rows(found, pairs, n_linked)},"
    if n == 0:
        return f"{by} no two views measurably share information {how}."
    if n == len(pairs):
        return f"{by} every pair of views shares information {how}."
    compared = [any(s in pair for pair in pairs) for s in range(len(names))]
    alone = [repr(name) for s, name in enumerate(names) if compared[s] and not shared[s].any()]
    rest = f"; {_join(alone)} with no other view measurably" if alone else ""
    return f"{by} {n} of {len(pairs)} pairs of views share information {how}{rest}."


def _describe_range(found: ViewSimilarity, names: Sequence[str], pairs: Pairs) -> str:
    """The most and the least similar pair."""
    most = max(pairs, key=lambda pair: float(found.value[pair]))
    least = min(pairs, key=lambda pair: float(found.value[pair]))
    text = (
        f"Most similar are {names[most[0]]!r} and {names[most[1]]!r}, {_interval(found, *most)}; "
        f"least, {names[least[0]]!r} and {names[least[1]]!r}, {_interval(found, *least)}; {_SCALE}."
    )
    within = found.within_classes
    if within is None or not np.isfinite([within.value[most], within.value[least]]).all():
        return text
    left = " and ".join(_number(float(within.value[pair])) for pair in (most, least))
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


def _interval(found: PairSimilarity, s: int, t: int) -> str:
    value, low, high = (float(x[s, t]) for x in (found.value, found.low, found.high))
    if found.p_value[s, t] <= _SIGNIFICANT:  # then 0 is the least that it can be
        low = max(low, 0.0)
    return f"{_number(value)} (95 % interval {_number(low)} to {_number(high)})"


def _number(x: float) -> str:
    return f"{round(x, 2) + 0.0:.2f}".replace("-", "−")


def _count_rows(found: PairSimilarity, pairs: Pairs, n_linked: int) -> str:
    n = [int(found.n_rows[pair]) for pair in pairs]
    if max(n) == MAX_ROWS < n_linked:
        return f"a sample of {n_linked:,} linked rows ({MAX_ROWS} of every pair)"
    return f"{n[0]} linked rows" if min(n) == max(n) else f"{min(n)} to {max(n)} linked rows"


def _join(names: Sequence[str]) -> str:
    *first, last = names
    return f"{', '.join(first)} and {last}" if first else last
