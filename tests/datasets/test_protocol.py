import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotview.datasets import split_rows, unalign

PARTS = ("labeled", "unlabeled", "validation", "test")


def make_aligned(n=200):
    """Views whose entries say which row, view and column they are from."""
    rows = np.arange(n)[:, None]
    views = {"a": rows + np.zeros(3), "b": rows + 1000 + np.zeros(2), "c": rows + 2000.0}
    return views, np.array([f"class {i % 5}" for i in range(n)])


@pytest.mark.parametrize(("n", "ends"), ((1474, (44, 884, 1179)), (2000, (60, 1200, 1600))))
def test_the_split_reads_one_permutation_from_left_to_right(n, ends):
    split = split_rows(n, random_state=n)  # in the numbers of the paper
    expected = np.split(np.random.default_rng(n).permutation(n), ends)
    for part, indices in zip(PARTS, expected, strict=True):
        np.testing.assert_array_equal(getattr(split, part), indices)
    assert set(split_rows(500).test) != set(split_rows(500).test)
    generator = np.random.default_rng(n)  # which is used and moved on
    np.testing.assert_array_equal(split_rows(n, random_state=generator).test, split.test)
    assert not np.array_equal(split_rows(n, random_state=generator).test, split.test)


@given(
    n=st.integers(1000, 3000),
    labeled=st.floats(0.05, 0.95),
    train=st.floats(0.1, 0.8),
    left=st.floats(0.1, 0.9) | st.sampled_from([0.0, 1.0]),
    seed=st.integers(0, 2**32),
)
def test_every_split_is_a_partition_of_the_asked_sizes(n, labeled, train, left, seed):
    validation = left * (1 - train)
    split = split_rows(n, labeled=labeled, train=train, validation=validation, random_state=seed)
    rows = np.concatenate([getattr(split, part) for part in PARTS])
    np.testing.assert_array_equal(rows, np.random.default_rng(seed).permutation(n))
    np.testing.assert_array_equal(split.train, rows[: len(split.train)])
    assert all(getattr(split, part).dtype == np.int64 for part in PARTS)
    assert len(split.train) == round(train * n)
    assert len(split.labeled) == round(labeled * len(split.train))
    assert abs(len(split.validation) - validation * n) <= 1
    assert (len(split.test) > 0) == (1 - train - validation > 1e-9)


def test_parts_can_be_empty():
    split = split_rows(7, labeled=0.5, train=1.0, validation=0.0, random_state=0)
    assert [len(getattr(split, part)) for part in PARTS] == [4, 3, 0, 0]
    assert len(split_rows(7, labeled=1.0, train=1.0, validation=0.0).unlabeled) == 0
    assert len(split_rows(7, labeled=0.0, train=1.0, validation=0.0).labeled) == 0
    # 0.5 * 5 rounds to 2 twice, and 0.7 + 0.3 is not quite 1 in floats.
    assert len(split_rows(5, labeled=0.5, train=0.5, validation=0.5).test) == 0
    assert len(split_rows(10, labeled=0.5, train=0.7, validation=0.3).test) == 0
    data = unalign(*make_aligned(), labeled=0.1, train=1.0, validation=0.0, random_state=0)
    assert len(data.target) == 20
    assert data.unaligned["b"].shape == (180, 2)
    assert data.validation["b"].shape == data.test["b"].shape == (0, 2)
    assert len(data.test_target) == 0


@pytest.mark.parametrize(
    ("n", "shares", "message"),
    (
        (100, {"labeled": 1.5}, "labeled to be a share.*1.5"),
        (100, {"train": 60}, "train to be a share"),
        (100, {"train": 0.0}, "train above 0"),
        (100, {"train": 0.9}, "at most 1, but train is 0.9 and validation 0.2"),
        (0, {}, "n to be a whole number"),
        (10, {}, "of 10 rows the part labeled, a share of 0.05, gets none"),
        (4, {"labeled": 0.5, "validation": 0.1}, "part validation"),
        (1, {"labeled": 0.0, "train": 0.4}, "part train"),
    ),
)
def test_impossible_splits_are_refused(n, shares, message):
    with pytest.raises(ValueError, match=message):
        split_rows(n, **shares)


def test_unalign_refuses_what_does_not_fit():
    views, y = make_aligned()
    for wrong, message in (
        (({**views, "b": views["b"][1:]}, y), "'a': 200, 'b': 199"),
        ((views, y[1:]), "each of the 200 rows, but it holds 199"),
    ):
        with pytest.raises(ValueError, match=message):
            unalign(*wrong)
    with pytest.raises(ValueError, match="part labeled"):
        unalign(views, y, labeled=0.001)


def test_the_shuffles_follow_the_split_in_one_stream():
    views, y = make_aligned()
    generator = np.random.default_rng(7)
    split = split_rows(200, random_state=generator)
    data = unalign(views, y, random_state=7)
    for part in PARTS:
        np.testing.assert_array_equal(getattr(data.split, part), getattr(split, part))
    for name in views:
        expected = split.unlabeled[generator.permutation(len(split.unlabeled))]
        np.testing.assert_array_equal(data.rows[name], expected)


def test_every_part_holds_the_rows_it_says():
    views, y = make_aligned()
    data = unalign(views, y, random_state=0)
    rows = {
        "linked": data.split.labeled, "paired": data.split.unlabeled,
        "validation": data.split.validation, "test": data.split.test,
    }  # fmt: skip
    for name, X in views.items():
        for part, indices in rows.items():
            np.testing.assert_array_equal(data[part][name], X[indices])
        np.testing.assert_array_equal(data.unaligned[name], X[data.rows[name]])
        np.testing.assert_array_equal(data.unaligned_target[name], y[data.rows[name]])
    np.testing.assert_array_equal(data.target, y[data.split.labeled])
    np.testing.assert_array_equal(data.validation_target, y[data.split.validation])
    np.testing.assert_array_equal(data.test_target, y[data.split.test])
    for words in ("200 aligned rows of 3 views", "6 training rows", "other 114", "40 rows"):
        assert words in data.DESCR


def test_the_callers_data_is_neither_changed_nor_shared_and_keeps_its_type():
    views, y = make_aligned()
    data = unalign(views, y, random_state=0)
    for part in ("linked", "unaligned", "paired", "validation", "test"):
        for X in data[part].values():
            X[:] = -1
    data.target[:] = ""
    fresh, fresh_y = make_aligned()
    np.testing.assert_array_equal(y, fresh_y)
    for name in views:
        np.testing.assert_array_equal(views[name], fresh[name])
    data = unalign([np.zeros((100, 2), np.float32)] * 2, np.zeros(100, int), random_state=0)
    assert list(data.unaligned) == ["view_0", "view_1"]
    assert data.unaligned["view_1"].dtype == np.float32
