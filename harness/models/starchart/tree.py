"""Grow Starchart's tree of a table of samples: scikit-learn's, with the settings that make it so.

A tree splits where the sum of squared errors (SSE) falls most (Jia, Shaw, Martonosi, "Starchart",
PACT 2013, section 3). By default it is then pruned by minimal cost-complexity (Breiman et al.,
Classification and Regression Trees, 1984, chapter 3), and cross-validation chooses by how much. The
paper's own rule leaves a node whole where no split removes as much as a threshold.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.errors import UsageError
from harness.models.columns import is_number, must_have
from harness.models.folds import group_numbers, grouped_folds
from harness.models.regression import Regression
from harness.models.starchart.regions import Axis, AxisPart, Region

if TYPE_CHECKING:
    import pandas as pd

_ALPHAS = np.logspace(-1, -7, 25)
_FEWEST_ROWS = 2


# ------------------------------------------------------------------------- targets and rules


@dataclass(frozen=True)
class TreeTarget:
    """What a tree predicts: a column of seconds or another quantity, divided by the product of the
    columns `per` to compare inputs of several sizes. With `log`, the tree is grown on its
    logarithm, a leaf predicts the geometric mean, and errors count by their ratio."""

    column: str
    per: tuple[str, ...] = ()
    log: bool = False

    def of(self, table: pd.DataFrame) -> Array:
        """Compute the numbers that the tree is grown on."""
        values = table[self.column].to_numpy(dtype=np.float64) / self.size(table)
        return np.log(values) if self.log else values

    def shown(self, values: Array) -> Array:
        """Convert the mean of a node to the unit that people read."""
        return np.exp(values) if self.log else values

    def size(self, table: pd.DataFrame) -> Array:
        """Compute the product of the columns `per`."""
        sizes = [table[name].to_numpy(dtype=np.float64) for name in self.per]
        size: Array = np.prod(sizes, axis=0)
        return size

    def usable(self, table: pd.DataFrame, parameters: Sequence[str]) -> pd.DataFrame:
        """Return the rows that have a target.

        Raises UsageError for columns that are missing or cannot be used, and for too few rows.
        """
        if not parameters:
            raise UsageError("name one parameter or more to split on")
        must_have(table, [self.column, *self.per, *parameters])
        for name in (self.column, *self.per):
            if not is_number(table[name]):
                raise UsageError(f"column {name} must hold numbers, but holds words")
        if self.column in parameters:
            raise UsageError(f"{self.column} is the target: it cannot be a parameter too")
        rows: pd.DataFrame = table[np.isfinite(table[self.column].to_numpy(dtype=np.float64))]
        if len(rows) < _FEWEST_ROWS:
            raise UsageError(
                f"a tree needs {_FEWEST_ROWS} samples with a {self.column}; there are {len(rows)}"
            )
        for name in (*self.per, *([self.column] if self.log else [])):
            if not (rows[name] > 0).all():
                raise UsageError(f"column {name} must be above 0 in every row")
        return rows

    def __str__(self) -> str:
        if not self.per:
            return self.column
        size = " * ".join(self.per)
        return f"{self.column} / ({size})" if len(self.per) > 1 else f"{self.column} / {size}"


@dataclass(frozen=True)
class Growth:
    """How far a tree grows. With a `threshold`, the published rule: a split must lower the SSE by
    so much of the root's. Without, the tree is pruned where the SSE falls by less than `alpha` of
    the root's for each leaf more; where `alpha` is None too, cross-validation in `folds` folds
    chooses it, in which rows that agree in the column `groups` stay together."""

    threshold: float | None = None
    alpha: float | None = None
    folds: int = 10
    groups: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if self.threshold is not None and not self.threshold >= 0:
            raise UsageError(f"the threshold must be 0 or more, not {self.threshold}")

    def __str__(self) -> str:
        if self.threshold is not None:
            return f"no split removes less than {self.threshold:.2g}"
        return f"pruned where a leaf removes less than {self.alpha:.2g}"


# ------------------------------------------------------------------------- trees


@dataclass(frozen=True)
class TreeNode:
    """A region with its samples: their number, the mean of the target (with `log`, the geometric
    mean), its maximum, and the sum of squared errors around the mean. A node that is split has two
    `sides`; `gain` is the share of the root's SSE that this removes."""

    box: Region
    count: int
    mean: float
    maximum: float
    sse: float
    parameter: str = ""
    gain: float = 0.0
    sides: tuple[TreeNode, ...] = ()

    @property
    def split(self) -> str:
        """The parameter of the split, and its gain with three significant digits and no exponent:
        `tpp: 92.6%`."""
        return f"{self.parameter}: {Decimal(f'{100 * self.gain:.3g}').normalize():f}%"

    def nodes(self) -> Iterator[TreeNode]:
        """Iterate over this node and all below, parents first, then the low side."""
        left = [self]
        while left:
            node = left.pop()
            yield node
            left += node.sides[::-1]

    def leaves(self) -> Iterator[TreeNode]:
        """Iterate over the nodes that are not split."""
        return (node for node in self.nodes() if not node.sides)


@dataclass(frozen=True)
class Tree:
    """A partition of the space of parameters and inputs. `growth` has the threshold or the alpha
    that it was grown with; `samples` are the rows it was grown on; `left_out` counts those without
    a target, such as failures; `ranks` are of the values of each axis."""

    target: TreeTarget
    axes: tuple[Axis, ...]
    growth: Growth
    samples: pd.DataFrame = field(repr=False)
    left_out: int
    ranks: tuple[Array, ...] = field(repr=False)
    regression: Regression = field(repr=False)

    def predict(self, table: pd.DataFrame) -> pd.Series[float]:
        """Predict the target of each row, in its column's own unit.

        Raises UsageError for a missing column or a word that was not among the samples.
        """
        import pandas as pd

        must_have(table, [axis.name for axis in self.axes] + list(self.target.per))
        columns = _encoded(self.ranks, _codes(self.axes, table))
        predicted = self.target.shown(self.regression.means[self.regression.leaves(columns)])
        scaled = predicted * self.target.size(table)
        return pd.Series(scaled, index=table.index, name=self.target.column)

    def within(self, limit: float) -> Flags:
        """Say which samples are at most a limit themselves, in the unit that people read."""
        within: Flags = self.target.shown(self.target.of(self.samples)) <= limit
        return within

    @cached_property
    def root(self) -> TreeNode:
        """The node of all samples; in the arrays, children come after their parents."""
        fit, tree = self.regression, self.regression.nodes
        sides = np.column_stack([tree.low, tree.high]).tolist()
        inner = np.flatnonzero(tree.low >= 0).tolist()
        boxes = [Region()] * len(sides)
        for index in inner:
            axis, ranks = self.axes[tree.column[index]], self.ranks[tree.column[index]]
            is_low = ranks <= tree.threshold[index]
            for side, mask in zip(sides[index], (is_low, ~is_low), strict=True):
                boxes[side] = boxes[index].both(Region({axis.name: AxisPart(axis, mask)}))
        reached = fit.leaves(_encoded(self.ranks, _codes(self.axes, self.samples)))
        most = np.full(len(sides), -np.inf)
        np.maximum.at(most, reached, self.target.of(self.samples))
        for index in reversed(inner):
            most[index] = most[sides[index]].max()
        sse, means, maxima = (fit.sse, self.target.shown(fit.means), self.target.shown(most))
        nodes: dict[int, TreeNode] = {}
        for index in reversed(range(len(sides))):
            low, high = sides[index]
            split: tuple[str, float, tuple[TreeNode, ...]] = ("", 0.0, ())
            if low >= 0:
                gain = float((sse[index] - sse[low] - sse[high]) / sse[0])
                split = (self.axes[tree.column[index]].name, gain, (nodes[low], nodes[high]))
            count, error = int(fit.counts[index]), float(sse[index])
            mean, maximum = float(means[index]), float(maxima[index])
            nodes[index] = TreeNode(boxes[index], count, mean, maximum, error, *split)
        return nodes[0]


def grow(
    table: pd.DataFrame,
    target: TreeTarget | str,
    parameters: Sequence[str | Axis],
    growth: Growth | None = None,
) -> Tree:
    """Grow the tree of a table with a row a sample and columns of parameters, input features,
    numbers or words alike, and the target. Rows without a target are left out. Pass a parameter as
    an Axis of a larger table, if predictions are wanted for words that this table may lack.

    Raises UsageError for columns that are missing or cannot be used, and for too few rows.
    """
    growth = growth or Growth()
    target = TreeTarget(target) if isinstance(target, str) else target
    must_have(table, [growth.groups] if growth.groups else [])
    rows = target.usable(table, [p.name if isinstance(p, Axis) else p for p in parameters])
    axes = tuple(p if isinstance(p, Axis) else Axis.of(rows, p) for p in parameters)
    codes, values = _codes(axes, rows), target.of(rows)
    if growth.threshold is None and growth.alpha is None:
        groups = rows[growth.groups].tolist() if growth.groups else None
        alpha = _best_alpha(axes, codes, values, growth, group_numbers(len(rows), groups))
        growth = replace(growth, alpha=alpha)
    ranks, regression = _fit(axes, codes, values, growth)
    return Tree(target, axes, growth, rows, len(table) - len(rows), ranks, regression)


def _best_alpha(
    axes: Sequence[Axis], codes: Indices, values: Array, growth: Growth, groups: Indices
) -> float:
    """Choose the alpha with the least squared error on held-out rows; the largest of equally good
    ones makes the smallest tree. Each fold's full tree is grown once, and judged at all alphas."""
    errors = np.zeros(len(_ALPHAS))
    for fold in grouped_folds(groups, growth.folds, growth.seed):
        full = replace(growth, threshold=0.0)
        ranks, regression = _fit(axes, codes[fold.fit], values[fold.fit], full)
        reached = regression.leaves(_encoded(ranks, codes[fold.test]))
        predicted = regression.pruned_means(_ALPHAS)[reached]
        errors += np.square(predicted - values[fold.test][:, None]).sum(axis=0)
    return float(_ALPHAS[np.argmin(errors)])


def _fit(
    axes: Sequence[Axis], codes: Indices, values: Array, growth: Growth
) -> tuple[tuple[Array, ...], Regression]:
    ranks = tuple(axis.ranks(own, values) for axis, own in zip(axes, codes.T, strict=True))
    alpha = growth.alpha or 0.0 if growth.threshold is None else 0.0
    columns = _encoded(ranks, codes)
    return ranks, Regression.fit(columns, values, growth.threshold or 0.0, alpha, seed=growth.seed)


def _codes(axes: Sequence[Axis], table: pd.DataFrame) -> Indices:
    """Return the index of each value of a table on its axis, shape (rows, axes)."""
    return np.column_stack([axis.codes(table) for axis in axes])


def _encoded(ranks: Sequence[Array], codes: Indices) -> Array:
    """Return the rank of each value, in the shape of the codes."""
    return np.column_stack([own[code] for own, code in zip(ranks, codes.T, strict=True)])
