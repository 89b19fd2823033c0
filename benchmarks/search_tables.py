"""How a comparison of searches is told: tables for people, CSV for other programs."""

from __future__ import annotations

import csv
import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from benchmarks.search_figures import (
    MILESTONES,
    SCORED,
    Overall,
    Searches,
    told_after,
    within,
)
from harness.display import make_console
from harness.stats import Estimate

Found = Mapping[str, Mapping[str, Searches]]
"""Techniques, and of each its searches on each space."""

_WIDEST = 1000


def tables(
    found: Found, figures: Mapping[str, Overall], spaces: Sequence[str], budget: int
) -> Iterator[Table | Text]:
    """All that a person is told, in order; techniques stand in the order of `figures`.

    Of one space there is one table, since one over all spaces would say the same again.
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
    """What the table over all spaces has, a line each."""
    across, drawn = ("spaces and seeds", "spaces and seeds") if spaces > 1 else ("seeds", "seeds")
    told = f"after N: fraction of the optimum after N tests, 1 is the optimum; mean over {across}"
    if _has_intervals(figures):
        told += f" (its 95 % interval, {drawn} drawn anew)"
    yield told
    near = "median over spaces of the median over seeds" if spaces > 1 else "median over seeds"
    yield (
        f"tests to near: how many tests it took to come within 5 % of the optimum, {near}; "
        f">{budget}: more than the budget"
    )
    if _has_firsts(figures, spaces):
        after = ", ".join(map(str, within(SCORED, budget) or (budget,)))
        told = "first: on how many spaces no technique has a better mean fraction"
        yield f"{told} (after {after} tests)"


def _has_intervals(figures: Mapping[str, Overall]) -> bool:
    """One search alone has no spread."""
    return any(figure.searches > 1 for figure in figures.values())


def _has_firsts(figures: Mapping[str, Overall], spaces: int) -> bool:
    return spaces > 1 and len(figures) > 1


def print_whole(part: Table | Text) -> None:
    """Print without cutting anything off: these tables are wider than most terminals."""
    console = make_console()
    natural = console.measure(part, options=console.options.update(width=_WIDEST)).maximum
    if isinstance(part, Table) and natural > console.width:
        console = Console(width=natural, highlight=False)
    console.print(part, soft_wrap=isinstance(part, Text))


def _overall_table(figures: Mapping[str, Overall], budget: int, spaces: int) -> Table:
    """One row a technique, the best first."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("technique", no_wrap=True)
    has_firsts = _has_firsts(figures, spaces)
    headings = [f"after {tests}" for tests in told_after(budget)] + ["tests to near"]
    for heading in [*headings, *(["first"] if has_firsts else [])]:
        table.add_column(heading, justify="right", no_wrap=True)
    for technique, found in figures.items():
        told = technique if found.spaces == spaces else f"{technique} ({found.spaces} spaces)"
        cells = [*map(_mean_text, found.at.values()), _count_text(found.tests_to_near, budget)]
        table.add_row(told, *cells, *([str(found.firsts)] if has_firsts else []))
    return table


def _mean_text(mean: Estimate) -> str:
    text = f"{mean.value:.3f}"
    return text if mean.low == mean.high else f"{text} ({mean.low:.2f}-{mean.high:.2f})"


def _spaces_table(
    found: Found, spaces: Sequence[str], order: Sequence[str], tests: int, budget: int
) -> Table:
    """One row a technique and one column a space: median fraction, median tests to near."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("technique", no_wrap=True)
    for number, _ in enumerate(spaces, start=1):
        table.add_column(f"[{number}]", justify="right", no_wrap=True)
    for technique in order:
        cells = (_cell(found[technique].get(space), tests, budget) for space in spaces)
        table.add_row(technique, *cells)
    return table


def _cell(searches: Searches | None, tests: int, budget: int) -> str:
    if searches is None:
        return "-"
    return f"{searches.median(tests):.2f} {_count_text(searches.tests_to_near, budget)}"


def _count_text(tests: float, budget: int) -> str:
    """A number of tests; where it is infinite, that the budget did not do."""
    return f">{budget}" if math.isinf(tests) else f"{tests:g}"


def write_courses(path: Path, found: Found) -> None:
    """A row for every new best of every search, and for the milestones and the last test.

    Between two rows of a search its best stays the same.
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
    kept = {1, *told_after(budget)}
    for seed, course in enumerate(searches.best_s.tolist()):
        for tests, best_s in enumerate(course, start=1):
            if tests in kept or best_s < course[tests - 2]:
                fraction = searches.optimum_s / best_s
                yield seed, tests, f"{best_s:.9g}", f"{fraction:.6f}"


def write_figures(path: Path, found: Found, budget: int) -> None:
    """A row for every technique on every space: median fractions, and tests to near."""
    reached = told_after(budget)
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        head = (f"median_at_{tests}" for tests in reached)
        writer.writerow(("space", "technique", *head, "tests_to_5pct", "score"))
        for technique, spaces in found.items():
            for space, searches in spaces.items():
                medians = (f"{searches.median(tests):.4f}" for tests in reached)
                near, score = f"{searches.tests_to_near:g}", f"{searches.score:.4f}"
                writer.writerow((space, technique, *medians, near, score))
