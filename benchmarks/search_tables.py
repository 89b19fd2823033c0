"""Print a comparison of searches as tables, and write it as CSV."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

from benchmarks.frame import show
from benchmarks.search_figures import Overall, Searches, shown_after

Found = Mapping[str, Mapping[str, Searches]]
"""Searches by technique and space."""


def print_table(figures: Mapping[str, Overall], budget: int) -> None:
    """Print a table over all spaces, the best technique first."""
    head = ("technique", "spaces", *(f"after {tests}" for tests in shown_after(budget)))
    rows = [
        (name, one.spaces, *one.at.values(), _count_text(one.tests_to_near, budget))
        for name, one in figures.items()
    ]
    title = (
        "mean fraction of the optimum after so many tests [95 % bootstrap interval]; median tests "
        "to come within 5 % of it"
    )
    show((*head, "tests to near"), rows, title)


def _count_text(tests: float, budget: int) -> str:
    """Format a number of tests; show infinity as more than the budget."""
    return f">{budget}" if math.isinf(tests) else f"{tests:g}"


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
