"""Several processes that train together: Lightning Fabric starts them, torch connects them."""

from __future__ import annotations

import atexit
import builtins
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from hotview._types import Array
from hotview.training.process_group import (
    Interrupt,
    ProcessGroup,
    ProcessLostError,
    Result,
    catch_interrupt,
)

__all__ = ["DistributedGroup", "agree_on_token", "launch_processes", "under_torchrun"]

# A lost process closes its connections, which the others notice at once. This limits how long they
# wait while rank 0 reads, scores or writes.
_TIMEOUT = timedelta(minutes=30)
_ROLL_CALL = 3.0  # seconds in which the remaining processes report
_KILL_DELAY = 30  # seconds until Fabric kills the remaining processes
_POLL = 0.02  # seconds between two looks into a store
_KEY = "hotview"
dist: Any = torch.distributed  # its stores have no types

_launched: DistributedGroup | None = None


def under_torchrun() -> bool:
    """Return whether torchrun has started this process.

    Examples
    --------
    >>> from hotview.training.distributed import under_torchrun
    >>> under_torchrun()
    False
    """
    return bool(dist.is_available() and dist.is_torchelastic_launched())


def launch_processes(device: torch.device, devices: int | str) -> DistributedGroup:
    """Start the other processes of this program and connect to them, once for all its fits.

    Parameters
    ----------
    device : torch.device
        The kind of device that every process gets one of.
    devices : int or "auto"
        Number of processes; ``"auto"`` takes one per GPU. torchrun overrides it.

    Returns
    -------
    DistributedGroup
        All processes.
    """
    global _launched
    if _launched is None:
        _launched = DistributedGroup(*_launch(device, devices))
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


def _launch(device: torch.device, devices: int | str) -> tuple[torch.device, int, int]:
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
    >>> from hotview.training.distributed import agree_on_token
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


class DistributedGroup(ProcessGroup):
    """All processes of a training, connected by torch.distributed.

    They exchange tensors, and text that JSON reads; nothing is unpickled.

    Parameters
    ----------
    device : torch.device
        Device of this process.
    rank : int
        Rank of this process.
    world_size : int
        Number of processes.
    """

    is_distributed = True

    def __init__(self, device: torch.device, rank: int, world_size: int) -> None:
        super().__init__(rank, world_size)
        self.device, self.is_broken = device, False
        self._store: Any = dist.distributed_c10d._get_default_store()

    def on_rank_zero(self, compute: Callable[[], Result]) -> Result:
        """Call `compute` on rank 0; return its result, which JSON can hold, or raise its error."""
        message, error = b"", None
        if self.is_rank_zero:
            outcome: dict[str, Any]
            try:
                outcome = {"result": compute()}
            except Exception as raised:
                outcome, error = {"error": [type(raised).__name__, str(raised)]}, raised
            message = json.dumps(outcome).encode()
        n = self._broadcast(torch.tensor([len(message)]))
        buffer = torch.empty(int(n), dtype=torch.uint8)
        if self.is_rank_zero:
            buffer = torch.from_numpy(np.frombuffer(message, dtype=np.uint8).copy())
        outcome = json.loads(self._broadcast(buffer).numpy().tobytes().decode())
        if error is not None:
            raise error
        if "error" in outcome:
            raise _make_error(*outcome["error"])
        result: Result = outcome["result"]
        return result

    def all_gather_arrays(self, array: Array) -> list[Array]:
        """Return the one-dimensional arrays of all ranks, which share a dtype."""
        n = torch.tensor([len(array)], device=self.device)
        sizes = [int(size) for size in self.all_gather(n, [1] * self.world_size)]
        own = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return [x.cpu().numpy() for x in self.all_gather(own, sizes)]

    def broadcast(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the tensors of rank 0."""
        kinds = self.on_rank_zero(
            lambda: [(k, str(x.dtype).split(".")[1], list(x.shape)) for k, x in tensors.items()]
        )
        sizes = [getattr(torch, dtype).itemsize * int(np.prod(shape)) for _, dtype, shape in kinds]
        if self.is_rank_zero:
            parts = [_as_bytes(x.detach()) for x in tensors.values()]
            self._broadcast(torch.cat([torch.empty(0, dtype=torch.uint8), *parts]))
            return tensors
        received = self._broadcast(torch.empty(sum(sizes), dtype=torch.uint8))
        return {
            name: part.clone().view(getattr(torch, dtype)).reshape(shape)
            for (name, dtype, shape), part in zip(kinds, torch.split(received, sizes), strict=True)
        }

    def all_gather(self, tensor: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Return the one-dimensional tensors of all ranks, whose sizes are known."""
        own = torch.nn.functional.pad(tensor, (0, max(sizes) - len(tensor)))
        gathered = [torch.empty_like(own) for _ in sizes]
        with self._detecting_loss():
            dist.all_gather(gathered, own)
        return [x[:n] for x, n in zip(gathered, sizes, strict=True)]

    def all_reduce_mean(self, tensor: Tensor) -> Tensor:
        """Return the mean of a tensor over all ranks, in place."""
        # Not Fabric's, which has a barrier in every step.
        with self._detecting_loss():
            dist.all_reduce(tensor)
        return tensor.div_(self.world_size)

    @contextmanager
    def catch_interrupt(self) -> Iterator[Interrupt]:
        """Handle Ctrl-C, and the signals by which torchrun passes it on."""
        with catch_interrupt(signal.SIGINT, signal.SIGTERM, agreed=True) as self.interrupt:
            yield self.interrupt

    @contextmanager
    def report_errors(self) -> Iterator[None]:
        """Report an error that is raised inside to the other ranks."""
        try:
            yield
        except ProcessLostError:
            raise
        except Exception as error:
            with suppress(RuntimeError):
                self._store.set(f"{_KEY}/failed/{self.rank}", f"{type(error).__name__}: {error}")
                # Most errors are raised on all ranks, and one report is enough.
                is_reporter = self.is_rank_zero or not self._reports({0}, "failed")
                error.is_reporter = is_reporter  # type: ignore[attr-defined]
            raise

    def _broadcast(self, tensor: Tensor) -> Tensor:
        on_device = tensor.to(self.device)
        with self._detecting_loss():
            dist.broadcast(on_device, 0)
        return on_device.cpu()

    @contextmanager
    def _detecting_loss(self) -> Iterator[None]:
        """Raise an error that names the lost processes, where ranks cannot reach each other."""
        try:
            yield
        except RuntimeError as error:
            self.is_broken = True
            if dist.get_backend() == "gloo":
                # A rank that waits for this one, not for the lost one, would wait on.
                with suppress(RuntimeError):
                    dist.destroy_process_group()
            present = self._call_roll()
            lost = [
                f"rank {rank} of {self.world_size} is gone{self._reason(rank)}"
                for rank in range(self.world_size)
                if rank not in present
            ]
            reason = " and ".join(lost) or f"they cannot reach each other ({str(error)[:200]})"
            raise ProcessLostError(
                f"Expected all processes to take every step together, but {reason}.",
                is_reporter=self.rank == min(present),
            ) from error

    def _call_roll(self) -> set[int]:
        """Return the ranks that are still there."""
        try:
            self._store.set(f"{_KEY}/here/{self.rank}", "")
            others = set(range(self.world_size)) - {self.rank}
            return {self.rank} | self._reports(others, "here")
        except RuntimeError:  # rank 0 keeps the store, and is gone
            return set(range(1, self.world_size)) if self.rank else {self.rank}

    def _reports(self, ranks: set[int], kind: str) -> set[int]:
        """Wait a few seconds for reports of some ranks; return those that have reported."""
        reported: set[int] = set()
        end = time.monotonic() + _ROLL_CALL
        while reported < ranks and time.monotonic() < end:
            reported |= {r for r in ranks if self._store.check([f"{_KEY}/{kind}/{r}"])}
            time.sleep(0.05)
        return reported

    def _reason(self, rank: int) -> str:
        with suppress(RuntimeError):
            if self._store.check([f"{_KEY}/failed/{rank}"]):
                return f" ({self._store.get(f'{_KEY}/failed/{rank}').decode()})"
        return ""


def _as_bytes(x: Tensor) -> Tensor:
    # Into a new tensor: a tensor with a single entry may have any stride.
    return torch.empty(x.numel(), dtype=x.dtype).copy_(x.reshape(-1)).view(torch.uint8)


def _make_error(name: str, text: str) -> Exception:
    """Return an error of rank 0, by the name of its class and its text."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some need more than a text
            return kind(text)
    return RuntimeError(f"{name}: {text}")
