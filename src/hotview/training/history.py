"""Values that a training records, epoch by epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

import torch
from torch import Tensor

from hotview.losses.objective import Evaluation

__all__ = ["History", "RunningMeans"]


if TYPE_CHECKING:
    import pandas as pd


class History(Sequence[dict[str, float]]):
    """Read-only rows of recorded values, one per epoch.

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
        """Names of the recorded values, in the order of their first epoch."""
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

    def __eq__(self, other: object) -> bool:
        return isinstance(other, History) and self._rows == other._rows

    def __repr__(self) -> str:
        return f"History({len(self)} epochs: {', '.join(self.names)})"


class RunningMeans:
    """Means of the loss terms over the steps of an epoch, summed on the device without waiting."""

    def __init__(self) -> None:
        #: steps of the epoch so far
        self.n = 0
        self.sums = dict[str, Tensor]()

    def add(self, evaluation: Evaluation) -> None:
        """Add the terms of one step."""
        self.n += 1
        for name, part in evaluation.terms.parts.items():
            part = part.detach()
            self.sums[name] = self.sums[name] + part if name in self.sums else part.clone()

    def means(self, n_trainings: int) -> list[dict[str, float]]:
        """Return the mean terms of every training, and their sum as the loss."""
        parts: dict[str, list[float]] = {}
        if self.sums:
            totals = torch.stack([total.expand(n_trainings) for total in self.sums.values()])
            parts = dict(zip(self.sums, (totals / self.n).tolist(), strict=True))
        rows = [{name: values[i] for name, values in parts.items()} for i in range(n_trainings)]
        return [{"loss": sum(row.values()), **row} for row in rows]
