"""Grow Starchart's tree of a table of samples."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.models.encoding.columns import is_number, must_have
from harness.models.folds import Fold, group_numbers, grouped_folds
from harness.models.starchart.axes import Axis, axis_of, numbers
from harness.models.starchart.boxes import Region
from harness.models.starchart.columns import AxisColumn, encode, make_columns, positions
from harness.models.starchart.regression import Regression, fit

if TYPE_CHECKING:
    import pandas as pd

# A tree with the least threshold is grown once, and judged at all of them.
_THRESHOLDS = np.logspace(-1, -7, 25)
_FEWEST_ROWS = 2


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
        values = numbers(table[self.column]) / self._size(table)
        return np.log(values) if self.log else values

    def restored(self, values: Array, table: pd.DataFrame) -> Array:
        """Convert what the tree predicts for each row to the column's own unit."""
        return self.shown(values) * self._size(table)

    def shown(self, values: Array) -> Array:
        """Convert the mean of a node to the unit that people read."""
        return np.exp(values) if self.log else values

    def _size(self, table: pd.DataFrame) -> Array:
        size: Array = np.prod([numbers(table[name]) for name in self.per], axis=0)
        return size

    def __str__(self) -> str:
        if not self.per:
            return self.column
        size = " * ".join(self.per)
        return f"{self.column} / ({size})" if len(self.per) > 1 else f"{self.column} / {size}"


@dataclass(frozen=True)
class Growth:
    """How far a tree grows. A split must lower the sum of squared errors by `relative_threshold` of
    the root's. Where that is None, cross-validation in `folds` folds chooses the one with the least
    squared error; rows that agree in the column `groups` stay together. With `leaves_per_sample`
    it is instead the least one with at most so many leaves a sample, and at most `most_leaves`. A
    node of fewer rows than `fewest_to_split` is not split (10 in the authors' own program)."""

    relative_threshold: float | None = None
    leaves_per_sample: float | None = None
    most_leaves: int = 50
    fewest_to_split: int = 2
    folds: int = 10
    groups: str | None = None
    seed: int = 0

    def leaves(self, rows: int) -> int:
        """Return how many leaves a tree of so many rows may have by `leaves_per_sample`."""
        return max(1, min(self.most_leaves, int(rows * (self.leaves_per_sample or 0))))

    def __post_init__(self) -> None:
        if self.relative_threshold is not None and not self.relative_threshold >= 0:
            raise UsageError(f"relative_threshold must be 0 or more, not {self.relative_threshold}")
        for name in ("folds", "fewest_to_split"):
            if getattr(self, name) < 2:
                raise UsageError(f"{name} must be 2 or more, not {getattr(self, name)}")


def growth_to_published_leaves(groups: str | None = None) -> Growth:
    """Grow at most a leaf for four samples, and at most 50: the paper's trees have 40 to 50 leaves
    from 200 samples. Its own rule is a threshold that it does not print."""
    return Growth(leaves_per_sample=1 / 4, groups=groups)


@dataclass(frozen=True)
class NodeSplit:
    """Where a node is split: `gain` is the share of the root's squared error that this removes."""

    parameter: str
    gain: float
    low: TreeNode
    high: TreeNode

    def condition(self, side: TreeNode) -> str:
        """Render the condition that leads to a side."""
        return side.box.parts[self.parameter].text(self.parameter)


@dataclass(frozen=True)
class TreeNode:
    """A region with its samples: their number, the mean of the target (with `log`, the geometric
    mean), its maximum, and the sum of squared errors around the mean."""

    box: Region
    count: int
    mean: float
    maximum: float
    sse: float
    split: NodeSplit | None = None

    def leaves(self) -> Iterator[TreeNode]:
        """Iterate over the nodes that are not split."""
        left = [self]
        while left:
            node = left.pop()
            if node.split is None:
                yield node
            else:
                left += [node.split.high, node.split.low]

    def splits(self) -> Iterator[NodeSplit]:
        """Iterate over the splits, parents before children."""
        if self.split is not None:
            yield self.split
            yield from self.split.low.splits()
            yield from self.split.high.splits()


class Fitted(NamedTuple):
    """The columns that a tree splits, and scikit-learn's tree."""

    columns: tuple[AxisColumn, ...]
    regression: Regression


@dataclass(frozen=True)
class Tree:
    """A partition of the space of parameters and inputs. `samples` are the rows it was grown on;
    `left_out` counts those without a target, such as failures. `fitted` has the columns that it
    splits and scikit-learn's tree, of which `root` is a copy."""

    target: TreeTarget
    axes: tuple[Axis, ...]
    growth: Growth
    threshold: float  # relative
    root: TreeNode
    samples: pd.DataFrame = field(repr=False)
    left_out: int
    fitted: Fitted = field(repr=False)

    def predict(self, table: pd.DataFrame) -> pd.Series[float]:
        """Predict the target of each row, in its column's own unit.

        Raises UsageError for a missing column or a word that was not among the samples.
        """
        import pandas as pd

        must_have(table, [axis.name for axis in self.axes] + list(self.target.per))
        columns, regression = self.fitted
        encoded = encode(columns, positions(self.axes, table))
        predicted = self.target.restored(regression.predict(encoded), table)
        return pd.Series(predicted, index=table.index, name=self.target.column)


def grow(
    table: pd.DataFrame,
    target: TreeTarget | str,
    parameters: Sequence[str | Axis],
    growth: Growth | None = None,
) -> Tree:
    """Grow the tree of a table with a row a sample and columns of parameters, input features,
    numbers or words alike, and the target. Rows without a target are left out. Pass a parameter as
    an Axis, from `axes_of` a larger table, if predictions are wanted for words that this table may
    lack.

    Raises UsageError for columns that are missing or cannot be used, and for too few rows.
    """
    growth = growth or Growth()
    target = TreeTarget(target) if isinstance(target, str) else target
    must_have(table, [growth.groups] if growth.groups else [])
    kept = usable(table, target, [_name(parameter) for parameter in parameters])
    axes = tuple(p if isinstance(p, Axis) else axis_of(kept, p) for p in parameters)
    codes, values = positions(axes, kept), target.of(kept)
    groups = kept[growth.groups].tolist() if growth.groups else None
    threshold = _threshold(axes, codes, values, growth, groups)
    fitted = _fit(axes, codes, values, threshold, growth)
    root = _root(fitted, target, codes, values)
    left_out = len(table) - len(kept)
    return Tree(target, axes, growth, threshold, root, kept, left_out, fitted)


def _fit(
    axes: tuple[Axis, ...], codes: Array, values: Array, threshold: float, growth: Growth
) -> Fitted:
    columns = make_columns(axes, codes, values)
    encoded = encode(columns, codes)
    return Fitted(columns, fit(encoded, values, threshold, growth.fewest_to_split, growth.seed))


def _name(parameter: str | Axis) -> str:
    return parameter.name if isinstance(parameter, Axis) else parameter


def usable(table: pd.DataFrame, target: TreeTarget, parameters: Sequence[str]) -> pd.DataFrame:
    """Return the rows that have a target.

    Raises UsageError for columns that are missing or cannot be used, and for too few rows.
    """
    if not parameters:
        raise UsageError("name one parameter or more to split on")
    must_have(table, [target.column, *target.per, *parameters])
    for name in (target.column, *target.per):
        if not is_number(table[name]):
            raise UsageError(f"column {name} must hold numbers, but holds words")
    if target.column in parameters:
        raise UsageError(f"{target.column} is the target: it cannot be a parameter too")
    kept: pd.DataFrame = table[np.isfinite(numbers(table[target.column]))]
    if len(kept) < _FEWEST_ROWS:
        raise UsageError(
            f"a tree needs {_FEWEST_ROWS} samples with a {target.column}; there are {len(kept)}"
        )
    for name in (*target.per, *([target.column] if target.log else [])):
        if not (numbers(kept[name]) > 0).all():
            raise UsageError(f"column {name} must be above 0 in every row")
    return kept


def _threshold(
    axes: tuple[Axis, ...], codes: Array, values: Array, growth: Growth, groups: list[Any] | None
) -> float:
    """Return the wanted relative threshold, or choose the best."""
    if growth.relative_threshold is not None:
        return growth.relative_threshold
    if growth.leaves_per_sample is not None:
        full = _fit(axes, codes, values, 0, growth).regression
        return full.threshold_for(growth.leaves(len(values)))
    errors = np.zeros(len(_THRESHOLDS))
    for fold in grouped_folds(group_numbers(len(values), groups), growth.folds, growth.seed):
        errors += _squared_errors(axes, codes, values, growth, fold)
    # The largest of equally good ones makes the smallest tree.
    return float(_THRESHOLDS[np.argmin(errors)])


def _squared_errors(
    axes: tuple[Axis, ...], codes: Array, values: Array, growth: Growth, fold: Fold
) -> Array:
    """Sum the squared errors over the held-out rows for each threshold."""
    learn, judge = fold.fit, fold.test
    columns = make_columns(axes, codes[learn], values[learn])
    least = float(_THRESHOLDS.min())
    tree = fit(
        encode(columns, codes[learn]), values[learn], least, growth.fewest_to_split, growth.seed
    )
    predicted = tree.predict_for(_THRESHOLDS, encode(columns, codes[judge]))
    errors: Array = np.square(predicted - values[judge]).sum(axis=1)
    return errors


def _root(fitted: Fitted, target: TreeTarget, codes: Array, values: Array) -> TreeNode:
    """Convert scikit-learn's nodes, of which children come after their parents, to regions."""
    columns, regression = fitted
    tree, sse, gains = regression.model.tree_, regression.sse, regression.gains
    boxes, means = _boxes(regression, columns), target.shown(regression.means)
    most = np.full(tree.node_count, -np.inf)
    np.maximum.at(most, regression.leaves(encode(columns, codes)), values)
    maxima = target.shown(most)  # of leaves; other nodes have those of their children
    nodes: dict[int, TreeNode] = {}
    for index in reversed(range(tree.node_count)):
        low, high = nodes.get(tree.children_left[index]), nodes.get(tree.children_right[index])
        split = None
        if low is not None and high is not None:
            name = columns[tree.feature[index]].axis.name
            split = NodeSplit(name, float(gains[index]), low, high)
            maxima[index] = max(low.maximum, high.maximum)
        count, mean = int(tree.n_node_samples[index]), float(means[index])
        maximum, error = float(maxima[index]), float(sse[index])
        nodes[index] = TreeNode(boxes[index], count, mean, maximum, error, split)
    return nodes[0]


def _boxes(regression: Regression, columns: Sequence[AxisColumn]) -> list[Region]:
    tree = regression.model.tree_
    boxes = [Region()] * tree.node_count
    for index in np.flatnonzero(tree.children_left >= 0).tolist():
        column = columns[tree.feature[index]]
        children = tree.children_left[index], tree.children_right[index]
        for child, part in zip(children, column.sides(float(tree.threshold[index])), strict=True):
            boxes[child] = boxes[index].both(Region({column.axis.name: part}))
    return boxes
