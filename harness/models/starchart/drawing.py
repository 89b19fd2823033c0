"""Draw a tree: lay out its nodes, then make a figure of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from harness.models.starchart.growing import Tree, TreeNode
from harness.models.starchart.text import percent

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_NARROW, _BROAD = 1.3, 2.4  # inches a leaf
_LETTER = 0.08  # inches a letter of a condition


@dataclass(frozen=True)
class DrawnNode:
    """A node in the picture. `x` counts leaves from the left, `depth` splits from the root;
    `condition` leads here from the node at the index `parent`, None for the root. `text` has mean
    and count, and below them the parameter of the split."""

    x: float
    depth: int
    text: str
    condition: str
    parent: int | None
    mean: float
    count: int


def lay_out(tree: Tree, depth: int = 4) -> list[DrawnNode]:
    """Lay out the nodes of the tree's first `depth` levels of splits, the root first."""
    layout = _Layout(depth)
    layout.add(tree.root, 0, "", None)
    return [node for node in layout.nodes if node is not None]


class _Layout:
    """The nodes laid out so far; one whose children are not laid out yet is None."""

    def __init__(self, depth: int) -> None:
        self.nodes: list[DrawnNode | None] = []
        self._depth = depth
        self._leaves = 0

    def add(self, node: TreeNode, here: int, condition: str, parent: int | None) -> float:
        """Add a node after its parent and before its children; return its x, halfway between those
        of its children."""
        index = len(self.nodes)
        self.nodes.append(None)
        split = node.split if here < self._depth else None
        text = f"{node.mean:.3g}\n({node.count})"
        if split is None:
            x = float(self._leaves)
            self._leaves += 1
        else:
            text += f"\n{split.parameter}: {percent(split.gain)}"
            low, high = (
                self.add(side, here + 1, split.condition(side), index)
                for side in (split.low, split.high)
            )
            x = (low + high) / 2
        self.nodes[index] = DrawnNode(x, here, text, condition, parent, node.mean, node.count)
        return x


def draw(tree: Tree, depth: int = 4, paper: str = "white") -> Figure:
    """Draw the first `depth` levels of splits; `paper` is the colour behind the text."""
    from matplotlib.figure import Figure  # here: it takes half a second to load

    placed = lay_out(tree, depth)
    width = max(node.x for node in placed) + 1
    height = max(node.depth for node in placed) + 1
    longest = max(len(node.condition) for node in placed)
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
    for node in placed:
        if node.parent is not None:
            above = placed[node.parent]
            axes.plot([above.x, node.x], [-above.depth, -node.depth], color="0.6", zorder=1)
            x, y = (above.x + 2 * node.x) / 3, -(above.depth + 2 * node.depth) / 3
            frame = {"boxstyle": "square,pad=0.1", "facecolor": paper, "edgecolor": "none"}
            write(x, y, node.condition, fontsize=7, zorder=2, bbox=frame)
        frame = {"boxstyle": "round", "facecolor": paper, "edgecolor": "0.4"}
        write(node.x, -node.depth, node.text, fontsize=8, zorder=3, bbox=frame)
    return figure
