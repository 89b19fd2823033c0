"""Describe a tree as text and as a table."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from operator import itemgetter
from typing import TYPE_CHECKING

from harness.models.starchart.growing import Tree, TreeNode

if TYPE_CHECKING:
    import pandas as pd


def leaves(tree: Tree) -> pd.DataFrame:
    """Return the boxes that the tree parts the space into, the least mean first.

    Columns: `box`, `count`, `share` of all samples, `mean` and `maximum` in the target's unit, and
    `deviation`, the standard deviation in it (of the logarithms, where the target has `log`).
    """
    import pandas as pd

    rows = [
        (n.box, n.count, n.count / tree.root.count, n.mean, n.maximum, math.sqrt(n.sse / n.count))
        for n in tree.root.leaves()
    ]
    columns = ["box", "count", "share", "mean", "maximum", "deviation"]
    table: pd.DataFrame = pd.DataFrame(sorted(rows, key=itemgetter(3)), columns=columns)
    return table


def describe(tree: Tree, depth: int | None = None) -> Iterator[str]:
    """Render the tree as lines, down to `depth` levels of splits: each part with the mean, the
    maximum, the number and the share of its samples, each split with the share of the root's
    squared error that it removes. The first split removes most."""
    count = sum(1 for _ in tree.root.leaves())
    kind = "geometric mean" if tree.target.log else "mean"
    yield (
        f"{tree.target}: {kind} (maximum; samples, share of all; error that a split removes); "
        f"{count} leaves, no split removes less than {tree.threshold:.2g}"
    )
    if tree.left_out:
        yield f"({tree.left_out} samples without {tree.target.column} are left out)"
    count = tree.root.count
    yield f"all: {_part(tree.root, count)}"
    yield from _lines(tree.root, count, "    ", math.inf if depth is None else depth)


def _lines(node: TreeNode, total: int, indent: str, depth: float) -> Iterator[str]:
    split = node.split
    if split is None:
        return
    if depth < 1:
        yield f"{indent}... {sum(1 for _ in node.leaves())} leaves"
        return
    for side in (split.low, split.high):
        yield f"{indent}{split.condition(side)}: {_part(side, total)}"
        yield from _lines(side, total, indent + "    ", depth - 1)


def percent(share: float) -> str:
    """Render a share with three significant digits and no exponent: `92.6%`, `0.00091%`."""
    rounded = Decimal(f"{100 * share:.3g}").normalize()
    return f"{rounded:f}%"


def _part(node: TreeNode, total: int) -> str:
    split = node.split
    removed = f"; split on {split.parameter}: {percent(split.gain)}" if split else ""
    samples = f"{node.count}, {node.count / total:.0%}"
    return f"{node.mean:.4g} (max {node.maximum:.4g}; {samples}{removed})"
