"""Text of a tree that chooses: one line for a small one, nested conditions for any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.config_diff import difference
from harness.core.records import Config, shown
from harness.core.text import counted
from harness.dispatch.choice import DispatchProgram
from harness.dispatch.matrix import Matrix
from harness.dispatch.nodes import Node, Split
from harness.models.encoding.columns import Column, ColumnKind, column_values

_MOST_IN_LINE = 3  # configurations that a line names
_CLEARLY_FASTER = 1.03  # a candidate that a comment names


def rule(program: DispatchProgram, default: Config) -> str | None:
    """Render a program of one tree as a line: `A where n <= 139, else B`. None where it would name
    more than three configurations or nest conditions."""
    assert program.choice.tree is not None
    names = [difference(config, default) for config in program.portfolio]
    parts: list[str] = []
    node = program.choice.tree
    while not _is_one(node):
        assert isinstance(node, Split)
        low, high = conditions(program, node)
        if _is_one(node.low):
            parts.append(f"{_name(names, node.low)} where {low}")
            node = node.high
        elif _is_one(node.high):
            parts.append(f"{_name(names, node.high)} where {high}")
            node = node.low
        else:
            return None
    parts.append(_name(names, node))
    return ", else ".join(parts) if len(parts) <= _MOST_IN_LINE else None


def _is_one(node: Node) -> bool:
    """Whether a node chooses the same on all inputs."""
    return len({leaf.first for leaf in node.leaves()}) == 1


def _name(names: Sequence[str], node: Node) -> str:
    return names[next(node.leaves()).first]


def tree_lines(
    program: DispatchProgram, default: Config, matrix: Matrix | None = None
) -> Iterator[str]:
    """Render a program of one tree; configurations list only changes from the default.

    With the matrix that it was learnt from, a comment follows a leaf whose inputs another candidate
    suited better by more than a few percent. That may be chance: to choose it is no faster on
    unseen inputs, within noise (docs/dispatch.md).
    """
    assert program.choice.tree is not None
    names = [difference(config, default) for config in program.portfolio]
    learnt_from = None if matrix is None else _LearntFrom(program, default, matrix)
    rows = np.arange(0 if matrix is None else len(matrix.features))
    yield from _TreeLines(program, names, learnt_from).of(program.choice.tree, rows, "")


@dataclass(frozen=True)
class _TreeLines:
    program: DispatchProgram
    names: Sequence[str]
    learnt_from: _LearntFrom | None

    def of(self, node: Node, rows: Indices, indent: str) -> Iterator[str]:
        """Render a node, which these inputs pass."""
        if not isinstance(node, Split) or _is_one(node):
            yield from self._leaf(node, rows, indent)
            return
        low, high = conditions(self.program, node)
        is_low = self.learnt_from.is_low(node, rows) if self.learnt_from else np.zeros(0, bool)
        yield f"{indent}if {low}:"
        yield from self.of(node.low, rows[is_low], indent + "    ")
        yield f"{indent}else:   # {high}"
        yield from self.of(node.high, rows[~is_low], indent + "    ")

    def _leaf(self, node: Node, rows: Indices, indent: str) -> Iterator[str]:
        count = sum(leaf.rows for leaf in node.leaves())
        inputs = f"   ({counted(count, 'input')})" if count else ""
        yield f"{indent}{_name(self.names, node)}{inputs}"
        chosen = next(node.leaves()).first
        faster = self.learnt_from.faster(chosen, rows) if self.learnt_from else None
        if faster is not None:
            yield f"{indent}# {faster}"


@dataclass(frozen=True)
class _LearntFrom:
    """The inputs that a program was learnt from."""

    program: DispatchProgram
    default: Config
    matrix: Matrix

    @cached_property
    def _values(self) -> Array:
        return column_values(self.program.columns, self.matrix.features)

    @cached_property
    def _logs(self) -> Array:
        return self.matrix.log_slowdown

    def is_low(self, split: Split, rows: Indices) -> Flags:
        """Say which of these inputs go to the low side."""
        is_low: Flags = self._values[rows, split.column] <= split.threshold
        return is_low

    def faster(self, member: int, rows: Indices) -> str | None:
        """Name the candidate that suited these inputs best, where it was clearly above the chosen
        member of the portfolio; None where it was not, or where one does not apply to all."""
        chosen = self.matrix.candidates.index(self.program.portfolio[member])
        if not len(rows):
            return None
        means = self._logs[rows].mean(axis=0)
        if np.isnan(means[chosen]):
            return None
        best = int(np.nanargmin(means))
        ratio = math.exp(means[chosen] - means[best])
        if ratio < _CLEARLY_FASTER:
            return None
        name = difference(self.matrix.candidates[best], self.default)
        inputs = "this input" if len(rows) == 1 else f"these {len(rows)} inputs"
        return f"{name} was {ratio:.2f}x as fast on {inputs}, which may be chance"


def comment_on(program: DispatchProgram, split: Split) -> str:
    """Render what holds on the low side, where generated code does not show it; else nothing."""
    is_twos = program.columns[split.column].kind is ColumnKind.TWOS
    return conditions(program, split)[0] if is_twos else ""


def conditions(program: DispatchProgram, split: Split) -> tuple[str, str]:
    """Render what holds for inputs on the low side of a split, and on its high side."""
    column = program.columns[split.column]
    if column.kind is ColumnKind.EQUALS:
        name, word = column.features[0], shown(column.word)
        return f"{name} is not {word}", f"{name} is {word}"
    if column.kind is ColumnKind.TWOS:
        return _divisibility(program, column, split.threshold)
    text = _threshold_text(program, column, split.threshold)
    return f"{column} <= {text}", f"{column} > {text}"


def _threshold_text(program: DispatchProgram, column: Column, threshold: float) -> str:
    """Render a threshold; of whole numbers as the largest that is on the low side."""
    whole = {tuned.feature for tuned in program.tuned if tuned.whole}
    if column.kind is not ColumnKind.RATIO and whole.issuperset(column.features):
        return f"{math.floor(threshold):,}"
    return f"{threshold:.6g}" if abs(threshold) < 1e5 else f"{threshold:,.1f}"


def _divisibility(program: DispatchProgram, column: Column, threshold: float) -> tuple[str, str]:
    """Render a comparison of the largest power of two in a number, which is 0 for 0."""
    name = column.features[0]
    has_zero = any(t.feature == name and t.holds(0) for t in program.tuned)
    if threshold < 1:
        return f"{name} is 0", f"{name} is not 0"
    divisor = 2 ** (math.floor(math.log2(threshold)) + 1)
    odd, even = (
        ("odd", "even")
        if divisor == 2
        else (f"not divisible by {divisor}", f"divisible by {divisor}")
    )
    low, high = (" or 0", " and not 0") if has_zero else ("", "")
    return f"{name} is {odd}{low}", f"{name} is {even}{high}"
