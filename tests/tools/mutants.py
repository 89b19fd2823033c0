"""Find the places of the rooms where a mutant can be made, and draw some of them.

Tests of a mutant import harness from a copy of the project, so this module does not import it.
"""

from __future__ import annotations

import ast
import random
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

GROUPS = {
    "measuring": "measure fleet",
    "results": "results dispatch search recordings",
    "spaces": "space_file source discover constraints space stencil models",
    "commands": "commands api tuning report compare display analysis core stats checking options",
}
"""The rooms whose mutants are counted together."""

_COMPARISONS = {
    ast.Lt: ("<=", ">"),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<"),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATORS = {
    ast.Add: ("-",),
    ast.Sub: ("+",),
    ast.Mult: ("/", "+"),
    ast.Div: ("*",),
    ast.FloorDiv: ("*",),
    ast.Mod: ("*",),
    ast.Pow: ("*",),
}


@dataclass(frozen=True)
class Mutant:
    """A file in which the text between two offsets, in bytes, is replaced."""

    path: str
    start: int
    end: int
    text: str

    def applied(self, source: bytes) -> bytes:
        """Return the source with the replacement."""
        return source[: self.start] + self.text.encode() + source[self.end :]


class _Finder(ast.NodeVisitor):
    """Collect the mutants of one module; annotations and docstrings have none."""

    def __init__(self, path: str, source: bytes) -> None:
        self.found: list[Mutant] = []
        self._path, self._source = path, source
        lines = source.splitlines(keepends=True)
        self._line_starts = [sum(map(len, lines[:row])) for row in range(len(lines) + 1)]

    def _start(self, node: ast.expr) -> int:
        return self._line_starts[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr) -> int:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self._line_starts[node.end_lineno - 1] + node.end_col_offset

    def _replace(self, start: int, end: int, text: str) -> None:
        self.found.append(Mutant(self._path, start, end, text))

    def _replace_between(self, left: ast.expr, right: ast.expr, texts: Sequence[str]) -> None:
        """Replace the operator between two operands, whose parentheses stay as they are."""
        start, end = self._end(left), self._start(right)
        between = self._source[start:end].decode()
        operator = re.search(r"[^\s()\\]+( (not|in))?", between)
        if operator is not None and "#" not in between:
            first, last = (len(between[:at].encode()) for at in operator.span())
            for text in texts:
                self._replace(start + first, start + last, text)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, operator, right in zip(
            [node.left, *node.comparators], node.ops, node.comparators, strict=False
        ):
            self._replace_between(left, right, _COMPARISONS[type(operator)])
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        texts = _OPERATORS.get(type(node.op), ())
        if not any(isinstance(each, ast.JoinedStr) for each in (node.left, node.right)):
            self._replace_between(node.left, node.right, texts)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        text = "or" if isinstance(node.op, ast.And) else "and"
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._replace_between(left, right, (text,))
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, (ast.Not, ast.USub)):
            self._replace(self._start(node), self._start(node.operand), "")
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        value = node.value
        if isinstance(value, bool):
            self._replace(self._start(node), self._end(node), str(not value))
        elif isinstance(value, int):
            self._replace(self._start(node), self._end(node), str(value + 1))
        elif isinstance(value, float):
            self._replace(self._start(node), self._end(node), repr(value * 1.5 or 1.0))

    def visit_If(self, node: ast.If | ast.IfExp | ast.While) -> None:
        if isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        start, end = self._start(node.test), self._end(node.test)
        self._replace(start, end, f"not ({self._source[start:end].decode()})")
        self.generic_visit(node)

    visit_IfExp = visit_If  # noqa: N815
    visit_While = visit_If  # noqa: N815

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in [*node.args.defaults, *(each for each in node.args.kw_defaults if each)]:
            self.visit(default)
        for statement in node.body:
            self.visit(statement)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Leave messages alone."""

    def visit_keyword(self, node: ast.keyword) -> None:
        """Leave frozen dataclasses alone: nothing that works would do something else."""
        if node.arg != "frozen":
            self.generic_visit(node)


def drawn(root: Path, group: str, most: int, seed: int) -> list[Mutant]:
    """Draw places of a group, and a mutant of each. A larger `most` only adds some at the end."""
    places: dict[tuple[str, int, int], list[Mutant]] = {}
    for room in GROUPS[group].split():
        for file in sorted((root / "harness" / room).rglob("*.py")):
            finder = _Finder(file.relative_to(root).as_posix(), file.read_bytes())
            finder.visit(ast.parse(file.read_bytes()))
            for mutant in finder.found:
                places.setdefault((mutant.path, mutant.start, mutant.end), []).append(mutant)
    order, chance = list(places), random.Random(f"{seed}:{group}")
    chance.shuffle(order)
    chosen: list[Mutant] = []
    while order and len(chosen) < most:
        mutant = chance.choice(places[order.pop()])
        with suppress(SyntaxError):
            compile(mutant.applied((root / mutant.path).read_bytes()), mutant.path, "exec")
            chosen.append(mutant)
    return chosen
