"""The federation that ``hotview federated new --sample`` writes: alone, and together.

    python benchmarks/federated_sample.py [--seeds N] [--out FILE]

Three organizations with one table of digits each, 200 people linked, labels with one of them: what
README.md takes its readers through. On people whom nobody has trained on, how often each part of
the model is right alone, and how often all are together; over several seeds of who is where and of
the training. A minute or two on one core.
"""

from __future__ import annotations

import argparse
import tempfile
from contextlib import redirect_stdout
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pyarrow.csv
from measuring import RESULTS, write_part
from rich.progress import track

from hotview import load
from hotview.cli.demo import SAMPLE_NAMES, write_sample_federation
from hotview.cli.federated_jobs import SimulationJob, run_simulation
from hotview.federated import join_partial_models

SEEDS = 5


def train(seed: int) -> dict[str, float]:
    """Shares of new people that every part, and the joined model, get right."""
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(None):
        app = Path(folder) / "study"
        write_sample_federation(app, seed)
        if run_simulation(SimulationJob(app, {}, None, False, False, False, False)) != 0:
            raise RuntimeError(f"the simulation with seed {seed} did not come to its end")
        homes = {name: app / "organizations" / name for name in SAMPLE_NAMES}
        parts = {name: home / "part.hotview" for name, home in homes.items()}
        y = pyarrow.csv.read_csv(app / "new-labels.csv")["digit"].to_numpy()
        X = {name: _table(home / "new.csv") for name, home in homes.items()}
        joint = load(
            join_partial_models(list(parts.values()), Path(folder) / "joint.hotview"), device="cpu"
        )
        alone = {
            name: load(parts[name], device="cpu").score({name: X[name]}, y) for name in SAMPLE_NAMES
        }
        return {**alone, "joint": joint.score(X, y)}


def _table(path: Path) -> Any:
    table = pyarrow.csv.read_csv(path).drop_columns("id")
    return np.column_stack([column.to_numpy() for column in table.columns])


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--out", type=Path, default=RESULTS / "federated_sample.json")
    given = parser.parse_args()
    found = [train(seed) for seed in track(range(given.seeds), "training")]
    accuracy = {name: mean(one[name] for one in found) for name in found[0]}
    for name, value in accuracy.items():
        print(f"{name}: {value:.1%}")
    write_part(given.out, "cpu", "numpy", "torch", ratios={}, accuracy=accuracy, seeds=found)


if __name__ == "__main__":
    main()
