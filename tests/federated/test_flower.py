import json
import logging

import flwr.app
import pytest
from flwr.app import Context, Error, RecordDict
from near_grid import NearGrid
from sample_tables import NAMES, write_tables
from small_federation import settings

from hotview.federated import InProcessChannel, Message, Server
from hotview.federated.configuration import format_run_config, open_client
from hotview.federated.flower import make_client_app, make_server_app, pack, unpack

SMALL = settings(rounds=2, label_holder="clinical")


@pytest.fixture(autouse=True)
def quiet_log():
    """The log as it was: a ServerApp shows it in its own process."""
    logger = logging.getLogger("hotview.federated")
    before = (list(logger.handlers), logger.level)
    yield
    logger.handlers[:], logger.level = before


def context(**node_config):
    return Context(1, 1, node_config, RecordDict(), {})


def asked(content=None, kind="train"):
    message = flwr.app.Message(RecordDict() if content is None else content, 1, kind)
    message.metadata.__dict__["_message_id"] = "m"
    return message


def run_client(app, message, context):
    """What Flower's process of a client does: an exception becomes an error."""
    try:
        return app(message, context)
    except Exception as error:
        return flwr.app.Message(Error(2, f"{type(error)}:<'{error}'>"), reply_to=message)


@pytest.mark.usefixtures("in_a_run")
class TestClient:
    def test_a_message_for_another_and_garbage_are_not_answered(self, tables):
        here = context(config=str(tables / "genetic.toml"))
        with pytest.raises(ValueError, match="configured as 'genetic', but its key is that of 'cl"):
            make_client_app()(asked(pack(Message("hello"), "clinical")), here)
        with pytest.raises(ValueError, match="no message"):
            make_client_app()(asked(RecordDict()), here)
        with pytest.raises(ValueError, match="--node-config"):  # where its configuration is
            make_client_app()(asked(pack(Message("hello"), "genetic")), context(name="genetic"))

    def test_an_error_does_not_quote_the_data(self, tables, capsys):
        class Careless:
            def handle(self, message):
                raise ValueError("could not convert 'Ann Smith' to a number")

        here = context(config=str(tables / "genetic.toml"))
        app = make_client_app(lambda path: Careless())
        sent = run_client(app, asked(pack(Message("hello"), "genetic")), here).deflate()
        assert b"ValueError" in sent
        assert b"Smith" not in sent
        assert "Ann Smith" in capsys.readouterr().err

    def test_an_error_in_its_configuration_does_not_either(self, tables):
        (tables / "genetic.toml").write_text("secret = 1")
        here = context(config=str(tables / "genetic.toml"))
        message = asked(pack(Message("hello"), "genetic"))
        assert b"secret" not in run_client(make_client_app(), message, here).deflate()


def run_server(folder, tables, broken=None, registered=NAMES):
    """A whole training by a ServerApp and ClientApps, each called as Flower does."""
    client = make_client_app()

    def node(name):
        here = context(config=str(tables / f"{name}.toml"))

        def handle(message):
            kind = message.metadata.message_type
            if broken and kind == "train" and (lost := broken(name, unpack(message.content)[1])):
                return lost
            return run_client(client, message, here)

        return handle

    nodes = {i: node(name) for i, name in enumerate(NAMES, 1)}
    grid = NearGrid(nodes, dict(enumerate(registered, 1)))
    told = {**format_run_config(NAMES, SMALL), "folder": str(folder), "patience": 0.1}
    make_server_app()(grid, Context(1, 0, {}, RecordDict(), told))
    return json.loads((folder / "outcome.json").read_text())


@pytest.mark.usefixtures("in_a_run")
class TestServer:
    def test_a_training_that_loses_the_superlink_is_that_of_one_process(
        self, tables, tmp_path, capsys
    ):
        def broken(name, message):
            late = message.metadata.get("round") == 2 and name == "genetic"
            return ConnectionError("lost") if late else None

        folder, twin = tmp_path / "coordinator", tmp_path / "twin"
        with pytest.raises(ConnectionError):
            run_server(folder, tables, broken)
        told = run_server(folder, tables)
        assert "goes on after round 1 of 2" in capsys.readouterr().out
        twin.mkdir()
        write_tables(twin)
        clients = {name: open_client(twin / f"{name}.toml") for name in NAMES}
        result = Server(InProcessChannel(clients), SMALL).run()
        assert [row["loss"] for row in told["history"]] == [row["loss"] for row in result.history]
        assert told["finished"] == list(NAMES)
        assert all((tables / name / "part.hotview").is_file() for name in NAMES)

    def test_it_says_who_is_missing(self, tables, tmp_path):
        names = ("clinical", "clinical", "imaging")
        with pytest.raises(TimeoutError, match=r"clinical: refused: 2 nodes.*; genetic: gone"):
            run_server(tmp_path / "coordinator", tables, registered=names)
