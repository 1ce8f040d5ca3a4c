import numpy as np
import pytest
import torch
from torch import nn

from hotview._validation import ViewTable
from hotview.estimators.inference import (
    EnsembleMember,
    FusionRule,
    encode_rows,
    predict_ensemble,
    prediction_error,
)
from hotview.nn.multiview import MultiViewNetwork
from hotview.training import row_stream
from hotview.training.column_scaler import ColumnScaler
from hotview.training.rows import ViewRows

N_FEATURES, N_CLASSES, N = (2, 3), 4, 6
PRIOR = np.log([0.1, 0.2, 0.3, 0.4])


def make_network():
    torch.manual_seed(0)
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
    return ViewRows(
        [ViewTable(X)], ColumnScaler(np.zeros(D), np.ones(D), None), torch.device("cpu")
    )


def fuse(*, joint=True, joint_only=False, heads=(True, True)):
    return FusionRule(joint, joint_only, heads, tuple(PRIOR))


def predict(tables, fusion):
    views = {s: as_rows(X) for s, X in enumerate(tables) if X is not None}
    member = EnsembleMember.of_heads(make_network(), fusion)
    return predict_ensemble([member], views, None, lambda log_p: log_p[0])


def linear(layer, X):
    return X.astype(float) @ layer.weight.detach().numpy().T.astype(float) + (
        0 if layer.bias is None else layer.bias.detach().numpy()
    )


def log_softmax(scores):
    return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))


def head_predictions(tables):
    network = make_network()
    return [
        log_softmax(linear(network.view_heads[s], linear(network.encoders[s], X)))
        for s, X in enumerate(tables)
    ]


def joint_predictions(tables):
    network = make_network()
    Fs = [linear(network.encoders[s], X) for s, X in enumerate(tables)]
    return log_softmax(linear(network.joint_head, np.hstack(Fs)))


def test_complete_rows_are_predicted_by_all_heads_or_by_the_joint_one_alone():
    tables = make_tables()
    found, joint_only = predict(tables, fuse()), predict(tables, fuse(joint_only=True))
    expected = log_softmax(np.mean([*head_predictions(tables), joint_predictions(tables)], axis=0))
    np.testing.assert_allclose(found, expected, rtol=1e-4)
    np.testing.assert_allclose(joint_only, joint_predictions(tables), rtol=1e-4)
    for log_probabilities in (found, joint_only):
        assert log_probabilities.dtype == np.float64
        np.testing.assert_allclose(np.exp(log_probabilities).sum(axis=1), 1)


def test_without_a_joint_head_that_knows_all_classes_the_heads_are_averaged():
    tables = make_tables()
    expected = log_softmax(np.mean(head_predictions(tables), axis=0))
    np.testing.assert_allclose(predict(tables, fuse(joint=False)), expected, rtol=1e-4)


@pytest.mark.parametrize("s", (0, 1))
@pytest.mark.parametrize("joint_only", (False, True))
def test_one_view_is_predicted_by_its_head(s, joint_only):
    tables = make_tables()
    some = [X if t == s else None for t, X in enumerate(tables)]
    np.testing.assert_allclose(
        predict(some, fuse(joint_only=joint_only)), head_predictions(tables)[s], rtol=1e-4
    )


def test_every_row_by_what_it_has():
    tables = make_tables()
    heads, joint = head_predictions(tables), joint_predictions(tables)
    tables[0][[1, 2]] = np.nan
    tables[1][[3]] = np.nan
    expected = joint.copy()
    expected[[1, 2]] = heads[1][[1, 2]]
    expected[3] = heads[0][3]
    np.testing.assert_allclose(predict(tables, fuse(joint_only=True)), expected, rtol=1e-4)
    whole = [0, 4, 5]
    expected[whole] = log_softmax(np.mean([*heads, joint], axis=0))[whole]
    np.testing.assert_allclose(predict(tables, fuse()), expected, rtol=1e-4)


def test_heads_that_were_not_trained_are_not_asked():
    tables = make_tables()
    fusion = fuse(joint=False, heads=(True, False))
    np.testing.assert_allclose(predict(tables, fusion), head_predictions(tables)[0], rtol=1e-4)
    with_joint = predict(tables, fuse(heads=(True, False)))
    expected = log_softmax((head_predictions(tables)[0] + joint_predictions(tables)) / 2)
    np.testing.assert_allclose(with_joint, expected, rtol=1e-4)
    found = predict([None, tables[1]], fusion)
    np.testing.assert_allclose(found, np.tile(PRIOR, (N, 1)), rtol=1e-6)


def test_rows_without_any_view_are_nan_and_refused():
    tables = make_tables()
    for X in tables:
        X[[2, 4]] = np.nan
    found = predict(tables, fuse())
    assert np.isnan(found).all(axis=1).tolist() == [False, False, True, False, True, False]
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    message = str(prediction_error(np.array([2, 3, 4]), views, ["a", "b"]))
    assert "['a', 'b'], but 2 have none, the first being row 2" in message


def test_overflows_are_not_taken_for_rows_without_any_view():
    tables = make_tables()
    tables[0][2], tables[1][:] = np.nan, 1.0
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    network = make_network()
    with torch.no_grad():
        network.encoders[1].weight.fill_(3e38)
    member = EnsembleMember.of_heads(network, fuse())
    found = predict_ensemble([member], views, None, lambda log_p: log_p[0])
    rows = np.flatnonzero(np.isnan(found[:, 0]))
    assert len(rows) > 0
    message = str(prediction_error(rows, views, ["a", "b"]))
    assert "the weights of the model are so large, or not finite, that they overflow" in message
    for space in ("features", "common"):
        assert np.isfinite(encode_rows([network], 0, views[0], space)[[0, 1, 3, 4, 5]]).all()
    with pytest.raises(ValueError, match="Expected finite outputs"):
        encode_rows([network], 1, views[1], "common")


def test_features_and_latents_of_rows():
    network, (X, _) = make_network(), make_tables()
    X[1] = np.nan
    features = encode_rows([network], 0, as_rows(X), "features")
    common = encode_rows([network], 0, as_rows(X), "common")
    assert features.dtype == common.dtype == np.float32
    F = linear(network.encoders[0], X)
    np.testing.assert_allclose(features, F, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(common, linear(network.maps[0], F), rtol=1e-4, atol=1e-6)
    assert np.isnan(features[1]).all()
    assert np.isnan(common[1]).all()


def test_an_absent_row_reaches_no_encoder():
    class Strict(nn.Linear):
        def forward(self, X):
            assert torch.isfinite(X).all()
            return super().forward(X)

    network, (X, _) = make_network(), make_tables()
    network.encoders[0] = Strict(5, 2)
    X[1] = np.nan
    assert np.isnan(encode_rows([network], 0, as_rows(X), "features")).any(axis=1).sum() == 1


def test_many_rows_are_taken_in_parts_and_keep_their_order():
    tables = make_tables(9000)
    found = predict(tables, fuse(joint_only=True))
    assert found.shape == (9000, N_CLASSES)
    np.testing.assert_allclose(found, joint_predictions(tables), rtol=1e-3, atol=1e-5)
    F = encode_rows([make_network()], 1, as_rows(tables[1]), "features")
    np.testing.assert_allclose(F, linear(make_network().encoders[1], tables[1]), atol=1e-5)


@pytest.mark.parametrize("size", (1, 4, 6, 100))
def test_log_probabilities_are_reduced_chunk_by_chunk(monkeypatch, size):
    monkeypatch.setitem(row_stream._CHUNK, "cpu", size)
    tables = make_tables()
    views = {s: as_rows(X) for s, X in enumerate(tables)}
    fusions = [fuse(), fuse(joint_only=True)]
    seen, progress = [], []

    def reduce(log_p):
        seen.append(log_p.shape)
        return log_p.sum(0)

    members = [EnsembleMember.of_heads(make_network(), fusion) for fusion in fusions]
    found = predict_ensemble(members, views, None, reduce, progress.append)
    expected = sum(predict(tables, fusion) for fusion in fusions)
    np.testing.assert_allclose(found, expected, rtol=1e-6)
    assert all(shape[0] == 2 and shape[1] <= size for shape in seen)
    assert progress == [shape[1] for shape in seen]
    assert sum(progress) == N


def test_every_row_is_read_once_for_all_networks(monkeypatch):
    rows, read = as_rows(make_tables()[0]), []
    once = ColumnScaler.transform
    monkeypatch.setattr(
        ColumnScaler, "transform", lambda self, X: read.append(len(X)) or once(self, X)
    )
    encode_rows([make_network()] * 3, 0, rows, "features")
    assert read == [N]


def test_features_of_several_networks_are_side_by_side():
    rows, first, second = as_rows(make_tables()[0]), make_network(), make_network()
    second.encoders[0].weight.data.mul_(2)
    both = encode_rows([first, second], 0, rows, "features")
    each = [encode_rows([network], 0, rows, "features") for network in (first, second)]
    np.testing.assert_array_equal(both, np.hstack(each))
    assert not np.allclose(*each)
