"""Whether a fit has become slower: the default on the digits, this tree and another one in turns.

    python benchmarks/against_tree.py COMMIT [--repetitions 7]

The other commit is checked out into a temporary folder. Each tree has a process of its own, which
fits when it is its turn, after a turn that does not count. Every repetition gives a ratio, and the
median of these counts. The result is ``results/bench/against_tree.json``.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

from machine import machine

from paper.json_files import write_json

ROOT = Path(__file__).parent.parent
OUT = ROOT / "results" / "bench" / "against_tree.json"
WORKER = """
import sys, time, warnings
warnings.simplefilter("ignore")
from hotview import MultiViewClassifier
from hotview.datasets import load_handwritten, unalign
digits = load_handwritten()
split = unalign(digits.views, digits.target, random_state=0)
for _ in sys.stdin:
    model = MultiViewClassifier(random_state=0, device="cpu", verbose=False)
    start = time.perf_counter()
    model.fit(split.linked, split.target, unaligned=split.unaligned)
    print(time.perf_counter() - start, model.score(split.test, split.test_target), flush=True)
"""


def start(tree: Path) -> subprocess.Popen[str]:
    """A process that fits with the package of a tree whenever it reads a line."""
    more = {"env": {**os.environ, "PYTHONPATH": str(tree / "src")}, "text": True}
    command = [sys.executable, "-c", WORKER]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, **more)  # type: ignore[call-overload,no-any-return]


def fit(process: subprocess.Popen[str]) -> tuple[float, float]:
    """Seconds of a fit, and its accuracy on the test rows."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    seconds, accuracy = map(float, process.stdout.readline().split())
    return seconds, accuracy


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("commit", help="the other tree")
    parser.add_argument("--repetitions", type=int, default=7)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        other = Path(folder) / "other"
        git = ["git", "-C", str(ROOT), "worktree"]
        subprocess.run([*git, "add", "--quiet", "--detach", str(other), given.commit], check=True)
        try:
            trees = {"this": start(ROOT), "other": start(other)}
            turns: list[dict[str, Any]] = []
            for i in range(given.repetitions + 1):
                order = sorted(trees, reverse=bool(i % 2))
                turns.append({name: fit(trees[name]) for name in order})
                print(f"turn {i}: {turns[-1]}", flush=True)
            for process in trees.values():
                process.kill()
        finally:
            subprocess.run([*git, "remove", "--force", str(other)], check=True)
    seconds = {name: [turn[name][0] for turn in turns[1:]] for name in trees}
    ratios = [a / b for a, b in zip(seconds["this"], seconds["other"], strict=True)]
    found = {
        "commit": given.commit,
        "machine": machine("scipy", "scikit-learn"),
        "seconds": seconds,
        "ratios": ratios,
        "ratio": median(ratios),
        "accuracy": {name: turns[0][name][1] for name in trees},
    }
    write_json(OUT, found)
    print(f"this tree takes {found['ratio']:.2f} times as long as {given.commit}")


if __name__ == "__main__":
    main()
