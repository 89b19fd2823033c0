"""Text of what was learnt across inputs: the rules of a tree, the verdict's table, and why nothing
was."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.core.config_diff import difference
from harness.core.records import Config, shown
from harness.core.text import counted
from harness.dispatch.choice import DispatchProgram, Node, Split
from harness.dispatch.matrix import Matrix
from harness.dispatch.study import TREE, Study
from harness.models.columns import Column, ColumnKind
from harness.models.folds import ENOUGH_INPUTS, FEWEST_INPUTS

_MOST_IN_LINE = 3  # configurations that a line names


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


def tree_lines(program: DispatchProgram, default: Config) -> Iterator[str]:
    """Render a program of one tree; configurations list only changes from the default."""
    assert program.choice.tree is not None
    names = [difference(config, default) for config in program.portfolio]
    yield from _node_lines(program, names, program.choice.tree, "")


def _node_lines(
    program: DispatchProgram, names: Sequence[str], node: Node, indent: str
) -> Iterator[str]:
    if isinstance(node, Split) and not _is_one(node):
        low, high = conditions(program, node)
        yield f"{indent}if {low}:"
        yield from _node_lines(program, names, node.low, indent + "    ")
        yield f"{indent}else:   # {high}"
        yield from _node_lines(program, names, node.high, indent + "    ")
    else:
        count = sum(leaf.rows for leaf in node.leaves())
        yield f"{indent}{_name(names, node)}" + (f"   ({counted(count, 'input')})" if count else "")


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


TITLE = "Slowdown against the best known configuration, on held-out inputs"


def why_nothing(matrix: Matrix) -> str | None:
    """Say why no choice by input can be learnt; None if one may be."""
    count, left = len(matrix.features), len(matrix.comparable().features)
    if not count:
        return "No configuration worked on any input: there is nothing to choose from."
    if count < FEWEST_INPUTS:
        return (
            f"A choice by input can be learnt from {FEWEST_INPUTS} inputs, and judged with some "
            f"{ENOUGH_INPUTS}; there {'is' if count == 1 else 'are'} {count}."
        )
    if left < FEWEST_INPUTS:
        return (
            f"No choice by input is learnt: that needs {FEWEST_INPUTS} inputs on which the same "
            f"configurations were measured, and there are {left}. Let the run finish."
        )
    return None


def rule_lines(study: Study) -> Iterator[str]:
    """Yield which configuration to use for which input, as lines of a tree."""
    name, heading = shown_tree(study)
    candidates, index = study.matrix.candidates, study.matrix.default
    default = Config({}) if index is None else candidates[index]  # from which others differ
    yield f"{heading}:"
    lines = tree_lines(study.learnt(name).program(candidates), default)
    yield from (f"    {line}" for line in lines)


def shown_tree(study: Study) -> tuple[str, str]:
    """Choose the dispatcher to show as a tree, the one to ship if it is a tree, and its heading."""
    heading = "Which configuration for which input"
    if study.learnt(study.best).choice.tree is not None:
        return study.best, heading
    return TREE, (
        f"{heading}, by the {TREE}, which is easier to read than the {study.best} that "
        "harness dispatch writes"
    )


VERDICT_HEAD = ("choice", "geometric mean", "99th percentile", "worst", "within 5 %", "leaves")


def verdict_title(study: Study) -> str:
    """Return the title of the verdict."""
    return f"{TITLE}, weighted by calls" if (study.matrix.weights != 1).any() else TITLE


def verdict_rows(study: Study) -> list[tuple[str, ...]]:
    """Make a row under VERDICT_HEAD for each way to choose; of a dispatcher also its leaves, learnt
    from all inputs."""
    dispatchers = study.dispatchers
    return [
        (
            judged.name,
            judged.mean.text(".3f"),
            f"{judged.percentile_99:.3f}",
            f"{judged.worst:.2f}" + (f" ({judged.failures} failed)" if judged.failures else ""),
            f"{judged.near:.0%}",
            f"{study.learnt(judged.name).choice.leaf_count:,}"
            if judged.name in dispatchers
            else "",
        )
        for judged in study.slowdowns.values()
    ]


def verdict_lines(study: Study) -> list[str]:
    """Render the table as plain lines, for the comment of generated code."""
    lines = [f"{verdict_title(study)} (95 % interval; p99: 99th percentile):"]
    for name, mean, tail, worst, *_ in verdict_rows(study):
        lines.append(f"    {name:<25} mean {mean}, p99 {tail}, worst {worst}")
    return [*lines, *study.notes]
