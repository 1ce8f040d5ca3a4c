from types import SimpleNamespace

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch import nn

from hotview._validation import ViewTable
from hotview.model.model import encode_rows, predict_rows
from hotview.nn.batched import NetworkOutputs
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing import row_stream
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.row_stream import prediction_error
from hotview.preprocessing.rows import ViewRows
from hotview.semisupervised import SemiSupervised
from hotview.semisupervised.calibration import log_mean
from hotview.semisupervised.graph import ArrayRows
from hotview.semisupervised.knn import FLOOR, Coordinates, KNNPredictor, PCABasis
from hotview.semisupervised.out_of_fold import _leave_out_views, _score_rows
from hotview.semisupervised.predictors import (
    FusionRule,
    HeadPredictor,
    JointHead,
    JointRidge,
    Predictors,
)
from hotview.semisupervised.ridge import RidgePredictor
from hotview.semisupervised.super_learner import SuperLearner, average_predictors

N_FEATURES, N_CLASSES, N = (2, 3), 4, 6
PRIOR = np.log([0.1, 0.2, 0.3, 0.4])


def make_network(seed=0):
    torch.manual_seed(seed)
    return MultiViewNetwork(
        [nn.Linear(5, 2), nn.Linear(4, 3)],
        [nn.Linear(n, 2, bias=False) for n in N_FEATURES],
        joint_head=nn.Linear(sum(N_FEATURES), N_CLASSES),
        view_heads=[nn.Linear(n, N_CLASSES) for n in N_FEATURES],
    ).eval()


def make_tables(n=N):
    rng = np.random.default_rng(0)
    return [rng.normal(size=(n, D)).astype(np.float32) for D in (5, 4)]


def as_rows(X):
    D = X.shape[1]
    scaler = ColumnScaler(np.zeros(D), np.ones(D), None)
    return ViewRows([ViewTable(X)], scaler, torch.device("cpu"))


def as_constants(values):
    return tuple(map(tuple, values.tolist()))


def heads(*, joint=True, joint_only=False, n_classes=(4, 4)):
    """Heads alone, averaged; the joint one where rows have all views."""
    equal = torch.full((N_CLASSES,), -np.log(N_CLASSES), dtype=torch.float64)
    own = [{"head": HeadPredictor(equal, 0.0)} for _ in n_classes]
    predictors = Predictors(own, {"head": JointHead(equal)} if joint else {})
    log_prior = np.tile(equal, (2, 1))
    weights = average_predictors(log_prior, joint=joint, joint_only=joint_only)
    return SemiSupervised(FusionRule(n_classes, tuple(PRIOR)), predictors, weights)


def predict(tables, learner, network=None):
    """Predictions by the heads of one network."""
    views = {s: as_rows(X) for s, X in enumerate(tables) if X is not None}
    networks = [network or make_network()]
    return predict_rows(learner, networks, views, lambda log_p: log_p[0])


def linear(layer, X):
    return X.astype(float) @ layer.weight.detach().numpy().T.astype(float) + (
        0 if layer.bias is None else layer.bias.detach().numpy()
    )


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def by_hand(tables, *, joint=True, joint_only=False, n_classes=(4, 4)):
    """Predictions of rows from the heads of the views that count, and the joint one."""
    network = make_network()
    Fs = [linear(network.encoders[s], X) for s, X in enumerate(tables)]
    of_views = [log_softmax(linear(network.view_heads[s], F)) for s, F in enumerate(Fs)]
    of_joint = log_softmax(linear(network.joint_head, np.hstack(Fs)))
    expected = np.tile(PRIOR, (len(tables[0]), 1))
    for i, row in enumerate(zip(*tables, strict=True)):
        has = [s for s, x in enumerate(row) if not np.isnan(x).any() and n_classes[s] > 0]
        parts = [of_views[s][i] for s in has if n_classes[s] == max(n_classes[t] for t in has)]
        if len(parts) == 2 and joint:
            parts = [of_joint[i]] if joint_only else [*parts, of_joint[i]]
        if parts:
            expected[i] = log_softmax(np.mean(parts, axis=0, keepdims=True))[0]
    return expected


@pytest.mark.parametrize(
    "rule",
    (
        {},
        {"joint_only": True},
        {"joint": False},  # one that does not know all classes
        {"n_classes": (4, 0)},  # the second was not trained
        {"n_classes": (3, 4), "joint": False},
    ),
    ids=str,
)
def test_every_row_is_predicted_by_the_heads_of_what_it_has(rule):
    tables = make_tables()
    whole = predict(tables, heads(**rule))
    np.testing.assert_allclose(whole, by_hand(tables, **rule), rtol=1e-4)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(np.exp(whole).sum(axis=1), 1)
    for s in (0, 1):
        absent = [X if t == s else np.full_like(X, np.nan) for t, X in enumerate(tables)]
        one = predict([X if t == s else None for t, X in enumerate(tables)], heads(**rule))
        np.testing.assert_allclose(one, by_hand(absent, **rule), rtol=1e-4)
    tables[0][[1, 2]] = np.nan
    tables[1][[3]] = np.nan
    np.testing.assert_allclose(predict(tables, heads(**rule)), by_hand(tables, **rule), rtol=1e-4)
    tables[1][2] = np.nan  # without any view, which test_classifier.py finds refused
    absent = np.isnan(predict(tables, heads(**rule))).all(axis=1)
    assert np.flatnonzero(absent).tolist() == [2]


class Own(nn.Linear):
    """A user's encoder, which is applied in float32."""


def test_overflows_are_not_taken_for_rows_without_any_view():
    tables = make_tables()
    tables[0][2], tables[1][:] = np.nan, 1.0
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    network = make_network()
    network.encoders[1] = Own(4, 3)
    with torch.no_grad():
        network.encoders[1].weight.fill_(3e38)
    found = predict(tables, heads(), network)
    rows = np.flatnonzero(np.isnan(found[:, 0]))
    assert len(rows) > 0
    assert "so large, or not finite" in str(prediction_error(rows, views, ["a", "b"]))
    for space in ("features", "common"):
        assert np.isfinite(encode_rows([network], 0, views[0], space)[[0, 1, 3, 4, 5]]).all()
    with pytest.raises(ValueError, match="Expected finite outputs"):
        encode_rows([network], 1, views[1], "common")


def test_absent_rows_reach_no_encoder():
    class Strict(nn.Linear):
        def forward(self, X):
            assert torch.isfinite(X).all()
            return super().forward(X)

    network, (X, _) = make_network(), make_tables()
    network.encoders[0] = Strict(5, 2)
    X[1] = np.nan
    F = linear(network.encoders[0], X)
    for space, expected in (("features", F), ("common", linear(network.maps[0], F))):
        found = encode_rows([network], 0, as_rows(X), space)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


R, K, N_POINTS = 3, 5, 50


def make_learner(n_classes=(4, 4), *, has_joint=True, n_members=R):
    """Predictors of two views with random points and weights, and the networks that they need."""
    random = np.random.default_rng(7)

    def draw(*shape):
        return torch.from_numpy(random.normal(size=shape))

    views, log_prior = [], draw(2, N_CLASSES).log_softmax(1)
    for s, D in enumerate((5, 4)):
        basis = PCABasis(draw(D).float(), draw(D, 3).float())
        scales = random.uniform(0.5, 2.0, size=n_members).tolist()
        coordinates = Coordinates.concatenate(basis, scales, N_FEATURES[s])
        points = draw(N_POINTS, 3 + n_members * N_FEATURES[s]).float()
        soft_labels = torch.from_numpy(random.dirichlet(np.ones(N_CLASSES), size=N_POINTS)).float()
        own = KNNPredictor(coordinates, points, None, soft_labels, K, K)
        own = {"neighbors": own, "ridge": RidgePredictor([draw(D, N_CLASSES)], draw(N_CLASSES))}
        views.append({**own, "head": HeadPredictor(log_prior[s])})
    joint = RidgePredictor([draw(5, N_CLASSES), draw(4, N_CLASSES)], draw(N_CLASSES))
    predictors = Predictors(views, {"ridge": JointRidge(joint)} if has_joint else {})
    weights = ((0.5, 0.7, 0.9), (1.1, 0.3, 0.8)), (0.6, 0.9, 0.4), (0.8, 0.7, 0.3), 0.5
    weights = SuperLearner(*weights, as_constants(draw(2, N_CLASSES).log_softmax(1)))
    networks = [make_network(r) for r in range(n_members)]
    return SemiSupervised(FusionRule(n_classes, tuple(PRIOR)), predictors, weights), networks


def softmax(scores):
    return np.exp(log_softmax(scores))


def scores_by_hand(learner, networks, tables, r, own=None):
    """Scores of all predictors of member r, view by view and by definition."""
    by_view = []
    for s, X in enumerate(tables):
        X, predictors = np.nan_to_num(X).astype(float), learner.predictors.views[s]
        Fs = [linear(network.encoders[s], X) for network in networks]
        knn = predictors["neighbors"]
        Y = X @ knn.coordinates.columns.numpy() + knn.coordinates.offset.numpy()
        Y += np.hstack(Fs) @ knn.coordinates.features.numpy().astype(float)
        search = NearestNeighbors(n_neighbors=N_POINTS).fit(knn.points.numpy().astype(float))
        near = search.kneighbors(Y, return_distance=False)
        own_points = np.full(len(X), -1) if own is None else own[s]
        near = [row[row != i][:K] for row, i in zip(near, own_points, strict=True)]
        (B,), c = predictors["ridge"].weights, predictors["ridge"].intercept
        head = linear(networks[r].view_heads[s], Fs[r])
        parts = [
            knn.soft_labels.numpy()[np.array(near)].astype(float).mean(axis=1),
            softmax(X @ B.numpy() + c.numpy()),
            softmax(head - predictors["head"].log_prior.numpy()),
        ]
        by_view.append(np.log(np.stack(parts, axis=1) + FLOOR))
    if not learner.predictors.joint:
        return np.stack(by_view, axis=1), None
    joint = learner.predictors.joint["ridge"].ridge
    products = [np.nan_to_num(X) @ B.numpy() for X, B in zip(tables, joint.weights, strict=True)]
    by_joint = np.log(softmax(sum(products) + joint.intercept.numpy()) + FLOOR)
    return np.stack(by_view, axis=1), by_joint


def as_tensors(tables):
    return {s: torch.from_numpy(X) for s, X in enumerate(tables)}


def predict_members(learner, networks, tables):
    with torch.inference_mode():
        return learner.log_proba(as_tensors(tables), NetworkOutputs(networks)).numpy()


def with_gaps(tables):
    tables = [X.copy() for X in tables]
    tables[0][1::4] = np.nan
    tables[1][2::4] = np.nan
    return tables


@pytest.mark.parametrize(
    ("n_classes", "has_joint"), (((4, 4), True), ((4, 2), False), ((0, 3), True)), ids=str
)
def test_members_share_neighbors_and_ridges_and_each_has_its_head(n_classes, has_joint):
    learner, networks = make_learner(n_classes, has_joint=has_joint)
    tables = with_gaps(make_tables(40))
    present = np.stack([~np.isnan(X[:, 0]) for X in tables], axis=1)
    known = np.array(n_classes) * present
    counts = (known == known.max(axis=1, keepdims=True)) & (known > 0)
    found = predict_members(learner, networks, tables)
    assert found.dtype == np.float64
    for r in range(R):
        scores, joint = scores_by_hand(learner, networks, tables, r)
        joint = None if joint is None else torch.from_numpy(joint)
        by_rule = torch.from_numpy(scores), joint, torch.from_numpy(counts)
        expected = learner.weights.combine(*by_rule)
        expected = np.where(counts.any(axis=1, keepdims=True), expected, PRIOR)
        np.testing.assert_allclose(found[r], expected, rtol=1e-6, atol=1e-6)
    rows = counts.any(axis=1)
    assert not np.allclose(found[0, rows], found[1, rows], atol=0.01)


@pytest.mark.parametrize("size", (1, 7, 100))
def test_log_probabilities_of_members_are_reduced_chunk_by_chunk(monkeypatch, size):
    monkeypatch.setitem(row_stream._CHUNK, "cpu", size)
    (learner, networks), tables = make_learner(), with_gaps(make_tables(20))
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    shapes, progress = [], []

    def reduce(log_p):
        shapes.append(log_p.shape)
        return log_mean(log_p)

    found = predict_rows(learner, networks, views, reduce, progress.append)
    expected = np.log(np.exp(predict_members(learner, networks, tables)).mean(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert all(shape[0] == R and shape[1] <= size for shape in shapes)
    assert progress == [shape[1] for shape in shapes]
    assert sum(progress) == 20
    F = encode_rows([make_network()], 1, as_rows(make_tables()[1]), "features")
    np.testing.assert_allclose(F, linear(make_network().encoders[1], make_tables()[1]), atol=1e-5)


@pytest.mark.parametrize("has_joint", (True, False), ids=("joint", "no joint"))
def test_scores_to_weigh_predictors_by_leave_out_a_rows_own_point_or_a_view(has_joint):
    learner, networks = make_learner((4, 3), has_joint=has_joint, n_members=1)
    rule, predictors = learner.rule, learner.predictors
    tables = with_gaps(make_tables(40))
    present, numbers = np.stack([~np.isnan(X[:, 0]) for X in tables], axis=1), np.arange(40)
    rows = np.where(present, numbers[:, None], -1)
    own = np.where(numbers % 3 > 0, numbers, -1)
    graphs = [SimpleNamespace(node_numbers=lambda r: np.where(r >= 0, own[r], -1))] * 2
    views = [ArrayRows(np.nan_to_num(X)) for X in tables]
    given = rule, predictors, views, graphs, NetworkOutputs(networks)
    found, Xs = _score_rows(*given, rows, numbers % 4)
    np.testing.assert_array_equal(found.target, numbers % 4)
    by_hand = np.where(present.T, own, -1)
    expected, by_joint = scores_by_hand(learner, networks, tables, 0, by_hand)
    np.testing.assert_allclose(found.scores, expected, rtol=1e-6, atol=1e-6)
    plain, _ = scores_by_hand(learner, networks, tables, 0)
    assert not np.allclose(expected, plain, atol=1e-3)  # some are neighbors of their own
    by_joint = np.zeros((40, N_CLASSES)) if by_joint is None else by_joint
    np.testing.assert_allclose(found.joint, by_joint, rtol=1e-9)
    np.testing.assert_array_equal(found.present[:, 0], present[:, 0])  # of most classes
    np.testing.assert_array_equal(found.present[:, 1], ~present[:, 0] & present[:, 1])
    # Without a view, they are those of rows that lack it.
    both, without = present.all(axis=1), _leave_out_views(rule, predictors, Xs)
    for s in (0, 1):
        lacking = rows.copy()
        lacking[:, s] = -1
        other, _ = _score_rows(*given, lacking, numbers % 4)
        np.testing.assert_array_equal(without.present[both, s], other.present[both])
        np.testing.assert_array_equal(without.present[:, s].any(axis=1), both)
        np.testing.assert_allclose(without.joint[both, s], other.joint[both], atol=1e-9)
