"""Link rows of several views that have the same id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from hotview._messages import Parameter, ParameterError, listed
from hotview._types import Array, IntArray
from hotview._validation import check_choice, check_one_line


@dataclass(frozen=True)
class LinkedRows:
    """Rows of several views that are the same individuals.

    Parameters
    ----------
    ids : ndarray
        Ids of the linked individuals, in the order of the first view, then of the next.
    rows : dict of str to ndarray of int64
        Rows of these ids in every view, −1 where an individual is absent from it.
    unaligned : dict of str to ndarray of int64
        The other rows of every view, in their order.

    Examples
    --------
    >>> from hotview.datasets import link_rows
    >>> link_rows({"blood": ["anna", "bert"], "scan": ["bert"]}).unaligned["blood"].tolist()
    [0]
    """

    ids: Array
    rows: dict[str, IntArray]
    unaligned: dict[str, IntArray]

    @property
    def pairs(self) -> dict[tuple[str, str], int]:
        """Number of individuals that two views have in common, for every pair of views."""
        present = {view: rows >= 0 for view, rows in self.rows.items()}
        return {(a, b): int((present[a] & present[b]).sum()) for a, b in combinations(present, 2)}

    @property
    def complete(self) -> Array:
        """Whether each linked individual is in all views."""
        n, views = len(self.ids), self.rows.values()
        return np.all([rows >= 0 for rows in views], axis=0) if self.rows else np.ones(n, bool)


def link_rows(
    ids: Mapping[str, Sequence[object] | Array], *, at_least: int | None = 2
) -> LinkedRows:
    """Link rows whose id occurs in several views.

    Parameters
    ----------
    ids : dict of str to sequence
        The ids of the rows, by view: unique and not missing.
    at_least : int or None, default=2
        Number of views that have a linked id; None is all of them.

    Returns
    -------
    LinkedRows
        Linked and unaligned rows.

    Examples
    --------
    >>> from hotview.datasets import link_rows
    >>> rows = link_rows({"blood": ["anna", "bert", "carl"], "scan": ["carl", "dora", "anna"]})
    >>> rows.ids.tolist(), rows.rows["scan"].tolist(), rows.unaligned["scan"].tolist()
    (['anna', 'carl'], [2, 0], [1])
    """
    all_ids, rows = align_rows(ids)
    n_views = np.sum([where >= 0 for where in rows.values()], axis=0)
    is_linked = n_views >= (len(rows) if at_least is None else at_least)
    linked = {view: where[is_linked] for view, where in rows.items()}
    unaligned = {view: np.sort(where[~is_linked & (where >= 0)]) for view, where in rows.items()}
    return LinkedRows(all_ids[is_linked], linked, unaligned)


def align_rows(ids: Mapping[str, Sequence[object] | Array]) -> tuple[Array, dict[str, IntArray]]:
    """Return all individuals of any view, and their row in every view.

    Parameters
    ----------
    ids : dict of str to sequence
        The ids of the rows, by view: unique and not missing.

    Returns
    -------
    ids : ndarray
        Ids of all views, in the order of the first view, then of the next.
    rows : dict of str to ndarray of int64
        Their rows in every view, −1 where they are absent.

    Examples
    --------
    >>> from hotview.data.linking import align_rows
    >>> all_ids, rows = align_rows({"blood": ["anna", "bert"], "scan": ["carl", "anna"]})
    >>> all_ids.tolist(), rows["scan"].tolist()
    (['anna', 'bert', 'carl'], [1, -1, 0])
    """
    row_of = {view: _rows_by_id(view, column) for view, column in ids.items()}
    all_ids = list(dict.fromkeys(key for rows in row_of.values() for key in rows))
    rows = {v: np.array([rows.get(key, -1) for key in all_ids], int) for v, rows in row_of.items()}
    return object_array(all_ids), rows


def object_array(values: Sequence[Any]) -> Array:
    """Return values as they are, ids of several types or labels with None, in a 1-D array."""
    array = np.empty(len(values), dtype=object)
    array[:] = values
    return array


def take_rows(X: Any, rows: IntArray) -> Any:
    """Return rows of a matrix, NaN throughout for −1; `X` itself if these are all, in order.

    Parameters
    ----------
    X : ndarray, csr_array or LazyRows
        The matrix.
    rows : ndarray of int64
        Positions of rows.

    Returns
    -------
    ndarray or csr_array
        The rows; where no row is present, a read-only array that takes no memory.
    """
    if len(rows) == X.shape[0] and (rows == np.arange(len(rows))).all():
        return X
    present = rows >= 0
    if present.all():
        return X[rows]
    shape = (len(rows), X.shape[1])
    if not present.any():
        return np.broadcast_to(np.float64(np.nan), shape)
    kept: Any = X[rows[present]]
    dense = kept.toarray() if hasattr(kept, "toarray") else kept
    taken = np.full(shape, np.nan, np.promote_types(dense.dtype, np.float32))
    taken[present] = dense
    return taken


def _rows_by_id(view: str, ids: Sequence[object] | Array) -> dict[object, int]:
    """Return the row of every id; raise if an id is missing or repeated."""
    values: list[object] = ids.tolist() if isinstance(ids, np.ndarray) else list(ids)
    missing = [i for i, value in enumerate(values) if value is None or value != value]
    if missing:
        raise ValueError(
            f"Expected every row of view {view!r} to have an id, but {len(missing)} have none, the "
            f"first being row {missing[0] + 1}. Give it one, or remove the row."
        )
    check_one_line(values, lambda i: f"the id of row {i + 1} of view {view!r}")
    rows = {value: i for i, value in enumerate(values)}
    if len(rows) < len(values):
        twice = [str(value) for value, n in Counter(values).items() if n > 1]
        raise ValueError(
            f"Expected every id once in view {view!r}, but {len(twice)} come more often: "
            f"{listed(twice)}. Keep one row of each, or make them columns of one row."
        )
    return rows


def _strip_zeros(key: str) -> str:
    """Return an id without the leading zeros of its numbers, and without ".0" behind a number.

    Examples
    --------
    >>> _strip_zeros("0033743.0"), _strip_zeros("P007-01"), _strip_zeros("1.05")
    ('33743', 'P7-1', '1.05')
    """
    match = re.fullmatch(r"(\d+)\.0+", key)
    return re.sub(r"(?<![\d.])0+(?=\d)", "", match[1] if match else key)


#: Differences in the spelling of ids that can be ignored: what each is, and how.
ID_DIFFERENCES: dict[str, tuple[str, Callable[[str], str]]] = {
    "spaces": ("spaces", lambda key: "".join(key.split())),
    "case": ("capital letters", str.casefold),
    "zeros": ("leading zeros or '.0' at the end", _strip_zeros),
}


@dataclass
class IdMatcher:
    """Spells ids that differ only in ways to be ignored like the first of them.

    Parameters
    ----------
    ignore : collection of {"zeros", "case", "spaces"}
        Differences to ignore; ``"exact"`` or none ignores nothing.
    known : dict of str to str
        The first spelling of every id, by what is left of it without the differences.

    Examples
    --------
    >>> matcher = IdMatcher(["zeros"])
    >>> matcher.spell("0033743"), matcher.spell("33743")
    ('0033743', '0033743')
    """

    ignore: Collection[str] = ()
    known: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if isinstance(self.ignore, str):
            raise TypeError(f"Expected match_ids to be a list. Write match_ids=[{self.ignore!r}].")
        for difference in self.ignore:
            check_choice("match_ids", difference, ("exact", *ID_DIFFERENCES))
        if "exact" in self.ignore and len(set(self.ignore)) > 1:
            text = f"match_ids is {listed(self.ignore)}, but 'exact' ignores no difference. "
            raise ParameterError(text, "Correct {match_ids}.")

    def simplify(self, key: str) -> str:
        """Return an id without the differences to ignore."""
        for difference, (_, strip) in ID_DIFFERENCES.items():
            if difference in self.ignore:
                key = strip(key)
        return key

    def spell(self, key: Any) -> Any:
        """Return the first spelling of an id; one that is not text is as it is."""
        return self.known.setdefault(self.simplify(key), key) if isinstance(key, str) else key

    def spell_all(self, table: str, ids: Sequence[Any]) -> list[Any]:
        """Return the first spellings of the ids of a table; raise if two of them become one."""
        spelled = [self.spell(key) for key in ids]
        if len(set(spelled)) < len(set(ids)):
            raise ParameterError(
                f"Expected different ids in {table}, but {_find_twins(ids, spelled)} are the same "
                "if differences are ignored. ",
                "Correct them, or pass {match_ids} with fewer differences.",
            )
        return spelled


def match_spellings(
    tables: Mapping[str, Sequence[Any]],
    ignore: Collection[str],
    others: Mapping[str, Sequence[Any]] | None = None,
) -> dict[str, list[Any]]:
    """Return the ids of tables in one spelling; raise if more would match in another one.

    Parameters
    ----------
    tables : dict of str to sequence of object
        Ids of every table, by a name for errors; None is a missing one.
    ignore : collection of str
        Differences that are ignored; see `IdMatcher`.
    others : dict of str to sequence of object, or None, default=None
        Ids of other tables, which are compared if no difference is ignored.
    """
    if not ignore:
        check_spellings({**tables, **(others or {})})
    matcher = IdMatcher(ignore)
    return {name: matcher.spell_all(name, ids) for name, ids in tables.items()}


def _find_twins(ids: Sequence[Any], spelled: Sequence[Any]) -> str:
    first: dict[Any, Any] = {}
    pairs = zip(ids, spelled, strict=True)
    return next(f"{first[s]!r} and {key!r}" for key, s in pairs if first.setdefault(s, key) != key)


def check_spellings(tables: Mapping[str, Sequence[Any]]) -> None:
    """Raise if ids of different tables would match but for spaces, case or leading zeros.

    Parameters
    ----------
    tables : dict of str to sequence of (str or None)
        Ids of every table, by a name for errors.
    """
    sets = {name: {key for key in ids if isinstance(key, str)} for name, ids in tables.items()}
    n_exact, _ = _count_matches(sets, IdMatcher())
    n_most, n_twins = _count_matches(sets, IdMatcher(tuple(ID_DIFFERENCES)))
    if n_most <= n_exact and not n_twins:
        return
    choices = [c for k in (1, 2, 3) for c in combinations(ID_DIFFERENCES, k)]
    counts = {choice: _count_matches(sets, IdMatcher(choice)) for choice in choices}
    gains = {choice: n - n_exact - n_twins for choice, (n, n_twins) in counts.items()}
    best = max(gains, key=lambda choice: gains[choice])  # the shortest of equal ones
    if gains[best] <= 0:  # where more ids become the same than match, the difference tells them
        return
    words = " and ".join(ID_DIFFERENCES[difference][0] for difference in best)
    matcher, seen, pairs, twins = IdMatcher(best), dict[str, tuple[str, str]](), [], ""
    for name, ids in sets.items():
        keys = sorted(ids)
        spelled = [matcher.simplify(key) for key in keys]
        if len(set(spelled)) < len(keys) and not twins:
            twins = f"{_find_twins(keys, spelled)} in {name} would then be the same: correct them "
            twins += "first. "
        for key, simple in zip(keys, spelled, strict=True):
            first, table = seen.setdefault(simple, (key, name))
            if first != key and table != name:
                pairs.append(f"{first!r} in {table} and {key!r} in {name}")
    raise ParameterError(
        f"{counts[best][0] - n_exact:,} more ids would match if {words} did not count, such as "
        f"{pairs[0]}. {twins}",
        "Pass {match_ids} to link them, or {exact} if they are different individuals.",
        match_ids=list(best),
        exact=Parameter("match_ids", ["exact"]),
    )


def _count_matches(sets: Mapping[str, set[str]], matcher: IdMatcher) -> tuple[int, int]:
    """Number of ids that an earlier table has, too, and of those that become another of theirs."""
    simplified = [{matcher.simplify(key) for key in ids} for ids in sets.values()]
    n_tables = Counter(key for ids in simplified for key in ids)
    n_twins = sum(map(len, sets.values())) - n_tables.total()
    return n_tables.total() - len(n_tables), n_twins
