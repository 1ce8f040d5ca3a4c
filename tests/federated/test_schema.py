"""What crosses is checked where it arrives."""

from dataclasses import replace

import numpy as np
import pytest
from message_mutations import mutated
from small_federation import CLASSES, HOLDER, N_LINKED, NAMES, organizations, settings, train

from hotview.federated import Failure, Message, Settings
from hotview.federated.schema import (
    check_request,
    check_response,
    check_server_update,
    check_training_request,
)
from hotview.federated.session import Session

SESSION, NOBODY = Session("id", N_LINKED, CLASSES), Session("id", 0, [])
GIVEN = Settings(n_projections=2, quantiles=4)
REQUEST = Message("round", {"round": 3, "session": "id"})
METADATA = {"name": "clinical", "round": 3}


def record(folder, **more):
    """Settings and session of a training, and its requests and responses by name."""
    given = settings(**more)
    _, channel = train(organizations(folder), given)
    session = Session(channel.to("clinical")[-1][0].metadata["session"], N_LINKED, CLASSES)
    return given, session, [(n, *map(Message.from_bytes, both)) for n, *both in channel.crossed]


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


def check(response, request=REQUEST, given=GIVEN, session=NOBODY):
    return check_response(response, request, "clinical", given, session)


def check_as_client(message, given, session):
    check_request(message, session.n_linked)
    if message.kind not in ("hello", "start"):
        check_training_request(message, given, session, NAMES)


def test_what_crosses_in_a_training_passes(recorded):
    given, session, pairs = recorded
    kinds = set()
    for name, request, response in pairs:
        check_as_client(request, given, session)
        assert check_response(response, request, name, given, session) is response
        kinds.add(request.kind)
    assert {"hello", "start", "round", "fusion", "finish"} <= kinds


@pytest.mark.parametrize("seed", range(4))
def test_whatever_is_changed_passes_or_is_a_value_error(recorded, seed):
    given, session, pairs = recorded
    random, refused = np.random.default_rng(seed), 0
    for name, request, response in pairs * 4:
        for message, checked in (
            (request, lambda m: check_as_client(m, given, session)),
            (
                response,
                lambda m, r=request, n=name: check_response(m, r, n, given, session),
            ),
        ):
            try:
                checked(mutated(message, random))
            except ValueError:
                refused += 1
    assert refused > 4 * len(pairs)  # of 8


@pytest.mark.parametrize("kind", ("hello", "start", "round", "label_loss", "fusion", "finish"))
def test_metadata_that_is_unknown_or_missing_is_refused(recorded, kind):
    given, session, pairs = recorded
    optional = {"update_round", "curvatures", "plan", "pool", "head", "privacy", "model_format"}
    for name, request, response in pairs:
        if request.kind != kind:
            continue
        for m in (request, response):

            def passes(metadata, m=m, name=name, request=request):
                changed = replace(m, metadata=metadata)
                if m is request:
                    check_as_client(changed, given, session)
                else:
                    check_response(changed, request, name, given, session)

            passes(m.metadata)
            with pytest.raises(ValueError, match="unexpected 'more'"):
                passes({**m.metadata, "more": 1})
            for key in m.metadata.keys() - optional:
                with pytest.raises(ValueError, match=r"it lacks|cannot be None|unexpected|no weig"):
                    passes({k: v for k, v in m.metadata.items() if k != key})


# the server's side


def update(*row, **more):
    """An update whose second direction has the quantiles `row`."""
    arrays = {"quantiles": np.array([sorted(row), row], np.float32)}
    return Message("round", {**METADATA, **more}, arrays)


def with_arrays(**arrays):
    return Message("round", METADATA, {"quantiles": np.zeros((2, 4), np.float32), **arrays})


def bad(value):
    x = np.zeros((2, 4), np.float32)
    x[-1, -1] = value
    return x


@pytest.mark.parametrize(
    ("came", "why"),
    (
        (Failure("it is late"), "it is late"),
        (Message("label_loss"), "kind is 'label_loss', and 'round' was asked for"),
        (update(1, 2, 3, 4, round=2), "its round is 2, and 3 was asked for"),
        (update(1, 2, 3, 4, round=True), "its 'round' cannot be True"),
        (update(1, 2, 3, 4, name=None), "its 'name' cannot be None"),
        (update(1, 2, 3, 4, name="x" * 10**6), r"its name is 'x{99}…, and 'clinical' was"),
        (Message("round", METADATA), r"it holds \[\], and \['quantiles'\]"),
        (with_arrays(rows=np.zeros(3, np.float32)), r"it holds \['quantiles', 'rows'\]"),
        (with_arrays(quantiles=np.zeros((4, 2), np.float32)), r"float32 of shape \(4, 2\)"),
        (with_arrays(quantiles=np.zeros((2, 4), np.int64)), "its quantiles are int64"),
        (with_arrays(quantiles=np.zeros((2, 4))), "its quantiles are float64"),
        (with_arrays(quantiles=bad(np.nan)), "its quantiles are not finite"),
        (with_arrays(quantiles=bad(-np.inf)), "its quantiles are not finite"),
        (with_arrays(quantiles=bad(2e6)), r"its quantiles are not from -1e\+06 to 1e\+06"),
    ),
)
def test_what_was_not_asked_for_is_refused(came, why):
    with pytest.raises(ValueError, match=why):
        check(came)


def test_quantiles_must_ascend():
    check(update(-1, 0, 0, 3))
    check(update(1, 1 - 1e-6, 1, 3))  # which is rounding
    with pytest.raises(ValueError, match="not in order"):
        check(update(0, 1, 0.9, 3))


@pytest.mark.parametrize(
    "privacy",
    ("8", [8.0], {"epsilon": 8.0}, {"epsilon": 8.0, "delta": "1"}, {"epsilon": -1.0, "delta": 0.1}),
)
def test_privacy_is_an_epsilon_and_a_delta(privacy):
    check(update(0, 1, 2, 3, privacy={"epsilon": 8.0, "delta": 1e-5}))
    with pytest.raises(ValueError, match=r"its 'privacy|it lacks 'privacy.delta'|its privacy"):
        check(update(0, 1, 2, 3, privacy=privacy))


@pytest.mark.parametrize(
    "more", ({"loss": "1"}, {"loss": -1.0}, {"curvature": 1e300}, {"curvature": None})
)
def test_loss_and_curvature_are_finite_numbers(more):
    request = Message("label_loss", {"round": 3, "names": [], "session": "id"})
    told = {"round": 3, "loss": 0.5, "curvature": 0.0}
    check(Message("label_loss", told), request)
    with pytest.raises(ValueError, match=r"cannot be|from 0 to 1e\+06"):
        check(Message("label_loss", {**told, **more}), request)


def test_a_pool_is_of_the_views_that_were_asked_for():
    request = Message("fusion", {"names": ["a", "b"], "session": "id", "is_last": False})
    pool = {"names": ["a", "b"], "complete": [1.0, 0.5, 0.2], "partial": [1.0, 2.0], "power": 0.7}
    check(Message("fusion", {"pool": pool}), request)
    for wrong in (None, [], {}, {**pool, "names": ["b", "a"]}, {**pool, "power": 10**400}):
        with pytest.raises(ValueError, match=r"its 'pool|it lacks|weights of the views"):
            check(Message("fusion", {"pool": wrong}), request)


@pytest.mark.parametrize(
    "arrays",
    (
        {},
        {"codes": np.array([0, 1, 3])},
        {"codes": np.array([0, 1, -2])},
        {"codes": np.array([0, 1])},
        {"codes": np.array([0, 1, 2], np.float32)},
        {"codes": np.array([0, 1, 2]), "more": np.zeros(3, np.float32)},
        {"labels": np.array([0, 1, 2])},
    ),
)
def test_shared_classes_are_classes_of_everybody_linked(arrays):
    given, session = Settings(label_holder="clinical", share_labels=True), Session("", 3, [])
    request, told = Message("start", {"settings": given.to_json()}), {"classes": CLASSES}
    codes = {"codes": np.array([2, -1, 0])}
    check(Message("start", told, codes), request, given, session)
    with pytest.raises(ValueError, match=r"it holds|its codes are"):
        check(Message("start", told, arrays), request, given, session)


def test_a_list_of_linked_rows_has_a_bounded_length():
    with pytest.raises(ValueError, match="it has 2000000000 linked rows, more than"):
        check(
            Message("hello", {"name": "clinical", "n_linked": 2 * 10**9, "digest": "d"}),
            Message("hello"),
        )


# the client's side


@pytest.mark.parametrize(
    ("kind", "changes", "problem"),
    (
        ("finish", {"plan": {}}, "it lacks 'plan."),
        ("finish", {"pool": {}}, "it lacks 'pool."),
        ("finish", {"plan": {"names": ["clinical"], "W": [[1.0]], "C": [[0.0]]}}, "its plan is"),
        ("finish", {"recipe": {}}, "unexpected 'recipe'"),
        ("finish", {"trained_on": 3}, "unexpected 'trained_on'"),
        ("finish", {"head": ["clinical"]}, "'bias', 'references', 'weight'"),
        ("round", {"curvatures": {"scores": -1.0}}, "its curvatures do not fit"),
        ("round", {"curvatures": {"rows": 1.0}}, "its curvatures do not fit"),
        ("round", {"curvatures": None}, "its curvatures do not fit"),
        ("label_loss", {"names": ["clinical", "clinical"]}, "its names cannot be"),
        ("label_loss", {"names": ["stranger"]}, "its names cannot be"),
        ("label_loss", {"round": 4}, "there is no round 4"),
        ("fusion", {"is_last": 1}, "its 'is_last' cannot be 1"),
    ),
)
def test_requests_that_no_honest_server_sends_are_refused(plain, kind, changes, problem):
    given, session, pairs = plain
    found = [request for name, request, _ in pairs if name == HOLDER and request.kind == kind]
    message = found[1 if kind == "round" else -1]  # a round that has gradients
    check_as_client(message, given, session)
    with pytest.raises(ValueError, match=problem):
        check_as_client(replace(message, metadata={**message.metadata, **changes}), given, session)


def test_gradients_are_of_what_was_sent():
    given = settings()
    metadata = {"session": "id", "round": 2, "update_round": 1}
    references = {"references": np.zeros((2, 8, 3), np.float32)}
    for name, shape in (("quantiles", (4, 8)), ("rows", (3,)), ("scores", (3, 3))):
        arrays = {**references, f"gradient.{name}": np.zeros(shape, np.float32)}
        message = Message("round", {**metadata, "curvatures": {name: 0.1}}, arrays)
        with pytest.raises(ValueError, match=r"it holds|gradient.scores are float32"):
            check_training_request(message, given, SESSION, NAMES)
    with pytest.raises(ValueError, match=r"and \['references'\] were asked for"):
        check_training_request(Message("round", metadata), given, SESSION, NAMES)
    weights = {**references, "weights": np.zeros(3, np.float32)}
    with pytest.raises(ValueError, match="its weights are float32 of shape"):
        check_training_request(Message("round", metadata, weights), given, SESSION, NAMES)


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


def test_gradients_of_a_round_are_bounded(plain):
    given, session, pairs = plain
    message = next(request for _, request, _ in pairs if "gradient.scores" in request.arrays)
    arrays = {**message.arrays, "gradient.scores": message.arrays["gradient.scores"] + 1e5}
    with pytest.raises(ValueError, match="its gradient of scores"):
        check_training_request(replace(message, arrays=arrays), given, session, NAMES)
