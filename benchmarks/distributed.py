"""Steps of one process with the whole batch against two processes with a half each.

``python benchmarks/distributed.py`` (CPU; some minutes) writes ``results/bench/distributed.json``.
It starts itself again by torchrun, with one process (what the strategy itself costs) and with two.
In each, steps with the strategy (one thread a process) and without it (one thread, and two) take
turns, and the best turn counts. Two threads are the rival of two processes on one machine.

- ``default``: the default encoder on six views of Handwritten, batches of 400 rows;
- ``wide``: four views of 256 columns, two hidden layers of 512, batches of 2,048 rows.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch
from measuring import RESULTS, best_times, write_part

from hotview import MultiViewEncoder
from hotview._processes import on_rank_zero, rank, use_processes
from hotview.datasets import load_handwritten, make_views
from hotview.estimators.fit import prepare as prepare_fit
from hotview.estimators.randomness import member_states, seeded
from hotview.training.ddp import DDPTrainer
from hotview.training.trainer import SingleTrainer, Training

OUT = RESULTS / "distributed.json"


def prepare(model: MultiViewEncoder, views: Any) -> Training:
    p = seeded(model._parameters())
    return prepare_fit(model._data(p, views), p, member_states(p), 0.0).members[0].training


def default_training() -> Training:
    model = MultiViewEncoder(device="cpu", random_state=0)
    return prepare(model, load_handwritten().views)


def wide_training() -> Training:
    model = MultiViewEncoder(hidden=(512, 512), batch_size=2048, device="cpu", random_state=0)
    views = make_views(4096, n_views=4, n_columns=256, random_state=0).views
    return prepare(model, views)


CASES = {"default": (default_training, 20), "wide": (wide_training, 1)}


def measure(name: str, rounds: int) -> dict[str, Any]:
    """Seconds of a step with the strategy and without it, as the first process sees them."""
    make, burst = CASES[name]
    with use_processes():
        trainings = make(), make()
    alone, shared = SingleTrainer(trainings[0], 0.001), DDPTrainer(trainings[1], 0.001, "float32")

    def by_oneself(threads: int) -> None:
        if rank() == 0:
            torch.set_num_threads(threads)
            alone.step()

    def together() -> None:
        torch.set_num_threads(1)
        shared.step()

    contestants = {
        "one thread": lambda: by_oneself(1),
        "two threads": lambda: by_oneself(2),
        "shared": together,
    }
    for work in [*contestants.values()] * 2:  # the first steps make what later ones find
        work()
    times = dict.fromkeys(contestants, float("inf"))
    for _ in range(rounds):
        for how, work in contestants.items():
            on_rank_zero(lambda: None)  # all begin at once
            times[how] = min(times[how], best_times({how: work}, 1, burst)[how])
    batch = alone.trainings[0].sampler.draw_indices()
    encoder_dim = alone.network.maps[0].in_features
    parameters = sum(p.numel() for m in alone.trainings[0].modules for p in m.parameters())
    return {
        "seconds": times,
        "floats_of_features": sum(map(len, batch.rows)) * int(encoder_dim),
        "floats_of_gradients": parameters,
    }


def run_as_rank(out: Path, rounds: int) -> None:
    with use_processes(torch.device("cpu"), 1):
        found = {name: measure(name, rounds) for name in CASES}
        if rank() == 0:
            out.write_text(json.dumps(found))


def start(n_processes: int, rounds: int, folder: Path) -> dict[str, Any]:
    """Let torchrun start this script again."""
    out = folder / f"{n_processes}.json"
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", f"{n_processes}"]
    this = [__file__, "--as-rank", str(out), "--rounds", str(rounds)]
    subprocess.run([sys.executable, *torchrun, *this], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    parser.add_argument("--out", type=Path, default=OUT)
    parser.add_argument("--as-rank", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--rounds", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.as_rank is not None:
        run_as_rank(options.as_rank, options.rounds)
        return
    rounds = 3 if options.quick else 15
    with tempfile.TemporaryDirectory() as folder:
        found = {n: start(n, rounds, Path(folder)) for n in (1, 2)}
    ratios = {}
    for name in CASES:
        for n, cases in found.items():
            seconds = cases[name]["seconds"]
            for how in ("one thread", "two threads"):
                ratios[f"{name}: {n} shared, against {how}"] = seconds[how] / seconds["shared"]
    cases = {name: {str(n): found[n][name] for n in found} for name in CASES}
    write_part(options.out, "cpu", "lightning-fabric", ratios=ratios, cases=cases, rounds=rounds)


if __name__ == "__main__":
    main()
