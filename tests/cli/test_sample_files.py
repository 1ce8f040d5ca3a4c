import pyarrow.csv
import pytest

from hotview.cli.sample_files import write_sample_files
from hotview.datasets import link_rows


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("files") / "digits"
    write_sample_files(folder, 0)
    return folder


def ids(path):
    return pyarrow.csv.read_csv(path)["id"].to_pylist()


def test_sixty_people_are_in_all_views_and_have_a_label(folder):
    rows = link_rows({path.stem: ids(path) for path in (folder / "views").iterdir()})
    assert set(rows.ids) == set(ids(folder / "labels.csv"))
    assert len(rows.ids) == 60
    assert {len(others) for others in rows.unaligned.values()} == {798}


def test_views_have_other_rows_in_orders_of_their_own(folder):
    orders = [
        [i for i in ids(path) if i.startswith("person")] for path in (folder / "views").iterdir()
    ]
    assert len({tuple(order) for order in orders}) == 6


def test_new_people_were_never_seen_and_may_lack_views(folder):
    everybody = set(ids(folder / "new-labels.csv"))
    for path in (folder / "new").iterdir():
        there = set(ids(path))
        assert there < everybody
        assert not there & set(ids(folder / "views" / path.name))


def test_the_same_seed_writes_the_same_files(folder, tmp_path):
    for path in write_sample_files(tmp_path / "digits", 0):
        assert path.read_bytes() == (folder / path.relative_to(tmp_path / "digits")).read_bytes()


def test_files_that_are_there_are_not_replaced(folder):
    with pytest.raises(FileExistsError, match="--force"):
        write_sample_files(folder, 0)
    write_sample_files(folder, 0, force=True)
