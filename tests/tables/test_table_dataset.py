import base64
import hashlib

import numpy as np
import pytest

from hotview.tables.dataset import DatasetFiles, read_dataset
from hotview.tables.table_dataset import find_ids, hash_ids, keep_linked, split_holdout

BOTH = ("blood.csv", "scan.csv")
COLUMNS = {"label_column": "y", "id_column": "id"}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def dataset(folder):
    rows = "\n".join(f"p{i},{i},{'ab'[i % 3 == 0]}" for i in range(60))
    (folder / "blood.csv").write_text(f"id,iron,y\n{rows}\n")
    (folder / "scan.csv").write_text(f"id,size,y\n{rows}\n")
    return read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id"))


def test_a_fraction_of_every_class_is_left_out_of_training(dataset):
    training, split = split_holdout(dataset, 0.25)
    assert sorted(split.target.tolist()) == ["a"] * 10 + ["b"] * 5
    assert set(split.ids) | set(training.ids) == set(dataset.ids)
    assert not set(split.ids) & set(training.ids)
    np.testing.assert_array_equal(split.views["scan"][:, 0], [int(i[1:]) for i in split.ids])
    numbers = [int(i[1:]) for i in training.ids]
    np.testing.assert_array_equal(training.linked["blood"][:, 0], numbers)
    most, _ = split_holdout(dataset, 0.99)
    assert sorted(most.target.tolist()) == ["a", "b"]  # every class is left
    with pytest.raises(ValueError, match="Hold out a larger fraction"):
        split_holdout(dataset, 0.001)


@pytest.mark.parametrize("group_column", (None, "person"))
def test_the_split_depends_on_ids_and_groups_alone(visits, folder, group_column):
    dataset, _ = visits(group_column=group_column)
    rows = (folder / "blood.csv").read_text().splitlines()
    (folder / "blood.csv").write_text("\n".join([rows[0], *reversed(rows[1:])]) + "\n")
    drop = () if group_column else ("person",)
    files = DatasetFiles(BOTH, **COLUMNS, drop=drop, group_column=group_column)
    _, again = split_holdout(read_dataset(files), 0.25)
    assert set(again.ids) == set(split_holdout(dataset, 0.25)[1].ids)


@pytest.fixture
def visits(folder):
    """Write visits of 30 people, some of them in one view only, and read them."""

    def read(seed=0, group_column="person", change=0.2):
        random = np.random.default_rng(seed)
        person = random.integers(0, 30, 200)
        label = np.where(random.random(200) < change, random.integers(0, 3, 200), person % 3)
        known = random.random(200) < 0.7
        for name, start in (("blood", 0), ("scan", 40)):
            who = [f"p{i}" if i else "" for i in person]
            y = ["abc"[k] if is_known else "" for k, is_known in zip(label, known, strict=True)]
            rows = "\n".join(f"v{i},{who[i]},{i},{y[i]}" for i in range(start, start + 160))
            (folder / f"{name}.csv").write_text(f"id,person,{name}_x,y\n{rows}\n")
        drop = () if group_column else ("person",)
        files = DatasetFiles(BOTH, **COLUMNS, drop=drop, group_column=group_column)
        return read_dataset(files), person

    return read


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("fraction", (0.1, 0.3, 0.9))
def test_no_row_of_a_person_who_is_held_out_is_trained_on(visits, seed, fraction):
    dataset, person = visits(seed)
    training, split = split_holdout(dataset, fraction)

    def people(ids):
        return {person[int(key[1:])] for key in ids} - {0}  # who has no name in the files

    held = people(split.ids)
    assert len(held) > 0
    assert not held & people(training.ids)
    for name, ids in training.unaligned_ids.items():
        assert not held & people(ids)
        rows = [int(key[1:]) for key in ids]
        np.testing.assert_array_equal(training.unaligned[name][:, 0], rows)
        assert len(training.unaligned_groups[name]) == len(training.unaligned_target[name])
    everybody = people(dataset.ids)
    assert people(training.ids) == everybody - held
    assert set(training.target) == set(dataset.target)  # every class is left
    labeled = [k for k, y in zip(dataset.ids, dataset.target, strict=True) if y is not None]
    assert {k for k in labeled if person[int(k[1:])] in held} <= set(split.ids)


def test_a_fraction_of_the_people_of_every_class_is_held_out(visits):
    dataset, _ = visits(change=0.0)
    training, _ = split_holdout(dataset, 0.3)
    counts = {}
    for part in (training, dataset):
        groups = set(zip(part.groups, part.target, strict=True))
        counts[part is dataset] = [
            sum(g is not None and y == label for g, y in groups) for label in "abc"
        ]
    for kept, every in zip(counts[False], counts[True], strict=True):
        assert abs(every - kept - 0.3 * every) <= 1.5


@pytest.mark.parametrize("owner", (0, 4, 9))
def test_whoever_has_all_labels_of_a_class_is_trained_on(folder, owner):
    visits = [(person, "a") for person in range(10)] + [(owner, "b")] * 11
    rows = "\n".join(f"v{i},p{person},{i},{y}" for i, (person, y) in enumerate(visits))
    for name in ("blood", "scan"):
        (folder / f"{name}.csv").write_text(f"id,person,{name}_x,y\n{rows}\n")
    files = DatasetFiles(BOTH, label_column="y", id_column="id", group_column="person")
    training, split = split_holdout(read_dataset(files), 0.9)
    assert set(training.target) == {"a", "b"}
    assert set(split.target) == {"a"}


def test_linked_rows_can_be_kept_alone(dataset, folder):
    rows = (folder / "scan.csv").read_text()
    (folder / "scan.csv").write_text(f"{rows}zoe,1,a\n")
    kept = keep_linked(read_dataset(DatasetFiles(BOTH, label_column="y", id_column="id")))
    assert (kept.unaligned, kept.unaligned_target, kept.unaligned_ids) == ({}, {}, {})
    assert len(kept.rows["scan"]) == len(kept.ids) == 60
    with pytest.raises(ValueError, match="rows that are linked in all views, but there are none"):
        keep_linked(read_dataset(DatasetFiles(BOTH, drop=["id", "y"])))


def test_hashed_ids_are_found_and_salted_so_that_two_models_share_none():
    ids = [f"p{i}" for i in range(2000)]
    assert find_ids(ids, hash_ids(ids[::2])).tolist() == [True, False] * 1000
    assert len(hash_ids(["a", "b", "a"])) == len(hash_ids(["b", "a"]))
    assert find_ids(["a"], hash_ids([])).tolist() == [False]
    assert len(find_ids([], hash_ids(["a"]))) == 0
    stored = [[base64.b64decode(part) for part in hash_ids(ids).split(":")] for _ in range(2)]
    assert stored[0][0] != stored[1][0]
    found = []
    for salt, raw in stored:
        found.append({raw[i : i + 8] for i in range(0, len(raw), 8)})
        hashes = (hashlib.blake2b(key.encode(), digest_size=8, salt=salt) for key in ids)
        assert found[-1] == {own.digest() for own in hashes}
    assert not found[0] & found[1]
