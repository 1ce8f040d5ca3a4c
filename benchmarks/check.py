"""What has become slower: ratios of a fresh run beside those of the committed record.

    python benchmarks/check.py                 # the quick part of every benchmark, on the CPU
    python benchmarks/check.py --device cuda
    python benchmarks/check.py ot_core start_up

Every benchmark is run with ``--quick`` into a temporary folder, and each of its ratios (the larger
the better) is compared with the one of the same name in ``results/bench``. What has fallen by more
than a quarter is printed; then the exit status is 1. Ratios are of contestants of one run, so that
the machine itself counts little, but noise on a busy one is not nothing: run again before you
believe it. This is no test, and no test runs it.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import RESULTS
from rich.console import Console
from rich.table import Table

FALL = 0.25
#: benchmarks that have a quick part, by device
BENCHMARKS = {
    "cpu": (
        "ot_core",
        "paper_training",
        "against_cca_zoo",
        "against_gromov_wasserstein",
        "distributed",
        "growth",
        "precision",
        "predict_rows",
        "sizes",
        "start_up",
    ),
    "cuda": ("ot_core", "paper_training", "growth", "precision", "predict_rows", "sizes"),
}


def run_again(name: str, device: str, folder: Path) -> dict[str, float] | None:
    """Ratios of a fresh run; None where it failed."""
    script, out = Path(__file__).with_name(f"{name}.py"), folder / f"{name}.json"
    command = [sys.executable, str(script), "--quick", "--out", str(out)]
    if device != "cpu":  # some know of no other
        command += ["--device", device]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        print(done.stdout, done.stderr, sep="\n", file=sys.stderr)
        return None
    ratios: dict[str, float] = json.loads(out.read_text())[device]["ratios"]
    return ratios


def committed(name: str, device: str) -> dict[str, float]:
    path = RESULTS / f"{name}.json"
    record = json.loads(path.read_text()) if path.exists() else {}
    ratios: dict[str, float] = record.get(device, {}).get("ratios", {})
    return ratios


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("benchmarks", nargs="*", help="which; all where none is named")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    options = parser.parse_args()
    console = Console()
    table = Table(
        "benchmark", "ratio", "committed", "now", "", title="Fresh ratios beside the committed"
    )
    fallen = failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in options.benchmarks or BENCHMARKS[options.device]:
            with console.status(f"{name} …"):
                fresh = run_again(name, options.device, Path(folder))
            if fresh is None:
                failed += 1
                table.add_row(name, "–", "–", "–", "[red]failed[/red]")
                continue
            before = committed(name, options.device)
            for what in (what for what in fresh if what in before):
                fell = fresh[what] < (1 - FALL) * before[what]
                fallen += fell
                mark = f"[red]fell by {1 - fresh[what] / before[what]:.0%}[/red]" if fell else ""
                table.add_row(name, what, f"{before[what]:.2f}", f"{fresh[what]:.2f}", mark)
            if not set(fresh) & set(before):
                table.add_row(name, "–", "–", "–", "nothing to compare with")
    console.print(table)
    console.print(f"{fallen} fell by more than {FALL:.0%}; {failed} could not be run.")
    return 1 if fallen or failed else 0


if __name__ == "__main__":
    sys.exit(main())
