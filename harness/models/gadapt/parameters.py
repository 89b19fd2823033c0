"""One parameter of the best configuration, predicted from an input's features."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.core.arrays import Array, Indices
from harness.core.records import Value
from harness.models.folds import grouped_folds
from harness.models.starchart.regression import Regression, fit

if TYPE_CHECKING:
    from sklearn.tree import DecisionTreeClassifier

# The share of the root's squared error that a split must remove: with the largest, one linear model
# does everything; with the least, most leaves are too small for a linear model.
_LEAST_GAINS = (1.0, 0.03, 1e-3)
_FOLDS = 5
_FEWEST_TO_CHOOSE_ON = 5  # with fewer inputs, the least gain is taken
_MOST_TO_CHOOSE_ON = 2000  # inputs; with more, the gain is chosen on a sample of these
_ROWS_PER_COLUMN = 2  # a leaf with fewer rows for each coefficient predicts its mean
_FEWEST_TO_SPLIT = 4


@dataclass(frozen=True)
class LinearLeaf:
    """A value that is linear in the sizes of a leaf's inputs; `weights` has the shape (sizes,)."""

    constant: float
    weights: Array

    def predict(self, rows: Array) -> Array:
        """Predict, shape (rows,)."""
        return self.constant + rows @ self.weights


def _linear_leaf(rows: Array, values: Array) -> LinearLeaf:
    """Fit least squares to standardised sizes; only the mean where there are too few rows."""
    centre, scale = rows.mean(axis=0), rows.std(axis=0)
    varying = scale > 0
    weights = np.zeros(rows.shape[1])
    if len(rows) >= _ROWS_PER_COLUMN * (1 + varying.sum()):
        standard = (rows - centre) / np.where(varying, scale, 1.0)
        slopes = np.linalg.lstsq(standard, values - values.mean(), rcond=None)[0]
        weights[varying] = slopes[varying] / scale[varying]
    return LinearLeaf(float(values.mean() - centre @ weights), weights)


@dataclass(frozen=True)
class NumberTree:
    """A regression tree with linear models in its leaves; `legal` is ascending."""

    tree: Regression
    leaves: Mapping[int, LinearLeaf]
    legal: tuple[Any, ...]

    def predict(self, derived: Array, sizes: Array) -> list[Value]:
        """Predict the legal value nearest to the leaf model's value, for each input."""
        return [self.legal[index] for index in self.indices(derived, sizes)]

    def indices(self, derived: Array, sizes: Array) -> Indices:
        """Predict the indices of those values in `legal`."""
        reached = self.tree.leaves(derived)
        found = np.empty(len(derived))
        for leaf in np.unique(reached):
            found[reached == leaf] = self.leaves[leaf].predict(sizes[reached == leaf])
        legal = np.array(self.legal, dtype=np.float64)
        # The nearer of the two around it; of equally near ones the smaller.
        above = np.searchsorted(legal, found).clip(1, max(1, len(legal) - 1))
        above = np.minimum(above, len(legal) - 1)
        below = np.maximum(above - 1, 0)
        nearest: Indices = np.where(found - legal[below] <= legal[above] - found, below, above)
        return nearest


@dataclass(frozen=True)
class WordTree:
    """A classification tree; `legal` has its classes."""

    tree: DecisionTreeClassifier
    legal: tuple[Value, ...]

    def predict(self, derived: Array, sizes: Array) -> list[Value]:
        """Predict the class of each input."""
        return [self.legal[index] for index in self.tree.predict(derived)]


@dataclass(frozen=True)
class GainTrials:
    """Inputs to choose the least gain on: those to learn from and those held out, of each fold.
    All parameters share them."""

    parts: Sequence[tuple[Indices, Indices]]

    @classmethod
    def of(cls, inputs: int, seed: int) -> GainTrials:
        """Deal so many inputs, or a sample of very many; no folds for few."""
        chosen = np.random.default_rng(seed).permutation(inputs)[:_MOST_TO_CHOOSE_ON]
        if len(chosen) < _FEWEST_TO_CHOOSE_ON:
            return cls(())
        folds = grouped_folds(np.arange(len(chosen)), _FOLDS, seed)
        return cls([(chosen[fold.fit], chosen[fold.test]) for fold in folds])


def fit_numbers(
    derived: Array,
    sizes: Array,
    values: Array,
    legal: tuple[Any, ...],
    trials: GainTrials,
    seed: int,
) -> NumberTree:
    """Fit the tree; cross-validation chooses the least gain with the fewest mistakes."""
    mistakes = dict.fromkeys(_LEAST_GAINS, 0)
    for gain in _LEAST_GAINS if len(np.unique(values)) > 1 else ():  # one value needs no choice
        for learn, held_out in trials.parts:
            tree = _grow(derived[learn], sizes[learn], values[learn], legal, gain, seed)
            predicted = np.array(legal)[tree.indices(derived[held_out], sizes[held_out])]
            mistakes[gain] += int((predicted != values[held_out]).sum())
    gain = min(_LEAST_GAINS[::-1], key=mistakes.__getitem__)
    return _grow(derived, sizes, values, legal, gain, seed)


def _grow(
    derived: Array, sizes: Array, values: Array, legal: tuple[Any, ...], gain: float, seed: int
) -> NumberTree:
    tree = fit(derived, values, gain, _FEWEST_TO_SPLIT, seed)
    reached = tree.leaves(derived)
    leaves = {
        int(leaf): _linear_leaf(sizes[reached == leaf], values[reached == leaf])
        for leaf in np.unique(reached)
    }
    return NumberTree(tree, leaves, legal)


def fit_words(
    derived: Array, found: Sequence[Value], legal: tuple[Value, ...], seed: int
) -> WordTree:
    """Fit a classification tree."""
    from sklearn.tree import DecisionTreeClassifier  # here: it takes a second to load

    indices = {word: index for index, word in enumerate(legal)}
    tree = DecisionTreeClassifier(
        criterion="entropy", min_samples_split=_FEWEST_TO_SPLIT, random_state=seed
    )
    return WordTree(tree.fit(derived, [indices[word] for word in found]), legal)
