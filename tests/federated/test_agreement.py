"""How a training begins."""

import numpy as np
import pytest

from hotview.federated import Failure, Message, Settings
from hotview.federated.agreement import agree

HELLO = {"n_linked": 4, "digest": "d", "has_labels": False}


def exchange(change=None, classes=("a", "b"), codes=None):
    """Two organizations that say what they should, but for a change."""

    def answer(name, message):
        if message.kind == "hello":
            return Message("hello", {**HELLO, "name": name, **(change or {}).get(name, {})})
        if "classes" in message.facts:
            seen.append(message)
            return Message("start", {"name": name})
        arrays = {} if codes is None else {"codes": codes}
        return Message("start", {"classes": list(classes)}, arrays)

    seen = []
    ask = lambda messages: {name: answer(name, m) for name, m in messages.items()}  # noqa: E731
    return ask, seen


def test_everybody_is_told_the_same():
    ask, seen = exchange()
    found = agree(ask, ["x", "y"], Settings(label_holder="y"))
    assert found.n_linked == 4
    assert found.classes == ["a", "b"]
    assert {m.facts["federation"] for m in seen} == {found.federation}
    assert [m.facts["names"] for m in seen] == [["x", "y"]] * 2


def test_no_two_trainings_have_the_same_name():
    ask, _ = exchange()
    names = {agree(ask, ["x", "y"], Settings()).federation for _ in range(5)}
    assert len(names) == 5


@pytest.mark.parametrize(
    ("change", "problem"),
    (
        ({"y": {"digest": "e"}}, "agreed on the same linked ids"),
        ({"y": {"name": "z"}}, "'y' to say hello, but its name is z"),
        ({"x": {"digest": ["d"]}}, "agreed on the same linked ids"),
        ({"x": {"n_linked": 10**12}}, "count their linked ids, but {'x': 1000000000000, 'y': 4}"),
        ({"x": {"n_linked": "four"}, "y": {"n_linked": "four"}}, "count their linked ids"),
    ),
)
def test_disagreement_is_an_error(change, problem):
    ask, _ = exchange(change)
    with pytest.raises(ValueError, match=problem):
        agree(ask, ["x", "y"], Settings())


def test_an_unknown_label_holder_is_refused():
    ask, _ = exchange()
    with pytest.raises(ValueError, match="label_holder among"):
        agree(ask, ["x", "y"], Settings(label_holder="z"))


@pytest.mark.parametrize("classes", ((), ("a",)))
def test_labels_of_one_class_teach_nothing(classes):
    ask, _ = exchange(classes=classes)
    with pytest.raises(ValueError, match="two classes or more"):
        agree(ask, ["x", "y"], Settings(label_holder="y"))


def test_labels_travel_only_where_all_agreed_to_share_them():
    codes = np.zeros(4, dtype=np.int64)
    ask, seen = exchange(codes=codes)
    agree(ask, ["x", "y"], Settings(label_holder="y", propagate_labels=True))
    assert [set(m.arrays) for m in seen] == [{"codes"}] * 2
    with pytest.raises(ValueError, match=r"it holds \['codes'\], and \[\] were asked for"):
        agree(ask, ["x", "y"], Settings(label_holder="y"))
    for wrong in (codes[:3], codes + 2, codes.astype(np.float32), None):
        strange, _ = exchange(codes=wrong)
        with pytest.raises(ValueError, match="no classes of the linked people"):
            agree(strange, ["x", "y"], Settings(label_holder="y", propagate_labels=True))


def test_who_answers_something_else_has_not_begun():
    ask, _ = exchange()

    def strange(messages):
        found = ask(messages)
        begins = any("classes" in m.facts for m in messages.values())
        return {**found, "x": Message("hello", {"name": "x"})} if begins else found

    with pytest.raises(ValueError, match="'x' to begin, but it is about 'hello'"):
        agree(strange, ["x", "y"], Settings())


def test_classes_that_cannot_be_are_refused():
    ask, _ = exchange(classes=("a", "a"))
    with pytest.raises(ValueError, match="'y' to tell the classes, but its classes are not diff"):
        agree(ask, ["x", "y"], Settings(label_holder="y"))


def test_who_is_not_there_is_named():
    ask, _ = exchange()

    def without(messages):
        return {**ask(messages), "x": Failure("no answer in time")}

    with pytest.raises(ValueError, match="'x' to say hello, but no answer in time"):
        agree(without, ["x", "y"], Settings())
