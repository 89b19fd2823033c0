"""Draw the report's plots as SVG with matplotlib.

Text, axes and ticks have the colour of the page's text, so that a plot suits a light and a dark
page alike; text stays text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array
from harness.models.starchart import Tree, draw
from harness.report.figures import HeatMap, SearchCurve
from harness.stats.timing import TimeRatio

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#010203"  # replaced by the page's text colour
_PAPER = "#fefdfc"  # replaced by its background
TREE_DEPTH = 3  # splits one below the other in the picture of a tree
_ACCENT, _FAINT = "#2f81f7", "#8b949e"
_WIDTH = 5.2  # inches of 72 points; a point is a pixel of a phone, and more on larger screens
_LEAST, _MOST = 0.9, 1.7  # pixels per point; a plot that would be smaller scrolls
_ROW = 0.24
_SHORT_LABEL, _LETTER = 24, 0.065  # letters that fit into _WIDTH; inches per letter beyond
_MOST_LINES = 60
_MOST_DOTS = 30
_FEW_COLUMNS, _COLUMN = 12, 0.18  # columns of the heat map that fit into _WIDTH; inches beyond
_MOST_TICKS = 14  # on a logarithmic axis, so that the labels of the nearest two do not overlap
_STEPS = (tuple(range(1, 10)), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,))  # ticks in a decade
_CAP = 8.0  # larger slowdowns have the same colour
_SETTINGS = {
    "svg.fonttype": "none",
    "text.parse_math": False,  # a value may have dollar signs
    "svg.hashsalt": "harness",
    "font.size": 9.5,
    "text.color": _INK,
    "axes.edgecolor": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "axes.spines.top": False,
    "axes.spines.right": False,
}


def _svg(figure: Figure) -> str:
    """Render as SVG that fills the page's width and stays large enough to read."""
    text = io.StringIO()
    # Tight: the label of an axis may be wider than the figure.
    figure.savefig(
        text, format="svg", transparent=True, metadata={"Date": None}, bbox_inches="tight"
    )
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_PAPER, "var(--paper)")
    points = float(svg.partition(' width="')[2].partition("pt")[0])
    style = f' style="min-width: {_LEAST * points:.0f}px; max-width: {_MOST * points:.0f}px"'
    without_height = re.sub(r' height="[^"]*"', "", svg, count=1)
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', rf"\1{style}", without_height, count=1)


def _drawn(height: float, paint: Any, width: float = _WIDTH) -> str:
    """Paint axes and render them, with the settings in force for both."""
    from matplotlib import rc_context  # here: it takes half a second to load
    from matplotlib.figure import Figure

    with rc_context(_SETTINGS):
        figure = Figure(figsize=(width, height), layout="constrained")
        paint(figure.subplots())
        return _svg(figure)


def _width_with(labels: Iterable[str]) -> float:
    """Return a width that leaves the axes as wide as they are next to long labels."""
    longest = max(map(len, labels), default=0)
    return _WIDTH + _LETTER * max(0, longest - _SHORT_LABEL)


# ------------------------------------------------------------------------------ the search


def best_by_tests(curves: Sequence[SearchCurve]) -> str:
    """Draw the curve of each input over its tests, and the median of all."""
    last = max(curve.tests[-1] for curve in curves)
    grid = np.unique(np.geomspace(1, last, 200).round().astype(int))
    reached = [_at(curve.tests, curve.reached, grid) for curve in curves]
    return _best_so_far(grid, np.array(reached), "tests per input")


def best_by_seconds(curves: Sequence[SearchCurve]) -> str:
    """Draw the curve of each input over the seconds of its search, and the median of all."""
    last = max(curve.seconds[-1] for curve in curves)
    grid = np.linspace(0, last or 1.0, 200)
    reached = [_at(curve.seconds, curve.reached, grid) for curve in curves]
    return _best_so_far(grid, np.array(reached), "seconds per input")


def _best_so_far(grid: Array, reached: Array, xlabel: str) -> str:
    """Draw a line for each row of `reached`, over the grid; few tests are marked by dots."""

    def paint(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        for row in reached[:: max(1, len(reached) // _MOST_LINES)] if len(reached) > 1 else ():
            axes.plot(grid, row, color=_FAINT, alpha=0.35, linewidth=0.8, drawstyle="steps-post")
        axes.plot(
            grid,
            np.median(reached, axis=0),
            color=_ACCENT,
            drawstyle="steps-post",
            linewidth=2,
            marker="o" if len(grid) <= _MOST_DOTS else "",
            markersize=4,
            clip_on=False,
        )
        axes.set(xlabel=xlabel, ylabel="fraction of the best", ylim=(0, 1.03))
        margin = 0.5 * (grid[1] - grid[0]) if len(grid) > 1 else 0.5
        axes.set_xlim(grid[0] - margin, grid[-1] + margin)
        axes.xaxis.set_major_locator(MaxNLocator(integer=grid.dtype.kind == "i"))

    return _drawn(2.8, paint)


def _at(ends: Sequence[float], reached: Sequence[float], grid: Array) -> Array:
    index = np.searchsorted(np.array(ends), grid, side="right") - 1
    at: Array = np.where(index >= 0, np.array(reached)[np.maximum(index, 0)], 0.0)
    return at


def _plain_ticks(axis: Any) -> None:
    """Put plain numbers on a logarithmic axis, as many as fit."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    low, high = axis.get_view_interval()
    span = math.log(high / max(low, 1e-300))
    room = span / _MOST_TICKS
    fitting = (s for s in _STEPS if all(math.log(b / a) >= room for a, b in pairwise((*s, 10))))
    is_narrow = span < math.log(2)  # nearly linear
    steps = next(fitting, _STEPS[-1])
    axis.set_major_locator(
        MaxNLocator(6, steps=[1, 2, 5, 10]) if is_narrow else LogLocator(subs=steps)
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


# ----------------------------------------------------------------------------- the winners


def gains(speed_ups: Mapping[str, TimeRatio]) -> str:
    """Draw the speed-up of each input with its interval, one a row."""
    labels, ratios = list(speed_ups), list(speed_ups.values())

    def paint(axes: Axes) -> None:
        heights = np.arange(len(labels))
        spans = [[r.value - r.low for r in ratios], [r.high - r.value for r in ratios]]
        values = np.array([ratio.value for ratio in ratios])
        axes.errorbar(values, heights, xerr=spans, fmt="o", color=_ACCENT, markersize=4, capsize=2)
        axes.set_yticks(heights, labels=labels)
        axes.set_ylim(len(labels) - 0.4, -0.6)
        axes.axvline(1, color=_FAINT, linewidth=0.8)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        percent = f"{100 * ratios[0].confidence:.6g} %"
        axes.set_xlabel(f"speed-up over the default, with {percent} confidence interval")

    return _drawn(0.7 + _ROW * len(labels), paint, _width_with(labels))


def boxes(samples: Mapping[str, Array]) -> str:
    """Draw a box of the samples of each label: quartiles, whiskers of 1.5 times their distance, and
    the samples beyond."""

    def paint(axes: Axes) -> None:
        axes.boxplot(
            list(samples.values()),
            tick_labels=list(samples),
            orientation="horizontal",
            flierprops={"markersize": 3, "markeredgecolor": _FAINT},
            medianprops={"color": _ACCENT},
            boxprops={"color": _INK},
            whiskerprops={"color": _INK},
            capprops={"color": _INK},
        )
        axes.invert_yaxis()
        axes.set_xlabel("time over the median of the default")

    return _drawn(0.7 + _ROW * len(samples), paint, _width_with(samples))


def roofline(shown: tuple[Array, Array]) -> str:
    """Draw the operations a second of each input over its operations a byte, under the roof."""
    flops, moved = shown[0].T
    most_flops, most_bytes = shown[1]

    def paint(axes: Axes) -> None:
        intensity, ridge = flops / moved, most_flops / most_bytes
        ends = [min(intensity.min(), ridge) / 2, ridge, max(intensity.max(), ridge) * 2]
        roof = np.minimum(np.array(ends) * most_bytes, most_flops)
        axes.plot(ends, roof, color=_FAINT, linewidth=1.2)
        axes.plot(intensity, flops, "o", color=_ACCENT, markersize=4, linestyle="none")
        axes.set(xscale="log", yscale="log", xlabel="operations per byte", ylabel="GFLOP/s")
        _plain_ticks(axes.xaxis)
        _plain_ticks(axes.yaxis)

    return _drawn(2.8, paint)


# --------------------------------------------------------------------------- across inputs


def inputs_by_candidates(heat_map: HeatMap) -> str:
    """Draw slowdowns as colours, the dispatcher's choices as rings and failures as crosses."""

    longest = max(map(len, heat_map.labels), default=0)

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LogNorm

        shown = np.minimum(heat_map.slowdowns, _CAP)
        image = axes.imshow(
            shown, aspect="auto", cmap="viridis_r", norm=LogNorm(1, _CAP), interpolation="nearest"
        )
        failed = np.argwhere(np.isinf(heat_map.slowdowns))
        axes.plot(failed[:, 1], failed[:, 0], "x", color="#d1242f", markersize=4, linestyle="none")
        rings = [(row, column) for row, column in enumerate(heat_map.chosen) if column >= 0]
        axes.plot(
            [column for _, column in rings],
            [row for row, _ in rings],
            "o",
            markerfacecolor="none",
            markeredgecolor="#d1242f",
            markersize=7,
            linestyle="none",
        )
        axes.set_yticks(range(len(heat_map.inputs)), labels=heat_map.inputs, fontsize=7)
        axes.set_xticks(
            range(len(heat_map.labels)),
            labels=heat_map.labels,
            rotation=90 if longest > 2 else 0,  # numbers stand upright
            fontsize=7,
        )
        bar = axes.figure.colorbar(image, ax=axes, label="slowdown", ticks=[1, 1.5, 2, 3, 5, _CAP])
        bar.ax.set_yticklabels(["1", "1.5", "2", "3", "5", f"{_CAP:g}+"])
        bar.ax.minorticks_off()

    width = _width_with(heat_map.inputs) + _COLUMN * max(0, len(heat_map.labels) - _FEW_COLUMNS)
    return _drawn(1.2 + _LETTER * longest + 0.2 * len(heat_map.inputs), paint, width)


def importances(shares: pd.Series) -> str:
    """Draw the importance of each parameter as a bar, the most important on top."""
    largest = shares[shares > 0].head(20)

    def paint(axes: Axes) -> None:
        axes.barh(range(len(largest)), largest.to_numpy(), color=_ACCENT)
        axes.set_yticks(range(len(largest)), labels=list(map(str, largest.index)))
        axes.invert_yaxis()
        axes.set_xlabel("share of the squared error that its splits remove")

    height = 0.8 + _ROW * max(1, len(largest))
    return _drawn(height, paint, _width_with(map(str, largest.index)))


def tree_picture(tree: Tree) -> str:
    """Draw the first splits of a Starchart tree; the text next to it explains the numbers."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        figure = draw(tree, TREE_DEPTH, _PAPER)
        figure.suptitle("")
        return _svg(figure)
