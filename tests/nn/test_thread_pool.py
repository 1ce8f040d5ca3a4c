import threading
from functools import partial

import pytest
import torch

from hotview.nn import thread_pool
from hotview.nn.thread_pool import several_workers, share_among_workers

LARGE = thread_pool._WORTH_SHARING


def who(i):
    return i, threading.get_ident(), torch.get_num_threads()


def works(n):
    return [partial(who, i) for i in range(n)]


def test_what_is_returned_is_in_the_order_of_the_works():
    with several_workers(3):
        found = share_among_workers(works(7), [LARGE * (1 + i % 3) for i in range(7)])
    assert [i for i, *_ in found] == list(range(7))


def test_several_threads_take_part_each_with_one_of_torchs():
    with several_workers(2):
        found = share_among_workers(works(4), [LARGE] * 4)
    threads = {thread: n for _, thread, n in found}
    assert len(threads) == 2
    assert {n for thread, n in threads.items() if thread != threading.get_ident()} == {1}


@pytest.mark.parametrize("sizes", ([1, 1], [LARGE - 2, 1]))
def test_little_work_is_done_by_who_has_it(sizes):
    with several_workers(2):
        found = share_among_workers(works(2), sizes)
    assert {thread for _, thread, _ in found} == {threading.get_ident()}


def test_nobody_shares_outside_or_with_one_worker():
    assert {t for _, t, _ in share_among_workers(works(3), [LARGE] * 3)} == {threading.get_ident()}
    with several_workers(1):
        found = share_among_workers(works(3), [LARGE] * 3)
    assert {t for _, t, _ in found} == {threading.get_ident()}


def test_work_is_dealt_evenly_and_completely():
    sizes = [240, 76, 216, 47, 64, 6]
    parts = thread_pool._deal(sizes, 2)
    assert sorted(i for part in parts for i in part) == list(range(6))
    first, second = (sum(sizes[i] for i in part) for part in parts)
    assert abs(first - second) <= 30
    assert thread_pool._deal([1], 4) == [[0]]


def test_an_error_of_a_worker_is_the_callers():
    def fail():
        raise ZeroDivisionError("mine")

    with several_workers(2), pytest.raises(ZeroDivisionError, match="mine"):
        share_among_workers([fail, fail], [LARGE, LARGE])
