"""What the benchmarks share: turns, records, and the ratios by which a record is judged.

A record is ``{"cpu": part, "cuda": part}``, each part written by a run on that device:

- ``machine``: what it ran on;
- ``ratios``: name → number, the larger the better (a peer's time over ours, a floor's time over
  ours, …), which ``benchmarks/check.py`` compares with those of a fresh run;
- ``targets``: name → what the ratio of that name was meant to be, where something was;
- whatever else the tables need.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from machine import machine

from paper.json_files import write_json

RESULTS = Path(__file__).parent.parent / "results" / "bench"


def best_times(
    contestants: Mapping[str, Callable[[], object]],
    rounds: int,
    burst: int = 1,
    device: str = "cpu",
) -> dict[str, float]:
    """Best seconds of a call, each contestant making `burst` calls in a row, in turns.

    The best, because whatever else the machine does only adds to it.
    """
    best = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for name, work in contestants.items():
            wait_for(device)
            start = time.perf_counter()
            for _ in range(burst):
                work()
            wait_for(device)
            best[name] = min(best[name], (time.perf_counter() - start) / burst)
    return best


def wait_for(device: str) -> None:
    """Wait until the device has done what it was told."""
    if device == "cuda":
        torch.cuda.synchronize()


def write_part(
    path: Path,
    device: str,
    *packages: str,
    ratios: Mapping[str, float],
    targets: Mapping[str, float] | None = None,
    **rest: Any,
) -> None:
    """Write what a run found on a device into a record, beside what other devices have there."""
    record = json.loads(path.read_text()) if path.exists() else {}
    record[device] = {
        "machine": machine(*packages, device=device),
        "ratios": dict(ratios),
        "targets": dict(targets or {}),
        **rest,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, record)
    print(f"Written to {path}")
