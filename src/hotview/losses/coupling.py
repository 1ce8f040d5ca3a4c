"""What a coupling of views, R_M, is, and the one that does nothing.

Each takes latents Z_s (one tensor of rows per view) and returns named terms whose sum is to be
minimized. None weights itself against anything else: γ belongs to the objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from hotview.ot import Plan

__all__ = ["Coupling", "NoCoupling", "Terms"]

Generators = torch.Generator | Sequence[torch.Generator] | None


class Coupling(nn.Module):
    """What all couplings have in common: they take the latents of all views.

    Attributes
    ----------
    needs_alignment : bool
        Whether row i must be the same individual in every view.
    reference_based : bool
        Whether views are compared with references instead of with each other.

    Examples
    --------
    >>> from hotview.losses import Coupling, HOTPairwise
    >>> issubclass(HOTPairwise, Coupling), HOTPairwise.needs_alignment
    (True, False)
    """

    needs_alignment = False
    reference_based = False

    #: α, or that of every replica
    orthogonality_weight: float | Tensor = 0.0

    #: the plan of the last step, where the coupling solves for one
    plan: Plan | None = None

    #: calls what is solved for in the middle of a step; a recorded step is interrupted here
    outside: Callable[[Callable[[Tensor], Tensor], Tensor], Tensor] | None = None

    @property
    def exact(self) -> bool:
        """Whether the constraint is met exactly, by a linear map, instead of by a penalty."""
        weight = self.orthogonality_weight
        return not isinstance(weight, Tensor) and math.isinf(weight)

    def draw(self, d: int, generator: Generators) -> Tensor | None:
        """Draw the directions of one step, where the coupling projects.

        Parameters
        ----------
        d : int
            Dimension of the latents.
        generator : torch.Generator, sequence of these, or None
            Their source, or that of every replica.

        Returns
        -------
        Tensor of shape (..., M, d) or None
            The directions, on the CPU.
        """
        return None

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: torch.Generator | None = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """Compare the latents of the views.

        Parameters
        ----------
        Zs : sequence of Tensor
            Latents of every view, (..., rows, n_components); numbers of rows may differ unless the
            coupling needs alignment. Leading dimensions are replicas, which do not know each other.
        generator : torch.Generator or None, default=None
            Source of the directions.
        directions : Tensor of shape (..., M, n_components) or None, default=None
            The directions themselves, where they were drawn before.

        Returns
        -------
        Terms
            The parts of the coupling, weighted against each other, one number per replica.
        """
        raise NotImplementedError

    def hold_fixed(self, solve: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """Solve for something that is a constant to the gradient.

        Parameters
        ----------
        solve : callable
            From `x`, detached, to a tensor.
        x : Tensor
            What it depends on.

        Returns
        -------
        Tensor
            What `solve` returns.
        """
        x = x.detach()
        return solve(x) if self.outside is None else self.outside(solve, x)


def check_pairs(Zs: Sequence[Tensor]) -> None:
    """Refuse latents of one view where views are compared with each other."""
    if len(Zs) < 2:
        raise ValueError(
            f"Expected latents of at least 2 views to compare with each other, but {len(Zs)} came. "
            "Pass more views, or use a coupling with references."
        )


class NoCoupling(Coupling):
    """No coupling at all: the control.

    Examples
    --------
    >>> import torch
    >>> from hotview.losses import NoCoupling
    >>> NoCoupling()([torch.zeros(3, 2), torch.ones(4, 2)]).total
    tensor(0.)
    """

    def forward(
        self,
        Zs: Sequence[Tensor],
        *,
        generator: torch.Generator | None = None,
        directions: Tensor | None = None,
    ) -> Terms:
        """Return no term."""
        return Terms({})


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
