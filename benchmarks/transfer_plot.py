"""Draw a transfer between inputs: a column of two panels for each data set."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks.transfer_figures import TAUGHT, Group, Tuned, groups, mean

_PANEL = (4.2, 2.9)  # inches
_LEGEND = 0.5
_COLOURS = {"alone": "#7f7f7f", "taught": "#d62728"}
_TITLE_WIDTH = 44


def draw(path: Path, found: Mapping[str, Mapping[str, Tuned]]) -> None:
    """Draw the mean tests to near by ordinal of the input, with the 95 % interval (above), and the
    mean fraction of the optimum after each test for the later groups of inputs (below)."""
    matplotlib.use("Agg")
    from matplotlib import pyplot  # only now, with the backend chosen

    size = (len(found) * _PANEL[0], 2 * _PANEL[1] + _LEGEND)
    figure, grid = pyplot.subplots(2, len(found), figsize=size, squeeze=False, layout="constrained")
    for (name, compared), above, below in zip(found.items(), *grid, strict=True):
        above.set_title(textwrap.fill(name, _TITLE_WIDTH), fontsize=9)
        for search, tuned in compared.items():
            _by_ordinal(above, search, tuned)
        _courses(below, compared)
    handles, labels = grid[0][0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=9)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _by_ordinal(panel: Any, search: str, tuned: Tuned) -> None:
    parts = groups(tuned.inputs)
    middles = [(part.first * part.last) ** 0.5 for part in parts]
    means = [mean(tuned.of(part).tests_to_near) for part in parts]
    ends = [[m.value - m.low for m in means], [m.high - m.value for m in means]]
    values = [m.value for m in means]
    panel.errorbar(
        middles, values, ends, color=_COLOURS[search], label=search, marker="o", capsize=3
    )
    panel.set_xscale("log")
    panel.set_xticks(middles, labels=[str(part) for part in parts], fontsize=8)
    panel.minorticks_off()
    panel.set_xlabel("input", fontsize=8)
    panel.set_ylabel("tests to come within 5 %", fontsize=8)
    panel.set_ylim(bottom=0)
    panel.grid(alpha=0.3)


def _courses(panel: Any, compared: Mapping[str, Tuned]) -> None:
    """Draw the first and the last group with transfer, and the last group alone."""
    for search, tuned in compared.items():
        parts = groups(tuned.inputs)
        shown = [parts[-1]] if search != TAUGHT else list(dict.fromkeys([*parts[1:2], parts[-1]]))
        for part in shown:
            _course(panel, search, tuned, part, "-" if part == parts[-1] else "--")
    panel.set_xlabel("tests", fontsize=8)
    panel.set_ylabel("fraction of the optimum", fontsize=8)
    panel.set_xscale("log")
    panel.set_ylim(top=1.01)
    panel.grid(alpha=0.3)
    panel.legend(fontsize=7, loc="lower right")


def _course(panel: Any, search: str, tuned: Tuned, part: Group, style: str) -> None:
    fractions = (1 / tuned.of(part).slowdowns).mean(axis=(0, 1))
    tests = np.arange(1, tuned.budget + 1)
    panel.plot(
        tests, fractions, style, color=_COLOURS[search], label=f"{search}, input {part}", marker="."
    )
