"""The seam of several processes: which there are, and what they exchange.

A fit runs in this process alone, or in processes that torchrun or the parameter `devices` started.
Which ones is decided once, by ``with use_processes(...)``; code inside asks here. *Collective*
functions have to be called by all processes in the same order: `on_rank_zero`, `all_gather_arrays`,
`all_gather`, `broadcast` and `all_reduce_mean`. With one process they return what they were given.
They exchange tensors, and text that JSON reads; nothing is unpickled.
"""

from __future__ import annotations

import atexit
import builtins
import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array

__all__ = [
    "ProcessLostError",
    "all_gather",
    "all_gather_arrays",
    "all_reduce_mean",
    "broadcast",
    "device_of_rank",
    "is_distributed",
    "on_rank_zero",
    "rank",
    "shard_of_rank",
    "use_processes",
    "world_size",
]

Result = TypeVar("Result")

_ROLL_CALL = 3.0  # seconds in which the remaining processes report
_KEY = "hotview"
dist: Any = torch.distributed  # its stores have no types


class ProcessLostError(ConnectionError):
    """A process of a training is gone, and the others cannot continue without it.

    Parameters
    ----------
    text : str
        Which process, and what to do.
    is_reporter : bool, default=True
        Whether this process is the one that prints the error, of all that are left.

    Examples
    --------
    >>> from hotview._processes import ProcessLostError
    >>> issubclass(ProcessLostError, OSError)
    True
    """

    def __init__(self, text: str, *, is_reporter: bool = True) -> None:
        super().__init__(text)
        self.is_reporter = is_reporter


@dataclass
class _Processes:
    """All processes of a fit, as this one sees them; torch.distributed connects them."""

    device: torch.device
    rank: int
    world_size: int
    store: Any
    is_broken: bool = False


_launched: _Processes | None = None
_current: ContextVar[_Processes | None] = ContextVar("hotview_processes", default=None)


@contextmanager
def use_processes(
    device: torch.device | None = None, devices: int | str | None = None
) -> Iterator[None]:
    """Fit inside in this process alone, or in several, which hear of errors in each other.

    Parameters
    ----------
    device : torch.device or None, default=None
        The kind of device that every process gets one of.
    devices : int, "auto" or None, default=None
        Number of processes; ``"auto"`` takes one per GPU, and None this one alone. torchrun
        overrides numbers. Other processes are started once, for all fits of the program.

    Examples
    --------
    >>> from hotview._processes import is_distributed, use_processes
    >>> with use_processes():
    ...     is_distributed()
    False
    """
    processes = None if device is None or devices is None else _launch_once(device, devices)
    token = _current.set(processes)
    try:
        yield
    except ProcessLostError:
        raise
    except Exception as error:
        if processes is not None:
            _report(processes, error)
        raise
    finally:
        _current.reset(token)


def is_distributed() -> bool:
    """Return whether rows are sharded among processes; also with a world size of 1."""
    return _current.get() is not None


def rank() -> int:
    """Return the rank of this process; rank 0 writes files, shows progress, calls callbacks."""
    processes = _current.get()
    return 0 if processes is None else processes.rank


def world_size() -> int:
    """Return the number of processes."""
    processes = _current.get()
    return 1 if processes is None else processes.world_size


def device_of_rank() -> torch.device | None:
    """Return the device of this process, where the launcher has chosen it."""
    processes = _current.get()
    return None if processes is None else processes.device


def shard_of_rank(n: int, rank: int, world_size: int) -> slice:
    """Return the contiguous rows of a table that one rank reads.

    Parameters
    ----------
    n : int
        Number of rows of the table.
    rank : int
        Rank of the process.
    world_size : int
        Number of processes.

    Returns
    -------
    slice
        Its rows, of equal number for all ranks up to rounding.

    Examples
    --------
    >>> from hotview._processes import shard_of_rank
    >>> [shard_of_rank(5, rank, 2) for rank in (0, 1)]
    [slice(0, 2, None), slice(2, 5, None)]
    """
    return slice(n * rank // world_size, n * (rank + 1) // world_size)


def on_rank_zero(compute: Callable[[], Result]) -> Result:
    """Call `compute` on rank 0, by itself; return its result, which JSON can hold, or its error."""
    processes = _current.get()
    if processes is None:
        return compute()
    message, error = b"", None
    if processes.rank == 0:
        outcome: dict[str, Any]
        token = _current.set(None)  # the others do not take part
        try:
            outcome = {"result": compute()}
        except Exception as raised:
            outcome, error = {"error": [type(raised).__name__, str(raised)]}, raised
        finally:
            _current.reset(token)
        message = json.dumps(outcome).encode()
    n = _broadcast(processes, torch.tensor([len(message)]))
    buffer = torch.empty(int(n), dtype=torch.uint8)
    if processes.rank == 0:
        buffer = torch.from_numpy(np.frombuffer(message, dtype=np.uint8).copy())
    outcome = json.loads(_broadcast(processes, buffer).numpy().tobytes().decode())
    if error is not None:
        raise error
    if "error" in outcome:
        raise _make_error(*outcome["error"])
    result: Result = outcome["result"]
    return result


def all_gather_arrays(array: Array) -> list[Array]:
    """Return the one-dimensional arrays of all ranks, which share a dtype."""
    processes = _current.get()
    if processes is None:
        return [array]
    n = torch.tensor([len(array)], device=processes.device)
    sizes = [int(size) for size in all_gather(n, [1] * processes.world_size)]
    own = torch.from_numpy(np.ascontiguousarray(array)).to(processes.device)
    return [x.cpu().numpy() for x in all_gather(own, sizes)]


def broadcast(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the tensors of rank 0."""
    processes = _current.get()
    if processes is None:
        return tensors
    kinds = on_rank_zero(
        lambda: [(k, str(x.dtype).split(".")[1], list(x.shape)) for k, x in tensors.items()]
    )
    sizes = [getattr(torch, dtype).itemsize * int(np.prod(shape)) for _, dtype, shape in kinds]
    if processes.rank == 0:
        # Into new tensors: a tensor with a single entry may have any stride.
        own = [
            torch.empty(x.numel(), dtype=x.dtype).copy_(x.detach().reshape(-1))
            for x in tensors.values()
        ]
        parts = [x.view(torch.uint8) for x in own]
        _broadcast(processes, torch.cat([torch.empty(0, dtype=torch.uint8), *parts]))
        return tensors
    received = _broadcast(processes, torch.empty(sum(sizes), dtype=torch.uint8))
    return {
        name: part.clone().view(getattr(torch, dtype)).reshape(shape)
        for (name, dtype, shape), part in zip(kinds, torch.split(received, sizes), strict=True)
    }


def all_gather(tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
    """Return the one-dimensional tensors of all ranks, whose sizes are known."""
    processes = _current.get()
    if processes is None:
        return [tensor]
    own = torch.nn.functional.pad(tensor, (0, max(sizes) - len(tensor)))
    gathered = [torch.empty_like(own) for _ in sizes]
    with _detecting_loss(processes):
        dist.all_gather(gathered, own)
    return [x[:n] for x, n in zip(gathered, sizes, strict=True)]


def all_reduce_mean(tensor: Tensor) -> Tensor:
    """Return the mean of a tensor over all ranks, in place."""
    processes = _current.get()
    if processes is None:
        return tensor
    with _detecting_loss(processes):  # not Fabric's, which has a barrier in every step
        dist.all_reduce(tensor)
    return tensor.div_(processes.world_size)


def _broadcast(processes: _Processes, tensor: Tensor) -> Tensor:
    on_device = tensor.to(processes.device)
    with _detecting_loss(processes):
        dist.broadcast(on_device, 0)
    return on_device.cpu()


@contextmanager
def _detecting_loss(processes: _Processes) -> Iterator[None]:
    """Raise an error that names the lost processes, where ranks cannot reach each other."""
    try:
        yield
    except RuntimeError as error:
        processes.is_broken = True
        if dist.get_backend() == "gloo":
            # A rank that waits for this one, not for the lost one, would wait on.
            with suppress(RuntimeError):
                dist.destroy_process_group()
        present, size = _call_roll(processes), processes.world_size
        lost = [
            f"rank {r} of {size} is gone{_reason(processes, r)}"
            for r in range(size)
            if r not in present
        ]
        reason = " and ".join(lost) or f"they cannot reach each other ({str(error)[:200]})"
        raise ProcessLostError(
            f"Expected all processes to take every step together, but {reason}.",
            is_reporter=processes.rank == min(present),
        ) from error


def _report(processes: _Processes, error: Exception) -> None:
    """Tell the other ranks of an error, and decide whether this one prints it."""
    with suppress(RuntimeError):
        text = f"{type(error).__name__}: {error}"
        processes.store.set(f"{_KEY}/failed/{processes.rank}", text)
        # Most errors are raised on all ranks, and one report is enough.
        is_reporter = processes.rank == 0 or not _reports(processes, {0}, "failed")
        error.is_reporter = is_reporter  # type: ignore[attr-defined]


def _call_roll(processes: _Processes) -> set[int]:
    """Return the ranks that are still there."""
    own, everyone = processes.rank, set(range(processes.world_size))
    try:
        processes.store.set(f"{_KEY}/here/{own}", "")
        return {own} | _reports(processes, everyone - {own}, "here")
    except RuntimeError:  # rank 0 keeps the store, and is gone
        return everyone - {0} if own else {own}


def _reports(processes: _Processes, ranks: set[int], kind: str) -> set[int]:
    """Wait a few seconds for reports of some ranks; return those that have reported."""
    reported: set[int] = set()
    end = time.monotonic() + _ROLL_CALL
    while reported < ranks and time.monotonic() < end:
        reported |= {r for r in ranks if processes.store.check([f"{_KEY}/{kind}/{r}"])}
        time.sleep(0.05)
    return reported


def _reason(processes: _Processes, lost: int) -> str:
    with suppress(RuntimeError):
        if processes.store.check([f"{_KEY}/failed/{lost}"]):
            return f" ({processes.store.get(f'{_KEY}/failed/{lost}').decode()})"
    return ""


def _launch_once(device: torch.device, devices: int | str) -> _Processes:
    """Start the other processes of this program and connect to them, once for all its fits."""
    from hotview._launch import launch, under_torchrun  # needs an optional dependency

    global _launched
    if _launched is None:
        launched = launch(device, devices)
        _launched = _Processes(*launched, dist.distributed_c10d._get_default_store())
        atexit.register(_disconnect)
    elif _launched.is_broken:
        raise ProcessLostError(
            "Expected all processes of the first fit to be here, but some are gone. Start the "
            "program again."
        )
    elif not under_torchrun() and devices not in ("auto", _launched.world_size):
        raise ValueError(
            f"Expected devices={_launched.world_size}, as in the first fit of this program, "
            f"because its processes are started once, but it is {devices!r}."
        )
    return _launched


def _disconnect() -> None:
    """End torch's threads before the interpreter does, which aborts where one is still running."""
    with suppress(RuntimeError):
        if dist.is_initialized():
            dist.destroy_process_group()


def _make_error(name: str, text: str) -> Exception:
    """Return an error of rank 0, by the name of its class and its text."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some need more than a text
            return kind(text)
    return RuntimeError(f"{name}: {text}")
