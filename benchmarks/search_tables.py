"""Print a comparison of searches as tables, and write it as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.search_figures import (
    MILESTONES,
    SCORED,
    Overall,
    Searches,
    shown_after,
    within,
)
from harness.display.formats import make_console
from harness.display.text import make_table
from harness.stats import Estimate

Found = Mapping[str, Mapping[str, Searches]]
"""Searches by technique and space."""

_WIDEST = 1000


def tables(
    found: Found, figures: Mapping[str, Overall], spaces: Sequence[str], budget: int
) -> Iterator[Table | Text]:
    """Yield the tables and texts to print, with techniques in the order of `figures`.

    A single space has one table, since the table over all spaces would repeat it.
    """
    if len(spaces) > 1:
        tests = max(within(MILESTONES[:3], budget), default=budget)
        yield Text(
            f"\nEach space: the median fraction of the optimum after {tests} tests, and the median "
            "tests to near"
        )
        yield _spaces_table(found, spaces, list(figures), tests, budget)
        yield Text("All spaces")
    yield _overall_table(figures, budget, len(spaces))
    yield Text("\n".join(_legend(figures, budget, len(spaces))), style="dim")


def _legend(figures: Mapping[str, Overall], budget: int, spaces: int) -> Iterator[str]:
    """Explain the columns of the table over all spaces, a line each."""
    across = "spaces and seeds" if spaces > 1 else "seeds"
    line = f"after N: fraction of the optimum after N tests, 1 is the optimum; mean over {across}"
    if _has_intervals(figures):
        line += " (95 % bootstrap interval)"
    yield line
    near = "median over spaces of the median over seeds" if spaces > 1 else "median over seeds"
    yield (
        f"tests to near: tests to come within 5 % of the optimum, {near}; "
        f">{budget}: more than the budget"
    )
    if _has_firsts(figures, spaces):
        after = ", ".join(map(str, within(SCORED, budget) or (budget,)))
        yield f"first: spaces on which no technique has a better mean fraction after {after} tests"


def _has_intervals(figures: Mapping[str, Overall]) -> bool:
    """Return whether there is more than one search to estimate a spread from."""
    return any(figure.searches > 1 for figure in figures.values())


def _has_firsts(figures: Mapping[str, Overall], spaces: int) -> bool:
    return spaces > 1 and len(figures) > 1


def print_whole(part: Table | Text) -> None:
    """Print without truncation: these tables are wider than most terminals."""
    console = make_console()
    natural = console.measure(part, options=console.options.update(width=_WIDEST)).maximum
    if isinstance(part, Table) and natural > console.width:
        console = Console(width=natural, highlight=False)
    console.print(part, soft_wrap=isinstance(part, Text))


def _overall_table(figures: Mapping[str, Overall], budget: int, spaces: int) -> Table:
    """Make a table with a row for each technique, the best first."""
    has_firsts = _has_firsts(figures, spaces)
    after = (f"after {tests}" for tests in shown_after(budget))
    head = ("technique", *after, "tests to near", *(["first"] if has_firsts else []))
    rows = (
        (
            technique if found.spaces == spaces else f"{technique} ({found.spaces} spaces)",
            *map(_mean_text, found.at.values()),
            _count_text(found.tests_to_near, budget),
            *([str(found.firsts)] if has_firsts else []),
        )
        for technique, found in figures.items()
    )
    return make_table(head, rows)


def _mean_text(mean: Estimate) -> str:
    text = f"{mean.value:.3f}"
    return text if mean.low == mean.high else f"{text} ({mean.low:.2f}-{mean.high:.2f})"


def _spaces_table(
    found: Found, spaces: Sequence[str], order: Sequence[str], tests: int, budget: int
) -> Table:
    """Make a table of median fractions and tests to near: techniques by spaces."""
    head = ("technique", *(f"[{number}]" for number in range(1, len(spaces) + 1)))
    rows = (
        (technique, *(_cell(found[technique].get(space), tests, budget) for space in spaces))
        for technique in order
    )
    return make_table(head, rows)


def _cell(searches: Searches | None, tests: int, budget: int) -> str:
    if searches is None:
        return "-"
    return f"{searches.median(tests):.2f} {_count_text(searches.tests_to_near, budget)}"


def _count_text(tests: float, budget: int) -> str:
    """Format a number of tests; show infinity as more than the budget."""
    return f">{budget}" if math.isinf(tests) else f"{tests:g}"


def write_courses(path: Path, found: Found) -> None:
    """Write a row for each new best of each search, for the milestones and for the last test.

    The best does not change between two rows of a search.
    """
    head = ("space", "technique", "seed", "tests", "best_s", "fraction")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(head)
        for technique, spaces in found.items():
            for space, searches in spaces.items():
                for seed, *row in _course_rows(searches):
                    writer.writerow((space, technique, seed, *row))


def _course_rows(searches: Searches) -> Iterator[tuple[int, int, str, str]]:
    budget = searches.best_s.shape[1]
    kept = {1, *shown_after(budget)}
    for seed, course in enumerate(searches.best_s.tolist()):
        for tests, best_s in enumerate(course, start=1):
            if tests in kept or best_s < course[tests - 2]:
                fraction = searches.optimum_s / best_s
                yield seed, tests, f"{best_s:.9g}", f"{fraction:.6f}"


def write_figures(path: Path, found: Found, budget: int) -> None:
    """Write a row for each technique and space: median fractions and tests to near."""
    reached = shown_after(budget)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        head = (f"median_at_{tests}" for tests in reached)
        writer.writerow(("space", "technique", *head, "tests_to_5pct", "score"))
        for technique, spaces in found.items():
            for space, searches in spaces.items():
                medians = (f"{searches.median(tests):.4f}" for tests in reached)
                near, score = f"{searches.tests_to_near:g}", f"{searches.score:.4f}"
                writer.writerow((space, technique, *medians, near, score))
