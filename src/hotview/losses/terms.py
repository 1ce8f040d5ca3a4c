"""A loss as a sum of named terms."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

__all__ = ["Terms"]


@dataclass(frozen=True)
class Terms:
    """Named parts of a loss, each already multiplied by its weight.

    Parameters
    ----------
    parts : dict of str to Tensor
        The parts, scalars or one number per replica.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import Terms
    >>> terms = Terms({"transport": torch.tensor(2.0), "orthogonality": torch.tensor(0.5)})
    >>> terms.total
    tensor(2.5000)
    >>> terms["transport"]
    tensor(2.)
    """

    parts: Mapping[str, Tensor]

    @property
    def total(self) -> Tensor:
        """Sum of all parts, 0 where there are none."""
        return sum(self.parts.values(), start=torch.zeros(()))

    def __getitem__(self, name: str) -> Tensor:
        return self.parts[name]

    def times(self, weight: float | Tensor) -> Terms:
        """Multiply every part by a weight.

        Parameters
        ----------
        weight : float or Tensor
            The weight, or that of every replica.

        Returns
        -------
        Terms
            The same names.
        """
        return Terms({name: weight * part for name, part in self.parts.items()})
