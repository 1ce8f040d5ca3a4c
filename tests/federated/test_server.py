"""Rounds: equal to the central training, robust against whoever fails, and resumable."""

import copy

import numpy as np
import pytest
import torch
from message_mutations import mutated

from hotview._files import output_lock
from hotview.datasets import make_views
from hotview.federated import (
    Client,
    ClientData,
    Failure,
    InProcessChannel,
    Message,
    Server,
    Settings,
    server,
)
from hotview.federated.server import start_session
from hotview.federated.server_state import read_server_state, write_outcome
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.losses.objective import VIEW_REGULARIZERS, Batch, Objective
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.trainer import make_optimizer, train_step

NAMES = ("clinical", "genetic", "imaging", "lab")
BOTH = ("features", "labels")  # that may be shared, if the settings say so
SETTINGS = {
    "rounds": 3,
    "local_steps": 2,
    "quantiles": 16,
    "n_components": 3,
    "encoder_dim": 6,
    "hidden": (8,),
    "n_references": 2,
    "n_projections": 6,
    "batch_size": 24,
    "label_holder": "genetic",
    "linked_batch": 20,
    "fusion_fraction": 0.25,
}


def settings(**more):
    return Settings(**{**SETTINGS, **more})


def client_data(n=60, n_linked=24):
    """Views of different people, but for those linked, who come in another order everywhere."""
    data = make_views(
        n, n_views=4, n_columns=[5, 6, 4, 7], n_classes=3, labeled=1.0, random_state=1
    )
    found = {}
    for s, (name, X) in enumerate(zip(NAMES, data.linked.values(), strict=True)):
        order = np.random.default_rng(s).permutation(len(X))
        labels = data.linked_target[order].tolist() if name == "genetic" else None
        found[name] = ClientData.from_table(
            name,
            X[order],
            ids=[f"p{i}" for i in order],
            linked_ids=[f"p{i}" for i in range(n_linked)],
            labels=labels,
        )
    return found


def organizations(folder, **more):
    own = client_data()
    return {
        name: Client(
            own[name], folder / name, device="cpu", **{"shares": BOTH, **more.get(name, {})}
        )
        for name in NAMES
    }


def run(clients, given, **more):
    coordinator = Server(InProcessChannel(clients), given, **more)
    return coordinator.run(), coordinator


# the central training


class Central:
    """All views in one place, trained by the library's own objective on the same batches."""

    def __init__(self, given, clients):
        self.given, self.clients = given, clients
        nets = [copy.deepcopy(client.trainer.network) for client in clients.values()]
        self.network = MultiViewNetwork(
            [n.encoders[0] for n in nets],
            [n.maps[0] for n in nets],
            [d for n in nets for d in n.decoders],
            None,
            [g for n in nets for g in n.view_heads],
        )
        planner = Planner(given.reg, True, given.sinkhorn_max_iter, given.cost_decay)
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
            VIEW_REGULARIZERS[given.view_regularizer],
            coupling_weight=given.coupling_weight,
            regularizer_weight=given.regularizer_weight,
            head_weight=given.head_weight,
        ).train()
        self.optimizer = make_optimizer([self.network, self.objective], given.learning_rate)
        self.codes = clients["genetic"].trainer.linked_codes
        self.history = []

    def step(self):
        """One step on the rows that every organization has reported on."""
        Xs, sizes, targets = [], {"rows": [], "view_labeled": []}, []
        for client in self.clients.values():
            trainer, report = client.trainer, client.state.update
            rows = [report.rows, client.data.linked[report.linked]]
            own = [torch.from_numpy(self.codes[report.linked])]
            if len(report.labeled) > 0:  # who holds labels has some of people who are not linked
                rows.append(trainer.labeled_rows[report.labeled])
                own.append(trainer.labeled_codes[torch.from_numpy(report.labeled)])
            Xs.append(trainer.view.take(np.concatenate(rows)))
            sizes["rows"].append(len(rows[0]))
            sizes["view_labeled"].append(sum(map(len, rows[1:])))
            targets.append(torch.cat(own))
        theta = trainer.directions(report.round)
        batch = Batch(Xs, sizes, torch.empty(0, dtype=torch.int64), targets, directions=theta)
        self.network.train()
        found = train_step(self.network, self.objective, self.optimizer, batch, None)
        self.history.append({k: float(v.detach()) for k, v in found.terms.parts.items()})


class Watched(InProcessChannel):
    """Lets the central training take its step whenever all have reported."""

    central = None

    def exchange(self, messages, timeout):
        answers = super().exchange(messages, timeout)
        if (
            next(iter(messages.values())).kind == "start"
            and "classes" in messages.get("lab", Message("start")).metadata
        ):
            self.central = Central(self.given, self.clients)
        is_round = "lab" in messages and messages["lab"].kind == "round"
        if is_round and messages["lab"].metadata["round"] <= self.given.rounds:
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
    clients = organizations(tmp_path)
    # Labels of people who are not linked would have their own mean; here there are none.
    for client in clients.values():
        known = np.isin(np.arange(len(client.data.labels)), client.data.linked)
        client.data.labels[~known] = None
    channel = Watched(clients)
    channel.given = given
    result = Server(channel, given).run()
    central = channel.central
    for row, truth in zip(result.history, central.history, strict=True):
        for part in ("transport", "orthogonality", "view_heads"):
            assert row[part] == pytest.approx(truth[part], abs=1e-5), (row["epoch"], part)
    if view_regularizer == "autoencoder":  # which stays at home, each view's with its organization
        own = [clients[name].state.history for name in NAMES]
        for rows, truth in zip(zip(*own, strict=True), central.history, strict=True):
            total = sum(row["reconstruction"] for row in rows)
            assert total == pytest.approx(truth["reconstruction"], abs=1e-5)
    for s, client in enumerate(clients.values()):
        network = client.trainer.network
        for kind in ("encoders", "maps", "decoders", "view_heads"):
            pairs = zip(
                getattr(network, kind), list(getattr(central.network, kind))[s:], strict=False
            )
            for mine, theirs in pairs:
                for p, q in zip(mine.parameters(), theirs.parameters(), strict=True):
                    torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
    assert result.history["loss"][-1] < result.history["loss"][0]


# whoever fails


class Faulty(InProcessChannel):
    """Spoils some answers, by organization and round."""

    def __init__(self, clients, faults):
        super().__init__(clients)
        self.faults = dict(faults)
        self.kept = {}

    def exchange(self, messages, timeout):
        answers = super().exchange(messages, timeout)
        for name, message in messages.items():
            if message.kind == "round":
                answers[name] = self._spoil(name, message.metadata["round"], answers[name])
        return answers

    def _spoil(self, name, round, answer):
        self.kept.setdefault((name, round), answer)
        fault = self.faults.get((name, round))
        if fault == "late":
            return Failure("no answer in time")
        if fault == "older":
            return self.kept[name, round - 1]
        if fault == "other kind":
            return Message("hello", answer.metadata, answer.arrays)
        if fault == "somebody else":
            return Message("round", {**answer.metadata, "name": "nobody"}, answer.arrays)
        if fault is None:
            return answer
        arrays = {key: x.copy() for key, x in answer.arrays.items()}
        if fault == "nan":
            arrays["quantiles"][0, 0] = np.nan
        elif fault == "shape":
            arrays["scores"] = arrays["scores"][:-1]
        elif fault == "large":
            arrays["scores"][0] = 1e9
        elif fault == "disorder":
            arrays["quantiles"] = arrays["quantiles"][:, ::-1].copy()
        elif fault == "more":
            arrays["rows"] = np.zeros(3, np.float32)
        return Message("round", answer.metadata, arrays)


FAULTS = (
    *("late", "older", "other kind", "somebody else"),
    *("nan", "shape", "large", "disorder", "more"),
)


@pytest.mark.parametrize("fault", FAULTS)
def test_who_fails_is_left_out_of_the_round_and_may_come_back(tmp_path, fault, caplog):
    channel = Faulty(organizations(tmp_path), {("imaging", 2): fault})
    result = Server(channel, settings(rounds=3)).run()
    assert [(d["round"], d["name"]) for d in result.dropped] == [(2, "imaging")]
    assert "round 2 goes on without 'imaging'" in caplog.text
    assert result.history["present"] == [4, 3, 4]
    assert result.present == list(NAMES)
    assert sorted(result.finished) == sorted(NAMES)
    assert np.isfinite(result.history["loss"]).all()


def test_what_others_write_does_not_fill_the_checkpoint(tmp_path):
    class Chatty(InProcessChannel):
        def exchange(self, messages, timeout):
            answers = super().exchange(messages, timeout)
            for name, message in messages.items():
                if name == "imaging" and message.kind == "round":
                    answers[name] = Message("round", {}, {"x" * 10**5: np.zeros(1, np.float32)})
                elif name == "imaging" and message.kind == "finish":
                    answers[name] = Message("hello", {"name": name})
                elif message.kind == "round":
                    answers[name] = Failure("y" * 10**5) if name == "lab" else answers[name]
            return answers

    path = tmp_path / "c.federated"
    result = Server(Chatty(organizations(tmp_path)), settings(rounds=2), checkpoint=path).run()
    assert {d["name"] for d in result.dropped} == {"imaging", "lab"}
    assert max(len(d["reason"]) for d in result.dropped) <= 300
    assert path.stat().st_size < 10**5
    # Who answers the end with something else has not saved its part, for all that is known.
    assert result.finished == ["clinical", "genetic", "lab"]


class Spoiling:
    """A client whose responses somebody hostile replaces."""

    def __init__(self, client, spoil):
        self.client, self.spoil = client, spoil

    def handle(self, message):
        return self.spoil(message, self.client.handle(message))


@pytest.mark.parametrize(
    "changes",
    (
        {"name": "\ud800"},
        {"name": "imaging\nround 9 went well"},
        {"privacy": {"epsilon": "\ud800", "delta": 1e-5}},
        {"privacy": {"epsilon": 10**400, "delta": 1e-5}},
        {"round": True},
        {"\ud800": 1},
        {"round": [[[[[[[[[[[[1]]]]]]]]]]]]},
    ),
)
def test_no_member_can_stop_a_server_that_keeps_a_checkpoint(tmp_path, changes):
    def spoil(request, response):
        spoiled = request.kind == "round" and request.metadata["round"] == 2
        metadata = {**response.metadata, **changes} if spoiled else response.metadata
        return Message(response.kind, metadata, response.arrays)

    clients = organizations(tmp_path)
    clients["imaging"] = Spoiling(clients["imaging"], spoil)
    path = tmp_path / "c.federated"
    result, _ = run(clients, settings(rounds=2), checkpoint=path)
    assert [(d["round"], d["name"]) for d in result.dropped] == [(2, "imaging")]
    assert all(d["reason"].isprintable() for d in result.dropped)
    assert result.finished == list(NAMES)
    write_outcome(tmp_path / "outcome.json", result)
    assert read_server_state(path, settings(rounds=2), list(NAMES))[0].round == 2


@pytest.mark.parametrize("fault", ("gradient", "curvature"))
def test_a_label_holder_with_gradients_that_clients_refuse_is_dropped(tmp_path, fault):
    def spoil(request, response):
        if request.kind != "label_loss" or request.metadata["round"] != 1:
            return response
        metadata, arrays = dict(response.metadata), dict(response.arrays)
        if fault == "curvature":
            metadata["curvature"] = 1e5
        else:  # of one view
            arrays["gradient.lab"] = arrays["gradient.lab"] + np.float32(1e5)
        return Message("label_loss", metadata, arrays)

    clients = organizations(tmp_path)
    clients["genetic"] = Spoiling(clients["genetic"], spoil)
    result, _ = run(clients, settings(rounds=2), checkpoint=tmp_path / "c.federated")
    [dropped] = result.dropped
    assert (dropped["round"], dropped["name"]) == (1, "genetic")
    assert dropped["reason"].startswith("as label holder, its gradient of scores")
    assert result.history["present"] == [4, 4]
    assert result.finished == list(NAMES)


def test_errors_over_there_are_saved_whatever_they_say(tmp_path):
    def spoil(request, response):
        if request.kind == "round":
            raise ValueError("\ud800\x1b[2J" + "y" * 10**5)
        return response

    clients = organizations(tmp_path)
    clients["imaging"] = Spoiling(clients["imaging"], spoil)
    result, _ = run(clients, settings(rounds=2), checkpoint=tmp_path / "c.federated")
    assert {d["reason"][:20] for d in result.dropped} == {"ValueError: ??[2Jyyy"}


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("name", ("imaging", "genetic"))
def test_a_hostile_member_is_dropped_or_named(tmp_path, name, seed):
    random = np.random.default_rng(seed)

    def spoil(request, response):
        begun = request.kind not in ("hello", "start")
        return mutated(response, random) if begun and random.random() < 0.7 else response

    clients = organizations(tmp_path)
    clients[name] = Spoiling(clients[name], spoil)
    path = tmp_path / "c.federated"
    result, _ = run(clients, settings(), checkpoint=path)
    assert {d["name"] for d in result.dropped} == {name}
    assert set(NAMES) - {name} <= set(result.finished)
    assert np.isfinite(result.history["loss"]).all()
    write_outcome(tmp_path / "outcome.json", result)
    read_server_state(path, settings(), list(NAMES))


@pytest.mark.parametrize("seed", range(3))
def test_who_is_hostile_at_the_start_is_named(tmp_path, seed):
    random = np.random.default_rng(seed)
    clients = organizations(tmp_path)
    hostile = Spoiling(clients["genetic"], lambda request, response: mutated(response, random))
    with pytest.raises(ValueError, match=r"Expected ('genetic' to|all org)"):
        run({**clients, "genetic": hostile}, settings(), checkpoint=tmp_path / "c.federated")


def test_names_that_cannot_be_saved_are_refused_at_once():
    with pytest.raises(ValueError, match=r"names of organizations, but there is '\\ud800'"):
        Server(InProcessChannel({"clinical": None, "\ud800": None}), settings())


def test_drops_without_end_leave_room_in_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MAX_DROPPED", 2)
    faults = {("imaging", round): "nan" for round in (1, 2, 3)}
    result = Server(Faulty(organizations(tmp_path), faults), settings(rounds=3)).run()
    assert [d["round"] for d in result.dropped] == [2, 3]


def test_the_plan_is_over_those_who_are_there(tmp_path):
    given = settings(rounds=2)
    channel = Faulty(organizations(tmp_path), {("imaging", 2): "nan"})
    result = Server(channel, given).run()
    assert result.present == ["clinical", "genetic", "lab"]
    np.testing.assert_allclose(result.W.sum(1), 1 / 3, atol=1e-4)
    np.testing.assert_allclose(result.W.sum(0), 1 / 2, atol=1e-4)


def test_without_the_label_holder_a_round_teaches_no_labels(tmp_path):
    class Silent(InProcessChannel):
        def exchange(self, messages, timeout):
            answers = super().exchange(messages, timeout)
            judged = "genetic" in messages and messages["genetic"].kind == "label_loss"
            if judged and messages["genetic"].metadata["round"] == 2:
                answers["genetic"] = Failure("no answer in time")
            return answers

    result = Server(Silent(organizations(tmp_path)), settings(rounds=3)).run()
    assert [(d["round"], d["reason"]) for d in result.dropped] == [
        (2, "as label holder, no answer in time")
    ]
    assert [("view_heads" in row) for row in result.history] == [True, False, True]


@pytest.mark.parametrize("n_lost", (2, 3))
def test_how_much_views_count_is_asked_three_times(tmp_path, n_lost):
    class Forgetful(InProcessChannel):
        n_asked = 0

        def exchange(self, messages, timeout):
            answers = super().exchange(messages, timeout)
            if "genetic" in messages and messages["genetic"].kind == "fusion":
                self.n_asked += 1
                if self.n_asked <= n_lost:
                    answers["genetic"] = Failure("no answer in time")
            return answers

    coordinator = Server(Forgetful(organizations(tmp_path)), settings(rounds=3))
    result = coordinator.run()
    assert (coordinator.state.pool is None) == (n_lost == 3)
    assert [d["name"] for d in result.dropped] == ["genetic"] * n_lost
    assert result.finished == list(NAMES)


def test_with_fewer_than_two_it_ends_and_says_so(tmp_path):
    alone = {(name, 2): "late" for name in NAMES[1:]}
    coordinator = Server(
        Faulty(organizations(tmp_path), alone), settings(), checkpoint=tmp_path / "c.federated"
    )
    with pytest.raises(RuntimeError, match="at least 2 organizations to answer in round 2, but 1"):
        coordinator.run()
    assert (tmp_path / "c.federated").exists()


def test_all_must_be_there_to_begin(tmp_path):
    clients = organizations(tmp_path)
    clients["lab"].handle = None
    with pytest.raises(ValueError, match="'lab' to say hello, but TypeError"):
        run(clients, settings())


# going on


class StoppedError(Exception):
    pass


@pytest.mark.parametrize("coupling", ("hot-reference", "hot-pairwise"))
@pytest.mark.parametrize("when", ("before", "after"))
def test_a_coordinator_that_was_killed_goes_on_as_if_it_had_not(tmp_path, coupling, when):
    """Killed before organizations were asked, or after they answered and it wrote nothing down."""
    given = settings(coupling=coupling, rounds=4)
    whole, _ = run(clients := organizations(tmp_path / "whole"), given)

    class Killed(InProcessChannel):
        def exchange(self, messages, timeout):
            third = any(m.kind == "round" and m.metadata["round"] == 3 for m in messages.values())
            if third and when == "before":
                raise StoppedError
            answers = super().exchange(messages, timeout)
            if third:
                raise StoppedError
            return answers

    path = tmp_path / "c.federated"
    cut = organizations(tmp_path / "cut")
    with pytest.raises(StoppedError):
        Server(Killed(cut), given, checkpoint=path).run()
    again = organizations(tmp_path / "cut")  # new processes all over
    result, _ = run(again, given, checkpoint=path)
    assert result.history["loss"] == whole.history["loss"]
    for name in NAMES:
        pairs = zip(
            clients[name].trainer.network.parameters(),
            again[name].trainer.network.parameters(),
            strict=True,
        )
        assert all(torch.equal(p, q) for p, q in pairs)


def test_other_settings_are_refused(tmp_path):
    path = tmp_path / "c.federated"
    clients = organizations(tmp_path)
    run(clients, settings(rounds=2), checkpoint=path)
    with pytest.raises(ValueError, match="quantiles was 16 then and is 8 now"):
        run(clients, settings(rounds=2, quantiles=8), checkpoint=path)


def test_the_same_seed_gives_the_same_numbers(tmp_path):
    first, _ = run(organizations(tmp_path / "a"), settings())
    second, _ = run(organizations(tmp_path / "b"), settings())
    other, _ = run(organizations(tmp_path / "c"), settings(random_state=1))
    assert first.history["loss"] == second.history["loss"] != other.history["loss"]


# choices


@pytest.mark.parametrize("more", ({"share_labels": True}, {"share_features": True}))
def test_what_is_shared_by_choice(tmp_path, more):
    clients = organizations(tmp_path)
    result, _ = run(clients, settings(rounds=2, **more))
    assert result.finished == list(NAMES)
    assert result.dropped == []


def test_without_coupling_nothing_but_scores_is_sent(tmp_path):
    seen = []

    class Watching(InProcessChannel):
        def exchange(self, messages, timeout):
            answers = super().exchange(messages, timeout)
            seen.extend(a.arrays for a in answers.values() if a.kind == "round")
            return answers

    result = Server(Watching(organizations(tmp_path)), settings(coupling="none")).run()
    assert result.W is None
    assert {name for arrays in seen for name in arrays} == {"scores", "held_out"}


HELLO = {"n_linked": 4, "digest": "d", "model_format": 10}


def exchange(change=None, classes=("a", "b"), codes=None):
    """Two organizations that say what they should, but for a change."""

    def handle(name, message):
        if message.kind == "hello":
            return Message("hello", {**HELLO, "name": name, **(change or {}).get(name, {})})
        if "classes" in message.metadata:
            seen.append(message)
            return Message("start", {"name": name})
        arrays = {} if codes is None else {"codes": codes}
        return Message("start", {"classes": list(classes)}, arrays)

    seen = []
    ask = lambda messages: {name: handle(name, m) for name, m in messages.items()}  # noqa: E731
    return ask, seen


def test_everybody_is_told_the_same():
    ask, seen = exchange()
    found = start_session(ask, ["x", "y"], Settings(label_holder="y"))
    assert found.n_linked == 4
    assert found.classes == ["a", "b"]
    assert {m.metadata["session"] for m in seen} == {found.id}
    assert [m.metadata["names"] for m in seen] == [["x", "y"]] * 2


def test_no_two_trainings_have_the_same_name():
    ask, _ = exchange()
    names = {start_session(ask, ["x", "y"], Settings()).id for _ in range(5)}
    assert len(names) == 5


@pytest.mark.parametrize(
    ("change", "problem"),
    (
        ({"y": {"digest": "e"}}, "have the same linked ids"),
        ({"y": {"name": "z"}}, "'y' to say hello, but its name is 'z'"),
        (
            {"y": {"n_linked": 5}},
            r"lists differ \(numbers of ids: {'x': 4, 'y': 5}\): look at that of 'y' first",
        ),
        (
            {"x": {"model_format": 9}},
            r"that of 'y' differs \(formats: 'x' 9, 'y' 10\).*same version",
        ),
        ({"y": {"model_format": None}}, r"of 'y' differs \(formats: 'x' 10, 'y' an older one\)"),
        ({"y": {"model_format": "10"}}, "'y' to say hello, but its 'model_format' cannot be '10'"),
        ({"x": {"digest": ["d"]}}, r"'x' to say hello, but its 'digest' cannot be \['d'\]"),
        ({"x": {"n_linked": 10**12}}, "hello, but its 'n_linked' cannot be 1000000000000"),
        ({"x": {"n_linked": "four"}, "y": {"n_linked": "four"}}, "'n_linked' cannot be 'four'"),
    ),
)
def test_disagreement_is_an_error(change, problem):
    ask, _ = exchange(change)
    with pytest.raises(ValueError, match=problem):
        start_session(ask, ["x", "y"], Settings())


@pytest.mark.parametrize("change", ({"digest": "e"}, {"model_format": 9}), ids=str)
def test_the_organization_that_differs_from_most_is_named(change):
    ask, seen = exchange({"x": change})
    with pytest.raises(ValueError, match=r"that of 'x' (differs|first)"):
        start_session(ask, ["x", "y", "z"], Settings())
    assert seen == []  # nobody has begun


def test_an_unknown_label_holder_is_refused():
    ask, _ = exchange()
    with pytest.raises(ValueError, match="label_holder among"):
        start_session(ask, ["x", "y"], Settings(label_holder="z"))


@pytest.mark.parametrize("classes", ((), ("a",)))
def test_labels_of_one_class_teach_nothing(classes):
    ask, _ = exchange(classes=classes)
    with pytest.raises(ValueError, match="two classes or more"):
        start_session(ask, ["x", "y"], Settings(label_holder="y"))


def test_labels_travel_only_where_all_agreed_to_share_them():
    codes = np.zeros(4, dtype=np.int64)
    ask, seen = exchange(codes=codes)
    start_session(ask, ["x", "y"], Settings(label_holder="y", share_labels=True))
    assert [set(m.arrays) for m in seen] == [{"codes"}] * 2
    with pytest.raises(ValueError, match=r"it holds \['codes'\], and \[\] were asked for"):
        start_session(ask, ["x", "y"], Settings(label_holder="y"))
    for wrong in (codes[:3], codes + 2, codes.astype(np.float32), None):
        strange, _ = exchange(codes=wrong)
        with pytest.raises(ValueError, match=r"'y' to send the classes, but (its codes|it holds)"):
            start_session(strange, ["x", "y"], Settings(label_holder="y", share_labels=True))


def test_who_answers_something_else_has_not_begun():
    ask, _ = exchange()

    def strange(messages):
        found = ask(messages)
        begins = any("classes" in m.metadata for m in messages.values())
        return {**found, "x": Message("hello", {"name": "x"})} if begins else found

    with pytest.raises(ValueError, match="'x' to begin, but its kind is 'hello'"):
        start_session(strange, ["x", "y"], Settings())


def test_classes_that_cannot_be_are_refused():
    for classes in (("a", "a"), ("b", "a")):
        ask, _ = exchange(classes=classes)
        with pytest.raises(ValueError, match="'y' to send the classes, but its classes are not d"):
            start_session(ask, ["x", "y"], Settings(label_holder="y"))


def test_who_is_not_there_is_named():
    ask, _ = exchange()

    def without(messages):
        return {**ask(messages), "x": Failure("no answer in time")}

    with pytest.raises(ValueError, match="'x' to say hello, but no answer in time"):
        start_session(without, ["x", "y"], Settings())


def test_two_servers_cannot_share_a_checkpoint(tmp_path):
    path = tmp_path / "server.checkpoint"
    server = Server(InProcessChannel(organizations(tmp_path)), settings(), checkpoint=path)
    with output_lock(path), pytest.raises(BlockingIOError, match=r"server\.checkpoint"):
        server.run()
    assert server.run().finished == list(NAMES)
