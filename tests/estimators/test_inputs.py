from dataclasses import replace

import numpy as np
import pytest
import torch

import hotview as hv
from hotview._validation import check_tables
from hotview.datasets import make_views
from hotview.estimators.inputs import ViewTables, scan_views
from hotview.estimators.labels import Labels
from hotview.semisupervised.class_prior import class_priors

CPU = torch.device("cpu")


def table(*rows):
    """A view whose row r is (r, r + 0.5), or NaN throughout where r is None."""
    return np.array([[np.nan] * 2 if r is None else [r, r + 0.5] for r in rows], np.float32)


def make_view_tables(linked, unaligned=None):
    named = check_tables(linked) if linked else {}
    others = check_tables(unaligned) if unaligned else {}
    return ViewTables(list(named or others), named, others)


def how(tables, preprocessing="standardize", impute=None):
    return {
        "preprocessing": dict.fromkeys(tables.names, preprocessing),
        "impute": dict.fromkeys(tables.names, impute),
    }


def scan(tables):
    return scan_views(tables, **how(tables, "none"), device=CPU)


def labels_of(linked, **unaligned):
    codes = {name: np.array(y) for name, y in unaligned.items()}
    return Labels(np.arange(3), np.array(linked), codes)


def values(rows):
    """First entries of all rows of a view, in the order of their numbers."""
    return rows.take(np.arange(rows.n_rows))[:, 0].tolist()


def test_every_view_is_scanned_over_all_its_tables():
    tables = make_view_tables({"a": table(0, 2), "b": table(3, 4)}, {"a": table(4)})
    scans = scan_views(tables, **how(tables), device=CPU).scans
    np.testing.assert_allclose(scans["a"].scaler.mean, [2, 2.5])
    np.testing.assert_allclose(scans["a"].scaler.scale, np.sqrt(8 / 3))
    np.testing.assert_allclose(scans["b"].scaler.mean, [3.5, 4])
    assert scans["a"].scaler.fill is None
    methods = {"a": "mean", "b": "median"}
    views = scan_views(tables, **how(tables) | {"impute": methods}, device=CPU).views
    np.testing.assert_array_equal(views[0].scaler.fill, [2, 2.5])
    np.testing.assert_array_equal(views[1].scaler.fill, [3.5, 4])
    assert [view.scaler.impute for view in views] == ["mean", "median"]


def test_labels_of_complete_rows_train_the_joint_head_and_others_their_view():
    tables = make_view_tables(
        {"a": table(1, None, 3, 4), "b": table(11, 12, None, 14)},
        {"a": table(None, 5, 6, 7), "b": table(15)},
    )
    shared = scan(tables)
    data = shared.training_rows(labels_of([0, 1, 2, -1], a=[0, -1, 2, 1]))
    # Rows are numbered without the absent ones; individuals 0 and 3 are in both views.
    assert data.aligned.tolist() == [[0, 0], [2, 2]]
    assert data.target.tolist() == [0, -1]
    assert [values(rows) for rows in data.views] == [[1, 3, 4, 5, 6, 7], [11, 12, 14, 15]]
    assert [rows.tolist() for rows in data.view_labeled] == [[1, 4, 5], [1]]
    assert [target.tolist() for target in data.view_targets] == [[2, 2, 1], [1]]
    assert data.labeled.tolist() == [0]
    assert data.classes_known == [{0, 1, 2}, {0, 1}]
    assert data.source_views == [0]  # of the class that the other view has no label of
    assert data.transfer_rows.tolist() == [1]
    assert len(shared.training_rows(None).target) == 0
    only_b = make_view_tables({"a": table(1, 2), "b": table(3, 4)}, {"b": table(5, 6)})
    data = scan(only_b).training_rows(labels_of([-1, -1], b=[0, 1]))
    assert data.source_views == [1]
    assert [rows.tolist() for rows in data.view_labeled] == [[], [2, 3]]


def test_without_linked_rows_every_view_learns_from_its_own_labels():
    data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    model = hv.MultiViewClassifier(max_epochs=10, n_estimators=1, hidden=(8,), random_state=0)
    model.fit(None, None, unaligned=data.views, unaligned_y=data.target)
    assert model.trained_on_["linked"] == 0
    assert model.score(data.linked, data.linked_target) > 0.9
    assert model.score({"view_2": data.linked["view_2"]}, data.linked_target) > 0.8
    truth = data.target["view_1"]
    assert model.score({"view_1": data.views["view_1"]}, truth) > 0.8  # rows keep their labels


@pytest.mark.parametrize(
    ("Xs", "y", "given", "match"),
    (
        (None, [0, 1], True, "Xs is None and y is not"),
        (None, None, False, "Xs is None and unaligned is empty"),
        ([np.zeros((0, 2))] * 2, [], True, r"every view of Xs has 0 rows.*fit\(None, None"),
    ),
)
def test_fits_without_linked_rows_are_explained(Xs, y, given, match):
    views = [np.random.default_rng(0).normal(size=(9, 2))] * 2
    with pytest.raises(ValueError, match=match):
        hv.MultiViewClassifier().fit(Xs, y, unaligned=views if given else None)


def test_labels_of_every_view_for_propagation():
    tables = make_view_tables(
        {"a": table(1, None, 3, 4), "b": table(11, 12, None, 14)}, {"a": table(None, 5, 6, 7)}
    )
    shared = scan(tables)
    labels = shared.view_labels(labels_of([0, 1, 2, -1], a=[0, -1, 2, 1]))
    assert [codes.tolist() for codes in labels.codes] == [[0, 2, -1, -1, 2, 1], [0, 1, -1]]
    # Rows that lack a view are linked, too: they are in some of the views.
    assert labels.links.tolist() == [[0, 0], [-1, 1], [1, -1], [2, 2]]
    assert labels.target.tolist() == [0, 1, 2, -1]
    np.testing.assert_allclose(labels.log_prior, np.log(class_priors(labels.codes, 3)))
    given = np.log(np.full((2, 3), 1 / 3))
    assert replace(shared, log_prior=given).view_labels(labels_of([0] * 4)).log_prior is given
