import os
import signal

import numpy as np
import pytest
import torch
from sklearn.base import clone

from hotview import MultiViewEncoder, load
from hotview.datasets import make_views
from hotview.training import threads
from hotview.training.threads import one_thread, suited_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


META = torch.device("meta")  # as a GPU


@pytest.mark.parametrize(
    ("threads_for", "n_threads"),
    (
        (lambda: suited_threads(torch.nn.Linear(100, 100), 400, CPU), 1),
        (lambda: suited_threads(torch.nn.Linear(1000, 1000), 400, CPU), 2),
        (lambda: suited_threads(torch.nn.Linear(2, 2), 4, META), 2),
        (lambda: threads.threads_for_rows(256, CPU), 1),
        (lambda: threads.threads_for_rows(257, CPU), 2),
        (lambda: threads.threads_for_rows(1, META), 2),
    ),
)
def test_small_work_gets_one_thread_and_the_setting_is_put_back(threads_for, n_threads):
    with threads_for():
        assert torch.get_num_threads() == n_threads
    assert torch.get_num_threads() == 2
    with pytest.raises(KeyboardInterrupt), threads_for():
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
    encoder = MultiViewEncoder(hidden=(), max_epochs=1, random_state=0)
    expected = encoder.fit(views).transform(views)["view_0"]
    encoder.save(tmp_path / "before.hotview")

    def is_equal(model):
        same = np.array_equal(model.transform(views)["view_0"], expected)
        return same and torch.get_num_threads() == 2

    assert in_a_fork(lambda: is_equal(encoder))
    assert in_a_fork(lambda: is_equal(load(tmp_path / "before.hotview")))
    assert in_a_fork(lambda: encoder.save(tmp_path / "after.hotview").exists())
    assert in_a_fork(lambda: is_equal(clone(encoder).fit(views)))


def test_a_lock_that_another_thread_holds_is_free_in_a_forked_process():
    with threads._lock:
        assert in_a_fork(threads._lock.acquire)
