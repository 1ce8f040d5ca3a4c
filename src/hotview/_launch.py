"""Start of several processes: Lightning Fabric or torchrun starts them, torch connects them."""

from __future__ import annotations

import logging
import multiprocessing
import os
import sys
import threading
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import torch

__all__ = ["agree_on_token", "launch", "under_torchrun"]

# A lost process closes its connections, which the others notice at once. This limits how long they
# wait while rank 0 reads, scores or writes.
_TIMEOUT = timedelta(minutes=30)
_KILL_DELAY = 30  # seconds until Fabric kills the remaining processes
_POLL = 0.02  # seconds between two looks into a store
_KEY = "hotview"
dist: Any = torch.distributed  # its stores have no types


def under_torchrun() -> bool:
    """Return whether torchrun has started this process.

    Examples
    --------
    >>> from hotview._launch import under_torchrun
    >>> under_torchrun()
    False
    """
    return bool(dist.is_available() and dist.is_torchelastic_launched())


def launch(device: torch.device, devices: int | str) -> tuple[torch.device, int, int]:
    """Start the other processes of this program and connect to them.

    Parameters
    ----------
    device : torch.device
        The kind of device that every process gets one of.
    devices : int or "auto"
        Number of processes; ``"auto"`` takes one per GPU. torchrun overrides it.

    Returns
    -------
    tuple of (torch.device, int, int)
        Device of this process, its rank, and the number of processes.
    """
    try:
        from lightning_fabric import Fabric
        from lightning_fabric.strategies.ddp import DDPStrategy
    except ImportError as error:
        raise ImportError(
            "Expected Lightning Fabric, because devices starts processes by it, but it "
            'is not installed. Run pip install "hotview[distributed]".'
        ) from error
    n_nodes = 1
    if under_torchrun():
        devices = int(os.environ["LOCAL_WORLD_SIZE"])
        n_nodes = int(os.environ["WORLD_SIZE"]) // devices
        if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True" and not dist.is_initialized():
            _connect_by_agent("nccl" if device.type == "cuda" else "gloo")
    elif devices != 1:
        _check_script()
    # Fabric logs a greeting in every process.
    logging.getLogger("lightning_fabric.utilities.distributed").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=device.type,
        devices=devices,
        num_nodes=n_nodes,
        strategy=DDPStrategy(timeout=_TIMEOUT),
    )
    fabric.launch()
    for thread in threading.enumerate():
        if thread.name == "child-process-observer" and hasattr(thread, "_terminate_all"):
            # Fabric kills all processes when one is gone: not before the error names which.
            thread._terminate_all = partial(_terminate_later, thread._terminate_all)
    return fabric.device, fabric.global_rank, fabric.world_size


def _terminate_later(terminate: Callable[[], None]) -> None:
    time.sleep(_KILL_DELAY)
    terminate()


def _check_script() -> None:
    """Raise an error where this process was not started by a script that can be run again."""
    process = multiprocessing.current_process().name
    if process != "MainProcess":
        raise RuntimeError(
            "Expected the first process of a script, because devices starts other processes "
            f"by running it again, but this is {process}, a worker of it. Use n_jobs=1, or leave "
            "devices out: parallel fits use several processes, too."
        )
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None or not os.path.isfile(script):  # "<stdin>" is none
        raise RuntimeError(
            "Expected a script, because devices starts other processes by running it again, "
            "but this is a prompt or a notebook. Write a script, or leave devices out."
        )


def _connect_by_agent(backend: str) -> None:
    """Connect the processes of torchrun by the store of its agent.

    torch does that, too, but addresses of processes from before a restart are still in the store,
    and whoever reads them waits in vain (github.com/pytorch/pytorch/issues/135712). The number of
    restarts does not help, because each node counts its own. So the processes first agree on a new
    prefix.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, is_master=False, timeout=_TIMEOUT)
    token = agree_on_token(store, rank, world_size, _TIMEOUT.total_seconds())
    prefixed = dist.PrefixStore(f"{_KEY}/{token}", store)
    dist.init_process_group(
        backend, store=prefixed, rank=rank, world_size=world_size, timeout=_TIMEOUT
    )


def agree_on_token(store: Any, rank: int, world_size: int, seconds: float) -> str:
    """Return a new token, the same on all ranks, that no earlier process of the store has seen.

    All ranks but 0 publish a random number, and wait for the answer to that number; rank 0 answers
    all numbers, of earlier and of present processes, until all ranks have confirmed its token.

    Parameters
    ----------
    store : torch.distributed.Store
        Store of all processes.
    rank : int
        Rank of this process.
    world_size : int
        Number of processes.
    seconds : float
        How long to wait for the others.

    Returns
    -------
    str
        The token.

    Examples
    --------
    >>> from torch.distributed import HashStore
    >>> from hotview._launch import agree_on_token
    >>> len(agree_on_token(HashStore(), 0, 1, 1.0))
    32
    """
    number, end = uuid.uuid4().hex, time.monotonic() + seconds

    def wait_until(condition: Callable[[], bool]) -> None:
        while not condition():
            if time.monotonic() > end:
                raise TimeoutError(
                    "Expected all processes of torchrun to connect, but some did not. Read their "
                    "output, and start torchrun again."
                )
            time.sleep(_POLL)

    if rank > 0:
        store.set(f"{_KEY}/hello/{rank}", number)
        answer = f"{_KEY}/answer/{number}"
        wait_until(lambda: store.check([answer]))
        token: str = store.get(answer).decode()
        store.set(f"{_KEY}/confirmed/{token}/{rank}", "")
        return token

    def all_have_confirmed() -> bool:
        for other in range(1, world_size):
            if store.check([f"{_KEY}/hello/{other}"]):
                hello = store.get(f"{_KEY}/hello/{other}").decode()
                store.set(f"{_KEY}/answer/{hello}", number)
        confirmed = [f"{_KEY}/confirmed/{number}/{other}" for other in range(1, world_size)]
        return all(store.check([key]) for key in confirmed)

    wait_until(all_have_confirmed)
    return number
