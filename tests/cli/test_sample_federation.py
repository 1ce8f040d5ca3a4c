import numpy as np
import pyarrow.csv
import pytest

from hotview.cli import sample_federation
from hotview.cli.sample_federation import HOLDER, NAMES, write_sample_federation
from hotview.datasets import load_handwritten
from hotview.federated.configuration import open_organization, read_linked


@pytest.fixture(scope="module")
def app(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sample") / "study"
    write_sample_federation(folder, 0)
    return folder


def table(path):
    return pyarrow.csv.read_csv(path)


def people(app, file):
    return {
        name: table(app / "organizations" / name / file.format(name=name))["id"].to_pylist()
        for name in NAMES
    }


def test_organizations_share_the_people_that_they_agreed_on_and_no_others(app):
    lists = [read_linked(app / "organizations" / name / "linked.txt") for name in NAMES]
    assert lists[0] == lists[1] == lists[2]
    assert len(set(lists[0])) == 200
    known = people(app, "{name}.csv")
    for name, ids in known.items():
        others = set().union(*(known[other] for other in NAMES if other != name))
        assert set(ids) & others == set(lists[0])
        assert len(set(ids)) == len(ids)
    assert sum(map(len, known.values())) == 3 * 200 + 1400


def test_every_organization_has_an_order_of_its_own(app):
    linked = set(read_linked(app / "organizations" / "fou" / "linked.txt"))
    known = people(app, "{name}.csv")
    orders = {tuple(key for key in ids if key in linked) for ids in known.values()}
    assert len(orders) == 3


def test_new_people_are_known_to_nobody_and_have_a_truth(app):
    new = people(app, "new.csv")
    truth = table(app / "new-labels.csv")["id"].to_pylist()
    assert all(ids == truth for ids in new.values())
    assert len(truth) == 400
    assert not set(truth) & set().union(*people(app, "{name}.csv").values())


def test_rows_and_labels_are_those_of_the_digits(app):
    digits = load_handwritten()
    numbers = {}
    for name in NAMES:
        own = table(app / "organizations" / name / f"{name}.csv")
        assert ("digit" in own.column_names) == (name == HOLDER)
        columns = [key for key in own.column_names if key.startswith(name)]
        X = np.column_stack([own[key].to_numpy() for key in columns]).astype(np.float32)
        places = {}
        for i, row in enumerate(digits.views[name]):
            places.setdefault(row.astype(np.float32).tobytes(), set()).add(i)
        for key, row in zip(own["id"].to_pylist(), X, strict=True):
            numbers[key] = numbers.get(key, places[row.tobytes()]) & places[row.tobytes()]
        if name == HOLDER:
            labels = dict(zip(own["id"].to_pylist(), own["digit"].to_pylist(), strict=True))
    assert all(numbers.values())  # one id is one person in all tables
    for key, label in labels.items():
        assert label in {digits.target[i] for i in numbers[key]}


def test_configurations_open_what_was_written(app):
    for name in NAMES:
        holdings = open_organization(app / "organizations" / f"{name}.toml").holdings
        assert (holdings.name, len(holdings.linked)) == (name, 200)
        assert bool(holdings.classes) == (name == HOLDER)
        assert holdings.table.n_columns == load_handwritten().views[name].shape[1]


def test_the_same_seed_writes_the_same_files_and_another_does_not(app, tmp_path):
    for path in write_sample_federation(tmp_path / "same", 0):
        assert path.read_bytes() == (app / path.relative_to(tmp_path / "same")).read_bytes()
    write_sample_federation(tmp_path / "other", 1)
    where = "organizations/fou/linked.txt"
    assert (tmp_path / "other" / where).read_text() != (app / where).read_text()


def test_all_of_it_or_nothing(tmp_path, monkeypatch):
    def stop(columns, path):
        raise KeyboardInterrupt

    monkeypatch.setattr(sample_federation, "write_table", stop)
    with pytest.raises(KeyboardInterrupt):
        write_sample_federation(tmp_path / "study", 0)
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_stays(app):
    before = (app / "pyproject.toml").read_bytes()
    with pytest.raises(FileExistsError, match="not empty"):
        write_sample_federation(app, 1)
    assert (app / "pyproject.toml").read_bytes() == before
