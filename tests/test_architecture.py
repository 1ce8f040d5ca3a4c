"""Imports point one way: each folder may import itself and folders before it.

Imports inside functions, `import_module` and attributes of the root package count as well.
"""

import ast
import re
from pathlib import Path

import pytest
from typer.main import get_command

import hotview
from hotview.cli import app

PACKAGE = Path(hotview.__file__).parent
ORDER = (
    ("_types", "_files", "_messages", "_codec", "_threads"),
    ("_archive", "_launch"),
    ("_processes",),
    ("_validation",),
    ("ot", "data", "similarity"),
    ("preprocessing", "nn", "semisupervised"),
    ("losses",),
    ("training",),
    ("model",),
    ("estimators",),
    ("evaluation", "model_selection"),
    ("tables",),
    ("datasets",),
    ("federated", "omics", "report"),
    ("cli",),
    ("__main__",),
)
#: upward imports inside a function that are allowed
ALLOWED = {
    ("estimators/base.py", "evaluation"),  # estimator.report(path), a method for convenience
    ("estimators/base.py", "report"),
    ("model/files.py", "estimators"),  # a file holds an estimator
}
#: folders of the names that the root package imports when they are first used
ROOT_NAMES = {"load": "model", "save": "model"}
ROOT_NAMES |= {name: "estimators" for name in hotview.__all__ if name[0].isupper()}
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def part_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported(path):
    """Every module that a file imports, also inside functions and through the root package."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write hotview.… in full"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id in ("hotview", "hv"):
                yield f"hotview.{node.attr}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            name = getattr(node.func, "id", getattr(node.func, "attr", ""))
            if name in ("import_module", "__import__"):
                yield node.args[0].value


def parts_imported(path):
    for module in imported(path):
        first, *rest = module.split(".")
        if first == "hotview" and rest and rest[0] != "__version__":
            yield ROOT_NAMES.get(rest[0], rest[0])


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    here = part_of(path)
    assert here in LEVEL, f"{here} has no place in the order of imports"
    for there in parts_imported(path):
        allowed = (str(path.relative_to(PACKAGE)), there) in ALLOWED
        if there in LEVEL and there != here and not allowed:
            assert LEVEL[there] < LEVEL[here], f"{path} of {here} imports {there}"
            assert not (there == "federated" and here != "cli"), "only cli may import federated"


@pytest.mark.parametrize(
    ("part", "forbidden"),
    (
        ("report", "torch"),
        ("ot", "torch.nn"),
        ("datasets", "torch"),
        ("similarity", "torch"),
        ("semisupervised", "torch.nn"),
        ("semisupervised", "hotview.training"),
    ),
)
def test_what_a_folder_must_not_know(part, forbidden):
    for path in MODULES:
        if part_of(path) == part:
            used = [m for m in imported(path) if f"{m}.".startswith(f"{forbidden}.")]
            assert not used, f"{path} imports {used}"


def test_only_the_command_line_names_its_flags():
    commands = get_command(app).commands.values()
    flags = {flag for command in commands for option in command.params for flag in option.opts}
    long = {flag for flag in flags if flag.startswith("--")} - {"--help", "--version"}
    pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(sorted(long))})(?![\w-])")
    for path in MODULES:
        if part_of(path) not in ("cli", "federated"):  # whose READMEs name options of Flower
            named = set(pattern.findall(path.read_text()))
            assert not named, f"{path} names {sorted(named)}; errors carry parameters as data"
