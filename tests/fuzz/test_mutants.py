import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

from fuzz.chosen_mutants import CHOSEN
from fuzz.equivalent_mutants import EQUIVALENT
from fuzz.mutants import find_mutants, sample_mutants
from fuzz.mutation_run import files_of_tests

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "hotview"

SOURCE = '''
"""θ is not changed: 1 + 1."""
_SCALE = 0.5
_CHUNK = 4096

def distance(x, y, axis=-1) -> float | None:
    """Return 1 < 2."""
    if x is None or not len(y):
        raise ValueError(f"{1 + 1} rows")
    total = (x - y).square().sum(axis=0)  # θ
    total += 3 * max(x, y)
    return total ** 2 if x <= y else True
'''


def changes(source):
    """Every mutant's changed line, and what becomes of it."""
    return [(m.before, m.after) for m in find_mutants("ot/file.py", source.encode())]


CHANGES = {
    "_SCALE = 0.5": [("0.5", "1.0")],
    "def distance(x, y, axis=-1) -> float | None:": [("-1", "-2")],
    "if x is None or not len(y):": [("is", "is not"), ("or", "and"), ("not len(y)", "(len(y))")],
    "total = (x - y).square().sum(axis=0)  # θ": [
        ("-", "+"), ("0", "1"), ("sum", "mean"), ("(x - y)", "((x))")
    ],
    "total += 3 * max(x, y)": [("+", "-"), ("max", "min"), ("3 * max(x, y)", "(3)")],
    "return total ** 2 if x <= y else True": [("**", "*"), ("<=", "<"), ("True", "False")],
}  # fmt: skip


def test_operators_constants_and_terms_are_changed_one_at_a_time_and_nothing_else():
    found = changes(SOURCE)
    assert ("total += 3 * max(x, y)", "pass") in found
    for line, parts in CHANGES.items():
        for before, after in parts:
            assert (line, line.replace(before, after, 1)) in found
    for before, after in found:
        assert before != after
        assert not before.startswith(('"""', "raise", "_CHUNK"))
        assert "float | None" in after or "float | None" not in before


def test_every_mutant_of_the_package_can_be_parsed_and_differs_from_the_source():
    mutants = sample_mutants(PACKAGE, 2, seed=1)
    assert len({mutant.name for mutant in mutants}) == len(mutants) > 50
    for mutant in mutants:
        source = (PACKAGE / mutant.module).read_bytes()
        changed = mutant.apply(source)
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        assert len(changed.splitlines()) <= len(source.splitlines())
        assert all((ROOT / test.split("::")[0]).exists() for test in files_of_tests(mutant.module))


def test_a_change_of_one_function_leaves_the_mutants_of_others(tmp_path):
    for folder in ("ot", "losses", "semisupervised"):
        (tmp_path / folder).mkdir()
    for module, _, before, _ in CHOSEN:
        with (tmp_path / module).open("a") as file:
            file.write(f"# {before}\n" if before.count("\n") == 0 else f"'''\n{before}'''\n")
    path = tmp_path / "ot" / "file.py"
    path.write_text("def f(x):\n    return x + 1\n\ndef g(x):\n    return x * 2 - 3\n")
    before = {m.name for m in sample_mutants(tmp_path, 4, 0) if m.function == "g"}
    path.write_text("def f(x):\n    y = 2\n    return x / y\n\ndef g(x):\n    return x * 2 - 3\n")
    assert before == {m.name for m in sample_mutants(tmp_path, 4, 0) if m.function == "g"}
    assert len(before) == 2


@pytest.mark.slow
def test_a_mutant_is_killed_in_a_copy(tmp_path):
    before = {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}
    out = tmp_path / "mutants.json"
    only = ["--per-module", "0", "--module", "losses/orthogonality", "--out", str(out)]
    subprocess.run([sys.executable, "-m", "fuzz.mutation_run", *only], cwd=ROOT, check=True)
    [mutant] = json.loads(out.read_text())["mutants"]
    assert mutant["killed_by"].startswith("tests/losses/test_orthogonality.py::")
    assert before == {path: path.read_bytes() for path in PACKAGE.rglob("*.py")}


def test_the_results_are_of_enough_mutants_and_every_survivor_is_explained():
    results = json.loads((ROOT / "results" / "mutants.json").read_text())
    survivors = [mutant for mutant in results["mutants"] if mutant["survived"]]
    assert results["n_mutants"] == len(results["mutants"]) >= 150
    assert results["n_killed"] == results["n_mutants"] - len(survivors)
    assert results["n_killed"] >= 0.95 * results["n_mutants"]
    assert all(mutant["why"] for mutant in survivors)
    assert len(survivors) == len(EQUIVALENT)
