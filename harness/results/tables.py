"""Results as tables for notebooks and other tools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core.arrays import Flags
from harness.core.records import Config, Input
from harness.results.columns import MeasurementRows

if TYPE_CHECKING:
    import pandas as pd


_NOT_TIMED = {"time_s": math.nan, "mean_s": math.nan, "std_s": math.nan, "samples_s": ()}


def measurements_table(rows: MeasurementRows, unbiased: Flags) -> pd.DataFrame:
    """Return a table with a row for each measurement; `unbiased` marks rows, shape (rows,)."""
    points: list[tuple[Input, Config]] = []
    records: list[dict[str, object]] = []
    for row, is_unbiased in zip(rows, unbiased.tolist(), strict=True):
        m = row.measurement
        points.append((m.input, m.config))
        record: dict[str, object] = {"stage": row.stage, "outcome": m.outcome.value}
        record.update(_NOT_TIMED)
        if m.timing:
            record["time_s"] = m.time_s
            record["mean_s"] = m.timing.mean_s
            record["std_s"] = m.timing.std_s
            record["samples_s"] = m.timing.samples_s
        record["requestor"] = row.requestor
        record["unbiased"] = is_unbiased
        record["message"] = m.message
        record.update(m.observed)
        records.append(record)
    return flat_table(points, records)


def flat_table(
    points: Sequence[tuple[Input, Mapping[str, object]]], values: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Return a table of inputs and configurations with what was found there, in plain columns; a
    feature or parameter whose name is taken is `input.NAME` or `config.NAME`."""
    import pandas as pd  # here: it takes half a second to load

    last = pd.DataFrame(values)
    parts = [last]
    for index, part in ((1, "config"), (0, "input")):
        table = pd.DataFrame([dict(point[index]) for point in points])
        parts.insert(0, table.rename(columns={name: f"{part}.{name}" for name in last}))
    joined: pd.DataFrame = pd.concat(parts, axis=1)
    return joined
