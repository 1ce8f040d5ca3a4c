"""Versions, devices and threads that the results depend on."""

from __future__ import annotations

import getpass
import os
import platform
import tempfile
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from importlib.metadata import version
from pathlib import Path

from threadpoolctl import threadpool_limits

from hotview._files import file_lock

__all__ = ["default_jobs", "device_name", "gpu_lock", "one_thread", "pick_device", "versions"]

_LIBRARIES = ("torch", "numpy", "scipy", "scikit-learn")


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
    from hotview.model.parameters import pick_device as pick

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


def gpu_lock(device: str) -> AbstractContextManager[None]:
    """Wait until no other process of this user trains on a GPU, and hold it.

    Processes that train on one GPU at the same time share it and gain nothing; what comes before
    and after a training needs no GPU, and keeps several processes busy.

    Parameters
    ----------
    device : str
        Device of a training; nothing is locked for a CPU.

    Returns
    -------
    context manager
        The lock.

    Examples
    --------
    >>> from paper.environment import gpu_lock
    >>> with gpu_lock("cpu"):
    ...     pass
    """
    if not device.startswith("cuda"):
        return nullcontext()
    name = f"hotview-{getpass.getuser()}-cuda{device.partition(':')[2] or 0}.lock"
    return file_lock(Path(tempfile.gettempdir()) / name)
