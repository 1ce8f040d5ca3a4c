"""What is known about rows: links, labels and groups, and what stays of them."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from hotview._validation import check_tables
from hotview.data import encoder_data, labeled_data, validation_data
from hotview.data.arrays import data_of_tables
from tests.data.small_data import links_of, make_data


def in_lists(arrays):
    return [x.tolist() for x in arrays]


#: Individuals 0 and 1 are in both views, 2 in the first and 3 in the second one
LINKS = [[2, 0], [0, 1], [3, -1], [-1, 3]]


def small():
    """Labels of five individuals, of whom two are in no other view, and gaps."""
    return make_data([[2, -1, 0, 1, 1, -1], [0, 2, -1, 0]], LINKS)


def test_labels_of_linked_individuals_and_of_rows_in_one_view():
    data = small()
    assert data.names == ["a", "b"]
    assert data.target.tolist() == [0, 2, 1, 0]
    assert data.complete.tolist() == LINKS[:2]
    assert data.known.found == [{0, 1, 2}, {0, 2}]
    assert data.labels_per_view == [3, 2]
    assert in_lists(data.unlinked(s) for s in (0, 1)) == [[1, 4, 5], [2]]
    # Labels of individuals who lack a view are their view's own.
    assert in_lists(data.labeled_in(s) for s in (0, 1)) == [[3, 4], [3]]
    everybody = make_data([[0, 1], [0, 1]], links_of(2))
    assert everybody.complete is everybody.links


def test_individuals_are_numbered_linked_ones_first_then_view_by_view():
    data = make_data([[-1, 0, 1, 0], [-1, 0, 2, -1]], links_of(2))
    rows = data.labeled()
    assert rows.tolist() == [[1, 1], [2, -1], [3, -1], [-1, 2]]
    assert data.known.of(rows).tolist() == [0, 1, 0, 2]
    assert data.groups_of(rows) is None
    grouped = make_data(data.codes, links_of(2), (np.array([5, 6, 7, 6]), np.array([5, 6, 8, 9])))
    assert grouped.groups_of(rows).tolist() == [6, 7, 6, 8]


def test_hidden_labels_are_left_out_of_linked_individuals_once_and_of_rows_of_one_view():
    data = small()
    before = in_lists(data.codes)
    rows = np.array([[2, 0], [3, -1], [4, -1]])
    fold = data.hide(rows, silent=np.array([1]))
    assert in_lists(fold.codes) == [[2, -1, -1, -1, -1, -1], [-1, 2, -1, 0]]
    assert in_lists(data.codes) == before
    assert (fold.silent.tolist(), data.silent.tolist()) == ([1], [])
    assert fold.known.classes is data.known.classes
    found, target = fold.left_out(data)
    assert (found.tolist(), target.tolist()) == (rows.tolist(), [0, 1, 1])
    assert data.left_out(data)[0].shape == (0, 2)


def test_rows_that_hold_no_value_are_not_numbered():
    person = np.array([7, 8, 7, 9, 9, 8]), np.array([7, 7, 8, 8])
    given = make_data([[2, -1, 0, 1, 1, -1], [0, 2, -1, 0]], LINKS, person)
    views = {name: SimpleNamespace(n_rows=n) for name, n in (("a", 4), ("b", 4))}
    data = given.keep(views, [np.array([1, 2, 3, 5]), None])
    assert data.views is views
    assert data.links.tolist() == [[1, 0], [-1, 1], [2, -1], [-1, 3]]
    assert in_lists(data.codes) == [[-1, 0, 1, -1], [0, 2, -1, 0]]
    assert in_lists(data.groups) == [[8, 7, 9, 8], [7, 7, 8, 8]]
    assert in_lists(given.codes) == in_lists(small().codes)
    assert given.links.tolist() == LINKS
    assert given.keep(views, [None, None]).links is given.links
    nobody = given.keep(views, [np.empty(0, dtype=np.int64), None])
    assert nobody.links[:, 0].tolist() == [-1] * 4
    assert nobody.known.of(nobody.links).tolist() == [0, 2, -1, 0]


def test_without_labels_all_rows_lack_one():
    rows = np.zeros((3, 2))
    data = encoder_data({"a": rows, "b": rows}, None, paired=True)
    assert in_lists(data.codes) == [[-1] * 3] * 2
    assert data.target.tolist() == [-1] * 3
    assert data.labels_per_view == [0, 0]
    assert len(data.labeled()) == 0
    keep = data.keep(data.views, [np.array([0, 2]), None])
    assert keep.targets is None
    assert keep.links.tolist() == [[0, 0], [-1, 1], [1, 2]]


def test_linked_rows_come_first_and_rows_are_read_by_number_from_all_tables():
    X = np.arange(12.0).reshape(4, 3)
    linked = {"a": X[:2].astype(np.float32), "b": sparse.csr_array(X[:2] - 1)}
    data = encoder_data({"b": sparse.csr_array(X), "a": X[3:]}, linked, paired=False)
    assert data.names == ["a", "b"]
    assert data.links.tolist() == [[0, 0], [1, 1]]
    assert [rows.n_rows for rows in data.views.values()] == [3, 6]
    for name, rows in (("a", [X[1], X[3]]), ("b", [X[1] - 1, X[0]])):
        found = data.views[name].read(np.array([1, 2]))
        assert found.dtype == np.float64
        np.testing.assert_array_equal(found, rows)
    assert data.views["a"].read(np.empty(0, dtype=np.int64)).shape == (0, 3)


def test_no_entry_is_stored_for_rows_that_are_linked_as_they_come():
    tables = check_tables({name: np.zeros((1000, 1)) for name in "ab"})
    data = data_of_tables(tables, {})
    assert data.links.strides[1] == 0
    assert data_of_tables({}, tables).links.shape == (0, 2)


@pytest.mark.parametrize(
    ("Xs", "y", "given", "match"),
    (
        (None, [0, 1], True, "Xs is None and y is not"),
        (None, None, False, "Xs is None and unaligned is empty"),
        ([np.zeros((0, 2))] * 2, [], True, r"every view of Xs has 0 rows.*fit\(None, None"),
    ),
)
def test_data_without_linked_rows_are_explained(Xs, y, given, match):
    views = [np.random.default_rng(0).normal(size=(9, 2))] * 2
    with pytest.raises(ValueError, match=match):
        labeled_data(Xs, y, unaligned=views if given else None)


def test_individuals_to_validate_on_are_those_with_a_label():
    X = np.arange(8.0).reshape(4, 2)
    data = labeled_data({"a": X, "b": X}, ["x", "y", "x", "y"])
    found = validation_data(({"b": X[:3]}, ["z", None, "y"]), data, -1)
    assert found.names == ["b"]
    assert found.links.tolist() == [[0], [2]]
    assert found.target.tolist() == [2, 1]  # a class that the labels lack cannot be right
    assert found.known.classes is data.known.classes
    gappy = validation_data(({"a": X}, ["x", "nan", "x", "y"]), data, -1)
    assert gappy.known.text_gaps == {"validation's y": {"nan": 1}}
