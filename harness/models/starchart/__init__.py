"""Starchart: trees over parameters and inputs, of time or another measured quantity.

Jia, Shaw, Martonosi, "Starchart: Hardware and Software Optimization Using Recursive Partitioning
Regression Trees", PACT 2013. All functions take and return pandas tables with a row a sample:

    tree = grow(table, "time_s", ["BLOCK", "UNROLL", "m", "n"])
    print(*describe(tree), sep="\\n")
    leaves(tree)
    importance(tree), importance(tree, "BLOCK >= 256")
    settings_below([(tree, 0.010), (grow(table, "slowdown", ["BLOCK", "UNROLL", "m", "n"]), 1.5)])
    grow(pool({"A100": a100, "W6600": w6600}), "time_s", ["platform", "BLOCK", "UNROLL"])
"""

from harness.models.starchart.axes import Axis, axes_of, pool
from harness.models.starchart.boxes import Interval, Region
from harness.models.starchart.drawing import draw, lay_out
from harness.models.starchart.growing import (
    Growth,
    Tree,
    TreeTarget,
    grow,
    growth_to_published_leaves,
    usable,
)
from harness.models.starchart.importance import importance, rows_inside
from harness.models.starchart.intersection import count_below, settings_below
from harness.models.starchart.judging import Accuracy, TableModel, cross_validate
from harness.models.starchart.text import describe, leaves

__all__ = [
    "Accuracy",
    "Axis",
    "Growth",
    "Interval",
    "Region",
    "TableModel",
    "Tree",
    "TreeTarget",
    "axes_of",
    "count_below",
    "cross_validate",
    "describe",
    "draw",
    "grow",
    "growth_to_published_leaves",
    "importance",
    "lay_out",
    "leaves",
    "pool",
    "rows_inside",
    "settings_below",
    "usable",
]
