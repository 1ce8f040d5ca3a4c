"""Settings of a federated training, which all organizations share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import partial
from itertools import pairwise
from numbers import Real
from typing import Any

from hotview._codec import encode, require, shorten
from hotview._validation import (
    Check,
    check_choice,
    check_count,
    check_positive,
    check_share,
    check_switch,
    check_values,
    check_weight,
)

_MAX_SIZE = 2**24  # elements of an array that is sent or trained: 64 MiB; a message has 256
_MAX_WORK = 10**13  # multiplications of a client in a round, without those of its first layer
_MAX_LAYERS = 16
_MAX_INITIAL_REFERENCE = 10.0  # of normal variates with a variance of at most 1
_MAX_ADAM_STEP = 8.0  # in learning rates; √(10 / (1 − 0.9² / 0.999)) for any gradients
_N_WARM_UP_STEPS = 2000  # 200 with ten times the learning rate, in `ServerCoupling`
#: largest values, so that no server can make a client compute for days or run out of memory
_COUNTS = {
    **{"rounds": 10_000, "local_steps": 10_000, "sinkhorn_max_iter": 100_000},
    **{"quantiles": 2**14, "n_projections": 2**14, "n_references": 1000},
    **{"n_components": 2**12, "encoder_dim": 2**12, "hidden": 2**12},
    **{"batch_size": 2**20, "linked_batch": 2**20},
}
_WEIGHTS = dict.fromkeys(
    ("coupling_weight", "regularizer_weight", "orthogonality_weight", "head_weight"), 10**6
)
_POSITIVE = {"learning_rate": 10, "reg": 10**6}
_SHARES = {"cost_decay": 1, "fusion_fraction": 1}
_MAXIMA = {**_COUNTS, **_WEIGHTS, **_POSITIVE, **_SHARES}
_MAXIMA |= {"min_clients": 1000, "random_state": 2**31 - 1}
_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(_COUNTS, check_count),
    **dict.fromkeys(_WEIGHTS, check_weight),
    **dict.fromkeys(_POSITIVE, check_positive),
    **dict.fromkeys(_SHARES, partial(check_share, below_one=True)),
    **dict.fromkeys(("share_features", "share_labels"), check_switch),
    "coupling": partial(check_choice, choices=("hot-reference", "hot-pairwise", "none")),
    "view_regularizer": partial(check_choice, choices=("none", "autoencoder")),
    "projections": partial(check_choice, choices=("orthogonal", "iid", "qmc")),
    "min_clients": partial(check_count, at_least=2),  # one view couples to nothing
    "random_state": partial(check_count, at_least=0),  # all sides draw the same from it
}


@dataclass(frozen=True)
class Settings:
    """Parameters of a federated training; those that estimators have, too, mean the same.

    All numbers have upper bounds, which each client checks by itself: generous ones, but such that
    no server can make it compute for days or run out of memory.

    Parameters
    ----------
    rounds : int, default=20
        Number of communication rounds.
    local_steps : int, default=20
        Optimizer steps of every client between two rounds. With 1, and as many quantiles as rows
        in a batch, the training equals central training.
    quantiles : int, default=64
        q: quantiles that a client sends per direction.
    coupling : {"hot-reference", "hot-pairwise", "none"}, default="hot-reference"
        Coupling of the views.
    view_regularizer : {"none", "autoencoder"}, default="none"
        Regularizer of each view.
    n_components : int, default=10
        d: dimension of the common latent space.
    encoder_dim : int, default=20
        Width of the encoder's output.
    hidden : tuple of int, default=(128,)
        Widths of the encoder's hidden layers.
    n_references : int, default=3
        K: number of reference clouds of ``"hot-reference"``.
    n_projections : int, default=50
        M: number of directions drawn in every step.
    projections : {"orthogonal", "iid", "qmc"}, default="orthogonal"
        Sampling scheme of the directions.
    batch_size : int, default=200
        Rows of a step, and rows whose quantiles are sent in a round.
    learning_rate : float, default=0.003
        Learning rate of Adam.
    coupling_weight : float, default=0.1
        γ: weight of the coupling.
    regularizer_weight : float, default=1.0
        τ: weight of the view regularizer.
    orthogonality_weight : float, default=0.01
        α: weight of the orthogonality constraint inside the coupling.
    head_weight : float, default=1.0
        Weight of the classification loss of each view.
    reg : float, default=0.1
        β: entropic regularization of the plan, relative to the mean cost.
    cost_decay : float, default=0.9
        Decay of the moving average of costs over rounds.
    sinkhorn_max_iter : int, default=1000
        Maximum number of Sinkhorn iterations.
    label_holder : str or None, default=None
        Name of the client whose labels are used; None trains without labels.
    linked_batch : int, default=128
        Maximum number of linked rows whose scores are sent in a round.
    fusion_fraction : float, default=0.25
        Fraction of the linked rows that is held out in the first half of the rounds, on which the
        fusion weights of the views are then fitted.
    share_features : bool, default=False
        Whether clients send features of linked rows to the label holder, for a joint head.
    share_labels : bool, default=False
        Whether the label holder sends the labels of linked rows to all clients, which propagate
        them among their own rows; otherwise it receives scores, and returns gradients.
    min_clients : int, default=2
        Minimum number of clients whose responses make a round valid.
    random_state : int, default=0
        Seed that all clients share.

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
    fusion_fraction: float = 0.25
    share_features: bool = False
    share_labels: bool = False
    min_clients: int = 2
    random_state: int = 0

    def __post_init__(self) -> None:
        fits = isinstance(self.hidden, tuple) and len(self.hidden) <= _MAX_LAYERS
        expected = f"Expected hidden to be a tuple, as in (128,), of at most {_MAX_LAYERS} widths"
        require(fits, f"{expected}, not {shorten(self.hidden)}.")
        numbers = [(name, value) for name, value in vars(self).items() if name != "hidden"]
        for name, value in (*numbers, *(("hidden", width) for width in self.hidden)):
            most = _MAXIMA.get(name, math.inf)
            fits = not isinstance(value, Real) or abs(value) <= most  # type: ignore[operator]
            found = shorten(value)
            require(fits, f"Expected {name} to be at most {most}, but it is {found}. Choose less.")
            check_values({name: value}, _CHECKS)
        expected = "Expected label_holder to be the name of an organization, or None"
        fits = isinstance(self.label_holder, str | None)
        require(fits, f"{expected}, but it is {self.label_holder!r}.")
        # Arrays must not be too large, nor a round take too long.
        K, M, q = self.n_references, self.n_projections, self.quantiles
        d, n = self.n_components, self.batch_size
        widths = (*self.hidden, self.encoder_dim, d)
        n_weights = [a * b for a, b in pairwise(widths)]
        work = self.local_steps * n * (sum(n_weights) + M * (d + K))
        for product, size, most in (
            ("n_projections × quantiles", M * q, _MAX_SIZE),
            ("n_projections × n_components", M * d, _MAX_SIZE),
            ("n_references × quantiles × n_components", K * q * d, _MAX_SIZE),
            ("n_projections × n_references × quantiles", M * K * q, 4 * _MAX_SIZE),
            ("n_projections × n_references × batch_size", M * K * n, 4 * _MAX_SIZE),
            ("hidden × the next width", max(n_weights), _MAX_SIZE),
            ("batch_size × the largest width", n * max(widths), 4 * _MAX_SIZE),
            ("batch_size × quantiles", n * q, _MAX_SIZE),
            ("local_steps × batch_size × multiplications of a row", work, _MAX_WORK),
        ):
            problem = f"Expected {product} to be at most {most}, but it is {size}. Choose less."
            require(size <= most, problem)

    @property
    def fusion_round(self) -> int:
        """The round after which the fusion weights are fitted."""
        return (self.rounds + 1) // 2

    @property
    def max_reference(self) -> float:
        """Largest absolute value that a number of a reference can reach, for any gradients."""
        n_steps = _N_WARM_UP_STEPS + self.rounds * self.local_steps
        return _MAX_INITIAL_REFERENCE + _MAX_ADAM_STEP * self.learning_rate * n_steps

    def to_json(self) -> dict[str, Any]:
        """Return the settings as values that JSON can represent."""
        values: dict[str, Any] = encode(Settings, self, {})
        return values

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Return the settings from the output of `to_json`, or a part of it.

        Parameters
        ----------
        values : dict of str to object
            Settings by name; those that are missing have their defaults.

        Returns
        -------
        Settings
            The validated settings.
        """
        known = {field.name for field in fields(cls)}
        for name in sorted(set(values) - known):
            problem = f"Expected settings among {sorted(known)}, but there is {name!r}."
            raise ValueError(f"{problem} Update hotview, or correct the spelling.")
        given = dict(values)
        if isinstance(given.get("hidden"), list):
            given["hidden"] = tuple(given["hidden"])
        return cls(**given)
