import pytest
import torch

from hotview.training.threads import one_thread, suited_threads

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def test_a_small_step_gets_one_thread():
    with suited_threads(torch.nn.Linear(100, 100), 400, CPU):
        assert torch.get_num_threads() == 1
    assert torch.get_num_threads() == 2


def test_a_large_step_keeps_all():
    with suited_threads(torch.nn.Linear(1000, 1000), 400, CPU):
        assert torch.get_num_threads() == 2


def test_another_device_is_left_alone():
    with suited_threads(torch.nn.Linear(2, 2), 4, torch.device("meta")):
        assert torch.get_num_threads() == 2


def test_what_fails_puts_the_setting_back():
    def fail():
        with suited_threads(torch.nn.Linear(2, 2), 4, CPU):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    assert torch.get_num_threads() == 2


def test_of_two_at_once_the_last_puts_the_setting_back():
    torch.set_num_threads(2)
    first, second = one_thread(), one_thread()
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)
    second.__exit__(None, None, None)
    assert torch.get_num_threads() == 2
