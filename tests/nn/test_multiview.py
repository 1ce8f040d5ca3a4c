import numpy as np
import pytest
import torch
from torch import nn

from hotview.nn.multiview import Widths, count_features, make_linear, make_mlp, make_network

COLUMNS = (4, 3, 6)
HIDDEN = ((8, 5), (), (7,))
NAMES = ("a", "b", "c")


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def make(n_classes=3, decoders=True, encoders=(None, None, None), seed=0):
    widths = Widths(COLUMNS, HIDDEN, 5, 2, n_classes, decoders)
    return make_network(widths, seeded(seed), encoders, NAMES)


def rows(sizes=(6, 9, 4)):
    generator = seeded(1)
    return [torch.randn(n, D, generator=generator) for n, D in zip(sizes, COLUMNS, strict=True)]


def linear_shapes(module):
    return [(m.in_features, m.out_features) for m in module if isinstance(m, nn.Linear)]


def test_every_part_of_every_view_is_its_own():
    network, Xs = make(), rows()
    Fs = network.encode(Xs)
    Zs, decoded, scores = network.embed(Fs), network.reconstruct(Fs), network.score_views(Fs)
    for s in range(3):
        F = network.encoders[s](Xs[s])
        assert torch.equal(Fs[s], F)
        assert torch.equal(Zs[s], F @ network.maps[s].weight.T)  # U_s is linear, without bias
        assert torch.equal(decoded[s], network.decoders[s](F))
        assert torch.equal(scores[s], network.view_heads[s](F))
        assert Fs[s].shape == (len(Xs[s]), 5)
        assert Zs[s].shape == (len(Xs[s]), 2)
        assert decoded[s].shape == Xs[s].shape
        assert scores[s].shape == (len(Xs[s]), 3)


def test_the_joint_head_sees_the_concatenated_features():
    network, Xs = make(), rows((6, 6, 6))
    Fs = network.encode(Xs)
    W, b = network.joint_head.weight, network.joint_head.bias
    by_view = sum(F @ W[:, 5 * s : 5 * s + 5].T for s, F in enumerate(Fs)) + b
    torch.testing.assert_close(network.score(Fs), by_view)
    assert network.score(Fs).shape == (6, 3)


def test_encoders_have_the_requested_layers_and_decoders_mirror_them():
    network = make()
    assert [linear_shapes(f) for f in network.encoders] == [
        [(4, 8), (8, 5), (5, 5)],
        [(3, 5)],
        [(6, 7), (7, 5)],
    ]
    assert [linear_shapes(f) for f in network.decoders] == [
        [(5, 5), (5, 8), (8, 4)],
        [(5, 3)],
        [(5, 7), (7, 6)],
    ]


def test_the_generator_decides_on_all_weights():
    before = torch.get_rng_state()
    first, same, other = make(seed=1), make(seed=1), make(seed=2)
    assert torch.equal(torch.get_rng_state(), before)
    for a, b, c in zip(*(m.parameters() for m in (first, same, other)), strict=True):
        assert torch.equal(a, b)
        assert not torch.equal(a, c)
    layers = [m for m in make_mlp(3, (3, 3), 3, seeded()) if isinstance(m, nn.Linear)]
    assert not torch.equal(layers[0].weight, layers[1].weight)


def test_what_is_not_needed_is_not_made():
    network = make(n_classes=0, decoders=False)
    assert network.joint_head is None
    assert len(network.decoders) == len(network.view_heads) == 0


def test_a_users_encoder_is_used_itself_and_decides_on_its_number_of_features():
    mine = nn.Sequential(nn.Linear(3, 9), nn.BatchNorm1d(9), nn.Dropout())
    statistics = {name: x.clone() for name, x in mine.state_dict().items()}
    network = make(encoders=(None, mine, None))
    assert network.encoders[1] is mine
    assert mine.training  # as it came
    assert count_features(mine.eval(), 3, "a") == 9
    assert not mine.training
    assert all(torch.equal(x, statistics[name]) for name, x in mine.state_dict().items())
    assert [U.in_features for U in network.maps] == [5, 9, 5]
    assert [g.in_features for g in network.view_heads] == [5, 9, 5]
    assert network.joint_head.in_features == 19
    assert linear_shapes(network.decoders[1]) == [(9, 3)]
    assert any(p is mine[0].weight for p in network.parameters())


class Gives(nn.Module):
    """An encoder that gives whatever it is told to."""

    def __init__(self, what):
        super().__init__()
        self.what = what

    def forward(self, X):
        return self.what


@pytest.mark.parametrize(
    ("encoder", "message"),
    (
        (nn.Linear(5, 2), r"it failed: RuntimeError: .*Try it on such rows"),
        (Gives(torch.zeros(2, 3, 4)), r"float32 of shape \(2, 3, 4\)\. Flatten"),
        (Gives(torch.zeros(2)), r"float32 of shape \(2,\)"),
        (Gives(torch.zeros(3, 2)), r"float32 of shape \(3, 2\)"),
        (Gives(torch.zeros(2, 3, dtype=torch.int64)), r"int64 of shape \(2, 3\)"),
        (Gives(torch.zeros(2, 3, dtype=torch.float64)), r"float64 of shape \(2, 3\).*float32"),
        (Gives(torch.zeros(2, 0)), r"float32 of shape \(2, 0\)"),
        (Gives((torch.zeros(2, 3), None)), "it gave tuple"),
    ),
)
def test_an_encoder_that_does_not_encode_is_named(encoder, message):
    with pytest.raises(ValueError, match=r"encoder of view 'b' .* \(2, 3\) into") as error:
        make(encoders=(None, encoder, None))
    assert error.match(message)
    assert encoder.training


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


@pytest.mark.parametrize("hidden", ((), [6, 4, 3]))
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
