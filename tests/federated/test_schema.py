import numpy as np
import pytest
from hotview.federated.response_validation import (
    InvalidResponseError,
    check_classes,
    check_codes,
    check_label_loss,
    check_pool,
    check_response,
    check_update,
)

from hotview.federated.messages import Failure, Message
from hotview.federated.server_state import Session
from hotview.federated.settings import Settings

FACTS = {"name": "clinical", "round": 3}
SHAPES = {"quantiles": (2, 4), "scores": (3, 2)}


def arrays(**more):
    return {**{name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}, **more}


def response(kind="round", facts=FACTS, **more):
    return Message(kind, dict(facts), arrays(**more))


def test_an_answer_that_fits_is_the_same_response():
    given = response(facts={**FACTS, "more": 1})
    assert check_response(given, "round", FACTS, SHAPES) is given


def bad(name, value):
    x = np.zeros(SHAPES[name], np.float32)
    x[-1, -1] = value
    return {name: x}


@pytest.mark.parametrize(
    ("came", "why"),
    (
        (Failure("it is late"), "it is late"),
        (response("label_loss"), "kind is 'label_loss', and 'round' was asked for"),
        (response(facts={**FACTS, "round": 2}), "its round is 2, and 3 was asked for"),
        (response(facts={"round": 3}), "its name is None, and clinical was asked for"),
        (response(facts={**FACTS, "name": "x" * 10**6}), r"its name is x{40}, and"),
        (Message("round", FACTS, {"scores": np.zeros((3, 2), np.float32)}), r"it holds \['scores'"),
        (response(rows=np.zeros(3, np.float32)), r"it holds \['quantiles', 'rows', 'scores'\]"),
        (
            response(scores=np.zeros((2, 3), np.float32)),
            r"its scores are float32 of shape \(2, 3\)",
        ),
        (response(scores=np.zeros((3, 2), np.int64)), "its scores are int64"),
        (response(scores=np.zeros((3, 2))), "its scores are float64"),
        (response(**bad("scores", np.nan)), "its scores are not finite"),
        (response(**bad("quantiles", -np.inf)), "its quantiles are not finite"),
        (response(**bad("quantiles", -2e6)), r"its quantiles are as large as 2e\+06"),
    ),
)
def test_what_was_not_asked_for_is_refused(came, why):
    with pytest.raises(InvalidResponseError, match=why):
        check_response(came, "round", FACTS, SHAPES)


def test_empty_arrays_are_no_trouble():
    given = Message("round", FACTS, {"scores": np.zeros((0, 2), np.float32)})
    check_response(given, "round", FACTS, {"scores": (0, 2)})


SETTINGS = Settings(n_projections=2, quantiles=4)


def update(*row, privacy=None):
    """An update whose second direction has the quantiles `row`."""
    metadata = {"name": "clinical", "round": 3, "privacy": privacy}
    return Message("round", metadata, {"quantiles": np.array([sorted(row), row], np.float32)})


def check(message):
    return check_update(message, "clinical", 3, SETTINGS, Session("id", 0, []))


def test_quantiles_must_ascend():
    check(update(-1, 0, 0, 3))
    check(update(1, 1 - 1e-6, 1, 3))  # which is rounding
    with pytest.raises(InvalidResponseError, match="not in order"):
        check(update(0, 1, 0.9, 3))


@pytest.mark.parametrize("privacy", ("8", [8.0], {"epsilon": 8.0}, {"epsilon": 8.0, "delta": 1}))
def test_privacy_is_an_epsilon_and_a_delta(privacy):
    check(update(0, 1, 2, 3, privacy={"epsilon": 8.0, "delta": 1e-5}))
    with pytest.raises(InvalidResponseError, match="not an epsilon and a delta"):
        check(update(0, 1, 2, 3, privacy=privacy))


def pool(**more):
    told = {"names": ["a", "b"], "complete": [1.0, 0.5, 0.2], "partial": [1.0, 2.0], "power": 0.7}
    return {**told, **more}


def test_weights_of_views_are_numbers_and_as_many_as_there_are_views():
    check_pool(pool(), ["a", "b"])
    wrong = (
        None,
        [],
        {},
        pool(power=None),
        pool(power=float("nan")),
        pool(partial=[1.0]),
        pool(partial=["a", "b"]),
        pool(complete=[1.0, 2.0]),
        pool(names=["a"]),
        pool(complete=[1.0, 2.0, [3.0]]),
        pool(partial=["1", "2"]),
        pool(complete="123"),
        pool(power=10**400),
        pool(names=["a", "c"]),
        pool(more="x" * 10**5),
    )
    for told in wrong:
        with pytest.raises(InvalidResponseError, match="no weights of the views"):
            check_pool(told, ["a", "b"])
    with pytest.raises(InvalidResponseError, match="no weights of the views"):
        check_pool(pool(), ["a", "b", "c"])


@pytest.mark.parametrize(
    "more", ({"loss": 1}, {"loss": -1.0}, {"curvature": 1e300}, {"curvature": None})
)
def test_loss_and_curvature_are_finite_numbers(more):
    told = {"loss": 0.5, "curvature": 0.0}
    check_label_loss(Message("label_loss", told))
    with pytest.raises(
        InvalidResponseError, match=f"its {next(iter(more))} is no number from 0 to 1e"
    ):
        check_label_loss(Message("label_loss", {**told, **more}))


def test_classes_are_different_texts_or_numbers():
    for classes in (["ill", "well"], [0, 1, 2], [False, True], [0.5], []):
        assert check_classes(classes) == classes
    for wrong in (None, "ab", {"a": 1}, ["a", "a"], [1, 1.0], ["a", None], [["a"], ["b"]]):
        with pytest.raises(InvalidResponseError, match="not distinct texts or numbers"):
            check_classes(wrong)


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
    check_codes({"codes": np.array([2, -1, 0])}, 3, 3)
    with pytest.raises(InvalidResponseError, match="no valid classes of the linked rows"):
        check_codes(arrays, 3, 3)
