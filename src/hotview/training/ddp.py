r"""A training whose rows are sharded among several processes.

All ranks draw the same batch, with the same generators. Each loads and encodes the rows of its
shard, and the features of all ranks are gathered, so that everything after the encoders sees the
whole batch: a sliced distance between parts of clouds is not that between the clouds. So every
rank computes the same loss

.. math:: L(F_1, …, F_R; φ) + \sum_r E_r(θ, ψ), \qquad F_r = f_θ(X_r)

where L is a function of the features, φ its parameters, and E_r the reconstruction error of rank
r's own rows by the decoders ψ. Rank r computes R · ∂L/∂F_r · ∂F_r/∂θ and R · ∂E_r, which are its
own, and ∂L/∂φ, which is the same on all ranks; the mean over ranks is the gradient of the loss.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hotview._processes import all_gather, all_reduce_mean, device_of_rank, rank, world_size
from hotview.losses.coupling import Terms
from hotview.losses.objective import Batch, Evaluation
from hotview.losses.view_regularizers import AutoencoderSpec
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing.rows import RowsByRank, RowShard
from hotview.training.batches import span
from hotview.training.trainer import SingleTrainer, Training, train_step

__all__ = ["DDPTrainer"]


class DDPTrainer(SingleTrainer):
    """Takes the steps of one training together with the other processes.

    Parameters
    ----------
    training : Training
        The training; its sampler will load the rows of this process only.
    learning_rate : float
        Learning rate of Adam.
    precision : str
        Precision of encoders and decoders, as in `in_precision`.
    """

    def __init__(self, training: Training, learning_rate: float, precision: str) -> None:
        check_no_batch_norm(training.network)
        super().__init__(training, learning_rate, precision)
        starts = [view.starts for view in training.sampler.data.views]
        self.shard = RowShard.of(starts, rank(), world_size())
        training.sampler.shard = self.shard
        decodes = self.objective.regularizer is AutoencoderSpec.terms
        self._gathering_network = _GatheringNetwork(self.rounded_network, decodes=decodes)
        self._objective = copy.copy(self.objective)  # with the same coupling and weights
        if decodes:
            network = self._gathering_network
            self._objective.regularizer = lambda *_: Terms({"reconstruction": network.error})

    def step(self) -> Evaluation:
        """Take one step, as all other ranks do."""
        (training,) = self.trainings
        network, shard = self._gathering_network, self.shard
        indices = training.sampler.draw_indices()
        network.rows_by_rank = [
            RowsByRank.of(shard.owners(s, rows), shard.world_size)
            for s, rows in enumerate(indices.rows)
        ]
        self.batch = network.batch = training.sampler.load(indices)
        groups = [] if self.optimizer is None else self.optimizer.param_groups
        reduce = partial(self._all_reduce, [p for group in groups for p in group["params"]])
        generator = training.generator
        evaluation = train_step(
            network, self._objective, self.optimizer, self.batch, generator, reduce
        )
        if self.optimizer is None or not evaluation.terms.total.requires_grad:
            self._all_reduce([])  # without a gradient, too, all must stop after the same step
        return evaluation

    def _all_reduce(self, parameters: list[Tensor]) -> None:
        """Average all gradients, and agree on interrupts, in one message."""
        like = parameters[0] if parameters else torch.zeros((), device=device_of_rank())
        has_gradient = [p.grad is not None for p in parameters]
        flags = torch.tensor(
            [*has_gradient, self.interrupt.received], dtype=like.dtype, device=like.device
        )
        gradients = [
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in parameters
        ]
        mean = all_reduce_mean(torch.cat([flags, *gradients]))
        flags, *means = torch.split(mean, [len(flags), *(p.numel() for p in parameters)])
        *any_gradient, any_interrupt = flags.tolist()
        for p, gradient, is_set in zip(parameters, means, any_gradient, strict=True):
            p.grad = gradient.view_as(p) if is_set > 0 else None
        if any_interrupt > 0:
            self.interrupt.requested = True


class _GatheringNetwork(MultiViewNetwork):
    """A network that encodes the rows of this rank and returns the features of all ranks."""

    #: the current batch, and its rows of every view by rank
    batch: Batch
    rows_by_rank: list[RowsByRank]

    def __init__(self, network: MultiViewNetwork, *, decodes: bool) -> None:
        super().__init__(
            list(network.encoders),
            list(network.maps),
            list(network.decoders),
            network.joint_head,
            list(network.view_heads),
        )
        self._network = [network]  # in a list, so that its parameters are not registered twice
        self._decodes, self.error = decodes, torch.zeros(())

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Return the features F_s of all rows of every view, including those of other ranks."""
        own = self._encode_own(Xs)
        error = [self._own_error(Xs, own).view(1, 1)] if self._decodes else []
        gathered = _Gather.apply(self.rows_by_rank, *own, *error)  # type: ignore[no-untyped-call]
        if self._decodes:
            self.error = gathered[-1].sum()
        return list(gathered[: len(own)])

    def _encode_own(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Return the features of this rank's rows; without any, of one row that is dropped.

        Not all modules accept a table without rows; a reshape, say, cannot infer its width.
        """
        if all(len(X) > 0 for X in Xs):
            return self._network[0].encode(Xs)
        Fs = self._network[0].encode([X if len(X) > 0 else X.new_zeros(1, X.shape[1]) for X in Xs])
        # Detached, because the gradient of an empty tensor may be 0 · ∞.
        return [
            F if len(X) > 0 else F[:0].detach().requires_grad_(F.requires_grad)
            for X, F in zip(Xs, Fs, strict=True)
        ]

    def _own_error(self, Xs: Sequence[Tensor], Fs: Sequence[Tensor]) -> Tensor:
        """Return this rank's part of the mean squared error of the coupled rows."""
        coupled = []
        for s, by_rank in enumerate(self.rows_by_rank):
            rows = span(self.batch.sizes, "rows", s)
            positions = by_rank.positions[rank()]
            first, last = positions.searchsorted([rows.start, rows.stop])
            coupled.append(slice(int(first), int(last)))
        decoded = self._network[0].reconstruct([F[w] for F, w in zip(Fs, coupled, strict=True)])
        errors = [
            (Y - X[where]).square().sum() / (n * X.shape[1])
            for X, Y, where, n in zip(Xs, decoded, coupled, self.batch.sizes["rows"], strict=True)
        ]
        return torch.stack(errors).sum()


class _Gather(torch.autograd.Function):
    """Gathers the rows of all ranks; additional tensors have one row per rank.

    All ranks compute the same gradient with respect to the gathered rows, so that none is sent:
    the sum of what all ranks would send to one is its part times the number of ranks.
    """

    @staticmethod
    def forward(ctx: Any, rows_by_rank: Sequence[RowsByRank], *parts: Tensor) -> tuple[Tensor, ...]:
        ctx.rows_by_rank, ctx.rank, ctx.world_size = rows_by_rank, rank(), world_size()
        ctx.set_materialize_grads(False)
        widths = [part.shape[1] for part in parts]
        counts = [[len(positions) for positions in rows.positions] for rows in rows_by_rank]
        counts += [[1] * ctx.world_size] * (len(parts) - len(rows_by_rank))
        lengths = [
            [n * width for n, width in zip(of_rank, widths, strict=True)]
            for of_rank in zip(*counts, strict=True)
        ]
        flat = torch.cat([part.reshape(-1) for part in parts])
        received = all_gather(flat, [sum(of_rank) for of_rank in lengths])
        pieces = [torch.split(x, of_rank) for x, of_rank in zip(received, lengths, strict=True)]
        gathered = [
            torch.cat([x.view(-1, width) for x in of_part])
            for of_part, width in zip(zip(*pieces, strict=True), widths, strict=True)
        ]
        ordered = [
            X[torch.from_numpy(rows.inverse).to(flat.device)]
            for X, rows in zip(gathered, rows_by_rank, strict=False)
        ]
        return *ordered, *gathered[len(rows_by_rank) :]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        own = [torch.from_numpy(rows.positions[ctx.rank]) for rows in ctx.rows_by_rank]
        own += [torch.tensor([ctx.rank])] * (len(gradients) - len(own))
        parts = [
            None if G is None else ctx.world_size * G[rows.to(G.device)]
            for G, rows in zip(gradients, own, strict=True)
        ]
        return None, *parts


def check_no_batch_norm(network: nn.Module) -> None:
    """Raise an error for encoders that normalize over the rows of a batch, which are sharded."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                "Expected encoders that process every row independently, because devices "
                "shards the rows of a batch among processes, but one has a "
                f"{type(module).__name__}, which would see a part of them. Use "
                "torch.nn.LayerNorm, or leave devices out."
            )
