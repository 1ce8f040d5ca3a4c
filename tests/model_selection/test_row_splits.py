import anndata as ad
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.model_selection import StratifiedKFold, check_cv

from hotview._validation import EncodedView
from hotview.data.columns import Column, ViewColumns
from hotview.model_selection import RowKFold, take_rows

X = np.arange(12.0).reshape(6, 2)


@pytest.mark.parametrize(
    "container",
    (
        *(np.array, np.ndarray.tolist, torch.tensor, pd.DataFrame, pl.DataFrame),
        *(sparse.csr_matrix, sparse.csc_array, sparse.coo_array, sparse.bsr_array),
    ),
    ids=lambda c: getattr(c, "__name__", "list"),
)
def test_rows_of_any_container(container):
    view = container(X)
    taken = take_rows({"a": view, "b": X, "absent": None}, np.array([4, 0, 4]))
    assert list(taken) == ["a", "b", "absent"]
    assert taken["absent"] is None
    found = taken["a"]
    if sparse.issparse(view):
        found = found.toarray()
    else:
        assert isinstance(found, type(view))
    np.testing.assert_array_equal(np.asarray(found), X[[4, 0, 4]])
    np.testing.assert_array_equal(taken["b"], X[[4, 0, 4]])


def test_tables_and_cells_keep_their_kind_and_names():
    cells = ad.AnnData(X, obs=pd.DataFrame(index=list("uvwxyz")))
    arrow = pa.table({"age": X[:, 0], "bmi": X[:, 1]})
    frame = pd.DataFrame(X, columns=["age", "bmi"], index=list("uvwxyz"))
    found = take_rows({"arrow": arrow, "cells": cells, "frame": frame}, [5, 1, 5])
    assert found["arrow"].equals(arrow.take([5, 1, 5]))
    assert found["cells"].obs_names.tolist() == ["z", "v", "z"]
    np.testing.assert_array_equal(found["cells"].X, X[[5, 1, 5]])
    assert found["frame"].index.tolist() == ["z", "v", "z"]
    assert found["frame"].columns.tolist() == ["age", "bmi"]


def test_lists_come_back_as_lists():
    original = X.copy()
    listed = take_rows([original, 2 * X, None], np.arange(6))
    assert isinstance(listed, list)
    assert listed[2] is None
    listed[0][:] = -1
    np.testing.assert_array_equal([original, listed[1]], [X, 2 * X])
    assert take_rows([X], [])[0].shape == (0, 2)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    (
        ([0, 6], IndexError, "view 'a' below 6, which it has, but they go from 0 to 6"),
        ([-7], IndexError, "from -7"),
        ([True] * 6, TypeError, "list of row numbers, but they are bool.*flatnonzero"),
        ([0.0], TypeError, "list of row numbers, but they are float64"),
        (3, TypeError, r"of shape \(\)"),
        (slice(0, 3), TypeError, "list of row numbers"),
    ),
)
def test_what_numbers_no_rows_is_refused(rows, error, message):
    with pytest.raises(error, match=message):
        take_rows({"a": X}, rows)


@given(
    labels=st.lists(st.sampled_from(["a", "b", "c", None]), min_size=20, max_size=60),
    n_splits=st.integers(2, 4),
    seed=st.integers(0, 100),
)
@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
def test_rows_with_a_label_are_tested_once_and_others_never(labels, n_splits, seed):
    known = [i for i, label in enumerate(labels) if label is not None]
    if len(known) < n_splits:
        return
    y = np.array(labels, dtype=object)
    folds = list(RowKFold(n_splits, random_state=seed).split(None, y))
    assert len(folds) == n_splits
    assert sorted(np.concatenate([test for _, test in folds])) == known
    for train, test in folds:
        np.testing.assert_array_equal(np.sort(np.concatenate([train, test])), np.arange(len(y)))
        assert train.dtype == test.dtype == np.int64


def test_every_class_is_in_every_fold_if_it_has_as_many_rows():
    y = np.repeat([0, 1, 2, -1], [10, 20, 5, 7])
    for _, test in RowKFold(5, random_state=0).split(None, y):
        np.testing.assert_array_equal(np.bincount(y[test]), [2, 4, 1])
    rare = np.array([0, 1, 2, 3, 4, -1])
    folds = [test.tolist() for _, test in RowKFold(5, random_state=0).split(None, rare)]
    assert sorted(folds) == [[0], [1], [2], [3], [4]]


def test_folds_are_those_of_scikit_learn_where_every_row_has_a_label():
    y = np.arange(30) % 3
    ours = RowKFold(3, shuffle=False).split(None, y)
    for pair in zip(ours, StratifiedKFold(3).split(np.zeros(30), y), strict=True):
        np.testing.assert_array_equal(*(np.concatenate(fold) for fold in pair))


PEOPLE = pd.DataFrame({"sex": list("FMFMFM"), "age": X[:, 0]})


@pytest.mark.parametrize("views", ([X, X[:, :1]], {"a": PEOPLE, "b": X}, X, sparse.csr_array(X)))
def test_without_labels_all_rows_are_dealt(views):
    tests = [test for _, test in RowKFold(3, random_state=0).split(views)]
    assert sorted(np.concatenate(tests)) == list(range(6))
    assert [len(test) for test in tests] == [2, 2, 2]


def test_the_seed_decides():
    y, generator = np.arange(40) % 2, np.random.default_rng(0)
    first, again, other, drawn, moved = (
        [test.tolist() for _, test in RowKFold(2, random_state=seed).split(None, y)]
        for seed in (0, 0, 1, generator, generator)
    )
    assert first == again
    assert first != other
    assert drawn != moved


def test_what_marks_a_missing_label_can_be_said():
    for marker, n_tested in ((-1, 4), (None, 6), (1, 4)):
        splitter = RowKFold(2, unlabeled_marker=marker, random_state=0)
        folds = splitter.split(None, np.array([0, 0, 1, 1, -1, -1]))
        assert sum(len(test) for _, test in folds) == n_tested


@pytest.mark.parametrize(
    ("arguments", "y", "message"),
    (
        ({"n_splits": 1}, [0, 1], "n_splits to be a whole number of at least 2"),
        ({"n_splits": 3}, [0, 1, -1, -1], "at least 3 rows with a label.*there are 2"),
        ({"shuffle": False, "random_state": 0}, [0, 1] * 5, "random_state"),
        ({}, {"a": [0, 1]}, "y to be 1-D, one label per row"),
    ),
)
def test_what_cannot_be_dealt_is_refused(arguments, y, message):
    with pytest.raises(ValueError, match=message):
        list(RowKFold(**arguments).split({"a": X}, y))


def test_it_is_one_of_scikit_learns_splitters():
    splitter = RowKFold(3, random_state=0)
    assert check_cv(splitter) is splitter
    assert splitter.get_n_splits(X, None, None) == 3
    assert "n_splits=3" in repr(splitter)


def draw_people(seed, n=40):
    random = np.random.default_rng(seed)
    people = random.integers(0, random.integers(5, 25), n)
    return people, random.choice([0, 1, 2, -1], n, p=[0.4, 0.3, 0.1, 0.2])


@pytest.mark.filterwarnings("ignore:The least populated class:UserWarning")
@pytest.mark.parametrize("n_splits", (2, 5))
def test_nobody_is_on_both_sides(n_splits):
    for seed in range(20):
        people, y = draw_people(seed)
        if len(set(people[y >= 0])) < n_splits:
            continue
        folds = list(RowKFold(n_splits, random_state=seed).split(None, y, people))
        tested = np.concatenate([test for _, test in folds])
        assert sorted(tested) == np.flatnonzero(y >= 0).tolist()
        for train, test in folds:
            assert not set(people[train]) & set(people[test])
            others = ~np.isin(people, people[test])
            assert train.tolist() == np.flatnonzero(others).tolist()


def test_groups_that_are_too_few_for_stratified_folds_are_split():
    y, people = np.arange(6), np.array(["p", "p", "q", "q", "r", "r"])
    tests = [test.tolist() for _, test in RowKFold(3, random_state=0).split(None, y, people)]
    assert sorted(tests) == [[0, 1], [2, 3], [4, 5]]
    with pytest.raises(ValueError, match="4 groups of rows with a label, one for each fold, but"):
        next(RowKFold(4).split(None, y, people))


def test_frames_with_text():
    folds = RowKFold(3, shuffle=False).split({"a": PEOPLE}, [0, 1] * 3)
    assert [test.tolist() for _, test in folds] == [[0, 1], [2, 3], [4, 5]]
    encoded = EncodedView(X, ViewColumns((Column("u"), Column("v")), 2))
    taken = take_rows({"a": PEOPLE, "b": encoded}, [5, 0])
    assert taken["a"]["sex"].tolist() == ["M", "F"]
    assert taken["b"].columns is encoded.columns
    np.testing.assert_array_equal(taken["b"].X, X[[5, 0]])
