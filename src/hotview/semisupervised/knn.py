"""Rows of a view that vote on new rows: those nearest, by principal components and features."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from sklearn.decomposition import PCA
from torch import Tensor

from hotview._types import Array, IntArray
from hotview.semisupervised.neighbors import Scorer, find_nearest

__all__ = ["Basis", "KNNPredictor"]

_FLOOR = 0.01  # of a class that no neighbor votes for: neighbors may all be wrong
_ROUNDING = 1e-6  # of the size of features, by which equal ones may differ


@dataclass(frozen=True)
class Basis:
    """Principal components of a view, in units of the distance of its rows from their mean.

    Parameters
    ----------
    mean : Tensor of shape (n_columns,)
        Mean of the standardized columns.
    directions : Tensor of shape (n_columns, n_components)
        Principal directions, divided by the root mean square distance.
    """

    mean: Tensor
    directions: Tensor

    @classmethod
    def of(cls, pca: PCA, n: int, device: torch.device) -> Basis:
        """Take the first n components that were found."""
        variance = float(pca.explained_variance_[:n].sum())
        unit = variance**0.5 if variance > 0 else 1.0
        return cls(
            torch.as_tensor(pca.mean_, dtype=torch.float32, device=device),
            torch.as_tensor(pca.components_[:n].T / unit, dtype=torch.float32, device=device),
        )

    def place(self, X: Tensor) -> Tensor:
        """Components of standardized rows, in the precision of these."""
        return (X - self.mean.to(X.dtype)) @ self.directions.to(X.dtype)


@dataclass(frozen=True)
class KNNPredictor:
    """Rows of one view, each with a share of every class.

    Parameters
    ----------
    basis : Basis
        Principal components of the view.
    unit : float
        By which features are divided.
    places : Tensor of shape (n_voters, n_components + encoder_dim)
        Where the voters are.
    shares : Tensor of shape (n_voters, n_classes)
        What they say.
    n_neighbors : int
        How many of them are asked about a row.
    """

    basis: Basis
    unit: float
    places: Tensor
    shares: Tensor
    n_neighbors: int

    def log_shares(self, X: Tensor, F: Tensor) -> Tensor:
        """Logarithm of the mean share of every class among those nearest to each row.

        Parameters
        ----------
        X : Tensor of shape (n_rows, n_columns)
            Standardized rows.
        F : Tensor of shape (n_rows, encoder_dim)
            Their features.

        Returns
        -------
        Tensor of float64, shape (n_rows, n_classes)
            Logarithms, none of them below that of 0.01.
        """
        # In float32, rounding would choose among neighbors, and differently on every device.
        Y = torch.cat([self.basis.place(X.double()), F.double() / self.unit], dim=1)
        return (self.shares[self.nearest(Y)].double().mean(1) + _FLOOR).log()

    def nearest(self, Y: Tensor) -> Tensor:
        """Numbers of the voters nearest to each row, (n_rows, n_neighbors)."""
        return find_nearest(self.places, Y, self.n_neighbors, self._scorer)

    @cached_property
    def _scorer(self) -> Scorer:
        """Kept, because to make it takes longer than to judge a single row."""
        return Scorer.of(self.places)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: not what can be made again."""
        return {name: value for name, value in self.__dict__.items() if name != "_scorer"}


def choose_voters(n_rows: int, first: IntArray, most: int, random: np.random.Generator) -> IntArray:
    """Numbers of the rows that vote: all, or as many as may, some of them before others.

    Parameters
    ----------
    n_rows : int
        Rows of the view.
    first : ndarray of int64
        Rows to choose before others, in this order; some may come twice.
    most : int
        How many to choose at most.
    random : numpy Generator
        Which of the rest.

    Returns
    -------
    ndarray of int64
        Sorted row numbers.

    Examples
    --------
    >>> import numpy as np
    >>> from hotview.semisupervised.knn import choose_voters
    >>> choose_voters(4, np.array([3]), 10, np.random.default_rng(0))
    array([0, 1, 2, 3])
    """
    if n_rows <= most:
        return np.arange(n_rows)
    rest = np.setdiff1d(np.arange(n_rows), first)
    _, at = np.unique(first, return_index=True)
    order = np.concatenate([first[np.sort(at)], random.permutation(rest)])
    chosen: IntArray = np.sort(order[:most])
    return chosen


def root_mean_square(Y: Array) -> float:
    """Root of the mean squared distance of rows from their mean; 1 where there is none."""
    Y = Y.astype(np.float64)
    found, size = (float(np.sqrt((Z**2).sum(axis=1).mean())) for Z in (Y - Y.mean(axis=0), Y))
    return found if found > _ROUNDING * size else 1.0
