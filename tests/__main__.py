"""``python -m tests``: lint, types and the fast tests, with one line on what they took.

    python -m tests [--all] [ARGUMENTS OF PYTEST ...]

With ``--all``, also all that takes long and can run here: the slow tests (real processes, browsers,
notebooks, a federation with keys), the golden record and the damaged inputs; in the end it is said
what could not run, and why.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parent.parent
#: both wait for workers that steal tests, so that none is alone in the end
PARALLEL = ("--numprocesses", "auto", "--dist", "worksteal")
CHECKS = {
    "lint": ("ruff", "check"),
    "format": ("ruff", "format", "--check"),
    "types": ("mypy",),
}
LONG = {"golden": ("tests.golden",), "fuzz": ("fuzz",)}


def main():
    """Run everything, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--all", action="store_true", help="also what takes long")
    given, arguments = parser.parse_known_args()
    began, codes, cases = time.perf_counter(), {}, []
    for name, command in CHECKS.items():
        codes[name] = run(*command)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("fast", "slow")[: 1 + given.all]:
            report = Path(folder) / f"{name}.xml"
            which = ("-m", "slow") if name == "slow" else ()
            how = ("-o", "junit_family=xunit1", "--junit-xml", str(report))
            codes[name] = run("pytest", *PARALLEL, *which, *how, *arguments)
            cases += read(report)
    if given.all:
        codes |= {name: run(*command) for name, command in LONG.items()}
        print("\n".join(not_run(cases)))
    failed = [name for name, code in codes.items() if code]
    print(summary(cases, time.perf_counter() - began, processor_seconds(), failed))
    sys.exit(bool(failed))


def run(*command):
    """Run a module of this Python, with one thread per process, and return its exit code."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    return subprocess.run([sys.executable, "-m", *command], cwd=ROOT, env=environment).returncode


def processor_seconds():
    """Seconds of all processes that have ended, user and system."""
    times = os.times()
    return times.children_user + times.children_system


def read(report):
    """File, seconds, and why it was skipped, of every test."""
    if not report.exists():  # pytest was stopped
        return []
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        skipped = case.find("skipped")
        reason = None if skipped is None else skipped.get("message", "")
        found.append((case.get("file", ""), float(case.get("time", 0)), reason))
    return found


def not_run(cases):
    """What was skipped, most frequent reasons first."""
    reasons = Counter(reason for _, _, reason in cases if reason is not None)
    lines = [f"  {n} tests: {reason}" for reason, n in reasons.most_common()]
    return ["Could not run here:", *(lines or ["  nothing"])]


def summary(cases, seconds, processor, failed):
    """One line: time, processor time, tests, the slowest files, and what failed."""
    by_file = Counter()
    for file, took, _ in cases:
        by_file[file] += took
    slowest = ", ".join(f"{file} {took:.0f} s" for file, took in by_file.most_common(3))
    n_run = sum(reason is None for _, _, reason in cases)
    line = f"{seconds:.0f} s, {processor:.0f} s of processors, {n_run:,} tests; slowest: {slowest}"
    return f"{'FAILED: ' + ', '.join(failed) + '; ' if failed else ''}{line}"


if __name__ == "__main__":
    main()
