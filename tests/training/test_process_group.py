import os
import signal
import threading

import numpy as np
import pytest
import torch

from hotview.training.process_group import (
    AgreedInterrupt,
    Interrupt,
    ProcessGroup,
    ProcessLostError,
)


def test_one_process_asks_nobody():
    ranks, x = ProcessGroup(), torch.arange(3.0)
    assert ranks.is_first
    assert not ranks.is_shared
    assert ranks.first(lambda: [1, "a"]) == [1, "a"]
    assert ranks.share({"x": x})["x"] is x
    assert ranks.gather(x, [3])[0] is x
    assert ranks.average(x) is x
    (collected,) = ranks.collect(np.arange(2))
    np.testing.assert_array_equal(collected, [0, 1])
    assert type(ranks.listen()) is Interrupt


def test_errors_go_through():
    with pytest.raises(ZeroDivisionError), ProcessGroup().telling():
        ProcessGroup().first(lambda: 1 / 0)


def test_whoever_lost_the_others_may_be_the_one_to_tell():
    assert ProcessLostError("gone").speaks
    assert not ProcessLostError("gone", speaks=False).speaks


def press_ctrl_c():
    signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _pythons_own_handler():
    """Whoever runs the tests may have another; afterwards it is back."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_the_first_is_remembered_and_the_second_stops_at_once():
    reached = []
    with Interrupt() as interrupt:
        assert not interrupt.asked
        press_ctrl_c()
        reached.append("after the first")
        assert interrupt.asked
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()
    assert reached == ["after the first"]


def test_a_signal_from_outside_is_the_same():
    with Interrupt() as interrupt:
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt.asked


@pytest.mark.parametrize("presses", (0, 1))
def test_the_handler_is_restored(presses):
    def mine(number, frame):
        raise AssertionError("not while it is entered")

    signal.signal(signal.SIGINT, mine)
    with Interrupt() as interrupt:
        assert signal.getsignal(signal.SIGINT) != mine
        for _ in range(presses):
            press_ctrl_c()
    assert interrupt.asked == bool(presses)
    assert signal.getsignal(signal.SIGINT) is mine


def test_the_handler_is_restored_after_an_error():
    with pytest.raises(ZeroDivisionError), Interrupt():
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        press_ctrl_c()


def test_the_second_goes_to_whoever_handled_it_before():
    seen = []
    signal.signal(signal.SIGINT, lambda number, frame: seen.append(number))
    with Interrupt():
        press_ctrl_c()
        assert seen == []
        press_ctrl_c()
        assert seen == [signal.SIGINT]


def test_who_ignores_ctrl_c_keeps_ignoring_it():
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with Interrupt() as interrupt:
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
        press_ctrl_c()
        assert not interrupt.asked
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_one_inside_another():
    with Interrupt() as outer:
        with Interrupt() as inner:
            press_ctrl_c()
        assert inner.asked
        assert not outer.asked
        press_ctrl_c()
        assert outer.asked


def test_outside_the_main_thread_it_does_nothing():
    found = []

    def work():
        with Interrupt() as interrupt:
            found.append((interrupt.asked, signal.getsignal(signal.SIGINT)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, signal.default_int_handler)]


def test_of_several_processes_one_only_hears_until_all_agree():
    with AgreedInterrupt(signal.SIGINT, signal.SIGTERM) as interrupt:
        assert not interrupt.heard
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.heard
        assert not interrupt.asked
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


def test_a_signal_that_counts_ends_nothing_else():
    with Interrupt(signal.SIGTERM) as interrupt:
        with pytest.raises(KeyboardInterrupt):
            press_ctrl_c()  # which was not named
        signal.raise_signal(signal.SIGTERM)
        assert interrupt.asked
