import numpy as np
import pytest

from hotview.federated.messages import Failure
from hotview.federated.messages import Message
from hotview.federated.response_validation import (
    RefusedError,
    check_answer,
    check_classes,
    check_codes,
    check_judgment,
    check_pool,
    check_quantiles,
)

FACTS = {"name": "clinical", "round": 3}
SHAPES = {"quantiles": (2, 4), "scores": (3, 2)}


def arrays(**more):
    return {**{name: np.zeros(shape, np.float32) for name, shape in SHAPES.items()}, **more}


def answer(kind="round", facts=FACTS, **more):
    return Message(kind, dict(facts), arrays(**more))


def test_an_answer_that_fits_is_the_same_answer():
    given = answer(facts={**FACTS, "more": 1})
    assert check_answer(given, "round", FACTS, SHAPES) is given


def bad(name, value):
    x = np.zeros(SHAPES[name], np.float32)
    x[-1, -1] = value
    return {name: x}


@pytest.mark.parametrize(
    ("came", "why"),
    (
        (Failure("it is late"), "it is late"),
        (answer("judge"), "about 'judge', and 'round' was asked for"),
        (answer(facts={**FACTS, "round": 2}), "its round is 2, and 3 was asked for"),
        (answer(facts={"round": 3}), "its name is None, and clinical was asked for"),
        (answer(facts={**FACTS, "name": "x" * 10**6}), r"its name is x{40}, and"),
        (Message("round", FACTS, {"scores": np.zeros((3, 2), np.float32)}), r"it holds \['scores'"),
        (answer(rows=np.zeros(3, np.float32)), r"it holds \['quantiles', 'rows', 'scores'\]"),
        (answer(scores=np.zeros((2, 3), np.float32)), r"its scores are float32 of shape \(2, 3\)"),
        (answer(scores=np.zeros((3, 2), np.int64)), "its scores are int64"),
        (answer(scores=np.zeros((3, 2))), "its scores are float64"),
        (answer(**bad("scores", np.nan)), "its scores are not finite"),
        (answer(**bad("quantiles", -np.inf)), "its quantiles are not finite"),
        (answer(**bad("quantiles", -2e6)), r"its quantiles are as large as 2e\+06"),
    ),
)
def test_what_was_not_asked_for_is_refused(came, why):
    with pytest.raises(RefusedError, match=why):
        check_answer(came, "round", FACTS, SHAPES)


def test_empty_arrays_are_no_trouble():
    given = Message("round", FACTS, {"scores": np.zeros((0, 2), np.float32)})
    check_answer(given, "round", FACTS, {"scores": (0, 2)})


def quantiles(*row):
    return Message("round", {}, {"quantiles": np.array([sorted(row), row], np.float32)})


def test_quantiles_must_ascend():
    check_quantiles(Message("round"))
    check_quantiles(quantiles(-1, 0, 0, 3))
    check_quantiles(quantiles(1, 1 - 1e-6, 1, 3))  # which is rounding
    with pytest.raises(RefusedError, match="not in order"):
        check_quantiles(quantiles(0, 1, 0.9, 3))


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
        with pytest.raises(RefusedError, match="no weights of the views"):
            check_pool(told, ["a", "b"])
    with pytest.raises(RefusedError, match="no weights of the views"):
        check_pool(pool(), ["a", "b", "c"])


@pytest.mark.parametrize(
    "more", ({"loss": 1}, {"loss": -1.0}, {"curvature": 1e300}, {"curvature": None})
)
def test_a_judgment_is_of_numbers_that_can_be(more):
    told = {"loss": 0.5, "curvature": 0.0}
    check_judgment(Message("judge", told))
    with pytest.raises(RefusedError, match=f"its {next(iter(more))} is no number from 0 to 1e"):
        check_judgment(Message("judge", {**told, **more}))


def test_classes_are_different_texts_or_numbers():
    for classes in (["ill", "well"], [0, 1, 2], [False, True], [0.5], []):
        assert check_classes(classes) == classes
    for wrong in (None, "ab", {"a": 1}, ["a", "a"], [1, 1.0], ["a", None], [["a"], ["b"]]):
        with pytest.raises(RefusedError, match="not different texts or numbers"):
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
    check_codes(Message("fuse", {}, {"codes": np.array([2, -1, 0])}), 3, 3)
    with pytest.raises(RefusedError, match="no classes of the linked people"):
        check_codes(Message("fuse", {}, arrays), 3, 3)
