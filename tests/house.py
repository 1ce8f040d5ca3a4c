"""``python -m tests.house``: the size and shape of the package, by folder.

Code lines hold code: no docstrings, comments or blanks.
"""

import ast
import io
import tokenize
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

PACKAGE = Path(__file__).parent.parent / "src" / "hotview"
_LAYOUT = {"COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER"}
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass
class House:
    """Counts of the package; `folders` has modules, code lines and lines by folder."""

    folders: dict[str, list[int]] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)  # by file
    bodies: dict[str, int] = field(default_factory=dict)  # lines by function
    used_once: int = 0  # private functions

    def total(self, what):
        """Modules (0), code lines (1) or lines (2) of all folders."""
        return sum(counts[what] for counts in self.folders.values())


def measure():
    """Count what the package has."""
    house = House()
    for path in sorted(PACKAGE.rglob("*.py")):
        text, name = path.read_text(encoding="utf-8"), path.relative_to(PACKAGE).as_posix()
        tree = ast.parse(text)
        house.lines[name] = text.count("\n")
        folder = house.folders.setdefault(name.rpartition("/")[0].partition("/")[0], [0, 0, 0])
        for i, n in enumerate((1, code_lines(text, tree), house.lines[name])):
            folder[i] += n
        nodes = list(ast.walk(tree))
        used = Counter(getattr(x, "id", getattr(x, "attr", None)) for x in nodes)
        for x in nodes:
            if isinstance(x, _FUNCTIONS):
                body = x.body[1:] if ast.get_docstring(x) else x.body
                size = body[-1].end_lineno - body[0].lineno + 1 if body else 0
                house.bodies[f"{name}:{x.lineno} {x.name}"] = size
                is_private = x.name.startswith("_") and not x.name.startswith("__")
                house.used_once += is_private and used[x.name] == 1
    return house


def code_lines(text, tree):
    """Number of lines that hold code."""
    held, documented = set(), set()
    for x in ast.walk(tree):
        if isinstance(x, (ast.Module, ast.ClassDef, *_FUNCTIONS)) and ast.get_docstring(x):
            documented |= set(range(x.body[0].lineno, x.body[0].end_lineno + 1))
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if tokenize.tok_name[token.type] not in _LAYOUT:
            held |= set(range(token.start[0], token.end[0] + 1))
    return len(held - documented)


if __name__ == "__main__":
    found = measure()
    for folder, (n, code, lines) in sorted(found.folders.items(), key=lambda x: -x[1][1]):
        print(f"{folder or '.':18s} {n:4d} modules {code:7,d} code lines {lines:7,d} lines")
    sizes = sorted(found.bodies.values())
    print(
        f"all: {found.total(0)} modules, {found.total(1):,} code lines, {found.total(2):,} lines; "
        f"{len(sizes)} functions, body lines median {median(sizes):.0f}, 90 % "
        f"{sizes[9 * len(sizes) // 10]}, most {sizes[-1]}; private and used once {found.used_once}"
    )
    print("longest:", *sorted(found.lines, key=found.lines.get)[:-5:-1])
