"""The report's pictures: typed data in, SVG out, by matplotlib.

Text, axes and ticks are drawn in the colour of the page's text, so that a picture suits a light
and a dark page alike; text stays text.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.analysis.effects import Effect
from harness.models.starchart import Tree, draw
from harness.report.figures import Array, Boxes, Course, Distribution, HeatMap, SpeedUp
from harness.stats import Estimate

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_INK = "#010203"  # stands for the page's colour of text
_PAPER = "#fefdfc"  # stands for its background
_ACCENT, _SECOND, _FAINT = "#2f81f7", "#e8833a", "#8b949e"
_WIDTH = 5.2  # inches of 72 points; a point is a pixel of a phone, and more on larger screens
_LEAST, _MOST = 0.9, 1.7  # pixels a point: a picture that would be smaller is scrolled
_ROW = 0.24
_SHORT_LABEL, _LETTER = 24, 0.065  # letters that _WIDTH has room for; inches of each beyond
_MOST_LINES = 60
_MOST_DOTS = 30
_FEW_COLUMNS, _COLUMN = 12, 0.18  # of the heat map that _WIDTH has room for; inches of each beyond
_MOST_TICKS = 14  # of an axis of logarithms, where the nearest of them have room for their labels
_STEPS = (tuple(range(1, 10)), (1, 2, 3, 5), (1, 2, 5), (1, 3), (1,))  # ticks of a decade
_CAP = 8.0  # slowdowns above are shown as this
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


def _figure(height: float, width: float = _WIDTH) -> tuple[Figure, Axes]:
    from matplotlib.figure import Figure  # here: it takes half a second to load

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure, figure.subplots()


def _svg(figure: Figure) -> str:
    """The picture as wide as the page lets it be, and no smaller than its text can be read."""
    from matplotlib import rc_context

    text = io.StringIO()
    with rc_context(_SETTINGS):
        figure.savefig(text, format="svg", transparent=True, metadata={"Date": None})
    svg = text.getvalue()
    svg = svg[svg.index("<svg") :].replace(_INK, "currentColor").replace(_PAPER, "var(--paper)")
    points = 72 * figure.get_figwidth()
    style = f' style="min-width: {_LEAST * points:.0f}px; max-width: {_MOST * points:.0f}px"'
    without_height = re.sub(r' height="[^"]*"', "", svg, count=1)
    return re.sub(r'(<svg[^>]*?) width="[^"]*"', rf"\1{style}", without_height, count=1)


def _drawn(height: float, paint: Any, width: float = _WIDTH) -> str:
    """Settings count when artists are made and when they are drawn."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        figure, axes = _figure(height, width)
        paint(axes)
        return _svg(figure)


def _width_beside(labels: Iterable[str]) -> float:
    """Room for labels on the left, beside axes that stay as wide as they are."""
    longest = max(map(len, labels), default=0)
    return _WIDTH + _LETTER * max(0, longest - _SHORT_LABEL)


# ------------------------------------------------------------------------------ the search


def best_over_time(found: Sequence[Course]) -> str:
    """A line an input, and the median of all; of one input its own line. Few tests have dots."""

    def paint(axes: Axes) -> None:
        from matplotlib.ticker import MaxNLocator

        last = max(course.tests[-1] for course in found)
        grid = np.unique(np.geomspace(1, last, 200).round().astype(int))
        reached = np.array([_at(course, grid) for course in found])
        for row in reached[:: max(1, len(reached) // _MOST_LINES)] if len(found) > 1 else ():
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
        axes.set(xlabel="tests of an input", ylabel="fraction of its best", ylim=(0, 1.03))
        axes.set_xlim(0.5, last + 0.5)
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))

    return _drawn(2.8, paint)


def _at(course: Course, grid: Array) -> Array:
    place = np.searchsorted(np.array(course.tests), grid, side="right") - 1
    reached: Array = np.where(place >= 0, np.array(course.reached)[np.maximum(place, 0)], 0.0)
    return reached


def times(found: Distribution) -> str:
    """How many configurations are how much slower than the best."""

    def paint(axes: Axes) -> None:
        most = max(1.01, float(np.quantile(found.slowdowns, 0.995)))
        edges = np.geomspace(1, most, 50).tolist()
        axes.hist(np.minimum(found.slowdowns, most), edges, color=_ACCENT)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        axes.set(xlabel="slowdown against the input's best", ylabel="configurations")

    return _drawn(2.4, paint)


def _plain_ticks(axis: Any) -> None:
    """Plain numbers on an axis of logarithms, as many as there is room for."""
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    low, high = axis.get_view_interval()
    span = math.log(high / max(low, 1e-300))
    room = span / _MOST_TICKS
    fitting = (s for s in _STEPS if all(math.log(b / a) >= room for a, b in pairwise((*s, 10))))
    is_narrow = span < math.log(2)  # which is as good as linear
    steps = next(fitting, _STEPS[-1])
    axis.set_major_locator(
        MaxNLocator(6, steps=[1, 2, 5, 10]) if is_narrow else LogLocator(subs=steps)
    )
    axis.set_minor_locator(NullLocator())
    axis.set_major_formatter(StrMethodFormatter("{x:g}"))


# ----------------------------------------------------------------------------- the winners


def tuned_against_baselines(found: Sequence[Boxes]) -> str:
    """Boxes over the quartiles with whiskers to 1.5 times their distance."""

    def paint(axes: Axes) -> None:
        place, labels, places = 0.0, list[str](), list[float]()
        for one in found:
            for number, box in enumerate(one.boxes):
                labels.append(f"{one.label}   {box.role}" if number == 0 else box.role)
                places.append(place)
                colour = _ACCENT if box.role == "tuned" else _SECOND
                axes.boxplot(
                    [box.ratios],
                    positions=[place],
                    orientation="horizontal",
                    widths=0.7,
                    patch_artist=True,
                    boxprops={"facecolor": colour, "edgecolor": _INK, "linewidth": 0.6},
                    medianprops={"color": _INK},
                    whiskerprops={"color": _INK, "linewidth": 0.6},
                    capprops={"color": _INK, "linewidth": 0.6},
                    flierprops={"marker": ".", "markersize": 3, "markeredgecolor": _FAINT},
                )
                place += 1
            place += 0.6
        axes.set_yticks(places, labels=labels)
        axes.set_ylim(place - 0.2, -0.8)
        axes.axvline(1, color=_FAINT, linewidth=0.6)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        axes.set_xlabel("time over the default's median; tuned in blue")

    rows = sum(len(one.boxes) + 0.6 for one in found)
    labels = (f"{one.label}   {box.role}" for one in found for box in one.boxes[:1])
    return _drawn(0.8 + _ROW * rows, paint, _width_beside(labels))


def gains(found: Sequence[SpeedUp]) -> str:
    """Draw the speed-up of each input with its interval."""
    return _estimates(
        [(one.label, one.ratio) for one in found],
        "speed-up over the default, with its 95 % interval",
    )


def _estimates(rows: Sequence[tuple[str, Estimate]], label: str) -> str:
    """Draw labelled ratios with their intervals, one a row; `label` names the axis."""
    labels, ratios = [name for name, _ in rows], [ratio for _, ratio in rows]

    def paint(axes: Axes) -> None:
        places = np.arange(len(rows))
        spans = [[r.value - r.low for r in ratios], [r.high - r.value for r in ratios]]
        values = np.array([ratio.value for ratio in ratios])
        axes.errorbar(values, places, xerr=spans, fmt="o", color=_ACCENT, markersize=4, capsize=2)
        axes.set_yticks(places, labels=labels)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.axvline(1, color=_FAINT, linewidth=0.8)
        axes.set_xscale("log")
        _plain_ticks(axes.xaxis)
        axes.set_xlabel(label)

    return _drawn(0.7 + _ROW * len(rows), paint, _width_beside(labels))


# --------------------------------------------------------------------------- across inputs


def inputs_by_candidates(found: HeatMap) -> str:
    """Slowdowns as colours; a ring is what the dispatcher chooses, a cross what failed."""

    def paint(axes: Axes) -> None:
        from matplotlib.colors import LogNorm

        shown = np.minimum(found.slowdowns, _CAP)
        image = axes.imshow(
            shown, aspect="auto", cmap="viridis_r", norm=LogNorm(1, _CAP), interpolation="nearest"
        )
        failed = np.argwhere(np.isinf(found.slowdowns))
        axes.plot(failed[:, 1], failed[:, 0], "x", color="#d1242f", markersize=4, linestyle="none")
        rings = [(row, column) for row, column in enumerate(found.chosen) if column >= 0]
        axes.plot(
            [column for _, column in rings],
            [row for row, _ in rings],
            "o",
            markerfacecolor="none",
            markeredgecolor="#d1242f",
            markersize=7,
            linestyle="none",
        )
        axes.set_yticks(range(len(found.inputs)), labels=found.inputs, fontsize=7)
        axes.set_xticks(
            range(len(found.candidates)),
            labels=found.labels,
            rotation=90,
            fontsize=7,
        )
        bar = axes.figure.colorbar(image, ax=axes, label="slowdown", ticks=[1, 1.5, 2, 3, 5, _CAP])
        bar.ax.set_yticklabels(["1", "1.5", "2", "3", "5", f"{_CAP:g}+"])
        bar.ax.minorticks_off()

    width = _width_beside(found.inputs) + _COLUMN * max(0, len(found.labels) - _FEW_COLUMNS)
    longest = max(map(len, found.labels), default=0)
    return _drawn(1.2 + _LETTER * longest + 0.2 * len(found.inputs), paint, width)


def importances(shares: pd.Series) -> str:
    """Bars, the most important on top."""
    kept = shares[shares > 0].head(20)

    def paint(axes: Axes) -> None:
        axes.barh(range(len(kept)), kept.to_numpy(), color=_ACCENT)
        axes.set_yticks(range(len(kept)), labels=list(map(str, kept.index)))
        axes.invert_yaxis()
        axes.set_xlabel("share of the squared error that its splits take away")

    height = 0.8 + _ROW * max(1, len(kept))
    return _drawn(height, paint, _width_beside(map(str, kept.index)))


def effects(found: Sequence[Effect]) -> str:
    """Draw the ratio of times of each value with its interval."""
    return _estimates(
        [(one.label, one.ratio) for one in found],
        "time over that with the default's value, with its 95 % interval",
    )


def tree_picture(tree: Tree, depth: int = 3) -> str:
    """The first splits of a Starchart tree; what its numbers are stands in the text."""
    from matplotlib import rc_context

    with rc_context(_SETTINGS):
        figure = draw(tree, depth, _PAPER)
        figure.suptitle("")
        return _svg(figure)


def spreads(found: Array) -> str:
    """How much the samples of a measurement vary."""

    def paint(axes: Axes) -> None:
        percent = 100 * found
        most = max(0.1, float(np.quantile(percent, 0.99)))
        axes.hist(np.minimum(percent, most), np.linspace(0, most, 50).tolist(), color=_ACCENT)
        axes.axvline(float(np.median(percent)), color=_SECOND)
        axes.set(xlabel="standard deviation of a measurement's samples, % of their mean")
        axes.set_ylabel("measurements")

    return _drawn(2.2, paint)
