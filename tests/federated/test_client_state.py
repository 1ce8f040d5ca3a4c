import shutil

import numpy as np
import pytest
import torch
from small_federation import BOTH, HOLDER, NAMES, client_data, organizations, settings, train

from hotview._archive import FileFormat
from hotview.federated import Client, Message, Privacy
from hotview.federated.client_state import (
    ClientState,
    read_client_state,
    read_state,
    write_client_state,
    write_state,
)
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.privacy import ReleaseRecord

STATE = "state.federated"
FINISH = Message("finish", {"session": "one"})


def fresh(folder, name, **more):
    return Client(client_data()[name], folder / name, device="cpu", shares=BOTH, **more)


@pytest.mark.parametrize(
    "more",
    (
        {},
        {"coupling": "hot-pairwise", "view_regularizer": "autoencoder"},
        {"share_features": True, "share_labels": True},
        {"label_holder": None},
    ),
)
def test_a_client_restored_before_every_message_responds_the_same(tmp_path, more):
    clients = organizations(tmp_path / "stays")
    _, channel = train(clients, settings(**more))
    for name in ("clinical", HOLDER):
        for message, answer in channel.to(name):
            found = fresh(tmp_path / "comes", name).handle(message)
            assert found.to_bytes() == answer, message.kind
        stayed, came = (tmp_path / who / name / "part.hotview" for who in ("stays", "comes"))
        assert stayed.read_bytes() == came.read_bytes()


def test_private_clients_with_a_seed_resume_identically(tmp_path):
    privacy = {"privacy": Privacy(50.0, seed=3)}
    given = settings(batch_size=40, rounds=2)
    clients = organizations(tmp_path / "stays", **dict.fromkeys(NAMES, privacy))
    _, channel = train(clients, given)
    told = [message.metadata for message, _ in channel.to("clinical")]
    assert [facts.get("round") for facts in told if "round" in facts] == [1, 2, 3]
    for message, answer in channel.to("clinical"):
        found = fresh(tmp_path / "comes", "clinical", **privacy).handle(message)
        assert found.to_bytes() == answer


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    clients = organizations(folder)
    train(clients, settings())
    return folder, clients


def test_the_state_is_read_as_it_was_written(ended, tmp_path):
    folder, clients = ended
    trainer, state = clients[HOLDER].trainer, clients[HOLDER].state
    found, restore = read_client_state(folder / HOLDER / STATE)
    for name in ("settings", "classes", "names", "session_id", "history", "request_digest"):
        assert getattr(found, name) == getattr(state, name), name
    assert found.releases == state.releases
    assert found.update.round == state.update.round == 4
    for name in ("rows", "labeled", "linked"):
        np.testing.assert_array_equal(getattr(found.update, name), getattr(state.update, name))
    assert all(torch.equal(found.update.sent[k], x) for k, x in state.update.sent.items())
    np.testing.assert_array_equal(found.references, state.references)
    assert found.response.to_bytes() == state.response.to_bytes()
    other = LocalTrainer(settings(), client_data()[HOLDER], found.classes, 3, torch.device("cpu"))
    restore(other)
    for key, x in trainer.network.state_dict().items():
        assert torch.equal(other.network.state_dict()[key], x)
    assert [a.next_batch().tolist() for a in other.streams] == [
        a.next_batch().tolist() for a in trainer.streams
    ]
    assert other.random.random() == trainer.random.random()


def test_equal_states_give_equal_files(ended, tmp_path):
    _, clients = ended
    one = clients["clinical"]
    for name in ("a", "b"):
        write_client_state(tmp_path / name, one.state, one.trainer)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def damage(path, what):
    data = bytearray(path.read_bytes())
    if what == "cut off":
        path.write_bytes(data[: len(data) // 2])
    elif what == "empty":
        path.write_bytes(b"")
    elif what == "one bit":
        data[-20] ^= 1
        path.write_bytes(data)
    else:
        path.write_text("a text")


@pytest.mark.parametrize("what", ("cut off", "empty", "one bit", "text"))
def test_a_damaged_file_is_refused(ended, tmp_path, what):
    folder, _ = ended
    shutil.copytree(folder / "clinical", tmp_path / "clinical")
    path = tmp_path / "clinical" / STATE
    damage(path, what)
    with pytest.raises(ValueError, match=r"to be a state that hotview saved, but .* begin the tr"):
        fresh(tmp_path, "clinical").handle(FINISH)


def test_another_kind_of_file_is_refused(ended, tmp_path):
    folder, _ = ended
    (tmp_path / "clinical").mkdir()
    shutil.copy(folder / "clinical" / "part.hotview", tmp_path / "clinical" / STATE)
    with pytest.raises(ValueError, match="to be a state that hotview saved"):
        fresh(tmp_path, "clinical").handle(FINISH)


def test_a_state_before_the_first_round_can_be_written(tmp_path):
    own = client_data()["clinical"]
    trainer = LocalTrainer(settings(), own, [], 3, torch.device("cpu"))
    write_client_state(tmp_path / "s", ClientState(settings().to_json(), [], list(NAMES)), trainer)
    found, _ = read_client_state(tmp_path / "s")
    assert found.update.round == 0
    assert found.response is None
    assert found.references is None
    assert found.shared_codes is None


def test_a_file_of_another_dataclass_is_refused(tmp_path):
    path, format = tmp_path / "s", FileFormat("an example", 1, "an example", "Write another.")
    write_state(path, format, ClientUpdate(3))
    assert read_state(path, format, ClientUpdate).round == 3
    with pytest.raises(ValueError, match="its parts do not fit"):
        read_state(path, format, ReleaseRecord)
