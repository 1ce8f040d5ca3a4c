import copy

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hotview.training import row_streams
from hotview.training.batches import ShuffledIndices, window_for


def random_numbers(seed=0):
    return np.random.default_rng(seed)


def all_at_once(n, size, random):
    """Batches of a stream of one window, the long way."""
    rest = random.permutation(n)
    while True:
        if len(rest) < size:
            order, here = random.permutation(n), set(rest.tolist())
            others = [i for i in order if i not in here]
            rest = np.array([*rest, *others, *(i for i in order if i in here)])
        yield rest[:size]
        rest = rest[size:]


@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(1, 60),
    size=st.integers(1, 70),
    seed=st.integers(0, 100),
    window=st.sampled_from((None, 1, 5, 30)),
    blocks=st.sampled_from((1, 3, 128)),
)
def test_every_number_comes_once_before_any_comes_again(n, size, seed, window, blocks):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(row_streams, "_BLOCKS", blocks)
        stream = ShuffledIndices(n, size, random_numbers(seed), window)
        batches = [stream.next() for _ in range(1 + 4 * n // min(size, n))]
    for batch in batches:
        assert len(batch) == min(size, n)
        assert len(set(batch.tolist())) == len(batch)
    numbers = np.concatenate(batches)
    for start in range(0, len(numbers) - n + 1, n):
        assert sorted(numbers[start : start + n]) == list(range(n))


@pytest.mark.parametrize("n", (1, 2, 7, 100, 5000))
@pytest.mark.parametrize("size", (1, 3, 64))
def test_one_window_is_a_permutation_of_all_numbers(n, size):
    size, random = min(size, n), random_numbers(3)
    stream, expected = (
        ShuffledIndices(n, size, random, window=n),
        all_at_once(n, size, random_numbers(3)),
    )
    for _ in range(3 + 3 * n // size):
        assert np.array_equal(stream.next(), next(expected))


def test_it_is_shuffled_anew_in_every_round():
    stream = ShuffledIndices(100, 100, random_numbers())
    first, second = stream.next(), stream.next()
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, np.arange(100))
    assert np.array_equal(ShuffledIndices(100, 100, random_numbers()).next(), first)


@pytest.mark.parametrize("window", (None, 1))
def test_numbers_of_the_next_round_in_a_batch_are_a_fair_draw(window, monkeypatch):
    # Of four numbers, batches of three: the two that complete the second batch are any two others.
    monkeypatch.setattr(row_streams, "_BLOCKS", 2)
    counts = np.zeros(4)
    for seed in range(2000):
        stream = ShuffledIndices(4, 3, random_numbers(seed), window)
        first, second = stream.next(), stream.next()
        (left,) = set(range(4)) - set(first.tolist())
        assert second[0] == left
        counts[second[1:]] += 1
    np.testing.assert_allclose(counts / 2000, 0.5, atol=0.05)


def test_a_window_is_random_blocks_of_consecutive_numbers_in_any_order():
    n, window = 100_000, 1280  # blocks of ten
    stream = ShuffledIndices(n, 128, random_numbers(), window)
    rounds = np.stack([[stream.next() for _ in range(10)] for _ in range(n // window)])
    for numbers in rounds.reshape(-1, window):
        blocks, counts = np.unique(numbers // 10, return_counts=True)
        assert (len(blocks), set(counts)) == (128, {10})
        # Blocks are from anywhere, and neighbors in a block are neighbors no longer.
        assert np.abs(numbers.mean() - n / 2) < 5 * n / np.sqrt(12 * 128)
        assert np.mean(np.abs(np.diff(numbers)) < 10) < 0.05
    # A batch of a window holds of every block as much as any other, up to chance.
    held = [len(np.unique(batch // 10)) for batch in rounds.reshape(-1, 128)]
    expected = 128 * (1 - (1 - 0.1) ** 10)
    assert abs(np.mean(held) - expected) < 1


def test_what_comes_soon_is_the_next_window():
    stream, told = ShuffledIndices(12_800, 64, random_numbers(), 1280), set()
    for w in range(10):
        window, soon = set(), []
        for _ in range(20):
            window |= set(stream.next().tolist())
            soon.append({i for start, end in stream.soon() for i in range(start, end)})
        assert w == 0 or window == told
        told = set().union(*soon)
        # A share with every batch, and nothing twice.
        assert {len(some) for some in soon} == ({60, 70} if w < 9 else {0})
    assert ShuffledIndices(100, 10, random_numbers()).soon() == []


def test_it_goes_on_from_its_state(monkeypatch):
    monkeypatch.setattr(row_streams, "_BLOCKS", 4)
    stream = ShuffledIndices(103, 10, random_numbers(), 20)
    names = set()
    for _ in range(40):
        state, random = stream.state, random_numbers()
        names |= set(state)
        random.bit_generator.state = stream.random.bit_generator.state
        other = ShuffledIndices(103, 10, random_numbers(7), 20)
        other.state, other.random = state, random
        twin = stream.twin(copy.deepcopy(stream.random))
        batch = stream.next()
        assert np.array_equal(other.next(), batch)
        assert np.array_equal(twin.next(), batch)
    assert names == {"", "blocks", "late"}
    assert set(ShuffledIndices(103, 10, random_numbers()).state) == {
        ""
    }  # all that older checkpoints hold


@pytest.mark.parametrize(
    "wrong",
    (np.array([103]), np.array([-1]), np.zeros(3), np.zeros((1, 1), dtype=int)),
)
def test_a_state_of_other_numbers_is_refused(wrong):
    with pytest.raises(ValueError, match="rows are drawn that there are not"):
        ShuffledIndices(103, 10, random_numbers(), 20).state = {"": wrong}
    with pytest.raises(ValueError, match="rows are drawn that there are not"):
        ShuffledIndices(103, 10, random_numbers(), 20).state = {"": np.array([1]), "blocks": wrong}


def test_many_numbers_are_never_all_in_memory(monkeypatch):
    monkeypatch.setattr(row_streams, "_AT_ONCE", 1000)
    monkeypatch.setattr(row_streams, "_WINDOW", 256)
    assert len(ShuffledIndices(1000, 10, random_numbers()).rest) == 1000
    assert len(ShuffledIndices(1001, 10, random_numbers()).rest) == 256
    assert len(ShuffledIndices(1001, 10, random_numbers(), window=1001).rest) == 256
    assert len(ShuffledIndices(1001, 10, random_numbers(), window=512).rest) == 512


@pytest.mark.parametrize(
    ("n_rows", "n_columns", "batch_size", "window"),
    (
        (20_000, 3000, 400, 20_000),  # up to 256 MB, any order
        (2**20, 64, 400, 2**20),
        (2**20 + 1, 64, 400, 2**18),  # beyond, 64 MB
        (10**7, 64, 5000, 500_000),  # or a hundred batches
        (10**7, 64, 65_536, 2**20),  # up to 256 MB
        (10, 10**8, 400, 1),
    ),
)
def test_windows_are_long_stretches_of_large_tables(n_rows, n_columns, batch_size, window):
    assert window_for(n_rows, n_columns, batch_size) == window
