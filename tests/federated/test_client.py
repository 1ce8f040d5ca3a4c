from dataclasses import replace
from functools import cache
from threading import Event, Thread

import numpy as np
import pytest
import torch
from small_federation import (
    BOTH,
    CLASSES,
    HOLDER,
    N_LINKED,
    N_ROWS,
    NAMES,
    client_data,
    organizations,
    session_of,
    settings,
    train,
)

from hotview._files import file_lock
from hotview.federated import Client, ClientData, Message, Privacy
from hotview.federated import client as module
from hotview.federated.local_trainer import LocalTrainer
from hotview.federated.privacy import ReleaseRecord, total_epsilon
from hotview.federated.state import CLIENT_FORMAT, ClientFile, read_state
from hotview.model.files import MODEL_FORMAT


def read_client(path):
    return read_state(path, CLIENT_FORMAT, ClientFile).client


def one(folder, name="clinical", own=None, **more):
    return Client(
        own or client_data()[name], folder / name, device="cpu", **{"shares": BOTH, **more}
    )


def changed(message, arrays=None, **facts):
    return Message(message.kind, {**message.metadata, **facts}, arrays or message.arrays)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """Everything that crossed in a training."""
    _, channel = train(organizations(tmp_path_factory.mktemp("recorded")), settings())
    return channel


def begin(client, arrays=None, told=None, **more):
    usual = {"settings": settings(batch_size=N_ROWS, **more).to_json(), "session": "one"}
    usual |= {"classes": CLASSES, "names": list(NAMES)}
    return client.handle(Message("start", {**usual, **(told or {})}, arrays or {}))


def first_round(**more):
    G = np.zeros((2, 8, 3), np.float32)
    return Message("round", {"round": 1, "session": "one", **more}, {"references": G})


def bring(client, channel, until):
    """Let an organization answer what another one was told, up to and with a round."""
    for message, _ in channel.to(client.data.name):
        answer = client.handle(message)
        if message.kind == "round" and message.metadata["round"] == until:
            return message, answer
    return None


def test_hello_has_no_linked_ids(tmp_path):
    facts = one(tmp_path, HOLDER).handle(Message("hello")).metadata
    linked = {"n_linked": N_LINKED, "digest": client_data()[HOLDER].digest}
    assert facts == {"name": HOLDER, **linked, "model_format": MODEL_FORMAT}
    assert not (tmp_path / "clinical").exists()  # nothing has begun


def test_an_older_round_is_refused(tmp_path, recorded):
    client = one(tmp_path)
    bring(client, recorded, until=2)
    rounds = [m for m, _ in recorded.to("clinical") if m.kind == "round"]
    plain = {"references": rounds[1].arrays["references"]}
    for message in (rounds[0], changed(rounds[1], update_round=0, curvatures={}, arrays=plain)):
        with pytest.raises(ValueError, match="is over: 'clinical' has answered round 2"):
            client.handle(message)
    # That is no harm: what comes next is answered as if nothing had been.
    truth = recorded.to("clinical")
    last = [answer for m, answer in truth if m.kind == "round"][2]
    assert client.handle(rounds[2]).to_bytes() == last


@pytest.mark.parametrize("kind", ("round", "finish"))
def test_a_message_of_another_training_or_of_none_is_refused(tmp_path, recorded, kind):
    message = [m for m, _ in recorded.to("clinical") if m.kind == kind][-1]
    with pytest.raises(ValueError, match="'clinical' to have begun, but there is no"):
        one(tmp_path).handle(message)
    client = one(tmp_path)
    bring(client, recorded, until=1)
    with pytest.raises(ValueError, match="of another training than 'clinical' began"):
        client.handle(changed(message, session="another"))
    with pytest.raises(ValueError, match="its 'session' cannot be None"):
        client.handle(changed(message, session=None))


def test_who_is_no_label_holder_does_not_tell_what_labels_say(tmp_path, recorded):
    own = client_data()["clinical"]
    own.labels[:] = [CLASSES[k % 3] for k in range(N_ROWS)]
    client = one(tmp_path, own=own)
    bring(client, recorded, until=1)
    for kind in ("label_loss", "fusion"):
        message = next(m for m, _ in recorded.to(HOLDER) if m.kind == kind)
        with pytest.raises(ValueError, match="for the label holder, which is 'genetic'"):
            client.handle(message)
    ask = Message("classes", {"settings": settings(share_labels=True).to_json()})
    assert one(tmp_path / "new", own=own).handle(ask).arrays == {}
    own.labels[3] = "dead"
    with pytest.raises(ValueError, match=r"among those of the label holder, .* there is 'dead'"):
        bring(one(tmp_path / "other", own=own), recorded, until=1)


def test_a_label_holder_needs_labels(tmp_path):
    ask = Message("classes", {"settings": settings(label_holder="clinical").to_json()})
    with pytest.raises(ValueError, match=r"'clinical' to hold the labels, .* label_column"):
        one(tmp_path).handle(ask)
    ask.metadata["settings"]["rounds"] = 0
    with pytest.raises(ValueError, match="Expected rounds"):
        one(tmp_path).handle(ask)


def test_half_a_round_is_no_round(tmp_path, recorded, monkeypatch):
    client = one(tmp_path)
    bring(client, recorded, until=1)
    messages = [(m, a) for m, a in recorded.to("clinical") if m.kind == "round"]

    def fail(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(module, "write_state", fail)
        with pytest.raises(KeyboardInterrupt):
            client.handle(messages[1][0])
    assert client.handle(messages[1][0]).to_bytes() == messages[1][1]
    for message, truth in messages[2:]:  # and that is kept
        assert one(tmp_path).handle(message).to_bytes() == truth


@pytest.fixture(scope="module")
def spending(tmp_path_factory):
    """One organization asks for privacy: all its rows are in every release, in which case the
    accountant knows at once what that costs.
    """
    folder = tmp_path_factory.mktemp("private")
    clients = organizations(folder, clinical={"privacy": Privacy(50.0)})
    result, channel = train(clients, settings(batch_size=N_ROWS))
    return folder, clients, result, channel


def test_what_is_spent_is_told_and_never_more_than_was_asked_for(spending):
    _, clients, result, channel = spending
    told = [
        Message.from_bytes(answer).metadata["privacy"]
        for message, answer in channel.to("clinical")
        if message.kind == "round" and message.metadata["round"] <= 3
    ]
    noise = clients["clinical"].state.noise
    assert [one["epsilon"] for one in told] == [
        pytest.approx(total_epsilon([ReleaseRecord(noise, N_ROWS, N_ROWS, n)], 1e-5))
        for n in (1, 2, 3)
    ]
    assert 0.99 * 50 < told[-1]["epsilon"] <= 50
    assert result.privacy == {"clinical": told[-1]}  # the others asked for none


def test_no_more_is_released_than_there_is_noise_for(spending):
    folder, clients, _, channel = spending
    last, answer = [(m, a) for m, a in channel.to("clinical") if m.kind == "round"][-1]
    private, again = clients["clinical"], one(folder, privacy=Privacy(50.0))
    assert again.handle(last).to_bytes() == answer  # which got lost
    assert private.state.releases[-1].n_releases == 3
    state = private.state_path.read_bytes()
    assert private.handle(last).arrays == {}  # after the last round nothing is
    for client in (private, one(folder, privacy=Privacy(50.0))):
        with pytest.raises(ValueError, match="privacy budget is spent: round 5 is past the end"):
            client.handle(changed(last, round=5))
    with pytest.raises(ValueError, match=r"spent: earlier trainings took epsilon = \d+ of 50. Rai"):
        begin(one(folder, privacy=Privacy(50.0)))  # anew, which gives no second budget
    assert private.state_path.read_bytes() == state
    # Nobody else goes on either: noise is chosen for as many rounds as all agreed on.
    other = [m for m, _ in channel.to("imaging") if m.kind == "round"][-1]
    with pytest.raises(ValueError, match=r"^round 5 is past the end .* of 'imaging', 3"):
        clients["imaging"].handle(changed(other, round=5))


@pytest.mark.parametrize(
    ("name", "privacy", "problem"),
    (
        ("clinical", None, r"as it began, with epsilon = 50.0 and .* now it is without"),
        ("clinical", Privacy(8.0), r"with epsilon = 50.0 and .* now it is with .* = 8.0"),
        ("imaging", Privacy(1.0), r"without privacy, but now it is with epsilon = 1.0"),
    ),
)
def test_privacy_stays_what_it_was_at_the_beginning(spending, name, privacy, problem):
    folder, _, _, channel = spending
    with pytest.raises(ValueError, match=problem):
        one(folder, name, privacy=privacy).handle(channel.to(name)[-1][0])


def test_what_is_left_is_for_the_training_that_follows(tmp_path):
    client = one(tmp_path, privacy=Privacy(10.0))
    begin(client)
    client.handle(first_round())
    begin(one(tmp_path))  # not even without noise in between is it forgotten
    client = one(tmp_path, privacy=Privacy(10.0))
    begin(client)
    before, now = client.state.releases
    assert (before.n_releases, now.n_releases) == (1, 0)
    assert now.noise > 1.05 * before.noise
    assert 9.9 < total_epsilon([before, replace(now, n_releases=3)], 1e-5) <= 10
    told = client.handle(first_round()).metadata["privacy"]["epsilon"]
    assert told == pytest.approx(total_epsilon([before, replace(now, n_releases=1)], 1e-5))
    with pytest.raises(ValueError, match="'hot-pairwise' sends second moments"):  # without noise
        begin(client, coupling="hot-pairwise")


def test_two_messages_at_once_are_answered_one_after_the_other(tmp_path):
    begin(one(tmp_path, privacy=Privacy(50.0)))
    found, end = [], Event()

    def ask():
        found.append(one(tmp_path, privacy=Privacy(50.0)).handle(first_round()))
        end.set()

    with file_lock(tmp_path / "clinical" / ".lock"):
        Thread(target=ask, daemon=True).start()
        assert not end.wait(0.5)
    assert end.wait(60)
    assert found[0].arrays.keys() == {"quantiles", "scores"}


ALONE = {"label_holder": None, "hidden": (), "encoder_dim": 2, "n_components": 2}
ALONE |= {"quantiles": N_ROWS}
SCALES = 10.0 ** np.r_[38.4:37:-0.1, 37:-3:-2]


def secretive(folder, extreme):
    """An organization with privacy, in which one feature of one person is extreme."""
    X = np.random.default_rng(0).normal(size=(N_ROWS, 3))
    X[7, 0] = extreme
    own = ClientData.from_table("clinical", X)
    client = Client(own, folder / str(extreme), privacy=Privacy(1.0), device="cpu")
    begin(client, **ALONE)
    client.handle(Message("round", {"round": 1, "session": "one"}, {"references": near(0)}))
    return client


def near(where):
    return np.full((2, N_ROWS, 2), where, np.float32)


def question(**arrays):
    curvatures = {k.removeprefix("gradient."): 0.0 for k in arrays if k.startswith("gradient.")}
    facts = {"round": 2, "update_round": 1, "session": "one", "curvatures": curvatures}
    return Message("round", facts, {"references": near(0), **arrays})


def of_the_largest(x):
    gradient = np.zeros((4, N_ROWS), np.float32)
    gradient[:, -1] = x
    return gradient


@pytest.mark.parametrize(
    "ask",
    (
        lambda x: question(**{"gradient.quantiles": of_the_largest(x)}),
        lambda x: question(references=near(x), weights=np.full(2, 0.25, np.float32)),
        lambda x: question(references=near(1), weights=np.full(2, x, np.float32)),
    ),
    ids=("gradients", "references", "weights"),
)
def test_no_refusal_depends_on_rows_and_every_answer_is_counted(tmp_path, ask):
    refusals = []
    for extreme in (2.0, 9.28):
        client, told = secretive(tmp_path, extreme), []
        for x in SCALES:
            try:
                answer = client.handle(ask(x))
            except Exception as error:
                told.append((x, repr(error)))
                continue
            assert np.isfinite(answer.arrays["quantiles"]).all()
            break
        n_answered = 1 + (len(told) < len(SCALES))
        assert read_client(client.state_path).releases[-1].n_releases == n_answered
        refusals.append(told)
    assert refusals[0] == refusals[1]


@pytest.mark.parametrize("seed", (None, 5))
def test_a_release_that_fails_is_counted_and_repeated_with_the_same_noise(
    tmp_path, monkeypatch, seed
):
    privacy = Privacy(50.0, seed=seed)
    client = one(tmp_path, privacy=privacy)
    begin(client)
    message, made = first_round(), []

    def fail(trainer, *arguments):
        made.append(make_update(trainer, *arguments))
        raise KeyboardInterrupt

    def releases():
        return read_client(client.state_path).releases[-1]

    make_update = LocalTrainer.make_update
    with monkeypatch.context() as patch:
        patch.setattr(LocalTrainer, "make_update", fail)
        for _ in range(2):
            with pytest.raises(KeyboardInterrupt):
                client.handle(message)
            assert releases().n_releases == 1
    other = changed(message, {"references": message.arrays["references"] + 1})
    with pytest.raises(ValueError, match="round 1 is over"):
        client.handle(other)
    answer = one(tmp_path, privacy=privacy).handle(message)
    for update in made:
        np.testing.assert_array_equal(update.sent["quantiles"].numpy(), answer.arrays["quantiles"])
    assert releases().n_releases == 1
    assert read_client(client.state_path).noise_seed == ""
    told = client.handle(changed(message, round=2)).metadata["privacy"]["epsilon"]
    assert told == pytest.approx(total_epsilon([releases()], 1e-5))
    assert releases().n_releases == 2


def test_clients_with_one_folder_count_together(tmp_path):
    first, second = (one(tmp_path, privacy=Privacy(epsilon)) for epsilon in (50.0, 50))
    begin(first)
    for round, client in ((1, first), (2, second), (3, first)):
        message = first_round(round=round)
        client.handle(message)
        other = changed(message, {"references": message.arrays["references"] + 1})
        with pytest.raises(ValueError, match=f"round {round} is over"):
            (second if client is first else first).handle(other)
    assert read_client(first.state_path).releases[-1].n_releases == 3


def telling():
    """Views with values, ids and columns that would be found wherever they were."""
    found, random = {}, np.random.default_rng(0)
    ids = [f"patient-{i}" for i in range(N_ROWS)]
    for s, name in enumerate(NAMES):
        X = 1000 * (s + 1) + random.normal(size=(N_ROWS, 4 + s))
        labels = [f"diagnosis-{i % 3}" for i in range(N_ROWS)] if name == HOLDER else None
        more = {"ids": ids, "linked_ids": ids[:N_LINKED], "labels": labels}
        found[name] = ClientData.from_table(name, X, **more)
    return found


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """Trainings by their settings: the clients, and the bytes of all messages and answers."""

    @cache
    def run(**more):
        clients = organizations(tmp_path_factory.mktemp("telling"), telling())
        _, channel = train(clients, settings(quantiles=16, **more))
        return clients, [data for _, *both in channel.crossed for data in both]

    return run


def floats(seen):
    """Every number in every array that crossed."""
    arrays = [x for data in seen for x in Message.from_bytes(data).arrays.values()]
    return {float(v) for x in arrays if x.dtype == np.float32 for v in x.ravel()}


BEGIN, FEATURES = ("classes", "start"), {"share_features": True}
LABELS = {"share_labels": True, "coupling": "hot-pairwise", "view_regularizer": "autoencoder"}


@pytest.mark.parametrize("more", ({}, FEATURES, LABELS))
def test_no_row_crosses(crossed, more):
    clients, seen = crossed(**more)
    everything, numbers = b"".join(seen), floats(seen)
    assert len(numbers) > 1000
    assert b"patient-" not in everything
    for own in telling().values():
        X = np.asarray(own.table.data)
        Z = (X - X.mean(0)) / X.std(0)
        with torch.no_grad():
            latents = clients[own.name].trainer.embed(np.arange(N_ROWS)).numpy()
        for rows in (X, Z, latents):
            assert not numbers & {float(v) for v in rows.astype(np.float32).ravel()}
            for row in rows:
                assert row.astype(np.float32).tobytes() not in everything
                assert row.astype(">f4").tobytes() not in everything
            for v in rows.astype(np.float64).ravel():
                assert v.tobytes() not in everything
                assert repr(float(v)).encode() not in everything
                assert str(np.float32(v)).encode() not in everything


@pytest.mark.parametrize("more", ({}, FEATURES))
def test_features_cross_only_if_that_was_agreed_and_only_of_linked_people(crossed, more):
    clients, seen = crossed(**more)
    everything = b"".join(seen)
    for name, client in clients.items():
        with torch.no_grad():
            X = client.trainer.view.take(np.arange(N_ROWS))
            F = client.trainer.network.encode([X])[0].numpy()
        told = {i for i in range(N_ROWS) if F[i].tobytes() in everything}
        assert told == (set(client.data.linked.tolist()) if more else set()), name


def test_labels_cross_only_if_that_was_agreed(crossed):
    for share in (False, True):
        clients, seen = crossed(**(LABELS if share else {}))
        messages = [Message.from_bytes(data) for data in seen]
        arrays = [
            (m.kind, name) for m in messages for name, x in m.arrays.items() if x.dtype.kind == "i"
        ]
        kinds = ("classes", "start", "fusion", "round") if share else ()
        assert set(arrays) == {(kind, "codes") for kind in kinds}
        # What classes there are is told in the beginning, each once, and of nobody.
        for data, message in zip(seen, messages, strict=True):
            expected = int("classes" in message.metadata and message.metadata["classes"] != [])
            assert data.count(b"diagnosis-1") == expected
            assert message.kind in BEGIN or expected == 0
        # Until it is known how much each view counts, those held out are not among them.
        codes = clients[HOLDER].trainer.linked_codes
        early = [m for m in messages if m.kind in BEGIN or m.metadata.get("round", 9) <= 2]
        assert codes.tobytes() not in b"".join(m.to_bytes() for m in early)
        told = [m.arrays["codes"] for m in early if "codes" in m.arrays]
        assert (len(told) > 0) == share
        held = np.isin(np.arange(N_LINKED), session_of().split_linked()[1])
        for x in told:
            np.testing.assert_array_equal(x, np.where(held, -1, codes))
        assert (codes.tobytes() in b"".join(seen)) == share


@pytest.mark.parametrize(
    ("name", "what"), (("clinical", "features"), (HOLDER, "features"), (HOLDER, "labels"))
)
def test_settings_alone_do_not_let_anything_be_shared(tmp_path, name, what):
    asked, refused = {f"share_{what}": True}, f"asked to send {what} .*, and has not consented"
    with pytest.raises(ValueError, match=refused):
        begin(one(tmp_path, name, shares=()), **asked)
    begin(one(tmp_path, name, shares=[what]), **asked)
    with pytest.raises(ValueError, match=refused):  # withdrawn
        one(tmp_path, name, shares=()).handle(Message("round", {"round": 1, "session": "one"}))
    begin(one(tmp_path, "clinical", shares=()), share_labels=True)  # of which it has none
    with pytest.raises(ValueError, match="not 'rows'"):
        one(tmp_path, name, shares=["rows"])


def test_a_table_that_has_changed_is_noticed(tmp_path):
    X = np.zeros((N_ROWS, 2))
    first, other = (ClientData.from_table("clinical", X + k * np.eye(N_ROWS, 2)) for k in (1, 2))
    begin(one(tmp_path, own=first), label_holder=None)
    with pytest.raises(ValueError, match="but it has changed"):
        one(tmp_path, own=other).handle(first_round())


@pytest.mark.parametrize(
    ("told", "problem"),
    (
        ({"names": ["genetic", "imaging"]}, "'clinical' among them"),
        ({"names": ["clinical", "../b"]}, "names of organizations"),
        ({"names": None}, "its 'names' cannot be None"),
        ({"classes": ["a", "a"]}, "classes are not distinct"),
        ({"session": "\ud800"}, "a text that is no line"),
    ),
)
def test_names_and_classes_that_cannot_be_are_refused(tmp_path, told, problem):
    with pytest.raises(ValueError, match=problem):
        begin(one(tmp_path), told=told)
    assert not (tmp_path / "clinical" / "state.federated").exists()


def test_shared_labels_that_cannot_be_are_refused(tmp_path):
    shared, client = {"share_labels": True, "coupling": "none"}, one(tmp_path)
    for codes in (np.full(N_LINKED, 3), np.zeros(1, np.int64), np.zeros(N_LINKED, np.float32)):
        with pytest.raises(ValueError, match="its codes are"):
            begin(client, {"codes": codes}, **shared)
    valid = {"codes": np.zeros(N_LINKED, np.int64)}
    with pytest.raises(ValueError, match=r"it holds \['codes'\]"):
        begin(client, valid)
    begin(client, valid, **shared)
    message = Message("round", {"round": 1, "session": "one"}, {"codes": np.full(N_LINKED, 3)})
    with pytest.raises(ValueError, match="its codes are not from -1 to 2"):
        client.handle(message)
