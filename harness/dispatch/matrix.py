"""Times of each candidate on each input: the table that dispatchers are learnt from and judged on.

`harness.dispatch.candidates` makes it from results databases, benchmarks/dispatch.py from
recordings.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from harness.core.arrays import Array, Flags, Indices
from harness.core.cache import content_key
from harness.core.records import Config

if TYPE_CHECKING:
    import pandas as pd


_FAILED_FACTOR = 2.0
_LEAST_WEIGHT = 0.1  # in learning
_BY_INPUT = ("time_s", "applies", "best_s", "groups", "tied", "weights")


@dataclass(frozen=True)
class Matrix:
    """Seconds of each candidate on each input, and what is known of both.

    features: a row an input, a column a feature, of numbers or of words.
    time_s: shape (inputs, candidates); infinity where a candidate failed, NaN where not measured.
    applies: shape (inputs, candidates); what may be chosen on an input, known before any run.
    best_s: shape (inputs,); the least time known of the input, of any configuration.
    groups: shape (inputs,); inputs of one group are held out together, because learning from one
        reveals the other.
    tied: shape (inputs, candidates); where a time is within noise of the best: its slowdown is 1.
    weights: shape (inputs,); how often each input comes, on average 1.
    default: the index of the default candidate.
    choices: the parameters whose values have no order, even if they are numbers.
    note: what a reader must know of the times.
    remedy: what would measure the candidates that lack times.
    half_log: shape (inputs, candidates); half the 95 % interval of the logarithm of a time over
        that of `fastest_overall`; None: times are exact, or nothing is known of their errors.
    """

    features: pd.DataFrame
    candidates: tuple[Config, ...]
    time_s: Array
    applies: Flags
    best_s: Array
    groups: npt.NDArray[np.intp]
    tied: Flags
    weights: Array
    default: int | None = None
    choices: frozenset[str] = frozenset()
    note: str = ""
    remedy: str = ""
    half_log: Array | None = None

    @property
    def slowdown(self) -> Array:
        """Time over the best known time of the input, shape (inputs, candidates); 1 for a tie,
        infinity for a failure, NaN where not measured."""
        ratio: Array = np.where(self.tied, 1.0, self.time_s / self.best_s[:, None])
        return ratio

    @property
    def log_slowdown(self) -> Array:
        """The natural logarithm of the slowdown; a failure counts as twice the input's largest
        slowdown. NaN where a candidate does not apply or was not measured."""
        slowdown = np.where(self.applies, self.slowdown, np.nan)
        logs: Array = np.where(np.isinf(slowdown), self.failed_log[:, None], np.log(slowdown))
        return logs

    @property
    def measured_log(self) -> Array:
        """The logarithm of the measured slowdown, which tells ties apart, shape (inputs,
        candidates); a failure as in `log_slowdown`, NaN where a candidate does not apply or was
        not measured."""
        return replace(self, tied=np.zeros_like(self.tied)).log_slowdown

    @property
    def failed_log(self) -> Array:
        """The log slowdown that a failure counts as, shape (inputs,)."""
        slowdown = np.where(self.applies, self.slowdown, np.nan)
        finite = np.where(np.isfinite(slowdown), slowdown, 1.0)
        failed: Array = np.log(_FAILED_FACTOR * finite.max(axis=1, initial=1.0))
        return failed

    @property
    def costs(self) -> Array:
        """The log slowdowns, shape (inputs, candidates); a candidate that does not apply costs more
        than the worst that does."""
        logs = self.log_slowdown
        penalised: Array = np.where(np.isnan(logs), 2 * np.nanmax(logs, initial=0.0) + 1.0, logs)
        return penalised

    @property
    def best(self) -> Indices:
        """The index of the best candidate that applies, shape (inputs,)."""
        logs = self.log_slowdown
        best: Indices = np.where(np.isnan(logs), np.inf, logs).argmin(axis=1)
        return best

    @property
    def learning_weights(self) -> Array:
        """By how much each input counts in learning: a part of it does not depend on how often it
        came, since that may change."""
        weights: Array = _LEAST_WEIGHT + (1 - _LEAST_WEIGHT) * self.weights
        return weights

    @property
    def key(self) -> str:
        """A key of all that learning and judging depend on."""
        features = [[str(name), self.features[name].tolist()] for name in self.features.columns]
        candidates = [config.digest for config in self.candidates]
        arrays = [getattr(self, name) for name in (*_BY_INPUT, "half_log")]
        facts = features, candidates, self.default, sorted(self.choices)
        return content_key("matrix", *facts, *arrays)

    def rows(self, rows: Indices) -> Matrix:
        """Keep only some inputs, by their indices."""
        return replace(
            self,
            features=self.features.iloc[rows].reset_index(drop=True),
            **{name: getattr(self, name)[rows] for name in _BY_INPUT},
            half_log=None if self.half_log is None else self.half_log[rows],
        )

    def complete(self) -> Matrix:
        """Make candidates that lack a measurement on some input apply to none, because such a
        choice could not be judged."""
        lacking = (np.isnan(self.time_s) & self.applies).any(axis=0)
        return replace(self, applies=self.applies & ~lacking)

    def comparable(self) -> Matrix:
        """Keep the candidates that were measured wherever they apply, and the inputs that have
        one."""
        matrix = self.complete()
        return matrix.rows(np.flatnonzero(matrix.applies.any(axis=1)))


def make_matrix(
    features: pd.DataFrame,
    candidates: Sequence[Config],
    time_s: Array,
    *,
    applies: Flags | None = None,
    best_s: Array | None = None,
    groups: Sequence[Hashable] | None = None,
    tied: Flags | None = None,
    default: int | None = None,
) -> Matrix:
    """Make a matrix. By default everything applies, the best times are those of the matrix, each
    input is its own group, and there are no ties."""
    applies = np.ones(time_s.shape, dtype=bool) if applies is None else applies
    if best_s is None:
        best_s = np.nanmin(np.where(applies, time_s, np.inf), axis=1)
    return Matrix(
        features.reset_index(drop=True),
        tuple(candidates),
        time_s,
        applies,
        best_s,
        _numbered(groups if groups is not None else range(len(features))),
        np.zeros(time_s.shape, dtype=bool) if tied is None else tied,
        np.ones(len(features)),
        default,
    )


def first_applicable(orders: Indices, applies: Flags) -> Indices:
    """Return the first candidate of each order that applies, shape (inputs,); -1 if none does.

    `orders` has the shape (inputs, members) or (1, members), `applies` (inputs, candidates).
    """
    rows = np.arange(len(applies))
    foremost: Indices = np.broadcast_to(orders[:, 0], len(rows))
    if applies[rows, foremost].all():  # the most frequent case
        return foremost
    wide = np.broadcast_to(orders, (len(applies), orders.shape[1]))
    usable = applies[rows[:, None], wide]
    first = usable.argmax(axis=1)
    indices: Indices = np.where(usable[rows, first], wide[rows, first], -1)
    return indices


def _numbered(groups: Sequence[Hashable]) -> npt.NDArray[np.intp]:
    indices: dict[Hashable, int] = {}
    return np.array([indices.setdefault(group, len(indices)) for group in groups], dtype=np.intp)
