import numpy as np
import pytest
from small_federation import BOTH, CLASSES, N_LINKED, NAMES, client_data, settings

from hotview.federated import Client, Message
from hotview.federated.client_policy import check_consent, check_round, check_unchanged
from hotview.federated.client_state import ClientState

STATE = "state.federated"


def one(folder, shares=BOTH):
    return Client(client_data()["clinical"], folder / "clinical", device="cpu", shares=shares)


def begin(client, arrays=None, settings=settings, **told):
    usual = {"settings": settings().to_json(), "session": "one"}
    usual |= {"classes": CLASSES, "names": list(NAMES)}
    return client.handle(Message("start", {**usual, **told}, arrays or {}))


@pytest.mark.parametrize(
    ("told", "problem"),
    (
        ({"names": ["genetic", "imaging"]}, "'clinical' among them"),
        ({"names": ["clinical", "clinical"]}, "distinct names"),
        ({"names": ["clinical", 3]}, "its 'names.1' cannot be 3"),
        ({"names": ["clinical", "two\nlines"]}, "a text that is no line"),
        ({"names": ["clinical", "../b"]}, "names of organizations"),
        ({"names": None}, "its 'names' cannot be None"),
        ({"classes": [["a"], ["b"]]}, "classes are not distinct"),
        ({"classes": ["a", "a"]}, "classes are not distinct"),
        ({"classes": ["\ud800", "a"]}, "a text that is no line"),
        ({"session": "\ud800"}, "a text that is no line"),
    ),
)
def test_names_and_classes_that_cannot_be_are_refused(tmp_path, told, problem):
    with pytest.raises(ValueError, match=problem):
        begin(one(tmp_path), **told)
    assert not (tmp_path / "clinical" / STATE).exists()


def test_shared_labels_that_cannot_be_are_refused(tmp_path):
    shared = lambda: settings(share_labels=True, coupling="none")  # noqa: E731
    for codes in (np.full(N_LINKED, 3), np.zeros(1, np.int64), np.zeros(N_LINKED, np.float32)):
        with pytest.raises(ValueError, match="its codes are"):
            begin(one(tmp_path), {"codes": codes}, shared)
    client, valid = one(tmp_path), {"codes": np.zeros(N_LINKED, np.int64)}
    with pytest.raises(ValueError, match=r"it holds \['codes'\]"):
        begin(client, valid)
    begin(client, valid, shared)
    message = Message("round", {"round": 1, "session": "one"}, {"codes": np.full(N_LINKED, 3)})
    with pytest.raises(ValueError, match="its codes are not from -1 to 2"):
        client.handle(message)


def test_withdrawn_consent_stops_the_training(tmp_path):
    begin(one(tmp_path), settings=lambda: settings(share_features=True))
    message = Message("round", {"round": 1, "session": "one"})
    with pytest.raises(ValueError, match="asked to send features"):
        one(tmp_path, shares=()).handle(message)


def test_only_later_rounds_up_to_the_last_are_accepted():
    own = client_data()["clinical"]
    state = ClientState(settings(rounds=3).to_json(), CLASSES, list(NAMES), request_round=2)
    for round in (3, 4):  # the one after the last, too
        check_round(own, round, state)
    for round, why in ((-1, "is over"), (2, "is over"), (5, "is past the end"), (10**30, "past")):
        with pytest.raises(ValueError, match=why):
            check_round(own, round, state)


def test_budget_and_table_must_not_change():
    own = client_data()["clinical"]
    state = ClientState(
        {}, CLASSES, list(NAMES), table_fingerprint=own.fingerprint, budget=[8.0, 1e-5]
    )
    check_unchanged(own, [8.0, 1e-5], state)
    for budget in (None, [1.0, 1e-5], [8.0, 1e-6]):
        with pytest.raises(
            ValueError, match=r"with epsilon = 8.0 and delta = 1e-05, but now it is"
        ):
            check_unchanged(own, budget, state)
    with pytest.raises(ValueError, match="but it has changed"):
        check_unchanged(client_data()["imaging"], [8.0, 1e-5], state)


def test_a_label_holder_has_labels():
    own = client_data()
    check_consent(own["genetic"], (), settings(label_holder="genetic"))
    with pytest.raises(ValueError, match="'clinical' to hold the labels"):
        check_consent(own["clinical"], (), settings(label_holder="clinical"))
