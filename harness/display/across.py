"""Print the choice of a configuration by input, and how good it is."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console

from harness.dispatch.learners import Learner
from harness.dispatch.matrix import Matrix
from harness.dispatch.study import study
from harness.dispatch.text import learnt_across, why_nothing
from harness.display.text import print_line


def print_across(console: Console, matrix: Matrix, wanted: Sequence[Learner]) -> bool:
    """Print which configuration suits which input and the verdict on held-out inputs, or why
    nothing can be learnt. Return whether choosing by input is significantly better than the best
    single configuration.

    `wanted` has at least one dispatcher that is a single tree.
    """
    reason = why_nothing(matrix)
    if reason is not None:
        print_line(console, reason)
        return False
    found = study(matrix, wanted)
    for part in learnt_across(found):
        if isinstance(part, str):
            print_line(console, part)
        else:
            console.print(part)
    return found.gain(found.best).is_better
