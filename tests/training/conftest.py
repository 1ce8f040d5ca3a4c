import contextlib
import os
import signal
import subprocess
import sys

import pytest


@contextlib.contextmanager
def _started(*words, **more):
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    command = [sys.executable, *map(str, words)]
    with subprocess.Popen(command, env=environment, start_new_session=True, **pipes, **more) as job:
        try:
            yield job
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(job.pid, signal.SIGKILL)  # the processes that it has started, too


@pytest.fixture(scope="session")
def started():
    """Start a script that starts others, none of which outlives the test."""
    return _started


@pytest.fixture
def pythons_own_handler():
    """Whoever runs the tests may ignore Ctrl-C."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
