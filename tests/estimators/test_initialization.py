from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from hotview._validation import ViewTable
from hotview.datasets import make_views
from hotview.estimators.initialization import (
    start_at_components,
    start_at_principal_components,
    start_at_targets,
    start_encoder,
    start_references,
)
from hotview.estimators.randomness import Randomness
from hotview.losses import HOTReference, SWReference
from hotview.nn.multiview import Widths, make_mlp, make_network
from hotview.preprocessing.column_scaler import ColumnScaler
from hotview.preprocessing.pca import principal_components
from hotview.preprocessing.rows import ViewRows
from hotview.training.batches import TrainingRows

HIDDEN, N_FEATURES, N_COMPONENTS = (16,), 6, 4


def make_data(tables):
    rows = []
    for X in tables:
        D = X.shape[1]
        scaler = ColumnScaler(np.zeros(D), np.ones(D), None)
        rows.append(ViewRows([ViewTable(X)], scaler, torch.device("cpu")))
    return TrainingRows(rows, np.empty((0, len(tables)), dtype=np.int64))


def make_net(tables):
    columns = [X.shape[1] for X in tables]
    widths = Widths(columns, [HIDDEN] * len(columns), N_FEATURES, N_COMPONENTS, 0, False)
    names = [f"view_{s}" for s in range(len(columns))]
    return make_network(widths, torch.Generator().manual_seed(0), [None] * len(columns), names)


def started(tables, variance=0.25):
    network, data = make_net(tables), make_data(tables)
    found = principal_components(data.views, N_FEATURES, np.random.default_rng(0))
    for s, pca in enumerate(found):
        start_at_principal_components(network, s, pca, N_COMPONENTS, variance)
    return network, data, found


def encode(network, s, X):
    with torch.no_grad():
        F = network.encoders[s](torch.from_numpy(X))
        return F.numpy(), network.maps[s](F).numpy()


TABLES = list(make_views(120, n_views=4, n_columns=10, random_state=0).views.values())


@pytest.mark.parametrize("variance", (0.25, 1e-4))
def test_features_and_latents_begin_as_components_of_the_right_size(variance):
    network, _, found = started(TABLES, variance)
    for s, (X, pca) in enumerate(zip(TABLES, found, strict=True)):
        F, Z = encode(network, s, X)
        Y = pca.transform(X)
        np.testing.assert_allclose(F.var(0, ddof=1).mean(), 1, rtol=1e-3)
        np.testing.assert_allclose(Z.var(0, ddof=1).mean(), variance, rtol=1e-3)
        np.testing.assert_allclose(F / F.std(), Y / Y.std(), atol=1e-3)  # one factor for all
        np.testing.assert_allclose(Z / Z.std(), Y[:, :4] / Y[:, :4].std(), atol=1e-3)


def test_rows_that_are_all_alike_change_nothing():
    tables = [np.ones((20, 5), np.float32), TABLES[0]]
    network, untouched = started(tables)[0], make_net(tables)
    pairs = zip(untouched.encoders[0].parameters(), network.encoders[0].parameters(), strict=True)
    assert all(torch.equal(before, after) for before, after in pairs)
    assert torch.equal(network.maps[0].weight, untouched.maps[0].weight)
    assert not torch.equal(network.maps[1].weight, untouched.maps[1].weight)


def with_targets(data, d=N_COMPONENTS, seed=0):
    """Targets that are linear in the components of every view, off the origin."""
    random = np.random.default_rng(seed)
    targets = []
    for view in data.views:
        X = view.take(np.arange(view.n_rows)).double()
        Y = X @ torch.linalg.svd(X - X.mean(0), full_matrices=False).Vh[:4].mT
        targets.append((Y @ torch.from_numpy(random.normal(size=(4, d))) + 3).float())
    return replace(data, link_targets=targets)


@pytest.mark.parametrize("is_own", (False, True))
def test_latents_begin_at_their_targets(is_own):
    network, data, _ = started(TABLES)
    data = with_targets(data)
    for s, (X, T) in enumerate(zip(TABLES, data.link_targets, strict=True)):
        before, _ = encode(network, s, X)
        start_at_targets(network, s, data, is_own=is_own)
        F, Z = encode(network, s, X)
        T = T.numpy()
        np.testing.assert_allclose(Z - Z.mean(0), T - T.mean(0), atol=0.05 * T.std())
        if is_own:  # an encoder of the user's own is left alone
            np.testing.assert_array_equal(F, before)
        else:  # others are moved, no more: by what the map, which has no offset, lacks
            np.testing.assert_allclose(Z.mean(0), T.mean(0), atol=1e-3)
            np.testing.assert_allclose(F - F.mean(0), before - before.mean(0), atol=1e-4)


def test_the_map_is_the_ridge_regression_of_the_targets_on_the_features():
    network, data, _ = started(TABLES)
    noise = [torch.randn(120, N_COMPONENTS) for _ in TABLES]
    data = replace(data, link_targets=noise)
    start_at_targets(network, 1, data, is_own=False)
    F, _ = encode(network, 1, TABLES[1])
    F, T = F.astype(float) - F.mean(0), noise[1].double().numpy()
    gram = F.T @ F
    W = np.linalg.solve(gram + 1e-3 * np.diag(gram).mean() * np.eye(6), F.T @ (T - T.mean(0)))
    np.testing.assert_allclose(network.maps[1].weight.detach().T, W, rtol=1e-3, atol=1e-5)


def test_targets_of_zero_and_of_any_number_leave_finite_latents():
    d = 8  # more than the features
    network, data, _ = started([np.ones((20, 5), np.float32), TABLES[0]])
    network.maps[0] = network.maps[1] = nn.Linear(N_FEATURES, d, bias=False)
    data = replace(data, link_targets=[torch.zeros(20, d), torch.ones(120, d)])
    for s in (0, 1):
        start_at_targets(network, s, data, is_own=False)
    _, Z = encode(network, 0, np.ones((20, 5), np.float32))
    assert np.isfinite(Z).all()


def in_cloud(points, cloud):
    """Whether every point is one of a cloud."""
    return torch.cdist(points.double(), cloud.double()).min(1).values.max() < 1e-5


def begun(coupling, seed=0):
    """References of a coupling, and latents of all views."""
    network, data, _ = started(TABLES)
    before = coupling.references.detach().clone()
    start_references(network, coupling, data, Randomness(seed).stage("references"))
    assert coupling.references.requires_grad
    assert not torch.equal(coupling.references, before)
    Zs = [torch.from_numpy(encode(network, s, X)[1]) for s, X in enumerate(TABLES)]
    return coupling.references.detach(), Zs


def test_every_reference_begins_in_one_group_of_views():
    G, Zs = begun(HOTReference(N_COMPONENTS, 2, n_points=50))
    groups = [torch.cat(Zs[:2]), torch.cat(Zs[2:])]  # as they were planted
    found = [[in_cloud(points, group) for group in groups] for points in G]
    assert found in ([[True, False], [False, True]], [[False, True], [True, False]])


def test_one_reference_begins_among_all_views_as_the_seed_decides():
    (first, Zs), (again, _), (other, _) = (
        begun(SWReference(N_COMPONENTS, n_points=100), seed) for seed in (0, 0, 1)
    )
    assert in_cloud(first[0], torch.cat(Zs))
    assert not any(in_cloud(first[0], Z) for Z in Zs)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_more_references_than_views_share_them():
    G, Zs = begun(HOTReference(N_COMPONENTS, 9, n_points=20))
    homes = [[in_cloud(points, Z) for Z in Zs].index(True) for points in G]
    assert set(homes) == {0, 1, 2, 3}
    assert homes[:4] == homes[4:8]
    assert len({tuple(points.flatten().tolist()) for points in G}) == 9


D, R = 6, 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_components(r=R):
    Q, _ = torch.linalg.qr(torch.randn(D, D, generator=seeded(1)))
    return Q[:r], torch.randn(D, generator=seeded(2))


def make_rows(n=50):
    return torch.randn(n, D, generator=seeded(3)) * 3 + 1


@pytest.mark.parametrize("hidden", ((), (7, 9, 12)))
def test_a_perceptron_begins_as_the_linear_map_and_every_weight_can_still_learn(hidden):
    encoder, before = (make_mlp(D, hidden, 5, seeded()) for _ in range(2))
    V, mean = make_components()
    assert start_encoder(encoder, V, mean) == R
    first = 2 * R if hidden else R  # other weights stay random and become small
    torch.testing.assert_close(encoder[0].weight[first:], 0.1 * before[0].weight[first:])
    torch.testing.assert_close(encoder[-1].weight[R:], 0.1 * before[-1].weight[R:])
    torch.testing.assert_close(encoder[-1].bias[R:], 0.1 * before[-1].bias[R:])
    X = make_rows()
    torch.testing.assert_close(encoder(X)[:, :R], (X - mean) @ V.T, rtol=1e-4, atol=1e-5)
    encoder(X).square().sum().backward()
    for parameter in encoder.parameters():
        assert parameter.requires_grad
        assert (parameter.grad != 0).any()


@pytest.mark.parametrize(
    ("hidden", "encoder_dim", "expected"),
    (((), 2, 2), ((4,), 5, 2), ((5,), 5, 2), ((20, 2), 5, 1), ((1,), 5, 0)),
)
def test_as_many_features_as_there_is_room_for(hidden, encoder_dim, expected):
    encoder = make_mlp(D, hidden, encoder_dim, seeded())
    V, mean = make_components()
    assert start_encoder(encoder, V, mean) == expected
    X = make_rows()
    found = encoder(X)[:, :expected]
    torch.testing.assert_close(found, ((X - mean) @ V.T)[:, :expected], rtol=1e-4, atol=1e-5)


def test_latents_are_not_all_zero_where_nothing_could_be_set():
    widths = Widths([D, D], [(1,), (1,)], 5, 4, 0, False)
    network = make_network(widths, seeded(), [None, None], ["a", "b"])
    start_at_components(network, 0, *make_components(), 1.0)
    assert (network.maps[0].weight != 0).all()
