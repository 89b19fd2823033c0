"""What a search measured on one input, counted over columns."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

import numpy as np

from harness.core.arrays import Indices
from harness.core.records import Config, Measurement, Outcome
from harness.results.measured import Measured, MeasuredConfigs
from harness.stats.samples import within_noise


@dataclass(frozen=True)
class SearchCounts:
    """The measured configurations of an input."""

    configs: MeasuredConfigs

    @classmethod
    def of(cls, measured: Measured) -> SearchCounts:
        """Take what was measured, as records or as columns."""
        return cls(MeasuredConfigs.of(measured))

    @property
    def outcomes(self) -> Counter[Outcome]:
        """The number of configurations by outcome."""
        rows = self.configs.rows
        outcomes = rows.columns.outcomes
        counts = np.bincount(rows.of(outcomes.codes), minlength=len(outcomes.values)).tolist()
        return Counter(
            {outcome: n for outcome, n in zip(outcomes.values, counts, strict=True) if n}
        )

    @property
    def shared(self) -> int:
        """The number of configurations that have the measurement of another one."""
        rows = self.configs.rows
        shared = rows.columns.shared_with
        return int((rows.of(shared.codes) != shared.code(None)).sum())

    @property
    def fastest(self) -> Measurement | None:
        """The measurement with the least time; None if none is ok."""
        rows = self.configs.rows
        times = rows.of(rows.columns.time_s)
        if not np.isfinite(times).any():
            return None
        return rows.columns.measurement(int(rows.selected[times.argmin()]))

    def ties(self, best: Config, confidence: float) -> int:
        """Count the other configurations within noise of the best, once per machine code."""
        if len(self.configs) < 2:
            return 0
        own, columns = self.configs.find(best), self.configs.columns
        if own is None or not columns.works[own]:
            return 0
        others = self.one_per_code(best)
        others = others[columns.origins[others] != columns.origins[own]]
        others = others[columns.works[others]]
        return int(within_noise(columns.statistics, own, others, confidence).sum())

    def one_per_code(self, preferred: Config) -> Indices:
        """Return a row for each machine code, in the order in which codes appear: that of the
        preferred configuration, or of the one that was measured, if it is here."""
        rows = self.configs.rows
        shared = rows.columns.shared_with
        is_shared = rows.of(shared.codes) != shared.code(None)
        place = np.where(rows.selected == self.configs.find(preferred), -1, is_shared)
        order = np.argsort(place, kind="stable")
        origins = rows.of(rows.columns.origins)
        _, appears = np.unique(origins, return_index=True)
        _, first = np.unique(origins[order], return_index=True)
        chosen: Indices = rows.selected[order[first[np.argsort(appears)]]]
        return chosen
