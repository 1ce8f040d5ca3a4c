"""What is trained, and its steps: the only place with ``backward()`` and ``step()``."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.adam import Adam
from hotview.training.batches import Sampler
from hotview.training.precision import in_precision

__all__ = ["SingleTrainer", "Trainer", "Training", "make_optimizer", "optimizer_step", "train_step"]


@dataclass
class Training:
    """Everything one training works on.

    Parameters
    ----------
    network : MultiViewNetwork
        What is trained.
    objective : Objective
        What is minimized.
    sampler : Sampler
        Which rows each step sees.
    generator : torch.Generator
        Source of the directions.
    score : callable or None
        Validation score of the network as it is.
    """

    network: MultiViewNetwork
    objective: Objective
    sampler: Sampler
    generator: torch.Generator
    score: Callable[[], float] | None = None

    @property
    def modules(self) -> list[torch.nn.Module]:
        """Whatever holds parameters."""
        return [self.network, self.objective]


class Trainer(Protocol):
    """One training, or several that take their steps together."""

    members: list[Training]
    #: what the last step saw
    batch: Batch | None
    optimizer: torch.optim.Optimizer | None

    @property
    def network(self) -> MultiViewNetwork:
        """Networks of all members."""

    @property
    def objective(self) -> Objective:
        """Objectives of all members."""

    def step(self) -> Evaluation:
        """Let every member take a step."""

    def write_back(self) -> None:
        """Let every member's own network and objective be what the team has learned."""

    def take_over(self) -> None:
        """Let the team go on from what was changed in the members' own networks."""


class SingleTrainer:
    """A team of one, which takes its steps by itself.

    Parameters
    ----------
    training : Training
        The one.
    learning_rate : float
        Of Adam.
    precision : str, default="float32"
        Of encoders and decoders, as of `in_precision`.
    """

    def __init__(
        self, training: Training, learning_rate: float, precision: str = "float32"
    ) -> None:
        self.members = [training]
        self.batch: Batch | None = None
        self.network, self.objective = training.network, training.objective
        self.rounded = in_precision(self.network, precision)
        self.optimizer = make_optimizer(training.modules, learning_rate)

    def step(self) -> Evaluation:
        """Take a step."""
        one = self.members[0]
        self.batch = one.sampler.draw()
        return train_step(self.rounded, one.objective, self.optimizer, self.batch, one.generator)

    def write_back(self) -> None:
        """Nothing: the network is the member's own."""

    def take_over(self) -> None:
        """Nothing, for the same reason."""


def make_optimizer(
    modules: Sequence[torch.nn.Module], learning_rate: float
) -> torch.optim.Optimizer | None:
    """Adam on all parameters of the modules, fused where torch can; None without parameters."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    if not parameters:
        return None
    kind = parameters[0].device.type
    if kind == "cpu":
        return Adam(parameters, learning_rate)
    try:
        return torch.optim.Adam(parameters, lr=learning_rate, fused=True, capturable=kind == "cuda")
    except RuntimeError:  # a device that has no fused kernel
        return torch.optim.Adam(parameters, lr=learning_rate)


def train_step(
    network: MultiViewNetwork,
    objective: Objective,
    optimizer: torch.optim.Optimizer | None,
    batch: Batch,
    generator: torch.Generator | None,
    agree: Callable[[], None] | None = None,
) -> Evaluation:
    """Evaluate the objective on a batch, and take one step down its gradient.

    Members do not know each other, so the gradient of their sum is that of each. Processes that
    share a batch know a part of its gradient, and `agree` on it before the step.
    """
    evaluation = objective(network, batch, generator=generator)
    loss = evaluation.terms.total
    if optimizer is not None and loss.requires_grad:  # no term, no step
        optimizer.zero_grad(set_to_none=True)
        loss.sum().backward()
        if agree is not None:
            agree()
        optimizer.step()
    assert isinstance(evaluation, Evaluation)
    return evaluation


def optimizer_step(optimizer: torch.optim.Optimizer, loss: torch.Tensor) -> None:
    """Take one optimizer step down the gradient of a loss."""
    optimizer.zero_grad()
    torch.autograd.backward(loss)
    optimizer.step()
