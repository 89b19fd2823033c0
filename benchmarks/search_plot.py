"""Draw the courses of searches: a panel for each space, and one over all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

from benchmarks.search_figures import Array, Searches, fractions_of

_COLUMNS = 4
_PANEL = (3.6, 2.7)  # inches
_LEGEND = 0.5
_TICKS = (1, 5, 10, 25, 50, 100, 200, 400)
_COLOURS = ("#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf", "#7f7f7f")
MOST_SHOWN = len(_COLOURS)


def draw(
    path: Path, found: Mapping[str, Mapping[str, Searches]], spaces: Sequence[str], shown: list[str]
) -> None:
    """Draw at most seven techniques: the median over the searches with a band of quartiles.

    The panel over all spaces has the means of these. The first technique is on top.
    """
    matplotlib.use("Agg")
    from matplotlib import pyplot  # only now, with the backend chosen

    titles = [*([None] if len(spaces) > 1 else []), *spaces]
    columns = min(_COLUMNS, len(titles))
    rows = math.ceil(len(titles) / columns)
    size = (columns * _PANEL[0], rows * _PANEL[1] + _LEGEND)
    figure, grid = pyplot.subplots(rows, columns, figsize=size, squeeze=False, layout="constrained")
    panels = list(grid.flat)
    for panel, space in zip(panels, titles, strict=False):
        _prepare(panel, space or "mean over the spaces")
        for technique, colour in reversed(list(zip(shown, _COLOURS, strict=False))):
            chosen = [s for name, s in found[technique].items() if space in (None, name)]
            if chosen:
                _curve(panel, np.mean(list(map(_quartiles, chosen)), axis=0), technique, colour)
    for panel in panels[len(titles) :]:
        panel.set_axis_off()
    figure.supylabel("fraction of the optimum", fontsize=10)
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(
        handles[::-1], labels[::-1], loc="outside lower center", ncols=columns, fontsize=9
    )
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def _prepare(panel: Any, title: str) -> None:
    panel.set_title(title, fontsize=9)
    panel.set_xlabel("tests", fontsize=8)
    panel.set_xscale("log")
    panel.set_xticks(_TICKS, labels=map(str, _TICKS), fontsize=8)
    panel.minorticks_off()
    panel.set_ylim(0.4, 1.01)
    panel.grid(alpha=0.3)


def _quartiles(searches: Searches) -> Array:
    fractions = fractions_of(searches.best_s, searches.optimum_s)
    quartiles: Array = np.quantile(fractions, [0.25, 0.5, 0.75], axis=0)
    return quartiles


def _curve(panel: Any, quartiles: Array, label: str, colour: str) -> None:
    tests = np.arange(1, quartiles.shape[1] + 1)
    panel.plot(tests, quartiles[1], color=colour, label=label, linewidth=1.5)
    panel.fill_between(tests, quartiles[0], quartiles[2], color=colour, alpha=0.15, linewidth=0)
