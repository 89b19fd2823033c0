"""How much each parameter matters, in the whole space and in a part of it."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np

from harness.constraints.expression import Expression
from harness.core.arrays import Flags
from harness.core.errors import ExpressionError, UsageError
from harness.models.encoding.columns import must_have
from harness.models.starchart.boxes import Region
from harness.models.starchart.growing import Tree, grow

if TYPE_CHECKING:
    import pandas as pd

_FEWEST_SAMPLES = 2


def importance(tree: Tree, inside: Region | str | None = None) -> pd.Series[float]:
    """Return for each parameter the share of the squared error that the splits on it remove,
    largest first; the tree does not explain the rest up to 1.

    `inside` is a part of the space, a leaf's region or a condition such as `tpp >= 4 and ppb <=
    128`: a tree is grown on the samples in it alone, with the same relative threshold, and the
    shares are of the squared error there.

    Raises UsageError for a condition that cannot be computed or holds for too few samples.
    """
    import pandas as pd

    if inside is not None:
        tree = _grown_inside(tree, inside)
    shares = {axis.name: 0.0 for axis in tree.axes}
    for split in tree.root.splits():
        shares[split.parameter] += split.gain
    found: pd.Series[float] = pd.Series(shares, name="importance").sort_values(
        ascending=False, kind="stable"
    )
    return found


def _grown_inside(tree: Tree, inside: Region | str) -> Tree:
    mask = rows_inside(tree.samples, inside)
    growth = dataclasses.replace(tree.growth, relative_threshold=tree.threshold)
    names = [axis.name for axis in tree.axes]
    return grow(tree.samples[mask], tree.target, names, growth)


def rows_inside(table: pd.DataFrame, inside: Region | str) -> Flags:
    """Say which samples lie in a part of the space.

    Raises UsageError for a condition that cannot be computed or holds for too few samples.
    """
    mask = inside.holds(table) if isinstance(inside, Region) else _where(table, inside)
    if mask.sum() < _FEWEST_SAMPLES:
        raise UsageError(
            f"`{inside}` holds for {mask.sum()} of {len(mask)} samples; {_FEWEST_SAMPLES} or more "
            "are needed"
        )
    return mask


def _where(table: pd.DataFrame, condition: str) -> Flags:
    """Say for which samples a condition over their parameters holds."""
    try:
        expression = Expression(condition)
        must_have(table, expression.names)
        rows = table[sorted(expression.names)].to_dict("records")
        return np.array([bool(expression.holds(row)) for row in rows], dtype=bool)
    except ExpressionError as error:
        raise UsageError(str(error)) from None
