"""What all fits of these tests have in common."""

import signal

import pytest

from hotview.similarity import view_similarity


@pytest.fixture(autouse=True, scope="module")
def few_draws():
    """Draw little of what chance would do: most of these fits are not about similarity."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(view_similarity, "_N_PERMUTATIONS", 39)
        patch.setattr(view_similarity, "_N_HALVES", 20)
        yield


@pytest.fixture
def press_ctrl_c():
    """Press Ctrl-C, also in a process that was started to ignore it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield lambda: signal.raise_signal(signal.SIGINT)
    signal.signal(signal.SIGINT, before)
