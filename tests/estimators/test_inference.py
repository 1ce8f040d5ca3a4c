from dataclasses import replace

import numpy as np
import pytest
import torch
from sklearn.neighbors import NearestNeighbors
from torch import nn

from hotview._validation import ViewTable
from hotview.model.inference import (
    EnsembleMember,
    FusionRule,
    HeadEnsemble,
    PredictorEnsemble,
    encode_rows,
    log_mean,
    predict_ensemble,
    prediction_error,
)
from hotview.nn.multiview import MultiViewNetwork
from hotview.preprocessing import row_stream
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.rows import ViewRows
from hotview.semisupervised.knn import FLOOR, Coordinates, KNNPredictor, PCABasis
from hotview.semisupervised.predictors import ViewPredictors
from hotview.semisupervised.ridge import RidgePredictor
from hotview.semisupervised.super_learner import SuperLearner

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


def fuse(*, joint=True, joint_only=False, heads=(True, True)):
    return FusionRule(joint, joint_only, heads, tuple(PRIOR))


def predict(tables, fusion, network=None):
    """Predictions by the heads of one network."""
    views = {s: as_rows(X) for s, X in enumerate(tables) if X is not None}
    ensemble = HeadEnsemble([EnsembleMember(network or make_network(), fusion)], None)
    return predict_ensemble(ensemble, views, lambda log_p: log_p[0])


def linear(layer, X):
    return X.astype(float) @ layer.weight.detach().numpy().T.astype(float) + (
        0 if layer.bias is None else layer.bias.detach().numpy()
    )


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def by_hand(tables, *, joint=True, joint_only=False, heads=(True, True)):
    """Predictions of rows from the heads of the views that they have, and the joint one."""
    network = make_network()
    Fs = [linear(network.encoders[s], X) for s, X in enumerate(tables)]
    of_views = [log_softmax(linear(network.view_heads[s], F)) for s, F in enumerate(Fs)]
    of_joint = log_softmax(linear(network.joint_head, np.hstack(Fs)))
    expected = np.tile(PRIOR, (len(tables[0]), 1))
    for i, row in enumerate(zip(*tables, strict=True)):
        has = [s for s, x in enumerate(row) if not np.isnan(x).any()]
        parts = [of_views[s][i] for s in has if heads[s]]
        if len(has) == 2 and joint:
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
        {"heads": (True, False)},  # the second was not trained
        {"heads": (True, False), "joint": False},
    ),
    ids=str,
)
def test_every_row_is_predicted_by_the_heads_of_what_it_has(rule):
    tables = make_tables()
    whole = predict(tables, fuse(**rule))
    np.testing.assert_allclose(whole, by_hand(tables, **rule), rtol=1e-4)
    assert whole.dtype == np.float64
    np.testing.assert_allclose(np.exp(whole).sum(axis=1), 1)
    for s in (0, 1):
        absent = [X if t == s else np.full_like(X, np.nan) for t, X in enumerate(tables)]
        one = predict([X if t == s else None for t, X in enumerate(tables)], fuse(**rule))
        np.testing.assert_allclose(one, by_hand(absent, **rule), rtol=1e-4)
    tables[0][[1, 2]] = np.nan
    tables[1][[3]] = np.nan
    np.testing.assert_allclose(predict(tables, fuse(**rule)), by_hand(tables, **rule), rtol=1e-4)
    tables[1][2] = np.nan  # without any view, which test_classifier.py finds refused
    absent = np.isnan(predict(tables, fuse(**rule))).all(axis=1)
    assert np.flatnonzero(absent).tolist() == [2]


def test_overflows_are_not_taken_for_rows_without_any_view():
    tables = make_tables()
    tables[0][2], tables[1][:] = np.nan, 1.0
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    network = make_network()
    with torch.no_grad():
        network.encoders[1].weight.fill_(3e38)
    found = predict(tables, fuse(), network)
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


def make_predictor_ensemble(n_classes=(4, 4), *, has_joint=True):
    """Three networks, and predictors of two views with random points and weights."""
    random = np.random.default_rng(7)

    def draw(*shape):
        return torch.from_numpy(random.normal(size=shape))

    networks, knn, ridge = [make_network(r) for r in range(R)], [], []
    for s, D in enumerate((5, 4)):
        basis = PCABasis(draw(D).float(), draw(D, 3).float())
        scales = random.uniform(0.5, 2.0, size=R).tolist()
        coordinates = Coordinates.concatenate(basis, scales, N_FEATURES[s])
        points = draw(N_POINTS, 3 + R * N_FEATURES[s]).float()
        soft_labels = torch.from_numpy(random.dirichlet(np.ones(N_CLASSES), size=N_POINTS)).float()
        knn.append(KNNPredictor.of_rows(coordinates, points, soft_labels, K))
        ridge.append(RidgePredictor([draw(D, N_CLASSES)], draw(N_CLASSES)))
    joint = RidgePredictor([draw(5, N_CLASSES), draw(4, N_CLASSES)], draw(N_CLASSES))
    log_prior = draw(2, N_CLASSES).log_softmax(1)
    predictors = ViewPredictors(knn, ridge, joint if has_joint else None, log_prior)
    weights = ((0.5, 0.7, 0.9), (1.1, 0.3, 0.8)), (0.6, 0.9, 0.4), (0.8, 0.7, 0.3), 0.5
    learner = SuperLearner(*weights, tuple(map(tuple, draw(2, N_CLASSES).log_softmax(1).tolist())))
    return PredictorEnsemble(networks, fuse(heads=n_classes), predictors, learner)


def softmax(scores):
    return np.exp(log_softmax(scores))


def scores_by_hand(ensemble, tables, r, own=None):
    """Scores of all predictors of member r, view by view and by definition."""
    by_view = []
    for s, X in enumerate(tables):
        X = np.nan_to_num(X).astype(float)
        Fs = [linear(network.encoders[s], X) for network in ensemble.networks]
        knn = ensemble.predictors.knn[s]
        Y = X @ knn.coordinates.columns.numpy() + knn.coordinates.offset.numpy()
        Y += np.hstack(Fs) @ knn.coordinates.features.numpy().astype(float)
        search = NearestNeighbors(n_neighbors=N_POINTS).fit(knn.points.numpy().astype(float))
        near = search.kneighbors(Y, return_distance=False)
        own_points = np.full(len(X), -1) if own is None else own[s]
        near = [row[row != i][:K] for row, i in zip(near, own_points, strict=True)]
        (B,), c = ensemble.predictors.ridge[s].weights, ensemble.predictors.ridge[s].intercept
        prior = ensemble.predictors.log_prior[s].numpy()
        head = linear(ensemble.networks[r].view_heads[s], Fs[r])
        parts = [
            knn.soft_labels.numpy()[np.array(near)].astype(float).mean(axis=1),
            softmax(X @ B.numpy() + c.numpy()),
            softmax(head - prior),
        ]
        by_view.append(np.log(np.stack(parts, axis=1) + FLOOR))
    joint = ensemble.predictors.joint
    if joint is None:
        return np.stack(by_view, axis=1), None
    products = [np.nan_to_num(X) @ B.numpy() for X, B in zip(tables, joint.weights, strict=True)]
    by_joint = np.log(softmax(sum(products) + joint.intercept.numpy()) + FLOOR)
    return np.stack(by_view, axis=1), by_joint


def as_tensors(tables):
    return {s: torch.from_numpy(X) for s, X in enumerate(tables)}


def predict_members(ensemble, tables):
    with torch.inference_mode():
        return ensemble.prepare()(as_tensors(tables)).numpy()


def with_gaps(tables):
    tables = [X.copy() for X in tables]
    tables[0][1::4] = np.nan
    tables[1][2::4] = np.nan
    return tables


@pytest.mark.parametrize(
    ("n_classes", "has_joint"), (((4, 4), True), ((4, 2), False), ((0, 3), True)), ids=str
)
def test_members_share_neighbors_and_ridges_and_each_has_its_head(n_classes, has_joint):
    ensemble = make_predictor_ensemble(n_classes, has_joint=has_joint)
    tables = with_gaps(make_tables(40))
    present = np.stack([~np.isnan(X[:, 0]) for X in tables], axis=1)
    known = np.array(n_classes) * present
    counts = (known == known.max(axis=1, keepdims=True)) & (known > 0)
    found, learner = predict_members(ensemble, tables), ensemble.super_learner
    assert found.dtype == np.float64
    for r in range(R):
        scores, joint = scores_by_hand(ensemble, tables, r)
        joint = None if joint is None else torch.from_numpy(joint)
        expected = learner.combine(torch.from_numpy(scores), joint, torch.from_numpy(counts))
        expected = np.where(counts.any(axis=1, keepdims=True), expected, PRIOR)
        np.testing.assert_allclose(found[r], expected, rtol=1e-6, atol=1e-6)
    rows = counts.any(axis=1)
    assert not np.allclose(found[0, rows], found[1, rows], atol=0.01)


@pytest.mark.parametrize("size", (1, 7, 100))
def test_log_probabilities_of_members_are_reduced_chunk_by_chunk(monkeypatch, size):
    monkeypatch.setitem(row_stream._CHUNK, "cpu", size)
    ensemble, tables = make_predictor_ensemble(), with_gaps(make_tables(20))
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    shapes, progress = [], []

    def reduce(log_p):
        shapes.append(log_p.shape)
        return log_mean(log_p)

    found = predict_ensemble(ensemble, views, reduce, progress.append)
    expected = np.log(np.exp(predict_members(ensemble, tables)).mean(axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
    assert all(shape[0] == R and shape[1] <= size for shape in shapes)
    assert progress == [shape[1] for shape in shapes]
    assert sum(progress) == 20
    F = encode_rows([make_network()], 1, as_rows(make_tables()[1]), "features")
    np.testing.assert_allclose(F, linear(make_network().encoders[1], make_tables()[1]), atol=1e-5)


def make_one_member(*, has_joint):
    ensemble, knn = make_predictor_ensemble((4, 3), has_joint=has_joint), []
    for one, n in zip(ensemble.predictors.knn, N_FEATURES, strict=True):
        features = one.coordinates.features[:n]
        knn.append(replace(one, coordinates=replace(one.coordinates, features=features)))
    predictors = replace(ensemble.predictors, knn=knn)
    return PredictorEnsemble(ensemble.networks[:1], ensemble.rule, predictors)


@pytest.mark.parametrize("has_joint", (True, False), ids=("joint", "no joint"))
def test_scores_to_weigh_predictors_by_leave_out_a_rows_own_point_or_a_view(has_joint):
    alone = make_one_member(has_joint=has_joint)
    tables = with_gaps(make_tables(40))
    own = {s: torch.arange(40).where(torch.arange(40) % 3 > 0, -1) for s in (0, 1)}
    with torch.inference_mode():
        scores, joint, counts = alone.score(as_tensors(tables), own)
    by_hand = {s: numbers.numpy() for s, numbers in own.items()}
    expected, by_joint = scores_by_hand(alone, tables, 0, by_hand)
    np.testing.assert_allclose(scores, expected, rtol=1e-6, atol=1e-6)
    plain, _ = scores_by_hand(alone, tables, 0)
    assert not np.allclose(expected, plain, atol=1e-3)  # some are neighbors of their own
    by_joint = np.zeros((40, N_CLASSES)) if by_joint is None else by_joint
    np.testing.assert_allclose(joint, by_joint, rtol=1e-9)
    first = ~np.isnan(tables[0][:, 0])  # of most classes
    np.testing.assert_array_equal(counts[:, 0], first)
    np.testing.assert_array_equal(counts[:, 1], ~first & ~np.isnan(tables[1][:, 0]))
    # Without a view, they are those of rows that lack it.
    Xs, both = as_tensors(tables), first & ~np.isnan(tables[1][:, 0])
    with torch.inference_mode():
        without = alone.score_without(Xs)
        for s in (0, 1):
            lacking = {**Xs, s: torch.full_like(Xs[s], torch.nan)}
            _, joint, counts = alone.score(lacking, {t: torch.full((40,), -1) for t in (0, 1)})
            np.testing.assert_array_equal(without.present[both, s], counts[both])
            np.testing.assert_array_equal(without.present[:, s].any(axis=1), both)
            np.testing.assert_allclose(without.joint[both, s], joint[both], atol=1e-9)
