"""The coupling, seen from the center: plans, references and gradients from quantiles alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from hotview.federated.local_trainer import Report
from hotview.federated.quantiles import directions_of
from hotview.federated.settings import Settings
from hotview.losses import HOTReference, Planner
from hotview.losses.orthogonality import orthogonality
from hotview.ot import Plan, sliced_cost
from hotview.training.adam import Adam

__all__ = ["Center", "Coupled", "line_costs"]

_WARM_UP = 200  # steps in which references move to where the views begin


def line_costs(Qs: Sequence[Tensor], Rs: Sequence[Tensor] | None = None) -> Tensor:
    r"""Sliced costs between clouds of which only quantiles are known.

    .. math:: C_{st} = \frac{1}{M} \sum_m W_2^2(Q_{s,m}, Q_{t,m})

    Parameters
    ----------
    Qs : sequence of Tensor of shape (M, q)
        Quantiles of every cloud along M directions.
    Rs : sequence of Tensor of shape (M, q), or None, default=None
        Clouds to compare with; None compares the `Qs` with each other.

    Returns
    -------
    Tensor of shape (S, S) or (S, K)
        The costs, differentiable.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.server_coupling import line_costs
    >>> line_costs([torch.tensor([[0.0, 1.0]])], [torch.tensor([[2.0, 3.0]])])
    tensor([[4.]])
    """
    ones = Qs[0].new_ones(len(Qs[0]), 1, 1)
    clouds = None if Rs is None else [R.unsqueeze(-1) for R in Rs]
    return sliced_cost([Q.unsqueeze(-1) for Q in Qs], clouds, directions=ones).mean(0)


@dataclass(frozen=True)
class Coupled:
    """What the center found in a round.

    Parameters
    ----------
    plan : Plan
        W, over the organizations that were there.
    names : list of str
        These.
    parts : dict of str to float
        Parts of the loss.
    gradients : dict of str to dict of str to Tensor
        By organization and by what it had sent; empty with references.
    curvatures : dict of str to float
        By what was sent.
    weights : dict of str to Tensor
        Rows of W by organization, with references.
    before : Tensor or None
        The references to which they belong.
    """

    plan: Plan
    names: list[str]
    parts: dict[str, float]
    gradients: dict[str, dict[str, Tensor]] = field(default_factory=dict)
    curvatures: dict[str, float] = field(default_factory=dict)
    weights: dict[str, Tensor] = field(default_factory=dict)
    before: Tensor | None = None


class Center:
    """What couples the organizations, without their rows.

    Parameters
    ----------
    settings : Settings
        Of the federation.
    names : sequence of str
        All organizations.
    """

    def __init__(self, settings: Settings, names: Sequence[str]) -> None:
        s = self.settings = settings
        self.names = list(names)
        self.planner = Planner(s.reg, True, s.sinkhorn_max_iter, s.cost_decay)
        self.coupling: HOTReference | None = None
        self.optimizer: Adam | None = None
        if s.coupling == "hot-reference":
            self.coupling = HOTReference(
                s.n_components,
                s.n_references,
                s.orthogonality_weight,
                self.planner,
                n_points=s.quantiles,
                generator=torch.Generator().manual_seed(s.random_state),
            )
            self.optimizer = Adam(self.coupling.parameters(), s.learning_rate)
        n_columns = s.n_references if self.coupling is not None else len(self.names)
        #: averages of C over rounds; NaN where nothing is known yet
        self.mean_cost = torch.full((len(self.names), n_columns), torch.nan)

    @property
    def references(self) -> Tensor | None:
        """Points of the reference clouds."""
        return None if self.coupling is None else self.coupling.references.detach().clone()

    def couple(self, reports: Mapping[str, Report]) -> Coupled:
        """Solve for the plan of a round, and move the references.

        Parameters
        ----------
        reports : dict of str to Report
            Of at least two organizations, of one round.

        Returns
        -------
        Coupled
            What to tell them.
        """
        names = [name for name in self.names if name in reports]
        round = reports[names[0]].round
        Qs = [reports[name].sent["quantiles"] for name in names]
        if self.coupling is None:
            return self._couple_pairs(names, Qs, [reports[name].sent["moment"] for name in names])
        s = self.settings
        theta = directions_of(
            s.random_state, round, 0, s.n_projections, s.n_components, kind=s.projections
        )
        if round == 1 and s.local_steps > 1:
            self._warm_up(names, Qs, theta)
        return self._couple_references(names, Qs, theta)

    def _couple_references(self, names: list[str], Qs: Sequence[Tensor], theta: Tensor) -> Coupled:
        before = self.references
        plan: Plan | None = None
        parts: dict[str, float] = {}
        for _ in range(self.settings.local_steps):
            C, penalty = self._costs(Qs, theta)
            if plan is None:
                plan = self._solve(names, C.detach())
                transport = float((plan.W * C.detach()).sum())
                parts = self._weigh(
                    {"transport": transport, "orthogonality": float(penalty.detach())}
                )
            self._move((plan.W * C).sum() + penalty)
        assert plan is not None
        weights = dict(zip(names, plan.W.unbind(0), strict=True))
        return Coupled(plan, names, parts, weights=weights, before=before)

    def _costs(self, Qs: Sequence[Tensor], theta: Tensor) -> tuple[Tensor, Tensor]:
        """C toward the references as they are, and how far these are from the constraint."""
        assert self.coupling is not None
        Gs = self.coupling.clouds()
        Rs = [theta @ G.T for G in Gs]  # whose order the cost finds
        penalty = self.settings.orthogonality_weight * orthogonality(Gs, "mean")
        return line_costs(Qs, Rs), penalty

    def _move(self, loss: Tensor) -> None:
        assert self.optimizer is not None
        self.optimizer.zero_grad()
        torch.autograd.backward(self.settings.coupling_weight * loss)
        self.optimizer.step()

    def _warm_up(self, names: list[str], Qs: Sequence[Tensor], theta: Tensor) -> None:
        """Let every reference begin at one group of similar views, as in a central training."""
        s = self.settings
        pairs = self.planner.solve(line_costs(Qs), pairwise=True)
        groups = pairs.view_labels(min(s.n_references, len(names))).labels
        member = torch.tensor(
            [[float(k % (groups.max() + 1) == g) for k in range(s.n_references)] for g in groups]
        )
        weights = member / member.sum(0, keepdim=True)
        assert self.coupling is not None
        optimizer = Adam(self.coupling.parameters(), 10 * s.learning_rate)
        for _ in range(_WARM_UP):
            C, _ = self._costs(Qs, theta)
            optimizer.zero_grad()
            torch.autograd.backward((weights * C).sum())
            optimizer.step()

    def _couple_pairs(
        self, names: list[str], Qs: Sequence[Tensor], moments: Sequence[Tensor]
    ) -> Coupled:
        s, n = self.settings, len(names)
        sent = [Q.clone().requires_grad_() for Q in Qs]
        seen = [A.clone().requires_grad_() for A in moments]
        C = line_costs(sent)
        plan = self._solve(names, C.detach())
        transport = (plan.W * C).sum()
        excess = torch.stack(seen).sum(0) - torch.eye(s.n_components)
        penalty = s.orthogonality_weight * excess.square().sum()
        torch.autograd.backward(s.coupling_weight * (transport + penalty))
        gradients = {
            name: {"quantiles": _grad(Q), "moment": _grad(A)}
            for name, Q, A in zip(names, sent, seen, strict=True)
        }
        # Of 2/S Σ_t (Q_s − Q_t)² / (Mq), in the organization's own quantiles; and of α (…)²,
        # times n, because all n organizations move their moments at once.
        curvatures = {
            "quantiles": s.coupling_weight * 2 / n / Qs[0].numel(),
            "moment": s.coupling_weight * s.orthogonality_weight * n,
        }
        parts = self._weigh(
            {"transport": float(transport.detach()), "orthogonality": float(penalty.detach())}
        )
        return Coupled(plan, names, parts, gradients, curvatures)

    def _solve(self, names: list[str], C: Tensor) -> Plan:
        """The plan over averaged costs of those who are there."""
        rows = torch.tensor([self.names.index(name) for name in names])
        pairwise = self.coupling is None
        where = (rows[:, None], rows) if pairwise else (rows,)
        before = self.mean_cost[where]
        mean = torch.where(before.isnan(), C, torch.lerp(C, before, self.planner.decay))
        self.mean_cost[where] = mean
        return self.planner.solve(mean, pairwise=pairwise)

    def _weigh(self, parts: Mapping[str, float]) -> dict[str, float]:
        return {name: self.settings.coupling_weight * part for name, part in parts.items()}

    def state(self) -> dict[str, Tensor]:
        """Everything to go on from, as tensors."""
        tensors = {"mean_cost": self.mean_cost.clone()}
        if self.coupling is not None and self.optimizer is not None:
            tensors["references"] = self.coupling.references.detach().clone()
            for name, value in self.optimizer.state.get(self.coupling.references, {}).items():
                tensors[f"adam.{name}"] = value.clone()
        return tensors

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `state` returned.

        Parameters
        ----------
        tensors : dict of str to Tensor
            The state.
        """
        self.mean_cost = tensors["mean_cost"].clone()
        if self.coupling is None or self.optimizer is None:
            return
        with torch.no_grad():
            self.coupling.references.copy_(tensors["references"])
        adam = {
            name.removeprefix("adam."): value.clone()
            for name, value in tensors.items()
            if name.startswith("adam.")
        }
        state = {**self.optimizer.state_dict(), "state": {0: adam} if adam else {}}
        self.optimizer.load_state_dict(state)


def _grad(x: Tensor) -> Tensor:
    assert x.grad is not None
    return x.grad
