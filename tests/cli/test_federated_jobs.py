import logging
import shlex

import numpy as np
import pyarrow.csv
import pytest
import torch

import hotview as hv
from hotview.cli import federated_jobs
from hotview.cli.federated_jobs import (
    SAMPLE_HOLDER,
    SAMPLE_NAMES,
    CountingChannel,
    SimulationJob,
    open_clients,
    read_app,
    run_simulation,
    write_sample_federation,
)
from hotview.cli.output_files import write_table
from hotview.cli.runner import UsageError
from hotview.datasets import load_handwritten, make_views
from hotview.federated import InProcessChannel, Message, Privacy, Server
from hotview.federated.app_template import write_app
from hotview.federated.configuration import open_client
from hotview.federated.settings import Settings

NAMES = ["clinical", "genetic", "imaging"]
SMALL = Settings(
    rounds=2,
    local_steps=2,
    quantiles=8,
    n_components=3,
    encoder_dim=5,
    hidden=(6,),
    n_projections=6,
    batch_size=20,
    label_holder="genetic",
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


def weights(app):
    found = {}
    for name in NAMES:
        model = hv.load(app / "organizations" / name / "part.hotview", device="cpu")
        found |= {f"{name}.{key}": x for key, x in model.network_.state_dict().items()}
    return found


def test_a_simulation_is_the_coordinator_with_organizations_in_one_process(app, tmp_path):
    assert run_simulation(job(app)) == 0
    other = write_small_app(tmp_path / "other")
    clients = open_clients(job(other), read_app(other, {}))
    Server(InProcessChannel(clients), SMALL).run()
    mine, theirs = weights(app), weights(other)
    assert set(mine) == set(theirs)
    for key, x in mine.items():
        torch.testing.assert_close(x, theirs[key], atol=0, rtol=0)


def test_stopped_and_gone_on_is_the_same_as_in_one_go(app, tmp_path):
    run_simulation(job(app))
    other = write_small_app(tmp_path / "other")
    config = read_app(other, {})
    config.folder.mkdir()
    clients = open_clients(job(other), config)
    one = Server(
        InProcessChannel(clients), SMALL, checkpoint=config.folder / "checkpoint.federated"
    )
    take_round = one._run_round

    def stop_after_a_round():
        take_round()
        one._run_round = lambda: (_ for _ in ()).throw(KeyboardInterrupt)

    one._run_round = stop_after_a_round
    with pytest.raises(KeyboardInterrupt):
        one.run()
    assert run_simulation(job(other, resume=True)) == 0
    for key, x in weights(app).items():
        torch.testing.assert_close(x, weights(other)[key], atol=0, rtol=0)


def test_settings_that_are_given_come_before_those_of_the_app(app):
    config = read_app(app, {"rounds": 5, "local_steps": None, "share_features": True})
    assert (config.settings.rounds, config.settings.local_steps) == (5, 2)
    assert config.settings.share_features
    assert config.folder == app / "coordinator"
    assert config.organizations == NAMES


def test_a_setting_that_cannot_be_is_wrong_usage(app):
    with pytest.raises(UsageError, match="rounds"):
        read_app(app, {"rounds": 0})


def test_what_is_no_app_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="hotview federated new"):
        read_app(tmp_path, {})
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    with pytest.raises(ValueError, match=r"\[tool.flwr.app.config\]"):
        read_app(tmp_path, {})
    (tmp_path / "pyproject.toml").write_text("[project")
    with pytest.raises(ValueError, match="to be TOML"):
        read_app(tmp_path, {})


def test_every_organization_needs_its_own_configuration(app):
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


def test_privacy_for_all_comes_before_that_of_configurations(app):
    path = app / "organizations" / "clinical.toml"
    path.write_text(path.read_text() + "[privacy]\nepsilon = 3.0\n")
    config = read_app(app, {})
    own = open_clients(job(app), config)
    assert own["clinical"].privacy == Privacy(3.0)
    assert own["genetic"].privacy is None
    same = open_clients(job(app, privacy=Privacy(8.0)), config)
    assert {client.privacy for client in same.values()} == {Privacy(8.0)}


def test_a_dry_run_writes_nothing(app, capsys):
    before = sorted(app.rglob("*"))
    assert run_simulation(job(app, dry_run=True)) == 0
    assert sorted(app.rglob("*")) == before
    assert "genetic" in capsys.readouterr().out


def test_what_passes_is_counted():
    class Echo:
        def handle(self, message):
            return Message("round", {}, {"x": np.zeros(1000, np.float32)})

    class Broken:
        def handle(self, message):
            raise ValueError("no")

    channel = CountingChannel({"clinical": Echo(), "genetic": Broken()})
    ask = Message("round", {"round": 1})
    back = Message("round", {}, {"x": np.zeros(1000, np.float32)})
    for _ in range(3):
        channel.exchange(dict.fromkeys(channel.names, ask), 1.0)
    sizes = len(ask.to_bytes()), len(back.to_bytes())
    assert channel.largest["clinical"] == {"to": sizes[0], "from": sizes[1]}
    assert channel.total == {"clinical": 3 * sum(sizes), "genetic": 3 * sizes[0]}


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


def table(path):
    return pyarrow.csv.read_csv(path)


def linked_ids(sample, name):
    return (sample / "organizations" / name / "linked.txt").read_text().split()


def people(sample, file):
    return {
        name: table(sample / "organizations" / name / file.format(name=name))["id"].to_pylist()
        for name in SAMPLE_NAMES
    }


def test_organizations_share_the_people_that_they_agreed_on_and_no_others(sample):
    lists = [linked_ids(sample, name) for name in SAMPLE_NAMES]
    assert lists[0] == lists[1] == lists[2]
    assert len(set(lists[0])) == 200
    known = people(sample, "{name}.csv")
    for name, ids in known.items():
        others = set().union(*(known[other] for other in SAMPLE_NAMES if other != name))
        assert set(ids) & others == set(lists[0])
        assert len(set(ids)) == len(ids)
    assert sum(map(len, known.values())) == 3 * 200 + 1400


def test_every_organization_has_an_order_of_its_own(sample):
    linked = set(linked_ids(sample, "fou"))
    known = people(sample, "{name}.csv")
    orders = {tuple(key for key in ids if key in linked) for ids in known.values()}
    assert len(orders) == 3


def test_new_people_are_known_to_nobody_and_have_a_truth(sample):
    new = people(sample, "new.csv")
    truth = table(sample / "new-labels.csv")["id"].to_pylist()
    assert all(ids == truth for ids in new.values())
    assert len(truth) == 400
    assert not set(truth) & set().union(*people(sample, "{name}.csv").values())


def test_rows_and_labels_are_those_of_the_digits(sample):
    digits = load_handwritten()
    numbers = {}
    for name in SAMPLE_NAMES:
        own = table(sample / "organizations" / name / f"{name}.csv")
        assert ("digit" in own.column_names) == (name == SAMPLE_HOLDER)
        columns = [key for key in own.column_names if key.startswith(name)]
        X = np.column_stack([own[key].to_numpy() for key in columns]).astype(np.float32)
        places = {}
        for i, row in enumerate(digits.views[name]):
            places.setdefault(row.astype(np.float32).tobytes(), set()).add(i)
        for key, row in zip(own["id"].to_pylist(), X, strict=True):
            numbers[key] = numbers.get(key, places[row.tobytes()]) & places[row.tobytes()]
        if name == SAMPLE_HOLDER:
            labels = dict(zip(own["id"].to_pylist(), own["digit"].to_pylist(), strict=True))
    assert all(numbers.values())  # one id is one person in all tables
    for key, label in labels.items():
        assert label in {digits.target[i] for i in numbers[key]}


def test_configurations_open_what_was_written(sample):
    for name in SAMPLE_NAMES:
        data = open_client(sample / "organizations" / f"{name}.toml").data
        assert (data.name, len(data.linked)) == (name, 200)
        assert bool(data.classes) == (name == SAMPLE_HOLDER)
        assert data.table.n_columns == load_handwritten().views[name].shape[1]


def test_the_same_seed_writes_the_same_files_and_another_does_not(sample, tmp_path):
    for path in write_sample_federation(tmp_path / "same", 0):
        assert path.read_bytes() == (sample / path.relative_to(tmp_path / "same")).read_bytes()
    write_sample_federation(tmp_path / "other", 1)
    where = "organizations/fou/linked.txt"
    assert (tmp_path / "other" / where).read_text() != (sample / where).read_text()


def test_all_of_it_or_nothing(tmp_path, monkeypatch):
    def stop(columns, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(federated_jobs, "write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        write_sample_federation(tmp_path / "study", 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(sample):
    before = (sample / "pyproject.toml").read_bytes()
    with pytest.raises(FileExistsError, match="not empty"):
        write_sample_federation(sample, 1)
    assert (sample / "pyproject.toml").read_bytes() == before
