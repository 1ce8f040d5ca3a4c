"""What one organization learns at home, between two messages."""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from hotview._types import IntArray
from hotview.estimators.initialization import start_at_principal_components
from hotview.federated.client_data import Holdings
from hotview.federated.labels import Asked
from hotview.federated.privacy import Release
from hotview.federated.quantiles import directions_of, summarize
from hotview.federated.settings import Settings
from hotview.losses import reconstruction_error
from hotview.losses.orthogonality import second_moment
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.ot import sliced_cost
from hotview.semisupervised.graph import (
    N_COMPONENTS,
    Known,
    build_graph,
    make_soft_labels,
    propagate_labels,
)
from hotview.training.batches import TrainingRows
from hotview.training.pca import principal_components
from hotview.training.row_streams import Stream
from hotview.training.rows import ViewRows
from hotview.training.trainer import make_optimizer

__all__ = ["Learner", "Lesson", "Pull", "Report"]

_N_NEIGHBORS = 10  # among whom shared labels spread


@dataclass(frozen=True)
class Pull:
    r"""What others know of a loss: :math:`⟨g, x - x_0⟩ + c \|x - x_0\|^2`.

    At :math:`x_0`, which was sent, its gradient is the true one. For a transport between fixed
    plans it is the loss itself; of a cross-entropy it is an upper bound (with c = 1/4 a row), so
    that many steps can be taken on it before the others are asked again.

    Parameters
    ----------
    at : Tensor
        What was sent.
    gradient : Tensor
        What came back.
    curvature : float
        c.

    Examples
    --------
    >>> import torch
    >>> from hotview.federated.local_trainer import Pull
    >>> Pull(torch.zeros(2), torch.tensor([1.0, 0.0]), 2.0)(torch.tensor([3.0, 1.0]))
    tensor(23.)
    """

    at: Tensor
    gradient: Tensor
    curvature: float

    def __call__(self, x: Tensor) -> Tensor:
        """The loss at `x`."""
        d = x - self.at
        return (self.gradient * d).sum() + self.curvature * d.square().sum()


@dataclass
class Report:
    """What was sent in a round, and of which rows.

    Parameters
    ----------
    round : int
        The round; 0 where nothing was sent yet.
    rows : ndarray of int64
        Rows whose projections were sent.
    own : ndarray of int64
        Labeled rows of the organization's own, as numbers among these.
    linked : ndarray of int64
        Linked individuals whose scores were sent.
    sent : dict of str to Tensor
        ``quantiles``, ``moment``, ``scores``, ``held`` (scores, too) and ``features``, where they
        were.
    """

    round: int = 0
    rows: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    own: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    linked: IntArray = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sent: dict[str, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class Lesson:
    """What an organization is told of its last report.

    Parameters
    ----------
    about : int
        The round of the report; 0 for none.
    gradients : dict of str to Tensor
        With respect to what was sent.
    curvatures : dict of str to float
        Of the same.
    weights : Tensor of shape (n_references,) or None
        The organization's row of the plan W.
    before, after : Tensor of shape (n_references, n_points, n_components) or None
        References at the time of the report, and now.
    """

    about: int = 0
    gradients: Mapping[str, Tensor] = field(default_factory=dict)
    curvatures: Mapping[str, float] = field(default_factory=dict)
    weights: Tensor | None = None
    before: Tensor | None = None
    after: Tensor | None = None


class Learner:
    """The network of one view, and the steps it takes by itself.

    Parameters
    ----------
    settings : Settings
        Of the federation.
    holdings : Holdings
        What the organization has.
    classes : sequence
        All classes; none without a label holder.
    n_views : int
        Number of organizations.
    device : torch.device
        Where to compute.
    release : Release or None, default=None
        How projections are made private; None sends them as they are.
    shared : ndarray of int64 or None, default=None
        Classes of all linked individuals, −1 where unknown, if the label holder shares them.
    """

    def __init__(
        self,
        settings: Settings,
        holdings: Holdings,
        classes: Sequence[object],
        n_views: int,
        device: torch.device,
        release: Release | None = None,
        shared: IntArray | None = None,
    ) -> None:
        self.settings, self.holdings, self.device = settings, holdings, device
        self.n_classes, self.release = len(classes), release
        seed = [settings.random_state, zlib.crc32(holdings.name.encode())]
        self.random = np.random.default_rng(seed)
        self.view = ViewRows([holdings.table], holdings.columns, device, often=True)
        n = max(settings.encoder_dim, settings.n_components, N_COMPONENTS)
        (self.pca,) = principal_components([self.view], n, np.random.default_rng(seed))
        self.network = self._make_network(seed, n_views).to(device)
        self.optimizer = make_optimizer([self.network], settings.learning_rate)
        codes = holdings.codes(classes) if classes else np.full(len(self.view), -1)
        self.codes = codes
        self.soft_labels = None if shared is None else self._spread(codes, shared)
        own = np.setdiff1d(np.flatnonzero(codes >= 0), holdings.linked)
        self.own, self.own_codes = own, torch.from_numpy(codes[own]).to(device)
        self.linked_codes: IntArray = codes[holdings.linked]
        if self.soft_labels is not None:
            self.own = own = own[:0]  # which are among the soft_labels
        size = settings.batch_size
        self.streams = [Stream(len(self.view), size, self.random)]
        if len(own) > 0:
            self.streams.append(Stream(len(own), size, self.random))

    def _make_network(self, seed: Sequence[int], n_views: int) -> MultiViewNetwork:
        settings, table = self.settings, self.holdings.table
        decodes = settings.view_regularizer == "autoencoder"
        widths = Widths(
            [table.n_columns],
            [settings.hidden],
            settings.encoder_dim,
            settings.n_components,
            self.n_classes,
            decodes,
        )
        number = np.random.SeedSequence(seed).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(number))
        network = make_network(widths, generator, [None], [self.holdings.name])
        network.joint_head = None  # judgments meet, features stay at home
        n_clouds = settings.n_references if settings.coupling == "hot-reference" else n_views
        start_at_principal_components(network, 0, self.pca, settings.n_components, 1 / n_clouds)
        return network

    def hear(self, shared: IntArray) -> None:
        """Learn from the labels that the holder shares by now.

        Parameters
        ----------
        shared : ndarray of int64
            Classes of all linked individuals, −1 where unknown.
        """
        self.soft_labels = self._spread(self.codes, shared)

    def _spread(self, codes: IntArray, shared: IntArray) -> Tensor:
        """Labels of its own, and those shared by the holder, spread among all rows."""
        known, random = codes.copy(), np.random.default_rng(self.settings.random_state)
        # Also where their labels are known: some are held out, to tell how much a view counts.
        known[self.holdings.linked] = shared
        rows = np.flatnonzero(known >= 0)
        nobody = np.empty((0, 1), dtype=np.int64)
        data = TrainingRows([self.view], nobody, own=[rows], own_target=[known[rows]])
        ground = build_graph(data, 0, self.pca, _N_NEIGHBORS, random)
        told = Known.of(data, np.ones(self.n_classes))
        (shares,) = propagate_labels([ground], told, random)
        return make_soft_labels(ground, shares, known)

    def report(self, round: int, asked: Asked) -> Report:
        """What to send in a round: see `Report`.

        Parameters
        ----------
        round : int
            Which round.
        asked : Asked
            Linked individuals about whom it asks.

        Returns
        -------
        Report
            With tensors on the CPU.
        """
        rows, own = self._draw()
        if self.release is not None:
            self.release.begin(round)
            rows = self.release.draw_rows(len(self.view))
        report = Report(round, rows, own, asked.scores)
        with torch.no_grad():
            Z = self.embed(rows)
            is_last = round > self.settings.rounds  # which nothing is learned from
            if self.settings.coupling != "none" and not is_last:
                P = Z @ self.directions(round).T
                if self.release is not None:
                    P = self.release.add_noise(P, self.settings.n_components)
                report.sent["quantiles"] = summarize(P, self.settings.quantiles)
            if self.settings.coupling == "hot-pairwise" and not is_last:
                report.sent["moment"] = second_moment(Z, "mean")
            for name, who in (("scores", asked.scores), ("held", asked.held)):
                if len(who) > 0:
                    report.sent[name] = self.score(who)
            if len(asked.features) > 0:
                report.sent["features"] = self.features(asked.features)
        report.sent = {name: x.cpu() for name, x in report.sent.items()}
        return report

    def learn(self, report: Report, lesson: Lesson, round: int) -> dict[str, float]:
        """Take the steps of a round.

        The first is on the rows that were reported on, so that one step a round is a step of the
        central training. Others are on new rows and, with references, along new directions.

        Parameters
        ----------
        report : Report
            The last one.
        lesson : Lesson
            What became of it. If it is about another report, nothing that was sent is pulled.
        round : int
            The round that follows.

        Returns
        -------
        dict of str to float
            Mean parts of the loss.
        """
        self.network.train()
        is_known = lesson.about == report.round > 0
        sums: dict[str, float] = {}
        for step in range(self.settings.local_steps):
            first = step == 0 and is_known
            rows, own = (report.rows, report.own) if first else self._draw()
            parts = self._private_parts(rows, own)
            Z = parts.pop("latents")
            if lesson.weights is not None:
                Gs = lesson.before if first else lesson.after
                theta = self.directions(report.round) if first else self.directions(round, step + 1)
                assert Gs is not None
                C = sliced_cost([Z], list(Gs.to(Z).unbind(0)), directions=theta)
                parts["transport"] = (
                    self.settings.coupling_weight * (lesson.weights.to(Z) * C[0]).sum()
                )
            if is_known:
                parts |= self._pulled(Z, report, lesson)
            self._step(parts)
            for name, part in parts.items():
                sums[name] = sums.get(name, 0.0) + float(part.detach())
        self.network.eval()
        return {name: total / self.settings.local_steps for name, total in sums.items()}

    def _draw(self) -> tuple[IntArray, IntArray]:
        rows, *own = (stream.next() for stream in self.streams)
        return rows, own[0] if own else np.empty(0, dtype=np.int64)

    def _private_parts(self, rows: IntArray, own: IntArray) -> dict[str, Tensor]:
        """The latents of rows, and what of the loss concerns nobody else."""
        X = self.view.take(rows)
        (F,) = self.network.encode([X])
        parts = {"latents": self.network.embed([F])[0]}
        if len(self.network.decoders) > 0:
            decoded = self.network.reconstruct([F])
            error = reconstruction_error([X], decoded)
            parts["reconstruction"] = self.settings.regularizer_weight * error
        if self.soft_labels is not None:
            told = self.soft_labels[torch.from_numpy(rows).to(self.device)]
            loss = cross_entropy(self.network.score_views([F])[0], told)
            parts["soft_labels"] = self.settings.head_weight * loss
        if len(own) > 0:
            scores = self._score_rows(self.own[own])
            loss = cross_entropy(scores, self.own_codes[torch.from_numpy(own)])
            parts["own_labels"] = self.settings.head_weight * loss
        return parts

    def _pulled(self, Z: Tensor, report: Report, lesson: Lesson) -> dict[str, Tensor]:
        now = {}
        if "quantiles" in lesson.gradients:
            P = Z @ self.directions(report.round).T
            now["quantiles"] = summarize(P, self.settings.quantiles)
        if "moment" in lesson.gradients:
            now["moment"] = second_moment(Z, "mean")
        if "scores" in lesson.gradients:
            now["scores"] = self.score(report.linked)
        return {
            name: Pull(
                report.sent[name].to(x), lesson.gradients[name].to(x), lesson.curvatures[name]
            )(x)
            for name, x in now.items()
        }

    def _step(self, parts: Mapping[str, Tensor]) -> None:
        losses = [part for part in parts.values() if part.requires_grad]
        if not losses or self.optimizer is None:
            return
        self.optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(torch.stack(losses).sum())
        self.optimizer.step()

    def directions(self, round: int, step: int = 0) -> Tensor:
        """The directions of a step; number 0 is what is reported on."""
        s = self.settings
        theta = directions_of(
            s.random_state, round, step, s.n_projections, s.n_components, kind=s.projections
        )
        return theta.to(self.device)

    def embed(self, rows: IntArray) -> Tensor:
        """Latents of rows in the common space."""
        return self.network.embed(self.network.encode([self.view.take(rows)]))[0]

    def features(self, linked: IntArray) -> Tensor:
        """Features of linked individuals."""
        return self.network.encode([self.view.take(self.holdings.linked[linked])])[0]

    def score(self, linked: IntArray) -> Tensor:
        """Class scores of linked individuals."""
        return self._score_rows(self.holdings.linked[linked])

    def _score_rows(self, rows: IntArray) -> Tensor:
        return self.network.score_views(self.network.encode([self.view.take(rows)]))[0]
