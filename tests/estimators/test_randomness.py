import copy
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
import torch
from torch import nn

from hotview import MultiViewEncoder
from hotview.datasets import make_views
from hotview.estimators.randomness import Randomness

CPU = torch.device("cpu")


def draws(random_state):
    random = Randomness(random_state)
    with random.in_modules(CPU):
        in_modules = torch.rand(3).tolist()
    return (
        random.numpy.random(3).tolist(),
        torch.rand(3, generator=random.torch).tolist(),
        in_modules,
    )


@pytest.mark.parametrize("seed", (0, 1, 2**40, np.int64(5)))
def test_a_seed_decides_all_three_streams(seed):
    assert draws(seed) == draws(seed)
    assert all(a != b for a, b in zip(draws(seed), draws(seed + 1), strict=True))


def test_the_streams_differ_from_each_other():
    first, second, third = draws(0)
    assert not np.allclose(second, third)
    assert not np.allclose(first, second)


def test_no_seed_is_fresh():
    assert draws(None) != draws(None)


@pytest.mark.parametrize("make", (np.random.default_rng, np.random.RandomState))
def test_a_generator_is_moved_on_by_one_draw(make):
    generator = make(3)
    first, second = draws(generator), draws(generator)
    assert first != second
    assert draws(make(3)) == first
    expected = make(3)
    for _ in range(2):
        Randomness(expected)
    assert str(expected.random()) == str(generator.random())


def test_torchs_own_generator_is_put_back():
    torch.manual_seed(8)
    before = torch.get_rng_state()
    with Randomness(0).in_modules(CPU):
        torch.rand(5)
    assert torch.equal(torch.get_rng_state(), before)
    with pytest.raises(KeyError), Randomness(0).in_modules(CPU):
        raise KeyError
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("bad", ("0", -1, 1.0, [1], np.random, torch.Generator()))
def test_what_is_no_seed(bad):
    with pytest.raises(ValueError, match=r"random_state to be None.*Pass an int, as in random_st"):
        Randomness(bad)


VIEWS = make_views(60, n_views=3, random_state=0).views
BUILT_IN = [None] * 3
WITH_DROPOUT = [nn.Sequential(nn.Linear(20, 6), nn.Dropout(0.5)) for _ in range(3)]


def fit(encoder, seed):
    encoders = None if encoder is None else {"view_0": encoder}
    model = MultiViewEncoder(encoders=encoders, max_epochs=4, random_state=seed)
    return np.hstack(list(model.fit(VIEWS).transform(VIEWS).values()))


def global_state():
    of_numpy = str(np.random.get_state())  # noqa: NPY002
    return torch.get_rng_state().tolist(), of_numpy, torch.get_num_threads()


@pytest.mark.parametrize("encoders", (BUILT_IN, WITH_DROPOUT), ids=("built-in", "dropout"))
def test_fits_in_three_threads_are_those_of_one_and_leave_global_generators_alone(encoders):
    serial = [fit(copy.deepcopy(encoder), seed) for seed, encoder in enumerate(encoders)]
    before = global_state()
    start = Barrier(3)

    def fit_at_once(seed):
        encoder = copy.deepcopy(encoders[seed])
        start.wait()
        return fit(encoder, seed)

    with ThreadPoolExecutor(3) as threads:
        parallel = list(threads.map(fit_at_once, range(3)))
    np.testing.assert_array_equal(parallel, serial)
    assert global_state() == before


def test_a_fit_without_code_of_the_users_does_not_wait_for_the_global_generators():
    with ThreadPoolExecutor(1) as threads, Randomness(0).in_modules(CPU):
        before = global_state()
        threads.submit(fit, None, 0).result(timeout=60)
        assert global_state() == before
