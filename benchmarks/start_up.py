"""How long it takes until something can be typed: imports, a first prediction, the help.

    python benchmarks/start_up.py [--quick] [--out FILE]    # 3 minutes, --quick 1 minute

Every contestant is a Python process of its own, started in turns after one that does not count: it
fills the disk's cache, and compiles everything into a folder of this run, so that a source tree
is as compiled as installed packages are. The floor of an import is the interpreter, the floor of
the estimators is ``import torch, sklearn``: nothing is trained without these two, and scikit-learn
brings scipy, and pandas where it is installed. ``import hotview`` alone loads neither, which would
be cheating if it were all that was measured: ``from hotview import MultiViewEncoder,
MultiViewClassifier`` is held to the same bound, and so is all that a fit imports. The first
prediction is that of one row by a default classifier in a file, from ``import hotview`` on, and may
take 1.3 times ``import torch``; ``import torch, sklearn`` shows what scikit-learn takes of that.
Ratios are what is allowed over what it took. For hotview with its own dependencies only:
``PYTHONPATH=src:. python benchmarks/start_up.py`` in an environment that has no others.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median

from measuring import RESULTS, best_times, write_part
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from hotview import MultiViewClassifier
from hotview.datasets import make_views

ROUNDS, QUICK_ROUNDS = 9, 3
COMMAND = "from hotview.cli import main; main()"
PEERS = "import torch, sklearn"
TORCH = "import torch"
TYPER = "import typer"
FIT = "import of all that a fit needs"
FIRST = "import to first prediction from a saved model"
PREDICT = """
import sys
import hotview as hv
model = hv.load(sys.argv[1])
model.predict_proba({view: [[0.0] * n] for view, n in model.n_features_per_view_.items()})
"""
#: name → code, arguments
CONTESTANTS: dict[str, tuple[str, ...]] = {
    "python": ("pass",),
    TORCH: (TORCH,),
    PEERS: (PEERS,),
    "import hotview": ("import hotview",),
    "from hotview import the estimators": (
        "from hotview import MultiViewClassifier, MultiViewEncoder",
    ),
    FIT: ("import hotview.estimators, hotview.estimators.fit",),
    TYPER: (TYPER,),
    "hotview --help": (COMMAND, "--help"),
    "hotview fit --help": (COMMAND, "fit", "--help"),
}


def start(environment: dict[str, str], code: str, *arguments: str) -> None:
    command = [sys.executable, "-c", code, *arguments]
    # check=True: a process that fails at once would win.
    subprocess.run(command, check=True, capture_output=True, env=environment)


def save_model(folder: Path) -> Path:
    """A default classifier of three small views; of the default, only the epochs are fewer."""
    data = make_views(200, n_views=3, n_groups=1, labeled=1.0, random_state=0)
    model = MultiViewClassifier(max_epochs=20, random_state=0)
    return model.fit(data.linked, data.linked_target).save(folder / "model.hotview")


def measure(rounds: int) -> dict[str, list[float]]:
    """Seconds of every contestant, round by round."""
    with tempfile.TemporaryDirectory() as folder, Progress(transient=True) as progress:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{folder}/compiled"}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        contestants = {**CONTESTANTS, FIRST: (PREDICT, str(save_model(Path(folder))))}
        work: dict[str, Callable[[], object]] = {
            name: partial(start, environment, *what) for name, what in contestants.items()
        }
        turns = [best_times(work, 1) for _ in progress.track(range(rounds + 1))]
    return {name: [turn[name] for turn in turns[1:]] for name in work}


def allowances(best: dict[str, float]) -> dict[str, tuple[str, float]]:
    """Ratio's name → who is judged, and the seconds that it may take."""
    heavy, helped = 1.2 * best[PEERS], 1.5 * best[TYPER] + 0.3
    return {
        "import": ("import hotview", heavy),
        "import of the estimators": ("from hotview import the estimators", heavy),
        "import of a fit": (FIT, heavy),
        "first prediction": (FIRST, 1.3 * best[TORCH]),
        "help": ("hotview --help", helped),
        "help of fit": ("hotview fit --help", helped),
    }


def make_table(times: dict[str, list[float]], allowed: dict[str, tuple[str, float]]) -> Table:
    limits = dict(allowed.values())
    table = Table(title="A process from its start to its end: seconds")
    for column in ("", "best", "median", f"over {TORCH}", "allowed"):
        table.add_column(column, justify="left" if not column else "right")
    for name, seconds in times.items():
        limit = f"{limits[name]:.3f}" if name in limits else ""
        over = f"{min(seconds) / min(times[TORCH]):.2f}"
        table.add_row(name, f"{min(seconds):.3f}", f"{median(seconds):.3f}", over, limit)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "start_up.json")
    options = parser.parse_args()
    times = measure(QUICK_ROUNDS if options.quick else ROUNDS)
    best = {name: min(seconds) for name, seconds in times.items()}
    allowed = allowances(best)
    Console().print(make_table(times, allowed))
    write_part(
        options.out,
        "cpu",
        "scikit-learn",
        "scipy",
        "pandas",
        "typer",
        ratios={name: limit / best[who] for name, (who, limit) in allowed.items()},
        targets=dict.fromkeys(allowed, 1.0),
        what="seconds of a process; ratios are the seconds allowed over the seconds taken",
        best_seconds=best,
        median_seconds={name: median(seconds) for name, seconds in times.items()},
        allowed_seconds=dict(allowed.values()),
        rounds=len(times["python"]),
    )


if __name__ == "__main__":
    main()
