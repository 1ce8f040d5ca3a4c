"""Labels that are left out by folds and by a validation: of whole groups together."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview import MultiViewClassifier, StackedViews
from hotview._validation import ViewTable
from hotview.data import Targets, hold_out, make_folds, split_folds
from hotview.data.arrays import data_of_tables
from hotview.data.data import deal_folds
from hotview.datasets import make_views
from tests.data.small_data import links_of, make_data
from tests.estimators.small_fits import prepared

SMALL = {"coupling": "none", "hidden": (4,), "encoder_dim": 3, "n_components": 2}
SMALL |= {"max_epochs": 1, "device": "cpu"}
NOTHING = np.empty(0, dtype=np.int64)
DATA = make_views(40, n_views=2, n_groups=1, n_classes=2, labeled=0.9, random_state=0)


def make_labels(linked, own, n_classes, groups=None):
    """Labels of linked rows of two views, and of other rows of the first one."""
    tables = [
        {name: ViewTable(np.zeros((len(y), 2))) for name, y in rows.items()}
        for rows in ({"a": linked, "b": linked}, {"a": own})
    ]
    targets = Targets(np.arange(n_classes), (np.r_[linked, own], linked))
    return replace(data_of_tables(*tables), targets=targets, groups=groups)


def draw_labels(counts, n_unknown=0, seed=0):
    codes = np.repeat(np.arange(len(counts)), counts)
    codes = np.concatenate([codes, np.full(n_unknown, -1)])
    return np.random.default_rng(seed).permutation(codes)


def test_held_out_labels_are_hidden_and_given_back():
    data = make_labels(draw_labels([20, 10], n_unknown=7), np.array([0, 1]), 2)
    before = [codes.copy() for codes in data.codes]
    left = hold_out(data, 0.3, np.random.default_rng(0))
    held, target = left.validation.links, left.validation.target
    rows = held[:, 0]
    np.testing.assert_array_equal(held, links_of(37)[rows])
    assert len(set(rows)) == len(rows) == 9
    np.testing.assert_array_equal(target, data.target[rows])
    assert np.bincount(target).tolist() == [6, 3]  # of every class alike
    for now, then in zip(left.codes, before, strict=True):
        others = np.setdiff1d(np.arange(len(then)), rows)
        assert (now[rows] == -1).all()
        np.testing.assert_array_equal(now[others], then[others])
    for codes, then in zip(data.codes, before, strict=True):
        np.testing.assert_array_equal(codes, then)
    assert left.known.classes is data.known.classes
    # Rows to validate on are linked ones; tables of others are not read for them.
    assert [rows.n_rows for rows in left.validation.views.values()] == [37, 37]
    # Classes that are too small to be split are drawn at random.
    few = make_labels(draw_labels([20, 1]), np.arange(2), 2)
    generators = map(np.random.default_rng, range(5))
    found = [hold_out(few, 2 / 21, generator).validation.links for generator in generators]
    assert len({tuple(rows[:, 0]) for rows in found}) == 5
    for share in (0.01, 0.99):
        with pytest.raises(ValueError, match=f"both sides, but {share} of 30 linked rows with a"):
            hold_out(data, share, np.random.default_rng(0))


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    n_unknown=st.integers(0, 5),
    n_folds=st.integers(2, 7),
    seed=st.integers(0, 100),
)
def test_folds_are_equal_disjoint_and_leave_every_class_a_label(counts, n_unknown, n_folds, seed):
    codes = np.append(draw_labels(counts, n_unknown, seed), [0, 1])
    n_own = int(np.random.default_rng(seed).integers(0, len(codes) + 1))
    data = make_labels(*np.split(codes, [n_own]), len(counts))  # some are of one view alone
    folds = split_folds(data, n_folds, np.random.default_rng(seed))
    assert len(folds) == n_folds
    assert len({len(fold) for fold in folds}) == 1
    rows, n_labels = np.concatenate(folds), np.bincount(codes[codes >= 0], minlength=len(counts))
    assert len(np.unique(rows, axis=0)) == len(rows)
    assert len(rows) > sum(n for n in n_labels if n > 1) - n_folds
    assert (data.known.of(rows) >= 0).all()
    per_class = np.array([np.bincount(data.known.of(h), minlength=len(counts)) for h in folds])
    for code, n in enumerate(n_labels):
        left = [(data.hide(fold).known.of(data.labeled()) == code).sum() for fold in folds]
        assert min(left) > 0 or n == 0
        assert n != 1 or per_class[:, code].sum() == 0  # the only label is never hidden
    assert (per_class.max(axis=0) - per_class.min(axis=0) <= 1).all()


def test_where_a_view_has_no_label_linked_rows_without_one_are_silent_in_turn():
    linked, own = np.full(20, -1), np.arange(12) % 3
    data = make_data([np.r_[linked, own], linked], links_of(20))
    folds = make_folds(data, 3, 3, np.random.default_rng(0))
    rows = split_folds(data, 3, np.random.default_rng(0))
    for i, (fold, left) in enumerate(zip(folds, rows, strict=True)):
        np.testing.assert_array_equal(fold.left_out(data)[0], left)
        assert fold.silent.tolist() == list(range(i, 20, 3))
    linked[3] = 1  # the one label of the second view, without which some fold is
    one = make_data([np.r_[linked, own], linked], links_of(20))
    folds = make_folds(one, 2, 2, np.random.default_rng(0))
    assert sorted(fold.labels_per_view[1] for fold in folds) == [0, 1]
    for i, fold in enumerate(folds):
        silent = np.delete(np.arange(20), 3)[i::2] if fold.labels_per_view[1] == 0 else NOTHING
        np.testing.assert_array_equal(fold.silent, silent)
    nothing = make_folds(data, 2, 0, np.random.default_rng(0))
    assert nothing == [data, data]
    unlabeled = replace(data, targets=None)
    assert make_folds(unlabeled, 2, 2, np.random.default_rng(0)) == [unlabeled, unlabeled]


def draw(seed):
    """Labels of visits of a few people, which may change from visit to visit."""
    random = np.random.default_rng(seed)
    n, n_people = int(random.integers(6, 60)), int(random.integers(3, 20))
    of_person = random.integers(-1, 3, n_people)
    person = random.integers(0, n_people, n)
    codes = np.where(random.random(n) < 0.8, of_person[person], random.integers(-1, 3, n))
    others = random.integers(0, n_people + 3, 15)
    own = random.integers(-1, 3, 15)
    return make_labels(codes, own, 3, (np.r_[person, others], person))


def check_apart(data, left, held):
    """Nobody's labels are on both sides, and all other labels are where they were."""
    out = np.unique(data.groups_of(held))
    assert not np.isin(left.groups_of(left.labeled()), out).any()
    for codes, kept, who in zip(data.codes, left.codes, data.groups, strict=True):
        stays = ~np.isin(who, out)
        np.testing.assert_array_equal(kept[stays], codes[stays])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), n_folds=st.integers(2, 6))
def test_nobody_is_in_two_folds_nor_on_both_sides_of_one(seed, n_folds):
    data = draw(seed)
    labeled = data.labeled()
    folds = split_folds(data, n_folds, np.random.default_rng(seed))
    assert len(folds) == n_folds
    people = [set(data.groups_of(fold)) for fold in folds]
    assert sum(map(len, people)) == len(set().union(*people))
    for fold in folds:
        of_them = labeled[np.isin(data.groups_of(labeled), data.groups_of(fold))]
        np.testing.assert_array_equal(fold, of_them)
        left = data.hide(fold)
        check_apart(data, left, fold)
        assert set().union(*left.known.found) == set().union(*data.known.found)  # no class is lost


def test_people_of_every_class_are_dealt_evenly_and_groups_of_one_row_are_no_groups():
    def deal(codes, groups, n_folds):
        return deal_folds(codes, groups, n_folds, np.random.default_rng(0))

    codes, person = np.repeat(np.arange(24) % 3, 3), np.repeat(np.arange(24), 3)
    assert [np.bincount(codes[f]).tolist() for f in deal(codes, person, 4)] == [[6, 6, 6]] * 4
    codes = draw(0).target
    one_each = np.random.default_rng(0).permutation(len(codes))
    for alone, without in zip(deal(codes, one_each, 3), deal(codes, None, 3), strict=True):
        np.testing.assert_array_equal(alone, without)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.2, 0.6))
def test_nobody_is_on_both_sides_of_a_validation(seed, share):
    data = draw(seed)
    person, codes = data.groups[1], data.target
    n_people = len(set(person[codes >= 0]))
    if not 0 < round(share * n_people) < n_people:
        with pytest.raises(ValueError, match=f"{n_people} groups of linked rows with a label"):
            hold_out(data, share, np.random.default_rng(seed))
        return
    left = hold_out(data, share, np.random.default_rng(seed))
    held, target = left.validation.links, left.validation.target
    assert len(set(data.groups_of(held))) == round(share * n_people)
    np.testing.assert_array_equal(target, data.known.of(held))
    assert (target >= 0).all()
    check_apart(data, left, held)


def test_one_table_may_have_groups():
    X = np.hstack([DATA.linked["view_0"], DATA.linked["view_1"]])
    n, person = DATA.linked["view_0"].shape[1], np.arange(len(X)) // 4
    slices = {"view_0": slice(0, n), "view_1": slice(n, None)}
    model = MultiViewClassifier(**SMALL, n_estimators=2, random_state=0)
    found = StackedViews(model, slices).fit(X, DATA.linked_target, groups=person)
    expected = model.fit(DATA.linked, DATA.linked_target, groups=person)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(DATA.linked))


@pytest.mark.parametrize(("seed", "fraction"), ((0, None), (1, 0.3), (2, 0.3)))
def test_a_member_trains_on_nobody_whom_it_leaves_out(seed, fraction):
    """36 linked rows of 9 people, and unaligned rows of the same people."""
    how = {**SMALL, "n_estimators": 3, "random_state": seed, "validation_fraction": fraction}
    groups = {"groups": np.random.default_rng(seed).permutation(np.arange(36) % 9)}
    groups["unaligned_groups"] = {"view_1": np.arange(40) % 12}
    more = {"unaligned": DATA.views, "unaligned_y": {"view_1": DATA.target["view_1"]}}
    linked = {name: X[:36] for name, X in DATA.linked.items()}
    fit = prepared(MultiViewClassifier(**how), linked, DATA.linked_target[:36], **more, **groups)
    # Predictors are fitted to the labels of the fold, too, and never to those of a validation.
    data, validation = fit.rows.data, set()
    known = set(data.groups_of(data.labeled()))
    if fraction is not None:
        validation = set(fit.data.groups_of(fit.data.validation.links))
        assert len(validation) > 0
    assert not known & validation
    for member in fit.members:
        assert (member.training.score is None) == (fraction is None)
        held = set(data.groups_of(member.data.left_out(data)[0]))
        assert len(held) > 0
        assert set(data.groups_of(member.data.labeled())) == known - held
        assert held <= known


def test_a_fit_is_not_resumed_with_other_groups(tmp_path):
    more = {"checkpoint": str(tmp_path / "fit.checkpoint"), "n_estimators": 2, "random_state": 0}
    model, y = MultiViewClassifier(**SMALL, **more), DATA.linked_target
    person, others = np.arange(len(y)) // 3, {"view_0": np.arange(40) // 2}

    def fit(groups, unaligned_groups, **how):
        how |= {"groups": groups, "unaligned_groups": unaligned_groups}
        model.fit(DATA.linked, y, unaligned=DATA.views, **how)

    fit(person, others)
    with pytest.raises(ValueError, match=r"these differ: groups[;.]"):
        fit(np.roll(person, 1), others, resume=True)
    with pytest.raises(ValueError, match=r"these differ: unaligned_groups of view 'view_0'[;.]"):
        fit(person, {"view_0": np.arange(40) // 4}, resume=True)
    fit(person, others, resume=True)
