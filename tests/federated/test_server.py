"""Rounds: equal to the central training, robust against whoever fails, and resumable."""

import copy

import numpy as np
import pytest
import torch
from message_mutations import mutated
from small_federation import HOLDER, NAMES, Recorder, organizations, settings

from hotview._files import output_lock
from hotview.federated import InProcessChannel, Message, Server, Settings, server
from hotview.federated.server import start_session
from hotview.federated.state import SERVER_FORMAT, Checkpoint, read_state, write_outcome
from hotview.losses import HOTPairwise, HOTReference, Planner
from hotview.losses.objective import Batch, Objective
from hotview.losses.specifications import REGULARIZERS
from hotview.nn.multiview import MultiViewNetwork
from hotview.training.trainer import make_optimizer, train_step


def run(clients, given, **more):
    coordinator = Server(InProcessChannel(clients), given, **more)
    return coordinator.run(), coordinator


class Central:
    """All views in one place, trained by the library's own objective on the same batches."""

    def __init__(self, given, clients):
        self.given, self.clients = given, clients
        nets = [copy.deepcopy(client.trainer.network) for client in clients.values()]
        decoders = [d for n in nets for d in n.decoders]
        encoders, maps = ([getattr(n, kind)[0] for n in nets] for kind in ("encoders", "maps"))
        heads = [head for n in nets for head in n.view_heads]
        self.network = MultiViewNetwork(encoders, maps, decoders, None, heads)
        planner = Planner(given.reg, True, given.sinkhorn_max_iter, given.cost_decay)
        alpha = given.orthogonality_weight
        if given.coupling == "hot-reference":
            generator = torch.Generator().manual_seed(given.random_state)
            sizes = given.n_components, given.n_references
            more = {"n_points": given.quantiles, "generator": generator}
            coupling = HOTReference(*sizes, alpha, planner, **more)
        else:
            coupling = HOTPairwise(alpha, planner)
        weights = ("coupling_weight", "regularizer_weight", "head_weight")
        self.objective = Objective(
            coupling,
            REGULARIZERS[given.view_regularizer]().build(),
            **{name: getattr(given, name) for name in weights},
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
        message = messages.get("clinical", Message("hello"))
        if message.kind == "start":
            self.central = Central(self.given, self.clients)
        if message.kind == "round" and message.metadata["round"] <= self.given.rounds:
            self.central.step()
        return answers


@pytest.mark.parametrize(
    ("coupling", "view_regularizer"), (("hot-reference", "none"), ("hot-pairwise", "autoencoder"))
)
def test_one_step_a_round_is_the_central_training(tmp_path, coupling, view_regularizer):
    more = {"coupling": coupling, "view_regularizer": view_regularizer, "quantiles": 16}
    more |= {"coupling_weight": 0.7, "orthogonality_weight": 0.3}
    given = settings(rounds=10, local_steps=1, **more)
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
        for kind in ("encoders", "maps", "decoders", "view_heads"):
            mine = getattr(client.trainer.network, kind).parameters()
            theirs = getattr(central.network, kind)[s : s + 1].parameters()
            for p, q in zip(mine, theirs, strict=True):
                torch.testing.assert_close(p, q, atol=1e-5, rtol=0)
    assert result.history["loss"][-1] < result.history["loss"][0]


class Between:
    """A client whose requests and responses somebody else sees first: `stand(name, m, handle)`."""

    def __init__(self, name, client, stand):
        self.name, self.client, self.stand = name, client, stand

    def handle(self, message):
        return self.stand(self.name, message, self.client.handle)


def between(folder, stand):
    return {name: Between(name, one, stand) for name, one in organizations(folder).items()}


def losing(who, kind, when=None):
    """Some have no answer to a kind of message, in a round or ever."""

    def stand(name, message, handle):
        answer = handle(message)
        lost = name in who and message.kind == kind
        return None if lost and when in (None, message.metadata["round"]) else answer

    return stand


def with_arrays(change):
    def spoil(answer, earlier):
        arrays = {key: x.copy() for key, x in answer.arrays.items()}
        change(arrays)
        return Message("round", answer.metadata, arrays)

    return spoil


def with_facts(**facts):
    return lambda answer, earlier: Message("round", {**answer.metadata, **facts}, answer.arrays)


def raise_error(answer, earlier):
    raise ValueError("\ud800\x1b[2J" + "y" * 10**5)


SPOILED = (
    raise_error,
    lambda answer, earlier: earlier,
    lambda answer, earlier: Message("hello", answer.metadata, answer.arrays),
    lambda answer, earlier: Message("round", {}, {"x" * 10**5: np.zeros(1, np.float32)}),
    with_arrays(lambda arrays: arrays["quantiles"].__setitem__((0, 0), np.nan)),
    with_arrays(lambda arrays: arrays.update(quantiles=arrays["quantiles"][:, ::-1].copy())),
    with_arrays(lambda arrays: arrays.update(scores=arrays["scores"][:-1])),
    with_arrays(lambda arrays: arrays["scores"].__setitem__(0, 1e9)),
    with_facts(name="nobody"),
    with_facts(name="imaging\nround 9 went well"),
    with_facts(privacy={"epsilon": "\ud800", "delta": 1e-5}),
    with_facts(privacy={"epsilon": 10**400, "delta": 1e-5}),
    with_facts(round=True),
    with_facts(**{"\ud800": 1}),
    with_facts(round=[[[[[[[[[[[[1]]]]]]]]]]]]),
)


def test_who_fails_is_left_out_of_the_round_and_may_come_back(tmp_path, caplog):
    """In one round after the other, and what the answers hold does not stop the server either."""
    rounds, earlier = len(SPOILED) + 2, {}
    given = settings(rounds=rounds, local_steps=1, fusion_fraction=0.0)

    def stand(name, message, handle):
        answer = handle(message)
        if name == "imaging" and message.kind == "round":
            number = message.metadata["round"]
            earlier[number] = answer
            if 2 <= number < rounds:
                return SPOILED[number - 2](answer, earlier[number - 1])
        if name == "imaging" and message.kind == "finish":
            return Message("hello", {"name": name})
        return answer

    path = tmp_path / "c.federated"
    result, _ = run(between(tmp_path, stand), given, checkpoint=path)
    spoiled = range(2, rounds)
    dropped = [(d["round"], d["name"]) for d in result.dropped]
    assert dropped == [(r, "imaging") for r in (*spoiled, rounds + 1)]
    assert "round 2 goes on without 'imaging'" in caplog.text
    assert result.history["present"] == [3, *(2 for _ in spoiled), 3]
    assert result.present == list(NAMES)
    assert np.isfinite(result.history["loss"]).all()
    assert all(d["reason"].isprintable() and len(d["reason"]) <= 300 for d in result.dropped)
    assert result.dropped[0]["reason"].startswith("ValueError: ??[2Jyyy")
    assert path.stat().st_size < 10**5
    # Who answers the end with something else has not saved its part, for all that is known.
    assert result.finished == ["clinical", "genetic"]
    write_outcome(tmp_path / "outcome.json", result)
    assert read_state(path, SERVER_FORMAT, Checkpoint).server.round == rounds


def test_a_label_holder_with_gradients_that_clients_refuse_is_dropped(tmp_path):
    def stand(name, message, handle):
        answer = handle(message)
        if message.kind == "label_loss" and message.metadata["round"] == 1:
            answer.arrays["gradient.clinical"] += np.float32(1e5)  # of one view
        return answer

    result, _ = run(between(tmp_path, stand), settings(rounds=2))
    [dropped] = result.dropped
    assert (dropped["round"], dropped["name"]) == (1, "genetic")
    assert dropped["reason"].startswith("as label holder, its gradient of scores")
    assert result.history["present"] == [3, 3]
    assert result.finished == list(NAMES)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("hostile", ("imaging", "genetic"))
def test_a_hostile_member_is_dropped_or_named(tmp_path, hostile, seed):
    random = np.random.default_rng(seed)

    def stand(name, message, handle):
        begun = message.kind not in ("hello", "classes", "start")
        spoils = name == hostile and begun and random.random() < 0.7
        return mutated(handle(message), random) if spoils else handle(message)

    path = tmp_path / "c.federated"
    result, _ = run(between(tmp_path, stand), settings(), checkpoint=path)
    assert {d["name"] for d in result.dropped} == {hostile}
    assert set(NAMES) - {hostile} <= set(result.finished)
    assert np.isfinite(result.history["loss"]).all()
    write_outcome(tmp_path / "outcome.json", result)
    again = Server(InProcessChannel(organizations(tmp_path)), settings(), checkpoint=path)
    again._read_checkpoint(path, list(NAMES))


def test_who_is_hostile_or_absent_at_the_start_is_named(tmp_path):
    random = np.random.default_rng(0)

    def stand(name, message, handle):
        return mutated(handle(message), random) if name == "genetic" else handle(message)

    for _ in range(3):
        with pytest.raises(ValueError, match=r"Expected ('genetic' to|all org)"):
            run(between(tmp_path, stand), settings(), checkpoint=tmp_path / "c.federated")
    absent = {**organizations(tmp_path), "imaging": None}
    with pytest.raises(ValueError, match="'imaging' to say hello, but AttributeError"):
        run(absent, settings())


def test_drops_without_end_leave_room_in_the_checkpoint(tmp_path, monkeypatch):
    monkeypatch.setattr(server, "_MAX_DROPPED", 2)
    given = between(tmp_path, losing("imaging", "round"))
    assert [d["round"] for d in run(given, settings(rounds=3))[0].dropped] == [3, 4]


def test_without_the_label_holder_a_round_teaches_no_labels(tmp_path):
    given = between(tmp_path, losing([HOLDER], "label_loss", 2))
    result, _ = run(given, settings(rounds=3))
    [dropped] = result.dropped
    assert (dropped["round"], dropped["name"]) == (2, HOLDER)
    assert dropped["reason"].startswith("as label holder, ")
    assert [("view_heads" in row) for row in result.history] == [True, False, True]


@pytest.mark.parametrize("n_lost", (2, 3))
def test_how_much_views_count_is_asked_three_times(tmp_path, n_lost):
    asked = []

    def stand(name, message, handle):
        answer = handle(message)
        if message.kind == "fusion":
            asked.append(name)
        return None if message.kind == "fusion" and len(asked) <= n_lost else answer

    result, coordinator = run(between(tmp_path, stand), settings(rounds=3))
    assert (coordinator.state.pool is None) == (n_lost == 3)
    assert [d["name"] for d in result.dropped] == [HOLDER] * n_lost
    assert result.finished == list(NAMES)


def test_with_fewer_than_two_it_ends_and_says_so(tmp_path):
    path = tmp_path / "c.federated"
    with pytest.raises(RuntimeError, match="at least 2 organizations to answer in round 2, but 1"):
        run(between(tmp_path, losing(NAMES[1:], "round", 2)), settings(), checkpoint=path)
    assert path.exists()


@pytest.mark.parametrize(
    ("coupling", "when"), (("hot-reference", "before"), ("hot-pairwise", "after"))
)
def test_a_coordinator_that_was_killed_goes_on_as_if_it_had_not(tmp_path, coupling, when):
    """Killed before organizations were asked, or after they answered and it wrote nothing down."""
    given = settings(coupling=coupling, rounds=4)
    whole, _ = run(clients := organizations(tmp_path / "whole"), given)

    def stand(name, message, handle):
        third = message.kind == "round" and message.metadata["round"] == 3
        if third and (when == "before" or name == NAMES[-1]):
            handle(message)
            raise KeyboardInterrupt
        return handle(message)

    path = tmp_path / "c.federated"
    with pytest.raises(KeyboardInterrupt):
        run(between(tmp_path / "cut", stand), given, checkpoint=path)
    again = organizations(tmp_path / "cut")  # new processes all over
    result, _ = run(again, given, checkpoint=path)
    assert result.history["loss"] == whole.history["loss"]
    for name in NAMES:
        one, other = (found[name].trainer.network.parameters() for found in (clients, again))
        assert all(torch.equal(p, q) for p, q in zip(one, other, strict=True))


HELLO = {"n_linked": 4, "digest": "d", "model_format": 10}


def exchange(change=None, classes=("a", "b"), codes=None):
    """Two organizations that say what they should, but for a change."""
    seen = []

    def handle(name, message):
        if message.kind == "hello":
            return Message("hello", {**HELLO, "name": name, **(change or {}).get(name, {})})
        if message.kind == "start":
            seen.append(message)
            return Message("start", {"name": name})
        arrays = {} if codes is None else {"codes": codes}
        return Message("classes", {"classes": list(classes)}, arrays)

    def ask(messages):
        return {name: handle(name, message) for name, message in messages.items()}

    return ask, seen


@pytest.mark.parametrize(
    ("change", "problem"),
    (
        ({"x": {"digest": "e"}}, "have the same linked ids.* look at that of 'x' first"),
        ({"y": {"name": "w"}}, "'y' to say hello, but its name is 'w'"),
        ({"y": {"n_linked": 5}}, r"lists differ \(numbers of ids: {'x': 4, 'y': 5, 'z': 4}\)"),
        ({"x": {"model_format": 9}}, r"that of 'x' differs .*'x': 9, 'y': 10.*same version"),
        ({"y": {"model_format": None}}, "'y' to say hello, but its 'model_format' cannot be None"),
        ({"x": {"n_linked": 10**12}}, "hello, but its 'n_linked' cannot be 1000000000000"),
    ),
)
def test_disagreement_is_an_error_that_names_who_differs_from_most(change, problem):
    ask, seen = exchange(change)
    with pytest.raises(ValueError, match=problem):
        start_session(ask, ["x", "y", "z"], Settings())
    assert seen == []  # nobody has begun


@pytest.mark.parametrize(
    ("holder", "classes", "problem"),
    (
        ("z", ("a", "b"), "label_holder among"),
        ("y", ("a",), "two classes or more"),
        ("y", (), "two classes or more"),
        ("y", ("b", "a"), "'y' to send the classes, but its classes are not distinct"),
    ),
)
def test_labels_that_teach_nothing_are_refused(holder, classes, problem):
    ask, _ = exchange(classes=classes)
    with pytest.raises(ValueError, match=problem):
        start_session(ask, ["x", "y"], Settings(label_holder=holder))


def test_all_are_told_the_same_and_labels_only_where_all_agreed_to_share_them():
    codes, sharing = np.zeros(4, dtype=np.int64), Settings(label_holder="y", share_labels=True)
    ask, seen = exchange(codes=codes)
    found = start_session(ask, ["x", "y"], sharing)
    assert (found.n_linked, found.classes) == (4, ["a", "b"])
    told = [(m.metadata["session"], m.metadata["names"]) for m in seen]
    assert told == [(found.id, ["x", "y"])] * 2
    assert [set(m.arrays) for m in seen] == [{"codes"}] * 2
    with pytest.raises(ValueError, match=r"it holds \['codes'\], and \[\] were asked for"):
        start_session(ask, ["x", "y"], Settings(label_holder="y"))
    for wrong in (codes[:3], codes + 2, codes.astype(np.float32), None):
        with pytest.raises(ValueError, match=r"'y' to send the classes, but (its codes|it holds)"):
            start_session(exchange(codes=wrong)[0], ["x", "y"], sharing)


def test_who_answers_something_else_has_not_begun():
    ask, _ = exchange()

    def strange(messages):
        begins = any(m.kind == "start" for m in messages.values())
        return ask(messages) | ({"x": Message("hello", {"name": "x"})} if begins else {})

    with pytest.raises(ValueError, match="'x' to begin, but its kind is 'hello'"):
        start_session(strange, ["x", "y"], Settings())


def test_bytes_are_counted(tmp_path):
    channel = Recorder(organizations(tmp_path))
    coordinator = Server(channel, settings())
    result = coordinator.run()
    for name, found in coordinator.traffic.items():
        to, back = zip(*(map(len, both) for n, *both in channel.crossed if n == name), strict=True)
        assert found == {"to": max(to), "from": max(back), "total": sum(to) + sum(back)}
    sizes = {len(data) for _, *both in channel.crossed for data in both}
    assert {*result.history["bytes"]} < sizes


def test_two_servers_cannot_share_a_checkpoint(tmp_path):
    path = tmp_path / "server.checkpoint"
    server = Server(InProcessChannel(organizations(tmp_path)), settings(), checkpoint=path)
    with output_lock(path), pytest.raises(BlockingIOError, match=r"server\.checkpoint"):
        server.run()
    assert server.run().finished == list(NAMES)
