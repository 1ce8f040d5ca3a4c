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
    check_all_known,
    encode_labels,
    hide,
    hold_out,
    number_labels,
    read_labels,
    replace_prior,
    split_folds,
)


def encode(y, unaligned_y=None, marker=-1, sizes=None):
    unaligned = {name: ViewTable(np.zeros((n, 2))) for name, n in (sizes or {}).items()}
    return encode_labels(y, len(y), unaligned_y, unaligned, marker)


NA = pd.NA


@pytest.mark.parametrize(
    ("y", "classes", "codes"),
    (
        ([5, 3, 5], [3, 5], [1, 0, 1]),
        ([5, -1, 3], [3, 5], [1, -1, 0]),
        ([5.0, np.nan, 3.0], [3.0, 5.0], [1, -1, 0]),
        ([5, None, 3], [3, 5], [1, -1, 0]),
        ([5, float("nan"), 3], [3, 5], [1, -1, 0]),
        ([-1.0, 2.0, 0.0], [0.0, 2.0], [-1, 1, 0]),
        (["b", "a", "b"], ["a", "b"], [1, 0, 1]),
        (["b", None, "a"], ["a", "b"], [1, -1, 0]),
        (np.array(["b", np.nan, "a"], dtype=object), ["a", "b"], [1, -1, 0]),
        (["-1", "a", "b"], ["-1", "a", "b"], [0, 1, 2]),  # text is never the number −1
        ([True, False, True], [False, True], [1, 0, 1]),
        ([True, None, False], [False, True], [1, -1, 0]),
        (np.array([5, -1, 3], dtype=object), [3, 5], [1, -1, 0]),
        (np.array([5, 250, 3], np.uint8), [3, 5, 250], [1, 2, 0]),
        (pd.array([5, NA, 3], dtype="Int64"), [3, 5], [1, -1, 0]),
        (pd.Series(["b", NA, "a"], dtype="string"), ["a", "b"], [1, -1, 0]),
        (pd.array([True, NA, False], dtype="boolean"), [False, True], [1, -1, 0]),
        (pd.Categorical(["b", None, "a"], categories=["a", "b", "c"]), ["a", "b"], [1, -1, 0]),
        (pd.Series([5, 3, 5], index=[7, 8, 9]), [3, 5], [1, 0, 1]),
        (np.array([5, NA, 3], dtype=object), [3, 5], [1, -1, 0]),
        (pl.Series([5, None, 3]), [3, 5], [1, -1, 0]),
        (pl.Series(["b", None, "a"]), ["a", "b"], [1, -1, 0]),
        (torch.tensor([5, -1, 3]), [3, 5], [1, -1, 0]),
        (range(3), [0, 1, 2], [0, 1, 2]),
    ),
    ids=range(24),
)
def test_labels_of_every_kind(y, classes, codes):
    labels = encode(y)
    assert labels.classes.tolist() == classes
    assert labels.linked.tolist() == codes
    assert labels.linked.dtype == np.int64
    assert labels.unaligned == {}


@pytest.mark.parametrize(
    ("y", "marker", "codes"),
    (
        ([5, 0, 3], 0, [1, -1, 0]),
        ([-1, 0, 1], 0, [0, -1, 1]),
        (["b", "?", "a"], "?", [1, -1, 0]),
        (["b", None, "?"], "?", None),
        ([-1, 1, 1], None, [0, 1, 1]),
        ([-1.0, np.nan, 1.0], None, [0, -1, 1]),
        ([5, 3, 5], "?", [1, 0, 1]),
        ([5, 3, 5], np.nan, [1, 0, 1]),
    ),
)
def test_any_value_can_mark_a_gap(y, marker, codes):
    if codes is None:
        with pytest.raises(ValueError, match="one class, 'b'"):
            encode(y, marker=marker)
    else:
        assert encode(y, marker=marker).linked.tolist() == codes


def test_labels_are_not_changed():
    y = np.array([5.0, -1.0, np.nan, 3.0])
    objects = np.array(["b", None, "a"], dtype=object)
    encode(y)
    encode(objects)
    np.testing.assert_array_equal(y, [5.0, -1.0, np.nan, 3.0])
    assert objects.tolist() == ["b", None, "a"]


def test_classes_are_those_of_all_labels():
    labels = encode([2, -1], {"a": [0, 2, -1], "b": [np.nan]}, sizes={"a": 3, "b": 1, "c": 5})
    assert labels.classes.tolist() == [0, 2]
    assert labels.linked.tolist() == [1, -1]
    assert {name: codes.tolist() for name, codes in labels.unaligned.items()} == {
        "a": [0, 1, -1],
        "b": [-1],
    }


def test_a_view_called_y_keeps_its_own_labels():
    labels = encode([0, 1], {"y": [1, 1, 0]}, sizes={"y": 3})
    assert labels.linked.tolist() == [0, 1]
    assert labels.unaligned["y"].tolist() == [1, 1, 0]


@pytest.mark.parametrize(
    ("y", "message"),
    (
        ([0, 0], "all are of one class, 0"),
        (["a", "a", None], "all are of one class, 'a'"),
        ([-1, -1], "no row has a label"),
        ([None, None], "no row has a label"),
        ([0.5, 1.0], r"Unknown label type: continuous.*such as 0\.5\. Regression is not offered"),
        ([0.0, np.inf], "infinity"),
        ([-1, 1, -1], r"only -1 and 1.*unlabeled_marker=None.*NaN"),
        ([-1.0, 1.0, np.nan], "only -1 and 1"),
        (["a", None, 1], r"mixes text with 1 \(int\)"),
        ([[0, 1], [1, 0]], r"1-D.*\(2, 2\).*argmax"),
        ([1j, 2j], "dtype is complex128"),
        (np.array(["2020-01-01", "2021-01-01"], "datetime64[D]"), "dtype is datetime64"),
    ),
    ids=range(12),
)
def test_labels_that_cannot_be_classes(y, message):
    with pytest.raises(ValueError, match=message):
        encode(y)


def test_zero_and_minus_one_are_not_ambiguous():
    assert encode([-1, 1, 0]).classes.tolist() == [0, 1]
    with pytest.raises(ValueError, match="one class, 0"):
        encode([-1, 0, 0])


def test_what_does_not_belong_together():
    with pytest.raises(ValueError, match=r"\['a'\], but it labels 'b'"):
        encode([0, 1], {"b": [0]}, sizes={"a": 1})
    with pytest.raises(ValueError, match="some are text and some are numbers"):
        encode([0, 1], {"a": ["0"]}, sizes={"a": 1})
    with pytest.raises(ValueError, match="each of the 2 rows, but it holds 1"):
        encode([0, 1], {"a": [0]}, sizes={"a": 2})
    with pytest.raises(TypeError, match=r"unaligned_y to be a dict of labels by view.*tuple"):
        encode([0, 1], ([0],), sizes={"a": 1})


def test_read_labels_gives_the_known_ones():
    found = read_labels("y", [3, -1, None, 5], 4, -1)
    labels, known = found.values, found.known
    assert labels.tolist() == [3, 5]
    assert known.tolist() == [True, False, False, True]
    with pytest.raises(ValueError, match=r"validation's y to hold a label for every row.*None"):
        read_labels("validation's y", None, 4, -1)


def test_number_labels():
    classes = np.array([2, 4, 9])
    assert number_labels(np.array([4, 9, 1, 5, 99, 2]), classes).tolist() == [1, 2, -1, -1, -1, 0]
    assert number_labels(np.empty(0), classes).tolist() == []
    assert number_labels(np.array(["b", "z"]), np.array(["a", "b"])).tolist() == [1, -1]
    with pytest.raises(ValueError, match="some are text"):
        number_labels(np.array(["4"]), classes)


# holding out


def make_labels(counts, n_unknown=0, seed=0):
    codes = np.repeat(np.arange(len(counts)), counts)
    codes = np.concatenate([codes, np.full(n_unknown, -1)])
    linked = np.random.default_rng(seed).permutation(codes)
    return Labels(np.arange(len(counts)), linked, {"a": np.array([0, 1])})


def test_held_out_labels_are_hidden_and_given_back():
    labels = make_labels([20, 10], n_unknown=7)
    before = labels.linked.copy()
    left, rows, target = hold_out(labels, 0.3, np.random.default_rng(0))
    assert len(rows) == 9
    assert len(set(rows)) == 9
    np.testing.assert_array_equal(target, before[rows])
    assert (target >= 0).all()
    assert (left.linked[rows] == -1).all()
    others = np.setdiff1d(np.arange(37), rows)
    np.testing.assert_array_equal(left.linked[others], before[others])
    np.testing.assert_array_equal(labels.linked, before)
    assert left.unaligned["a"].tolist() == [0, 1]
    assert left.classes is labels.classes


@pytest.mark.parametrize("seed", range(5))
def test_every_class_is_held_out_alike(seed):
    _, _, target = hold_out(make_labels([60, 30, 10]), 0.3, np.random.default_rng(seed))
    assert np.bincount(target).tolist() == [18, 9, 3]


@pytest.mark.parametrize("counts", ([20, 1], [5, 5, 5, 5]))
def test_classes_that_cannot_be_split_are_drawn_at_random(counts):
    labels = make_labels(counts)
    share = 2 / sum(counts)
    drawn = {tuple(hold_out(labels, share, np.random.default_rng(s))[1]) for s in range(5)}
    assert len(drawn) == 5
    assert all(len(rows) == 2 for rows in drawn)


def test_the_generator_decides():
    labels = make_labels([30, 30])
    first, again, other = (hold_out(labels, 0.2, np.random.default_rng(s))[1] for s in (0, 0, 1))
    np.testing.assert_array_equal(first, again)
    assert set(first) != set(other)


@pytest.mark.parametrize("share", (0.0, 0.01, 0.99, 1.0))
def test_labels_are_left_on_both_sides(share):
    with pytest.raises(ValueError, match=f"both sides, but {share} of 20 linked rows with a label"):
        hold_out(make_labels([10, 10], n_unknown=50), share, np.random.default_rng(0))


def test_hidden_labels_are_unknown_and_others_stay():
    labels = make_labels([20, 10], n_unknown=7)
    labels = replace(labels, unaligned={**labels.unaligned, "b": np.array([-1, 1, 0])})
    rows, before = np.array([3, 30, 8, 38, 40, 41]), labels.codes
    hidden = hide(labels, rows)  # three linked rows, the last one of a, two of b
    assert (hidden.codes[rows] == -1).all()
    others = np.setdiff1d(np.arange(42), rows)
    np.testing.assert_array_equal(hidden.codes[others], before[others])
    np.testing.assert_array_equal(labels.codes, before)
    assert hidden.unaligned["a"].tolist() == [0, -1]
    assert hidden.unaligned["b"].tolist() == [-1, -1, -1]
    assert hidden.classes is labels.classes


def test_rows_are_numbered_linked_ones_first_then_view_by_view():
    own = {"b": np.array([1, -1]), "a": np.array([0])}
    groups = RowGroups(np.array([5, 6]), {"a": np.array([7]), "b": np.array([8, 9])})
    labels = Labels(np.arange(2), np.array([-1, 0]), own)
    assert labels.codes.tolist() == [-1, 0, 1, -1, 0]
    assert labels.group_numbers is None
    assert replace(labels, groups=groups).group_numbers.tolist() == [5, 6, 8, 9, 7]


def test_hiding_nothing_changes_nothing():
    labels, no_rows = make_labels([5, 5]), np.empty(0, dtype=np.int64)
    np.testing.assert_array_equal(hide(labels, no_rows).codes, labels.codes)


# folds


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
    assert rows.dtype == np.int64
    assert len(set(rows.tolist())) == len(rows)
    assert len(rows) > sum(n for n in counts if n > 1) - n_folds
    assert (labels.codes[rows] >= 0).all()
    per_class = np.array([np.bincount(labels.codes[h], minlength=len(counts)) for h in folds])
    for code, n in enumerate(counts):
        left = [(hide(labels, fold).codes == code).sum() for fold in folds]
        assert min(left) > 0 or n == 0
        assert n != 1 or per_class[:, code].sum() == 0  # the only label is never hidden
    assert (per_class.max(axis=0) - per_class.min(axis=0) <= 1).all()


def test_the_generator_decides_the_folds():
    labels = make_labels([30, 30])
    first, again, other = (
        [fold.tolist() for fold in split_folds(labels, 3, np.random.default_rng(s))]
        for s in (0, 0, 1)
    )
    assert first == again
    assert first != other
    assert all(fold == sorted(fold) for fold in first)


def test_labels_of_one_view_are_left_out_too():
    labels = Labels(np.arange(2), np.full(6, -1), {"a": np.array([0, 1, 0, 1])})
    folds = split_folds(labels, 2, np.random.default_rng(0))
    assert sorted(np.concatenate(folds).tolist()) == [6, 7, 8, 9]
    for fold in folds:
        assert sorted(labels.codes[fold].tolist()) == [0, 1]
        assert (hide(labels, fold).unaligned["a"] >= 0).sum() == 2


@pytest.mark.parametrize(
    "y",
    (
        ["x", "y", float("nan"), "x"],
        ["x", "y", None, "x"],
        ["x", "y", -1, "x"],
        ("x", "y", -1, "x"),
        np.array(["x", "y", -1, "x"], dtype=object),
    ),
    ids=("nan", "none", "marker", "tuple", "array"),
)
def test_gaps_among_text_are_gaps(y):
    found = read_labels("y", y, 4, -1)
    labels, known = found.values, found.known
    assert labels.tolist() == ["x", "y", "x"]
    assert known.tolist() == [True, True, False, True]


GAPS = {"": 2, "nan": 1, "NaN": 1, "None": 1, "<NA>": 1, "NaT": 1}
GAPPY = ["x", "", "nan", "NaN", "None", "y", "<NA>", "NaT", "  "]


@pytest.mark.parametrize("kind", (list, np.array, lambda y: np.array(y, object), pd.Series))
def test_texts_of_missing_labels_are_gaps(kind):
    found = read_labels("y", kind(GAPPY), 9, -1)
    assert found.values.tolist() == ["x", "y"]
    assert np.flatnonzero(found.known).tolist() == [0, 5]
    assert found.text_gaps == GAPS


def test_every_way_in_which_missing_labels_become_text():
    missing = ["x", None, np.nan, "y"]
    made = [
        np.array(missing, dtype=str),
        np.array(missing, dtype=object).astype(str),
        pd.Series(missing).astype(str),
        pd.Series(missing, dtype="string").astype(object).map(str),
        pd.Series(missing).fillna(""),
        pd.Series([*map(pd.Timestamp, ["2020", None, None, "2021"])]).astype(str),
    ]
    for y in made:
        assert read_labels("y", y, 4, -1).known.tolist() == [True, False, False, True]


def test_such_texts_are_classes_where_nothing_else_is_a_gap():
    y = ["None", "mild", "none", None]
    found = read_labels("y", y, 4, None)
    assert found.values.tolist() == ["None", "mild", "none"]
    assert found.text_gaps == {}
    assert read_labels("y", y, 4, "mild").values.tolist() == ["none"]


def test_the_marker_is_no_other_text():
    found = read_labels("y", ["x", "", "y", "nan"], 4, "")
    assert (found.values.tolist(), found.text_gaps) == (["x", "y"], {"nan": 1})


def test_texts_that_only_contain_them_are_classes():
    y = ["nancy", "nano", "none", "nullify", "a ", "-"]
    assert read_labels("y", y, 6, -1).values.tolist() == y


@pytest.mark.parametrize("text", sorted({mark.strip() for mark in MISSING} - {"none"}))
def test_cells_that_mean_missing_in_files_do_so_in_labels(text):
    found = read_labels("y", ["x", text, "y"], 3, -1)
    assert (found.values.tolist(), found.text_gaps) == (["x", "y"], {text: 1})
    assert read_labels("y", ["x", text, "y"], 3, None).values.tolist() == ["x", text, "y"]


@pytest.mark.parametrize("frame", (pd.DataFrame, pl.DataFrame, pa.table))
def test_a_frame_is_not_one_dimensional(frame):
    with pytest.raises(ValueError, match=r"Expected y to be 1-D.* frame\['name'\]"):
        read_labels("y", frame({"state": ["x", None, "y"]}), 3, -1)


def test_gaps_are_counted_by_argument():
    found = encode(["x", "", "y"], {"a": ["x", "nan", "nan"], "b": ["y"]}, sizes={"a": 3, "b": 1})
    assert found.text_gaps == {"y": {"": 1}, "unaligned_y['a']": {"nan": 2}}
    assert found.linked.tolist() == [0, -1, 1]
    assert found.unaligned["a"].tolist() == [0, -1, -1]
    with pytest.raises(ValueError, match=r"one class, 'x'\. \(Texts such as '' and 'nan' count as"):
        encode(["x", "", "nan"])


def test_a_list_that_mixes_text_and_numbers_is_refused():
    with pytest.raises(ValueError, match="mixes text with 0"):
        read_labels("y", ["a", 0, "b"], 3, -1)


def test_the_labels_that_are_wrong_are_named():
    with pytest.raises(ValueError, match=r"Expected unaligned_y\['a'\] to hold one label"):
        read_labels("unaligned_y['a']", [0, 1], 3, -1)


def test_texts_of_missing_labels_cannot_be_scored():
    with pytest.raises(ValueError, match=r"1 of 3 have none, the first being row 1"):
        check_all_known(["x", "nan", "y"], 3, -1)


@pytest.mark.parametrize("gap", (-1, None, np.nan))
def test_rows_without_a_label_cannot_be_scored(gap):
    check_all_known([3, 5, 3], 3, -1)
    with pytest.raises(ValueError, match=r"2 of 4 have none, the first being row 1.*leave these"):
        check_all_known([3, gap, 5, gap], 4, -1)
    check_all_known([3, -1, 5], 3, None)


WHOLE = [3, None, 1, 2**53 + 1]


@pytest.mark.parametrize(
    "y",
    (
        pd.Series(WHOLE, dtype="Int64"),
        pd.array(WHOLE, dtype="Int64"),
        pd.Series(WHOLE, dtype="int64[pyarrow]"),
        pd.Series(pd.Categorical(pd.array(WHOLE, dtype="Int64"))),
        pl.Series(WHOLE),
        pa.array(WHOLE),
        pa.chunked_array([WHOLE]),
        WHOLE,
    ),
    ids=("Int64", "array", "arrow", "categories", "polars", "pyarrow", "chunks", "list"),
)
def test_whole_numbers_with_gaps_stay_whole_numbers(y):
    found = read_labels("y", y, 4, -1)
    labels, known = found.values, found.known
    assert labels.dtype.kind == "i"
    assert labels.tolist() == [3, 1, 2**53 + 1]
    assert known.tolist() == [True, False, True, True]


def test_switches_and_text_with_gaps_keep_their_kind():
    found = read_labels("y", pd.Series([True, None, False], dtype="boolean"), 3, -1)
    labels, known = found.values, found.known
    assert labels.tolist() == [True, False]
    assert labels.dtype == bool
    found = read_labels("y", pl.Series(["a", None, "b"]), 3, -1)
    labels, known = found.values, found.known
    assert labels.tolist() == ["a", "b"]
    assert known.tolist() == [True, False, True]


def test_a_class_of_two_lines_is_refused():
    with pytest.raises(ValueError, match=r"a class has a line break: 'ill\\n7,well'"):
        encode(["ill", "well", "ill\n7,well"])


# prior probabilities

LOG_PRIOR = np.log([[0.7, 0.2, 0.1], [0.5, 0.3, 0.2]])
CLASSES = np.array(["x", "y", "z"])


def prior_of(class_prior=None, class_weight=None, classes=CLASSES):
    return np.exp(replace_prior(LOG_PRIOR, class_prior, class_weight, classes))


def test_without_parameters_the_prior_is_that_of_the_labels():
    np.testing.assert_allclose(prior_of(), np.exp(LOG_PRIOR))


def test_a_given_prior_is_that_of_all_views():
    given = {"z": 0.5, "x": 0.3, "y": 0.2}  # in any order
    np.testing.assert_allclose(prior_of(given), [[0.3, 0.2, 0.5]] * 2)
    np.testing.assert_allclose(prior_of("uniform"), np.full((2, 3), 1 / 3))


def test_numbers_may_be_classes():
    given = {0: 0.3, 1: 0.2, 5: 0.5}
    np.testing.assert_allclose(prior_of(given, classes=np.array([0, 1, 5]))[0], [0.3, 0.2, 0.5])


def test_weights_multiply_the_prior():
    expected = np.exp(LOG_PRIOR) * [1, 10, 2]
    expected /= expected.sum(axis=1, keepdims=True)
    np.testing.assert_allclose(prior_of(None, {"y": 10, "z": 2}), expected)
    found = prior_of({"x": 0.5, "y": 0.25, "z": 0.25}, {"y": 4})
    np.testing.assert_allclose(found, [[0.5 / 1.75, 1 / 1.75, 0.25 / 1.75]] * 2)


def test_balanced_weights_are_a_uniform_prior():
    np.testing.assert_array_equal(prior_of(None, "balanced"), prior_of("uniform"))
    given = {"x": 0.5, "y": 0.25, "z": 0.25}
    np.testing.assert_allclose(prior_of(given, "balanced"), [[0.5, 0.25, 0.25]] * 2)


def test_a_class_of_weight_0_has_nearly_no_prior():
    found = replace_prior(LOG_PRIOR, None, {"x": 0}, CLASSES)
    assert np.isfinite(found).all()
    assert (np.exp(found[:, 0]) < 1e-11).all()


@pytest.mark.parametrize(
    "given",
    (
        {"x": 0.5, "y": 0.5},
        {"x": 0.5, "y": 0.3, "z": 0.1, "w": 0.1},
        {"x": 0.5, "y": 0.3, "z": 0.1},
        {"x": 0.5, "y": 0.5, "z": 0.0},
        {"x": 1.5, "y": -0.3, "z": -0.2},
        {"x": np.nan, "y": 0.5, "z": 0.5},
        {"x": "0.5", "y": 0.25, "z": 0.25},
        "equal",
        [0.5, 0.25, 0.25],
        0.5,
    ),
    ids=str,
)
def test_priors_that_cannot_be_used_are_refused(given):
    message = r"class_prior to be None, 'uniform' or positive probabilities of the classes \['x'"
    with pytest.raises(ValueError, match=message):
        prior_of(given)


@pytest.mark.parametrize("kind", (np.float32, np.float64))
def test_probabilities_may_be_of_numpy(kind):
    given = {"x": kind(0.5), "y": kind(0.25), "z": kind(0.25)}
    np.testing.assert_allclose(prior_of(given)[0], [0.5, 0.25, 0.25])
    with pytest.raises(ValueError, match="class_prior to be None"):
        prior_of(np.array([0.5, 0.25, 0.25]))
