import glob
import json
import re
import shlex
import shutil
import signal
from pathlib import Path

import numpy as np
import pyarrow.csv
import pytest

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview.cli.federated_jobs import SimulationJob, open_clients, read_app
from hotview.federated import InProcessChannel, Server, Settings, join_partial_models
from hotview.model.files import _MODEL

from .conftest import run_quietly
from .test_federated_jobs import NAMES, write_small_app

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    """A federation that has been trained."""
    folder = write_small_app(tmp_path_factory.mktemp("federation") / "study")
    run_quietly("federated", "simulate", folder)
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


def test_new_writes_an_app_and_says_what_comes_next(hotview, tmp_path):
    folder = tmp_path / "study"
    given = [word for name in NAMES for word in ("--organization", name)]
    done = hotview("federated", "new", folder, *given, "--label-holder", "genetic")
    assert "fill in the configurations" in done.out
    assert {p.stem for p in (folder / "organizations").iterdir()} == set(NAMES)
    assert 'label-holder = "genetic"' in (folder / "pyproject.toml").read_text()
    again = hotview("federated", "new", folder, *given, code=1)
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


@pytest.mark.parametrize(
    "page", ("README.md", pytest.param("docs/federated.md", marks=pytest.mark.slow))
)
def test_the_sample_goes_all_the_way_as_pages_show_it(hotview, tmp_path, monkeypatch, page):
    text = (ROOT / page).read_text()
    monkeypatch.chdir(tmp_path)
    printed = ""
    for words in commands_of(text):
        quick = ("--rounds", 2) if "simulate" in words else ()
        done = hotview(*expanded(words), *quick)
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


class Watching(InProcessChannel):
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
    ({"coupling": "hot-pairwise", "share_labels": True}, {"share_features": True}),
    ids=lambda more: next(iter(more)),
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


def test_two_parts_and_no_other_models_make_a_model_that_predicts(hotview, app, tmp_path):
    out = tmp_path / "two.hotview"
    lone = hotview("federated", "join", part(app, "imaging"), "-o", out, code=1)
    assert "at least two" in lone.err
    done = hotview("federated", "join", *parts(app, "imaging", "clinical"), "-o", out, "--json")
    assert json.loads(done.out) == {"out": str(out), "views": ["clinical", "imaging"]}
    done = hotview("predict", out, *files(app, "imaging", "clinical"), "-o", tmp_path / "p.csv")
    found = pyarrow.csv.read_csv(tmp_path / "p.csv")
    assert set(found["predicted"].to_pylist()) <= {"ill", "well"}
    n_views = dict(zip(found["id"].to_pylist(), found["n_views"].to_pylist(), strict=True))
    assert n_views["p3"] == 2  # who is linked
    hotview("predict", part(app, "imaging"), *files(app, "imaging"), "-o", tmp_path / "a.csv")
    assert "--force" in hotview("federated", "join", *parts(app), "-o", out, code=1).err
    joint = ("federated", "join", out, part(app, "imaging"), "-o", tmp_path / "j.hotview")
    assert "the part of one organization" in hotview(*joint, code=1).err
    hotview("federated", "join", *parts(app), "-o", out, "--force")
    assert hv.load(out).view_names_ == NAMES


def test_missing_cells_stop_before_anything_is_trained(hotview, fresh):
    path = fresh / "organizations" / "genetic.csv"
    lines = [line.split(",") for line in path.read_text().splitlines()]
    lines[3][2] = ""
    path.write_text("\n".join(map(",".join, lines)) + "\n")
    refused = hotview("federated", "simulate", fresh, code=1)
    assert "view 'genetic'" in refused.err
    assert not any(client.exists() for client in parts(fresh))


@pytest.mark.parametrize("changes", ({"plan": {}}, {"preprocessing": {"views": []}}))
def test_a_part_that_somebody_changed_is_an_error_of_one_sentence(hotview, app, tmp_path, changes):
    first, *others = parts(app)
    archive, odd = read_archive(first, _MODEL), tmp_path / "odd.hotview"
    metadata = archive.metadata["model"]["metadata"]
    for key, value in changes.items():
        {"preprocessing": metadata}.get(key, metadata["federated"])[key] = value
    write_archive(odd, _MODEL, archive.tensors, archive.metadata)
    out = tmp_path / "j.hotview"
    for command in (("inspect", odd), ("federated", "join", odd, *others, "-o", out)):
        result = hotview(*command, code=1)
        assert result.out == ""
        assert re.fullmatch(r"hotview: .*odd\.hotview.*\n", result.err)


def test_parts_and_joined_models_can_be_looked_at(hotview, app, tmp_path):
    join_partial_models(parts(app), joint := tmp_path / "joint.hotview")
    for model, said in ((joint, f"joined: {', '.join(NAMES)}"), (part(app, "genetic"), "the part")):
        seen = hotview("inspect", model)
        assert said in seen.out
        assert "Plan W, rows adding up to 1:\n  clinical: " in seen.out
        assert "unlinked rows" not in seen.out  # of which nobody knows
        assert json.loads(hotview("inspect", model, "--json").out)["metadata"]["federated"]
        page = tmp_path / f"{model.stem}.html"
        hotview("report", model, "-o", page)
        assert page.stat().st_size > 10_000


def test_a_training_that_is_there_can_only_be_ended_again_or_begun_anew(hotview, app, tmp_path):
    study = shutil.copytree(app, tmp_path / "study")
    simulate = ("federated", "simulate", study)
    before = {path: path.read_bytes() for path in parts(study)}
    refused = hotview(*simulate, code=1)
    assert "--resume" in refused.err
    assert "--force" in refused.err
    assert refused.out == ""
    other = hotview(*simulate, "--resume", "--quantiles", 4, code=1)
    assert "quantiles was 8 then and is 4 now" in other.err
    assert {path: path.read_bytes() for path in parts(study)} == before
    weights = hv.load(part(study, "imaging")).network_.state_dict()
    part(study, "imaging").unlink()  # the end went wrong
    hotview(*simulate, "--resume")
    after = hv.load(part(study, "imaging")).network_.state_dict()
    assert all((x == weights[key]).all() for key, x in after.items())
    anew = hotview(*simulate, "--force", "--rounds", 1, "--quantiles", 4, "--json")
    facts = json.loads(anew.out)
    assert facts["rounds"] == len(facts["history"]) == 1
    assert len(hv.load(part(study, "imaging")).history_) == 1  # nothing is left of before
    assert facts["finished"] == sorted(facts["plan"]["names"]) == NAMES
    assert set(facts["parts"]) == set(facts["bytes"]) == set(NAMES)
    assert np.shape(facts["plan"]["W"]) == (3, 3)
    assert facts["dropped"] == []
    outcome = json.loads((study / "coordinator" / "outcome.json").read_text())
    assert outcome["history"] == facts["history"]


def test_ctrl_c_stops_after_a_whole_round_and_it_goes_on_from_there(hotview, fresh, monkeypatch):
    exchange, asked = InProcessChannel.exchange, []

    def interrupt(channel, messages, timeout):
        asked.append(next(iter(messages.values())).kind)
        if asked[-1] == "round" and asked.count("round") == 2:
            signal.raise_signal(signal.SIGINT)
        return exchange(channel, messages, timeout)

    words = ["simulate", str(fresh), "--rounds", "4", "--local-steps", "1"]
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with monkeypatch.context() as patch:
            patch.setattr(InProcessChannel, "exchange", interrupt)
            stopped = hotview("federated", *words, code=130)
    finally:
        signal.signal(signal.SIGINT, handler)
    assert f"Go on: hotview federated {' '.join(words)} --resume" in " ".join(stopped.out.split())
    assert not part(fresh, "imaging").exists()
    before = json.loads((fresh / "coordinator" / "outcome.json").read_text())["history"]
    assert len(before) == 2
    done = hotview("federated", *words, "--resume", "--json")
    history = json.loads(done.out)["history"]
    assert len(history) == 4
    assert history[: len(before)] == before
    assert part(fresh, "imaging").exists()


def test_everybody_can_be_private(hotview, fresh):
    # Of samples as large as the table, where the accountant is quick.
    more = ("--batch-size", 40, "--epsilon", 5, "--delta", 1e-3, "--json")
    done = hotview("federated", "simulate", fresh, *more)
    facts = json.loads(done.out)
    for told in facts["privacy"].values():
        assert told["delta"] == 1e-3
        assert 4.5 < told["epsilon"] <= 5
    sizes = {"rows": 40, "columns": 4, "linked": 16, "labeled": 0, "epsilon": 5}
    assert facts["organizations"][0] == {"name": "clinical", **sizes}
    assert facts["organizations"][1]["labeled"] == 40


@pytest.mark.parametrize(
    ("words", "code", "message"),
    (
        (("new", "x"), 2, "--organization clinical"),
        (("new", "x", "--organization", "a"), 2, "two organizations or more"),
        (("new", "x", "--sample", "--organization", "a"), 2, "its own organizations"),
        (("new", "no/x", "--sample"), 1, "the folder no does not exist"),
        (("simulate", "x"), 1, "hotview federated new"),
        (("simulate", "x", "--resume", "--force"), 2, "give one of them"),
        (("simulate", "x", "--delta", "0.1"), 2, "--delta needs --epsilon"),
        (("simulate", "{app}", "--rounds", "0"), 2, "Expected rounds"),
        (("simulate", "{app}", "--label-holder", "imaging", "--force"), 1, "label_column"),
        (("join", "x.hotview", "-o", "y.pkl"), 1, "must end in .hotview"),
    ),
)
def test_what_is_wrong_is_said_in_a_line(
    hotview, fresh, tmp_path, monkeypatch, words, code, message
):
    monkeypatch.chdir(tmp_path)
    result = hotview("federated", *(word.format(app=fresh) for word in words), code=code)
    assert message in result.err
    assert result.err.startswith("hotview: ")
    assert len(result.err.strip().splitlines()) <= 2
    assert [path.name for path in tmp_path.iterdir()] == ["study"]
