"""Starchart's regression tree on plain numbers: scikit-learn's, with the settings that make it so.

A tree splits where the sum of squared errors (SSE) falls most, and leaves a node whole where no
split removes as much as a threshold (Jia, Shaw, Martonosi, "Starchart", PACT 2013, section 3).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array, Indices
from harness.models.folds import group_numbers
from harness.stats import Estimate

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeRegressor

_TINY = 1e-12  # never 0: scikit-learn would split where nothing is gained
_Z_95 = 1.96


@dataclass(frozen=True)
class Regression:
    """A tree grown on standardised numbers, because a large offset would drown the sums of squares;
    `mean` and `deviation` convert back."""

    model: DecisionTreeRegressor
    mean: float
    deviation: float

    def predict(self, columns: Array) -> Array:
        """Predict the mean of the leaf that each row reaches."""
        predicted: Array = self.means[self.leaves(columns)]
        return predicted

    def leaves(self, columns: Array) -> Indices:
        """Return the node of the leaf that each row reaches."""
        plain = as_plain(columns)
        if plain is None:
            reached: Indices = self.model.apply(columns)
        else:
            reached = self.model.tree_.apply(plain)
        return reached

    @property
    def means(self) -> Array:
        """The mean of each node's rows."""
        means: Array = self.model.tree_.value[:, 0, 0] * self.deviation + self.mean
        return means

    @property
    def sse(self) -> Array:
        """The sum of squared errors of each node around its mean."""
        tree = self.model.tree_
        # Rounding may leave a pure node's impurity just below 0.
        sse: Array = np.maximum(tree.impurity, 0) * tree.n_node_samples * self.deviation**2
        return sse

    @property
    def gains(self) -> Array:
        """How much each node's split lowers the SSE, as a share of the root's; 0 for a leaf."""
        tree, sse = self.model.tree_, self.sse
        gains = np.zeros(tree.node_count)
        inner = tree.children_left >= 0
        low, high = tree.children_left[inner], tree.children_right[inner]
        gains[inner] = (sse[inner] - sse[low] - sse[high]) / sse[0]
        return gains

    def threshold_for(self, most_leaves: int) -> float:
        """Return the least threshold with which a tree has at most so many leaves."""
        tree, gains = self.model.tree_, self.gains
        least = gains.copy()  # the least gain from the root to each split, which keeps it
        for index in np.flatnonzero(tree.children_left >= 0).tolist():  # parents come first
            for child in (tree.children_left[index], tree.children_right[index]):
                least[child] = min(least[child], least[index])
        kept = np.sort(least[tree.children_left >= 0])[::-1]
        if len(kept) < most_leaves:
            return _TINY
        dropped = float(kept[most_leaves - 1])
        larger = kept[kept > dropped]  # splits of equal gain stay or go together
        return math.sqrt(dropped * float(larger[-1])) if len(larger) else 2.0

    def predict_for(self, thresholds: Array, columns: Array) -> Array:
        """Predict as trees of larger thresholds would, shape (thresholds, rows): such a tree is the
        top of this one, down to the first split on each path that gains less."""
        tree, gains, means = self.model.tree_, self.gains, self.means
        rows = columns.astype(np.float32)
        node = np.zeros(len(rows), dtype=np.intp)
        least = np.full(len(rows), np.inf)  # the least gain of the splits above each node
        predicted = np.empty((len(thresholds), len(rows)))
        moving = np.arange(len(rows))
        while len(moving):
            here = node[moving]
            gain = np.minimum(least[moving], gains[here])
            stops = (thresholds[:, None] > gain) & (thresholds[:, None] <= least[moving])
            index, row = np.nonzero(stops)
            predicted[index, moving[row]] = means[here[row]]
            least[moving] = gain
            # A split may gain all of the root's SSE but for rounding, a leaf gains nothing.
            going = (tree.children_left[here] >= 0) & (gain >= thresholds.min())
            moving, here = moving[going], here[going]
            low = rows[moving, tree.feature[here]] <= tree.threshold[here]
            node[moving] = np.where(low, tree.children_left[here], tree.children_right[here])
        return predicted


def fit(
    columns: Array, values: Array, threshold: float, fewest_to_split: int = 2, seed: int = 0
) -> Regression:
    """Grow a tree. A split must remove the share `threshold` of the root's SSE; `columns` has the
    shape (rows, columns), of numbers that are distinct in float32."""
    from sklearn.tree import DecisionTreeRegressor  # here: it takes a second to load

    mean, deviation = float(values.mean()), float(values.std())
    deviation = deviation or 1.0  # all values are equal
    model = DecisionTreeRegressor(
        criterion="squared_error",
        # In squared error a row, which is 1 at the root for standardised numbers.
        min_impurity_decrease=max(threshold, _TINY),
        min_samples_split=fewest_to_split,
        random_state=seed,
    )
    standard = (values - mean) / deviation
    plain = as_plain(columns)
    if plain is None or not np.isfinite(standard).all():
        return Regression(model.fit(columns, standard), mean, deviation)
    return Regression(model.fit(plain, standard, check_input=False), mean, deviation)


def as_plain(columns: Array) -> npt.NDArray[np.float32] | None:
    """Return columns as scikit-learn's trees store them, so that it need not check them again,
    which takes longer than a small tree; None where some are not finite."""
    plain = np.ascontiguousarray(columns, dtype=np.float32)
    return plain if plain.ndim == 2 and plain.size and np.isfinite(plain).all() else None


@dataclass(frozen=True)
class ErrorSummary:
    """Relative errors |predicted - actual| / actual: their median with its 95 % interval, and
    their 90th percentile."""

    median: Estimate
    ninth_decile: float
    count: int


def summarize(errors: Array) -> ErrorSummary:
    """Summarize errors; the interval of the median is distribution-free, from order statistics
    (Conover, Practical Nonparametric Statistics, 1999, section 3.2)."""
    ordered = np.sort(errors)
    count = len(ordered)
    reach = _Z_95 * math.sqrt(count) / 2
    low = max(0, math.floor(count / 2 - reach))
    high = min(count - 1, math.ceil(count / 2 + reach) - 1)
    return ErrorSummary(
        Estimate(float(np.median(ordered)), float(ordered[low]), float(ordered[high])),
        float(np.quantile(ordered, 0.9)),
        count,
    )


def relative_errors(
    predicted: Array, actual: Array, groups: Sequence[Any] | None = None
) -> ErrorSummary:
    """Summarize |predicted - actual| / actual over the rows, at least one, whose actual value is
    not 0. Rows of one group count as one, with their mean error."""
    known = actual != 0
    errors = np.abs(predicted[known] - actual[known]) / np.abs(actual[known])
    if groups is not None:
        members = group_numbers(len(errors), np.asarray(groups, dtype=str)[known])
        errors = np.bincount(members, errors) / np.bincount(members)
    return summarize(errors)
