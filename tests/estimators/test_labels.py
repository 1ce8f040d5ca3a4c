from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview._validation import ViewTable
from hotview.datasets.readers.tables import MISSING
from hotview.estimators.groups import RowGroups
from hotview.estimators.labels import (
    Labels,
    encode_labels,
    hide,
    hold_out,
    read_labels,
    replace_prior,
    split_folds,
)


def encode(y, unaligned_y=None, marker=-1, sizes=None):
    unaligned = {name: ViewTable(np.zeros((n, 2))) for name, n in (sizes or {}).items()}
    return encode_labels(y, len(y), unaligned_y, unaligned, marker)


WHOLE = [3, None, 1, 2**53 + 1]  # whole numbers with gaps stay whole numbers
LARGE = ([1, 3, 2**53 + 1], [1, -1, 0, 2])


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    (
        ([5.0, np.nan, 3.0], [3.0, 5.0], [1, -1, 0]),
        ([-1.0, 2.0, 0.0], [0.0, 2.0], [-1, 1, 0]),
        (["b", float("nan"), "a"], ["a", "b"], [1, -1, 0]),
        (("b", -1, "a"), ["a", "b"], [1, -1, 0]),
        (["-1", "a", "b"], ["-1", "a", "b"], [0, 1, 2]),  # text is never the number −1
        ([True, None, False], [False, True], [1, -1, 0]),
        (np.array([5, -1, 3], dtype=object), [3, 5], [1, -1, 0]),
        (np.array([5, 250, 3], np.uint8), [3, 5, 250], [1, 2, 0]),
        (np.array([5, pd.NA, 3], dtype=object), [3, 5], [1, -1, 0]),
        (pd.array([True, pd.NA, False], dtype="boolean"), [False, True], [1, -1, 0]),
        (pd.Categorical(["b", None, "a"], categories=["a", "b", "c"]), ["a", "b"], [1, -1, 0]),
        (pd.Series([5, 3, 5], index=[7, 8, 9]), [3, 5], [1, 0, 1]),
        (pd.Series(["b", pd.NA, "a"], dtype="string"), ["a", "b"], [1, -1, 0]),
        (pl.Series(["b", None, "a"]), ["a", "b"], [1, -1, 0]),
        (torch.tensor([5, -1, 3]), [3, 5], [1, -1, 0]),
        (range(3), [0, 1, 2], [0, 1, 2]),
        (WHOLE, *LARGE),
        (pd.Series(WHOLE, dtype="Int64"), *LARGE),
        (pd.Series(WHOLE, dtype="int64[pyarrow]"), *LARGE),
        (pd.Series(pd.Categorical(pd.array(WHOLE, dtype="Int64"))), *LARGE),
        (pl.Series(WHOLE), *LARGE),
        (pa.chunked_array([WHOLE]), *LARGE),
    ),
    ids=range(22),
)
def test_labels_of_every_kind(y, classes, codes):
    before = list(y)
    labels = encode(y)
    assert labels.classes.tolist() == classes
    assert [type(c) for c in labels.classes.tolist()] == [type(c) for c in classes]
    assert labels.linked.tolist() == codes
    assert labels.linked.dtype == np.int64
    assert labels.unaligned == {}
    assert repr(list(y)) == repr(before)


@pytest.mark.parametrize(
    ("y", "marker", "codes"),
    (
        ([-1, 0, 1], 0, [0, -1, 1]),
        (["b", "?", "a"], "?", [1, -1, 0]),
        ([-1.0, np.nan, 1.0], None, [0, -1, 1]),
        ([5, 3, 5], np.nan, [1, 0, 1]),
    ),
)
def test_any_value_can_mark_a_gap(y, marker, codes):
    assert encode(y, marker=marker).linked.tolist() == codes


def test_classes_are_those_of_all_labels():
    labels = encode([2, -1], {"y": [0, 2, -1], "b": [np.nan]}, sizes={"y": 3, "b": 1, "c": 5})
    assert labels.classes.tolist() == [0, 2]
    assert labels.linked.tolist() == [1, -1]
    own = {name: codes.tolist() for name, codes in labels.unaligned.items()}
    assert own == {"y": [0, 1, -1], "b": [-1]}


@pytest.mark.parametrize(
    ("y", "message"),
    (
        (["a", "a", None], "all are of one class, 'a'"),
        (["x", "", "nan"], r"one class, 'x'\. \(Texts such as '' and 'nan' count as"),
        ([-1, -1], "no row has a label"),
        ([0.5, 1.0], r"Unknown label type: continuous.*such as 0\.5\. Regression is not offered"),
        ([0.0, np.inf], "infinity"),
        ([-1, 1, -1], r"only -1 and 1.*unlabeled_marker=None.*NaN"),
        (["a", None, 1], r"mixes text with 1 \(int\)"),
        ([[0, 1], [1, 0]], r"1-D.*\(2, 2\).*argmax"),
        ([1j, 2j], "dtype is complex128"),
        (np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), "dtype is datetime64"),
        (["ill", "well", "ill\n7,well"], r"a class has a line break: 'ill\\n7,well'"),
    ),
    ids=range(11),
)
def test_labels_that_cannot_be_classes(y, message):
    with pytest.raises(ValueError, match=message):
        encode(y)


@pytest.mark.parametrize(
    ("unaligned_y", "sizes", "error", "message"),
    (
        ({"b": [0]}, {"a": 1}, ValueError, r"\['a'\], but it labels 'b'.*Pass that view's rows"),
        ({"a": ["0"]}, {"a": 1}, ValueError, "some are text and some are numbers"),
        ({"a": [0]}, {"a": 2}, ValueError, r"Expected unaligned_y\['a'\] to hold one label.* 1"),
        ({"a": [0.5]}, {"a": 1}, ValueError, r"unaligned_y\['a'\].*fractions"),
        (([0],), {"a": 1}, TypeError, r"unaligned_y to be a dict of labels by view.*tuple"),
    ),
)
def test_what_does_not_belong_together(unaligned_y, sizes, error, message):
    with pytest.raises(error, match=message):
        encode([0, 1], unaligned_y, sizes=sizes)


def make_labels(counts, n_unknown=0, seed=0):
    codes = np.repeat(np.arange(len(counts)), counts)
    codes = np.concatenate([codes, np.full(n_unknown, -1)])
    linked = np.random.default_rng(seed).permutation(codes)
    return Labels(np.arange(len(counts)), linked, {"a": np.array([0, 1])})


def test_held_out_labels_are_hidden_and_given_back():
    labels = make_labels([20, 10], n_unknown=7)
    before = labels.linked.copy()
    left, rows, target = hold_out(labels, 0.3, np.random.default_rng(0))
    assert len(set(rows)) == len(rows) == 9
    np.testing.assert_array_equal(target, before[rows])
    assert np.bincount(target).tolist() == [6, 3]  # of every class alike
    assert (left.linked[rows] == -1).all()
    others = np.setdiff1d(np.arange(37), rows)
    np.testing.assert_array_equal(left.linked[others], before[others])
    np.testing.assert_array_equal(labels.linked, before)
    assert left.unaligned["a"].tolist() == [0, 1]
    assert left.classes is labels.classes
    # Classes that are too small to be split are drawn at random.
    few, generators = make_labels([20, 1]), map(np.random.default_rng, range(5))
    assert len({tuple(hold_out(few, 2 / 21, generator)[1]) for generator in generators}) == 5
    for share in (0.01, 0.99):
        with pytest.raises(ValueError, match=f"both sides, but {share} of 30 linked rows with a"):
            hold_out(labels, share, np.random.default_rng(0))


def test_rows_are_numbered_linked_ones_first_then_view_by_view():
    own = {"b": np.array([1, -1]), "a": np.array([0])}
    groups = RowGroups(np.array([5, 6]), {"a": np.array([7]), "b": np.array([8, 9])})
    labels = Labels(np.arange(2), np.array([-1, 0]), own)
    assert labels.codes.tolist() == [-1, 0, 1, -1, 0]
    assert labels.group_numbers is None
    assert replace(labels, groups=groups).group_numbers.tolist() == [5, 6, 8, 9, 7]


@settings(max_examples=100, deadline=None)
@given(
    counts=st.lists(st.integers(0, 9), min_size=2, max_size=5),
    n_unknown=st.integers(0, 5),
    n_folds=st.integers(2, 7),
    seed=st.integers(0, 100),
)
def test_folds_are_equal_disjoint_and_leave_every_class_a_label(counts, n_unknown, n_folds, seed):
    labels = make_labels(counts, n_unknown, seed)
    n_own = int(np.random.default_rng(seed).integers(0, len(labels.linked) + 1))
    linked, own = np.split(labels.linked, [n_own])  # some of the rows are of one view alone
    labels = replace(labels, linked=linked, unaligned={"a": own})
    folds = split_folds(labels, n_folds, np.random.default_rng(seed))
    assert len(folds) == n_folds
    assert len({len(fold) for fold in folds}) == 1
    rows = np.concatenate(folds)
    assert len(set(rows.tolist())) == len(rows)
    assert len(rows) > sum(n for n in counts if n > 1) - n_folds
    assert (labels.codes[rows] >= 0).all()
    per_class = np.array([np.bincount(labels.codes[h], minlength=len(counts)) for h in folds])
    for code, n in enumerate(counts):
        left = [(hide(labels, fold).codes == code).sum() for fold in folds]
        assert min(left) > 0 or n == 0
        assert n != 1 or per_class[:, code].sum() == 0  # the only label is never hidden
    assert (per_class.max(axis=0) - per_class.min(axis=0) <= 1).all()


@pytest.mark.parametrize("text", sorted({mark.strip() for mark in MISSING} - {"none"}))
def test_cells_that_mean_missing_in_files_do_so_in_labels(text):
    found = read_labels("y", ["x", text, "y"], 3, -1)
    assert (found.values.tolist(), found.text_gaps) == (["x", "y"], {text: 1})
    # They are classes where nothing is a gap.
    assert read_labels("y", ["x", text, "y"], 3, None).values.tolist() == ["x", text, "y"]


def test_texts_of_missing_labels_are_gaps_unless_they_are_more_or_another_is_the_marker():
    found = read_labels("y", ["x", "", "nan", "  ", "y", "nan"], 6, -1)
    assert np.flatnonzero(found.known).tolist() == [0, 4]
    assert found.text_gaps == {"": 2, "nan": 2}
    assert read_labels("y", ["None", "mild", "none"], 3, "mild").values.tolist() == ["none"]
    y = ["nancy", "nano", "none", "nullify", "a ", "-"]  # which only contain them
    assert read_labels("y", y, 6, -1).values.tolist() == y


LOG_PRIOR = np.log([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
CLASSES = np.array(["x", "y", "z"])


def prior_of(class_prior=None, class_weight=None, classes=CLASSES):
    return np.exp(replace_prior(LOG_PRIOR, class_prior, class_weight, classes))


def test_a_given_prior_is_that_of_all_views():
    np.testing.assert_allclose(prior_of(), np.exp(LOG_PRIOR))  # without, it is that of the labels
    given = {"z": np.float32(0.5), "x": 0.3, "y": 0.2}  # in any order
    np.testing.assert_allclose(prior_of(given), [[0.3, 0.2, 0.5]] * 2)
    np.testing.assert_allclose(prior_of("uniform"), np.full((2, 3), 1 / 3))
    given = {0: 0.3, 1: 0.2, 5: 0.5}  # numbers may be classes
    np.testing.assert_allclose(prior_of(given, classes=np.array([0, 1, 5]))[0], [0.3, 0.2, 0.5])


def test_weights_multiply_the_prior():
    expected = np.exp(LOG_PRIOR) * [1, 10, 2]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prior_of(None, {"y": 10, "z": 2}), expected)
    given = {"x": 0.5, "y": 0.25, "z": 0.25}
    found = prior_of(given, {"y": 4})
    np.testing.assert_allclose(found, [[0.5 / 1.75, 1 / 1.75, 0.25 / 1.75]] * 2)
    # Balanced weights are a uniform prior, unless one is given.
    np.testing.assert_array_equal(prior_of(None, "balanced"), prior_of("uniform"))
    np.testing.assert_allclose(prior_of(given, "balanced"), [[0.5, 0.25, 0.25]] * 2)
    found = replace_prior(LOG_PRIOR, None, {"x": 0}, CLASSES)  # nearly none
    assert np.isfinite(found).all()
    assert (np.exp(found[:, 0]) < 1e-11).all()


def test_priors_that_cannot_be_used_are_refused():
    incomplete, too_little = {"x": 0.5, "y": 0.5}, {"x": 0.5, "y": 0.3, "z": 0.1}
    negative, text = {"x": 1.5, "y": -0.3, "z": -0.2}, {"x": "0.5", "y": 0.25, "z": 0.25}
    for prior in (incomplete, too_little, negative, text, np.array([0.5, 0.25, 0.25])):
        with pytest.raises(ValueError, match=r"class_prior.* positive prob.* classes \['x'"):
            prior_of(prior)
