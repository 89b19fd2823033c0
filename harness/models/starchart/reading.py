"""What a tree says: the importance of parameters, its regions as text and as a picture, and the
settings that several trees allow at once."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.constraints.expression import Expression
from harness.core.arrays import Flags
from harness.core.errors import ExpressionError, UsageError
from harness.models.columns import must_have
from harness.models.starchart.regions import Region
from harness.models.starchart.tree import Tree, TreeNode, grow

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.figure import Figure

_FEWEST_SAMPLES = 2
_NARROW, _BROAD = 1.3, 2.4  # inches a leaf of a picture
_LETTER = 0.08  # inches a letter of a condition


# ------------------------------------------------------------------------- importance


def importance(tree: Tree, inside: str | None = None) -> pd.Series[float]:
    """Return for each parameter the share of the squared error that the splits on it remove,
    largest first; the tree does not explain the rest up to 1.

    `inside` is a part of the space, such as `tpp >= 4 and ppb <= 128`: a tree is grown on the
    samples in it alone, with the same threshold or alpha, and the shares are of the squared error
    there.

    Raises UsageError for a condition that cannot be computed or holds for too few samples.
    """
    import pandas as pd

    names = [axis.name for axis in tree.axes]
    if inside is not None:
        rows = tree.samples[rows_inside(tree.samples, inside)]
        tree = grow(rows, tree.target, names, tree.growth)
    shares = dict.fromkeys(names, 0.0)
    for node in tree.root.nodes():
        if node.sides:
            shares[node.parameter] += node.gain
    importance_of: pd.Series[float] = pd.Series(shares, name="importance")
    return importance_of.sort_values(ascending=False, kind="stable")


def rows_inside(table: pd.DataFrame, inside: str) -> Flags:
    """Say which samples lie in a part of the space.

    Raises UsageError for a condition that cannot be computed or holds for too few samples.
    """
    try:
        condition = Expression(inside)
        must_have(table, condition.names)
        rows = table[sorted(condition.names)].to_dict("records")
        mask = np.array([bool(condition.holds(row)) for row in rows], dtype=bool)
    except ExpressionError as error:
        raise UsageError(str(error)) from None
    if mask.sum() < _FEWEST_SAMPLES:
        raise UsageError(
            f"`{inside}` holds for {mask.sum()} of {len(mask)} samples; {_FEWEST_SAMPLES} or more "
            "are needed"
        )
    return mask


# ------------------------------------------------------------------------- text


def describe(tree: Tree, depth: int | None = None) -> Iterator[str]:
    """Render the tree as lines, down to `depth` levels of splits: each part with the mean, the
    maximum, the number and the share of its samples, each split with the share of the root's
    squared error that it removes. The first split removes most."""
    kind = "geometric mean" if tree.target.log else "mean"
    yield (
        f"{tree.target}: {kind} (maximum; samples, share of all; error that a split removes); "
        f"{len(list(tree.root.leaves()))} leaves, {tree.growth}"
    )
    if tree.left_out:
        yield f"({tree.left_out} samples without {tree.target.column} are left out)"
    yield f"all: {_described(tree.root, tree.root.count)}"
    yield from _lines(tree.root, tree.root.count, "    ", math.inf if depth is None else depth)


def _lines(node: TreeNode, total: int, indent: str, depth: float) -> Iterator[str]:
    if node.sides and depth < 1:
        yield f"{indent}... {len(list(node.leaves()))} leaves"
        return
    for side in node.sides:
        yield f"{indent}{side.box.parts[node.parameter]}: {_described(side, total)}"
        yield from _lines(side, total, indent + "    ", depth - 1)


def _described(node: TreeNode, total: int) -> str:
    removed = f"; split on {node.split}" if node.sides else ""
    samples = f"{node.count}, {node.count / total:.0%}"
    return f"{node.mean:.4g} (max {node.maximum:.4g}; {samples}{removed})"


# ------------------------------------------------------------------------- pictures


def draw(tree: Tree, depth: int = 4, paper: str = "white") -> Figure:
    """Draw the first `depth` levels of splits; `paper` is the colour behind the text."""
    from matplotlib.figure import Figure  # here: it takes half a second to load

    figure = Figure()
    axes: Any = figure.add_axes((0, 0, 1, 0.92))
    axes.set_axis_off()
    figure.suptitle(
        f"{tree.target}: mean (samples), share of the squared error of each split", wrap=True
    )
    write = partial(axes.text, ha="center", va="center")
    leaves, depths, letters = itertools.count(), [0], [0]

    def place(node: TreeNode, here: int) -> float:
        """Draw a node halfway between its sides; return its place, in leaves from the left."""
        depths.append(here)
        sides = node.sides if here < depth else ()
        places = [place(side, here + 1) for side in sides]
        x = sum(places) / 2 if places else float(next(leaves))
        for side, there in zip(sides, places, strict=True):
            condition = str(side.box.parts[node.parameter])
            letters.append(len(condition))
            axes.plot([x, there], [-here, -here - 1], color="0.6", zorder=1)
            frame = {"boxstyle": "square,pad=0.1", "facecolor": paper, "edgecolor": "none"}
            middle = (x + 2 * there) / 3, -(here + 2 * (here + 1)) / 3
            write(*middle, condition, fontsize=7, zorder=2, bbox=frame)
        split = f"\n{node.split}" if sides else ""
        frame = {"boxstyle": "round", "facecolor": paper, "edgecolor": "0.4"}
        text = f"{node.mean:.3g}\n({node.count}){split}"
        write(x, -here, text, fontsize=8, zorder=3, bbox=frame)
        return x

    place(tree.root, 0)
    width, height = next(leaves), max(depths) + 1
    leaf = min(max(_NARROW, _LETTER * max(letters)), _BROAD)
    figure.set_size_inches(1 + leaf * width, 1 + 1.2 * height)
    axes.set_xlim(-0.6, width - 0.4)
    axes.set_ylim(0.4 - height, 0.4)
    return figure


# ------------------------------------------------------------------------- several trees


def settings_below(limits: Sequence[tuple[Tree, float]]) -> pd.DataFrame:
    """Find the regions for which each tree predicts no more than its limit, in the unit of its
    target: the leaves that do, intersected with those of the other trees.

    A row a region, sorted by the first tree's prediction: `box`, the region; the prediction of each
    tree in a column of its target's name; `count` of the samples that lie in it; and `met`, how
    many of these keep all limits themselves. A region with the count 0 was not sampled: its
    predictions are guesses.

    Raises UsageError if two trees have the same target, or not the same samples.
    """
    import pandas as pd

    trees = [tree for tree, _ in limits]
    names = [str(tree.target) for tree in trees]
    if len(set(names)) < len(names):
        raise UsageError(f"each tree needs a target of its own, but there are {', '.join(names)}")
    samples, axes = trees[0].samples, trees[0].axes
    if any(tree.axes != axes or not tree.samples.index.equals(samples.index) for tree in trees):
        raise UsageError(f"the trees of {' and '.join(names)} must have the same samples and axes")
    within = np.logical_and.reduce([tree.within(limit) for tree, limit in limits])
    regions: list[tuple[Region, tuple[TreeNode, ...]]] = [(Region(), ())]
    for tree, limit in limits:
        allowed = [leaf for leaf in tree.root.leaves() if leaf.mean <= limit]
        pairs = [(box.both(leaf.box), nodes, leaf) for box, nodes in regions for leaf in allowed]
        regions = [(box, (*nodes, leaf)) for box, nodes, leaf in pairs if not box.is_empty]
    codes = {axis.name: axis.codes(samples) for axis in axes}
    rows = []
    for box, nodes in regions:
        here = np.ones(len(samples), dtype=bool)
        for name, part in box.parts.items():
            here &= part.mask[codes[name]]
        means = dict(zip(names, (node.mean for node in nodes), strict=True))
        rows.append({"box": box, **means, "count": here.sum(), "met": (here & within).sum()})
    table = pd.DataFrame(rows, columns=["box", *names, "count", "met"])
    ordered: pd.DataFrame = table.sort_values(names, kind="stable", ignore_index=True)
    return ordered
