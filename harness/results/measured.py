"""What was measured on each input, over columns: records are made when they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import numpy as np

from harness.core.arrays import Codes, Indices
from harness.core.config_diff import preference
from harness.core.records import Config, Input, Interleaved, Measurement
from harness.results.columns import MeasurementColumns, MeasurementRow, MeasurementRows, as_rows
from harness.stats.samples import within_noise

Measured = Mapping[Config, Measurement]


class MeasuredConfigs(Mapping[Config, Measurement]):
    """The measurement of each configuration on one input; `rows` has one row for each."""

    def __init__(self, rows: MeasurementRows) -> None:
        self.rows = rows

    @classmethod
    def of(cls, measured: Measured) -> MeasuredConfigs:
        """Turn records into columns; columns stay as they are."""
        if isinstance(measured, cls):
            return measured
        return cls(as_rows(MeasurementRow(0, "search", m) for m in measured.values()))

    @property
    def columns(self) -> MeasurementColumns:
        """The columns, which have other rows too."""
        return self.rows.columns

    def find(self, config: Config) -> int | None:
        """Return the row of a configuration in the columns; None if it was not measured."""
        return self._row_of.get(self.columns.configs.find(config))

    @cached_property
    def _row_of(self) -> Mapping[int | None, int]:
        """The rows by the codes of their configurations."""
        codes = self.rows.of(self.columns.config_codes).tolist()
        return dict(zip(codes, self.rows.selected.tolist(), strict=True))

    def works(self) -> bool:
        """Whether any configuration worked."""
        return bool(self.rows.of(self.columns.works).any())

    def failures(self, among: Iterable[Config] | None = None) -> Iterator[Measurement]:
        """Make the measurements that failed, of these configurations or of all."""
        failed = self.rows.where(~self.rows.of(self.columns.works))
        if among is not None and len(failed):
            wanted = [self.columns.configs.find(config) for config in among]
            codes = [code for code in wanted if code is not None]
            failed = failed.where(np.isin(failed.of(self.columns.config_codes), codes))
        return failed.measurements()

    @property
    def fastest(self) -> Measurement | None:
        """The measurement with the least time; None if none is ok."""
        if not self.works():
            return None
        fastest = self.rows.of(self.columns.time_s).argmin()
        return self.columns.measurement(int(self.rows.selected[fastest]))

    @property
    def worst(self) -> float | None:
        """The time of the slowest that worked over that of the fastest; None if none is ok."""
        times_s = self.rows.of(self.columns.time_s)[self.rows.of(self.columns.works)]
        return float(times_s.max() / times_s.min()) if len(times_s) else None

    def ties(self, best: Config, confidence: float) -> int:
        """Count the other configurations within noise of the best, once per machine code."""
        if len(self) < 2:
            return 0
        best_row, columns = self.find(best), self.columns
        if best_row is None or not columns.works[best_row]:
            return 0
        others = self.rows.selected[columns.works[self.rows.selected]]
        others = others[columns.origins[others] != columns.origins[best_row]]
        tied = others[within_noise(columns.statistics, best_row, others, confidence)]
        return len(np.unique(columns.origins[tied]))

    def one_per_code(self, default: Config) -> Indices:
        """Return a row for each machine code, in the order in which codes appear: that of the
        configuration with the fewest changes from the default."""
        rows = self.rows.selected
        origins = self.columns.origins
        codes = dict.fromkeys(origins[rows].tolist())
        if len(codes) == len(rows):
            return rows
        row_of: dict[int, int] = {}
        for row in self._by_preference(rows, default).tolist():
            row_of.setdefault(origins.item(row), row)
        return np.array([row_of[code] for code in codes], dtype=np.intp)

    def shortest(
        self, config: Config, default: Config, allows: Callable[[Config], bool] = lambda _: True
    ) -> Config:
        """Return the configuration with the fewest changes from the default among those that have
        the machine code of this one, and that `allows` does not exclude."""
        row, columns = self.find(config), self.columns
        if row is None:
            return config
        rows = self.rows.selected
        equal = rows[columns.origins[rows] == columns.origins[row]]
        preferred = map(columns.config, self._by_preference(equal, default).tolist())
        return next(filter(allows, preferred), config)

    def _by_preference(self, rows: Indices, default: Config) -> Indices:
        """Sort rows as `harness.core.config_diff.preference` sorts their configurations."""
        if len(rows) < 2:
            return rows
        settings = self.columns.configs.settings(self.columns.config_codes[rows])
        changes: Codes = np.zeros(len(rows), dtype=np.int32)
        ranks: list[Codes] = []
        for name in dict.fromkeys([*default, *settings]):
            if name not in settings:
                continue
            values, codes = settings[name]
            keys = [preference(Config({name: value}), default) for value in values]
            # The last place is that of configurations without the name.
            is_changed = np.array([*(key[0] for key in keys), 0], dtype=np.int32)
            rank = np.full(len(keys) + 1, -1, dtype=np.int32)
            rank[sorted(range(len(keys)), key=lambda index: keys[index][1])] = range(len(keys))
            changes += is_changed[codes]
            ranks.append(rank[codes])
        order = np.lexsort([*reversed(ranks), changes])
        preferred: Indices = rows[order]
        return preferred

    def __getitem__(self, config: Config) -> Measurement:
        row = self.find(config)
        if row is None:
            raise KeyError(config)
        return self.columns.measurement(row)

    def __contains__(self, config: object) -> bool:
        return isinstance(config, Config) and self.find(config) is not None

    def __iter__(self) -> Iterator[Config]:
        return map(self.columns.config, self.rows.selected.tolist())

    def __len__(self) -> int:
        return len(self.rows)


def measured_by_input(rows: MeasurementRows) -> dict[Input, MeasuredConfigs]:
    """Collect the configurations of each input, in the order of their first measurements; of
    several measurements of a configuration the last counts."""
    measured: dict[Input, MeasuredConfigs] = {}
    for problem, of_input in by_input(rows).items():
        codes = of_input.of(rows.columns.config_codes).tolist()
        last = dict(zip(codes, of_input.selected.tolist(), strict=True))
        measured[problem] = MeasuredConfigs(rows.take(np.array([*last.values()], dtype=np.intp)))
    return measured


def by_input(rows: MeasurementRows) -> dict[Input, MeasurementRows]:
    """Group the rows by input, in the order in which inputs appear."""
    codes = rows.of(rows.columns.input_codes)
    grouped: dict[int, list[int]] = {}
    for code, row in zip(codes.tolist(), rows.selected.tolist(), strict=True):
        grouped.setdefault(code, []).append(row)
    inputs = rows.columns.inputs
    return {inputs[code]: rows.take(np.array(of_input)) for code, of_input in grouped.items()}


def interleaved_groups(rows: Sequence[MeasurementRow]) -> list[Interleaved]:
    """Group the interleaved measurements of one input, oldest first by the time of measuring;
    after a merge the order in the database is another one."""
    if not rows:
        return []
    selected = as_rows(rows)
    columns = selected.columns
    rows_by_group: dict[str | bytes, list[int]] = {}
    for row in selected.selected.tolist():
        group = columns.group_uuid[row] or columns.uuid[row]
        rows_by_group.setdefault(group, []).append(row)
    groups = sorted(rows_by_group.values(), key=lambda group: max(columns.measured_at[group]))
    return [list(map(columns.measurement, group)) for group in groups]


def by_configs(groups: Iterable[Interleaved]) -> dict[tuple[Config, ...], list[Interleaved]]:
    """Collect the groups that have the same configurations in the same order."""
    grouped: dict[tuple[Config, ...], list[Interleaved]] = {}
    for group in groups:
        grouped.setdefault(tuple(m.config for m in group), []).append(group)
    return grouped
