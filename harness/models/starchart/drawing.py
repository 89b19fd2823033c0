"""Draw a tree: lay out its nodes, then make a figure of them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from harness.models.starchart.tree import Tree, TreeNode

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROW, _BROAD = 1.3, 2.4  # inches a leaf
_LETTER = 0.08  # inches a letter of a condition


class _Place(NamedTuple):
    """A node in the picture. `x` counts leaves from the left, `depth` splits from the root;
    `condition` leads here from the node above."""

    x: float
    depth: int
    node: TreeNode
    condition: str
    below: tuple[_Place, ...]


def _lay_out(
    node: TreeNode, depth: int, most: int, leaves: Iterator[int], condition: str = ""
) -> Iterator[_Place]:
    """Lay out a node halfway between its sides, which come before it; `leaves` counts."""
    below: list[_Place] = []
    for side in node.sides if depth < most else ():
        text = str(side.box.parts[node.parameter])
        placed = list(_lay_out(side, depth + 1, most, leaves, text))
        yield from placed
        below.append(placed[-1])
    x = (below[0].x + below[1].x) / 2 if below else float(next(leaves))
    yield _Place(x, depth, node, condition, tuple(below))


def draw(tree: Tree, depth: int = 4, paper: str = "white") -> Figure:
    """Draw the first `depth` levels of splits; `paper` is the colour behind the text."""
    from matplotlib.figure import Figure  # here: it takes half a second to load

    places = list(_lay_out(tree.root, 0, depth, itertools.count()))
    width = max(place.x for place in places) + 1
    height = max(place.depth for place in places) + 1
    longest = max(len(place.condition) for place in places)
    leaf = min(max(_NARROW, _LETTER * longest), _BROAD)
    figure = Figure(figsize=(1 + leaf * width, 1 + 1.2 * height))
    axes: Any = figure.add_axes((0, 0, 1, 0.92))
    axes.set_axis_off()
    axes.set_xlim(-0.6, width - 0.4)
    axes.set_ylim(0.4 - height, 0.4)
    figure.suptitle(
        f"{tree.target}: mean (samples), share of the squared error of each split", wrap=True
    )
    write = partial(axes.text, ha="center", va="center")
    for place in places:
        for side in place.below:
            axes.plot([place.x, side.x], [-place.depth, -side.depth], color="0.6", zorder=1)
            x, y = (place.x + 2 * side.x) / 3, -(place.depth + 2 * side.depth) / 3
            frame = {"boxstyle": "square,pad=0.1", "facecolor": paper, "edgecolor": "none"}
            write(x, y, side.condition, fontsize=7, zorder=2, bbox=frame)
        text = f"{place.node.mean:.3g}\n({place.node.count})"
        if place.below:
            text += f"\n{place.node.split}"
        frame = {"boxstyle": "round", "facecolor": paper, "edgecolor": "0.4"}
        write(place.x, -place.depth, text, fontsize=8, zorder=3, bbox=frame)
    return figure
