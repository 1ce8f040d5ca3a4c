"""Modules that pytest leaves alone, what every test begins with, and what test files may use."""

import faulthandler
import multiprocessing.process
import os
import sys
from collections import Counter
from functools import wraps
from importlib.util import find_spec
from tempfile import TemporaryFile

import pytest
import torch
from hypothesis import settings

from hotview.estimators import fit as fit_module
from hotview.tables import reader_process
from tests.test_budget import exceeded

collect_ignore = []
if not find_spec("triton"):
    collect_ignore += [f"src/hotview/{part}/kernels.py" for part in ("ot", "semisupervised")]
settings.register_profile("untimed", deadline=None)  # a machine may be busy
settings.load_profile("untimed")

#: models fitted, processes started and browser pages opened, by test file
USED = Counter()
_WORKERS = "used in all workers"
_file = ""


@pytest.fixture(autouse=True)
def seeded_modules():
    """Modules that a test makes have the same weights whenever and wherever it runs."""
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _reader_fork(monkeypatch):
    """Files are read by a fork, which is quicker; tests of the other process bring it back."""

    def read_in_fork(path, task, names=()):
        with TemporaryFile() as output:
            if (child := os.fork()) == 0:
                faulthandler.disable()  # damaged files may crash it, without a word
                os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
                try:
                    reader_process.write_output(output, task, str(path), names)
                finally:
                    os._exit(1)
            status = os.waitpid(child, 0)[1]
            return reader_process.load_output(output, os.waitstatus_to_exitcode(status))

    if hasattr(os, "fork"):
        monkeypatch.setattr(reader_process, "read_in_process", read_in_fork)


def _counting(what, function):
    @wraps(function)
    def counted(*args, **kwargs):
        _count(what)
        return function(*args, **kwargs)

    return counted


def _count_processes(event, args):
    if event == "subprocess.Popen":
        _count("processes")


def _count(what):
    """Count what a fast test of a file uses, and nothing of slow ones or of pytest itself."""
    if _file:
        USED[_file, what] += 1


def pytest_configure(config):
    """Count from now on."""
    sys.addaudithook(_count_processes)
    process = multiprocessing.process.BaseProcess
    process.start = _counting("processes", process.start)
    fit_module.build_graphs = _counting("fits", fit_module.build_graphs)  # which warns of nothing
    if find_spec("playwright"):
        from playwright.sync_api import Browser, BrowserContext

        for opener in (Browser, BrowserContext):
            opener.new_page = _counting("pages", opener.new_page)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Note which file uses what is used now; slow tests are for what takes long."""
    global _file
    _file = "" if item.get_closest_marker("slow") else item.location[0].replace("\\", "/")
    return (yield)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Add what a worker used."""
    for *key, n in getattr(node, "workeroutput", {}).get(_WORKERS, ()):
        USED[tuple(key)] += n


def pytest_sessionfinish(session):
    """Fail where a file used more than it may, and tell the main process what this one used."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput[_WORKERS] = [[*key, n] for key, n in USED.items()]
    elif exceeded(USED) and not session.exitstatus:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter):
    """Say who used more than allowed."""
    for line in exceeded(USED):
        terminalreporter.write_line(line, red=True)
