import copy

import pytest
import torch
from small_federation import BOTH, HOLDER, NAMES, client_data, organizations, settings, train

from hotview._archive import read_archive, write_archive
from hotview.federated import Client, Message, Privacy
from hotview.federated.state import CLIENT_FORMAT as _FORMAT

STATE = "state.federated"
PRIVACY = Privacy(8.0, seed=3)
FINISH = Message("finish", {"session": "one"})


def fresh(folder, name, **more):
    return Client(client_data()[name], folder / name, device="cpu", shares=BOTH, **more)


@pytest.mark.parametrize(
    ("privacy", "more"),
    (
        ({}, {"view_regularizer": "autoencoder", "share_features": True, "share_labels": True}),
        ({}, {"coupling": "hot-pairwise", "label_holder": None}),
        ({"privacy": Privacy(50.0, seed=3)}, {"batch_size": 40}),
    ),
)
def test_a_client_restored_before_every_message_responds_the_same_again_and_again(
    tmp_path, privacy, more
):
    clients = organizations(tmp_path / "stays", **dict.fromkeys(NAMES, privacy))
    _, channel = train(clients, settings(rounds=2, **more))
    for name in ("clinical", HOLDER):
        for message, answer in channel.to(name):
            one = fresh(tmp_path / "comes", name, **privacy)
            for again in (one, one, fresh(tmp_path / "comes", name, **privacy)):
                assert again.handle(message).to_bytes() == answer, message.kind
                if message.kind == "start":  # anew
                    break
        stayed, came = (tmp_path / who / name / "part.hotview" for who in ("stays", "comes"))
        assert stayed.read_bytes() == came.read_bytes()


def test_a_file_that_is_cut_off_or_of_another_kind_is_refused(written, tmp_path):
    original, _ = written["clinical"]
    path = tmp_path / "clinical" / STATE
    path.parent.mkdir()
    whole = original.read_bytes()
    for data in (whole[: len(whole) // 2], original.with_name("part.hotview").read_bytes()):
        path.write_bytes(data)
        with pytest.raises(ValueError, match="to be a state that hotview saved, but it"):
            fresh(tmp_path, "clinical").handle(FINISH)


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
    if x.numel() > 0:
        for value in (torch.nan, torch.inf) if x.is_floating_point() else (10**9, -5):
            yield str(value), torch.full_like(x, value)


@pytest.mark.parametrize("name", (HOLDER, "clinical"))
def test_every_tensor_is_checked(written, tmp_path, name):
    path, archive = written[name]
    assert "another training than" in refusal(name, path)
    accepted, others = [], written["clinical"][1].tensors if name == HOLDER else ()
    for key in archive.tensors.keys() - set(others):
        for how, wrong in spoiled(archive.tensors[key], key):
            tensors = {k: v for k, v in archive.tensors.items() if k != key}
            if wrong is not None:
                tensors[key] = wrong
            write_archive(tmp_path / STATE, _FORMAT, tensors, archive.metadata)
            problem = f"Expected {tmp_path / STATE} to be a state that hotview saved, but its parts"
            if not refusal(name, tmp_path / STATE).startswith(problem):
                accepted.append((key, how))
    assert accepted == []


FACTS = {
    "client.session.settings": ({}, {"rounds": 3}),
    "client.session.settings.rounds": (-1, 0, "2"),
    "client.session.classes": ([], ["a", "a"], [["a"]], [None], "abc"),
    "client.session.names": ([], ["imaging"], [*NAMES, *NAMES], [3]),
    "client.session.n_linked": (0, 19, 2**30),
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
    "client.budget": ([8.0, 1e-5], {}, {"epsilon": 8.0}),
    "client.budget.epsilon": (-8.0, 1.0, "8"),
    "client.budget.delta": (-1e-5, 2.0, None),
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
