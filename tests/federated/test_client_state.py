import shutil

import numpy as np
import pytest
import torch
from small_federation import BOTH, HOLDER, NAMES, holdings, organizations, settings, train

from hotview.federated import Message, Organization, Privacy
from hotview.federated.local_trainer import Learner
from hotview.federated.client_state import Standing, read_standing, write_standing

STATE = "state.federated"


def fresh(folder, name, **more):
    return Organization(holdings()[name], folder / name, device="cpu", shares=BOTH, **more)


@pytest.mark.parametrize(
    "more",
    (
        {},
        {"coupling": "hot-pairwise", "view_regularizer": "autoencoder"},
        {"share_features": True, "propagate_labels": True},
        {"label_holder": None},
    ),
)
def test_who_is_new_at_every_message_answers_like_who_stayed(tmp_path, more):
    members = organizations(tmp_path / "stays")
    _, carrier = train(members, settings(**more))
    for name in ("clinical", HOLDER):
        for message, answer in carrier.to(name):
            found = fresh(tmp_path / "comes", name).answer(message)
            assert found.to_bytes() == answer, message.kind
        stayed, came = (tmp_path / who / name / "part.hotview" for who in ("stays", "comes"))
        assert stayed.read_bytes() == came.read_bytes()


def test_private_organizations_go_on_alike_if_there_is_a_seed(tmp_path):
    privacy = {"privacy": Privacy(50.0, seed=3)}
    given = settings(batch_size=40, rounds=2)
    members = organizations(tmp_path / "stays", **dict.fromkeys(NAMES, privacy))
    _, carrier = train(members, given)
    told = [message.facts for message, _ in carrier.to("clinical")]
    assert [facts.get("round") for facts in told if "round" in facts] == [1, 2, 3]
    for message, answer in carrier.to("clinical"):
        found = fresh(tmp_path / "comes", "clinical", **privacy).answer(message)
        assert found.to_bytes() == answer


@pytest.fixture(scope="module")
def ended(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ended")
    members = organizations(folder)
    train(members, settings())
    return folder, members


def test_everything_comes_back_as_it_was(ended, tmp_path):
    folder, members = ended
    learner, standing = members[HOLDER].learner, members[HOLDER].standing
    found, tensors = read_standing(folder / HOLDER / STATE)
    for name in ("settings", "classes", "names", "federation", "history", "asked", "n_releases"):
        assert getattr(found, name) == getattr(standing, name), name
    assert found.report.round == standing.report.round == 4
    for name in ("rows", "own", "linked"):
        np.testing.assert_array_equal(getattr(found.report, name), getattr(standing.report, name))
    assert all(torch.equal(found.report.sent[k], x) for k, x in standing.report.sent.items())
    np.testing.assert_array_equal(found.references, standing.references)
    assert found.answer.to_bytes() == standing.answer.to_bytes()
    other = Learner(settings(), holdings()[HOLDER], found.classes, 3, torch.device("cpu"))
    found.put_back(other, tensors)
    for key, x in learner.network.state_dict().items():
        assert torch.equal(other.network.state_dict()[key], x)
    assert [a.next().tolist() for a in other.streams] == [
        a.next().tolist() for a in learner.streams
    ]
    assert other.random.random() == learner.random.random()


def test_the_same_standing_is_the_same_file(ended, tmp_path):
    _, members = ended
    one = members["clinical"]
    for name in ("a", "b"):
        write_standing(tmp_path / name, one.standing, one.learner)
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
        fresh(tmp_path, "clinical").answer(Message("finish"))


def test_another_kind_of_file_is_refused(ended, tmp_path):
    folder, _ = ended
    (tmp_path / "clinical").mkdir()
    shutil.copy(folder / "clinical" / "part.hotview", tmp_path / "clinical" / STATE)
    with pytest.raises(ValueError, match="to be a state that hotview saved"):
        fresh(tmp_path, "clinical").answer(Message("finish"))


def test_a_beginning_can_be_written_before_anything_was_asked(tmp_path):
    own = holdings()["clinical"]
    learner = Learner(settings(), own, [], 3, torch.device("cpu"))
    write_standing(tmp_path / "s", Standing(settings().to_json(), [], list(NAMES)), learner)
    found, _ = read_standing(tmp_path / "s")
    assert found.report.round == 0
    assert found.answer is None
    assert found.references is None
    assert found.shared is None
