"""Times of configurations on inputs as the search measured them, from columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from harness.core.arrays import Array, Flags, Indices
from harness.core.records import Config, Input, StopReason
from harness.results.columns import MeasurementColumns, MeasurementRow
from harness.results.gathering import as_rows
from harness.results.measured import Measured, MeasuredConfigs, measured_by_input
from harness.stats.samples import within_noise

_BATCH = 1000
"""Inputs that are compared at once, so that copies stay small."""


@dataclass(frozen=True)
class SearchedTimes:
    """The rows of each input, of common columns, with one row for each configuration."""

    columns: MeasurementColumns
    inputs: tuple[Input, ...]
    rows: tuple[Indices, ...]

    @classmethod
    def of(cls, known: Mapping[Input, Measured]) -> SearchedTimes:
        """Take what was measured on each input, as records or as columns."""
        found = {problem: row for problem, row in known.items() if isinstance(row, MeasuredConfigs)}
        if len(found) < len(known) or len({id(row.columns) for row in found.values()}) != 1:
            rows = (MeasurementRow(0, "search", m) for row in known.values() for m in row.values())
            columns = as_rows(rows)
            found = measured_by_input(columns)
            return cls._of(columns.columns, found)
        return cls._of(next(iter(found.values())).columns, found)

    @classmethod
    def _of(
        cls, columns: MeasurementColumns, found: Mapping[Input, MeasuredConfigs]
    ) -> SearchedTimes:
        return cls(columns, tuple(found), tuple(row.rows.selected for row in found.values()))

    @property
    def best_s(self) -> Array:
        """The least time of each input, shape (inputs,)."""
        return self.columns.time_s[self._best]

    @cached_property
    def _best(self) -> Indices:
        every, owner = self._every
        order = np.lexsort((self.columns.time_s[every], owner))  # stable: the first of equal ones
        first = np.cumsum([0, *map(len, self.rows)])[:-1]
        best: Indices = every[order[first]]
        return best

    @cached_property
    def _every(self) -> tuple[Indices, Indices]:
        """The rows of all inputs, one input after another, and the index of each one's input."""
        owner: Indices = np.repeat(np.arange(len(self.rows)), list(map(len, self.rows)))
        return np.concatenate([np.empty(0, dtype=np.intp), *self.rows]), owner

    @property
    def are_recorded(self) -> bool:
        """Whether these come from a recording, where nothing more can be measured."""
        recorded = self.columns.stopped.code(StopReason.RECORDED)
        return bool((self.columns.stopped.codes[self._every[0]] == recorded).any())

    def time_s(self, configs: Sequence[Config]) -> Array:
        """Return times, shape (inputs, configurations): infinity for a failure, NaN where a
        configuration was not measured."""
        found = self._rows_of(configs)
        times: Array = np.where(found >= 0, self.columns.time_s[found], np.nan)
        return times

    def tied(self, configs: Sequence[Config]) -> Flags:
        """Say which do not differ significantly from the best, shape (inputs, configurations)."""
        found = self._rows_of(configs)
        tied = np.zeros(found.shape, dtype=np.bool_)
        works, statistics = self.columns.works, self.columns.statistics
        for start in range(0, len(found), _BATCH):
            others, best = found[start : start + _BATCH], self._best[start : start + _BATCH]
            there = (others >= 0) & works[others]
            own = np.broadcast_to(best[:, None], there.shape)[there]
            tied[start : start + _BATCH][there] = within_noise(statistics, own, others[there])
        return tied

    def _rows_of(self, configs: Sequence[Config]) -> Indices:
        """Return the rows of configurations on each input, shape (inputs, configurations); -1 where
        one was not measured."""
        table = self.columns.config_table
        known = [table.find(config) for config in configs]
        wanted = np.array([len(table) if code is None else code for code in known], dtype=np.intp)
        distinct, column_of = np.unique(wanted, return_inverse=True)
        every, owner = self._every
        codes = self.columns.configs.codes[every]
        column = np.full(len(table) + 1, -1, dtype=np.intp)
        column[distinct] = np.arange(len(distinct))
        is_wanted = column[codes] >= 0
        found = np.full((len(self.rows), len(distinct)), -1, dtype=np.intp)
        found[owner[is_wanted], column[codes[is_wanted]]] = every[is_wanted]
        return found[:, column_of]

    def candidates(self, most: int) -> list[Config]:
        """Return every winner, and what was measured on all inputs: at most so many, those of the
        least mean slowdown."""
        if not self.rows:
            return []
        table, codes = self.columns.config_table, self.columns.configs.codes
        winners = [table[code] for code in codes[self._best].tolist()]
        every, _ = self._every
        counts = np.bincount(codes[every], minlength=len(table))
        first = codes[self.rows[0]]
        everywhere = first[counts[first] == len(self.rows)]
        least = np.repeat(self.best_s, [len(rows) for rows in self.rows])
        logs = np.log(self.columns.time_s[every] / least)
        slowdown = np.bincount(codes[every], weights=logs, minlength=len(table))
        order = np.argsort(slowdown[everywhere], kind="stable")[:most]
        return [*winners, *(table[code] for code in everywhere[order].tolist())]
