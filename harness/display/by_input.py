"""The table of the worst, default and predicted configuration of each input."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from harness.dispatch.by_input import InputSlowdowns, geometric_means
from harness.display.inputs import MOST_SHOWN

BY_INPUT_HEAD = ("input", "worst", "default", "predicted")


def by_input_title(name: str) -> str:
    """Explain the columns; `name` is the dispatcher that predicts."""
    return (
        "Time of the worst, the default and the predicted configuration over the best time of the "
        "same rounds. "
        f"Predicted: what `{name}` chooses, learnt without the input."
    )


def by_input_rows(rows: Sequence[InputSlowdowns]) -> Iterator[tuple[str, ...]]:
    """Make a row an input, and the geometric means of all inputs."""
    for row in rows[:MOST_SHOWN]:
        slowdowns = map(_slowdown, (row.worst, row.default, row.predicted))
        yield (str(row.problem), *slowdowns)
    yield ("geometric mean", *map(_slowdown, geometric_means(rows)))


def _slowdown(number: float) -> str:
    if math.isnan(number):
        return "-"
    return f"{number:.2f}x" if math.isfinite(number) else "failed"
