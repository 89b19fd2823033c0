"""Print a comparison of searches as tables, write it as CSV, and draw it."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
import numpy as np

from benchmarks.frame import show
from benchmarks.search_figures import Array, Overall, Searches, shown_after

Found = Mapping[str, Mapping[str, Searches]]
"""Searches by technique and space."""

_TICKS = (1, 5, 10, 25, 50, 100, 200, 400)
_COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#7f7f7f")
MOST_SHOWN = len(_COLOURS)


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


def draw(path: Path, found: Found, techniques: Sequence[str]) -> None:
    """Draw at most seven techniques, the first one on top.

    The line is the mean over the spaces of the median over the searches; the band has the means of
    the quartiles.
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot  # only now, with the backend chosen

    figure, panel = pyplot.subplots(layout="constrained")
    shown = list(zip(techniques, _COLOURS, strict=False))
    for technique, colour in reversed(shown):
        quartiles = [_quartiles(searches) for searches in found[technique].values()]
        low, median, high = np.mean(quartiles, axis=0)
        tests = np.arange(1, len(median) + 1)
        panel.plot(tests, median, color=colour, label=technique)
        panel.fill_between(tests, low, high, color=colour, alpha=0.15, linewidth=0)
    panel.set(xlabel="tests", ylabel="fraction of the optimum", xscale="log", ylim=(0.4, 1.01))
    panel.set_xticks(_TICKS, labels=map(str, _TICKS))
    panel.minorticks_off()
    panel.grid(alpha=0.3)
    panel.legend(reverse=True, loc="lower right")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _quartiles(searches: Searches) -> Array:
    fractions = searches.optimum_s / searches.best_s
    quartiles: Array = np.quantile(fractions, [0.25, 0.5, 0.75], axis=0)
    return quartiles
