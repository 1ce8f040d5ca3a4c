"""Coupling of the views by quantiles: plans, references and gradients at the server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from hotview.federated.messages import Message
from hotview.federated.settings import Settings
from hotview.losses import HOTReference, Planner
from hotview.losses.coupling import orthogonality
from hotview.ot import Plan, draw_directions, sliced_cost
from hotview.training.checkpoint import check_tensors, load_optimizer_state, optimizer_state
from hotview.training.trainer import optimizer_step

_WARM_UP_STEPS = 200  # steps that initialize the references at the views


@dataclass(frozen=True)
class CouplingResult:
    """Plan of a round, and its gradients.

    Parameters
    ----------
    plan : Plan
        W, over the clients that are present.
    names : list of str
        Names of these clients.
    parts : dict of str to float
        Terms of the loss.
    replies : dict of str to dict of str to Tensor
        What each client gets: gradients of what it sent or, with references, its row of W, which
        is uniform for one that was absent.
    curvatures : dict of str to float
        Curvatures by the name of what was sent.
    """

    plan: Plan
    names: list[str]
    parts: dict[str, float]
    replies: dict[str, dict[str, Tensor]]
    curvatures: dict[str, float] = field(default_factory=dict)


class ServerCoupling:
    """Couples the views of the clients by the quantiles that they send.

    Parameters
    ----------
    settings : Settings
        Settings of the training.
    names : sequence of str
        Names of all clients.
    """

    def __init__(self, settings: Settings, names: Sequence[str]) -> None:
        s = self.settings = settings
        self.names = list(names)
        self.planner = Planner(s.reg, True, s.sinkhorn_max_iter, s.cost_decay)
        self.reference_loss: HOTReference | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        if s.coupling == "hot-reference":
            self.reference_loss = HOTReference(
                s.n_components,
                s.n_references,
                s.orthogonality_weight,
                self.planner,
                n_points=s.quantiles,
                generator=torch.Generator().manual_seed(s.random_state),
            )
            self.optimizer = self._make_optimizer(s.learning_rate)
        n_columns = s.n_references if self.reference_loss is not None else len(self.names)
        #: moving averages of C over rounds; NaN before the first value
        self.mean_cost = torch.full((len(self.names), n_columns), torch.nan)

    def _make_optimizer(self, learning_rate: float) -> torch.optim.Optimizer:
        assert self.reference_loss is not None
        return torch.optim.Adam(self.reference_loss.parameters(), lr=learning_rate, fused=True)

    @property
    def references(self) -> Tensor | None:
        """Points of the reference clouds."""
        if self.reference_loss is None:
            return None
        return self.reference_loss.references.detach().clone()

    def update(self, updates: Mapping[str, Message]) -> CouplingResult:
        """Solve for the plan of a round, and update the references.

        Parameters
        ----------
        updates : dict of str to Message
            Responses of at least two clients in a round.

        Returns
        -------
        CouplingResult
            The plan and the gradients.
        """
        names = [name for name in self.names if name in updates]
        round = updates[names[0]].metadata["round"]
        Qs = [torch.from_numpy(updates[name].arrays["quantiles"]) for name in names]
        if self.reference_loss is None:
            moments = [torch.from_numpy(updates[name].arrays["moment"]) for name in names]
            return self._update_pairs(names, Qs, moments)
        theta = shared_directions(self.settings, round)
        if round == 1 and self.settings.local_steps > 1:
            self._warm_up(Qs, theta)
        return self._update_references(names, Qs, theta)

    def _update_references(
        self, names: list[str], Qs: Sequence[Tensor], theta: Tensor
    ) -> CouplingResult:
        s = self.settings
        assert self.optimizer is not None
        plan: Plan | None = None
        parts: dict[str, float] = {}
        for _ in range(s.local_steps):
            C, penalty = self._reference_costs(Qs, theta)
            if plan is None:
                plan = self._solve(names, C.detach())
                parts = self._loss_terms((plan.W * C).sum(), penalty)
            optimizer_step(self.optimizer, s.coupling_weight * ((plan.W * C).sum() + penalty))
        assert plan is not None
        rows, (n_views, K) = dict(zip(names, plan.W.unbind(0), strict=True)), plan.W.shape
        uniform = torch.full((K,), 1 / (n_views * K))
        replies = {name: {"weights": rows.get(name, uniform)} for name in self.names}
        return CouplingResult(plan, names, parts, replies)

    def _reference_costs(self, Qs: Sequence[Tensor], theta: Tensor) -> tuple[Tensor, Tensor]:
        """Return C between views and references, and the orthogonality penalty."""
        assert self.reference_loss is not None
        Gs = self.reference_loss.clouds()
        projections = [theta @ G.T for G in Gs]
        penalty = self.settings.orthogonality_weight * orthogonality(Gs, "mean")
        return quantile_costs(Qs, projections), penalty

    def _warm_up(self, Qs: Sequence[Tensor], theta: Tensor) -> None:
        """Initialize every reference at a group of similar views, as central training does."""
        s = self.settings
        pairs = self.planner.solve(quantile_costs(Qs), pairwise=True)
        groups = pairs.view_labels(min(s.n_references, len(Qs))).labels
        member = torch.tensor(
            [[float(k % (groups.max() + 1) == g) for k in range(s.n_references)] for g in groups]
        )
        weights = member / member.sum(0, keepdim=True)
        optimizer = self._make_optimizer(10 * s.learning_rate)
        for _ in range(_WARM_UP_STEPS):
            C, _ = self._reference_costs(Qs, theta)
            optimizer_step(optimizer, (weights * C).sum())

    def _update_pairs(
        self, names: list[str], Qs: Sequence[Tensor], moments: Sequence[Tensor]
    ) -> CouplingResult:
        s, n = self.settings, len(names)
        Qs = [Q.clone().requires_grad_() for Q in Qs]
        moments = [A.clone().requires_grad_() for A in moments]
        C = quantile_costs(Qs)
        plan = self._solve(names, C.detach())
        transport = (plan.W * C).sum()
        excess = torch.stack(list(moments)).sum(0) - torch.eye(s.n_components)
        penalty = s.orthogonality_weight * excess.square().sum()
        loss = s.coupling_weight * (transport + penalty)
        grads = torch.autograd.grad(loss, [*Qs, *moments])
        replies = {
            name: {"gradient.quantiles": grads[i], "gradient.moment": grads[n + i]}
            for i, name in enumerate(names)
        }
        # Of 2/S Σ_t (Q_s − Q_t)² / (Mq), in the client's own quantiles; and of α (…)², times n,
        # because all n clients change their moments at once.
        curvatures = {
            "quantiles": s.coupling_weight * 2 / n / Qs[0].numel(),
            "moment": s.coupling_weight * s.orthogonality_weight * n,
        }
        parts = self._loss_terms(transport, penalty)
        return CouplingResult(plan, names, parts, replies, curvatures)

    def _loss_terms(self, transport: Tensor, penalty: Tensor) -> dict[str, float]:
        terms = {"transport": transport, "orthogonality": penalty}
        return {k: self.settings.coupling_weight * float(x.detach()) for k, x in terms.items()}

    def _solve(self, names: list[str], C: Tensor) -> Plan:
        """Solve for the plan over the averaged costs of the clients that are present."""
        rows = torch.tensor([self.names.index(name) for name in names])
        pairwise = self.reference_loss is None
        where = (rows[:, None], rows) if pairwise else (rows,)
        before = self.mean_cost[where]
        mean = torch.where(before.isnan(), C, torch.lerp(C, before, self.planner.decay))
        self.mean_cost[where] = mean
        return self.planner.solve(mean, pairwise=pairwise)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the coupling, as tensors."""
        tensors = {"mean_cost": self.mean_cost, **optimizer_state(self.optimizer)}
        if self.references is not None:
            tensors["references"] = self.references
        return {name: x.clone() for name, x in tensors.items()}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Restore a state, after a check of everything in it.

        Parameters
        ----------
        tensors : dict of str to Tensor
            The output of `state` of a coupling with the same settings and names.
        """
        tensors = {name: x.clone() for name, x in tensors.items()}
        expected = {"mean_cost": self.mean_cost}
        if self.references is not None:
            expected["references"] = self.references
        own = {name: tensors.pop(name) for name in expected if name in tensors}
        # The costs of organizations that have never been present are unknown: NaN.
        known = {k: x.masked_fill(x.isnan() & (k == "mean_cost"), 0) for k, x in own.items()}
        check_tensors(known, expected)
        load_optimizer_state(self.optimizer, tensors)
        self.mean_cost = own["mean_cost"]
        if self.reference_loss is not None:
            with torch.no_grad():
                self.reference_loss.references.copy_(own["references"])


def quantile_costs(Qs: Sequence[Tensor], Rs: Sequence[Tensor] | None = None) -> Tensor:
    r"""Return sliced costs between clouds that are given by their quantiles.

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
    >>> from hotview.federated.coupling import quantile_costs
    >>> quantile_costs([torch.tensor([[0.0, 1.0]])], [torch.tensor([[2.0, 3.0]])])
    tensor([[4.]])
    """
    ones = Qs[0].new_ones(len(Qs[0]), 1, 1)
    clouds = None if Rs is None else [R.unsqueeze(-1) for R in Rs]
    return sliced_cost([Q.unsqueeze(-1) for Q in Qs], clouds, directions=ones).mean(0)


def shared_directions(settings: Settings, round: int, step: int = 0) -> Tensor:
    """Draw the directions of a step, the same at the server and at every client.

    Parameters
    ----------
    settings : Settings
        Settings of the training, which have the shared seed.
    round, step : int
        The round, and the step in it; quantiles are sent along the directions of step 0.

    Returns
    -------
    Tensor of shape (M, d), float32
        Unit vectors.

    Examples
    --------
    >>> from hotview.federated import Settings
    >>> from hotview.federated.coupling import shared_directions
    >>> shared_directions(Settings(n_projections=4, n_components=2), round=3).shape
    torch.Size([4, 2])
    """
    seed = np.random.SeedSequence([settings.random_state, round, step])
    number = seed.generate_state(1, np.uint64)[0]
    generator = torch.Generator().manual_seed(int(number >> np.uint64(1)))
    directions = draw_directions(
        settings.n_projections,
        settings.n_components,
        kind=settings.projections,
        generator=generator,
        dtype=torch.float64,
    )
    return directions.to(torch.float32)


def quantile_means(P: Tensor, q: int) -> Tensor:
    r"""Return the mean of the quantile function over q equal intervals, for every direction.

    .. math:: Q_{mi} = q \int_{i/q}^{(i+1)/q} F_m^{-1}(u)\,du

    For q = n these are the sorted values. For fewer, each is a mean over n/q rows. Differentiable
    in `P`.

    Parameters
    ----------
    P : Tensor of shape (n, M)
        Projections of n rows on M directions.
    q : int
        Number of intervals.

    Returns
    -------
    Tensor of shape (M, q)
        Means in ascending order.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.coupling import quantile_means
    >>> quantile_means(torch.tensor([[3.0], [1.0], [2.0], [8.0]]), 2)
    tensor([[1.5000, 5.5000]])
    """
    n, ordered = len(P), P.sort(dim=0).values
    if n == q:
        return ordered.T
    i, j = np.arange(q)[:, None], np.arange(n)[None]
    overlap = np.minimum((i + 1) * n, (j + 1) * q) - np.maximum(i * n, j * q)
    weights = torch.from_numpy(np.maximum(overlap, 0) / n).to(ordered)
    return (weights @ ordered).T


def quadratic_surrogate(x: Tensor, at: Tensor, gradient: Tensor, curvature: float) -> Tensor:
    r"""Return a surrogate of a loss at another client: :math:`⟨g, x - x_0⟩ + c \|x - x_0\|^2`.

    Its gradient at :math:`x_0`, the value that was sent, is the true gradient. For a transport
    cost with fixed plans it is the loss itself; for a cross-entropy it is an upper bound (with c
    = 1/4 per row), which allows many local steps per message.

    Parameters
    ----------
    x : Tensor
        x, the value now.
    at : Tensor
        x₀, the value that was sent.
    gradient : Tensor
        g, the gradient that was received.
    curvature : float
        c.

    Returns
    -------
    Tensor
        The surrogate, a number.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.coupling import quadratic_surrogate
    >>> quadratic_surrogate(torch.tensor([3.0, 1.0]), torch.zeros(2), torch.tensor([1.0, 0.0]), 2.0)
    tensor(23.)
    """
    d = x - at
    return (gradient * d).sum() + curvature * d.square().sum()
