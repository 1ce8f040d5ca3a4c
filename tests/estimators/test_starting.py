import numpy as np
import pytest
import torch

from hotview._validation import Table
from hotview.datasets import make_views
from hotview.estimators.randomness import Randomness
from hotview.estimators.starting import start_at_principal_components, start_references
from hotview.losses import HOTReference, SWReference
from hotview.nn.multiview import Widths, make_network
from hotview.training.batches import TrainingRows
from hotview.training.columns import Columns
from hotview.training.components import principal_components
from hotview.training.rows import ViewRows

HIDDEN, N_FEATURES, N_COMPONENTS = (16,), 6, 4


def as_rows(X):
    D = X.shape[1]
    return ViewRows([Table(X)], Columns(np.zeros(D), np.ones(D), None), torch.device("cpu"))


def make_data(tables):
    return TrainingRows([as_rows(X) for X in tables], np.empty((0, len(tables)), dtype=np.int64))


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


@pytest.mark.parametrize("variance", (0.25, 1.0, 1e-4))
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
    for before, after in zip(
        untouched.encoders[0].parameters(), network.encoders[0].parameters(), strict=True
    ):
        assert torch.equal(before, after)
    assert torch.equal(network.maps[0].weight, untouched.maps[0].weight)


def test_few_rows_make_fewer_components():
    tables = [TABLES[0][:3], TABLES[1]]
    network, _, found = started(tables)
    assert len(found[0].components_) == 3
    _, Z = encode(network, 0, tables[0])
    assert np.isfinite(Z).all()
    np.testing.assert_allclose(Z.var(0, ddof=1).mean(), 0.25, rtol=1e-3)
    assert 0 < np.abs(Z[:, 3]).max() < 0.1  # near zero, not at it: there nothing would move


# references


def in_cloud(points, cloud):
    """Whether every point is one of a cloud."""
    return torch.cdist(points.double(), cloud.double()).min(1).values.max() < 1e-5


def latents(network):
    return [torch.from_numpy(encode(network, s, X)[1]) for s, X in enumerate(TABLES)]


def test_every_reference_begins_in_one_group_of_views():
    network, data, _ = started(TABLES)
    coupling = HOTReference(N_COMPONENTS, 2, n_points=50)
    before = coupling.references.detach().clone()
    start_references(network, coupling, data, Randomness(0))
    assert not torch.equal(coupling.references, before)
    assert coupling.references.requires_grad
    Zs = latents(network)
    groups = [torch.cat(Zs[:2]), torch.cat(Zs[2:])]  # as they were planted
    found = [[in_cloud(G, group) for group in groups] for G in coupling.references.detach()]
    assert found in ([[True, False], [False, True]], [[False, True], [True, False]])


def test_one_reference_begins_among_all_views():
    network, data, _ = started(TABLES)
    coupling = SWReference(N_COMPONENTS, n_points=100)
    start_references(network, coupling, data, Randomness(0))
    G = coupling.references.detach()[0]
    assert in_cloud(G, torch.cat(latents(network)))
    assert not any(in_cloud(G, Z) for Z in latents(network))


def test_more_references_than_views_share_them():
    network, data, _ = started(TABLES)
    coupling = HOTReference(N_COMPONENTS, 9, n_points=20)
    start_references(network, coupling, data, Randomness(0))
    G, Zs = coupling.references.detach(), latents(network)
    homes = [[in_cloud(points, Z) for Z in Zs].index(True) for points in G]
    assert set(homes) == {0, 1, 2, 3}
    assert homes[:4] == homes[4:8]
    assert len({tuple(points.flatten().tolist()) for points in G}) == 9


def test_references_follow_the_seed():
    network, data, _ = started(TABLES)
    found = []
    for seed in (0, 0, 1):
        coupling = HOTReference(N_COMPONENTS, 2, n_points=20)
        start_references(network, coupling, data, Randomness(seed))
        found.append(coupling.references.detach())
    assert torch.equal(found[0], found[1])
    assert not torch.equal(found[0], found[2])
