import copy

import numpy as np
import pytest
import torch
from torch import nn

from hotview.nn.mlp import encode_float64, make_linear, make_mlp


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def test_weights_are_uniform_within_torchs_own_bound():
    layer = make_linear(25, 4000, seeded())
    own = nn.Linear(25, 4000)
    for name, parameter in layer.named_parameters():
        theirs = dict(own.named_parameters())[name]
        assert parameter.shape == theirs.shape
        assert parameter.dtype == theirs.dtype
        assert parameter.requires_grad
        assert parameter.device.type == "cpu"
        # Uniform on ±1/5: the largest is near the bound, the standard deviation is 0.2 / √3.
        for values in (parameter, theirs):
            assert 0.199 < values.abs().max().item() <= 0.2
            assert values.std().item() == pytest.approx(0.2 / 3**0.5, rel=0.03)
            assert values.mean().item() == pytest.approx(0, abs=0.006)


def test_the_generator_decides_and_the_global_one_is_left_alone():
    before = torch.get_rng_state()
    first, same, other = (make_mlp(3, (4,), 2, seeded(s)) for s in (1, 1, 2))
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(*(m.parameters() for m in (first, same, other)), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)


def test_layers_are_drawn_one_after_another():
    layers = [m for m in make_mlp(3, (3, 3), 3, seeded()) if isinstance(m, nn.Linear)]
    assert not torch.equal(layers[0].weight, layers[1].weight)
    generator = seeded()
    for layer in layers:
        expected = make_linear(3, 3, generator)
        assert torch.equal(layer.weight, expected.weight)
        assert torch.equal(layer.bias, expected.bias)


def test_a_map_without_bias():
    layer = make_linear(3, 2, seeded(), bias=False)
    assert layer.bias is None
    torch.testing.assert_close(layer(torch.zeros(1, 3)), torch.zeros(1, 2))


@pytest.mark.parametrize("hidden", ((), (7,), (7, 5), [6, 4, 3]))
def test_a_perceptron_is_maps_with_a_relu_between(hidden):
    network = make_mlp(4, hidden, 2, seeded())
    X = torch.randn(20, 4, generator=seeded(1))
    layers = [m for m in network if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in layers] == list(
        zip((4, *hidden), (*hidden, 2), strict=True)
    )
    H = X.numpy()
    for i, layer in enumerate(layers):
        H = H @ layer.weight.detach().numpy().T + layer.bias.detach().numpy()
        if i < len(layers) - 1:
            H = np.maximum(H, 0)
    np.testing.assert_allclose(network(X).detach(), H, rtol=1e-5, atol=1e-6)
    assert (H < 0).any()  # no ReLU after the last


def test_exact_features_are_those_of_the_doubled_network():
    encoder = make_mlp(5, (7,), 3, torch.Generator().manual_seed(0))
    X = torch.randn(20, 5, generator=torch.Generator().manual_seed(1))
    found = encode_float64(encoder, X)
    assert encoder[0].weight.dtype == torch.float32  # which is left as it is
    torch.testing.assert_close(found, copy.deepcopy(encoder).double()(X.double()), rtol=0, atol=0)


def test_exact_features_of_layers_in_layers_some_of_which_come_twice():
    relu, square = nn.ReLU(), nn.Linear(5, 5, bias=False)
    encoder = nn.Sequential(nn.Sequential(square, relu), nn.Sequential(square, relu), square)
    X = torch.randn(20, 5)
    expected = copy.deepcopy(encoder).double()(X.double())
    torch.testing.assert_close(encode_float64(encoder, X), expected, rtol=0, atol=0)


def test_encoders_of_other_makes_compute_as_they_do():
    class Own(torch.nn.Linear):
        def forward(self, X):
            return super().forward(X) + torch.ones(2)  # float32, whatever comes

    encoder, X = Own(5, 2), torch.ones(3, 5)
    torch.testing.assert_close(encode_float64(encoder, X), encoder(X).double(), rtol=0, atol=0)


def test_an_encoder_of_another_make_may_change_its_input():
    class Greedy(torch.nn.Module):
        def forward(self, x):
            return x.mul_(5.0)

    X = torch.ones(3, 2)
    assert torch.equal(encode_float64(Greedy(), X), torch.full((3, 2), 5.0, dtype=torch.float64))
    assert torch.equal(X, torch.ones(3, 2))
