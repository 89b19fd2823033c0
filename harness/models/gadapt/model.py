"""G-ADAPT's model: a tree for each parameter, over the same columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.core.records import Value
from harness.models.gadapt.features import Features, learn_features
from harness.models.gadapt.parameters import NumberTree, WordTree, fit_numbers, fit_words
from harness.models.starchart.axes import is_numeric, numbers, values_of

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class GAdaptModel:
    """A tree for each parameter."""

    features: Features
    trees: Mapping[str, NumberTree | WordTree] = field(repr=False)

    def predict(self, features: pd.DataFrame) -> pd.DataFrame:
        """Predict a configuration for each input: a column a parameter, each value legal by itself.
        Together they may still break a constraint: `nearest` finds a candidate.

        Raises UsageError for a missing feature.
        """
        import pandas as pd

        values, sizes = self.features.values(features), self.features.sizes(features)
        columns = {
            name: pd.Series(tree.predict(values, sizes), index=features.index, dtype=object)
            for name, tree in self.trees.items()
        }
        table: pd.DataFrame = pd.DataFrame(columns, index=features.index).infer_objects()
        return table


def fit(
    features: pd.DataFrame,
    best: pd.DataFrame,
    legal: Mapping[str, Sequence[Value]] | None = None,
    seed: int = 0,
) -> GAdaptModel:
    """Learn from inputs (a row an input, a column a feature) and the best configuration of each
    (the same rows, a column a parameter). `legal` has the values that a parameter may take, by
    default those among the best.

    Raises UsageError if the tables do not have the same rows, or none.
    """
    if len(features) != len(best) or not len(best):
        raise UsageError(
            "features and best configurations must have the same inputs, one or more, but got "
            f"{len(features)} and {len(best)} rows"
        )
    learnt = learn_features(features, _targets(best), seed)
    columns, sizes = learnt.values(features), learnt.sizes(features)
    trees: dict[str, NumberTree | WordTree] = {}
    for name in best.columns:
        found = values_of(best[name])
        values = tuple(dict.fromkeys([*(legal or {}).get(name, ()), *found]))
        # Numbers beside None, an absent flag, are a choice.
        if is_numeric(best[name]) and best[name].dtype.kind != "b" and None not in values:
            trees[name] = fit_numbers(
                columns, sizes, numbers(best[name]), tuple(sorted(values)), seed
            )
        else:
            trees[name] = fit_words(columns, found, values, seed)
    return GAdaptModel(learnt, trees)


def _targets(best: pd.DataFrame) -> Array:
    """Encode each parameter as numbers, shape (inputs, parameters), or (inputs,) for one
    parameter."""
    ranks = [np.unique(list(map(str, values_of(best[n]))), return_inverse=True)[1] for n in best]
    targets = np.column_stack(ranks).astype(np.float64)
    return targets[:, 0] if targets.shape[1] == 1 else targets
