"""Print a transfer between inputs as tables, and write it as CSV."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from pathlib import Path

from rich import box
from rich.table import Table

from benchmarks.transfer_figures import ESTABLISHED, Tuned, groups, mean, median, since
from harness.stats import Estimate

Compared = Mapping[str, Tuned]
"""The results of both kinds of searches: ALONE and TAUGHT."""

LEGEND = """\
input: its ordinal in the order; alone: an independent search; taught: learns from earlier inputs
tests to near: median tests to come within 5 % of the optimum, or one more than the budget
mean: the mean of the same tests
after N: fraction of the optimum after N tests, 1 is the optimum; mean over orders and their inputs
in brackets: the 95 % bootstrap interval over orders and their inputs"""


def table(compared: Compared) -> Table:
    """Make a table with two rows for each group of inputs: alone and taught."""
    rows = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    any_tuned = next(iter(compared.values()))
    for heading in ("input", "searched", "tests to near", "mean"):
        rows.add_column(heading, no_wrap=True)
    for tests in any_tuned.milestones:
        rows.add_column(f"after {tests}", justify="right", no_wrap=True)
    for group in groups(any_tuned.inputs):
        for search, tuned in compared.items():
            first = search == next(iter(compared))
            rows.add_row(str(group) if first else "", search, *_cells(tuned.of(group)))
    return rows


def _cells(tuned: Tuned) -> Iterator[str]:
    near = tuned.tests_to_near
    yield _shown(median(near), "g")
    yield _shown(mean(near), ".2f")
    for tests in tuned.milestones:
        yield _shown(mean(tuned.fractions(tests)), ".3f", ".2f")


def _shown(estimate: Estimate, value: str, ends: str | None = None) -> str:
    ends = ends or value
    return f"{estimate.value:{value}} ({estimate.low:{ends}}-{estimate.high:{ends}})"


def ratio_line(compared: Compared) -> str:
    """Describe the gain in one figure."""
    later = since(compared, ESTABLISHED)
    if later is None:
        return f"fewer than {ESTABLISHED} inputs: no figure for later inputs"
    return (
        f"from input {ESTABLISHED} on, taught searches need {_shown(later, '.2f')} of the tests "
        "that the same inputs need alone"
    )


def write_searches(path: Path, found: Mapping[str, Compared]) -> None:
    """Write a row for each search."""
    milestones = next(iter(next(iter(found.values())).values())).milestones
    head = ("data", "searched", "order", "input", "tests_to_5pct")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow((*head, *(f"at_{tests}" for tests in milestones)))
        for name, compared in found.items():
            for search, tuned in compared.items():
                writer.writerows((name, search, *row) for row in _search_rows(tuned))


def _search_rows(tuned: Tuned) -> Iterator[tuple[object, ...]]:
    near, orders = tuned.tests_to_near, tuned.slowdowns.shape[0]
    for order in range(orders):
        for index in range(tuned.inputs):
            course = tuned.slowdowns[order, index]
            fractions = (f"{1 / course[tests - 1]:.6f}" for tests in tuned.milestones)
            yield order, index + 1, int(near[order, index]), *fractions


def write_figures(path: Path, found: Mapping[str, Compared]) -> None:
    """Write a row for each figure of each group of inputs, with its interval."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("data", "searched", "inputs", "figure", "value", "least", "most"))
        for name, compared in found.items():
            for search, tuned in compared.items():
                for group in groups(tuned.inputs):
                    for figure, found_ in _figures(tuned.of(group)):
                        ends = (f"{x:.6g}" for x in (found_.value, found_.low, found_.high))
                        writer.writerow((name, search, group, figure, *ends))


def _figures(tuned: Tuned) -> Iterator[tuple[str, Estimate]]:
    near = tuned.tests_to_near
    yield "median_tests_to_5pct", median(near)
    yield "mean_tests_to_5pct", mean(near)
    yield "mean_tests_to_10pct", mean(tuned.tests_within(0.1))
    for tests in tuned.milestones:
        yield f"at_{tests}", mean(tuned.fractions(tests))
