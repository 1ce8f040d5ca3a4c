from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hotview.datasets import link_rows
from hotview.datasets.linking import align_rows

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


@given(st.lists(IDS, min_size=1, max_size=4))
def test_everybody_is_lined_up_once(columns):
    everybody, rows = align_rows({f"view_{s}": column for s, column in enumerate(columns)})
    assert sorted(everybody) == sorted(set().union(*columns))
    for s, column in enumerate(columns):
        where = rows[f"view_{s}"]
        there = where >= 0
        assert [column[i] for i in where[there]] == everybody[there].tolist()
        assert there.sum() == len(column)


def test_linked_rows_are_in_the_order_of_the_first_view():
    assert link_rows({"a": ["z", "b", "m"], "b": ["m", "z"]}).ids.tolist() == ["z", "m"]


def test_numbers_and_text_are_different_ids():
    assert link_rows({"a": [1, 2], "b": ["1", 2]}).ids.tolist() == [2]


@pytest.mark.parametrize("link", (link_rows, align_rows))
def test_an_id_that_comes_twice_is_refused(link):
    with pytest.raises(ValueError, match=r"view 'b'.*1 come more often: 'x'"):
        link({"a": ["x"], "b": ["x", "y", "x"]})


@pytest.mark.parametrize("missing", (None, float("nan")))
def test_a_missing_id_is_refused(missing):
    with pytest.raises(ValueError, match=r"view 'a'.*1 have none, the first being row 2"):
        link_rows({"a": ["x", missing], "b": ["x"]})


@pytest.mark.parametrize("function", (link_rows, align_rows))
def test_an_id_of_two_lines_is_refused(function):
    with pytest.raises(ValueError, match="the id of row 2 of view 'blood' has a line break"):
        function({"blood": ["anna", "bert\ncarl,1"], "scan": ["anna"]})
