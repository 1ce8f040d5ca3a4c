"""Several processes that train together: Lightning Fabric starts them, torch connects them."""

from __future__ import annotations

import builtins
import json
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch import distributed as dist

from hotview._types import Array
from hotview.training.process_group import AgreedInterrupt, ProcessGroup, ProcessLostError, Told
from hotview.training.rendezvous import meet_at_agent

__all__ = ["DistributedGroup", "launch_processes", "under_torchrun"]

# A process that is gone closes its connections, which the others notice at once. This is for those
# who wait while the first one reads, scores or writes.
_PATIENCE = timedelta(minutes=30)
_ROLL_CALL = 3.0  # seconds in which those who are left report
_LAST_RESORT = 30  # seconds
_KEY = "hotview"

_launched: DistributedGroup | None = None


def under_torchrun() -> bool:
    """Whether torchrun has started this process.

    Examples
    --------
    >>> from hotview.training.distributed import under_torchrun
    >>> under_torchrun()
    False
    """
    return dist.is_available() and dist.is_torchelastic_launched()


def launch_processes(device: torch.device, devices: int | str) -> DistributedGroup:
    """Let other processes run this program, too, and wait for them; once for all fits of it.

    Parameters
    ----------
    device : torch.device
        The kind of device that every process gets one of.
    devices : int or "auto"
        How many processes; ``"auto"`` takes one per GPU. Under torchrun it has decided that.

    Returns
    -------
    DistributedGroup
        All of them.
    """
    global _launched
    if _launched is None:
        _launched = DistributedGroup(*_launch(device, devices))
    elif _launched.is_broken:
        raise ProcessLostError(
            "Expected all processes of the first fit to be here, but some are gone. Start the "
            "program again."
        )
    elif not under_torchrun() and devices not in ("auto", _launched.size):
        raise ValueError(
            f"Expected devices={_launched.size}, as in the first fit of this program, because its "
            f"processes are started once, but it is {devices!r}."
        )
    return _launched


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
            meet_at_agent("nccl" if device.type == "cuda" else "gloo", _PATIENCE)
    else:
        _check_script(devices)
    # Fabric says hello in every process.
    logging.getLogger("lightning_fabric.utilities.distributed").setLevel(logging.WARNING)
    logging.getLogger("lightning_fabric.utilities.rank_zero").setLevel(logging.WARNING)
    fabric = Fabric(
        accelerator=device.type,
        devices=devices,
        num_nodes=n_nodes,
        strategy=DDPStrategy(timeout=_PATIENCE),
    )
    fabric.launch()
    for thread in threading.enumerate():
        if thread.name == "child-process-observer" and hasattr(thread, "_terminate_all"):
            # Fabric's, which kills all processes when one is gone: not before we can say which.
            thread._terminate_all = _after_a_while(thread._terminate_all)
    return fabric.device, fabric.global_rank, fabric.world_size


def _after_a_while(act: Callable[[], None]) -> Callable[[], None]:
    def wait_and_act() -> None:
        time.sleep(_LAST_RESORT)
        act()

    return wait_and_act


def _check_script(devices: int | str) -> None:
    if devices == 1:
        return
    process = multiprocessing.current_process().name
    if process != "MainProcess":
        raise RuntimeError(
            "Expected the first process of a script, because devices starts other processes "
            f"by running it again, but this is {process}, a worker of it. Use n_jobs=1, or leave "
            "devices out: fits side by side use several processes, too."
        )
    script = getattr(sys.modules.get("__main__"), "__file__", None)
    if script is None or not os.path.isfile(script):  # "<stdin>" is none
        raise RuntimeError(
            "Expected a script, because devices starts other processes by running it again, "
            "but this is a prompt or a notebook. Write a script, or leave devices out."
        )


class DistributedGroup(ProcessGroup):
    """All processes of a training, as one of them sees them.

    What they send each other is tensors, and text that JSON reads; nothing is unpickled.

    Parameters
    ----------
    device : torch.device
        Where this process computes.
    rank : int
        Which process this is.
    size : int
        How many there are.
    """

    is_shared = True

    def __init__(self, device: torch.device, rank: int, size: int) -> None:
        super().__init__(rank, size)
        self.device, self.is_broken = device, False
        self._store: Any = dist.distributed_c10d._get_default_store()

    def first(self, ask: Callable[[], Told]) -> Told:
        """What the first process says, in all of them: whatever JSON can hold, or its error."""
        said: dict[str, Any] = {}
        failure: Exception | None = None
        if self.is_first:
            try:
                said = {"value": ask()}
            except Exception as error:
                said, failure = {"error": [type(error).__name__, str(error)]}, error
        said = json.loads(self._read_out(json.dumps(said) if self.is_first else ""))
        if failure is not None:
            raise failure
        if "error" in said:
            raise _error_of(*said["error"])
        told: Told = said["value"]
        return told

    def _read_out(self, text: str) -> str:
        written = np.frombuffer(text.encode(), dtype=np.uint8)
        n = self._broadcast(torch.tensor([len(written)]))
        room = torch.empty(int(n), dtype=torch.uint8)
        sent = self._broadcast(torch.from_numpy(written.copy()) if self.is_first else room)
        return sent.numpy().tobytes().decode()

    def collect(self, array: Array) -> list[Array]:
        """Arrays of one dimension and one dtype from all processes, in their order."""
        sizes = self.gather(torch.tensor([len(array)], device=self.device), [1] * self.size)
        mine = torch.from_numpy(np.ascontiguousarray(array)).to(self.device)
        return [x.cpu().numpy() for x in self.gather(mine, [int(n) for n in sizes])]

    def share(self, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        """Tensors of the first process, in all of them."""
        kinds = self.first(
            lambda: [(k, str(x.dtype).split(".")[1], list(x.shape)) for k, x in tensors.items()]
        )
        sizes = [getattr(torch, dtype).itemsize * int(np.prod(shape)) for _, dtype, shape in kinds]
        if self.is_first:
            parts = [_bytes_of(x.detach()) for x in tensors.values()]
            self._broadcast(torch.cat([torch.empty(0, dtype=torch.uint8), *parts]))
            return tensors
        every = torch.split(self._broadcast(torch.empty(sum(sizes), dtype=torch.uint8)), sizes)
        return {
            name: part.clone().view(getattr(torch, dtype)).reshape(shape)
            for (name, dtype, shape), part in zip(kinds, every, strict=True)
        }

    def gather(self, part: Tensor, sizes: Sequence[int]) -> list[Tensor]:
        """Tensors of one dimension from all processes, whose sizes are known."""
        longest = max(sizes)
        mine = torch.nn.functional.pad(part, (0, longest - len(part)))
        every = [torch.empty_like(mine) for _ in sizes]
        with self._watched():
            dist.all_gather(every, mine)
        return [x[:n] for x, n in zip(every, sizes, strict=True)]

    def average(self, tensor: Tensor) -> Tensor:
        """The mean of a tensor over all processes, in its place."""
        # Not Fabric's, which lets all wait for each other before they add, in every step.
        with self._watched():
            dist.all_reduce(tensor)
        return tensor.div_(self.size)

    def listen(self) -> AgreedInterrupt:
        """Whoever hears of Ctrl-C; torchrun passes it on by other signals, too."""
        self.ear = AgreedInterrupt(signal.SIGINT, signal.SIGTERM)
        return self.ear

    @contextmanager
    def telling(self) -> Iterator[None]:
        """Let the others know what went wrong inside, before this process is gone."""
        try:
            yield
        except ProcessLostError:
            raise
        except Exception as error:
            with suppress(RuntimeError):
                self._store.set(f"{_KEY}/failed/{self.rank}", f"{type(error).__name__}: {error}")
                # Most errors are everybody's, and one voice is enough.
                error.speaks = self.is_first or not self._has_failed(0)  # type: ignore[attr-defined]
            raise

    def _has_failed(self, rank: int) -> bool:
        end = time.monotonic() + _ROLL_CALL
        while time.monotonic() < end:
            if self._store.check([f"{_KEY}/failed/{rank}"]):
                return True
            time.sleep(0.05)
        return False

    def _broadcast(self, tensor: Tensor) -> Tensor:
        sent = tensor.to(self.device)
        with self._watched():
            dist.broadcast(sent, 0)
        return sent.cpu()

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """Where processes cannot reach each other, say which one is gone."""
        try:
            yield
        except RuntimeError as error:
            raise self._lost(error) from error

    def _lost(self, error: RuntimeError) -> ProcessLostError:
        self.is_broken = True
        if dist.get_backend() == "gloo":
            # Who waits for this process, not for the one that is gone, would wait on.
            with suppress(RuntimeError):
                dist.destroy_process_group()
        here = self._call_the_roll()
        gone = [r for r in range(self.size) if r not in here]
        lost = [f"rank {r} of {self.size} is gone{self._reason(r)}" for r in gone]
        said = " and ".join(lost) or f"they cannot reach each other ({str(error)[:200]})"
        return ProcessLostError(
            f"Expected all processes to take every step together, but {said}.",
            speaks=self.rank == min(here),
        )

    def _call_the_roll(self) -> set[int]:
        """Which processes are still here."""
        here, end = {self.rank}, time.monotonic() + _ROLL_CALL
        try:
            self._store.set(f"{_KEY}/here/{self.rank}", "")
            while len(here) < self.size and time.monotonic() < end:
                here |= {r for r in range(self.size) if self._store.check([f"{_KEY}/here/{r}"])}
                time.sleep(0.05)
        except RuntimeError:  # who keeps the list is gone, and that is the first
            here = set(range(1, self.size)) if self.rank else here
        return here

    def _reason(self, rank: int) -> str:
        with suppress(RuntimeError):
            if self._store.check([f"{_KEY}/failed/{rank}"]):
                return f" ({self._store.get(f'{_KEY}/failed/{rank}').decode()})"
        return ""


def _bytes_of(x: Tensor) -> Tensor:
    # Into a new tensor: of one with a single entry torch takes any stride for that of a row.
    return torch.empty(x.numel(), dtype=x.dtype).copy_(x.reshape(-1)).view(torch.uint8)


def _error_of(name: str, text: str) -> Exception:
    """An error that another process has told of."""
    kind = getattr(builtins, name, None)
    if isinstance(kind, type) and issubclass(kind, Exception):
        with suppress(TypeError):  # some want more than a text
            return kind(text)
    return RuntimeError(f"{name}: {text}")
