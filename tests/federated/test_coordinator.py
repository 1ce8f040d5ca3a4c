"""Rounds: equal to the central training, robust against whoever fails, and resumable."""

import copy

import numpy as np
import pytest
import torch

from hotview.datasets import make_views
from hotview.federated import (
    Coordinator,
    InProcess,
    Message,
    Organization,
    Settings,
    hold,
)
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.losses.objective import Batch, Objective
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.team import make_optimizer, train_step

NAMES = ("clinical", "genetic", "imaging", "lab")
SETTINGS = {
    "rounds": 3,
    "local_steps": 2,
    "quantiles": 16,
    "n_components": 3,
    "n_features": 6,
    "hidden": (8,),
    "n_references": 2,
    "n_projections": 6,
    "batch_size": 24,
    "label_holder": "genetic",
    "linked_batch": 20,
    "fusion_share": 0.25,
}


def settings(**more):
    return Settings(**{**SETTINGS, **more})


def holdings(n=60, n_linked=24):
    """Views of different people, but for those linked, who come in another order everywhere."""
    data = make_views(
        n, n_views=4, n_columns=[5, 6, 4, 7], n_classes=3, labeled=1.0, random_state=1
    )
    found = {}
    for s, (name, X) in enumerate(zip(NAMES, data.linked.values(), strict=True)):
        order = np.random.default_rng(s).permutation(len(X))
        labels = data.linked_target[order].tolist() if name == "genetic" else None
        found[name] = hold(
            name,
            X[order],
            ids=[f"p{i}" for i in order],
            linked_ids=[f"p{i}" for i in range(n_linked)],
            labels=labels,
        )
    return found


def organizations(folder, **more):
    own = holdings()
    return {
        name: Organization(own[name], folder / name, device="cpu", **more.get(name, {}))
        for name in NAMES
    }


def run(members, given, **more):
    coordinator = Coordinator(InProcess(members), given, **more)
    return coordinator.run(), coordinator


# the central training


class Central:
    """All views in one place, trained by the library's own objective on the same batches."""

    def __init__(self, given, members):
        self.given, self.members = given, members
        nets = [copy.deepcopy(member.learner.network) for member in members.values()]
        self.network = MultiViewNetwork(
            [n.encoders[0] for n in nets],
            [n.maps[0] for n in nets],
            [d for n in nets for d in n.decoders],
            None,
            [g for n in nets for g in n.view_heads],
        )
        planner = Planner(given.entropy, True, given.sinkhorn_max_iter, given.cost_decay)
        if given.coupling == "hot-reference":
            coupling = HOTReference(
                given.n_components,
                given.n_references,
                given.orthogonality_weight,
                planner,
                n_points=given.quantiles,
                generator=torch.Generator().manual_seed(given.random_state),
            )
        else:
            coupling = HOTPairwise(given.orthogonality_weight, planner)
        self.objective = Objective(
            coupling,
            given.view_regularizer,
            coupling_weight=given.coupling_weight,
            view_weight=given.view_weight,
            head_weight=given.head_weight,
        ).train()
        self.optimizer = make_optimizer([self.network, self.objective], given.learning_rate)
        self.codes = members["genetic"].learner.linked_codes
        self.history = []

    def step(self):
        """One step on the rows that every organization has reported on."""
        Xs, sizes, targets = [], {"rows": [], "own": []}, []
        for member in self.members.values():
            learner, report = member.learner, member.standing.report
            rows = [report.rows, member.holdings.linked[report.linked]]
            own = [torch.from_numpy(self.codes[report.linked])]
            if len(report.own) > 0:  # who holds labels has some of people who are not linked
                rows.append(learner.own[report.own])
                own.append(learner.own_codes[torch.from_numpy(report.own)])
            Xs.append(learner.view.take(np.concatenate(rows)))
            sizes["rows"].append(len(rows[0]))
            sizes["own"].append(sum(map(len, rows[1:])))
            targets.append(torch.cat(own))
        theta = learner.directions(report.round)
        batch = Batch(Xs, sizes, torch.empty(0, dtype=torch.int64), targets, directions=theta)
        self.network.train()
        found = train_step(self.network, self.objective, self.optimizer, batch, None)
        self.history.append({k: float(v.detach()) for k, v in found.terms.parts.items()})


class Watched(InProcess):
    """Lets the central training take its step whenever all have reported."""

    central = None

    def exchange(self, messages, timeout):
        answers = super().exchange(messages, timeout)
        if (
            next(iter(messages.values())).kind == "start"
            and "classes" in messages.get("lab", Message("start")).facts
        ):
            self.central = Central(self.given, self.organizations)
        is_round = "lab" in messages and messages["lab"].kind == "round"
        if is_round and not messages["lab"].facts["last"]:
            self.central.step()
        return answers


@pytest.mark.parametrize("coupling", ("hot-reference", "hot-pairwise"))
@pytest.mark.parametrize("view_regularizer", ("none", "autoencoder"))
def test_one_step_a_round_is_the_central_training(tmp_path, coupling, view_regularizer):
    given = settings(
        coupling=coupling,
        view_regularizer=view_regularizer,
        rounds=20,
        local_steps=1,
        quantiles=24,
        coupling_weight=0.7,
        orthogonality_weight=0.3,
    )
    members = organizations(tmp_path)
    # Labels of people who are not linked would have their own mean; here there are none.
    for member in members.values():
        known = np.isin(np.arange(len(member.holdings.labels)), member.holdings.linked)
        member.holdings.labels[~known] = None
    carrier = Watched(members)
    carrier.given = given
    joint = Coordinator(carrier, given).run()
    central = carrier.central
    for row, truth in zip(joint.history, central.history, strict=True):
        for part in ("transport", "orthogonality", "view_heads"):
            assert row[part] == pytest.approx(truth[part], abs=1e-5), (row["epoch"], part)
    if view_regularizer == "autoencoder":  # which stays at home, each view's with its organization
        own = [members[name].standing.history for name in NAMES]
        for rows, truth in zip(zip(*own, strict=True), central.history, strict=True):
            total = sum(row["reconstruction"] for row in rows)
            assert total == pytest.approx(truth["reconstruction"], abs=1e-5)
    for s, member in enumerate(members.values()):
        network = member.learner.network
        for kind in ("encoders", "maps", "decoders", "view_heads"):
            pairs = zip(
                getattr(network, kind), list(getattr(central.network, kind))[s:], strict=False
            )
            for mine, theirs in pairs:
                for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
                    torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
    assert joint.history["loss"][-1] < joint.history["loss"][0]
