"""What crosses is checked where it arrives."""

from dataclasses import replace

import numpy as np
import pytest
from message_mutations import mutated
from small_federation import CLASSES, HOLDER, organizations, session_of, settings, train

from hotview.federated import Message
from hotview.federated.messages import KINDS
from hotview.federated.schema import (
    Session,
    check_names,
    check_request,
    check_response,
    check_server_update,
    read_request,
)


def record(folder, **more):
    """Settings and session of a training, and its requests and responses by name."""
    given = settings(**more)
    _, channel = train(organizations(folder), given)
    session = session_of(given, CLASSES, id=channel.to("clinical")[-1][0].metadata["session"])
    return session, [(n, *map(Message.from_bytes, both)) for n, *both in channel.crossed]


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    return record(tmp_path_factory.mktemp("plain"))


@pytest.fixture(scope="module", params=("plain", "features", "labels"))
def recorded(request, plain, tmp_path_factory):
    if request.param == "plain":
        return plain
    more = {"share_features": True, "coupling": "hot-pairwise"}
    more = more if request.param == "features" else {"share_labels": True}
    return record(tmp_path_factory.mktemp("recorded"), **more)


def check_as_client(message, session):
    request = read_request(message)
    if message.kind == "start":
        Session(request.session, request.settings, request.names, request.classes, 0)
    if message.kind not in ("hello", "classes"):
        check_request(message, session)


def check(changed, message, name, request, session):
    """Check what came in place of a request or of the response to it."""
    if message is not request:
        return check_response(changed, request, name, session)
    return check_as_client(changed, session)


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_changed_passes_or_is_a_value_error(recorded, seed):
    session, pairs = recorded
    random, refused = np.random.default_rng(seed), 0
    for name, request, response in pairs * 4:
        for message in (request, response):
            try:
                check(mutated(message, random), message, name, request, session)
            except ValueError:
                refused += 1
    assert refused > 4 * len(pairs)  # of 8


def test_what_crosses_passes_and_metadata_that_is_unknown_or_missing_is_refused(recorded):
    session, pairs = recorded
    optional = {"update_round", "curvatures", "plan", "pool", "head", "privacy"}
    assert {request.kind for _, request, _ in pairs} >= {*KINDS} - {"label_loss", "head"}
    for name, request, response in pairs:
        assert check_response(response, request, name, session) is response
        for m in (request, response):
            about = (m, name, request, session)
            check(m, *about)
            with pytest.raises(ValueError, match="unexpected 'more'"):
                check(replace(m, metadata={**m.metadata, "more": 1}), *about)
            for key in m.metadata.keys() - optional:
                some = {k: v for k, v in m.metadata.items() if k != key}
                with pytest.raises(ValueError, match=r"it lacks|cannot be None|unexpected|no weig"):
                    check(replace(m, metadata=some), *about)


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    (
        ("finish", {"plan": {}}, "it lacks 'plan."),
        ("finish", {"plan": {"names": ["clinical"], "W": [[1.0]], "C": [[0.0]]}}, "its plan is"),
        ("finish", {"trained_on": 3}, "unexpected 'trained_on'"),
        ("finish", {"head": ["clinical"]}, "'bias', 'references', 'weight'"),
        ("round", {"curvatures": {"scores": -1.0}}, "its curvatures do not fit"),
        ("label_loss", {"names": ["clinical", "clinical"]}, "its names cannot be"),
        ("label_loss", {"round": 4}, "there is no round 4"),
        ("fusion", {"is_last": True}, "unexpected 'is_last'"),
    ),
)
def test_requests_that_no_honest_server_sends_are_refused(plain, kind, changes, problem):
    session, pairs = plain
    found = [request for name, request, _ in pairs if name == HOLDER and request.kind == kind]
    message = found[1 if kind == "round" else -1]  # a round that has gradients
    with pytest.raises(ValueError, match=problem):
        check_as_client(replace(message, metadata={**message.metadata, **changes}), session)


def test_gradients_are_of_what_was_sent():
    session = session_of(classes=CLASSES)
    metadata = {"session": "id", "round": 2, "update_round": 1}
    references = {"references": np.zeros((2, 8, 3), np.float32)}
    for name, shape in (("quantiles", (4, 8)), ("rows", (3,)), ("scores", (3, 3))):
        arrays = {**references, f"gradient.{name}": np.zeros(shape, np.float32)}
        message = Message("round", {**metadata, "curvatures": {name: 0.1}}, arrays)
        with pytest.raises(ValueError, match=r"it holds|gradient.scores are float32"):
            check_request(message, session)
    with pytest.raises(ValueError, match=r"and \['references'\] were asked for"):
        check_request(Message("round", metadata), session)
    weights = {**references, "weights": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match="its weights are float32 of shape"):
        check_request(Message("round", metadata, weights), session)


def reply(curvatures=(), **arrays):
    arrays = {k: np.asarray(x, np.float32) for k, x in arrays.items()}
    return Message("round", {"update_round": 1, "curvatures": dict(curvatures)}, arrays)


#: largest honest gradients and curvatures: one wrong row, far quantiles, moments of three views
WRONG_ROW = np.r_[[[1.0, -1, 0]], np.zeros((4, 3))]
PAIRWISE = {"coupling": "hot-pairwise", "orthogonality_weight": 0.5}
LARGEST = (
    ({}, "scores", WRONG_ROW, 0.25),
    ({"head_weight": 3.0}, "scores", 3 * WRONG_ROW, 0.75),
    (PAIRWISE, "quantiles", np.full((4, 8), 0.1 * 2 * 2e6 / 32), 0.1 / 32),
    (PAIRWISE, "moment", 0.1 * 0.5 * 2 * np.full((3, 3), 3e6), 0.1 * 0.5 * 3),
)


@pytest.mark.parametrize(("more", "name", "gradient", "curvature"), LARGEST)
def test_gradients_are_bounded_by_those_of_honest_servers(more, name, gradient, curvature):
    given, key = settings(**more), f"gradient.{name}"
    check_server_update(reply({name: curvature}, **{key: gradient}), given, 3)
    for wrong in (
        reply({name: curvature}, **{key: 10 * gradient}),
        reply({name: 1.01 * curvature}, **{key: gradient}),
        reply({name: -curvature}, **{key: gradient}),
        reply({name: float("nan")}, **{key: gradient}),
    ):
        with pytest.raises(
            ValueError, match=f"its gradient of {name}, or its curvature, is larger"
        ):
            check_server_update(wrong, given, 3)


def test_references_and_weights_are_bounded():
    G, given = np.full((2, 8, 3), 10.0), settings()
    for weights in ([0.5, 0.5], [0.0, 1.0], [0.0, 0.0]):
        check_server_update(reply(references=G, weights=weights), given, 3)
    for weights in ([0.6, 0.5], [-0.1, 0.2]):
        with pytest.raises(ValueError, match="no row of a plan"):
            check_server_update(reply(references=G, weights=weights), given, 3)
    for wrong in (10 * G, -10 * G):
        with pytest.raises(ValueError, match="farther than any can be"):
            check_server_update(reply(references=wrong), given, 3)
    check_server_update(reply(references=10 * G), settings(learning_rate=0.03), 3)


def test_classes_are_different_texts_or_numbers():
    for classes in (["ill", "well"], [0, 1, 2], [False, True], [-0.5, 2.5], []):
        assert session_of(None, classes).classes == classes
    wrong = (["a", "a"], ["a", None], [["a"], ["b"]], ["a", 1], [1, 10**400], [0.0, float("nan")])
    unsorted = (["b", "a"], [2, 1], [True, False])
    for classes in (*wrong, *unsorted, [1, 2.5], [False, 2], [2**62, 2**62 + 0.5]):
        with pytest.raises(ValueError, match="not distinct texts or numbers"):
            session_of(None, classes)
    for n_linked, classes, problem in (
        (4, ["a"], "two classes or more"),
        (4, ["a", "a\0"], "a text that is no line"),
        (4, list(range(1001)), "1001 classes, more than 1000"),
        (2 * 10**9, [], "2000000000 linked rows, more than"),
    ):
        with pytest.raises(ValueError, match=problem):
            session_of(None, classes, n_linked)


def test_names_are_names_of_views():
    check_names(["clinical", "st. mary's"])
    for names in ([""], [3], ["a\nb"], ["\ud800"], ["x" * 2000]):
        with pytest.raises(ValueError, match="Expected names of organizations, but there is"):
            check_names(names)
    with pytest.raises(ValueError, match="distinct names"):
        check_names(["a", "a"])
    with pytest.raises(ValueError, match="at most 1000 names"):
        check_names([str(i) for i in range(1001)])
