r"""A training whose rows are shared out among several processes.

All processes draw the same batch, with the same generators. Each reads and encodes those of its
rows that it owns, and the features of all are gathered, so that everything after the encoders sees
the whole batch: a sliced distance between parts of clouds would not be that between the clouds. So
every process knows the same loss

.. math:: L(F_1, …, F_R; φ) + \sum_r E_r(θ, ψ), \qquad F_r = f_θ(X_r)

where L is whatever is made of features, φ its parameters, and E_r the error of process r's own rows
in the decoders ψ. Process r computes R · ∂L/∂F_r · ∂F_r/∂θ and R · ∂E_r for what only it knows, and
∂L/∂φ for what all know alike; the mean over processes is the gradient of all of them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from hotview.losses.coupling import Terms
from hotview.losses.objective import VIEW_REGULARIZERS, Batch, Evaluation
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.batches import Picks, span
from hotview.training.precision import in_precision
from hotview.training.process_group import ProcessGroup
from hotview.training.row_sharding import RowShard, ShardAssignment
from hotview.training.trainer import Training, make_optimizer, train_step

__all__ = ["DDPTrainer"]


class DDPTrainer:
    """A team of one, which takes its steps together with the same team in other processes.

    Parameters
    ----------
    training : Training
        The one; its sampler will read the rows of this process only.
    learning_rate : float
        Of Adam.
    precision : str
        Of encoders and decoders, as of `in_precision`.
    ranks : ProcessGroup
        The processes.
    """

    def __init__(
        self, training: Training, learning_rate: float, precision: str, ranks: ProcessGroup
    ) -> None:
        check_no_batch_norm(training.network)
        self.members, self.ranks = [training], ranks
        self.batch: Batch | None = None
        self.network, self.objective = training.network, training.objective
        self.optimizer = make_optimizer(training.modules, learning_rate)
        starts = [view.starts for view in training.sampler.data.views]
        self.share = training.sampler.share = RowShard.of(starts, ranks.rank, ranks.size)
        decodes = self.objective.regularizer is VIEW_REGULARIZERS["autoencoder"]
        self._gathering = _Gathering(in_precision(self.network, precision), ranks, decodes=decodes)
        self._shared = copy.copy(self.objective)  # whose coupling and weights are the same
        if decodes:
            self._shared.regularizer = _reconstruction

    def step(self) -> Evaluation:
        """Take a step, as all other processes do."""
        one = self.members[0]
        picks = one.sampler.pick()
        self.batch = one.sampler.fetch(picks)
        self._gathering.look_at(picks, self.batch, self.share)
        agreed = _Agreement(self.optimizer, self.ranks)
        evaluation = train_step(
            self._gathering, self._shared, self.optimizer, self.batch, one.generator, agreed.reach
        )
        if not agreed.is_reached:  # without a gradient, too, all must stop after the same step
            agreed.parameters = []
            agreed.reach()
        return evaluation

    def write_back(self) -> None:
        """Nothing: the network is the member's own."""

    def take_over(self) -> None:
        """Nothing, for the same reason."""


class _Agreement:
    """What all processes agree on in a step: the gradient, and whether somebody wants to stop."""

    def __init__(self, optimizer: torch.optim.Optimizer | None, ranks: ProcessGroup) -> None:
        groups = [] if optimizer is None else optimizer.param_groups
        self.parameters: list[Tensor] = [p for group in groups for p in group["params"]]
        self.ranks, self.is_reached = ranks, False

    def reach(self) -> None:
        """Average all gradients, and hear of each other's interrupts, in one message."""
        told = [p.grad is not None for p in self.parameters]
        ear = self.ranks.ear
        wants = ear is not None and ear.heard
        like = self.parameters[0] if self.parameters else torch.zeros((), device=self.ranks.device)
        flags = torch.tensor([*told, wants], dtype=like.dtype, device=like.device)
        gradients = [
            (torch.zeros_like(p) if p.grad is None else p.grad).reshape(-1) for p in self.parameters
        ]
        mean = self.ranks.average(torch.cat([flags, *gradients]))
        flags, *found = torch.split(mean, [len(flags), *(p.numel() for p in self.parameters)])
        *anybody, stops = flags.tolist()
        for p, grad, is_told in zip(self.parameters, found, anybody, strict=True):
            p.grad = grad.view_as(p) if is_told > 0 else None
        if ear is not None and stops > 0:
            ear.asked = True
        self.is_reached = True


class _Gathering(MultiViewNetwork):
    """A network that encodes the rows of this process, and has the features of all."""

    def __init__(self, network: MultiViewNetwork, ranks: ProcessGroup, *, decodes: bool) -> None:
        super().__init__(
            list(network.encoders),
            list(network.maps),
            list(network.decoders),
            network.joint_head,
            list(network.view_heads),
        )
        self._inner, self._ranks, self._decodes = [network], ranks, decodes  # not a second time
        self.error = torch.zeros(())

    def look_at(self, picks: Picks, batch: Batch, share: RowShard) -> None:
        """Learn whose rows make the next batch."""
        pairs = enumerate(picks.rows)
        self._deals = [ShardAssignment.of(share.owners(s, rows), share.size) for s, rows in pairs]
        self._batch, self._rank = batch, share.rank

    def encode(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Features F_s of the rows of every view, those of other processes among them."""
        own = self._encode_own(Xs)
        error = [self._own_error(Xs, own).view(1, 1)] if self._decodes else []
        every = _Gather.apply(self._ranks, self._deals, *own, *error)  # type: ignore[no-untyped-call]
        if self._decodes:
            self.error = every[-1].sum()
        return list(every[: len(own)])

    def _encode_own(self, Xs: Sequence[Tensor]) -> list[Tensor]:
        """Features of this process's rows; where it has none, encoders get a row that is dropped.

        Not all modules take a table without rows; a reshape, say, cannot tell how wide it is.
        """
        if all(len(X) > 0 for X in Xs):
            return self._inner[0].encode(Xs)
        Fs = self._inner[0].encode([X if len(X) > 0 else X.new_zeros(1, X.shape[1]) for X in Xs])
        # Detached, for a gradient of nothing may be 0 · ∞.
        return [
            F if len(X) > 0 else F[:0].detach().requires_grad_(F.requires_grad)
            for X, F in zip(Xs, Fs, strict=True)
        ]

    def _own_error(self, Xs: Sequence[Tensor], Fs: Sequence[Tensor]) -> Tensor:
        """What this process adds to the mean squared error of decoded rows."""
        sizes = self._batch.sizes["rows"]
        where = [self._decoded(s) for s in range(len(Xs))]
        decoded = self._inner[0].reconstruct([F[w] for F, w in zip(Fs, where, strict=True)])
        errors = [
            (Y - X[w]).square().sum() / (n * X.shape[1])
            for X, Y, w, n in zip(Xs, decoded, where, sizes, strict=True)
        ]
        return torch.stack(errors).sum()

    def _decoded(self, s: int) -> slice:
        """Which of the process's rows of view s are decoded: those that are coupled."""
        start, end = span(self._batch.sizes, "rows", s)
        places = self._deals[s].places[self._rank]
        first, last = places.searchsorted([start, end])
        return slice(int(first), int(last))


def _reconstruction(network: MultiViewNetwork, batch: Batch, Fs: dict[str, list[Tensor]]) -> Terms:
    assert isinstance(network, _Gathering)
    return Terms({"reconstruction": network.error})


class _Gather(torch.autograd.Function):
    """Rows of all processes, from those of this one; whatever more there is has a row of each.

    All processes know the same gradient in the gathered rows, so none of it needs to be sent: the
    sum of what all would send to one is its part, as often as there are processes.
    """

    @staticmethod
    def forward(
        ctx: Any, ranks: ProcessGroup, deals: Sequence[ShardAssignment], *parts: Tensor
    ) -> tuple[Tensor, ...]:
        ctx.ranks, ctx.deals = ranks, deals
        ctx.set_materialize_grads(False)
        widths = [part.shape[1] for part in parts]
        counts = [[len(places) for places in deal.places] for deal in deals]
        counts += [[1] * ranks.size] * (len(parts) - len(deals))
        lengths = [
            [n * w for n, w in zip(one, widths, strict=True)] for one in zip(*counts, strict=True)
        ]
        flat = torch.cat([part.reshape(-1) for part in parts])
        sent = ranks.gather(flat, [sum(one) for one in lengths])
        pieces = [torch.split(x, one) for x, one in zip(sent, lengths, strict=True)]
        every = [
            torch.cat([x.view(-1, w) for x in each])
            for each, w in zip(zip(*pieces, strict=True), widths, strict=True)
        ]
        backs = [torch.from_numpy(deal.back).to(flat.device) for deal in deals]
        ordered = [rows[back] for rows, back in zip(every, backs, strict=False)]
        return *ordered, *every[len(deals) :]

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, ...]:
        ranks = ctx.ranks
        places = [torch.from_numpy(deal.places[ranks.rank]) for deal in ctx.deals]
        places += [torch.tensor([ranks.rank])] * (len(gradients) - len(places))
        return (
            None,
            None,
            *(
                None if G is None else ranks.size * G[where.to(G.device)]
                for G, where in zip(gradients, places, strict=True)
            ),
        )


def check_no_batch_norm(network: nn.Module) -> None:
    """Refuse encoders that normalize over the rows of a batch, of which a process has a part."""
    for module in network.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            raise ValueError(
                "Expected encoders that take every row by itself, because devices shares "
                f"the rows of a batch out among processes, but one has a {type(module).__name__}, "
                "which would see a part of them. Use torch.nn.LayerNorm, or leave devices out."
            )
