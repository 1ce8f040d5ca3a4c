"""The paper's reported mean and standard deviation of test accuracy, in percent."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from paper.cells import Cell

__all__ = ["PUBLISHED", "REMOVED", "Figure", "published_figure"]


class Figure(NamedTuple):
    """A number of the paper.

    Parameters
    ----------
    mean : float
        Mean over 20 trials, in percent.
    std : float
        Standard deviation.

    Examples
    --------
    >>> from paper.published import PUBLISHED
    >>> PUBLISHED["semi-supervised"]["handwritten"]["HOT (11) + AE"]
    Figure(mean=91.07, std=2.55)
    """

    mean: float
    std: float


_TASKS, _DATASETS = ("semi-supervised", "unsupervised"), ("caltech7", "caltech20", "handwritten")

# Tables 2 and 3: three datasets semi-supervised, then the same unsupervised.
_TABLES = {
    "LSCCA": "87.36 1.43, 71.20 2.74, 87.98 3.46, 82.33 1.84, 60.42 2.16, 70.20 7.77",
    "DGCCA": "87.60 1.08, 71.80 2.61, 87.12 3.89, 75.56 4.59, 54.67 3.13, 66.15 5.20",
    "AECCA": "87.62 1.47, 71.50 2.84, 88.53 3.22, 84.39 1.71, 66.75 2.47, 83.30 4.83",
    "SW (8)": "87.11 1.55, 70.94 3.05, 88.58 3.29, 82.25 1.47, 59.93 3.74, 65.67 9.80",
    "SW (9)": "87.55 1.79, 72.50 2.41, 89.78 2.98, 85.71 1.33, 69.21 2.51, 86.40 2.71",
    "HOT (10)": "88.31 1.56, 72.96 2.69, 89.95 3.52, 82.89 1.32, 60.85 3.31, 67.65 7.56",
    "HOT (11)": "88.29 1.87, 73.43 2.70, 90.05 2.62, 86.27 1.79, 71.07 2.29, 87.12 2.10",
    "SW (8) + AE": "87.49 1.25, 70.94 2.73, 89.90 3.31, 83.88 1.70, 67.27 2.96, 82.73 3.70",
    "SW (9) + AE": "87.24 1.64, 72.36 2.27, 89.22 3.28, 86.64 1.57, 69.29 2.37, 87.63 3.08",
    "HOT (10) + AE": "88.47 1.52, 73.18 2.40, 90.37 3.00, 83.98 1.55, 67.41 2.32, 83.85 3.84",
    "HOT (11) + AE": "88.98 2.15, 73.48 2.08, 91.07 2.55, 87.32 1.33, 69.48 2.53, 87.50 3.15",
}

# Table 4: HOT (11), unsupervised, one view removed.
_REMOVED = {
    "caltech7": "Gabor 86.03 1.90, WM 86.15 1.69, CENTRIST 86.01 1.21, HOG 82.95 2.12, "
    "GIST 85.87 1.10, LBP 85.43 2.84",
    "handwritten": "pix 84.45 3.17, fou 86.45 3.08, fac 84.65 2.57, zer 84.40 2.15, "
    "kar 84.75 3.38, mor 79.30 2.58",
}


def _figures(text: str) -> list[Figure]:
    return [Figure(*map(float, pair.split()[-2:])) for pair in text.split(",")]


def _table(task: str, dataset: str) -> Mapping[str, Figure]:
    column = _TASKS.index(task) * len(_DATASETS) + _DATASETS.index(dataset)
    return MappingProxyType({row: _figures(text)[column] for row, text in _TABLES.items()})


#: Tables 2 and 3: task → dataset → row → figure.
PUBLISHED: Mapping[str, Mapping[str, Mapping[str, Figure]]] = MappingProxyType(
    {t: MappingProxyType({d: _table(t, d) for d in _DATASETS}) for t in _TASKS}
)

#: Table 4: dataset → view that was removed → figure.
REMOVED: Mapping[str, Mapping[str, Figure]] = MappingProxyType(
    {
        dataset: MappingProxyType(
            dict(zip((part.split()[0] for part in text.split(",")), _figures(text), strict=True))
        )
        for dataset, text in _REMOVED.items()
    }
)


def published_figure(cell: Cell) -> Figure | None:
    """Return what the paper reports for a cell.

    Parameters
    ----------
    cell : Cell
        The cell, in whichever settings.

    Returns
    -------
    Figure or None
        None where the paper reports nothing in its tables.

    Examples
    --------
    >>> from paper.cells import Cell
    >>> from paper.published import published_figure
    >>> published_figure(Cell("handwritten", "unsupervised", "HOT (11)", "paper", without="mor"))
    Figure(mean=79.3, std=2.58)
    """
    if cell.overrides or cell.split is not None:
        return None
    if cell.without is None:
        return PUBLISHED[cell.task].get(cell.dataset, {}).get(cell.method)
    reported = (cell.task, cell.method) == ("unsupervised", "HOT (11)")
    return REMOVED.get(cell.dataset, {}).get(cell.without) if reported else None
