import copy

import pytest
import torch
from torch import nn

from hotview.nn.batched import MemberEncoders, PerMember, batch_networks, copy_weights
from hotview.nn.multiview import Widths, make_mlp, make_network

COLUMNS, R, N = (4, 7), 3, 6


def seeded(seed):
    return torch.Generator().manual_seed(seed)


def networks(n_classes=(2, 2, 2), encoders=(None, None), decoders=True):
    made = []
    for r in range(R):
        widths = Widths(COLUMNS, [(8, 5), ()], 3, 2, n_classes[r], decoders)
        own = [copy.deepcopy(encoder) for encoder in encoders]
        made.append(make_network(widths, seeded(r), own, ["a", "b"]))
    return made


def rows():
    return [torch.randn(R, N, D, generator=seeded(9)) for D in COLUMNS]


def outputs(network, Xs):
    Fs = network.encode(Xs)
    parts = [*Fs, *network.embed(Fs), *network.reconstruct(Fs)] if len(network.decoders) else [*Fs]
    return [*parts, network.score(Fs), *network.score_views(Fs)]


@pytest.mark.parametrize(
    "own",
    (
        None,
        nn.Linear(4, 3, bias=False),
        nn.Sequential(nn.ReLU(), nn.Linear(4, 3), nn.ReLU()),  # which must not change the rows
    ),
)
def test_a_batched_network_is_every_network_on_its_own_rows(own):
    several, Xs = networks(encoders=(own, None)), rows()
    before, batched = [X.clone() for X in Xs], batch_networks(several)
    together = outputs(batched, Xs)
    sum(out.square().sum() for out in together).backward()
    for r, network in enumerate(several):
        alone = outputs(network, [X[r] for X in Xs])
        for found, expected in zip(together, alone, strict=True):
            torch.testing.assert_close(found[r], expected)
        sum(out.square().sum() for out in alone).backward()
        expected = network.encoders[1][0].weight.grad
        torch.testing.assert_close(batched.encoders[1][0].weight.grad[r], expected)
    assert all(torch.equal(X, old) for X, old in zip(Xs, before, strict=True))


def test_classes_that_a_member_lacks_have_no_probability_and_no_gradient():
    several, Xs = networks(n_classes=(2, 4, 3)), rows()
    batched = batch_networks(several)
    scores = batched.score(batched.encode(Xs))
    assert scores.shape == (R, N, 4)
    probabilities = scores.softmax(-1)
    expected = several[2].score(several[2].encode([X[2] for X in Xs])).softmax(-1)
    torch.testing.assert_close(probabilities[2, :, :3], expected)
    assert (probabilities[0, :, 2:] == 0).all()
    scores.logsumexp(-1).sum().backward()
    for grad in (batched.joint_head.weight.grad[0, 2:], batched.joint_head.bias.grad[0, :, 2:]):
        assert (grad == 0).all()


class Own(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3)

    def forward(self, X):
        return self.inner(X).tanh()


def hooked():
    layer = nn.Linear(4, 3)
    layer.register_forward_hook(lambda module, args, out: 2 * out)
    return layer


def frozen():
    return nn.Linear(4, 3).requires_grad_(False)


def tied():
    layer = nn.Linear(4, 4)
    return nn.Sequential(layer, nn.ReLU(), layer)


@pytest.mark.parametrize(
    "make", (Own, hooked, frozen, tied, lambda: nn.Sequential(nn.ReLU(), Own()))
)
def test_custom_modules_are_applied_member_by_member(make):
    several, Xs = networks(encoders=(make(), None)), rows()
    before = [X.clone() for X in Xs]
    batched = batch_networks(several)
    assert any(isinstance(module, PerMember) for module in batched.modules())
    together = outputs(batched, Xs)
    for r, network in enumerate(several):
        for found, expected in zip(together, outputs(network, [X[r] for X in Xs]), strict=True):
            torch.testing.assert_close(found[r], expected)
    assert all(torch.equal(X, old) for X, old in zip(Xs, before, strict=True))


def test_weights_are_copied_from_the_members_and_back():
    several, Xs = networks(n_classes=(2, 4, 3)), rows()
    batched = batch_networks(several)
    with torch.no_grad():
        for network in several:
            for p in network.parameters():
                p.mul_(0.5)
    copy_weights(batched, several, to_members=False)
    halved = [copy.deepcopy(network.state_dict()) for network in several]
    with torch.no_grad():
        for p in batched.parameters():
            p += 1
    copy_weights(batched, several, to_members=True)
    for old, network in zip(halved, several, strict=True):
        for name, value in network.state_dict().items():
            torch.testing.assert_close(value, old[name] + 1)
    together = batched.score(batched.encode(Xs))
    for r, network in enumerate(several):
        expected = network.score(network.encode([X[r] for X in Xs]))
        torch.testing.assert_close(together[r, :, : expected.shape[1]], expected)
    assert (together[0, :, 2:] < -1e20).all()


def make_heads(n_in=3, *, bias=True):
    return [nn.Linear(n_in, 5, bias=bias) for _ in range(R)]


def encode_in_float64(module, X):
    return copy.deepcopy(module).double()(X.double())


def check_members(encoders, heads, X, features):
    """Features of all members side by side, and their logits, in float64."""
    F, logits = MemberEncoders(encoders, heads)(X)
    assert F.dtype == logits.dtype == torch.float64
    torch.testing.assert_close(F, torch.cat(features, dim=1), rtol=1e-12, atol=1e-14)
    assert logits.shape == (R, len(X), 5)
    for head, f, found in zip(heads, features, logits, strict=True):
        torch.testing.assert_close(found, encode_in_float64(head, f), rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("hidden", "n"), (((), 20), ((128,), 1), ((16, 8), 20)), ids=str)
def test_features_of_members_are_those_of_the_modules_in_float64(hidden, n):
    encoders = [make_mlp(4, hidden, 3, seeded(r)) for r in range(R)]
    X, heads = torch.randn(n, 4, generator=seeded(9)), make_heads()
    check_members(encoders, heads, X, [encode_in_float64(f, X) for f in encoders])
    assert encoders[0][0].weight.dtype == torch.float32  # which is left as it is
    rounded = torch.cat([f(X).double() for f in encoders], dim=1)
    assert not torch.equal(MemberEncoders(encoders, heads)(X)[0], rounded)


def tied_three():
    square = nn.Linear(4, 4)
    return nn.Sequential(square, nn.ReLU(), square, nn.ReLU(inplace=True), square)


@pytest.mark.parametrize(
    "make",
    (
        lambda: nn.Linear(4, 3),
        lambda: nn.Linear(4, 3, bias=False),
        lambda: nn.Sequential(nn.Linear(4, 6, bias=False), nn.ReLU(), nn.Linear(6, 3, bias=False)),
        tied_three,
    ),
    ids=("a layer", "no bias", "no biases", "tied"),
)
def test_plain_encoders_of_the_users_own_are_computed_in_float64_too(make):
    encoders = [make() for _ in range(R)]
    X = torch.randn(20, 4, generator=seeded(9))
    features = [encode_in_float64(f, X) for f in encoders]
    check_members(encoders, make_heads(features[0].shape[1], bias=False), X, features)


class Float32(nn.Linear):
    def forward(self, X):
        return super().forward(X) + torch.ones(3)  # float32, whatever comes


class Float64(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 3).double()

    def forward(self, X):
        return self.inner(X.double()).float()


@pytest.mark.parametrize(
    "make",
    (
        Own,
        hooked,
        lambda: Float32(4, 3),
        Float64,
        lambda: nn.Sequential(nn.ReLU(), nn.Linear(4, 3)),
        lambda: nn.Sequential(nn.Linear(4, 3), nn.ReLU()),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Sequential(nn.Linear(4, 5), nn.ReLU()), nn.Linear(5, 3)),
        lambda: nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 3)),
    ),
    ids=(
        *("own", "hooked", "float32", "float64", "begins with a relu", "ends with a relu"),
        *("two layers", "layers in layers", "tanh"),
    ),
)
def test_encoders_of_other_makes_compute_as_they_do(make):
    encoders = [make() for _ in range(R)]
    X = torch.randn(20, 4, generator=seeded(9))
    features = [f(X).double() for f in encoders]
    check_members(encoders, make_heads(), X, features)
    assert torch.equal(MemberEncoders(encoders, make_heads())(X)[0], torch.cat(features, dim=1))


class Greedy(nn.Module):
    def __init__(self, factor):
        super().__init__()
        self.factor = factor

    def forward(self, X):
        return X.mul_(self.factor)


@pytest.mark.parametrize("wrap", (lambda f: f, lambda f: nn.Sequential(nn.ReLU(inplace=True), f)))
def test_encoders_that_work_in_place_change_no_row_and_no_other_member(wrap):
    X = torch.full((7, 3), 2.0)
    encoders = [wrap(Greedy(factor)) for factor in (5.0, 7.0, 11.0)]
    F, _ = MemberEncoders(encoders, make_heads())(X)
    assert F.tolist() == [[10.0] * 3 + [14.0] * 3 + [22.0] * 3] * 7
    assert (X == 2).all()


def test_weights_of_members_are_copied():
    encoders, heads = [make_mlp(4, (6,), 3, seeded(r)) for r in range(R)], make_heads()
    X, together = torch.randn(20, 4, generator=seeded(9)), MemberEncoders(encoders, heads)
    expected = together(X)
    with torch.no_grad():
        for p in nn.ModuleList([*encoders, *heads]).parameters():
            p.zero_()
    assert all(map(torch.equal, together(X), expected))
    assert not any(x.requires_grad for x in together(X))
