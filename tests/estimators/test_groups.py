import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview import MultiViewClassifier, StackedViews
from hotview._validation import check_tables
from hotview.datasets import make_views
from hotview.estimators.fit import EnsembleFit
from hotview.estimators.groups import RowGroups, deal_folds, encode_groups
from hotview.estimators.labels import Labels, hide, hold_out, split_folds

SMALL = {"coupling": "none", "hidden": (4,), "encoder_dim": 3, "n_components": 2}
SMALL |= {"max_epochs": 1, "device": "cpu"}
DATA = make_views(40, n_views=2, n_groups=1, n_classes=2, labeled=0.9, random_state=0)


def encode(groups, unaligned_groups=None, n=4, sizes=None):
    linked = check_tables({"a": np.zeros((n, 2)), "b": np.zeros((n, 1))}) if n else {}
    unaligned = {name: np.zeros((m, 2)) for name, m in (sizes or {}).items()}
    return encode_groups(
        groups, unaligned_groups, linked, check_tables(unaligned) if unaligned else {}
    )


def same(codes):
    """Which pairs of rows are of one group."""
    return (codes[:, None] == codes).tolist()


def test_rows_of_one_name_are_a_group_and_rows_without_a_name_their_own():
    expected = same(np.array([0, 1, 0, 2]))
    for groups in (
        ["x", "y", "x", None],
        np.array([7, 8, 7, np.nan]),
        pd.Series([7, 8, 7, pd.NA], dtype="Int64"),
        pd.Series(["x", "y", "x", None], index=[5, 6, 7, 8]),
        pl.Series(["x", "y", "x", None]),
        pd.Categorical(["x", "y", "x", None]),
        np.array(["x", "y", "x", "z"]),
    ):
        assert same(encode(groups).linked) == expected


def test_views_share_names_and_rows_without_groups_are_their_own():
    found = encode(["x", "y", "x", "z"], {"b": ["z", None, "x"]}, sizes={"b": 3, "a": 2})
    assert found.linked.tolist() == [0, 1, 0, 2]
    assert list(found.unaligned) == ["b", "a"]
    assert found.unaligned["b"].tolist() == [2, 3, 0]
    assert len({*found.linked, *found.unaligned["b"], *found.unaligned["a"]}) == 6
    alone = encode(None, {"b": [1, 1, 2]}, n=0, sizes={"b": 3})
    assert alone.unaligned["b"].tolist() == [0, 0, 1]
    assert encode(None) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        ({"groups": [1, 2]}, "groups to hold one group for each of the 4 rows, but it holds 2"),
        ({"groups": [[1], [2], [3], [4]]}, "groups to be 1-D, one group per row"),
        ({"groups": [1, 1, 2, 2], "n": 0}, "Xs is None. Pass unaligned_groups"),
        ({"groups": None, "unaligned_groups": [1]}, "a dict of groups by view, but it is a list"),
        ({"groups": None, "unaligned_groups": {"c": [1]}}, "it has groups of 'c'"),
        (
            {"groups": [1, 1, 2, 2], "unaligned_groups": {"a": ["1"]}, "sizes": {"a": 1}},
            "some are text and some are numbers. Convert",
        ),
        ({"groups": np.zeros(4, "datetime64[s]")}, "numbers or text, but its dtype is datetime"),
    ),
)
def test_what_names_no_groups_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        encode(**arguments)


def test_groups_in_another_order_than_their_rows_are_refused():
    frames = check_tables({name: pd.DataFrame(np.zeros((3, 2)), list("pqr")) for name in "ab"})
    with pytest.raises(ValueError, match="row labels of view 'a' and of groups differ"):
        encode_groups(pd.Series([1, 1, 2], list("rqp")), None, frames, {})


def draw(seed):
    """Labels of visits of a few people, which may change from visit to visit."""
    random = np.random.default_rng(seed)
    n, n_people = int(random.integers(6, 60)), int(random.integers(3, 20))
    of_person = random.integers(-1, 3, n_people)
    person = random.integers(0, n_people, n)
    codes = np.where(random.random(n) < 0.8, of_person[person], random.integers(-1, 3, n))
    others = random.integers(0, n_people + 3, 15)
    own = random.integers(-1, 3, 15)
    return Labels(np.arange(3), codes, {"a": own}, RowGroups(person, {"a": others}))


def check_apart(labels, left, held):
    """Nobody's labels are on both sides, and all other labels are where they were."""
    person, others = labels.groups.linked, labels.groups.unaligned["a"]
    out = set(labels.group_numbers[held])
    assert not out & set(person[left.linked >= 0])
    assert not out & set(others[left.unaligned["a"] >= 0])
    for codes, kept, who in (
        (labels.linked, left.linked, person),
        (labels.unaligned["a"], left.unaligned["a"], others),
    ):
        stays = ~np.isin(who, list(out))
        np.testing.assert_array_equal(kept[stays], codes[stays])


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), n_folds=st.integers(2, 6))
def test_nobody_is_in_two_folds_nor_on_both_sides_of_one(seed, n_folds):
    labels = draw(seed)
    person, codes = labels.group_numbers, labels.codes
    folds = split_folds(labels, n_folds, np.random.default_rng(seed))
    assert len(folds) == n_folds
    people = [set(person[fold]) for fold in folds]
    assert sum(map(len, people)) == len(set().union(*people))
    for fold in folds:
        of_them = np.flatnonzero((codes >= 0) & np.isin(person, person[fold]))
        np.testing.assert_array_equal(fold, of_them)
        left = hide(labels, fold)
        check_apart(labels, left, fold)
        assert set(left.codes[left.codes >= 0]) == set(codes[codes >= 0])  # no class is lost


def test_people_of_every_class_are_dealt_evenly_and_groups_of_one_row_are_no_groups():
    def deal(codes, groups, n_folds):
        return deal_folds(codes, groups, n_folds, np.random.default_rng(0))

    codes, person = np.repeat(np.arange(24) % 3, 3), np.repeat(np.arange(24), 3)
    assert [np.bincount(codes[f]).tolist() for f in deal(codes, person, 4)] == [[6, 6, 6]] * 4
    codes = draw(0).linked
    one_each = np.random.default_rng(0).permutation(len(codes))
    for alone, without in zip(deal(codes, one_each, 3), deal(codes, None, 3), strict=True):
        np.testing.assert_array_equal(alone, without)


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.2, 0.6))
def test_nobody_is_on_both_sides_of_a_validation(seed, share):
    labels = draw(seed)
    person, codes = labels.groups.linked, labels.linked
    n_people = len(set(person[codes >= 0]))
    if not 0 < round(share * n_people) < n_people:
        with pytest.raises(ValueError, match=f"{n_people} groups of linked rows with a label"):
            hold_out(labels, share, np.random.default_rng(seed))
        return
    left, held, target = hold_out(labels, share, np.random.default_rng(seed))
    assert len(set(person[held])) == round(share * n_people)
    np.testing.assert_array_equal(target, codes[held])
    assert (target >= 0).all()
    check_apart(labels, left, held)


def test_one_table_may_have_groups():
    X = np.hstack([DATA.linked["view_0"], DATA.linked["view_1"]])
    n, person = DATA.linked["view_0"].shape[1], np.arange(len(X)) // 4
    slices = {"view_0": slice(0, n), "view_1": slice(n, None)}
    model = MultiViewClassifier(**SMALL, n_estimators=2, random_state=0)
    found = StackedViews(model, slices).fit(X, DATA.linked_target, groups=person)
    expected = model.fit(DATA.linked, DATA.linked_target, groups=person)
    np.testing.assert_array_equal(found.predict_proba(X), expected.predict_proba(DATA.linked))


def fit_inputs(seed=0, **parameters):
    """A fit of 36 linked rows of 9 people, and of unaligned rows of the same people."""
    person = np.random.default_rng(seed).permutation(np.arange(36) % 9)
    model = MultiViewClassifier(**{**SMALL, "n_estimators": 3, "random_state": seed, **parameters})
    groups = {"groups": person, "unaligned_groups": {"view_1": np.arange(40) % 12}}
    more = {"unaligned": DATA.views, "unaligned_y": {"view_1": DATA.target["view_1"]}}
    linked = {name: X[:36] for name, X in DATA.linked.items()}
    return model, model._inputs(linked, DATA.linked_target[:36], **more, **groups)


@pytest.mark.parametrize(("seed", "fraction"), ((0, None), (1, 0.3), (2, 0.3)))
def test_a_member_trains_on_nobody_whom_it_leaves_out(seed, fraction):
    _, inputs = fit_inputs(seed, validation_fraction=fraction)
    labels, validation = inputs.labels, set()
    person, others = labels.groups.linked, labels.groups.unaligned["view_1"]
    everybody = labels.group_numbers
    # Predictors are fitted to the labels of the fold, too, and never to those of a validation.
    known = set(everybody[labels.codes >= 0])
    if fraction is not None:
        validation = set(person[inputs.validation.rows])
        assert len(validation) > 0
    assert not known & validation
    for member in EnsembleFit(inputs).members:
        assert member.validation is inputs.validation
        held = set(everybody[member.held_out])
        assert len(held) > 0
        trained = set(person[member.labels.linked >= 0])
        trained |= set(others[member.labels.unaligned["view_1"] >= 0])
        assert trained == known - held
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
