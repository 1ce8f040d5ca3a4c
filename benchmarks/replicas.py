"""Many trainings at once against the same trainings one after another.

``python benchmarks/replicas.py`` (CPU; some minutes) or ``python benchmarks/replicas.py --device
cuda`` adds its part to ``results/bench/replicas.json``. A training is the paper's HOT (11) on
Handwritten, semi-supervised, every one on a split of its own. Contestants take turns, and the best
of their turns counts. Times are per training: of the whole fit (checks, standardization, training,
the last pass over all rows) and of the training steps alone.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

import hotview
from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
from hotview.estimators import networks
from hotview.estimators.base import fit_batched
from hotview.training.trainer import SingleTrainer
from paper.estimators import constructor_parameters
from paper.models import SETTINGS

OUT = Path(__file__).parent.parent / "results" / "bench" / "replicas.json"
SEQUENTIAL = 5  # trainings that stand for all that come one after another


def make_fits(n: int, device: str, regularizer: str) -> list[Any]:
    digits = load_handwritten()
    fits = []
    for t in range(n):
        data = unalign(digits.views, digits.target, random_state=t)
        losses = {"coupling": "hot-reference", "view_regularizer": regularizer}
        given = constructor_parameters({**losses, **SETTINGS})
        model = MultiViewClassifier(**given, head_weight=0.0, device=device, random_state=t)
        arguments = {"Xs": data.linked, "y": data.target, "unaligned": data.unaligned}
        fits.append((model, arguments))
    return fits


def eager(trainings: Any, p: Any, schedule: Any) -> Any:
    """A trainer that calls every operation from Python, on a GPU too."""
    return SingleTrainer(trainings[0], p["learning_rate"])


def one_by_one(fits: list[Any]) -> None:
    for one in fits:
        fit_batched([one], view_tests=False)


def one_by_one_eagerly(fits: list[Any]) -> None:
    usual = networks.make_trainer
    networks.make_trainer = eager
    try:
        one_by_one(fits)
    finally:
        networks.make_trainer = usual


def together(fits: list[Any]) -> None:
    fit_batched(fits, view_tests=False)


def measure(run: Callable[[list[Any]], None], fits: list[Any], device: str) -> dict[str, float]:
    start = time.perf_counter()
    run(fits)
    if device == "cuda":
        torch.cuda.synchronize()
    seconds = (time.perf_counter() - start) / len(fits)
    steps = np.mean([sum(model.history_["seconds"]) for model, _ in fits])
    return {"fit": seconds, "steps": float(steps)}


def contest(contestants: dict[str, Any], device: str, regularizer: str, turns: int) -> Any:
    best: dict[str, dict[str, float]] = {}
    scores: dict[str, list[float]] = {}
    for turn in range(turns):
        for name, (run, n) in contestants.items():
            fits = make_fits(n, device, regularizer)
            took = measure(run, fits, device)
            print(f"{regularizer}, turn {turn}, {name}: {took}", flush=True)
            old = best.get(name, took)
            best[name] = {what: min(old[what], took[what]) for what in took}
            scores[name] = [float(m.history_[-1]["loss"]) for m, _ in fits[:SEQUENTIAL]]
    losses = list(scores.values())
    agree = max(float(np.max(np.abs(np.array(x) / np.array(losses[0]) - 1))) for x in losses[1:])
    return best, agree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--regularizer", nargs="*", default=["none", "autoencoder"])
    parser.add_argument("--out", type=Path, default=OUT)
    options = parser.parse_args()
    warnings.simplefilter("ignore")  # the plan does not converge in the paper's 20 iterations
    device = options.device
    cases = []
    if device == "cuda":
        one_by_one(make_fits(1, device, "none"))  # CUDA itself takes seconds to begin
    for regularizer in options.regularizer:
        for threads in (1, 2) if device == "cpu" else (torch.get_num_threads(),):
            torch.set_num_threads(threads)
            contestants: dict[str, Any] = {"sequential": (one_by_one, SEQUENTIAL)}
            if device == "cuda":
                contestants = {
                    "sequential, eager": (one_by_one_eagerly, SEQUENTIAL),
                    "sequential, one graph each": (one_by_one, SEQUENTIAL),
                }
            for n in (20,) if device == "cpu" else (20, 80):
                contestants[f"{n} replicas"] = (together, n)
            best, agree = contest(contestants, device, regularizer, options.turns)
            first = next(iter(best.values()))
            cases.append(
                {
                    "training": "HOT (11)" + (" + AE" if regularizer == "autoencoder" else ""),
                    "threads": threads,
                    "seconds_per_training": best,
                    "ratio": {
                        name: {what: first[what] / took[what] for what in took}
                        for name, took in best.items()
                    },
                    "largest_relative_difference_of_final_losses": agree,
                }
            )
    part = {
        "machine": torch.cuda.get_device_name() if device == "cuda" else f"{os.cpu_count()} cores",
        "turns": options.turns,
        "sequential_trainings": SEQUENTIAL,
        "versions": {
            "python": platform.python_version(),
            "hotview": hotview.__version__,
            "torch": torch.__version__,
            "numpy": np.__version__,
        },
        "cases": cases,
    }
    record = json.loads(options.out.read_text()) if options.out.exists() else {}
    record[device] = part
    options.out.write_text(json.dumps(record, indent=1, sort_keys=True) + "\n")


if __name__ == "__main__":
    main()
