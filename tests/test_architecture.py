"""Imports point one way: each folder may import itself and what stands before it."""

import ast
import re
from pathlib import Path

import pytest
from typer.main import get_command

import hotview
from hotview.cli.main import app

PACKAGE = Path(hotview.__file__).parent
ORDER = (
    ("_types", "_files", "_messages"),
    ("_lazy",),
    ("_archive",),
    ("_validation",),
    ("ot", "datasets"),
    ("ingest", "nn"),
    ("losses",),
    ("training",),
    ("semisupervised",),
    ("estimators",),
    ("persistence", "export"),
    ("evaluation", "federated", "model_selection", "omics", "tracking"),
    ("report",),
    ("cli",),
    ("__main__",),
)
LEVEL = {name: level for level, names in enumerate(ORDER) for name in names}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def part_of(path):
    relative = path.relative_to(PACKAGE)
    return relative.parts[0].removesuffix(".py")


def imported(path):
    """Every module a file imports, also inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path} imports relatively; write hotview.… in full"
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def parts_imported(path):
    for module in imported(path):
        first, *rest = module.split(".")
        if first == "hotview" and rest and rest[0] != "__version__":
            yield rest[0]


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    here = part_of(path)
    assert here in LEVEL, f"{here} has no place in the order of imports"
    for there in parts_imported(path):
        if there in LEVEL and there != here:
            assert LEVEL[there] < LEVEL[here], f"{path} of {here} imports {there}"
            assert not (there == "federated" and here != "cli"), "only cli may import federated"


@pytest.mark.parametrize(
    ("part", "forbidden"), (("report", "torch"), ("ot", "torch.nn"), ("datasets", "torch"))
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


def test_every_module_has_its_test_file():
    tests = Path(__file__).parent
    for path in MODULES:
        relative = path.relative_to(PACKAGE)
        if path.name != "__init__.py":
            expected = tests / relative.parent / f"test_{path.stem.strip('_')}.py"
            assert expected.exists(), f"{path} has no {expected}"


def test_no_module_is_named_after_nothing():
    vague = {"utils", "helpers", "common", "misc"}
    assert not [p for p in MODULES if vague & set(p.relative_to(PACKAGE).with_suffix("").parts)]
