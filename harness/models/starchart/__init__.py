"""Starchart: trees over parameters and inputs, of time or another measured quantity.

Jia, Shaw, Martonosi, "Starchart: Hardware and Software Optimization Using Recursive Partitioning
Regression Trees", PACT 2013. All functions take and return pandas tables with a row a sample:

    tree = grow(table, "time_s", ["BLOCK", "UNROLL", "m", "n"])
    print(*describe(tree), sep="\\n")
    [str(leaf.box) for leaf in tree.root.leaves()]
    importance(tree), importance(tree, "BLOCK >= 256")
    settings_below([(tree, 0.010), (grow(table, "slowdown", ["BLOCK", "UNROLL", "m", "n"]), 1.5)])
"""

from harness.models.starchart.reading import describe, draw, importance, settings_below
from harness.models.starchart.regions import Axis, Region
from harness.models.starchart.tree import Growth, Tree, TreeNode, TreeTarget, grow
