"""Where processes of torchrun find each other, after a restart, too."""

from __future__ import annotations

import os
import time
import uuid
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch

__all__ = ["agree_on_token", "meet_at_agent"]

_PAUSE = 0.02  # seconds between two looks
dist: Any = torch.distributed  # whose stores have no types


def meet_at_agent(backend: str, timeout: timedelta) -> None:
    """Connect the processes of torchrun over the store of its agent.

    torch does that, too, but what processes of before a restart have left in the store (where they
    listen) is still there, and whoever reads it waits for them in vain
    (github.com/pytorch/pytorch/issues/135712). How often a node was restarted is no help, because
    each node counts for itself. So they first agree on a name that is new.

    Parameters
    ----------
    backend : {"gloo", "nccl"}
        How they are connected.
    timeout : timedelta
        How long they wait for each other.
    """
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(host, port, is_master=False, timeout=timeout)
    token = agree_on_token(store, rank, size, timeout.total_seconds())
    own = dist.PrefixStore(f"hotview/{token}", store)
    dist.init_process_group(backend, store=own, rank=rank, world_size=size, timeout=timeout)


def agree_on_token(store: Any, rank: int, size: int, seconds: float) -> str:
    """A name that no process of before knows, the same in all processes of now.

    All but the first put up a number of their own, and wait until the first has answered that
    number; it answers whatever it finds, of before or of now, until all have confirmed its name.

    Parameters
    ----------
    store : torch.distributed.Store
        What all can read and write.
    rank : int
        Which process this is.
    size : int
        How many there are.
    seconds : float
        How long to wait for the others.

    Returns
    -------
    str
        The name.

    Examples
    --------
    >>> from torch.distributed import HashStore
    >>> from hotview.training.rendezvous import agree_on_token
    >>> len(agree_on_token(HashStore(), 0, 1, 1.0))
    32
    """
    mine, end = uuid.uuid4().hex, time.monotonic() + seconds
    if rank > 0:
        store.set(f"hotview/hello/{rank}", mine)
        answer = f"hotview/answer/{mine}"
        _wait(lambda: store.check([answer]), end)
        token: str = store.get(answer).decode()
        store.set(f"hotview/confirmed/{token}/{rank}", "")
        return token
    answered: set[str] = set()

    def all_have_confirmed() -> bool:
        for other in range(1, size):
            if store.check([f"hotview/hello/{other}"]):
                number = store.get(f"hotview/hello/{other}").decode()
                if number not in answered:
                    store.set(f"hotview/answer/{number}", mine)
                    answered.add(number)
        return all(store.check([f"hotview/confirmed/{mine}/{other}"]) for other in range(1, size))

    _wait(all_have_confirmed, end)
    return mine


def _wait(is_so: Callable[[], bool], end: float) -> None:
    while not is_so():
        if time.monotonic() > end:
            raise TimeoutError(
                "Expected all processes of torchrun to come, but some did not. Look at what they "
                "say, and start torchrun again."
            )
        time.sleep(_PAUSE)
