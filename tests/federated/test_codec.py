import flwr.app
import numpy as np
import pytest
from flwr.app import ConfigRecord, Error, RecordDict

from hotview.federated import Failure, Message
from hotview.federated.codec import pack, read_name, read_reply, tell_name, unpack


@pytest.fixture
def asked(in_a_run):
    return flwr.app.Message(RecordDict(), 7, "train")


def reply(asked, content):
    return flwr.app.Message(content, reply_to=asked)


def test_what_is_packed_comes_out_again():
    sent = Message("round", {"round": 2}, {"quantiles": np.arange(6, dtype=np.float32)})
    name, came = unpack(pack(sent, "clinical"))
    assert (name, came.kind, came.facts) == ("clinical", "round", {"round": 2})
    np.testing.assert_array_equal(came.arrays["quantiles"], sent.arrays["quantiles"])


def test_it_is_one_value_of_bytes_and_a_name():
    record = pack(Message("hello"), "clinical")["hotview"]
    assert dict(record) == {"name": "clinical", "message": Message("hello").to_bytes()}


@pytest.mark.parametrize(
    "record",
    (
        {},
        {"name": "clinical"},
        {"name": "clinical", "message": "text"},
        {"name": 3, "message": b""},
        {"name": "clinical", "message": b"\x80\x04garbage"},
        {"name": "clinical", "message": Message("hello").to_bytes()[:-3]},
    ),
)
def test_what_is_no_message_is_garbage(asked, record):
    answer = read_reply(reply(asked, RecordDict({"hotview": ConfigRecord(record)})), "clinical")
    assert isinstance(answer, Failure)
    assert answer.reason.startswith("garbage: ")


def test_other_records_are_garbage(asked):
    for content in (RecordDict(), RecordDict({"hotview": flwr.app.MetricRecord({"a": 1.0})})):
        assert read_reply(reply(asked, content), "clinical").reason.startswith("garbage")


def test_an_answer_in_the_name_of_another_is_garbage(asked):
    answer = read_reply(reply(asked, pack(Message("hello"), "genetic")), "clinical")
    assert answer == Failure("garbage: it calls itself 'genetic'")


def test_a_reply_that_cannot_be_read_is_garbage():
    assert read_reply(KeyError("x"), "clinical") == Failure("garbage: KeyError")


@pytest.mark.parametrize(
    ("code", "reason", "start"),
    (
        (2, "<class 'RuntimeError'>:<'ValueError: the log has it'>", "an error over there: Value"),
        (0, None, "an error over there: Flower's error 0"),
        (3, "…", "late"),
        (5, "…", "gone"),
        (8, "…", "gone"),
    ),
)
def test_errors_of_flower_are_told_in_words(asked, code, reason, start):
    failure = read_reply(flwr.app.Message(Error(code, reason), reply_to=asked), "clinical")
    assert failure.reason.startswith(start)


def test_what_others_write_cannot_forge_the_log(asked):
    error = Error(2, "x\n2026 round 3 went well\x1b[2J" + "y" * 5000)
    text = read_reply(flwr.app.Message(error, reply_to=asked), "clinical").reason
    assert "\n" not in text
    assert "\x1b" not in text
    assert len(text) < 400


def test_nodes_say_who_they_are(asked):
    assert read_name(reply(asked, tell_name("clinical"))) == "clinical"


def test_nodes_that_do_not_say_have_no_name(asked):
    number = RecordDict({"hotview": ConfigRecord({"name": 3})})
    error = flwr.app.Message(Error(2, "no"), reply_to=asked)
    replies = (None, ValueError(), error, reply(asked, RecordDict()), reply(asked, number))
    assert [read_name(answer) for answer in replies] == [""] * 5
