"""The stage that reads rows, and what later stages make of those that hold a value."""

import numpy as np
import pytest

from hotview import MultiViewClassifier, MultiViewEncoder
from hotview.datasets import make_views
from hotview.estimators.rows import preprocess
from tests.estimators.small_fits import UNCOUPLED, data_of, prepared

PLAIN = {**UNCOUPLED, "initialization": "random", "alignment_weight": 0, "preprocessing": "none"}
UNTAUGHT = {**PLAIN, "pseudo_labels": False, "fusion": "average"}


def table(*rows):
    """A view whose row r is (r, r + 0.5), or NaN throughout where r is None."""
    return np.array([[np.nan] * 2 if r is None else [r, r + 0.5] for r in rows], np.float32)


def values(rows):
    """First entries of all rows of a view, in the order of their numbers."""
    return rows.take(np.arange(rows.n_rows))[:, 0].tolist()


#: Individuals 0 and 3 are in both views, and others in the first one
LINKED = {"a": table(1, None, 3, 4), "b": table(11, 12, None, 14)}
OWN = {"a": table(None, 5, 6, 7)}
LABELS = {"y": [0, 1, 2, -1], "unaligned": OWN, "unaligned_y": {"a": [0, -1, 2, 1]}}


def test_every_view_is_scanned_over_all_its_tables():
    linked, own = {"a": table(0, 2), "b": table(3, 4)}, {"a": table(4)}

    def scan(**parameters):
        model = MultiViewEncoder(**{**PLAIN, "preprocessing": "standardize", **parameters})
        return preprocess(*data_of(model, own, linked=linked), [None, None])

    rows = scan()
    np.testing.assert_allclose(rows.scans["a"].scaler.mean, [2, 2.5])
    np.testing.assert_allclose(rows.scans["a"].scaler.scale, np.sqrt(8 / 3))
    np.testing.assert_allclose(rows.scans["b"].scaler.mean, [3.5, 4])
    assert rows.scans["a"].scaler.fill is None
    views = scan(impute={"a": "mean", "b": "median"}).views
    np.testing.assert_array_equal(views[0].scaler.fill, [2, 2.5])
    np.testing.assert_array_equal(views[1].scaler.fill, [3.5, 4])
    assert [view.scaler.impute for view in views] == ["mean", "median"]


def training_rows(linked, **arguments):
    fit = prepared(MultiViewClassifier(**UNTAUGHT), linked, **arguments)
    return fit.members[0].training.sampler.data


@pytest.mark.filterwarnings("ignore:.*have no linked row with a label:UserWarning")
def test_labels_of_complete_rows_train_the_joint_head_and_others_their_view():
    labels = {**LABELS, "unaligned": {**OWN, "b": table(15)}}
    data = training_rows(LINKED, **labels)
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
    encoder = prepared(MultiViewEncoder(**PLAIN), OWN, linked=LINKED)
    assert len(encoder.members[0].training.sampler.data.target) == 0
    only_b = {"a": table(1, 2), "b": table(3, 4)}
    own = {"unaligned": {"b": table(5, 6)}, "unaligned_y": {"b": [0, 1]}}
    data = training_rows(only_b, y=[-1, -1], **own)
    assert data.source_views == [1]
    assert [rows.tolist() for rows in data.view_labeled] == [[], [2, 3]]


def test_without_linked_rows_every_view_learns_from_its_own_labels():
    data = make_views(60, n_views=3, labeled=0.5, random_state=0)
    model = MultiViewClassifier(max_epochs=10, n_estimators=1, hidden=(8,), random_state=0)
    model.fit(None, None, unaligned=data.views, unaligned_y=data.target)
    assert model.trained_on_["linked"] == 0
    assert model.score(data.linked, data.linked_target) > 0.9
    assert model.score({"view_2": data.linked["view_2"]}, data.linked_target) > 0.8
    truth = data.target["view_1"]
    assert model.score({"view_1": data.views["view_1"]}, truth) > 0.8  # rows keep their labels
