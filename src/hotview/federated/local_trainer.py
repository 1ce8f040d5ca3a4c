"""Training of one view at its client, between two messages."""

from __future__ import annotations

import copy
import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor
from torch.nn.functional import cross_entropy, log_softmax

from hotview._types import Array, IntArray
from hotview.estimators.initialization import start_at_principal_components
from hotview.federated.client_data import ClientData
from hotview.federated.coupling import quadratic_surrogate, quantile_means, shared_directions
from hotview.federated.messages import Message
from hotview.federated.privacy import GaussianMechanism
from hotview.federated.schema import MAX_VALUE, Session
from hotview.losses import reconstruction_error
from hotview.losses.coupling import second_moment
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.ot import sliced_cost
from hotview.preprocessing.pca import principal_components
from hotview.preprocessing.rows import ViewRows
from hotview.semisupervised.graph import N_COMPONENTS, build_graph
from hotview.semisupervised.soft_labels import make_soft_labels, score_nodes
from hotview.semisupervised.super_learner import (
    PriorWeights,
    ScoresOutOfFold,
    SuperLearner,
    fit_super_learner,
)
from hotview.training.batches import ShuffledIndices
from hotview.training.checkpoint import optimizer_state
from hotview.training.trainer import make_optimizer, optimizer_step

__all__ = ["ClientUpdate", "LocalTrainer", "fit_fusion", "fit_head", "label_loss"]

_N_NEIGHBORS = 10  # of the graph along which shared labels are propagated
# Held-out rows are few, and networks are trained on after these: weights stay near the prior ones.
_PRIOR_WEIGHTS = replace(PriorWeights.of(["head"]), joint=0.1, power=0.6, shrinkage=4.0)


def _no_rows() -> IntArray:
    return np.empty(0, dtype=np.int64)


@dataclass
class ClientUpdate:
    """What a client sends in a round, and the rows that it was computed from.

    Parameters
    ----------
    round : int
        The round; 0 before the first.
    rows : ndarray of int64
        Rows whose quantiles are sent.
    labeled : ndarray of int64
        Batch of the client's own labeled rows, as indices among these.
    linked : ndarray of int64
        Linked rows whose scores are sent.
    sent : dict of str to Tensor
        ``quantiles``, ``moment``, ``scores``, ``held_out`` (scores, too) and ``features``, as far
        as they are sent.
    """

    round: int = 0
    rows: IntArray = field(default_factory=_no_rows)
    labeled: IntArray = field(default_factory=_no_rows)
    linked: IntArray = field(default_factory=_no_rows)
    sent: dict[str, Tensor] = field(default_factory=dict)


class LocalTrainer:
    """Network of one view, and its local optimization steps.

    Parameters
    ----------
    session : Session
        Settings, names of the clients and classes.
    data : ClientData
        Data of the client.
    device : torch.device
        Device of the training.
    mechanism : GaussianMechanism or None, default=None
        Mechanism that makes projections private; None sends them as they are.
    shared_codes : ndarray of int64 or None, default=None
        Classes of all linked rows, −1 where unknown, if the label holder shares them.
    """

    def __init__(
        self,
        session: Session,
        data: ClientData,
        device: torch.device,
        mechanism: GaussianMechanism | None = None,
        shared_codes: IntArray | None = None,
    ) -> None:
        settings, classes = session.settings, session.classes
        self.settings, self.data, self.device = settings, data, device
        self.n_classes, self.mechanism = len(classes), mechanism
        seed = [settings.random_state, zlib.crc32(data.name.encode())]
        self.random = np.random.default_rng(seed)
        self.view = ViewRows([data.table], data.columns, device, often=True)
        n = max(settings.encoder_dim, settings.n_components, N_COMPONENTS)
        (self.pca,) = principal_components([self.view], n, np.random.default_rng(seed))
        self.network = self._make_network(seed, len(session.names)).to(device)
        self.optimizer = make_optimizer([self.network], settings.learning_rate)
        self.codes = data.codes(classes) if classes else np.full(self.view.n_rows, -1)
        self.linked_codes: IntArray = self.codes[data.linked]
        self.labeled_rows = np.setdiff1d(np.flatnonzero(self.codes >= 0), data.linked)
        self.soft_labels: Tensor | None = None
        if shared_codes is not None:
            self.set_shared_labels(shared_codes)
            self.labeled_rows = self.labeled_rows[:0]  # the soft labels include them
        self.labeled_codes = torch.from_numpy(self.codes[self.labeled_rows]).to(device)
        sizes = [self.view.n_rows, len(self.labeled_rows)]
        self.streams = [
            ShuffledIndices(n, settings.batch_size, self.random) for n in sizes if n > 0
        ]

    def _make_network(self, seed: Sequence[int], n_views: int) -> MultiViewNetwork:
        settings, data = self.settings, self.data
        widths = Widths(
            [data.columns.n_outputs],
            [settings.hidden],
            settings.encoder_dim,
            settings.n_components,
            self.n_classes,
            settings.view_regularizer == "autoencoder",
        )
        number = np.random.SeedSequence(seed).generate_state(1)[0]
        generator = torch.Generator().manual_seed(int(number))
        network = make_network(widths, generator, [None], [data.name])
        network.joint_head = None  # features of the views are not concatenated at a client
        n_clouds = settings.n_references if settings.coupling == "hot-reference" else n_views
        start_at_principal_components(network, 0, self.pca, settings.n_components, 1 / n_clouds)
        return network

    def set_shared_labels(self, shared_codes: IntArray) -> None:
        """Propagate the client's own labels and the shared ones to soft labels of all rows.

        Parameters
        ----------
        shared_codes : ndarray of int64
            Classes of all linked rows, −1 where unknown.
        """
        known, random = self.codes.copy(), np.random.default_rng(self.settings.random_state)
        # Also at the label holder: some rows are held out, for the fusion weights.
        known[self.data.linked] = shared_codes
        log_prior = np.full((1, self.n_classes), -np.log(self.n_classes))
        labeled = np.flatnonzero(known >= 0)
        graph = build_graph(self.view, self.pca, _N_NEIGHBORS, random, labeled)
        (scores,) = score_nodes([graph], [known], log_prior)
        equal = np.full((len(graph.nodes), self.n_classes), 1 / self.n_classes)
        propagated = equal if scores is None else scores.propagated
        self.soft_labels = make_soft_labels(graph, propagated, known)

    def make_update(self, round: int, query: Mapping[str, IntArray]) -> ClientUpdate:
        """Compute what the client sends in a round.

        Parameters
        ----------
        round : int
            The round.
        query : dict of str to ndarray of int64
            Linked rows queried in it, from `Session.linked_query`.

        Returns
        -------
        ClientUpdate
            The update, with tensors on the CPU.
        """
        s = self.settings
        rows, labeled = self._draw_batch()
        if self.mechanism is not None:
            self.mechanism.reseed(round)
            rows = self.mechanism.draw_rows(self.view.n_rows)
        sent: dict[str, Tensor] = {}
        with torch.no_grad():
            Z = self.embed(rows)
            if s.coupling != "none" and round <= s.rounds:  # no training follows the last round
                P = Z @ self.directions(round).T
                if self.mechanism is not None:
                    P = self.mechanism.add_noise(P, s.n_components)
                sent["quantiles"] = quantile_means(P, s.quantiles)
            if s.coupling == "hot-pairwise" and round <= s.rounds:
                sent["moment"] = second_moment(Z, "mean")
            for name, linked in query.items():
                sent[name] = self.features(linked) if name == "features" else self.score(linked)
        sent = {name: x.nan_to_num().cpu() for name, x in sent.items()}
        return ClientUpdate(round, rows, labeled, query.get("scores", _no_rows()), sent)

    def train(
        self, update: ClientUpdate, reply: Message, references_before: Array | None, round: int
    ) -> dict[str, float] | None:
        """Take the local steps of a round, or none where they lead to numbers that are not finite.

        The first step is on the rows of the last update, so that one step per round equals a step
        of central training. The others are on new rows and, with references, new directions. An
        error would tell the server whether private rows make the steps diverge: instead, weights
        and optimizer stay as they were.

        Parameters
        ----------
        update : ClientUpdate
            The client's last update.
        reply : Message
            The server's next request; gradients for another update are ignored.
        references_before : ndarray or None
            References at the time of the update.
        round : int
            The round of the request.

        Returns
        -------
        dict of str to float, or None
            Mean terms of the loss; None where weights stay as they were.
        """
        assert self.optimizer is not None
        before = copy.deepcopy((self.network.state_dict(), self.optimizer.state_dict()))
        self.network.train()
        arrays = {**reply.arrays}
        if references_before is not None:
            arrays["references_before"] = references_before
        received = {name: torch.from_numpy(x).to(self.device) for name, x in arrays.items()}
        is_current = (reply.metadata.get("update_round") or 0) == update.round > 0
        is_finite, sums = True, dict[str, float]()
        for step in range(self.settings.local_steps):
            is_first = step == 0 and is_current
            rows, labeled = (update.rows, update.labeled) if is_first else self._draw_batch()
            Z, terms = self._local_terms(rows, labeled)
            if not bool((Z.detach().abs() <= MAX_VALUE).all()):
                is_finite = False
                continue
            if "weights" in received:
                Gs = received["references_before" if is_first else "references"]
                theta = self.directions(*((update.round, 0) if is_first else (round, step + 1)))
                C = sliced_cost([Z], list(Gs.unbind(0)), directions=theta)
                transport = (received["weights"] * C[0]).sum()
                terms["transport"] = self.settings.coupling_weight * transport
            if is_current:
                curvatures = reply.metadata.get("curvatures") or {}
                terms |= self._surrogate_terms(Z, update, received, curvatures)
            losses = [term for term in terms.values() if term.requires_grad]
            if losses:
                optimizer_step(self.optimizer, torch.stack(losses).sum())
            for name, term in terms.items():
                sums[name] = sums.get(name, 0.0) + float(term.detach())
        self.network.eval()
        trained = [*self.network.state_dict().values(), *optimizer_state(self.optimizer).values()]
        is_finite &= all(map(math.isfinite, sums.values()))
        if not is_finite or not all(bool(x.isfinite().all()) for x in trained):
            self.network.load_state_dict(before[0])
            self.optimizer.load_state_dict(before[1])
            return None
        return {name: total / self.settings.local_steps for name, total in sums.items()}

    def _draw_batch(self) -> tuple[IntArray, IntArray]:
        rows, *labeled = (stream.next_batch() for stream in self.streams)
        return rows, labeled[0] if labeled else _no_rows()

    def _local_terms(self, rows: IntArray, labeled: IntArray) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the latents of rows, and the loss terms that need no other client."""
        s, terms = self.settings, {}
        X = self.view.take(rows)
        (F,) = self.network.encode([X])
        (Z,) = self.network.embed([F])
        if len(self.network.decoders) > 0:
            error = reconstruction_error([X], self.network.reconstruct([F]))
            terms["reconstruction"] = s.regularizer_weight * error
        if self.soft_labels is not None:
            target = self.soft_labels[torch.from_numpy(rows).to(self.device)]
            loss = cross_entropy(self.network.score_views([F])[0], target)
            terms["soft_labels"] = s.head_weight * loss
        if len(labeled) > 0:
            scores = self._score_rows(self.labeled_rows[labeled])
            loss = cross_entropy(scores, self.labeled_codes[torch.from_numpy(labeled)])
            terms["own_labels"] = s.head_weight * loss
        return Z, terms

    def _surrogate_terms(
        self,
        Z: Tensor,
        update: ClientUpdate,
        received: Mapping[str, Tensor],
        curvatures: Mapping[str, float],
    ) -> dict[str, Tensor]:
        """Return the surrogates of the loss terms whose gradients the server sent."""
        q, terms = self.settings.quantiles, {}
        values = {
            "quantiles": lambda: quantile_means(Z @ self.directions(update.round).T, q),
            "moment": lambda: second_moment(Z, "mean"),
            "scores": lambda: self.score(update.linked),
        }
        for name in (name for name in values if name in curvatures):
            x, gradient = values[name](), received[f"gradient.{name}"]
            terms[name] = quadratic_surrogate(
                x, update.sent[name].to(x), gradient, curvatures[name]
            )
        return terms

    def directions(self, round: int, step: int = 0) -> Tensor:
        """Return the directions of a step; those of step 0 are the ones of the update."""
        return shared_directions(self.settings, round, step).to(self.device)

    def embed(self, rows: IntArray) -> Tensor:
        """Return latents of rows in the common space."""
        return self.network.latents([self.view.take(rows)])[0]

    def features(self, linked: IntArray) -> Tensor:
        """Return features of linked rows."""
        return self.network.encode([self.view.take(self.data.linked[linked])])[0]

    def score(self, linked: IntArray) -> Tensor:
        """Return class scores of linked rows."""
        return self._score_rows(self.data.linked[linked])

    def _score_rows(self, rows: IntArray) -> Tensor:
        return self.network.score_views(self.network.encode([self.view.take(rows)]))[0]


def label_loss(
    scores: Mapping[str, Tensor], codes: IntArray, head_weight: float
) -> tuple[float, dict[str, Tensor]]:
    """Return the cross-entropy of every view's scores, summed, and its gradient by view.

    Classes are −1 where unknown; the gradient is 0 in these rows.
    """
    labeled = torch.from_numpy(np.flatnonzero(codes >= 0))
    if len(labeled) == 0:
        return 0.0, {name: torch.zeros_like(x) for name, x in scores.items()}
    target = torch.from_numpy(codes)[labeled]
    total, gradients = 0.0, {}
    for name, view_scores in scores.items():
        x = view_scores.clone().requires_grad_()
        loss = head_weight * cross_entropy(x[labeled], target)
        (gradients[name],) = torch.autograd.grad(loss, x)
        total += float(loss.detach())
    return total, gradients


def fit_fusion(
    scores: Mapping[str, Tensor],
    joint: Array | None,
    target: IntArray,
    n_views: int,
    seed: int,
) -> SuperLearner:
    """Fit the fusion weights of the views on linked rows that they were not trained on.

    Scores are of held-out rows, by view and by the joint head, if there is one; weights are equal
    without such rows, or where none of their classes is known.
    """
    labeled, folds, n_classes = np.flatnonzero(target >= 0), [], 2
    if scores and len(labeled) > 0:
        by_view = [log_softmax(x.double(), 1).numpy()[labeled] for x in scores.values()]
        of_head = np.zeros_like(by_view[0])
        if joint is not None:
            of_head = log_softmax(torch.from_numpy(joint), 1).numpy()[labeled]
        present, n_classes = np.ones((len(labeled), n_views), dtype=bool), of_head.shape[1]
        stacked = np.stack(by_view, axis=1)[:, :, None]
        folds = [ScoresOutOfFold(stacked, of_head, present, target[labeled])]
    equal, random = np.full((n_views, n_classes), -np.log(n_classes)), np.random.default_rng(seed)
    return fit_super_learner(folds, equal, [True] * n_views, random, _PRIOR_WEIGHTS)


def fit_head(F: Array | None, codes: IntArray, rows: IntArray, n_classes: int) -> dict[str, Array]:
    """Fit the joint head, a linear classifier of the features of all views side by side.

    Returns its ``weight`` and ``bias``; nothing without features, or where a class has no row.
    """
    rows = rows[codes[rows] >= 0]
    if F is None or len(np.unique(codes[rows])) < n_classes:
        return {}
    model = LogisticRegression(max_iter=1000).fit(F[rows], codes[rows])
    weight, bias = model.coef_, model.intercept_
    if n_classes == 2:  # scikit-learn has one row of weights for two classes
        weight, bias = np.vstack([-weight, weight]) / 2, np.r_[-bias, bias] / 2
    return {"weight": weight, "bias": bias}
