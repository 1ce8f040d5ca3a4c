import json
import pickle
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors.numpy import save

from hotview.federated import messages
from hotview.federated.messages import (
    KINDS,
    Failure,
    InProcessChannel,
    Message,
    check_json,
    to_line,
)

LINE = st.text(st.characters(exclude_categories=("Cc", "Cs", "Zl", "Zp")))
FACTS = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e300, 1e300) | LINE,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(LINE, inner, max_size=3),
    max_leaves=8,
)
ARRAYS = hnp.arrays(
    st.sampled_from((np.float32, np.int64)), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0)
)


def sample():
    arrays = {"quantiles": np.arange(6, dtype=np.float32).reshape(2, 3), "codes": np.array([1, -1])}
    return Message("round", {"round": 3, "names": ["a", "ö"], "is_last": False}, arrays)


def packed(told, arrays=None, **more):
    """Bytes with anything where a message has its facts."""
    return save(arrays or {}, {"hotview": json.dumps(told), **more})


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(KINDS), st.dictionaries(LINE, FACTS), st.dictionaries(LINE, ARRAYS))
def test_a_message_comes_as_it_was_sent(kind, facts, arrays):
    arrays.pop("__metadata__", None)  # which is a word of the format's own
    came = Message.from_bytes(Message(kind, facts, arrays).to_bytes())
    assert (came.kind, came.metadata) == (kind, facts)
    assert set(came.arrays) == set(arrays)
    for name, x in arrays.items():
        assert (came.arrays[name].dtype, came.arrays[name].shape) == (x.dtype, x.shape)
        assert came.arrays[name].tobytes() == x.tobytes()  # to the last bit


def test_the_same_message_is_the_same_bytes():
    one, other = sample(), sample()
    turned = Message(
        "round",
        dict(reversed(other.metadata.items())),
        {name: np.asfortranarray(x) for name, x in reversed(other.arrays.items())},
    )
    assert one.to_bytes() == turned.to_bytes()
    assert one.to_bytes() != Message("round", {**one.metadata, "round": 4}, one.arrays).to_bytes()


@pytest.mark.parametrize("dtype", ("float64", "int32", "uint8", "float16", ">f4", "object"))
def test_other_types_are_neither_sent_nor_taken(dtype):
    x = np.zeros(2).astype(dtype)
    with pytest.raises(ValueError, match=f"it holds arrays of .*{dtype}.*not of float32 or int64"):
        Message("round", {}, {"x": x})
    if dtype not in (">f4", "object"):  # which the format lacks
        with pytest.raises(ValueError, match=f"it holds arrays of .*{dtype}"):
            Message.from_bytes(packed({"version": 3, "kind": "round", "metadata": {}}, {"x": x}))


@pytest.mark.parametrize("number", ("NaN", "-Infinity", "1e999"))
def test_facts_that_are_no_numbers_are_neither_sent_nor_taken(number):
    with pytest.raises(ValueError, match="JSON"):
        Message("round", {"x": float(number)}).to_bytes()
    text = '{"version": 3, "kind": "label_loss", "metadata": {"curvature": %s}}'
    Message.from_bytes(save({}, {"hotview": text % "0.25"}))
    with pytest.raises(ValueError, match="it is no message"):
        Message.from_bytes(save({}, {"hotview": text % number}))


@pytest.mark.parametrize(
    "told",
    (
        {"version": 3, "kind": "steal", "metadata": {}},
        {"version": 3, "kind": "round", "metadata": [1]},
        {"version": 2, "kind": "round", "metadata": {}},
        ["version", "kind", "metadata"],
        None,
    ),
)
def test_facts_of_another_form_are_refused(told):
    problem = r"it (is (no message|of no known kind)|has version 2 .* same release of hotview)"
    with pytest.raises(ValueError, match=problem):
        Message.from_bytes(packed(told))


@pytest.mark.parametrize("text", ("\ud800", "two\nlines", "\x1b[31m", "\u2028", "x" * 1001))
def test_texts_that_are_no_line_are_refused(text):
    for metadata in ({text: 1}, {"a": [{"b": text}]}):
        given = packed({"version": 3, "kind": "hello", "metadata": metadata})
        with pytest.raises(ValueError, match="it holds a text that is no line"):
            Message.from_bytes(given)
    with pytest.raises(ValueError, match="it holds a text that is no line"):
        Message("round", {}, {text: np.zeros(1, np.float32)})
    check_json(["ä" * 1000, "a\u00a0b"])
    assert to_line(f"a {text}").isprintable()
    assert len(Failure(text).reason) <= 300


def test_values_that_are_nested_deeply_are_refused():
    nested = [[[[[[[[1]]]]]]]]
    Message.from_bytes(Message("hello", {"x": nested}).to_bytes())
    with pytest.raises(ValueError, match="more than 10 lists inside each other"):
        Message("hello", {"x": [nested]})


class Explode:
    """What a pickle would run."""

    def __reduce__(self):
        return (pytest.fail, ("it was unpickled",))


def garbage():
    whole = sample().to_bytes()
    n = int.from_bytes(whole[:8], "little")
    yield "a length beyond the end", struct.pack("<Q", 2**40) + whole[8:]
    yield "a header without end", struct.pack("<Q", n - 3) + whole[8:]
    yield "no length", struct.pack("<Q", 0) + whole[8:]
    yield "text", b"hello, here are my quantiles: 1, 2, 3"
    yield "a pickle", pickle.dumps(Explode())
    yield "a pickle as arrays", packed({}, {"x": np.frombuffer(pickle.dumps(Explode()), np.uint8)})
    yield "nested", struct.pack("<Q", 200_000) + b"[" * 200_000
    yield "a list", struct.pack("<Q", 8) + b"[1,2,3] "
    yield "another's tensors", save({"x": np.zeros(2, np.float32)})
    yield "more at the end", whole + b"\0"
    yield "not unicode", whole[:8] + b"\xff" + whole[9:]
    yield from ((f"the first {i} bytes", whole[:i]) for i in range(len(whole)))


def test_garbage_is_refused():
    for what, data in garbage():
        with pytest.raises(ValueError, match="it is no message"):
            pytest.fail(f"{what}: {Message.from_bytes(data)}")


@settings(deadline=None)
@given(st.data())
def test_a_damaged_message_is_refused_or_still_one(data):
    whole = bytearray(sample().to_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    try:
        came = Message.from_bytes(bytes(whole))
    except ValueError:
        return
    assert came.kind in KINDS
    assert isinstance(came.metadata, dict)


def test_what_takes_much_memory_is_refused_unread(monkeypatch):
    long = packed({"version": 3, "kind": "round", "metadata": {"x": "x" * 2**20}})
    whole = sample().to_bytes()
    monkeypatch.setattr(messages, "_MAX_BYTES", len(whole))
    Message.from_bytes(whole)
    monkeypatch.setattr(messages, "load", lambda data: pytest.fail("it was read"))
    for data in (long, whole + b"\0"):
        with pytest.raises(ValueError, match="it is no message"):
            Message.from_bytes(data)


class Echo:
    """Answers with what came, and remembers it."""

    def handle(self, message):
        self.came = message
        return message


class Broken:
    def __init__(self, error):
        self.error = error

    def handle(self, message):
        raise self.error


def test_nothing_passes_but_bytes():
    echo, x = Echo(), np.zeros(3, np.float32)
    sent = Message("round", {"list": [1]}, {"x": x})
    back = InProcessChannel({"a": echo}).exchange({"a": sent}, 1)["a"]
    echo.came.arrays["x"][:] = 1
    echo.came.metadata["list"].append(2)
    assert x.tolist() == [0, 0, 0]
    assert sent.metadata == {"list": [1]}
    assert back.arrays["x"].tolist() == [0, 0, 0]


def test_an_error_over_there_is_a_failure_here_and_an_interrupt_is_none():
    clients = {"a": Broken(OSError("no space left")), "b": Echo()}
    messages = {name: Message("hello") for name in ("a", "b", "absent")}
    answers = InProcessChannel(clients).exchange(messages, 1)
    assert isinstance(answers["absent"], Failure)
    assert answers["a"] == Failure("OSError: no space left")
    assert answers["b"].kind == "hello"
    with pytest.raises(KeyboardInterrupt):
        InProcessChannel({"a": Broken(KeyboardInterrupt())}).exchange({"a": Message("hello")}, 1)
