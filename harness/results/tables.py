"""Results as tables for notebooks and other tools."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from harness.core.arrays import Flags
from harness.core.records import Input
from harness.results.columns import MeasurementRow, MeasurementRows

if TYPE_CHECKING:
    import pandas as pd


def measurements_table(rows: MeasurementRows, unbiased: Flags) -> pd.DataFrame:
    """Return a table with a row for each measurement; `unbiased` marks rows, shape (rows,)."""
    records = [_record(row, mark) for row, mark in zip(rows, unbiased.tolist(), strict=True)]
    points = [(m.input, m.config) for m in rows.measurements()]
    return flat_table(points, records)


def _record(row: MeasurementRow, is_unbiased: bool) -> dict[str, object]:
    m = row.measurement
    return {
        "stage": row.stage,
        "outcome": m.outcome.value,
        "time_s": m.time_s if m.timing else math.nan,
        "mean_s": m.timing.mean_s if m.timing else math.nan,
        "std_s": m.timing.std_s if m.timing else math.nan,
        "samples_s": m.timing.samples_s if m.timing else (),
        "requestor": row.requestor,
        "unbiased": is_unbiased,
        "message": m.message,
        **m.observed,
    }


def flat_table(
    points: Sequence[tuple[Input, Mapping[str, object]]], values: Sequence[Mapping[str, object]]
) -> pd.DataFrame:
    """Return a table of inputs and configurations with what was found there, in plain columns; a
    feature or parameter whose name is taken is `input.NAME` or `config.NAME`."""
    import pandas as pd  # here: it takes half a second to load

    last = pd.DataFrame(values)
    inputs, configs = (pd.DataFrame([dict(point[part]) for point in points]) for part in (0, 1))
    inputs = inputs.rename(columns={name: f"input.{name}" for name in last})
    configs = configs.rename(columns={name: f"config.{name}" for name in last})
    joined: pd.DataFrame = pd.concat([inputs, configs, last], axis=1)
    return joined
