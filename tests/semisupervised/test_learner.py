"""The semi-supervised learner without any network, and predictors that somebody adds."""

import sys
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
import pytest
import torch
from sklearn.decomposition import PCA
from sklearn.semi_supervised import LabelSpreading
from torch import Tensor

import hotview as hv
from hotview._archive import read_archive, write_archive
from hotview._codec import require_array
from hotview.data import Data, Targets, make_folds
from hotview.datasets import make_views
from hotview.model.files import _MODEL
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.graph import ArrayRows, build_graph
from hotview.semisupervised.predictors import PREDICTORS, FusionRule
from hotview.semisupervised.soft_labels import node_order, propagate_labels
from tests.data.small_data import links_of

N, N_LINKED, K = 240, 60, 8


def draw_people(n=N, gap=2.5, seed=0):
    """Rows of three classes in two views, standardized; those of a number are one person's."""
    random, y = np.random.default_rng(seed), np.arange(n) % 3
    centers = gap * np.random.default_rng(1).normal(size=(2, 3, 5))
    Xs = [C[y] + random.normal(size=(n, 5)) for C in centers]
    return [((X - X.mean(axis=0)) / X.std(axis=0)).astype(np.float32) for X in Xs], y


XS, Y = draw_people()
NEW, NEW_Y = draw_people(seed=9)


def data_of(*labeled, n_linked=N_LINKED, Xs=XS):
    """Data of views with labels of some rows each; the first rows are linked."""
    codes = tuple(np.where(np.isin(np.arange(N), rows), Y, -1) for rows in labeled)
    views = {name: ArrayRows(X) for name, X in zip("ab", Xs, strict=False)}
    return Data(views, links_of(n_linked, len(codes)), Targets(np.arange(3), codes))


def fit(data, n_folds=3, **how):
    """A learner, and its members' folds."""
    randoms = [np.random.default_rng(f) for f in range(max(n_folds, 1))]
    graphs = [
        build_graph(rows.X, PCA().fit(rows.X), K, randoms[0], node_order(data, s))
        for s, rows in enumerate(data.views.values())
    ]
    folds = make_folds(data, max(n_folds, 1), n_folds, randoms[0])
    pseudo = propagate_labels(graphs, data, folds, randoms)
    stages = [lambda _, seed=f: np.random.default_rng(seed) for f in range(len(folds))]
    return SemiSupervised.fit(graphs, data, folds, pseudo, randoms=stages, **how)


def predict(learner, Xs):
    """Probabilities of rows of some views, by number of the view."""
    (log_p,) = learner.log_proba({s: torch.from_numpy(X) for s, X in Xs.items()})
    return log_p.exp().numpy()


def accuracy(P, y=NEW_Y):
    return np.mean(P.argmax(axis=1) == y)


FEW = np.r_[:15]  # of the linked rows: five of each class


@pytest.fixture(scope="module")
def learner():
    return fit(data_of(FEW, FEW))


def test_one_view_is_predicted_much_as_by_label_spreading():
    data = data_of(FEW, n_linked=0, Xs=XS[:1])
    P = predict(fit(data), {0: XS[0]})
    other = LabelSpreading(kernel="knn", n_neighbors=K, alpha=0.95, max_iter=500)
    expected = other.fit(XS[0], data.codes[0]).transduction_
    assert np.mean(P.argmax(axis=1) == expected) > 0.9
    assert accuracy(P, Y) > 0.9
    np.testing.assert_allclose(P.sum(axis=1), 1)


def test_rows_are_predicted_from_whichever_views_they_have(learner):
    every = predict(learner, dict(enumerate(NEW)))
    alone = [predict(learner, {s: NEW[s]}) for s in (0, 1)]
    assert accuracy(every) >= max(map(accuracy, alone)) > 0.85
    gaps = [X.copy() for X in NEW]
    gaps[0][::3], gaps[1][1::3] = np.nan, np.nan
    gaps[0][-1] = gaps[1][-1] = np.nan  # whom no view has
    found = predict(learner, dict(enumerate(gaps)))
    np.testing.assert_allclose(found[:-1].sum(axis=1), 1)
    np.testing.assert_allclose(found[0:-1:3], alone[1][0:-1:3], rtol=1e-6)
    np.testing.assert_allclose(found[1::3], alone[0][1::3], rtol=1e-6)
    np.testing.assert_allclose(found[2:-1:3], every[2:-1:3], rtol=1e-6)
    assert np.isnan(found[-1]).all()


def test_labels_that_folds_leave_out_weigh_and_score_the_predictors(learner):
    assert list(learner.predictors.views[0]) == ["neighbors", "ridge"]  # no heads
    assert list(learner.predictors.joint) == ["ridge"]
    assert {name: x["n"] for name, x in learner.scores.items()} == dict.fromkeys(
        ("a", "b", "all views"), 15
    )
    assert [len(scores) for scores in learner.set_scores.groups] == [15, 15, 0, 15]
    assert learner.disagreement is None  # there is one member
    assert learner.weights.predictors[0] != (1.0, 0.5)


def test_with_one_fold_nothing_is_calibrated(monkeypatch):
    module = sys.modules[__name__]
    leave_three_out = lambda data, *_: [data.hide(data.labeled()[:3])]  # noqa: E731
    monkeypatch.setattr(module, "make_folds", leave_three_out)
    learner = fit(data_of(FEW, FEW), 1)
    assert learner.set_scores is None
    assert learner.scores["a"]["n"] == 3
    one_class = FusionRule((1, 0), (-0.1, -2.4)).count_views(torch.tensor([[True, True]]))
    assert one_class.tolist() == [[True, False]]


def test_without_left_out_labels_weights_are_those_of_the_prior():
    found = fit(data_of(FEW, FEW), n_folds=0)
    assert found.weights.predictors == ((1.0, 0.5),) * 2
    assert (found.scores, found.set_scores) == ({}, None)
    assert accuracy(predict(found, dict(enumerate(NEW)))) > 0.9


def test_a_view_without_labels_is_taught_over_linked_rows():
    found = fit(data_of(np.r_[N_LINKED : N_LINKED + 60], ()))
    assert found.scores["b"]["expected"]
    assert found.scores["b"]["n"] == N_LINKED
    assert found.weights.predictors[1] == (0.75, 0.4)  # nobody left out a label of it
    assert accuracy(predict(found, {1: NEW[1]})) > 0.85


@dataclass(frozen=True)
class Means:
    """A predictor: the squared distance from the mean of every class."""

    name: ClassVar[str] = "means"
    prior_weights: ClassVar[tuple[float, float]] = (0.3, 0.2)
    needs_networks: ClassVar[bool] = False

    centers: Tensor

    @classmethod
    def fit(cls, view):
        X, q = view.graph.rows.take(view.graph.nodes).double(), torch.tensor(view.nodes.votes)
        return cls((q.T @ X) / q.sum(0).unsqueeze(1))

    def log_scores(self, rows):
        return -torch.cdist(rows.X.double(), self.centers).square() / 2

    def check(self, n_columns, n_features, n_classes):
        require_array("centers", self.centers, (n_classes, n_columns), "float64")

    def condense(self, random):
        return self

    def to(self, device):
        return replace(self, centers=self.centers.to(device))


PEOPLE = make_views(60, n_views=2, n_columns=4, labeled=0.5, random_state=0)
QUICK = {"hidden": (4,), "max_epochs": 1, "n_estimators": 2, "random_state": 0, "device": "cpu"}


def change(path, tensors, facts, **more):
    """Write a file whose predictors of the first view are others."""
    views = facts["model"]["learner"]["predictors"]["views"]
    views[0] = more["views"] if "views" in more else views[0]
    write_archive(path, _MODEL, tensors, facts)
    return path


def test_a_predictor_is_a_class_and_an_entry_in_the_registry(monkeypatch, tmp_path):
    monkeypatch.setitem(PREDICTORS, "means", Means)
    model = hv.MultiViewClassifier(**QUICK)
    model.fit(PEOPLE.linked, PEOPLE.linked_target, unaligned=PEOPLE.views)
    learner = model.model_.learner
    assert list(learner.predictors.views[1]) == ["neighbors", "ridge", "head", "means"]
    assert all(len(w) == 4 and min(w) > 0 for w in learner.weights.predictors)
    path = model.save(tmp_path / "m.hotview")
    P = model.predict_proba(PEOPLE.linked)
    np.testing.assert_array_equal(hv.load(path, device="cpu").predict_proba(PEOPLE.linked), P)
    silent = replace(learner.weights, predictors=((0.5, 0.5, 0.5, 0.0),) * 2)
    model.model_.learner = replace(learner, weights=silent)
    assert not np.allclose(model.predict_proba(PEOPLE.linked), P, atol=1e-3)  # it is asked
    # The order of names in a file does not matter: that of the registry counts.
    archive = read_archive(path, _MODEL)
    tensors, facts = archive.tensors, archive.metadata
    own = facts["model"]["learner"]["predictors"]["views"][0]
    turned = change(tmp_path / "t.hotview", tensors, facts, views=dict(reversed(own.items())))
    np.testing.assert_array_equal(hv.load(turned, device="cpu").predict_proba(PEOPLE.linked), P)
    few = {name: x for name, x in own.items() if name != "means"}
    fewer = {k: x for k, x in tensors.items() if "views.0.means" not in k}
    with pytest.raises(ValueError, match="its predictors do not fit its views"):
        hv.load(change(tmp_path / "f.hotview", fewer, facts, views=few))
    monkeypatch.delitem(PREDICTORS, "means")
    with pytest.raises(ValueError, match=r"there are no such parts: .*'means'"):
        hv.load(path)
