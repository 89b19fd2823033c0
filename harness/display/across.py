"""Print the choice of a configuration by input, and how good it is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from harness.core.invocation import command_line
from harness.core.kept import Kept
from harness.core.records import Config
from harness.dispatch.learners import Learner
from harness.dispatch.matrix import Matrix
from harness.dispatch.study import Study
from harness.dispatch.text import learnt_across, rule, shown_tree, tree_lines, why_nothing
from harness.display.text import print_line, print_lines

_MOST_LINES = 40  # of a tree in a summary; analyse prints it whole


def print_across(
    console: Console, matrix: Matrix, wanted: Sequence[Learner], kept: Kept | None = None
) -> None:
    """Print which configuration suits which input and the verdict on held-out inputs, or why
    nothing can be learnt.

    `wanted` has at least one dispatcher that is a single tree; what was judged before is `kept`.
    """
    reason = why_nothing(matrix)
    if reason is not None:
        print_line(console, reason)
        return
    for part in learnt_across(Study.of(matrix, wanted, kept=kept)):
        if isinstance(part, str):
            print_line(console, part)
        else:
            console.print(part)


def print_rule(console: Console, found: Study, default: Config) -> None:
    """Print the choice by input as nested conditions, where it pays and does not fit on a line."""
    if not found.gain(found.best).is_better:
        return
    name, heading = shown_tree(found)
    program = found.learnt(name).program(found.matrix.candidates)
    if name == found.best and rule(program, default) is not None:
        return  # the first sentence says it
    lines = list(tree_lines(program, default))
    hidden = len(lines) - _MOST_LINES
    more = [f"{hidden} more lines: {command_line('analyse')} prints them"] if hidden > 0 else []
    print_lines(
        console, [f"{heading}:", *(f"    {line}" for line in [*lines[:_MOST_LINES], *more]), ""]
    )
