import os
import signal
import threading

import numpy as np
import pytest
import torch

from hotview.training.process_group import (
    Interrupt,
    ProcessGroup,
    ProcessLostError,
    RowsByRank,
    RowShard,
    catch_interrupt,
    shard_of_rank,
)


def test_the_operations_of_a_single_process_return_their_arguments():
    group, x = ProcessGroup(), torch.arange(3.0)
    assert group.is_rank_zero
    assert not group.is_distributed
    assert group.on_rank_zero(lambda: [1, "a"]) == [1, "a"]
    assert group.broadcast({"x": x})["x"] is x
    assert group.all_gather(x, [3])[0] is x
    assert group.all_reduce_mean(x) is x
    (array,) = group.all_gather_arrays(np.arange(2))
    np.testing.assert_array_equal(array, [0, 1])
    with group.catch_interrupt() as interrupt:
        assert interrupt == Interrupt()
    with pytest.raises(ZeroDivisionError), group.report_errors():
        group.on_rank_zero(lambda: 1 / 0)
    assert ProcessLostError("gone").is_reporter


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


pytestmark = pytest.mark.usefixtures("pythons_own_handler")


def test_the_first_is_remembered_and_the_second_goes_to_whoever_handled_it_before():
    seen = []

    def mine(number, frame):
        seen.append(number)

    signal.signal(signal.SIGINT, mine)
    with catch_interrupt() as interrupt:
        assert not interrupt.requested
        os.kill(os.getpid(), signal.SIGINT)  # from outside
        assert interrupt.requested
        assert seen == []
        press_ctrl_c()
        assert seen == [signal.SIGINT]
    assert signal.getsignal(signal.SIGINT) is mine
    signal.signal(signal.SIGINT, signal.default_int_handler)
    with catch_interrupt():
        press_ctrl_c()
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_who_ignores_ctrl_c_keeps_ignoring_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with catch_interrupt() as interrupt:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        press_ctrl_c()
        assert not interrupt.requested
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_one_inside_another():
    with catch_interrupt() as outer:
        with catch_interrupt() as inner:
            press_ctrl_c()
        assert inner.requested
        assert not outer.requested
        press_ctrl_c()
        assert outer.requested


def test_outside_the_main_thread_it_does_nothing():
    found = []

    def work():
        with catch_interrupt() as interrupt:
            found.append((interrupt.requested, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]


def test_a_signal_is_only_received_until_all_processes_agree():
    with catch_interrupt(signal.SIGINT, signal.SIGTERM, agreed=True) as interrupt:
        assert not interrupt.received
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.received
        assert not interrupt.requested
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_that_counts_ends_nothing_else():
    with catch_interrupt(signal.SIGTERM) as interrupt:
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()  # which was not named
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.requested


@pytest.mark.parametrize("size", (1, 3, 8))
def test_every_row_of_every_table_has_one_owner(size):
    sizes = (5, 0, 1, 12)
    for n in (*sizes, 2, 100):
        parts = [np.arange(n)[shard_of_rank(n, rank, size)] for rank in range(size)]
        np.testing.assert_array_equal(np.concatenate(parts), np.arange(n))
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
    starts = np.cumsum([0, *sizes])
    expected = [
        rank for n in sizes for rank in range(size) for _ in range(n)[shard_of_rank(n, rank, size)]
    ]
    for rank in range(size):
        shard = RowShard.of([starts], rank, size)
        rows = np.random.default_rng(0).permutation(18)
        np.testing.assert_array_equal(shard.owners(0, rows), np.array(expected)[rows])
        mine = [row for row in rows if expected[row] == rank]
        np.testing.assert_array_equal(shard.select(0, rows), mine)


def test_rows_grouped_by_rank_are_put_back_in_order():
    random = np.random.default_rng(0)
    owners, X = random.integers(3, size=20), random.normal(size=(20, 2))
    by_rank = RowsByRank.of(owners, 4)  # the last rank has nothing
    gathered = np.concatenate([X[positions] for positions in by_rank.positions])
    np.testing.assert_array_equal(gathered[by_rank.inverse], X)
    assert all(
        (owners[positions] == rank).all() for rank, positions in enumerate(by_rank.positions)
    )
