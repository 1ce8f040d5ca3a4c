from concurrent.futures import ThreadPoolExecutor

import pytest
from hotview.training.rendezvous import agree_on_token
from torch.distributed import HashStore


def meet(store, size):
    with ThreadPoolExecutor(size) as threads:
        found = [threads.submit(agree_on_token, store, rank, size, 30.0) for rank in range(size)]
        return [one.result() for one in found]


@pytest.mark.parametrize("size", (1, 2, 5))
def test_all_agree_and_never_on_what_was_before(size):
    store = HashStore()
    names = [meet(store, size) for _ in range(4)]  # the store is not swept between
    assert all(len(set(once)) == 1 for once in names)
    assert len({once[0] for once in names}) == 4


def test_whoever_was_left_behind_by_others_does_not_count():
    store = HashStore()
    with pytest.raises(TimeoutError, match="some did not"):
        agree_on_token(store, 1, 2, 0.1)  # the first never came
    with pytest.raises(TimeoutError, match="some did not"):
        agree_on_token(store, 0, 2, 0.1)  # and finds what it has left behind
    assert len(set(meet(store, 2))) == 1
