from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse

from hotview.data.linking import (
    ID_DIFFERENCES,
    IdMatcher,
    align_rows,
    check_spellings,
    take_rows,
)
from hotview.datasets import link_rows

IDS = st.lists(st.integers(0, 12), unique=True, max_size=10)


@given(st.lists(IDS, min_size=1, max_size=4), st.sampled_from((2, 3, None)))
def test_linked_rows_are_those_of_ids_that_enough_views_have(columns, at_least):
    ids = {f"view_{s}": column for s, column in enumerate(columns)}
    found = link_rows(ids, at_least=at_least)
    n_views = Counter(key for column in columns for key in column)
    enough = len(columns) if at_least is None else at_least
    assert set(found.ids) == {key for key, n in n_views.items() if n >= enough}
    for name, column in ids.items():
        there = found.rows[name] >= 0
        assert [column[i] for i in found.rows[name][there]] == found.ids[there].tolist()
        assert set(found.ids[~there]).isdisjoint(column)
        rows = np.concatenate([found.rows[name][there], found.unaligned[name]])
        assert sorted(rows) == list(range(len(column)))  # nobody is lost, nobody counts twice
    for (a, b), n in link_rows(ids).pairs.items():
        assert n == len(set(ids[a]) & set(ids[b]))
    assert set(found.ids[found.complete]) == set(found.ids).intersection(*columns)
    everybody, rows = align_rows(ids)
    assert sorted(everybody) == sorted(n_views)
    for name, column in ids.items():
        there = rows[name] >= 0
        assert [column[i] for i in rows[name][there]] == everybody[there].tolist()
        assert there.sum() == len(column)


def test_linked_rows_are_in_the_order_of_the_first_view():
    assert link_rows({"a": ["z", "b", "m"], "b": ["m", "z"]}).ids.tolist() == ["z", "m"]
    assert link_rows({"a": [1, 2], "b": ["1", 2]}).ids.tolist() == [2]  # numbers are no text


@pytest.mark.parametrize("link", (link_rows, align_rows))
@pytest.mark.parametrize(
    ("first", "second", "message"),
    (
        (["x"], ["x", "y", "x"], "view 'b'.*1 come more often: 'x'"),
        (["x", None], ["x"], "view 'a'.*1 have none, the first being row 2"),
        (["x", float("nan")], ["x"], "view 'a'.*1 have none, the first being row 2"),
        (["anna", "bert\ncarl,1"], ["anna"], "the id of row 2 of view 'a' has a line break"),
    ),
)
def test_ids_that_identify_no_row_are_refused(link, first, second, message):
    with pytest.raises(ValueError, match=message):
        link({"a": first, "b": second})


@pytest.mark.parametrize("kind", (np.asarray, sparse.csr_array, lambda X: X.astype(np.float32)))
def test_rows_are_taken_and_nan_where_there_is_none(kind):
    X = kind(np.arange(1.0, 7).reshape(3, 2))
    assert take_rows(X, np.arange(3)) is X
    taken = take_rows(X, np.array([2, -1, 0]))
    np.testing.assert_array_equal(taken, [[5, 6], [np.nan, np.nan], [1, 2]])
    assert taken.dtype == X.dtype
    some = take_rows(X, np.array([2, 0]))
    np.testing.assert_array_equal(getattr(some, "toarray", lambda: some)(), [[5, 6], [1, 2]])
    assert np.isnan(take_rows(X, np.array([-1, -1]))).all()
    taken = take_rows(np.array([[1], [2]], dtype=np.int8), np.array([1, -1]))
    np.testing.assert_array_equal(taken, [[2], [np.nan]])  # whole numbers can be missing, too


SPELLINGS = {
    "zeros": ("0033743", "33743"),
    "zeros at the end": ("33743.0", "33743"),
    "case": ("P12a", "p12A"),
    "spaces": ("P 12", "P12 "),
}


@pytest.mark.parametrize(("first", "second"), SPELLINGS.values(), ids=SPELLINGS)
def test_ids_that_differ_in_spelling_are_refused_with_the_option(first, second):
    tables = {"view 'a'": [first, "q"], "view 'b'": [second, "q"], "labels.csv": ["q", None]}
    with pytest.raises(ValueError, match="1 more ids would match") as caught:
        check_spellings(tables)
    text = str(caught.value)
    assert f"such as {first!r} in view 'a' and {second!r} in view 'b'" in text
    found = next(d for d in ID_DIFFERENCES if f"match_ids=['{d}']" in text)
    assert "match_ids=['exact']" in text
    matcher = IdMatcher([found])
    assert matcher.spell(first) == matcher.spell(second) == first


def test_several_differences_are_named_together_if_they_leave_the_ids_of_a_table_apart():
    tables = {"a": ["P 007", "q1"], "b": ["p007", "Q1"]}
    with pytest.raises(ValueError, match=r"2 more ids.*match_ids=\['spaces', 'case'\]"):
        check_spellings(tables)
    check_spellings({"a": ["1", "01", "2"], "b": ["1", "01", "3"]})
    check_spellings({"a": ["1", "01"], "b": ["001"]})  # which of the two?
    with pytest.raises(ValueError, match=r"match_ids=\['case'\]"):
        check_spellings({"a": ["1", "01", "P"], "b": ["1", "01", "p"]})


def test_two_ids_that_become_the_same_do_not_hide_many_that_would_match():
    numbers = [str(i) for i in range(10, 30)]
    tables = {"a": [f"0{key}" for key in numbers], "b": numbers}
    with pytest.raises(ValueError, match=r"19 more ids.*match_ids=\['zeros'\]") as caught:
        check_spellings({**tables, "a": [*tables["a"], "10"]})
    assert "'010' and '10' in a would then be the same: correct them first." in str(caught.value)
    codes = {"a": ["aB", "Ab", "Cd", "cD"], "b": ["ab", "CD", "xY", "Xy"]}  # case tells codes apart
    check_spellings(codes)


@given(st.lists(st.lists(st.sampled_from("ABCDEF"), unique=True), min_size=1, max_size=3))
def test_ids_that_are_spelled_alike_are_never_refused(columns):
    check_spellings({str(s): column for s, column in enumerate(columns)})


@given(
    st.lists(st.text("0aA. 1", min_size=1), max_size=6), st.sets(st.sampled_from([*ID_DIFFERENCES]))
)
def test_ids_are_the_same_exactly_if_they_are_simplified_alike(ids, differences):
    matcher = IdMatcher(tuple(differences))
    for a in ids:
        for b in ids:
            same = matcher.spell(a) == matcher.spell(b)
            assert same == (matcher.simplify(a) == matcher.simplify(b))


def test_the_first_spelling_stays():
    matcher = IdMatcher(["zeros"])
    assert matcher.spell_all("a", ["007", None, "8"]) == ["007", None, "8"]
    assert matcher.spell_all("b", ["08.0", "7", "9"]) == ["8", "007", "9"]
    message = r"different ids in labels.csv, but '7' and '007' are the same.*match_ids with fewer"
    with pytest.raises(ValueError, match=message):
        IdMatcher(["zeros"]).spell_all("labels.csv", ["7", "8", "007"])
    for ignore in (["zero"], ["exact", "zeros"]):
        with pytest.raises(ValueError, match="match_ids"):
            IdMatcher(ignore)


def test_zeros_are_those_before_numbers():
    simple = {"000": "0", "007.00": "7", "-07": "-7", "P007": "P7", "sub-01_ses-10": "sub-1_ses-10"}
    same = ("0", "1.50", "1.05", "10.00.5", "a", "P100")
    for key, expected in {**simple, **dict(zip(same, same, strict=True))}.items():
        assert IdMatcher(["zeros"]).simplify(key) == expected
