import glob
import json
import re
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest
from typer.main import get_command

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.cli.federated_jobs import CountingChannel, SimulationJob, open_clients, read_app
from hotview.cli.main import app as commands
from hotview.federated import Client, Server, Settings
from hotview.persistence.models import _MODEL

from .test_federated_jobs import NAMES, write_small_app

ROOT = Path(__file__).parent.parent.parent
COMMANDS = get_command(commands).commands["federated"].commands


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A federation that has been trained."""
    folder = write_small_app(tmp_path_factory.mktemp("federation") / "study")
    patch = pytest.MonkeyPatch()
    patch.setattr(sys, "argv", ["hotview", "federated", "simulate", str(folder)])
    with pytest.raises(SystemExit) as end:
        commands()
    patch.undo()
    assert end.value.code in (0, None)
    return folder


@pytest.fixture
def fresh(tmp_path):
    return write_small_app(tmp_path / "study")


def part(app, name):
    return app / "organizations" / name / "part.hotview"


def parts(app, *names):
    return [part(app, name) for name in names or NAMES]


def files(app, *names):
    return [f"{name}={app / 'organizations' / f'{name}.csv'}" for name in names or NAMES]


def table(path):
    return pyarrow.csv.read_csv(path)


def test_new_writes_an_app_and_says_what_comes_next(hotview, tmp_path):
    folder = tmp_path / "study"
    given = [word for name in NAMES for word in ("--organization", name)]
    done = hotview("federated", "new", folder, *given, "--label-holder", "genetic")
    assert done.code == 0, done.err
    assert "fill in the configurations" in done.out
    assert {p.stem for p in (folder / "organizations").iterdir()} == set(NAMES)
    assert 'label-holder = "genetic"' in (folder / "pyproject.toml").read_text()
    again = hotview("federated", "new", folder, *given)
    assert again.code == 1
    assert "not empty" in again.err


def commands_of(page):
    """Arguments of all commands of the sample that a page shows, in its order."""
    shown = re.findall(r"^\$ hotview (.*study.*|.*joint.*)$", page, re.MULTILINE)
    return [shlex.split(line, comments=True) for line in shown]


def expanded(words):
    return [
        name
        for word in words
        for name in (sorted(glob.glob(word)) if "*" in word and "=" not in word else [word])
    ]


@pytest.mark.parametrize("page", ("README.md", "docs/federated.md"))
def test_the_sample_goes_all_the_way_as_pages_show_it(hotview, tmp_path, monkeypatch, page):
    text = (ROOT / page).read_text()
    monkeypatch.chdir(tmp_path)
    printed = ""
    for words in commands_of(text):
        quick = ("--rounds", 2) if "simulate" in words else ()
        done = hotview(*expanded(words), *quick)
        assert done.code == 0, (words, done.err)
        printed += done.out
    for quoted in re.findall(r"```text\n(No organization.*?)```", text, re.DOTALL):
        assert quoted in printed
    assert {"study", "joint.hotview", "from-mor.csv", "predictions.csv"} <= {
        path.name for path in tmp_path.iterdir()
    }
    new = [f"{name}=study/organizations/{name}/new.csv" for name in ("fou", "kar", "mor")]
    judged = hotview(
        "evaluate", "joint.hotview", *new, "--labels", "study/new-labels.csv", "--json"
    )
    assert json.loads(judged.out)["accuracy"] > 0.5  # of ten classes, after 40 steps


class Watching(CountingChannel):
    """Remembers which arrays pass, and how large they are."""

    def __init__(self, clients):
        super().__init__(clients)
        self.seen = {}

    def exchange(self, messages, timeout):
        answers = super().exchange(messages, timeout)
        for message in (*messages.values(), *answers.values()):
            self.seen |= {key: x.nbytes for key, x in message.arrays.items()}
        return answers


@pytest.mark.parametrize(
    "more",
    ({}, {"coupling": "hot-pairwise"}, {"share_labels": True}, {"share_features": True}),
    ids=lambda more: next(iter(more), "default"),
)
def test_every_array_that_crosses_is_on_the_page(fresh, more):
    page = (ROOT / "docs" / "federated.md").read_text()
    told = {
        re.sub(r"\.NAME$", "", name)
        for row in re.findall(r"^\| (`[^|]*`) \|.*\|.*\|.*\|.*\|", page, re.MULTILINE)
        for name in re.findall(r"`([\w.]+)`", row)
    }
    given = SimulationJob(fresh, more, None, False, False, False, False)
    config = read_app(fresh, more)
    channel = Watching(open_clients(given, config))
    Server(channel, config.settings).run()
    crossed = {re.sub(rf"\.({'|'.join(NAMES)})$", "", key) for key in channel.seen}
    assert len(crossed) > 4
    assert crossed <= told


def test_bytes_on_the_page_are_those_of_the_defaults():
    page = (ROOT / "docs" / "federated.md").read_text()
    s, n_classes = Settings(), 10
    truth = {
        "quantiles": s.n_projections * s.quantiles,
        "scores": s.linked_batch * n_classes,
        "moment": s.n_components**2,
        "references": s.n_references * s.quantiles * s.n_components,
        "weights": s.n_references,
        "gradient.scores": s.linked_batch * n_classes,
        "features": s.encoder_dim,
    }
    for name, count in truth.items():
        row = re.search(rf"^\| `{re.escape(name)}` \|.*$", page, re.MULTILINE)[0]
        assert f"| {4 * count:,} " in row, row


@pytest.mark.parametrize("names", (NAMES, ["imaging", "clinical"], ["genetic"]))
def test_a_joined_model_predicts_from_any_views(hotview, app, tmp_path, names):
    out = tmp_path / "joint.hotview"
    joined = hotview("federated", "join", *parts(app), "-o", out)
    assert joined.code == 0, joined.err
    done = hotview("predict", out, *files(app, *names), "-o", tmp_path / "p.csv")
    assert done.code == 0, done.err
    found = table(tmp_path / "p.csv")
    assert set(found["predicted"].to_pylist()) <= {"ill", "well"}
    n_views = dict(zip(found["id"].to_pylist(), found["n_views"].to_pylist(), strict=True))
    assert n_views["p3"] == len(names)  # who is linked


def test_an_organization_predicts_alone_what_the_joined_model_does_from_its_view(
    hotview, app, tmp_path
):
    out = tmp_path / "joint.hotview"
    hotview("federated", "join", *parts(app), "-o", out)
    for name in NAMES:
        alone, joint = tmp_path / f"{name}-alone.csv", tmp_path / f"{name}-joint.csv"
        assert hotview("predict", part(app, name), *files(app, name), "-o", alone).code == 0
        assert hotview("predict", out, *files(app, name), "-o", joint).code == 0
        P = [
            np.column_stack([table(path)[f"probability_{c}"].to_numpy() for c in ("ill", "well")])
            for path in (alone, joint)
        ]
        assert (P[0].argmax(1) == P[1].argmax(1)).all()  # how sure it is may be weighed otherwise


def make_hole(path, row, column):
    """Empty a cell of a table."""
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[row][column] = ""
    path.write_text("\n".join(map(",".join, lines)) + "\n")


def test_organizations_that_treat_missing_cells_differently_can_be_joined(hotview, fresh, tmp_path):
    home, methods = fresh / "organizations", {"genetic": "median+indicator", "imaging": "mean"}
    for name in methods:
        make_hole(home / f"{name}.csv", 3, 2)
    refused = hotview("federated", "simulate", fresh)
    assert refused.code == 1
    assert "view 'genetic'" in refused.err  # before anything is trained
    assert not part(fresh, "clinical").exists()
    for name, method in methods.items():
        config = home / f"{name}.toml"
        config.write_text(f'impute = "{method}"\n' + config.read_text())
    done = hotview("federated", "simulate", fresh)
    assert done.code == 0, done.err
    out = tmp_path / "joint.hotview"
    joined = hotview("federated", "join", *parts(fresh), "-o", out)
    assert joined.code == 0, joined.err
    model = hv.load(out)
    assert model.impute == {"clinical": None, **methods}
    assert model._columns["genetic"].n_indicators == 1
    told = hotview("inspect", out).out
    assert "'genetic': standardized; missing cells replaced by the median and marked in 1" in told
    done = hotview("predict", out, *files(fresh), "-o", tmp_path / "p.csv")
    assert done.code == 0, done.err
    make_hole(home / "clinical.csv", 4, 2)
    refused = hotview("predict", out, *files(fresh), "-o", tmp_path / "q.csv")
    assert refused.code == 1
    assert "Cells of view 'clinical' are missing" in refused.err


def test_another_version_at_one_organization_ends_before_the_first_round(
    hotview, fresh, monkeypatch
):
    hello = Client._hello

    def hello_of_old(self, message):
        told = hello(self, message)
        if self.data.name == "imaging":
            del told.metadata["model_format"]
        return told

    monkeypatch.setattr(Client, "_hello", hello_of_old)
    refused = hotview("federated", "simulate", fresh)
    assert refused.code == 1
    assert "that of 'imaging' differs" in refused.err
    assert "Install the same version of hotview everywhere." in refused.err
    assert not any(client.exists() for client in parts(fresh))
    assert not list(fresh.rglob("state.federated"))


def test_parts_join_in_any_order_and_leave_some_out(hotview, app, tmp_path):
    out = tmp_path / "two.hotview"
    done = hotview("federated", "join", *parts(app, "imaging", "clinical"), "-o", out, "--json")
    assert json.loads(done.out) == {"out": str(out), "views": ["clinical", "imaging"]}
    assert hv.load(out).view_names_ == ["clinical", "imaging"]
    again = hotview("federated", "join", *parts(app), "-o", out)
    assert again.code == 1
    assert "--force" in again.err
    assert hotview("federated", "join", *parts(app), "-o", out, "--force").code == 0
    assert hv.load(out).view_names_ == NAMES


@pytest.mark.parametrize(
    "changes",
    (
        {"plan": {}},
        {"pool": {}},
        {"names": 3},
        {"joint_head": []},
        {"preprocessing": {"views": []}},
        {"trained_on": {"linked": None}},
    ),
)
def test_a_part_that_somebody_changed_is_an_error_of_one_sentence(hotview, app, tmp_path, changes):
    first, *others = parts(app)
    archive, odd = read_archive(first, _MODEL), tmp_path / "odd.hotview"
    facts = archive.metadata
    for key, value in changes.items():
        at = {"trained_on": facts, "preprocessing": facts["metadata"]}
        at.get(key, facts["metadata"]["federated"])[key] = value
    write_archive(odd, _MODEL, archive.tensors, facts)
    for command in (("inspect", odd), ("inspect", odd, "--json")):
        result = hotview(*command)
        assert (result.code, result.out) == (1, "")
        assert "odd.hotview" in result.err
        assert len(result.err.splitlines()) == 1
        assert "Traceback" not in result.err
    joined = hotview("federated", "join", odd, *others, "-o", tmp_path / "joint.hotview")
    assert joined.code == 1
    assert "odd.hotview to be" in joined.err
    assert len(joined.err.splitlines()) == 1
    assert "Traceback" not in joined.err
    assert not (tmp_path / "joint.hotview").exists()


def test_what_is_no_part_is_not_joined(hotview, app, tmp_path):
    one = hotview("federated", "join", part(app, "imaging"), "-o", tmp_path / "j.hotview")
    assert one.code == 1
    assert "at least two" in one.err
    hotview("federated", "join", *parts(app), "-o", tmp_path / "joint.hotview")
    whole = (tmp_path / "joint.hotview", part(app, "imaging"))
    refused = hotview("federated", "join", *whole, "-o", tmp_path / "j.hotview")
    assert refused.code == 1
    assert "the part of one organization" in refused.err
    assert not (tmp_path / "j.hotview").exists()


def test_parts_and_joined_models_can_be_looked_at(hotview, app, tmp_path):
    out = tmp_path / "joint.hotview"
    hotview("federated", "join", *parts(app), "-o", out)
    for model, said in ((out, f"joined: {', '.join(NAMES)}"), (part(app, "genetic"), "the part")):
        seen = hotview("inspect", model)
        assert seen.code == 0, seen.err
        assert said in seen.out
        assert "Plan W, rows adding up to 1:\n  clinical: " in seen.out
        assert "unlinked rows" not in seen.out  # of which nobody knows
        assert json.loads(hotview("inspect", model, "--json").out)["metadata"]["federated"]
        page = tmp_path / f"{model.stem}.html"
        written = hotview("report", model, "-o", page)
        assert written.code == 0, written.err
        assert page.stat().st_size > 10_000


def test_what_came_of_it_as_json(hotview, fresh):
    done = hotview("federated", "simulate", fresh, "--json", "--rounds", 3)
    assert done.code == 0, done.err
    facts = json.loads(done.out)
    assert facts["rounds"] == len(facts["history"]) == 3
    assert facts["finished"] == NAMES
    assert set(facts["parts"]) == set(facts["bytes"]) == set(NAMES)
    assert np.shape(facts["plan"]["W"]) == (3, 3)
    assert sorted(facts["plan"]["names"]) == NAMES
    assert facts["dropped"] == []
    outcome = json.loads((fresh / "coordinator" / "outcome.json").read_text())
    assert outcome["history"] == facts["history"]


def test_everybody_can_be_private(hotview, fresh):
    # Of samples as large as the table, where the accountant is quick.
    more = ("--batch-size", 40, "--epsilon", 5, "--delta", 1e-3, "--json")
    done = hotview("federated", "simulate", fresh, *more)
    assert done.code == 0, done.err
    for told in json.loads(done.out)["privacy"].values():
        assert told["delta"] == 1e-3
        assert 4.5 < told["epsilon"] <= 5


def test_a_training_that_is_there_is_neither_replaced_nor_mixed_with_another(hotview, app):
    before = {path: path.read_bytes() for path in parts(app)}
    refused = hotview("federated", "simulate", app)
    assert refused.code == 1
    assert "--resume" in refused.err
    assert "--force" in refused.err
    assert refused.out == ""
    other = hotview("federated", "simulate", app, "--resume", "--quantiles", 4)
    assert other.code == 1
    assert "quantiles was 8 then and is 4 now" in other.err
    longer = hotview("federated", "simulate", app, "--resume", "--rounds", 5)
    assert longer.code == 1
    assert "rounds was 2 then and is 5 now" in longer.err
    assert {path: path.read_bytes() for path in parts(app)} == before


def test_begun_anew_nothing_is_left_of_what_was_there(hotview, fresh):
    assert hotview("federated", "simulate", fresh).code == 0
    more = ("--force", "--rounds", 1, "--quantiles", 4, "--json")
    anew = hotview("federated", "simulate", fresh, *more)
    assert anew.code == 0, anew.err
    assert json.loads(anew.out)["rounds"] == 1
    assert len(hv.load(part(fresh, "imaging")).history_) == 1


def test_an_end_that_went_wrong_can_be_had_again(hotview, fresh):
    assert hotview("federated", "simulate", fresh).code == 0
    before = hv.load(part(fresh, "imaging")).network_.state_dict()
    part(fresh, "imaging").unlink()
    assert hotview("federated", "simulate", fresh, "--resume").code == 0
    after = hv.load(part(fresh, "imaging")).network_.state_dict()
    assert all((x == before[key]).all() for key, x in after.items())


@pytest.mark.parametrize(
    ("words", "code", "message"),
    (
        (("new", "x"), 2, "--organization clinical"),
        (("new", "x", "--organization", "a"), 2, "two organizations or more"),
        (("new", "x", "--organization", "a", "--organization", "a b"), 2, "letters, digits"),
        (("new", "x", "--sample", "--organization", "a"), 2, "its own organizations"),
        (("new", "no/x", "--sample"), 1, "the folder no does not exist"),
        (("simulate", "x"), 1, "hotview federated new"),
        (("simulate", "x", "--resume", "--force"), 2, "give one of them"),
        (("simulate", "x", "--delta", "0.1"), 2, "--delta needs --epsilon"),
        (("simulate", "x", "--epsilon", "-1"), 2, "epsilon"),
        (("simulate", "{app}", "--rounds", "0"), 2, "Expected rounds"),
        (("simulate", "{app}", "--coupling", "dgcca", "--force"), 2, "Expected coupling"),
        (("simulate", "{app}", "--label-holder", "lab", "--force"), 1, "label_holder among"),
        (("simulate", "{app}", "--label-holder", "imaging", "--force"), 1, "label_column"),
        (("join", "x.hotview", "-o", "y.pkl"), 1, "must end in .hotview"),
    ),
)
def test_what_is_wrong_is_said_in_a_line(
    hotview, fresh, tmp_path, monkeypatch, words, code, message
):
    monkeypatch.chdir(tmp_path)
    result = hotview("federated", *(word.format(app=fresh) for word in words))
    assert result.code == code
    assert message in result.err
    assert result.err.startswith("hotview: ")
    assert len(result.err.strip().splitlines()) <= 2
    assert [path.name for path in tmp_path.iterdir()] == ["study"]


def test_flags_have_the_names_of_settings():
    flags = {option.name for option in COMMANDS["simulate"].params}
    ours = {"app", "epsilon", "delta", "dry_run", "resume", "force", "json", "debug"}
    assert flags - ours <= set(Settings().to_json())
    assert {"rounds", "local_steps", "quantiles", "coupling", "random_state"} <= flags


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_help_has_examples(hotview, command):
    result = hotview("federated", command, "--help")
    assert result.code == 0
    assert f"hotview federated {command}" in result.out.split("Example")[-1]


def test_ctrl_c_stops_after_a_whole_round_and_it_goes_on_from_there(hotview, fresh):
    words = ["simulate", str(fresh), "--rounds", "20", "--local-steps", "1"]
    command = [sys.executable, "-c", "from hotview.cli import main; main()", "federated", *words]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + 120
        checkpoint = fresh / "coordinator" / "checkpoint.federated"
        while not checkpoint.exists() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)  # until it trains
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert f"Go on: hotview federated {' '.join(words)} --resume" in out
    assert not part(fresh, "imaging").exists()
    before = json.loads((fresh / "coordinator" / "outcome.json").read_text())["history"]
    assert 0 < len(before) < 20
    done = hotview("federated", *words, "--resume", "--json")
    assert done.code == 0, done.err
    history = json.loads(done.out)["history"]
    assert len(history) == 20
    assert history[: len(before)] == before
    assert part(fresh, "imaging").exists()
