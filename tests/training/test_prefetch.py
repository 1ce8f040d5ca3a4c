import threading
import time
from itertools import count

import pytest

from hotview.training.prefetch import Ahead


def threads():
    return [t for t in threading.enumerate() if t.name.startswith("hotview-ahead")]


def test_what_was_decided_comes_in_order():
    ahead = Ahead(count().__next__, lambda i: 10 * i, depth=3)
    for i in range(20):
        assert ahead.expected == i
        assert ahead.next() == 10 * i


def test_it_is_decided_here_and_fetched_elsewhere_before_it_is_asked_for():
    decided, fetched, numbers = [], [], count()

    def decide():
        decided.append(threading.current_thread())
        return next(numbers)

    def fetch(i):
        fetched.append(threading.current_thread())
        return i

    ahead = Ahead(decide, fetch, depth=4)
    assert len(decided) == 4
    for _ in range(1000):
        if len(fetched) == 4:
            break
        time.sleep(0.01)
    assert len(fetched) == 4
    assert set(decided) == {threading.current_thread()}
    assert threading.current_thread() not in fetched
    ahead.next()
    assert len(decided) == 5


def test_an_error_comes_with_what_it_is_about():
    def fetch(i):
        if i == 2:
            raise OSError("the disk is gone")
        return i

    ahead = Ahead(count().__next__, fetch, depth=4)
    assert [ahead.next(), ahead.next()] == [0, 1]
    with pytest.raises(OSError, match="the disk is gone"):
        ahead.next()
    assert ahead.next() == 3


def test_the_thread_ends_with_it():
    before = threads()
    ahead = Ahead(count().__next__, str, depth=2)
    ahead.next()
    (thread,) = set(threads()) - set(before)
    del ahead
    thread.join(timeout=30)
    assert not thread.is_alive()


def test_what_is_dropped_is_not_fetched():
    fetched, go = [], threading.Event()

    def fetch(i):
        go.wait(30)
        fetched.append(i)

    before = threads()
    ahead = Ahead(count().__next__, fetch, depth=5)
    (thread,) = set(threads()) - set(before)
    ahead.drop()
    go.set()
    thread.join(timeout=30)
    assert len(fetched) <= 1
