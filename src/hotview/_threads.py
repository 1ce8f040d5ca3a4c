"""What a fit sets for its process: the number of CPU threads, and the handler of Ctrl-C."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from types import FrameType
from typing import Any

import torch
from threadpoolctl import threadpool_limits
from torch import nn

__all__ = [
    "Interrupt",
    "catch_interrupt",
    "existing_threads",
    "one_thread",
    "suited_threads",
    "threads_for_rows",
]

_process = os.getpid()

# Of fits in several threads at once, the first saves the settings and the last restores them.
_lock = threading.Lock()
if hasattr(os, "register_at_fork"):  # the thread that holds it does not exist in a forked process
    os.register_at_fork(after_in_child=_lock._at_fork_reinit)  # type: ignore[attr-defined]
_users, _before = 0, 1
_limits: threadpool_limits | None = None
_SMALL = 10**8  # multiplications of one pass over a batch
_FEW_ROWS = 256  # which one thread predicts about as fast as several


@contextmanager
def suited_threads(network: nn.Module, batch_size: int, device: torch.device) -> Iterator[None]:
    """Use one thread where a step is small, and restore torch's setting afterwards.

    A step of a small network is a few hundred operations of some microseconds: a second thread
    gains nothing, and where other programs use the same cores, waiting for it is expensive.

    Parameters
    ----------
    network : nn.Module
        Network to train.
    batch_size : int
        Rows of a step.
    device : torch.device
        Device of the training.

    Examples
    --------
    >>> import torch
    >>> from hotview._threads import suited_threads
    >>> before = torch.get_num_threads()
    >>> with suited_threads(torch.nn.Linear(20, 10), 400, torch.device("cpu")):
    ...     torch.get_num_threads()
    1
    >>> torch.get_num_threads() == before
    True
    """
    work = batch_size * sum(p.numel() for p in network.parameters())
    if device.type != "cpu" or work > _SMALL:
        yield
        return
    with one_thread():
        yield


@contextmanager
def threads_for_rows(n_rows: int, device: torch.device) -> Iterator[None]:
    """Use one thread to predict a few rows: a service must not wait for cores that others use.

    Parameters
    ----------
    n_rows : int
        Number of rows.
    device : torch.device
        Where they are predicted.

    Examples
    --------
    >>> import torch
    >>> from hotview._threads import threads_for_rows
    >>> with threads_for_rows(1, torch.device("cpu")):
    ...     torch.get_num_threads()
    1
    """
    few = device.type == "cpu" and n_rows <= _FEW_ROWS and torch.get_num_threads() > 1
    with one_thread(blas=False) if few else nullcontext():
        yield


@contextmanager
def one_thread(*, blas: bool = True) -> Iterator[None]:
    """Use one thread, where all operations are small, and restore torch's setting afterwards.

    Parameters
    ----------
    blas : bool, default=True
        Whether the linear algebra of numpy and scipy, which has threads of its own, uses one as
        well. Finding its libraries takes longer than predicting a row.

    Examples
    --------
    >>> import torch
    >>> from hotview._threads import one_thread
    >>> with one_thread():
    ...     torch.get_num_threads()
    1
    """
    global _users, _limits, _before
    mine = torch.get_num_threads()
    with _lock:
        if _users == 0:
            _before, _limits = mine, threadpool_limits(1) if blas else None
        _users += 1
    torch.set_num_threads(1)
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            # torch applies the last setting to threads that start later.
            torch.set_num_threads(_before if _users == 0 else mine)
            if _users == 0 and _limits is not None:
                _limits.restore_original_limits()
                _limits = None


@contextmanager
def existing_threads() -> Iterator[None]:
    """Use one thread in a process that was forked off this one, and restore the setting afterwards.

    The other threads of OpenMP exist in the first process only; an operation that is divided among
    them never returns in a forked one.

    Examples
    --------
    >>> import torch
    >>> from hotview._threads import existing_threads
    >>> before = torch.get_num_threads()
    >>> with existing_threads():
    ...     torch.get_num_threads() == before
    True
    """
    with nullcontext() if os.getpid() == _process else one_thread():
        yield


@dataclass
class Interrupt:
    """Whether Ctrl-C was received, and whether the fit is to stop.

    Parameters
    ----------
    received : bool, default=False
        Whether this process has received the signal.
    requested : bool, default=False
        Whether to stop; several processes stop once all have agreed on it.
    """

    received: bool = False
    requested: bool = False


@contextmanager
def catch_interrupt(*signals: signal.Signals, agreed: bool = False) -> Iterator[Interrupt]:
    """Record the first Ctrl-C inside; the second one stops at once.

    Outside the main thread, where Python delivers no signals, it does nothing.

    Parameters
    ----------
    *signals : signal
        Signals to handle; Ctrl-C alone by default.
    agreed : bool, default=False
        Whether a signal is only received, because processes have to agree on the request.

    Yields
    ------
    Interrupt
        What was received so far.

    Examples
    --------
    >>> from hotview._threads import catch_interrupt
    >>> with catch_interrupt() as interrupt:
    ...     interrupt.requested
    False
    """
    interrupt, before = Interrupt(), dict[signal.Signals, Any]()

    def restore() -> None:
        while before:
            signal.signal(*before.popitem())

    def handle(number: int, frame: FrameType | None) -> None:
        interrupt.received, interrupt.requested = True, not agreed
        restore()

    if threading.current_thread() is threading.main_thread():
        for number in signals or (signal.SIGINT,):
            handler = signal.getsignal(number)
            # A program that ignores Ctrl-C, or handles it outside Python, keeps doing so.
            if callable(handler) or (number != signal.SIGINT and handler == signal.SIG_DFL):
                before[number] = handler
                signal.signal(number, handle)
    try:
        yield interrupt
    finally:
        restore()
