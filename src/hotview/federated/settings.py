"""What all organizations of a federation agree on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from itertools import pairwise
from typing import Any

from hotview._validation import (
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_weight,
)

__all__ = ["Settings"]

_COUNTS = (
    *("rounds", "local_steps", "quantiles", "n_components", "encoder_dim", "n_references"),
    *("n_projections", "batch_size", "linked_batch", "sinkhorn_max_iter", "least"),
)
_MOST = 2**24  # numbers in what a round sends or trains: 64 MiB, of the 256 that a message may have
_WEIGHTS = ("coupling_weight", "regularizer_weight", "orthogonality_weight", "head_weight")
_CHOICES = {
    "coupling": ("hot-reference", "hot-pairwise", "none"),
    "view_regularizer": ("none", "autoencoder"),
    "projections": ("orthogonal", "iid", "qmc"),
}


@dataclass(frozen=True)
class Settings:
    """Parameters of a federated training; those that estimators have mean the same here.

    Parameters
    ----------
    rounds : int, default=20
        How often the organizations hear of each other.
    local_steps : int, default=20
        Steps that each takes in between. With 1, and as many quantiles as rows in a batch, the
        training is that of all views in one place.
    quantiles : int, default=64
        Numbers by which an organization tells the projections of its rows on one direction.
    coupling : {"hot-reference", "hot-pairwise", "none"}, default="hot-reference"
        How views are coupled.
    view_regularizer : {"none", "autoencoder"}, default="none"
        What keeps each view itself.
    n_components : int, default=10
        Dimension of the common space.
    encoder_dim : int, default=20
        Features of every view.
    hidden : tuple of int, default=(128,)
        Hidden layers of every encoder.
    n_references : int, default=3
        K: reference clouds of ``"hot-reference"``.
    n_projections : int, default=50
        M: directions drawn in every step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        How directions are drawn.
    batch_size : int, default=200
        Rows of a step, and rows that a report is about.
    learning_rate : float, default=0.003
        Of Adam.
    coupling_weight : float, default=0.1
        γ, the weight of the coupling.
    regularizer_weight : float, default=1.0
        τ, the weight of the view regularizer.
    orthogonality_weight : float, default=0.01
        α, the weight of the constraint inside the coupling.
    head_weight : float, default=1.0
        Weight of the views' own heads.
    reg : float, default=0.1
        β, the entropic regularization of the plan, relative to the mean cost.
    cost_decay : float, default=0.9
        Costs are averaged over rounds with this decay before the plan is solved for.
    sinkhorn_max_iter : int, default=1000
        Most iterations for the plan.
    label_holder : str or None, default=None
        The organization whose labels teach all; None learns without labels.
    linked_batch : int, default=128
        Linked rows, at most, of which scores are sent in a round.
    fusion_share : float, default=0.25
        Share of the linked rows that teach nobody in the first half of the rounds, and then tell
        how much each view counts.
    share_features : bool, default=False
        Whether the label holder is sent the features of linked rows in the end, for a joint head.
    propagate_labels : bool, default=False
        Whether the label holder sends the labels of linked rows to all, who then spread them among
        their own rows; otherwise it is sent scores, and answers by gradients.
    least : int, default=2
        Organizations without whose answers a round does not count.
    random_state : int, default=0
        Seed of everything that may be known to all.

    Examples
    --------
    >>> from hotview.federated.settings import Settings
    >>> Settings(rounds=3).local_steps
    20
    >>> Settings(rounds=0)
    Traceback (most recent call last):
    ValueError: ...
    """

    rounds: int = 20
    local_steps: int = 20
    quantiles: int = 64
    coupling: str = "hot-reference"
    view_regularizer: str = "none"
    n_components: int = 10
    encoder_dim: int = 20
    hidden: tuple[int, ...] = (128,)
    n_references: int = 3
    n_projections: int = 50
    projections: str = "orthogonal"
    batch_size: int = 200
    learning_rate: float = 0.003
    coupling_weight: float = 0.1
    regularizer_weight: float = 1.0
    orthogonality_weight: float = 0.01
    head_weight: float = 1.0
    reg: float = 0.1
    cost_decay: float = 0.9
    sinkhorn_max_iter: int = 1000
    label_holder: str | None = None
    linked_batch: int = 128
    fusion_share: float = 0.25
    share_features: bool = False
    propagate_labels: bool = False
    least: int = 2
    random_state: int = 0

    def __post_init__(self) -> None:
        for name, choices in _CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in _COUNTS:
            check_count(name, getattr(self, name))
        for name in _WEIGHTS:
            check_weight(name, getattr(self, name))
        for name in ("learning_rate", "reg"):
            check_positive(name, getattr(self, name))
        for name in ("cost_decay", "fusion_share"):
            if check_share(name, getattr(self, name)) == 1:
                raise ValueError(f"Expected {name} below 1, but it is 1.")
        if not isinstance(self.hidden, tuple):
            raise ValueError(f"Expected hidden to be a tuple, as in (128,), not {self.hidden!r}.")
        for width in self.hidden:
            check_count("hidden", width)
        for name in ("share_features", "propagate_labels"):
            if not isinstance(given := getattr(self, name), bool):
                raise ValueError(f"Expected {name} to be True or False, but it is {given!r}.")
        if not isinstance(self.label_holder, str | None):
            raise ValueError(
                f"Expected label_holder to be the name of an organization, or None, but it is "
                f"{self.label_holder!r}."
            )
        if type(self.random_state) is not int or self.random_state < 0:
            raise ValueError(
                "Expected random_state to be a whole number, because all sides draw the same "
                f"directions from it, but it is {self.random_state!r}. Use 0."
            )
        self._check_sizes()
        if self.least < 2:
            raise ValueError("Expected least to be at least 2: one view has nothing to meet.")

    def _check_sizes(self) -> None:
        """Refuse what nobody could send or hold, before anybody tries."""
        widths = pairwise((*self.hidden, self.encoder_dim, self.n_components))
        M, q, d = self.n_projections, self.quantiles, self.n_components
        for what, size in (
            ("n_projections × quantiles", M * q),
            ("n_projections × n_components", M * d),
            ("n_references × quantiles × n_components", self.n_references * q * d),
            ("hidden × what follows", max(a * b for a, b in widths)),
        ):
            if size > _MOST:
                raise ValueError(
                    f"Expected {what} to be at most {_MOST}, but it is {size}. Choose less."
                )

    @property
    def weighing_round(self) -> int:
        """The round in which it is found out how much each view counts."""
        return (self.rounds + 1) // 2

    def to_json(self) -> dict[str, Any]:
        """Plain values that JSON can hold."""
        told = {field.name: getattr(self, field.name) for field in fields(self)}
        return {**told, "hidden": list(self.hidden)}

    @classmethod
    def from_json(cls, facts: Mapping[str, Any]) -> Settings:
        """The same from what `to_json` gave, or from a part of it.

        Parameters
        ----------
        facts : dict of str to object
            Fields by name; those that are missing have their defaults.

        Returns
        -------
        Settings
            Checked.
        """
        known = {field.name for field in fields(cls)}
        if unknown := sorted(set(facts) - known):
            raise ValueError(
                f"Expected settings among {sorted(known)}, but there is {unknown[0]!r}. Update "
                "hotview, or mend the spelling."
            )
        given = dict(facts)
        if isinstance(given.get("hidden"), list):
            given["hidden"] = tuple(given["hidden"])
        return cls(**given)
