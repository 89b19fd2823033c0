"""Settings that several trees allow at once: under 150 W and under 10 ms."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Flags
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.starchart.boxes import Region
from harness.models.starchart.growing import Tree, TreeNode

if TYPE_CHECKING:
    import pandas as pd


def settings_below(limits: Sequence[tuple[Tree, float]]) -> pd.DataFrame:
    """Find the regions for which each tree predicts no more than its limit, in the unit of its
    target: the leaves that do, intersected with those of the other trees.

    A row a region, sorted by the first tree's prediction: `box`, the region; the prediction of each
    tree in a column of its target's name; `count` of the first tree's samples that lie in it; and
    `met`, how many of these keep all limits themselves (missing unless its table has all targets).
    A region with the count 0 was not sampled: its predictions are guesses.

    Raises UsageError if two trees have the same target, or not the same parameters.
    """
    import pandas as pd

    trees = [tree for tree, _ in limits]
    _check(trees)
    names = [str(tree.target) for tree in trees]
    samples = trees[0].samples
    kept = _kept(limits, samples)
    inside: dict[int, Flags] = {}
    rows = []
    for box, nodes in _met(limits):
        for node in nodes:
            if id(node) not in inside:
                inside[id(node)] = node.box.holds(samples)
        here = np.logical_and.reduce([inside[id(node)] for node in nodes])
        means = dict(zip(names, (node.mean for node in nodes), strict=True))
        met = None if kept is None else int((here & kept).sum())
        rows.append({"box": box, **means, "count": int(here.sum()), "met": met})
    columns = ["box", *names, "count", "met"]
    table: pd.DataFrame = pd.DataFrame(rows, columns=columns).sort_values(
        names, kind="stable", ignore_index=True
    )
    return table


def count_below(limits: Sequence[tuple[Tree, float]]) -> int | None:
    """Count the first tree's samples that keep all limits themselves; None if its table lacks a
    target."""
    kept = _kept(limits, limits[0][0].samples)
    return None if kept is None else int(kept.sum())


def _met(limits: Sequence[tuple[Tree, float]]) -> list[tuple[Region, tuple[TreeNode, ...]]]:
    """Find the regions, each with the leaf of every tree that it lies in."""
    known: dict[str, dict[Value, None]] = {}
    for axis in (axis for tree, _ in limits for axis in tree.axes):
        known.setdefault(axis.name, {}).update(dict.fromkeys(axis.values))
    found: list[tuple[Region, tuple[TreeNode, ...]]] = [(Region(), ())]
    for tree, limit in limits:
        allowed = [leaf for leaf in tree.root.leaves() if leaf.mean <= limit]
        pairs = _overlapping([box for box, _ in found], [leaf.box for leaf in allowed], known)
        found = [
            (both, (*found[one][1], allowed[other]))
            for one, other in pairs
            if not (both := found[one][0].both(allowed[other].box)).is_empty
        ]
    return found


def _overlapping(
    boxes: Sequence[Region], others: Sequence[Region], known: Mapping[str, Iterable[Value]]
) -> Iterable[tuple[int, int]]:
    """Return the index pairs of regions that share a known value of each parameter: far fewer than
    all pairs."""
    import pandas as pd

    overlap = np.ones((len(boxes), len(others)), dtype=bool)
    for name, values in known.items():
        column = pd.Series(list(values), dtype=object)
        one, other = (
            np.array([_part_holds(box, name, column) for box in both], dtype=np.float32)
            for both in (boxes, others)
        )
        overlap &= one.reshape(-1, len(column)) @ other.reshape(-1, len(column)).T > 0
    first, second = np.nonzero(overlap)
    return zip(first.tolist(), second.tolist(), strict=True)


def _part_holds(box: Region, name: str, column: pd.Series[Any]) -> Flags:
    part = box.parts.get(name)
    return np.ones(len(column), dtype=bool) if part is None else part.holds(column)


def _check(trees: Sequence[Tree]) -> None:
    if not trees:
        raise UsageError("name one tree or more, each with its limit")
    names = [str(tree.target) for tree in trees]
    if len(set(names)) < len(names):
        raise UsageError(f"each tree needs a target of its own, but there are {', '.join(names)}")
    first = {axis.name: axis.is_number for axis in trees[0].axes}
    for tree in trees[1:]:
        other = {axis.name: axis.is_number for axis in tree.axes}
        if first != other:
            raise UsageError(
                f"the trees of {names[0]} and {tree.target} must have the same parameters, but got "
                f"{', '.join(first)} and {', '.join(other)}"
            )


def _kept(limits: Sequence[tuple[Tree, float]], samples: pd.DataFrame) -> np.ndarray | None:
    """Say which samples keep all limits themselves; None if a target is missing."""
    kept = np.ones(len(samples), dtype=bool)
    for tree, limit in limits:
        if not {tree.target.column, *tree.target.per} <= set(samples.columns):
            return None
        kept &= tree.target.shown(tree.target.of(samples)) <= limit
    return kept
