"""Data frames indexed by person, linked to the arguments of a fit."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from hotview._messages import did_you_mean, listed, warn_user
from hotview._validation.containers import container_of, is_known
from hotview._validation.tables import name_views
from hotview.data.linking import (
    ID_DIFFERENCES,
    IdMatcher,
    link_rows,
    match_spellings,
    object_array,
)


class LinkedFrames(NamedTuple):
    """Data frames as arguments of a fit.

    Attributes
    ----------
    linked : dict of str to DataFrame
        Persons who are in two frames or more, or have a label: row i is one person in every frame,
        NaN throughout where a person is absent from it. All frames have the same index.
    y : Series
        Their labels, None where there is none.
    unaligned : dict of str to DataFrame
        All other rows, of each frame that has any.

    Examples
    --------
    >>> import pandas as pd
    >>> from hotview.datasets import from_frames
    >>> labs = pd.DataFrame({"iron": [9.0, 12.0]}, index=["anna", "bert"])
    >>> scan = pd.DataFrame({"size": [3.0]}, index=["anna"])
    >>> from_frames({"labs": labs, "scan": scan}).unaligned["labs"].index.tolist()
    ['bert']
    """

    linked: dict[str, Any]
    y: Any
    unaligned: dict[str, Any]


def from_frames(
    frames: Mapping[str, Any], labels: Any = None, *, match_ids: Sequence[str] = ()
) -> LinkedFrames:
    """Link the rows of pandas frames by their index, and assign the labels.

    Parameters
    ----------
    frames : dict of str to pandas DataFrame
        A frame per view, indexed by person. Every person is once in a frame.
    labels : pandas Series, dict, str or None, default=None
        Labels by person; or a column of labels in one or more of the frames, which is then no
        feature. None, NaN and persons who are not named have no label.
    match_ids : sequence of {"zeros", "case", "spaces", "exact"}, default=()
        Differences between ids that are text to ignore: leading zeros (and ".0" at the end),
        capital letters, spaces. ``["exact"]`` ignores none; by default it is an error if more ids
        would match.

    Returns
    -------
    LinkedFrames
        ``linked, y, unaligned``. The frames are not changed.

    Examples
    --------
    >>> import pandas as pd
    >>> import hotview as hv
    >>> labs = pd.DataFrame({"iron": [15.5, 9.0, 12.0]}, index=["anna", "bert", "carl"])
    >>> scan = pd.DataFrame({"size": [3.0, 4.0]}, index=["carl", "dora"])
    >>> linked, y, unaligned = hv.from_frames({"labs": labs, "scan": scan}, {"anna": "ill"})
    >>> list(y.items())
    [('anna', 'ill'), ('carl', None)]
    >>> linked["scan"]["size"].tolist(), unaligned["scan"].index.tolist()
    ([nan, 3.0], ['dora'])
    """
    import pandas as pd

    if not isinstance(frames, Mapping):
        raise TypeError(
            "Expected frames by the name of their view, but got a "
            f"{type(frames).__name__}. Pass {{'labs': df1, 'vitals': df2}}."
        )
    for name, frame in name_views(frames):
        if container_of(frame) != "pandas":
            raise TypeError(
                f"Expected view {name!r} to be a pandas DataFrame indexed by person, but it is a "
                f"{type(frame).__name__}. Convert it, as in df.to_pandas().set_index('id')."
            )
    indices = [frame.index for frame in frames.values()]
    if all(type(i).__name__ == "RangeIndex" and i.start == 0 and i.name is None for i in indices):
        raise ValueError(
            "Expected frames indexed by person, but all have pandas' default index, the number of "
            "the row. Index them, as in df.set_index('id')."
        )
    features, by_person = _split_labels(frames, labels)
    ids = {name: frame.index.tolist() for name, frame in features.items()}
    ids, by_person = _match(ids, by_person, match_ids)
    rows = link_rows(ids, at_least=1)
    n_frames = np.sum([where >= 0 for where in rows.rows.values()], axis=0)
    y = np.array([by_person.get(key) for key in rows.ids], dtype=object)
    has_label = np.array([label is not None for label in y], dtype=bool)
    if by_person and not has_label.any():
        ids = {**ids, "labels": list(by_person)}
        raise ValueError(
            f"Expected labels of persons in the frames, but no id matches. {_hint(ids)}"
        )
    if not (n_frames > 1).any():
        _check_labeled(ids, {n: (where >= 0)[has_label].any() for n, where in rows.rows.items()})
    elif alone := [n for n, where in rows.rows.items() if not (n_frames[where >= 0] > 1).any()]:
        warn_user(f"No person of {listed(alone)} is in another frame, so no row there is linked.")
    persons = set(rows.ids)
    if unknown := [key for key in by_person if key not in persons]:
        warn_user(
            f"{len(unknown):,} of {len(by_person):,} labels are of persons in no frame: "
            f"{listed(unknown)}"
        )
    chosen = (n_frames > 1) | has_label
    index = pd.Index(rows.ids[chosen].tolist(), tupleize_cols=False)
    linked, unaligned = {}, {}
    for name, frame in features.items():
        where = rows.rows[name][chosen]
        if (where < 0).any():  # in types that can hold missing values
            booleans = {n: "boolean" for n, dtype in frame.dtypes.items() if dtype.kind == "b"}
            whole = frame.astype(booleans).reset_index(drop=True)
            taken = whole.reindex(np.where(where >= 0, where, len(frame)))
        else:
            taken = frame.iloc[where]
        linked[name] = taken.set_axis(index)
        others = np.sort(rows.rows[name][~chosen & (rows.rows[name] >= 0)])
        if len(others) > 0:
            unaligned[name] = frame.iloc[others]
    return LinkedFrames(linked, pd.Series(y[chosen], index=index, dtype=object), unaligned)


def _split_labels(frames: Mapping[str, Any], labels: Any) -> tuple[dict[str, Any], dict[Any, Any]]:
    """Return the frames without labels, and the labels by person."""
    if labels is None:
        return dict(frames), {}
    if not isinstance(labels, str):
        if not hasattr(labels, "items") or hasattr(labels, "columns"):
            raise TypeError(
                "Expected labels by person, as a pandas Series or a dict, or the name of a column, "
                f"but got a {type(labels).__name__}. Pass pd.Series(labels, index=ids)."
            )
        return dict(frames), _known([labels], "labels")
    holders = {name: frame for name, frame in frames.items() if labels in frame.columns}
    if twice := [name for name, frame in holders.items() if list(frame.columns).count(labels) > 1]:
        raise ValueError(
            f"Expected one column {labels!r} in a frame, but {twice[0]!r} has several. Rename them."
        )
    if not holders:
        names = dict.fromkeys(str(c) for frame in frames.values() for c in frame.columns)
        raise ValueError(f"No frame has a column {labels!r}.{did_you_mean(labels, names)}")
    known = _known([frame[labels] for frame in holders.values()], f"the columns {labels!r}")
    return {n: f.drop(columns=labels) if n in holders else f for n, f in frames.items()}, known


def _known(parts: Sequence[Any], what: str) -> dict[Any, Any]:
    """Return the labels that are not missing, by person; raise if a person has two."""
    known: dict[Any, Any] = {}
    for part in parts:
        items = list(part.items())
        values = object_array([value for _, value in items])
        for (key, value), has_label in zip(items, is_known(values), strict=True):
            if has_label and known.setdefault(key, value) != value:
                raise ValueError(
                    f"Expected one label per person in {what}, but {key!r} has {known[key]!r} and "
                    f"{value!r}. Keep one."
                )
    return known


def _match(
    ids: dict[str, list[Any]], labels: dict[Any, Any], ignore: Sequence[str]
) -> tuple[dict[str, list[Any]], dict[Any, Any]]:
    """Return ids in the spelling of the first frame; raise if more would match in another."""
    tables = {f"frame {name!r}": own for name, own in ids.items()} | {"labels": list(labels)}
    _refuse_numbers_like_text(tables)
    *spelled, known = match_spellings(tables, ignore).values()
    return dict(zip(ids, spelled, strict=True)), dict(zip(known, labels.values(), strict=True))


def _refuse_numbers_like_text(ids: Mapping[str, Collection[Any]]) -> None:
    """Raise if a number in one table is the text of another, which would not be linked."""
    simplify = IdMatcher(tuple(ID_DIFFERENCES)).simplify
    numbers: dict[str, tuple[Any, str]] = {}
    texts: dict[str, tuple[Any, str]] = {}
    for name, own in ids.items():
        for key in own:
            if isinstance(key, str):
                texts[simplify(key)] = key, name
            elif not isinstance(key, bool) and isinstance(key, Real):
                numbers[simplify(str(key))] = key, name
    same = next((key for key in numbers if key in texts), None)
    if same is not None:
        (number, here), (text, there) = numbers[same], texts[same]
        raise ValueError(
            f"Expected ids of one kind, but {number} in {here} is a number, and {text!r} in "
            f"{there} is text, so that they are not linked. Convert one, as by "
            "df.index = df.index.astype(str)."
        )


def _check_labeled(ids: Mapping[str, Sequence[Any]], has_labels: Mapping[str, bool]) -> None:
    """Raise if nothing is linked, unless every frame has labels of its own to learn from."""
    if all(has_labels.values()):
        return
    if len(ids) < 2:
        raise ValueError(
            f"Expected at least 2 frames, or labels, but got {listed(ids)} alone. Add a frame of "
            "the same or of other persons; for a single table scikit-learn has estimators."
        )
    raise ValueError(
        "Expected frames that have some of their index in common, but no person is in two of "
        f"{listed(ids)}. {_hint(ids)}"
    )


def _hint(ids: Mapping[str, Sequence[Any]]) -> str:
    """Return the first ids of everything, and what to do."""
    first = ", ".join(f"{name}: {own[0]!r}" for name, own in ids.items() if own)
    kinds = {type(key).__name__ for own in ids.values() for key in own[:1]}
    remedy = "Index frames and labels by person, as in df.set_index('id')."
    if len(kinds) > 1 and "tuple" in kinds:
        remedy = "An index of several levels has tuples for ids: keep one, as in df.droplevel(1)."
    elif len(kinds) > 1:
        remedy = f"Ids of different types do not match: convert one, df.index.astype(str). {remedy}"
    return f"First ids: {first}. {remedy}"
