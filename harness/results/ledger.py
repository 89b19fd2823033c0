"""The measurements of a campaign while it runs: what earlier commands stored, and each that this
command stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from harness.core.records import Config, Input, Interleaved
from harness.results.columns import MeasurementRow, MeasurementRows, as_rows, joined
from harness.results.measured import (
    MeasuredConfigs,
    by_input,
    interleaved_groups,
    measured_by_input,
)
from harness.results.schema import SEARCHED


class Ledger:
    """An append-only record of a campaign's measurements, by input and stage.

    It begins with the measurements that the database has, and grows by those that were committed.
    The stages of the campaign use the `usable` ones, and all later ones.
    """

    def __init__(
        self, stored: Sequence[MeasurementRow] = (), usable: MeasurementRows | None = None
    ) -> None:
        self._stored = as_rows(stored)
        self._usable: Mapping[Input, MeasurementRows] = {}
        self._searched: dict[Input, MeasuredConfigs] = {}
        self._answers: dict[Input, dict[Config, MeasurementRow]] = {}
        self._interleaved: dict[tuple[Input, str], list[Interleaved]] = {}
        self._appended: dict[int, MeasurementRow] = {}
        if usable is not None:
            self._usable = by_input(usable)
            self._searched = measured_by_input(usable.of_stages(SEARCHED))

    def append(self, rows: Sequence[MeasurementRow]) -> None:
        """Add measurements of one input and stage that were committed together. A row that is here
        already replaces the former one."""
        problem, stage = rows[0].measurement.input, rows[0].stage
        if stage not in SEARCHED:
            self.interleaved(problem, stage).append([row.measurement for row in rows])
        for row in rows:
            self._appended[row.id] = row
            if stage in SEARCHED:
                self.answers(problem)[row.measurement.config] = row
                self._searched.pop(problem, None)

    @property
    def rows(self) -> MeasurementRows:
        """All measurements as columns, which are made when they are asked for."""
        if self._appended:
            stored, new = self._stored, as_rows(self._appended.values())
            is_replaced = np.isin(stored.of(stored.columns.id), new.columns.id)
            rows = joined([stored.where(~is_replaced), new])
            self._stored = rows.take(rows.selected[np.argsort(rows.of(rows.columns.id))])
            self._appended = {}
        return self._stored

    def answers(self, problem: Input) -> dict[Config, MeasurementRow]:
        """Return what is known of an input's configurations, so that no test measures them again;
        `append` adds to it."""
        if problem not in self._answers:
            rows = self.searched(problem).rows
            self._answers[problem] = {row.measurement.config: row for row in rows}
        return self._answers[problem]

    def searched(self, problem: Input) -> MeasuredConfigs:
        """Return the same as columns, of which records are made when they are read."""
        if problem not in self._searched:
            rows = as_rows(self._answers.get(problem, {}).values())
            self._searched[problem] = MeasuredConfigs(rows)
        return self._searched[problem]

    def interleaved(self, problem: Input, stage: str) -> list[Interleaved]:
        """Return the interleaved measurements of a stage on an input, oldest first."""
        key = problem, stage
        if key not in self._interleaved:
            groups: list[Interleaved] = []
            if problem in self._usable:
                groups = interleaved_groups(self._usable[problem].of_stages([stage]))
            self._interleaved[key] = groups
        return self._interleaved[key]

    def measure_again(self, problem: Input, config: Config) -> None:
        """Let a configuration be measured again: its device may have been at fault."""
        self.answers(problem).pop(config, None)
        self._searched.pop(problem, None)
