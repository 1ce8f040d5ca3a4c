"""What a training recorded: a row per epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["History"]


class History(Sequence[dict[str, float]]):
    """Rows of numbers, one per epoch, that can be read but not changed.

    Parameters
    ----------
    rows : iterable of dict of str to float, default=()
        The rows.

    Examples
    --------
    >>> from hotview.training.history import History
    >>> history = History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}])
    >>> history["loss"]
    [2.0, 1.5]
    >>> history[-1]
    {'epoch': 2, 'loss': 1.5}
    """

    def __init__(self, rows: Sequence[dict[str, float]] = ()) -> None:
        self._rows = [dict(row) for row in rows]

    def __len__(self) -> int:
        return len(self._rows)

    @overload
    def __getitem__(self, key: int) -> dict[str, float]: ...
    @overload
    def __getitem__(self, key: slice) -> History: ...
    @overload
    def __getitem__(self, key: str) -> list[float]: ...
    def __getitem__(self, key: int | slice | str) -> Any:
        if isinstance(key, str):
            if key not in self.names:
                raise KeyError(f"{key!r} was not recorded; there are {', '.join(self.names)}")
            return [row.get(key, float("nan")) for row in self._rows]
        if isinstance(key, slice):
            return History(self._rows[key])
        return dict(self._rows[key])

    def __iter__(self) -> Iterator[dict[str, float]]:
        return (dict(row) for row in self._rows)

    @property
    def names(self) -> list[str]:
        """What was recorded, in the order in which it first came."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def to_pandas(self) -> pd.DataFrame:
        """Return the rows as a data frame (needs pandas).

        Returns
        -------
        pandas.DataFrame
            A row per epoch, a column per name.
        """
        import pandas as pd

        return pd.DataFrame(self._rows, columns=self.names)

    def _append(self, row: dict[str, float]) -> None:
        self._rows.append(dict(row))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._rows == other._rows

    def __repr__(self) -> str:
        return f"History({len(self)} epochs: {', '.join(self.names)})"
