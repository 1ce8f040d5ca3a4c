"""Mutants: copies of a source file with one small error each, which some test must notice."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fuzz.chosen_mutants import CHOSEN

__all__ = ["FOLDERS", "Mutant", "find_mutants", "sample_mutants"]

FOLDERS = ("ot", "losses", "semisupervised")
#: Triton kernels and the choice of devices: they need a GPU
_SKIPPED_FILES = ("kernels.py", "_backend.py", "__init__.py")
_ON_GPU = {"_SMALL"}  # a constant
_SKIPPED_TEXTS = ("cuda", "captur", "kernels", ".device", "TYPE_CHECKING")
#: sizes of blocks and limits between methods that give the same result: they decide on speed alone
_SPEED = {
    *("_LARGE", "_SHORT", "_LONG", "_BLOCK", "_WORTH_A_THREAD", "_CHUNK", "_DENSE_FACTOR"),
    *("_N_SCORES", "_MIN_RATIO", "_FEW_THREADS"),
    *("BLOCK", "_PATIENCE", "_STEEP", "_ROUGH", "_CACHED"),
}

# Constants are doubled or increased by 1; but one more of many, or twice a tolerance, is no error.
_MANY, _LITTLE = 100, 1e-3

_COMPARISONS = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
_OPERATIONS = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "/"),
    ast.Div: ("/", "*"),
    ast.Pow: ("**", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitAnd: ("&", "|"),
    ast.BitOr: ("|", "&"),
}
_NAMES = {
    **{"min": "max", "amin": "amax", "minimum": "maximum", "argmin": "argmax"},
    **{"sum": "mean", "sqrt": "square", "any": "all", "ceil": "floor", "zeros": "ones"},
    **{"zeros_like": "ones_like", "exp": "expm1", "log": "log1p", "cumsum": "cumprod"},
}
_NAMES |= {other: name for name, other in _NAMES.items()} | {"abs": "float", "std": "var"}


@dataclass(frozen=True)
class Mutant:
    """One error in one file.

    Parameters
    ----------
    module : str
        Path of the file below the package.
    function : str
        Name of the function, with its class; empty at module level.
    line : int
        Line of the error.
    before, after : str
        The lines that are replaced, without what surrounds them, and what replaces them.
    start, end : int
        Where the changed text is, in bytes.
    text : bytes
        What replaces it.
    """

    module: str
    function: str
    line: int
    before: str
    after: str
    start: int
    end: int
    text: bytes

    @classmethod
    def of_change(
        cls, module: str, function: str, source: bytes, span: tuple[int, int], text: bytes
    ) -> Mutant:
        """The mutant that replaces a part of a source file."""
        start, end = span
        first = source.rfind(b"\n", 0, start) + 1
        last = end if source[:end].endswith(b"\n") else (source + b"\n").index(b"\n", end)
        before = source[first:last].decode().strip()
        after = (source[first:start] + text + source[end:last]).decode().strip()
        line = source.count(b"\n", 0, start) + 1
        return cls(module, function, line, before, after, start, end, text)

    def apply(self, source: bytes) -> bytes:
        """Source with the error."""
        return source[: self.start] + self.text + source[self.end :]

    @property
    def name(self) -> str:
        """What identifies the mutant while other lines of the file change."""
        return f"{self.module}:{self.function}: {self.before} → {self.after}"


def find_mutants(module: str, source: bytes) -> Iterator[Mutant]:
    """All mutants of a file."""
    yield from _Finder(module, source).mutants()


def sample_mutants(package: Path, per_module: int, seed: int) -> list[Mutant]:
    """Mutants that are tested: some of each file, from all of its functions, and the chosen ones.

    A mutant's rank depends on its text alone, so a change of one function leaves the others'.
    """
    found = []
    for folder in FOLDERS:
        for path in sorted((package / folder).glob("*.py")):
            if path.name in _SKIPPED_FILES:
                continue
            module, source = path.relative_to(package).as_posix(), path.read_bytes()
            by_function: dict[str, list[Mutant]] = {}
            for mutant in sorted(find_mutants(module, source), key=lambda m: _rank(m, seed)):
                by_function.setdefault(mutant.function, []).append(mutant)
            rounds = [
                (i, _rank(mutant, seed), mutant)
                for mutants in by_function.values()
                for i, mutant in enumerate(mutants)
            ]
            rounds.sort(key=lambda entry: entry[:2])
            found += [mutant for _, _, mutant in rounds[:per_module]]
    return list(dict.fromkeys([*_chosen(package), *found]))


def _rank(mutant: Mutant, seed: int) -> str:
    return hashlib.sha256(f"{seed} {mutant.name}".encode()).hexdigest()


def _chosen(package: Path) -> Iterator[Mutant]:
    for module, function, before, after in CHOSEN:
        source = (package / module).read_bytes()
        text = before.encode()
        if source.count(text) != 1:
            raise ValueError(
                f"Expected {before!r} once in {module}, but it is there {source.count(text)} "
                "times. Change the entry of fuzz/chosen_mutants.py."
            )
        span = source.index(text), source.index(text) + len(text)
        yield Mutant.of_change(module, function, source, span, after.encode())


def _is_one_constant(node: ast.AST) -> bool:
    """Whether a node is a negative number, or an axis by keyword."""
    if isinstance(node, ast.keyword):
        return node.arg in ("axis", "dim") and isinstance(node.value, ast.Constant)
    return isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant)


def _is_type(node: ast.AST) -> bool:
    """Whether a statement names a union of types."""
    value = node.value if isinstance(node, ast.Assign) else None
    return isinstance(value, ast.BinOp) and isinstance(value.op, ast.BitOr)


class _Finder:
    """The mutants of one file, by its syntax tree."""

    def __init__(self, module: str, source: bytes) -> None:
        self.module, self.source = module, source
        lengths = [len(line) for line in source.splitlines(keepends=True)]
        self.starts = [0]
        for length in lengths:
            self.starts.append(self.starts[-1] + length)

    def mutants(self) -> Iterator[Mutant]:
        for node, function in self._visit(ast.parse(self.source), ""):
            for after in self._changes(node):
                if after != self._text(node):
                    change = self._span(node), after.encode()
                    yield Mutant.of_change(self.module, function, self.source, *change)

    def _visit(self, node: ast.AST, function: str) -> Iterator[tuple[ast.AST, str]]:
        """Expressions and statements that are run, with the function that they are in."""
        for child in ast.iter_child_nodes(node):
            inside = function
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                inside = f"{function}.{child.name}".lstrip(".")
            if self._is_skipped(child, function):
                continue
            if isinstance(child, ast.expr | ast.AugAssign | ast.keyword):
                yield child, inside
            if _is_one_constant(child):
                continue
            if not function and _is_type(child):
                continue
            if isinstance(child, ast.AnnAssign):  # without the annotation
                if child.value is not None:
                    wrapper = ast.Expr(child.value)
                    yield from self._visit(wrapper, inside)
            elif isinstance(child, ast.ClassDef):  # without decorators
                yield from self._visit(ast.Module(child.body, []), inside)
            elif isinstance(child, ast.FunctionDef):
                for default in [*child.args.defaults, *child.args.kw_defaults]:
                    if default is not None:
                        yield from self._visit(ast.Expr(default), inside)
                yield from self._visit(ast.Module(child.body, []), inside)
            else:
                yield from self._visit(child, inside)

    def _is_skipped(self, node: ast.AST, function: str) -> bool:
        if isinstance(node, ast.keyword) and node.arg in ("strict", "dtype", "stable"):
            return True
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Raise | ast.Assert | ast.arguments):
            return True
        if isinstance(node, ast.Assign):
            targets = {x.id for t in node.targets for x in ast.walk(t) if isinstance(x, ast.Name)}
            return bool(targets & (_SPEED | _ON_GPU)) or "__all__" in targets
        if isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            return False
        if isinstance(node, ast.expr) and not isinstance(node, ast.Lambda):
            text = self._text(node)
            is_message = isinstance(node, ast.JoinedStr) or text.startswith(("cast(", "r'", '"'))
            return is_message or any(skipped in text for skipped in _SKIPPED_TEXTS)
        return False

    def _span(self, node: ast.AST) -> tuple[int, int]:
        start = self.starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]
        end = self.starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]
        return start, end

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self.source[start:end].decode()

    def _changes(self, node: ast.AST) -> Iterator[str]:
        """What may replace an expression or statement."""
        text = self._text(node)
        match node:
            case ast.Compare(left=left, ops=[op], comparators=[right]):
                yield self._replace_between(node, left, right, *_COMPARISONS[type(op)])
            case ast.BinOp(left=left, op=op, right=right):
                if type(op) in _OPERATIONS:
                    yield self._replace_between(node, left, right, *_OPERATIONS[type(op)])
                    yield f"({self._text(left)})"  # without the other term
            case ast.AugAssign(target=target, op=op, value=value) if type(op) in _OPERATIONS:
                old, new = _OPERATIONS[type(op)]
                yield self._replace_between(node, target, value, f"{old}=", f"{new}=")
                yield "pass"
            case ast.BoolOp(op=op, values=[first, *_, _]):
                old, new = ("and", "or") if isinstance(op, ast.And) else ("or", "and")
                yield self._replace_between(node, first, node.values[1], old, new)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int(value))):
                yield "-2" if value == 1 else str(1 - value)
            case ast.UnaryOp(op=ast.Not() | ast.Invert() | ast.USub(), operand=operand):
                if not isinstance(operand, ast.Constant):
                    yield f"({self._text(operand)})"
            case ast.IfExp(test=test, body=body, orelse=other):
                yield f"(({self._text(other)}) if {self._text(test)} else ({self._text(body)}))"
            case ast.Constant(value=bool()):
                yield str(not node.value)
            case ast.keyword(arg="axis" | "dim" as name, value=ast.Constant(value=int(value))):
                yield f"{name}={1 - value}"
            case ast.Constant(value=int(value)):
                yield str(value + 1 if value <= _MANY else 1)
            case ast.Constant(value=float(value)):
                yield repr(2 * value if value > _LITTLE else 1.0)
            case ast.Attribute(value=value, attr=name) if name in _NAMES:
                yield text[: -len(name)] + _NAMES[name]
            case ast.Call(func=ast.Name(id="min" | "max" | "any" | "all" | "abs" as name)):
                yield _NAMES[name] + text[len(name) :]
            case ast.Call(func=ast.Attribute(value=value, attr=name), args=[]):
                if name in ("square", "sqrt", "sum", "mean", "exp", "log", "abs", "sign"):
                    yield f"({self._text(value)})"
            case ast.Call(func=ast.Attribute(value=value, attr=name)):
                if name in ("clamp_min", "clip", "clamp_max"):
                    yield f"({self._text(value)})"
            case ast.Call(func=ast.Name(id=name), args=[_, *_]) if name == "sorted":
                yield "list" + text[len(name) :]

    def _replace_between(
        self, node: ast.AST, left: ast.AST, right: ast.AST, old: str, new: str
    ) -> str:
        (start, end), gap = self._span(node), (self._span(left)[1], self._span(right)[0])
        between = self.source[gap[0] : gap[1]].decode()
        changed = between.replace(old, new, 1).encode()
        return (self.source[start : gap[0]] + changed + self.source[gap[1] : end]).decode()
