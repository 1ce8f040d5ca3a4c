import numpy as np
import pytest
from small_federation import BOTH, CLASSES, N_LINKED, NAMES, holdings, settings

from hotview.federated import Message, Organization
from hotview.federated.client_policy import check_round, check_same, check_willing
from hotview.federated.local_trainer import Report
from hotview.federated.response_validation import RefusedError
from hotview.federated.client_state import Standing

STATE = "state.federated"


def one(folder, shares=BOTH):
    return Organization(holdings()["clinical"], folder / "clinical", device="cpu", shares=shares)


def begin(member, arrays=None, settings=settings, **told):
    usual = {"settings": settings().to_json(), "federation": "one"}
    usual |= {"classes": CLASSES, "names": list(NAMES)}
    return member.answer(Message("start", {**usual, **told}, arrays or {}))


@pytest.mark.parametrize(
    ("told", "problem"),
    (
        ({"names": ["genetic", "imaging"]}, "'clinical' among them"),
        ({"names": ["clinical", "clinical"]}, "different names"),
        ({"names": ["clinical", 3]}, "different names"),
        ({"names": None}, "different names"),
        ({"classes": [["a"], ["b"]]}, "classes are not different"),
        ({"classes": ["a", "a"]}, "classes are not different"),
    ),
)
def test_names_and_classes_that_cannot_be_are_refused(tmp_path, told, problem):
    with pytest.raises((ValueError, RefusedError), match=problem):
        begin(one(tmp_path), **told)
    assert not (tmp_path / "clinical" / STATE).exists()


def test_shared_labels_that_cannot_be_are_refused(tmp_path):
    for codes in (np.full(N_LINKED, 3), np.zeros(1, np.int64), np.zeros(N_LINKED, np.float32)):
        with pytest.raises(RefusedError, match="no classes of the linked people"):
            begin(one(tmp_path), {"codes": codes})
    member = one(tmp_path)
    begin(member, {"codes": np.zeros(N_LINKED, np.int64)})
    message = Message("round", {"round": 1, "federation": "one"}, {"codes": np.full(N_LINKED, 3)})
    with pytest.raises(RefusedError, match="no classes of the linked people"):
        member.answer(message)


def test_who_no_longer_agrees_does_not_go_on(tmp_path):
    begin(one(tmp_path), settings=lambda: settings(share_features=True))
    message = Message("round", {"round": 1, "federation": "one"})
    with pytest.raises(ValueError, match="asked to send features"):
        one(tmp_path, shares=()).answer(message)


def test_steps_into_nowhere_are_not_taken(tmp_path):
    member = one(tmp_path)
    begin(member, settings=lambda: settings(coupling="none", local_steps=1))
    scores = member.answer(Message("round", {"round": 1, "federation": "one"})).arrays["scores"]
    facts = {"round": 2, "about": 1, "federation": "one", "curvatures": {"scores": 1e300}}
    arrays = {"gradient.scores": np.ones_like(scores)}
    with pytest.raises(ValueError, match="weights that are not finite"):
        member.answer(Message("round", facts, arrays))
    # Nothing of it is left: what makes sense is answered.
    facts["curvatures"] = {"scores": 0.1}
    assert np.isfinite(member.answer(Message("round", facts, arrays)).arrays["scores"]).all()


def test_only_the_round_that_follows_and_no_more_than_agreed():
    own = holdings()["clinical"]
    standing = Standing(settings(rounds=3).to_json(), CLASSES, list(NAMES), report=Report(2))
    for round in (3, 4):  # the one after the last, too
        check_round(own, round, standing)
    for round, why in ((-1, "is over"), (2, "is over"), (5, "is past the end"), (10**30, "past")):
        with pytest.raises(ValueError, match=why):
            check_round(own, round, standing)


def test_only_with_the_budget_and_the_table_of_the_beginning():
    own = holdings()["clinical"]
    standing = Standing({}, CLASSES, list(NAMES), table=own.fingerprint, budget=[8.0, 1e-5])
    check_same(own, [8.0, 1e-5], standing)
    for budget in (None, [1.0, 1e-5], [8.0, 1e-6]):
        with pytest.raises(
            ValueError, match=r"with epsilon = 8.0 and delta = 1e-05, but now it is"
        ):
            check_same(own, budget, standing)
    with pytest.raises(ValueError, match="but it has changed"):
        check_same(holdings()["imaging"], [8.0, 1e-5], standing)


def test_a_label_holder_has_labels():
    own = holdings()
    check_willing(own["genetic"], (), settings(label_holder="genetic"))
    with pytest.raises(ValueError, match="'clinical' to hold the labels"):
        check_willing(own["clinical"], (), settings(label_holder="clinical"))
