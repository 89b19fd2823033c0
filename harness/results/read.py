"""Read results as records, with plain SQL, so that a database from elsewhere can run no code."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from sqlalchemy import Connection, select

from harness.core.records import Build, Config, Input, Interleaved, Value
from harness.results import schema
from harness.results.cells import BUILD_COLUMNS, STAGES
from harness.results.chunks import Requestors, cells_by_id, plain_rows, read_chunks, values_by_id
from harness.results.columns import MeasurementColumns, MeasurementRow, MeasurementRows
from harness.results.config_table import ConfigTable
from harness.results.gathering import Gatherer, as_rows
from harness.results.selecting import CampaignKey, of_campaign, refusing_damage


def read_measurements(
    connection: Connection,
    key: CampaignKey,
    stages: Iterable[str] = STAGES,
    space: str | None = None,
    builds: bool = True,
) -> MeasurementRows:
    """Return the measurements that share a key, oldest first, with their raw samples.

    Where several spaces share a program, `space` keeps what fits the space of this name. Without
    `builds`, measurements lack theirs, which saves memory.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        requestors = Requestors.read(connection, _test_ids(connection, key))
        gatherer = Gatherer()
        for chunk in read_chunks(connection, _ids(connection, key), requestors):
            gatherer.add(chunk)
        rows = MeasurementRows(_columns(connection, gatherer, builds)).of_stages(list(stages))
        return rows if space is None else _of_space(connection, key, space, rows)


def _columns(connection: Connection, gatherer: Gatherer, builds: bool) -> MeasurementColumns:
    """Resolve the ids of inputs, configurations and builds."""
    inputs, configs = gatherer.keys("inputs"), gatherer.keys("configs")
    features = values_by_id(connection, schema.inputs, "features", inputs)
    parameters = values_by_id(connection, schema.configurations, "parameters", configs)
    wanted = [key for key in gatherer.keys("builds") if key is not None] if builds else []
    made = _builds(connection, wanted)
    table = ConfigTable.of(parameters)
    return gatherer.columns(list(map(Input, features)), table, lambda key: made.get(key))


def _builds(connection: Connection, ids: Sequence[int]) -> dict[Any, Build]:
    found: dict[Any, Build] = {}
    for cells in cells_by_id(connection, schema.builds, sorted(ids)):
        rows = zip(*(cells[name] for name in BUILD_COLUMNS), strict=True)
        builds = (Build(**dict(zip(BUILD_COLUMNS, row, strict=True))) for row in rows)
        found |= zip(cells["id"], builds, strict=True)
    return found


def _ids(connection: Connection, key: CampaignKey) -> list[int]:
    """Return the ids of the measurements that share a key, in their order."""
    tables = (
        schema.measurements.join(schema.runs)
        .join(schema.spaces)
        .join(schema.environments, schema.runs.c.environment_id == schema.environments.c.id)
    )
    conditions = of_campaign(schema.runs, key)
    if key.problem is not None:
        tables = tables.join(schema.inputs, schema.measurements.c.input_id == schema.inputs.c.id)
        conditions.append(schema.inputs.c.digest == key.problem.digest)
    query = select(schema.measurements.c.id).select_from(tables).where(*conditions)
    return sorted(row_id for batch in plain_rows(connection, query) for (row_id,) in batch)


def _test_ids(connection: Connection, key: CampaignKey) -> list[int]:
    """Return the ids of a campaign's tests, in their order."""
    table = schema.tests
    tables = table.join(schema.runs).join(schema.spaces).join(schema.environments)
    conditions = of_campaign(schema.runs, key)
    if key.problem is not None:
        tables = tables.join(schema.inputs, schema.runs.c.input_id == schema.inputs.c.id)
        conditions.append(schema.inputs.c.digest == key.problem.digest)
    query = select(table.c.id).select_from(tables).where(*conditions)
    return sorted(row_id for batch in plain_rows(connection, query) for (row_id,) in batch)


def _of_space(
    connection: Connection, key: CampaignKey, name: str, rows: MeasurementRows
) -> MeasurementRows:
    """Keep the rows whose input and values the space of this name had in one of its runs."""
    query = (
        select(schema.spaces.c.name, schema.spaces.c.id, schema.inputs.c.id)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*of_campaign(schema.runs, key))
    )
    runs = {row for batch in plain_rows(connection, query) for row in batch}
    if all(found == name for found, _, _ in runs):
        return rows
    own = [(space_id, input_id) for found, space_id, input_id in runs if found == name]
    spaces = sorted({space_id for space_id, _ in own})
    inputs = sorted({input_id for _, input_id in own})
    features = values_by_id(connection, schema.inputs, "features", inputs)
    values: dict[str, list[Container[Value]]] = {}
    for parameters in values_by_id(connection, schema.spaces, "parameters", spaces):
        for parameter, stored in parameters.items():
            values.setdefault(parameter, []).append(_known_values(stored["values"]))
    return _fitting(rows, set(map(Input, features)), values)


def _fitting(
    rows: MeasurementRows,
    inputs: Container[Input],
    values: Mapping[str, Sequence[Container[Value]]],
) -> MeasurementRows:
    """Keep the rows with these inputs, and with values that are in one of those of their name."""
    columns = rows.columns
    table = columns.config_table
    fits = np.ones(len(table), dtype=np.bool_)
    for name, known, codes in zip(table.names, table.values, table.codes.T, strict=True):
        ranges = values.get(name, ())
        allowed = [any(value in one for one in ranges) for value in known]
        fits &= np.array([*allowed, True])[codes]  # the last is of -1, no value
    of_input = np.array([one in inputs for one in columns.inputs.values], dtype=np.bool_)
    return rows.where(
        of_input[rows.of(columns.inputs.codes)] & fits[rows.of(columns.configs.codes)]
    )


def _known_values(stored: Any) -> Container[Value]:
    """Return a parameter's values from what `harness.results.rows.space_row` wrote."""
    if isinstance(stored, dict):
        return range(stored["min"], stored["max"] + stored["step"], stored["step"])
    return list(stored)


InterleavedByConfigs = dict[tuple[Config, ...], list[Interleaved]]
"""Interleaved measurements by their configurations, oldest first."""


def interleaved_groups(rows: Sequence[MeasurementRow]) -> list[Interleaved]:
    """Group the interleaved measurements of one input, oldest first by the time of measuring;
    after a merge the order in the database is another one."""
    if not rows:
        return []
    selected = as_rows(rows)
    return [list(map(selected.columns.measurement, group)) for group in _groups(selected)]


def last_interleaved(rows: MeasurementRows) -> Interleaved:
    """Return the last of the `interleaved_groups` of one input, without records of the others."""
    return list(map(rows.columns.measurement, _groups(rows)[-1]))


def _groups(rows: MeasurementRows) -> list[list[int]]:
    """Return the rows of each group, in the order of the groups."""
    columns = rows.columns
    found: dict[str | bytes, list[int]] = {}
    for row in rows.selected.tolist():
        found.setdefault(columns.groups.at(row) or columns.uuids[row], []).append(row)
    if len(found) == 1:
        return list(found.values())
    return sorted(found.values(), key=lambda group: max(columns.measured_at[group]))


def by_configs(groups: Iterable[Interleaved]) -> InterleavedByConfigs:
    """Collect the groups that have the same configurations in the same order."""
    grouped: InterleavedByConfigs = {}
    for group in groups:
        grouped.setdefault(tuple(m.config for m in group), []).append(group)
    return grouped
