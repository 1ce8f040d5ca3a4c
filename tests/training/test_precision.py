import os
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch import nn
from torch.nn.functional import linear, relu

import hotview as hv
from hotview import _threads as threads
from hotview._threads import one_thread, suited_threads
from hotview.datasets import make_views
from hotview.nn import multiview as module
from hotview.nn.batched import batch_networks
from hotview.nn.multiview import PRECISIONS, Widths, in_precision, make_network, used_precision
from tests.training.small_training import seeded

CPU, COLUMNS, NAMES = torch.device("cpu"), (40, 32), ("a", "b")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def make(seed=0):
    widths = Widths(COLUMNS, [(16,)] * 2, 8, 3, 4, True)
    return make_network(widths, seeded(seed), [None, None], NAMES)


def make_rows(n=50, seed=0):
    return [torch.randn(n, D, generator=seeded(seed + s)) for s, D in enumerate(COLUMNS)]


def loss_of(network, Xs):
    Fs = network.encode(Xs)
    errors = [(Y - X).square().mean() for X, Y in zip(Xs, network.reconstruct(Fs), strict=True)]
    return sum(errors) + sum(Z.square().mean() for Z in network.embed(Fs))


def gradients_of(network, Xs):
    network.zero_grad()
    loss_of(network, Xs).backward()
    return {name: p.grad.clone() for name, p in network.named_parameters() if p.grad is not None}


def in_bfloat16(perceptron, X):
    """The perceptron with everything in bfloat16, written out."""
    first, _, last = perceptron
    X, *weights = (t.bfloat16() for t in (X, first.weight, first.bias, last.weight, last.bias))
    return linear(relu(linear(X, *weights[:2])), *weights[2:]).float()


def distance(found, expected):
    return float((found - expected).detach().norm() / expected.detach().norm())


def test_float32_is_the_network_itself_and_tf32_too_without_a_gpu():
    network = make()
    assert in_precision(network, "float32") is in_precision(network, "tf32") is network
    used = [used_precision(name, torch.device("cpu")) for name in PRECISIONS]
    assert used == ["float32", "float32", "bfloat16"]


def test_bfloat16_is_what_bfloat16_computes():
    network, Xs = make(), make_rows()
    before = network.encode(Xs)
    rounded = in_precision(network, "bfloat16")
    Fs = rounded.encode(Xs)
    for f, X, F in zip(network.encoders, Xs, Fs, strict=True):
        torch.testing.assert_close(F, in_bfloat16(f, X), rtol=0, atol=0)
    for decoder, F, Y in zip(network.decoders, Fs, rounded.reconstruct(Fs), strict=True):
        torch.testing.assert_close(Y, in_bfloat16(decoder, F), rtol=0, atol=0)
    # What is small is not rounded, and the network itself still computes in float32.
    for name in ("embed", "score", "score_views"):
        found, expected = getattr(rounded, name)(before), getattr(network, name)(before)
        torch.testing.assert_close(found, expected, rtol=0, atol=0)
    torch.testing.assert_close(network.encode(Xs), before, rtol=0, atol=0)


def test_weights_and_gradients_stay_float32_and_are_the_networks_own():
    network, Xs = make(), make_rows()
    expected = gradients_of(network, Xs)
    found = gradients_of(in_precision(network, "bfloat16"), Xs)
    assert list(found) == list(expected)
    for name, gradient in found.items():
        assert gradient.dtype == torch.float32
        assert 0 <= distance(gradient, expected[name]) < 0.2, name  # ReLUs may switch
    assert distance(found["encoders.0.0.weight"], expected["encoders.0.0.weight"]) > 0


def test_stacked_networks_are_rounded_like_each():
    networks = [make(0), make(1)]
    Xs = make_rows()
    together = in_precision(batch_networks(networks), "bfloat16")
    Fs = together.encode([torch.stack([X, X]) for X in Xs])
    for r, network in enumerate(networks):
        for F, expected in zip(Fs, in_precision(network, "bfloat16").encode(Xs), strict=True):
            assert F.dtype == torch.float32
            assert distance(F[r], expected) < 0.01
            assert not torch.equal(F[r], network.encode(Xs)[0])


def test_tf32_is_on_in_the_pass_and_its_gradient_and_nowhere_else():
    network, Xs = make(), make_rows()
    seen = {"encoder": [], "map": []}
    network.encoders[0].append(Watch(seen["encoder"]))
    network.maps[0] = nn.Sequential(network.maps[0], Watch(seen["map"]))
    before = setting()
    loss_of(as_on_a_gpu(network), Xs).backward()
    assert seen == {"encoder": ["tf32", "tf32"], "map": [before, before]}
    assert setting() == before != "tf32"
    network.encoders[0].register_forward_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        as_on_a_gpu(network).encode(Xs)
    assert setting() == before


def test_tf32_has_the_gradients_of_the_pass_and_leaves_frozen_encoders_alone():
    network, Xs = make(), make_rows()
    network.encoders[0].requires_grad_(False)
    rounded = as_on_a_gpu(network)
    assert [F.requires_grad for F in rounded.encode(Xs)] == [False, True]
    found = gradients_of(rounded, Xs)
    assert not any(name.startswith("encoders.0") for name in found)
    torch.testing.assert_close(found, gradients_of(network, Xs), rtol=0, atol=0)
    network = make()
    as_on_a_gpu(network).encode(Xs)[1].sum().backward()  # a loss of one view alone
    assert all(p.grad is None for p in network.encoders[0].parameters())
    assert all(p.grad is not None for p in network.encoders[1].parameters())


@needs_gpu
@pytest.mark.parametrize(("precision", "most"), (("tf32", 2e-3), ("bfloat16", 2e-2)))
def test_a_gpu_rounds_as_told(precision, most):
    network, Xs = make().cuda(), [X.cuda() for X in make_rows(512)]
    rounded = in_precision(network, precision)
    for F, expected in zip(rounded.encode(Xs), network.encode(Xs), strict=True):
        assert 0 < distance(F, expected) < most
    expected, found = gradients_of(network, Xs), gradients_of(rounded, Xs)
    assert all(distance(found[name], expected[name]) < 5 * most for name in expected)


@needs_gpu
@pytest.mark.parametrize("n_estimators", (1, 3))
@pytest.mark.parametrize("precision", ("tf32", "bfloat16"))
def test_rounded_steps_are_recorded(precision, n_estimators):
    views = make_views(120, n_views=4, random_state=0).views
    few = {"max_epochs": 15, "n_estimators": n_estimators, "device": "cuda", "random_state": 0}
    exact = hv.MultiViewEncoder(**few).fit(views).history_
    rounded = hv.MultiViewEncoder(**few, precision=precision).fit(views).history_
    assert rounded[-1]["loss"] != exact[-1]["loss"]
    assert rounded[-1]["loss"] == pytest.approx(exact[-1]["loss"], rel=0.05)


class Watch(nn.Module):
    """Writes down the setting of torch when rows pass, and when their gradient does."""

    def __init__(self, seen):
        super().__init__()
        self.seen = seen

    def forward(self, X):
        self.seen.append(setting())
        X.register_hook(lambda gradient: self.seen.append(setting()))
        return X


def as_on_a_gpu(network):
    """The network as it is with TF32 where there is any."""
    return module._RoundedNetwork(network, "tf32")


def setting():
    matmul = torch.backends.cuda.matmul
    if hasattr(matmul, "fp32_precision"):
        return matmul.fp32_precision
    return "tf32" if matmul.allow_tf32 else "none"  # torch before 2.9


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_small_work_gets_one_thread_and_the_setting_is_put_back():
    meta, small, large = torch.device("meta"), nn.Linear(100, 100), nn.Linear(1000, 1000)
    for threads_for, n_threads in (
        (suited_threads(small, 400, CPU), 1),
        (suited_threads(large, 400, CPU), 2),
        (suited_threads(small, 4, meta), 2),  # as on a GPU
        (threads.threads_for_rows(256, CPU), 1),
        (threads.threads_for_rows(257, CPU), 2),
        (threads.threads_for_rows(1, meta), 2),
    ):
        with threads_for:
            assert torch.get_num_threads() == n_threads
        assert torch.get_num_threads() == 2
    with pytest.raises(KeyboardInterrupt), one_thread():
        raise KeyboardInterrupt
    assert torch.get_num_threads() == 2


def test_of_two_at_once_the_last_puts_the_setting_back():
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 2


def in_a_fork(function):
    """Whether a function returns True in a forked process, which a signal ends if it hangs."""
    process = os.fork()
    if process == 0:
        signal.alarm(60)
        found = False
        try:
            found = function()
        finally:
            os._exit(0 if found else 1)
    return os.waitpid(process, 0)[1] == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes cannot be forked here")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_does_not_wait_for_threads_that_it_does_not_have(tmp_path):
    views = make_views(1700, n_views=2, random_state=0).views  # enough for two threads
    encoder = hv.MultiViewEncoder(hidden=(), max_epochs=1, random_state=0)
    expected = encoder.fit(views).transform(views)["view_0"]
    encoder.save(tmp_path / "before.hotview")

    def is_equal(model):
        same = np.array_equal(model.transform(views)["view_0"], expected)
        return same and torch.get_num_threads() == 2

    assert in_a_fork(lambda: is_equal(encoder))
    assert in_a_fork(lambda: is_equal(hv.load(tmp_path / "before.hotview")))
    assert in_a_fork(lambda: encoder.save(tmp_path / "after.hotview").exists())
    assert in_a_fork(lambda: is_equal(clone(encoder).fit(views)))


def test_a_lock_that_another_thread_holds_is_free_in_a_forked_process():
    with threads._lock:
        assert in_a_fork(threads._lock.acquire)
