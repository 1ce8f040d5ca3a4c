"""What numbers depend on beside the data: versions, and the machine."""

from __future__ import annotations

import os
import platform
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib.metadata import version
from pathlib import Path
from types import ModuleType
from typing import IO

from threadpoolctl import threadpool_limits

fcntl: ModuleType | None
try:
    import fcntl
except ImportError:  # no file locks on this system: then nobody waits
    fcntl = None

__all__ = ["default_jobs", "device_name", "one_thread", "pick_device", "turn_on", "versions"]

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")
_AT_ONCE = 1  # processes that train on a GPU at a time
_WAIT = 0.005  # seconds


def versions() -> dict[str, str]:
    """Return the versions of everything that computes.

    Returns
    -------
    dict of str to str
        By name.

    Examples
    --------
    >>> from paper.environment import versions
    >>> list(versions())
    ['hotview', 'python', 'torch', 'numpy', 'scipy', 'scikit-learn']
    """
    return dict(_versions())


@cache
def _versions() -> dict[str, str]:
    from hotview import __version__

    ours = {"hotview": __version__, "python": platform.python_version()}
    return {**ours, **{name: version(name) for name in _LIBRARIES}}


def pick_device(device: str) -> str:
    """Check a device by its name; ``"auto"`` takes CUDA where there is any.

    Parameters
    ----------
    device : str
        ``"auto"``, ``"cpu"``, ``"cuda"``, ….

    Returns
    -------
    str
        What to pass to estimators.

    Examples
    --------
    >>> from paper.environment import pick_device
    >>> pick_device("cpu")
    'cpu'
    """
    if device == "cpu":  # always there, and torch takes seconds to import
        return device
    from hotview.estimators.parameters import pick_device as pick

    return str(pick(device))


def device_name(device: str) -> str:
    """Say what a device is.

    Parameters
    ----------
    device : str
        From `pick_device`.

    Returns
    -------
    str
        The name of the GPU, or of the processor and how many cores there are.

    Examples
    --------
    >>> from paper.environment import device_name
    >>> device_name("cpu").endswith("cores")
    True
    """
    if device.startswith("cuda"):
        import torch

        return str(torch.cuda.get_device_name(device))
    return f"{_processor()}, {os.cpu_count()} cores"


@cache
def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text().splitlines() if listed.exists() else []
    found = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return found[0] if found else platform.processor() or platform.machine()


@contextmanager
def one_thread() -> Iterator[None]:
    """Let everything inside compute in one thread, so that processes do not take each other's.

    Examples
    --------
    >>> import torch
    >>> from paper.environment import one_thread
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def default_jobs() -> int:
    """Return how many processes to use: one per core.

    Examples
    --------
    >>> from paper.environment import default_jobs
    >>> default_jobs() >= 1
    True
    """
    from joblib import cpu_count  # type: ignore[import-untyped]

    return int(cpu_count())  # as many as this process may use


@contextmanager
def turn_on(device: str) -> Iterator[None]:
    """Wait until no other process of this kind trains on a GPU.

    A GPU gives every process that wants it a slice of time in turn. What trains there asks for
    answers all the time, and more at once brought nothing; but what comes before and after a
    training needs no GPU, and keeps many processes busy.

    Parameters
    ----------
    device : str
        Where a training is to run; nobody waits for a CPU.

    Examples
    --------
    >>> from paper.environment import turn_on
    >>> with turn_on("cpu"):
    ...     pass
    """
    if not device.startswith("cuda") or fcntl is None:
        yield
        return
    name = f"hotview-{os.getuid()}-cuda{device.partition(':')[2] or 0}"
    places = [Path(tempfile.gettempdir()) / f"{name}-{i}.lock" for i in range(_AT_ONCE)]
    files = [place.open("w") for place in places]
    try:
        while not any(_is_free(file) for file in files):
            time.sleep(_WAIT)
        yield
    finally:
        for file in files:
            file.close()  # which lets go of the lock, as the end of a process does


def _is_free(file: IO[str]) -> bool:
    """Take a lock, if nobody else has it."""
    assert fcntl is not None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
