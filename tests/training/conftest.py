import contextlib
import os
import signal
import subprocess
import sys

import pytest


@pytest.fixture(scope="session")
def started():
    """Start a script that starts others, none of which outlives the test."""

    @contextlib.contextmanager
    def start(*words, **more):
        more |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        more |= {"env": {**os.environ, "OMP_NUM_THREADS": "1"}, "start_new_session": True}
        with subprocess.Popen([sys.executable, *map(str, words)], **more) as job:
            try:
                yield job
            finally:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(job.pid, signal.SIGKILL)  # the processes that it has started, too

    return start


@pytest.fixture
def pythons_own_handler():
    """Whoever runs the tests may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
