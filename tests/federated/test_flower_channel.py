import logging

import flwr.app
import pytest
from flwr.app import ConfigRecord, Error, RecordDict
from loopback import exchanges
from near_grid import NearGrid

from hotview.federated import Failure, Message
from hotview.federated.flower import FlowerChannel, pack, read_reply, unpack


@pytest.fixture
def asked(in_a_run):
    return flwr.app.Message(RecordDict(), 7, "train")


def reply(asked, content):
    return flwr.app.Message(content, reply_to=asked)


@pytest.mark.parametrize(
    "record",
    (
        {},
        {"name": "clinical", "message": "text"},
        {"name": 3, "message": b""},
        {"name": "clinical", "message": Message("hello").to_bytes()[:-3]},
    ),
)
def test_what_is_no_message_is_garbage(asked, record):
    answer = read_reply(reply(asked, RecordDict({"hotview": ConfigRecord(record)})), "clinical")
    assert isinstance(answer, Failure)
    assert answer.reason.startswith("garbage: ")


@pytest.mark.parametrize(
    ("code", "reason", "start"),
    (
        (2, "<class 'RuntimeError'>:<'ValueError: the log has it'>", "an error over there: Value"),
        (0, None, "an error over there: Flower's error 0"),
        (3, "…", "late"),
        (8, "…", "gone"),
    ),
)
def test_errors_of_flower_are_told_in_words(asked, code, reason, start):
    failure = read_reply(flwr.app.Message(Error(code, reason), reply_to=asked), "clinical")
    assert failure.reason.startswith(start)


def echo(name):
    def handle(asked):
        return flwr.app.Message(pack(unpack(asked.content)[1], name), reply_to=asked)

    return handle


pytestmark = pytest.mark.usefixtures("in_a_run")
NAMES = ["clinical", "genetic", "imaging"]
MESSAGES = {name: Message("round", {"to": name}) for name in NAMES}


def carrier_of(nodes, registered=None):
    names = dict(enumerate(NAMES, 1)) if registered is None else registered
    return FlowerChannel(NearGrid(nodes, names), NAMES)


def everybody():
    return {i: echo(name) for i, name in enumerate(NAMES, 1)}


def test_it_shows_how_far_it_is(caplog):
    silent = {**everybody(), 2: lambda asked: None}
    with caplog.at_level(logging.INFO):
        carrier_of(silent).exchange({n: Message("round", {"round": 4}) for n in NAMES}, 0.05)
        carrier_of(everybody()).exchange({"genetic": Message("hello")}, 1)
    told = exchanges("\n".join(f" {record.getMessage()}" for record in caplog.records))
    keys = ("kind", "round", "answered", "asked")
    assert [tuple(e[k] for k in keys) for e in told] == [("round", 4, 2, 3), ("hello", None, 1, 1)]


def test_names_are_those_under_which_keys_were_registered():
    swapped = {1: echo("genetic"), 2: echo("clinical"), 3: echo("imaging")}
    channel = carrier_of(swapped)
    answers = channel.exchange(MESSAGES, 45.0)
    assert answers["clinical"] == Failure("garbage: it calls itself 'genetic'")
    assert answers["imaging"].metadata["to"] == "imaging"
    assert {message.metadata.ttl for message in channel._grid.sent} == {45.0}  # and no later


def test_other_nodes_are_ignored_and_named_in_the_log_once(caplog):
    nodes, names = (
        {**everybody(), 8: echo("clinical"), 9: echo("dental")},
        dict(enumerate(NAMES, 1)),
    )
    channel = carrier_of(nodes, registered={**names, 9: "dental"})
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            answers = channel.exchange(MESSAGES, 1)
            assert all(answers[name].metadata["to"] == name for name in NAMES)
    remedy = "it is ignored. Register its key with --name"
    assert [record.getMessage() for record in caplog.records] == [
        f"a node has no name: {remedy}",
        f"a node called 'dental' is none of {NAMES}: {remedy}",
    ]
    assert {message.metadata.dst_node_id for message in channel._grid.sent} == {1, 2, 3}


def test_a_node_that_is_not_connected_is_gone_at_once_and_may_come_back():
    channel = carrier_of(everybody())
    node = channel._grid.nodes.pop(2)
    assert channel.exchange(MESSAGES, 600)["genetic"] == Failure("gone: its node is not connected")
    channel._grid.nodes[2] = node
    assert channel.exchange(MESSAGES, 1)["genetic"].metadata["to"] == "genetic"


def test_a_reply_that_flower_cannot_read_hides_no_other():
    broken = {1: lambda asked: KeyError("x"), 2: lambda asked: TypeError("x")}
    answers = carrier_of({**everybody(), **broken}).exchange(MESSAGES, 1)
    for name in ("clinical", "genetic"):
        assert answers[name].reason.startswith("garbage")
    assert answers["imaging"].metadata["to"] == "imaging"


def test_it_waits_for_all(monkeypatch):
    channel = carrier_of({1: echo("clinical"), 2: echo("genetic")})
    monkeypatch.setattr(
        "hotview.federated.flower.time.sleep",
        lambda seconds: channel._grid.nodes.update({3: echo("imaging")}),
    )
    channel.wait_for_clients(patience=60)
    assert len(channel._grid.nodes) == 3


def test_it_goes_on_with_fewer_if_that_will_do(caplog):
    channel = carrier_of({1: echo("clinical"), 2: echo("genetic")})
    channel.wait_for_clients(patience=0.01, at_least=2)
    assert [record.getMessage() for record in caplog.records] == [
        "goes on without all: imaging: gone: its node is not connected"
    ]
    with pytest.raises(TimeoutError, match="Expected 3 of"):
        channel.wait_for_clients(patience=0.01, at_least=3)


def test_messages_that_cannot_be_sent_are_late(monkeypatch):
    channel = carrier_of(everybody())
    monkeypatch.setattr(channel._grid, "push_messages", lambda messages: ["", "", ""])
    assert set(channel.exchange(MESSAGES, 0.05).values()) == {Failure("late: no answer in time")}
