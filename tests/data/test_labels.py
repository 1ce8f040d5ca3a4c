"""Labels and groups of rows, as people pass them."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from hotview._validation import ViewTable, check_tables
from hotview.data.labels import encode_groups, encode_labels, read_labels
from hotview.data.table_file import MISSING


def tables(sizes):
    return {name: ViewTable(np.zeros((n, 2))) for name, n in sizes.items()}


def encode(y, unaligned_y=None, marker=-1, sizes=None):
    """Labels of the rows of view "a", or of the views that have unaligned rows."""
    linked = tables(dict.fromkeys(sizes or "a", len(y)))
    return encode_labels(y, linked, unaligned_y, tables(sizes or {}), marker)


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
    [found] = labels.codes
    assert found.tolist() == codes
    assert found.dtype == np.int64
    assert labels.text_gaps == {}
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
    assert encode(y, marker=marker).codes[0].tolist() == codes


def test_classes_are_those_of_all_labels():
    labels = encode([2, -1], {"y": [0, 2, -1], "b": [np.nan]}, sizes={"y": 3, "b": 1, "c": 5})
    assert labels.classes.tolist() == [0, 2]
    # In every view, linked rows come first; views without labels of their own have gaps.
    own = [[0, 1, -1], [-1], [-1] * 5]
    assert [codes.tolist() for codes in labels.codes] == [[1, -1, *codes] for codes in own]
    assert labels.found == [{0, 1}, {1}, {1}]
    alone = encode_labels(None, {}, {"b": [3, 1]}, tables({"c": 1, "b": 2}), None)
    assert [codes.tolist() for codes in alone.codes] == [[-1], [1, 0]]


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


def group(groups, unaligned_groups=None, n=4, sizes=None):
    linked = tables({"a": n, "b": n}) if n else {}
    return encode_groups(groups, linked, unaligned_groups, tables(sizes or {}))


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
        assert [same(found) for found in group(groups)] == [expected] * 2


def test_views_share_names_and_rows_without_groups_are_their_own():
    a, b = group(["x", "y", "x", "z"], {"b": ["z", None, "x"]}, sizes={"b": 3, "a": 2})
    assert b.tolist() == [0, 1, 0, 2, 2, 3, 0]
    assert a[:4].tolist() == [0, 1, 0, 2]
    assert len({*a, *b}) == 6
    [alone] = group(None, {"b": [1, 1, 2]}, n=0, sizes={"b": 3})
    assert alone.tolist() == [0, 0, 1]
    assert group(None) is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    (
        ({"groups": [1, 2]}, "groups to hold one group for each of the 4 rows, but it holds 2"),
        ({"groups": [[1], [2], [3], [4]]}, "groups to be 1-D, one group per row"),
        ({"groups": [1, 1, 2, 2], "n": 0}, "Xs is None. Pass unaligned_groups"),
        ({"groups": None, "unaligned_groups": [1]}, "a dict of groups by view, but it is a list"),
        ({"groups": None, "unaligned_groups": {"c": [1]}}, "it groups 'c'. Pass that view's rows"),
        (
            {"groups": [1, 1, 2, 2], "unaligned_groups": {"a": ["1"]}, "sizes": {"a": 1}},
            "some are text and some are numbers. Convert",
        ),
        ({"groups": np.zeros(4, "datetime64[s]")}, "numbers or text, but its dtype is datetime"),
    ),
)
def test_what_names_no_groups_is_refused(arguments, message):
    with pytest.raises((ValueError, TypeError), match=message):
        group(**arguments)


def test_groups_in_another_order_than_their_rows_are_refused():
    frames = check_tables({name: pd.DataFrame(np.zeros((3, 2)), list("pqr")) for name in "ab"})
    with pytest.raises(ValueError, match="row labels of view 'a' and of groups differ"):
        encode_groups(pd.Series([1, 1, 2], list("rqp")), frames, None, {})
