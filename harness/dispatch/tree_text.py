"""Text of a tree that chooses: one line for a small one, nested conditions for any."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.core.config_diff import difference
from harness.core.records import Config, shown
from harness.core.text import counted
from harness.dispatch.nodes import Node, Split
from harness.dispatch.program import DispatchProgram, TreeChoice
from harness.models.encoding.columns import Column, ColumnKind

_MOST_IN_LINE = 3  # configurations that a line names


def rule(program: DispatchProgram, default: Config) -> str | None:
    """Render a program of one tree as a line: `A where n <= 139, else B`. None where it would name
    more than three configurations or nest conditions."""
    assert isinstance(program.choice, TreeChoice)
    names = [difference(config, default) for config in program.portfolio]
    parts: list[str] = []
    node = program.choice.root
    while not _is_one(node):
        assert isinstance(node, Split)
        low, high = _conditions(program, node)
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
    return len({leaf.order[0] for leaf in node.leaves()}) == 1


def _name(names: Sequence[str], node: Node) -> str:
    return names[next(node.leaves()).order[0]]


def tree_lines(program: DispatchProgram, default: Config) -> Iterator[str]:
    """Render a program of one tree; configurations list only changes from the default."""
    assert isinstance(program.choice, TreeChoice)
    names = [difference(config, default) for config in program.portfolio]
    yield from _lines(program, names, program.choice.root, "")


def _lines(
    program: DispatchProgram, names: Sequence[str], node: Node, indent: str
) -> Iterator[str]:
    if not isinstance(node, Split) or _is_one(node):
        count = sum(leaf.rows for leaf in node.leaves())
        rows = f"   ({counted(count, 'input')})" if count else ""
        yield f"{indent}{_name(names, node)}{rows}"
        return
    low, high = _conditions(program, node)
    yield f"{indent}if {low}:"
    yield from _lines(program, names, node.low, indent + "    ")
    yield f"{indent}else:   # {high}"
    yield from _lines(program, names, node.high, indent + "    ")


def _conditions(program: DispatchProgram, split: Split) -> tuple[str, str]:
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
