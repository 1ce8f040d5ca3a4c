import json
import logging
import shlex

import numpy as np
import pandas as pd
import pytest
import torch
from rich.console import Console

import hotview as hv
from hotview.cli import demo
from hotview.cli.demo import SAMPLE_HOLDER, SAMPLE_NAMES, write_sample_federation
from hotview.cli.federated_jobs import (
    SimulationJob,
    open_clients,
    outcome_parts,
    read_app,
    run_simulation,
)
from hotview.cli.runner import write_table
from hotview.datasets import load_handwritten, make_views
from hotview.federated import FederatedResult, InProcessChannel, Privacy, Server
from hotview.federated.configuration import write_app
from hotview.federated.settings import Settings

NAMES = ["clinical", "genetic", "imaging"]
SMALL = Settings(
    **{"rounds": 2, "local_steps": 2, "quantiles": 8, "n_components": 3, "encoder_dim": 5},
    **{"hidden": (6,), "n_projections": 6, "batch_size": 20, "label_holder": "genetic"},
)


def write_small_app(folder):
    """A federation of three organizations, with 40 rows each, of which 16 are linked."""
    write_app(folder, NAMES, SMALL)
    data = make_views(40, n_views=3, n_columns=[4, 6, 5], n_classes=2, labeled=1.0, random_state=0)
    home = folder / "organizations"
    (home / "linked.txt").write_text("".join(f"p{i}\n" for i in range(16)))
    for s, (name, X) in enumerate(zip(NAMES, data.linked.values(), strict=True)):
        order = np.random.default_rng(s).permutation(len(X))
        ids = [f"p{i}" if i < 16 else f"{name}{i}" for i in order]
        columns = {"id": ids, **{f"{name}_{j}": X[order, j] for j in range(X.shape[1])}}
        told = f'name = "{name}"\nfile = "{name}.csv"\nfolder = "{name}"\ndevice = "cpu"\n'
        told += 'id_column = "id"\nlinked = "linked.txt"\n'
        if name == SMALL.label_holder:
            columns["state"] = np.array(["ill", "well"])[data.linked_target[order]]
            told += 'label_column = "state"\n'
        write_table(columns, home / f"{name}.csv")
        (home / f"{name}.toml").write_text(told)
    return folder


@pytest.fixture
def app(tmp_path):
    return write_small_app(tmp_path / "study")


def job(app, settings=None, privacy=None, *, dry_run=False, resume=False, force=False):
    return SimulationJob(app, settings or {}, privacy, dry_run, resume, force, as_json=False)


def test_a_simulation_is_the_coordinator_with_organizations_in_one_process(app, tmp_path):
    assert run_simulation(job(app)) == 0
    other = write_small_app(tmp_path / "other")
    clients = open_clients(job(other), read_app(other, {}))
    Server(InProcessChannel(clients), SMALL).run()
    for name in NAMES:
        mine, theirs = (
            hv.load(folder / "organizations" / name / "part.hotview").network_.state_dict()
            for folder in (app, other)
        )
        torch.testing.assert_close(mine, theirs, atol=0, rtol=0)


def test_what_is_typed_comes_before_the_settings_of_the_app(app):
    path = app / "organizations" / "clinical.toml"
    path.write_text(path.read_text() + "[privacy]\nepsilon = 3.0\n")
    config = read_app(app, {"rounds": 5, "local_steps": None, "share_features": True})
    assert (config.settings.rounds, config.settings.local_steps) == (5, 2)
    assert config.settings.share_features
    assert config.folder == app / "coordinator"
    assert config.organizations == NAMES
    own = open_clients(job(app), config)
    assert own["clinical"].privacy == Privacy(3.0)
    assert own["genetic"].privacy is None
    same = open_clients(job(app, privacy=Privacy(8.0)), config)
    assert {client.privacy for client in same.values()} == {Privacy(8.0)}


def test_an_app_and_the_configuration_of_every_organization_are_needed(app, tmp_path):
    for text, message in (("[project]\n", "KeyError"), ("[project", "TOMLDecodeError")):
        (tmp_path / "pyproject.toml").write_text(text)
        with pytest.raises(ValueError, match=rf"\[tool.flwr.app.config\] in .*{message}"):
            read_app(tmp_path, {})
    (app / "organizations" / "imaging.toml").unlink()
    with pytest.raises(FileNotFoundError, match="the configuration of imaging"):
        run_simulation(job(app))
    other = (app / "organizations" / "genetic.toml").read_text()
    (app / "organizations" / "imaging.toml").write_text(other)
    with pytest.raises(ValueError, match="to be of 'imaging', not 'genetic'"):
        run_simulation(job(app))


def test_the_command_that_resumes_repeats_the_options():
    given = {"rounds": 5, "coupling": None, "share_labels": True}
    words = shlex.split(job("a b", given, Privacy(8.0, 1e-6)).resume_command)
    assert words[:3] == ["hotview", "federated", "simulate"]
    assert words[3:7] == ["a b", "--rounds", "5", "--share-labels"]
    assert words[7:] == ["--epsilon", "8.0", "--delta", "1e-06", "--resume"]


def test_a_dry_run_writes_nothing(app, capsys):
    before = sorted(app.rglob("*"))
    for privacy in (None, Privacy(3.0)):
        assert run_simulation(job(app, privacy=privacy, dry_run=True)) == 0
        assert sorted(app.rglob("*")) == before
        out = capsys.readouterr().out
        assert "Labels are those of genetic" in out
        assert ("epsilon" in out) == (privacy is not None)


def test_too_few_answers_are_said_in_a_line_and_each_reason_once(app, capsys):
    run_simulation(job(app))
    for name in NAMES:
        (app / "organizations" / name / "state.federated").unlink()
    capsys.readouterr()
    with pytest.raises(ValueError, match="at least 2 organizations"):
        run_simulation(job(app, resume=True))
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == len(set(lines))
    assert sum("goes on without 'genetic'" in line for line in lines) == 1
    assert not logging.getLogger("hotview.federated").handlers


def test_who_cannot_save_its_part_is_a_failure(app, capsys):
    (app / "organizations" / "imaging" / "part.hotview").mkdir(parents=True)
    assert run_simulation(job(app, force=True)) == 1
    out = capsys.readouterr().out
    assert "imaging was left out of round 3" in out
    assert "clinical/part.hotview" in out


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "study"
    write_sample_federation(folder, 0)
    return folder


def read_people(sample, file):
    """Return a table of every organization, by id."""
    home = sample / "organizations"
    return {n: pd.read_csv(home / n / file.format(n), index_col="id") for n in SAMPLE_NAMES}


def test_organizations_share_the_people_that_they_agreed_on_and_no_others(sample):
    known, new = read_people(sample, "{}.csv"), read_people(sample, "new.csv")
    truth = pd.read_csv(sample / "new-labels.csv")["id"].tolist()
    lists = [(sample / "organizations" / n / "linked.txt").read_text().split() for n in known]
    assert lists[0] == lists[1] == lists[2]
    linked = set(lists[0])
    assert len(linked) == 200
    for name, table in known.items():
        others = set().union(*(known[other].index for other in SAMPLE_NAMES if other != name))
        assert set(table.index) & others == linked
        assert table.index.is_unique
        assert new[name].index.tolist() == truth
        assert not set(truth) & set(table.index)
    assert sum(map(len, known.values())) == 3 * 200 + 1400
    assert len(truth) == 400
    orders = {tuple(key for key in table.index if key in linked) for table in known.values()}
    assert len(orders) == 3


def test_rows_and_labels_are_those_of_the_digits(sample):
    digits, numbers = load_handwritten(), {}
    known = read_people(sample, "{}.csv")
    for name, table in known.items():
        assert ("digit" in table) == (name == SAMPLE_HOLDER)
        X = table.filter(regex=f"^{name}_").to_numpy(np.float32)
        places = {}
        for i, row in enumerate(digits.views[name]):
            places.setdefault(row.astype(np.float32).tobytes(), set()).add(i)
        for key, row in zip(table.index, X, strict=True):
            numbers[key] = numbers.get(key, places[row.tobytes()]) & places[row.tobytes()]
    assert all(numbers.values())  # one id is one person in all tables
    for key, label in known[SAMPLE_HOLDER]["digit"].items():
        assert label in {digits.target[i] for i in numbers[key]}


def test_all_of_a_sample_is_written_as_its_seed_says_or_nothing(sample, tmp_path, monkeypatch):
    before = (sample / "pyproject.toml").read_bytes()
    with pytest.raises(FileExistsError, match="not empty"):
        write_sample_federation(sample, 1)
    assert (sample / "pyproject.toml").read_bytes() == before
    for path in write_sample_federation(tmp_path / "same", 0):
        assert path.read_bytes() == (sample / path.relative_to(tmp_path / "same")).read_bytes()
    write_sample_federation(tmp_path / "other", 1)
    where = "organizations/fou/linked.txt"
    assert (tmp_path / "other" / where).read_text() != (sample / where).read_text()

    def stop(columns, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(demo, "write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        write_sample_federation(tmp_path / "study", 0)
    assert {path.name for path in tmp_path.iterdir()} == {"same", "other"}


TRAFFIC = {name: {"to": 1000, "from": 2000, "total": 12_345} for name in NAMES}


def printed(facts):
    console = Console(width=120, soft_wrap=True)
    with console.capture() as capture:
        for part in outcome_parts(facts):
            console.print(part, soft_wrap=isinstance(part, str), highlight=False, markup=False)
    return capture.get()


def result(**more):
    W = np.array([[0.30, 0.03], [0.31, 0.02], [0.01, 0.32]], dtype=np.float32)
    rows = [{"epoch": 1, "loss": 2.0}, {"epoch": 2, "loss": 1.0}]
    return FederatedResult(NAMES, rows, W, np.ones((3, 2), np.float32), NAMES, **more)


def outcome(found, settings=None, **more):
    settings = settings or Settings(rounds=2, local_steps=7)
    facts = {**found.to_json(), "rounds": len(found.rows), "bytes": TRAFFIC}
    facts |= {"settings": settings.to_json(), "seconds": 3.0, "interrupted": False, "resume": "so"}
    return {**facts, "parts": {name: f"{name}/part.hotview" for name in found.finished}, **more}


def test_the_plan_is_shown_and_no_groups_are_drawn_from_it():
    plan = outcome(result())["plan"]
    assert "groups" not in plan
    assert plan["W"][2] == pytest.approx([0.01, 0.32])
    text = printed(outcome(result()))
    assert "Groups of views" not in text
    assert "0.960" in text  # 3 · 0.32, of a row that adds up to 1 nearly
    W = np.array([[0, 0.3, 0.03], [0.3, 0, 0.03], [0.16, 0.17, 0]])
    pairs = outcome(FederatedResult(NAMES, [], W, W, NAMES), Settings(coupling="hot-pairwise"))
    heading = printed(pairs).splitlines()[2]
    assert all(name in heading for name in NAMES)
    facts = outcome(FederatedResult(NAMES, [], finished=NAMES), Settings(coupling="none"))
    assert facts["plan"] is None
    assert "Plan" not in printed(facts)


def test_privacy_bytes_and_who_was_left_out_are_told():
    late = [{"round": r, "name": "imaging", "reason": "late"} for r in (1, 2)]
    private = {"genetic": {"epsilon": 2.999, "delta": 1e-5}}
    facts = outcome(result(privacy=private, dropped=late, finished=NAMES[:2]))
    assert json.loads(json.dumps(facts)) == facts
    assert facts["bytes"]["imaging"] == {"to": 1000, "from": 2000, "total": 12_345}
    text = printed(facts)
    for part in (
        "2 of 2 rounds, 7 local steps in each, 3 s.",
        "12,345",
        "genetic: its projections are (3, 1e-05)-differentially private.",
        "imaging was left out of round 1, 2: late",
        "Part saved to genetic/part.hotview",
        "Next: hotview federated join clinical/part.hotview genetic/part.hotview",
    ):
        assert part in text
    assert "No organization" not in text
    assert "imaging/part.hotview" not in text
