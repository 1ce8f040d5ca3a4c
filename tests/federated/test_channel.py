import numpy as np
import pytest

from hotview.federated.channel import Failure, InProcess
from hotview.federated.messages import Message


class Echo:
    """Answers with what came, and remembers it."""

    def answer(self, message):
        self.came = message
        return message


class Broken:
    def answer(self, message):
        raise OSError("no space left")


class Speechless:
    def answer(self, message):
        return Message("round", {}, {"x": np.zeros(2)})  # of a type that cannot be sent


class Wordless:
    def answer(self, message):
        return None


def test_everybody_gets_its_own_message():
    carrier = InProcess({"a": Echo(), "b": Echo()})
    assert carrier.names == ["a", "b"]
    answers = carrier.exchange({n: Message("hello", {"to": n}) for n in ("b", "a")}, timeout=1)
    assert {name: answer.facts["to"] for name, answer in answers.items()} == {"a": "a", "b": "b"}


def test_some_may_be_asked_alone():
    assert set(InProcess({"a": Echo(), "b": Echo()}).exchange({"b": Message("hello")}, 1)) == {"b"}


def test_nothing_passes_but_bytes():
    echo, x = Echo(), np.zeros(3, np.float32)
    sent = Message("round", {"list": [1]}, {"x": x})
    back = InProcess({"a": echo}).exchange({"a": sent}, 1)["a"]
    echo.came.arrays["x"][:] = 1
    echo.came.facts["list"].append(2)
    assert x.tolist() == [0, 0, 0]
    assert sent.facts == {"list": [1]}
    assert back.arrays["x"].tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("who", "reason"),
    (
        (Broken(), "OSError: no space left"),
        (Speechless(), "TypeError: Expected arrays of"),
        (Wordless(), "AttributeError: "),
    ),
)
def test_an_error_over_there_is_a_failure_here(who, reason):
    answers = InProcess({"a": who, "b": Echo()}).exchange(
        {"a": Message("hello"), "b": Message("hello")}, 1
    )
    assert isinstance(answers["a"], Failure)
    assert answers["a"].reason.startswith(reason)
    assert answers["b"].kind == "hello"


def test_who_is_not_there_fails():
    (answer,) = InProcess({}).exchange({"a": Message("hello")}, 1).values()
    assert isinstance(answer, Failure)


def test_an_interrupt_is_no_failure():
    class Interrupted:
        def answer(self, message):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        InProcess({"a": Interrupted()}).exchange({"a": Message("hello")}, 1)
