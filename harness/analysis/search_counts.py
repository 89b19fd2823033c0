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
        others = self._one_per_code()
        others = others[columns.origins[others] != columns.origins[own]]
        others = others[columns.works[others]]
        return int(within_noise(columns.statistics, own, others, confidence).sum())

    def _one_per_code(self) -> Indices:
        """Return a row for each machine code: that of the configuration that was measured, if it
        is here."""
        rows = self.configs.rows
        shared = rows.columns.shared_with
        is_shared = rows.of(shared.codes) != shared.code(None)
        order = np.argsort(is_shared, kind="stable")
        _, first = np.unique(rows.of(rows.columns.origins)[order], return_index=True)
        chosen: Indices = rows.selected[order[first]]
        return chosen
