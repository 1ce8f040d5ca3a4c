"""``python -m fuzz.mutation_run``: apply each mutant to a copy of the source, and run its tests.

A mutant is killed if a test fails or takes far longer than without it. Each runs in a process of
its own, forked from one that has imported what tests need, but nothing of the package.
"""

from __future__ import annotations

import compileall
import json
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from importlib import import_module
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Annotated, Any

import pytest
import typer

from fuzz.equivalent_mutants import EQUIVALENT
from fuzz.mutants import Mutant, sample_mutants

_ROOT = Path(__file__).resolve().parents[1]
_MEMORY = 8 * 2**30  # bytes of data of a process
_OPTIONS = ("-x", "-q", "--no-header", "--tb=no", "--assert=plain", "-p", "no:cacheprovider")
_LIBRARIES = (
    *("torch", "ot", "scipy.optimize", "scipy.stats", "hypothesis.core", "hypothesis.strategies"),
    *("sklearn.cluster", "sklearn.linear_model", "sklearn.neighbors"),
)
_BY_HASH = PycInvalidationMode.CHECKED_HASH
_DEFAULTS = "test_public_api.py::test_documented_defaults_are_those_of_the_signature"


class FirstFailure:
    """A plugin of pytest that keeps the name of the first test that fails."""

    name = ""

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Keep the name of a test."""
        if report.failed and not self.name:
            self.name = report.nodeid

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Keep the name of a file that cannot be imported."""
        if report.failed and not self.name:
            self.name = f"import of {report.nodeid}"


def files_of_tests(module: str) -> list[str]:
    """Test files of the folder of a module, those that bear its name first."""
    folder, name = module.rsplit("/", 1)
    word = name.removesuffix(".py").lstrip("_")
    paths = sorted((_ROOT / "tests" / folder).glob("test_*.py"))
    paths.sort(key=lambda path: word not in path.stem)  # the order is kept otherwise
    files = [str(path.relative_to(_ROOT)) for path in paths]
    return files if folder == "semisupervised" else [*files, f"tests/{_DEFAULTS}"]


def run_tests(source: Path, tests: list[str], timeout: float) -> tuple[str, float]:
    """Name of the first failing test with the package in `source`, if any, and the seconds."""
    begin = time.monotonic()
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setsid()
        os.close(read)
        _run_in_child(source, tests, write)
    os.close(write)
    os.set_blocking(read, False)
    while os.waitpid(pid, os.WNOHANG) == (0, 0):
        if time.monotonic() - begin > timeout:
            os.killpg(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            os.close(read)
            return "timeout", time.monotonic() - begin
        time.sleep(0.02)
    with os.fdopen(read) as pipe:
        said = pipe.read()
    result = json.loads(said) if said else {"name": "crash"}
    return result["name"], time.monotonic() - begin


def _run_in_child(source: Path, tests: list[str], write: int) -> None:
    try:
        null = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(null, stream)
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, _MEMORY))
        os.chdir(_ROOT)
        sys.path.insert(0, str(source))
        sys.dont_write_bytecode = True
        first = FirstFailure()
        status = pytest.main([*_OPTIONS, *tests], plugins=[first])
        if status != 0 and not first.name:
            first.name = f"exit status {int(status)} of pytest"
        os.write(write, json.dumps({"name": first.name}).encode())
    finally:
        os._exit(0)


def _import_libraries() -> None:
    """Import once what every process needs; the package itself comes from the copy."""
    for name in _LIBRARIES:
        import_module(name)
    import_module("torch").set_num_threads(1)  # threads do not survive a fork
    hypothesis: Any = import_module("hypothesis.core")
    hypothesis.global_force_seed = 0
    os.environ["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"  # plugins take longer to import than tests
    assert "hotview" not in sys.modules


app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)


@app.command()
def main(
    *,
    per_module: Annotated[int, typer.Option(help="Mutants of every file.")] = 6,
    seed: Annotated[int, typer.Option(help="Seed of their choice.")] = 0,
    module: Annotated[str, typer.Option(help="Only files whose path holds this text.")] = "",
    again: Annotated[bool, typer.Option(help="Only those that survive in the file.")] = False,
    out: Annotated[Path, typer.Option(help="The results.")] = Path("results/mutants.json"),
) -> None:
    """Test all mutants, and exit with status 1 if one survives without an explanation."""
    _import_libraries()
    package = _ROOT / "src" / "hotview"
    mutants = [m for m in sample_mutants(package, per_module, seed) if module in m.module]
    former = json.loads(out.read_text())["mutants"] if again else []
    killed = {_name(entry): entry for entry in former if entry["killed_by"]}
    entries: list[dict[str, Any]] = []
    normal: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        source = Path(folder) / "src"
        shutil.copytree(package.parent, source, ignore=shutil.ignore_patterns("__pycache__"))
        compileall.compile_dir(source, quiet=2, invalidation_mode=_BY_HASH)
        for mutant in mutants:
            if mutant.name in killed:
                entries.append({**killed[mutant.name], "line": mutant.line})
                continue
            tests = files_of_tests(mutant.module)
            if mutant.module not in normal:
                failed, normal[mutant.module] = run_tests(source, tests, 600)
                if failed:
                    raise SystemExit(f"{failed} fails without any mutant.")
            path = source / "hotview" / mutant.module
            original = path.read_bytes()
            path.write_bytes(mutant.apply(original))
            killed_by, seconds = run_tests(source, tests, 20 + 4 * normal[mutant.module])
            path.write_bytes(original)
            entries.append(_entry(mutant, killed_by))
            _write(entries, out, seed, per_module)
            print(f"{seconds:5.1f} s  {mutant.name}  [{killed_by or 'SURVIVED'}]", flush=True)
    _write(entries, out, seed, per_module)
    if _print_survivors(entries) > 0:
        raise typer.Exit(1)


def _name(entry: dict[str, Any]) -> str:
    return f"{entry['module']}:{entry['function']}: {entry['mutation']}"


def _entry(mutant: Mutant, killed_by: str) -> dict[str, Any]:
    entry = {
        "module": mutant.module,
        "line": mutant.line,
        "function": mutant.function,
        "mutation": f"{mutant.before} → {mutant.after}",
        "killed_by": killed_by,
        "survived": not killed_by,
    }
    if not killed_by:
        entry["why"] = EQUIVALENT.get(mutant.name, "")
    return entry


def _write(entries: list[dict[str, Any]], out: Path, seed: int, per_module: int) -> None:
    survivors = [entry for entry in entries if entry["survived"]]
    n, share = len(entries), 1 - len(survivors) / max(len(entries), 1)
    by_module = {
        module: {"mutants": count, "survived": sum(e["module"] == module for e in survivors)}
        for module, count in sorted(Counter(entry["module"] for entry in entries).items())
    }
    summary = {
        "command": "make mutants",
        "seed": seed,
        "per_module": per_module,
        "n_mutants": n,
        "n_killed": n - len(survivors),
        "share_killed": round(share, 4),
        "modules": by_module,
        "mutants": entries,
    }
    out.write_text(json.dumps(summary, indent=1, ensure_ascii=False) + "\n")


def _print_survivors(entries: list[dict[str, Any]]) -> int:
    """Print the mutants that survive, and return how many of them have no explanation."""
    survivors = [entry for entry in entries if entry["survived"]]
    for entry in survivors:
        print(f"survived: {entry['module']}:{entry['line']}: {entry['mutation']}")
        print(f"    {entry['why'] or 'NOT EXPLAINED'}")
    unexplained = sum(not entry["why"] for entry in survivors)
    n, killed = len(entries), len(entries) - len(survivors)
    print(f"{n} mutants, {killed} killed ({killed / max(n, 1):.1%}), {unexplained} unexplained")
    return unexplained


if __name__ == "__main__":
    app()
