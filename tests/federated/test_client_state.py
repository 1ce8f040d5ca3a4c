import copy
import shutil

import numpy as np
import pytest
import torch
from small_federation import BOTH, HOLDER, NAMES, client_data, organizations, settings, train

from hotview._archive import FileFormat, read_archive, write_archive
from hotview.federated import Client, Message, Privacy
from hotview.federated.client_state import (
    _FORMAT,
    ClientState,
    read_client_state,
    read_state,
    write_client_state,
    write_state,
)
from hotview.federated.local_trainer import ClientUpdate, LocalTrainer
from hotview.federated.privacy import ReleaseRecord

STATE = "state.federated"
PRIVACY = Privacy(8.0, seed=3)
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
    assert restore(other.data, lambda state: other) is other
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


# contents that no client writes


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Files of a label holder, and of a client with privacy to whom labels are shared."""
    found, private = {}, {"clinical": {"privacy": PRIVACY}}
    for name, more in ((HOLDER, {}), ("clinical", {"share_labels": True})):
        folder = tmp_path_factory.mktemp(name)
        train(organizations(folder, **private), settings(rounds=2, batch_size=40, **more))
        path = folder / name / STATE
        found[name] = (path, read_archive(path, _FORMAT))
    return found


def refusal(name, path):
    """The error of a client that reads a file; it has nothing to do with the message."""
    client = Client(
        client_data()[name],
        path.parent,
        device="cpu",
        shares=BOTH,
        privacy=PRIVACY if name == "clinical" else None,
    )
    with pytest.raises(ValueError, match=r"state|training") as caught:
        client.handle(Message("finish", {"session": "another"}))
    assert client.trainer is client.state is None
    return str(caught.value)


def spoiled(x, name):
    if name != "client.shared_codes":  # which not all clients have
        yield "missing", None
    yield "dtype", x.double() if x.is_floating_point() else x.int()
    if not name.startswith("streams"):  # whose lengths vary
        yield "shape", torch.cat([x.reshape(-1), x.new_zeros(3)])
    yield "dimensions", x[None, None]
    if x.numel() > 0:
        for value in (torch.nan, torch.inf) if x.is_floating_point() else (10**9, -5):
            yield str(value), torch.full_like(x, value)


@pytest.mark.parametrize("name", (HOLDER, "clinical"))
def test_every_tensor_is_checked(written, tmp_path, name):
    path, archive = written[name]
    assert "another training than" in refusal(name, path)
    accepted = []
    for key, x in archive.tensors.items():
        for how, wrong in spoiled(x, key):
            tensors = {k: v for k, v in archive.tensors.items() if k != key}
            if wrong is not None:
                tensors[key] = wrong
            write_archive(tmp_path / STATE, _FORMAT, tensors, archive.metadata)
            problem = f"Expected {tmp_path / STATE} to be a state that hotview saved, but its parts"
            if not refusal(name, tmp_path / STATE).startswith(problem):
                accepted.append((key, how))
    assert accepted == []


FACTS = {
    "client.settings": ({}, {"rounds": -1}, {"rounds": "2"}, {"unknown": 1}),
    "client.classes": ([], ["a", "a"], [["a"]], [None], "abc"),
    "client.names": ([], ["imaging"], [*NAMES, *NAMES], [3]),
    "client.update.round": (-1, 0, 99, 10**30, 1.5, None),
    "client.request_round": (-1, 0, 99, 10**30, "3"),
    "client.response": (None, {}),
    "client.response.kind": ("finish", 3),
    "client.response.metadata": ({}, {"round": 1}),
    "client.noise_seed": ("7", "x", 7),
    "client.history": ([{"loss": "x"}], [{"loss": [1.0]}], [[]], [{"loss": 1.0}] * 99, {}),
    "client.releases": ([], [{}], None, [1]),
    "client.releases.0.n_releases": (-1, 3, 2**31 - 1, 10**30, 0.5),
    "client.releases.0.n_rows": (-1, 0, 41),
    "client.releases.0.sample_size": (-1, 0, 41),
    "client.releases.0.noise": (-1.0, 0, "1"),
    "client.budget": ([], [8.0], [8.0, 1e-5, 2.0], [-8.0, 1e-5], [8.0, 2.0], [1.0, 1e-5]),
    "random": ({}, {"bit_generator": "MT19937"}),
    "random.state.state": (-1, 2**200, 1.5, None),
    "random.state.inc": (-1, 2**200),
    "random.has_uint32": (-1, 7),
    "random.uinteger": (-1, 2**40),
    "streams": ([], [{}, {}, {}]),
}


@pytest.mark.parametrize("path", FACTS)
def test_every_fact_is_checked(written, tmp_path, path):
    _, archive = written["clinical"]
    *parents, last = path.split(".")
    for value in FACTS[path]:
        metadata = copy.deepcopy(archive.metadata)
        at = metadata["content"]
        for part in parents:
            at = at[int(part) if isinstance(at, list) else part]
        at[last] = value
        write_archive(tmp_path / STATE, _FORMAT, archive.tensors, metadata)
        error = refusal("clinical", tmp_path / STATE)
        assert f"Expected {tmp_path / STATE} to be a state" in error or "budget" in path, value
        assert "another training than" not in error


def test_settings_of_another_network_are_refused(written, tmp_path):
    _, archive = written[HOLDER]
    for change in ({"hidden": [7]}, {"n_components": 2}, {"quantiles": 9}, {"coupling": "none"}):
        metadata = copy.deepcopy(archive.metadata)
        metadata["content"]["client"]["settings"] |= change
        write_archive(tmp_path / STATE, _FORMAT, archive.tensors, metadata)
        assert "its parts do not fit" in refusal(HOLDER, tmp_path / STATE)
