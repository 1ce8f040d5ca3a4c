import pytest
import torch
from torch import nn

from hotview.nn.initialization import start_at_components, start_encoder
from hotview.nn.multiview import MultiViewNetwork, Widths, make_network
from hotview.nn.networks import make_perceptron

D, R = 6, 3


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make_components(r=R):
    Q, _ = torch.linalg.qr(torch.randn(D, D, generator=seeded(1)))
    return Q[:r], torch.randn(D, generator=seeded(2))


def make_rows(n=50):
    return torch.randn(n, D, generator=seeded(3)) * 3 + 1


@pytest.mark.parametrize("hidden", ((), (6,), (8,), (10, 6), (7, 9, 12)))
def test_a_perceptron_begins_as_the_linear_map(hidden):
    encoder = make_perceptron(D, hidden, 5, seeded())
    V, mean = make_components()
    assert start_encoder(encoder, V, mean) == R
    X = make_rows()
    torch.testing.assert_close(encoder(X)[:, :R], (X - mean) @ V.T, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("hidden", "n_features", "r", "expected"),
    (
        ((), 5, 3, 3),
        ((), 2, 3, 2),
        ((4,), 5, 3, 2),
        ((5,), 5, 3, 2),
        ((20, 2), 5, 3, 1),
        ((1,), 5, 3, 0),
    ),
)
def test_as_many_features_as_there_is_room_for(hidden, n_features, r, expected):
    encoder = make_perceptron(D, hidden, n_features, seeded())
    V, mean = make_components(r)
    assert start_encoder(encoder, V, mean) == expected
    X = make_rows()
    found = encoder(X)[:, :expected]
    torch.testing.assert_close(found, ((X - mean) @ V.T)[:, :expected], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("hidden", ((), (10,)))
def test_other_weights_stay_random_and_become_small(hidden):
    encoder, before = (make_perceptron(D, hidden, 5, seeded()) for _ in range(2))
    start_encoder(encoder, *make_components())
    first = 2 * R if hidden else R
    torch.testing.assert_close(encoder[0].weight[first:], 0.1 * before[0].weight[first:])
    torch.testing.assert_close(encoder[-1].weight[R:], 0.1 * before[-1].weight[R:])
    torch.testing.assert_close(encoder[-1].bias[R:], 0.1 * before[-1].bias[R:])


@pytest.mark.parametrize("hidden", ((), (8,), (10, 6)))
def test_every_weight_can_still_learn(hidden):
    encoder = make_perceptron(D, hidden, 5, seeded())
    start_encoder(encoder, *make_components())
    encoder(make_rows()).square().sum().backward()
    for parameter in encoder.parameters():
        assert parameter.requires_grad
        assert (parameter.grad != 0).any()


def make_two_views(hidden=(8,), n_features=5, n_components=4) -> MultiViewNetwork:
    widths = Widths([D, D], [hidden, hidden], n_features, n_components, 0, False)
    return make_network(widths, seeded(), [None, None], ["a", "b"])


def test_latents_begin_as_scaled_components():
    network, untouched = make_two_views(), make_two_views()
    V, mean = make_components()
    start_at_components(network, 1, V, mean, 0.5)
    X = make_rows()
    Z = network.maps[1](network.encoders[1](X))
    torch.testing.assert_close(Z[:, :R], 0.5 * (X - mean) @ V.T, rtol=1e-4, atol=1e-5)
    rest = Z[:, R:].std() / Z[:, :R].std()
    assert 0 < rest < 0.2  # near zero, but not at it: there nothing would move it
    for before, after in zip(
        untouched.encoders[0].parameters(), network.encoders[0].parameters(), strict=True
    ):
        assert torch.equal(before, after)
    assert torch.equal(network.maps[0].weight, untouched.maps[0].weight)


def test_more_components_than_dimensions_are_left_out():
    network = make_two_views(hidden=(), n_components=2)
    V, mean = make_components()
    start_at_components(network, 0, V, mean, 2.0)
    X = make_rows()
    Z = network.maps[0](network.encoders[0](X))
    torch.testing.assert_close(Z, 2 * (X - mean) @ V[:2].T, rtol=1e-4, atol=1e-5)


def test_latents_are_not_all_zero_where_nothing_could_be_set():
    network = make_two_views(hidden=(1,))
    start_at_components(network, 0, *make_components(), 1.0)
    assert isinstance(network.maps[0], nn.Linear)
    assert (network.maps[0].weight != 0).all()
