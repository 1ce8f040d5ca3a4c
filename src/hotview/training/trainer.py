"""Trainings and their optimizer steps; no other module calls an optimizer's ``step()``."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from inspect import unwrap
from typing import TYPE_CHECKING, Any, ClassVar, overload

import torch
from torch import Tensor

from hotview._codec import decode
from hotview._threads import Interrupt
from hotview.losses.coupling import Terms
from hotview.losses.objective import Batch, Evaluation, Objective
from hotview.nn.multiview import MultiViewNetwork, in_precision
from hotview.training.batches import Sampler

__all__ = [
    "Adam",
    "History",
    "RunningMeans",
    "SingleTrainer",
    "Trainer",
    "Training",
    "make_optimizer",
    "optimizer_step",
    "train_step",
]


@dataclass
class Training:
    """One network in training: objective, batches, and what was recorded so far.

    Parameters
    ----------
    network : MultiViewNetwork
        Network to train.
    objective : Objective
        Loss to minimize.
    sampler : Sampler
        Source of the batches.
    generator : torch.Generator
        Source of the directions.
    score : callable or None, default=None
        Validation score of the network as it is.
    member : int, default=0
        Which member of an ensemble it is.
    measure : callable or None, default=None
        Further values of the network as it is, to be recorded after every epoch.

    Attributes
    ----------
    rows : list of dict of str to float
        Recorded values of the epochs so far.
    stopped : bool
        Whether a callback or patience has ended it; other trainings may go on.
    interrupted : bool
        Whether Ctrl-C has ended it.
    best_score, n_worse : float, int
        Best validation score, and the number of epochs since.
    best_state : list of dict
        States of the network and of the objective to restore at the end; empty keeps the last.
    """

    network: MultiViewNetwork
    objective: Objective
    sampler: Sampler
    generator: torch.Generator
    score: Callable[[], float] | None = None
    member: int = 0
    measure: Callable[[], dict[str, float]] | None = None
    rows: list[dict[str, float]] = field(default_factory=list, init=False)
    stopped: bool = field(default=False, init=False)
    interrupted: bool = field(default=False, init=False)
    best_score: float = field(default=-float("inf"), init=False)
    n_worse: int = field(default=0, init=False)
    best_state: list[dict[str, Any]] = field(default_factory=list, init=False)

    @property
    def history(self) -> History:
        """Recorded values, one row per epoch."""
        return History(self.rows)

    @property
    def modules(self) -> list[torch.nn.Module]:
        """All modules with parameters."""
        return [self.network, self.objective]

    @property
    def shape(self) -> Hashable:
        """Sizes that must be equal for trainings to be batched."""
        sampler = self.sampler
        return (
            tuple(view.n_columns for view in sampler.data.views),
            (sampler.n_steps, sampler.batch_size),
            tuple(order.size for order in sampler.orders),
            tuple(self.objective.source_views),
            self.objective.class_weight is None,
        )

    def keep_state(self) -> None:
        """Copy the current weights, to be restored at the end."""
        self.best_state = copy.deepcopy([module.state_dict() for module in self.modules])

    def finish(self) -> None:
        """Restore the weights that were kept, if any, and switch to evaluation mode."""
        for module, state in zip(self.modules, self.best_state, strict=False):
            module.load_state_dict(state)
        self.network.eval()


class Trainer:
    """Takes the steps of one training, or of several together.

    Parameters
    ----------
    trainings : sequence of Training
        The trainings.
    network : MultiViewNetwork
        Network with the parameters of all of them.
    objective : Objective
        Objective with the parameters of all of them.
    learning_rate : float
        Learning rate of Adam.
    precision : str, default="float32"
        Precision of encoders and decoders, as in `in_precision`.

    Attributes
    ----------
    epoch : int
        Number of finished epochs.
    batch : Batch or None
        Batch of the last step.
    interrupt : Interrupt
        Whether Ctrl-C was received.
    """

    def __init__(
        self,
        trainings: Sequence[Training],
        network: MultiViewNetwork,
        objective: Objective,
        learning_rate: float,
        precision: str = "float32",
    ) -> None:
        self.trainings, self.network, self.objective = list(trainings), network, objective
        self.rounded_network = in_precision(network, precision)
        self.optimizer = make_optimizer([network, objective], learning_rate)
        self.epoch = 0
        self.batch: Batch | None = None
        self.interrupt = Interrupt()

    def step(self) -> Evaluation:
        """Take one step of every training."""
        raise NotImplementedError

    def write_back(self) -> None:
        """Copy the trained parameters into the trainings' own modules, if these are others."""

    def take_over(self) -> None:
        """Copy changes of the trainings' own networks into the trained parameters."""


class SingleTrainer(Trainer):
    """Takes the steps of one training.

    Parameters
    ----------
    training : Training
        The training.
    learning_rate : float
        Learning rate of Adam.
    precision : str, default="float32"
        Precision of encoders and decoders, as in `in_precision`.
    """

    def __init__(
        self, training: Training, learning_rate: float, precision: str = "float32"
    ) -> None:
        super().__init__([training], training.network, training.objective, learning_rate, precision)

    def step(self) -> Evaluation:
        """Take one step."""
        (training,) = self.trainings
        self.batch = training.sampler.draw()
        return train_step(
            self.rounded_network, self.objective, self.optimizer, self.batch, training.generator
        )


class Adam(torch.optim.Adam):
    """Adam without the decorators that import torch's compiler, which is not used.

    The import would take a second or more, and leave settings in the process.
    """

    add_param_group = unwrap(torch.optim.Adam.add_param_group)
    zero_grad = unwrap(torch.optim.Adam.zero_grad)
    state_dict = unwrap(torch.optim.Adam.state_dict)
    load_state_dict = unwrap(torch.optim.Adam.load_state_dict)
    step = torch.no_grad()(unwrap(torch.optim.Adam.step))


def make_optimizer(
    modules: Sequence[torch.nn.Module], learning_rate: float
) -> torch.optim.Optimizer | None:
    """Return Adam on all parameters of the modules, fused where possible; None without any."""
    parameters = [p for module in modules for p in module.parameters() if p.requires_grad]
    if not parameters:
        return None
    on_gpu = parameters[0].device.type == "cuda"
    try:
        return Adam(parameters, lr=learning_rate, fused=True, capturable=on_gpu)
    except RuntimeError:  # a device that has no fused kernel
        return Adam(parameters, lr=learning_rate)


def train_step(
    network: MultiViewNetwork,
    objective: Objective,
    optimizer: torch.optim.Optimizer | None,
    batch: Batch,
    generator: torch.Generator | None,
    reduce_gradients: Callable[[], None] | None = None,
) -> Evaluation:
    """Evaluate the objective on a batch and take one optimizer step.

    The parameters of batched trainings are independent, so that the gradient of the sum of their
    losses is the gradient of each. What is returned has no gradients: it is kept until the next
    step, whose recording on a GPU needs nodes of its own for the gradients of the parameters.
    """
    evaluation = objective(network, batch, generator=generator)
    loss = evaluation.terms.total
    if optimizer is not None and loss.requires_grad:  # no term, no step
        optimizer_step(optimizer, loss.sum(), reduce_gradients)
    terms = Terms({name: part.detach() for name, part in evaluation.terms.parts.items()})
    return Evaluation(terms, [Z.detach() for Z in evaluation.latents])


def optimizer_step(
    optimizer: torch.optim.Optimizer,
    loss: Tensor,
    reduce_gradients: Callable[[], None] | None = None,
) -> None:
    """Compute the gradients of a loss and update the parameters of the optimizer.

    Parameters
    ----------
    optimizer : torch.optim.Optimizer
        Optimizer of the parameters.
    loss : Tensor
        Scalar loss.
    reduce_gradients : callable or None, default=None
        Called between the backward pass and the update, to average gradients over processes.
    """
    optimizer.zero_grad(set_to_none=True)
    torch.autograd.backward(loss)
    if reduce_gradients is not None:
        reduce_gradients()
    optimizer.step()


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
    >>> from hotview.training.trainer import History
    >>> history = History([{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.5}])
    >>> history["loss"]
    [2.0, 1.5]
    >>> history[-1]
    {'epoch': 2, 'loss': 1.5}
    """

    encodes_itself: ClassVar[bool] = True

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

    @property
    def names(self) -> list[str]:
        """Names of the recorded values, in the order of their first epoch."""
        return list(dict.fromkeys(name for row in self._rows for name in row))

    def to_json(self) -> list[dict[str, float]]:
        """Return the rows."""
        return self._rows

    @classmethod
    def from_json(cls, rows: Any) -> History:
        """Return the history of rows that a file holds."""
        decode(list[dict[str, float]], rows, {})
        return cls(rows)

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
