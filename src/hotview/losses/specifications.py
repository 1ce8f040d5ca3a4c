"""Specifications of couplings and view regularizers, which hold their settings and build them.

An estimator takes a name (``coupling="hot-reference"``) or a specification with its settings
(``coupling=HOTReferenceSpec(n_references=4)``), as scikit-learn's Gaussian processes take kernels.
The modules that a specification builds are those of ``hotview.losses``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Self

import torch
from sklearn.base import BaseEstimator

from hotview._validation import (
    Check,
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_values,
    check_weight,
)
from hotview.losses.coupling import Coupling, NoCoupling, Planner
from hotview.losses.objective import Regularizer

__all__ = [
    "COUPLINGS",
    "REGULARIZERS",
    "CouplingSizes",
    "CouplingSpec",
    "NoCouplingSpec",
    "PaperSpec",
    "RegularizerSpec",
    "Specification",
    "as_coupling",
    "as_regularizer",
]


class Specification(BaseEstimator, ABC):  # type: ignore[misc]
    """Base of all specifications: settings, as of a scikit-learn estimator, and a name.

    Attributes
    ----------
    name : str or None
        The name by which an estimator takes it; None for a user's own class.
    label : str
        The name, or that of a user's own class, for messages.

    Examples
    --------
    >>> from sklearn.base import clone
    >>> from hotview import HOTReferenceSpec
    >>> spec = HOTReferenceSpec(n_references=2)
    >>> spec.name, clone(spec), clone(spec) is spec
    ('hot-reference', HOTReferenceSpec(n_references=2), False)
    """

    #: the parameter of the estimators that takes it
    parameter: ClassVar[str]

    #: built-in specifications that the parameter takes, by name
    built_in: ClassVar[dict[str, type[Any]]]

    name: ClassVar[str | None]
    label: ClassVar[str]

    def __init_subclass__(cls, name: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        cls.name, cls.label = name, name or cls.__name__  # not inherited by a user's subclass
        if name is not None:
            cls.built_in[name] = cls

    @classmethod
    def resolve(cls, value: Any) -> Self:
        """Return a specification as it is, or a new one with default settings for a name.

        Parameters
        ----------
        value : str or Specification
            The parameter of an estimator.

        Returns
        -------
        Specification
            An instance of this base class.

        Examples
        --------
        >>> from hotview import HOTReferenceSpec
        >>> HOTReferenceSpec.resolve("hot-reference")
        HOTReferenceSpec()
        """
        if isinstance(value, cls):
            return value
        if not isinstance(value, type | torch.nn.Module):
            spec: Self = cls.built_in[check_choice(cls.parameter, value, cls.built_in)]()
            return spec
        is_class = isinstance(value, type) and issubclass(value, cls)
        given = f"the class {value.__name__}" if is_class else f"{value!r:.200}"
        example = value.__name__ if is_class else list(cls.built_in.values())[-1].__name__
        raise TypeError(
            f"Expected {cls.parameter} to be one of {', '.join(map(repr, cls.built_in))}, or a "
            f"{cls.__name__}, but it is {given}. Pass {cls.parameter}=hotview.{example}()."
        )

    @abstractmethod
    def check(self) -> None:
        """Validate the settings; `fit` calls it."""


@dataclass(frozen=True)
class CouplingSizes:
    """What a coupling's module depends on and only `fit` knows.

    Parameters
    ----------
    n_views : int
        Number of views.
    n_components : int
        Dimension of the common space.
    n_points : int
        Points of a reference cloud: the batch size.
    generator : torch.Generator
        Source of random initial values.

    Examples
    --------
    >>> import torch
    >>> from hotview import CouplingSizes, HOTReferenceSpec
    >>> sizes = CouplingSizes(n_views=4, n_components=2, n_points=50, generator=torch.Generator())
    >>> HOTReferenceSpec().build(sizes).references.shape
    torch.Size([2, 50, 2])
    """

    n_views: int
    n_components: int
    n_points: int
    generator: torch.Generator


#: checks of the settings that have one meaning for all couplings
_CHECKS: Mapping[str, Check] = {
    "weight": check_weight,
    "n_references": check_count,
    "n_projections": check_count,
    "projections": partial(check_choice, choices=("orthogonal", "iid", "qmc")),
    "orthogonality_weight": partial(check_weight, infinite=True),
    "reg": check_positive,
    "cost_decay": partial(check_share, below_one=True),  # at 1, C would never change
    "sinkhorn_max_iter": check_count,
    "reduction": partial(check_choice, choices=("mean", "sum")),
}


class CouplingSpec(Specification):
    """Base of the specifications of couplings, R_M.

    A subclass stores its settings in its constructor, as scikit-learn's estimators do, and builds
    the module in `build`. Class attributes are the values of settings that a subclass does not
    have.

    Attributes
    ----------
    weight : float
        γ, the weight of the coupling in the objective.
    reduction : {"mean", "sum"}
        Whether costs, constraints and the loss of labels are means or, as in the paper, sums over
        rows.
    reg, sinkhorn_max_iter : float, int
        Entropic regularization and maximum number of iterations of `plan_`.
    needs_alignment : bool
        Whether row i must be the same individual in every view.

    Examples
    --------
    >>> from hotview import LSCCASpec
    >>> LSCCASpec.needs_alignment, LSCCASpec(weight=0.5).get_params()["weight"]
    (True, 0.5)
    """

    parameter, built_in = "coupling", {}
    weight: float = 0.1
    reduction: str = "mean"
    reg: float = 0.1
    cost_decay: float = 0.9
    sinkhorn_max_iter: int = 1000
    orthogonality_weight: float = 0.0
    needs_alignment: ClassVar[bool] = False

    @abstractmethod
    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build the module that is trained.

        Parameters
        ----------
        sizes : CouplingSizes
            What only `fit` knows.

        Returns
        -------
        Coupling
            A new module.
        """

    def check(self) -> None:
        """Validate the settings; `fit` calls it."""
        values = self.get_params(deep=False)
        check_values(values, _CHECKS, prefix="coupling__", optional=("n_references",))

    @property
    def planner(self) -> Planner:
        """How the plan is solved: β is relative to the mean cost unless costs are sums."""
        return Planner(self.reg, self.reduction == "mean", self.sinkhorn_max_iter, self.cost_decay)


class RegularizerSpec(Specification):
    """Base of the specifications of view regularizers, R_S.

    A subclass stores its settings in its constructor and builds, in `build`, a callable (an
    ``nn.Module`` if it has parameters to train) that takes the network, the batch and the features
    of the batch's rows, and returns :class:`hotview.losses.Terms`.

    Parameters
    ----------
    weight : float or None, default=None
        τ, the weight of the regularizer in the objective; None takes 0.01 in an encoder and 1.0 in
        a classifier.

    Attributes
    ----------
    needs_decoders : bool
        Whether the network has a decoder for every view.
    needs_neighbors : bool
        Whether the batch has a neighbor of every row.
    needs_coordinates : bool
        Whether the batch has diffusion coordinates of every row.

    Examples
    --------
    >>> from hotview import AutoencoderSpec
    >>> AutoencoderSpec(weight=0.1).needs_decoders
    True
    """

    parameter, built_in = "view_regularizer", {}
    needs_decoders: ClassVar[bool] = False
    needs_neighbors: ClassVar[bool] = False
    needs_coordinates: ClassVar[bool] = False

    def __init__(self, weight: float | None = None) -> None:
        self.weight = weight

    @abstractmethod
    def build(self) -> Regularizer:
        """Build the regularizer.

        Returns
        -------
        callable
            From the network, a batch and its features to terms.
        """

    def check(self) -> None:
        """Validate the settings; `fit` calls it."""
        if self.weight is not None:
            check_weight("view_regularizer__weight", self.weight)


@dataclass(repr=False, eq=False, kw_only=True)
class NoCouplingSpec(CouplingSpec, name="none"):
    """No coupling, the control: ``coupling="none"``.

    Parameters
    ----------
    reduction : {"mean", "sum"}, default="mean"
        Whether the loss of labels is a mean or, as in the paper, a sum over rows.

    Examples
    --------
    >>> from hotview import NoCouplingSpec
    >>> NoCouplingSpec().get_params()
    {'reduction': 'mean'}
    """

    reduction: str = "mean"

    def build(self, sizes: CouplingSizes) -> Coupling:
        """Build a :class:`hotview.losses.NoCoupling`."""
        return NoCoupling()


@dataclass(repr=False, eq=False)
class PaperSpec(CouplingSpec):
    """Settings of all couplings of the paper."""

    weight: float = 0.1
    _: KW_ONLY
    reduction: str = "mean"
    reg: float = 0.1
    sinkhorn_max_iter: int = 1000


#: specifications of R_M and of R_S by name
COUPLINGS: Mapping[str, type[CouplingSpec]] = MappingProxyType(CouplingSpec.built_in)
REGULARIZERS: Mapping[str, type[RegularizerSpec]] = MappingProxyType(RegularizerSpec.built_in)

#: the specification of a coupling, or of a view regularizer, that is given by name or as one
as_coupling, as_regularizer = CouplingSpec.resolve, RegularizerSpec.resolve
