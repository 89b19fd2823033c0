"""Read the measurements of a campaign as columns, and select those that fit a space."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Any

import numpy as np
from sqlalchemy import Column, ColumnElement, Connection, Select, Table, func, select

from harness.core.arrays import Array, Indices
from harness.core.records import Build, Config, Input, Measurement, Outcome, Value, shown
from harness.results import schema, stock
from harness.results.columns import ConfigTable, MeasurementRows
from harness.results.database import iso
from harness.results.gathering import Gatherer
from harness.results.reader import Cells, read_cells, read_rows, referred, refusing_damage
from harness.stats.samples import SampleStatistics

BUILD_COLUMNS = tuple(field.name for field in fields(Build) if field.name != "cached")

_CHUNK = 10_000  # ids of a query

_ROUNDING = 1e-9
"""By how much the stored time and that of the samples may differ, as a share."""


@dataclass(frozen=True)
class CampaignKey:
    """The fields that comparable measurements share."""

    program_sha256: str
    fingerprint: str
    campaign: int


def _of_campaign(table: Table, key: CampaignKey) -> list[ColumnElement[bool]]:
    """Return the conditions that select a campaign's runs or commands, joined with spaces and
    environments."""
    return [
        schema.spaces.c.program_sha256 == key.program_sha256,
        schema.environments.c.fingerprint == key.fingerprint,
        table.c.campaign == key.campaign,
    ]


def read_measurements(
    connection: Connection,
    key: CampaignKey,
    stages: Sequence[str] = schema.STAGES,
    space: str | None = None,
    builds: bool = True,
) -> MeasurementRows:
    """Return the measurements that share a key, oldest first, with their raw samples.

    Where several spaces share a program, `space` keeps what fits the space of this name. Without
    `builds`, measurements lack theirs, which saves memory.

    Raises ResultsError where the database is damaged.
    """
    with refusing_damage(connection):
        gatherer, times_s = Gatherer(), list[Array]()
        for cells in read_cells(connection, _READ, _of_campaign_and_asked(key)):
            check_measurements(cells)
            costs_s = np.array(cells["collection_cost"], dtype=np.float64)
            # OpenTuner may have recorded none, or an infinite one.
            walls_s = np.nan_to_num(costs_s, nan=0.0, posinf=0.0, neginf=0.0).tolist()
            dates = list(map(iso, cells["collection_date"]))
            gatherer.add({**cells, "wall_s": walls_s, "measured_at": dates})
            times_s.append(np.array(cells["time"], dtype=np.float64))
        features = _values(connection, schema.inputs.c.features, gatherer.keys("input_id"))
        config_ids = gatherer.keys("configuration_id")
        configs = _values(connection, schema.configurations.c.parameters, config_ids)
        made = _builds(connection, gatherer.keys("build_id")) if builds else {}
        table = ConfigTable.of(configs)
        columns = gatherer.columns(list(map(Input, features)), table, made)
        del gatherer  # columns are copies
        check_times(columns.ids, np.concatenate([*times_s, []]), columns.statistics)
        rows = MeasurementRows(columns).of_stages(stages)
        return rows if space is None else _of_space(connection, key, space, rows)


_OF_RESULT = ("configuration_id", "input_id", "state", "time", "collection_date", "collection_cost")
_READ = (
    stock.result.c.id,
    *(column for column in schema.measurements.columns if column.name != "id"),
    *(stock.result.c[name] for name in _OF_RESULT),
    stock.desired_result.c.requestor,
)


def _of_campaign_and_asked(key: CampaignKey) -> Select[Any]:
    """Select the measurements of a campaign's runs, each with the request that asked for it first.

    They are sought in a range of ids, which ascend as they were written: by the index of runs,
    SQLite would sort whole rows.
    """
    result, asked = stock.result, stock.desired_result
    runs = (
        select(schema.runs.c.id)
        .join_from(schema.runs, schema.spaces)
        .join(schema.environments)
        .where(*_of_campaign(schema.runs, key))
    )
    of_runs = result.c.tuning_run_id.in_(runs)
    first = select(func.min(result.c.id)).where(of_runs).scalar_subquery()
    last = select(func.max(result.c.id)).where(of_runs).scalar_subquery()
    every = asked.alias()
    first_asked = select(func.min(every.c.id)).where(every.c.result_id == result.c.id)
    is_first = asked.c.id == first_asked.correlate(result).scalar_subquery()
    query = select(result).join(schema.measurements).outerjoin(asked, is_first)
    return query.where(result.c.id.between(first, last), (result.c.tuning_run_id + 0).in_(runs))


def check_measurements(cells: Cells) -> None:
    """Raise ValueError for the first measurement of which no record can be made, or whose row of
    `result` has the state of another outcome."""
    names = ["id", "outcome", "samples_s", "stopped", "occasions"]
    names += ["message", "worst_element", "shared_with"]
    alike: set[tuple[Any, ...]] = set()
    for row_id, outcome, samples_s, stopped, occasions, *others in zip(
        *(cells[name] for name in names), strict=True
    ):
        is_ok = outcome == Outcome.OK.value
        if is_ok is not bool(samples_s) or is_ok is not (stopped is not None):
            raise ValueError(
                f"measurements {row_id}: its outcome is {outcome}, with {len(samples_s)} samples"
            )
        if occasions is not None and (min(occasions) < 1 or sum(occasions) != len(samples_s)):
            raise ValueError(f"measurements {row_id}: its occasions are {occasions}")
        if not is_ok and (outcome, *others) not in alike:
            alike.add((outcome, *others))
            message, worst, shared_with = others
            try:
                Measurement(
                    Config({}),
                    Input({}),
                    Outcome(outcome),
                    worst_element=worst,
                    message=message,
                    shared_with=shared_with,
                )
            except ValueError as error:
                raise ValueError(f"measurements {row_id}: {error}") from None
    for row_id, outcome, state in zip(cells["id"], cells["outcome"], cells["state"], strict=True):
        expected = schema.STATES.get(outcome, schema.FAILED)
        if state not in expected:
            raise ValueError(
                f"result {row_id}: its state is {state}, and {expected[0]} for the outcome "
                f"{outcome} of measurements"
            )


def check_times(ids: Indices, times_s: Array, statistics: SampleStatistics) -> None:
    """Raise ValueError for the first row of `result` whose time is not that of its samples; a
    missing time is NaN.

    A space may have changed its statistic since: so the time is the median of the samples, or
    their mean.
    """
    agrees = np.isclose(times_s, statistics.median, rtol=_ROUNDING, atol=0)
    agrees |= np.isclose(times_s, statistics.mean, rtol=_ROUNDING, atol=0)
    for row in np.flatnonzero((statistics.count > 0) & ~agrees).tolist():
        raise ValueError(
            f"result {ids[row]}: its time is {times_s[row]}, but the median of the samples in "
            f"measurements is {statistics.median[row]}, and their mean {statistics.mean[row]}"
        )


def _values(connection: Connection, column: Column[Any], ids: Sequence[int]) -> Iterator[Any]:
    """Yield the cells of the rows with these ids, in the order of the ids."""
    key = column.table.c.id
    for first in range(0, len(ids), _CHUNK):
        part = ids[first : first + _CHUNK]
        values: dict[int, Any] = {}
        for cells in read_cells(connection, [key, column], select(column).where(key.in_(part))):
            values |= zip(cells["id"], cells[column.name], strict=True)
        yield from (referred(column.table.name, values, row_id) for row_id in part)


def _builds(connection: Connection, ids: Iterable[int | None]) -> dict[int, Build]:
    known, builds = sorted(row_id for row_id in ids if row_id is not None), schema.builds
    return {
        row["id"]: Build(**{name: row[name] for name in BUILD_COLUMNS})
        for first in range(0, len(known), _CHUNK)
        for row in read_rows(
            connection, builds, select(builds).where(builds.c.id.in_(known[first : first + _CHUNK]))
        )
    }


def _of_space(
    connection: Connection, key: CampaignKey, name: str, rows: MeasurementRows
) -> MeasurementRows:
    """Keep the rows whose input and values the space of this name had in one of its runs."""
    query = (
        select(schema.spaces.c.name, schema.spaces.c.id, schema.inputs.c.id)
        .select_from(schema.runs.join(schema.spaces).join(schema.environments).join(schema.inputs))
        .where(*_of_campaign(schema.runs, key))
        .distinct()
    )
    runs = connection.execute(query).all()
    if all(space == name for space, _, _ in runs):
        return rows
    own = [(space_id, input_id) for space, space_id, input_id in runs if space == name]
    spaces, inputs = (sorted(set(ids)) for ids in zip(*own, strict=True))
    values: dict[str, list[Container[Value]]] = {}
    for parameters in _values(connection, schema.spaces.c.parameters, spaces):
        for parameter, stored in parameters.items():
            values.setdefault(parameter, []).append(_known_values(stored["values"]))
    features = set(map(Input, _values(connection, schema.inputs.c.features, inputs)))
    columns = rows.columns
    names = columns.config_table.names
    known = {name: partial(_is_among, values.get(name, ())) for name in names}
    is_own = np.array([problem in features for problem in columns.inputs.values], dtype=np.bool_)
    fitting, _ = with_known_values(rows.where(is_own[rows.of(columns.inputs.codes)]), known)
    return fitting


def _is_among(ranges: Iterable[Container[Value]], value: Value) -> bool:
    return any(value in allowed for allowed in ranges)


def _known_values(stored: Any) -> Container[Value]:
    """Return a parameter's values from what `harness.results.writer` wrote."""
    if isinstance(stored, dict):
        return range(stored["min"], stored["max"] + stored["step"], stored["step"])
    return list(stored)


# --------------------------------------------------------------------- an edited space


@dataclass(frozen=True)
class Compatible:
    """Measurements whose configurations set exactly the parameters of these names; those that are
    left out, and the parameters that only these or only the current space have."""

    names: frozenset[str]
    rows: MeasurementRows
    left_out: MeasurementRows
    differing: tuple[str, ...]


def compatible(rows: MeasurementRows, known: Iterable[str]) -> Compatible:
    """Keep the rows whose configurations set exactly the parameters of the current space.

    Rows from before a parameter was added, renamed or removed cannot be compared with later ones.
    `known` are the space's parameters. They include the flags of compilers that were not used,
    which no configuration sets.
    """
    table = rows.columns.config_table
    layout = table.layout[rows.of(rows.columns.configs.codes)]
    parameters_of = {code: frozenset(table.layouts[code]) for code in np.unique(layout).tolist()}
    space = frozenset(known)
    names = frozenset().union(*(one for one in parameters_of.values() if space.issuperset(one)))
    fits = np.array(
        [parameters_of.get(code) == names for code in range(len(table.layouts))], dtype=bool
    )
    kept = fits[layout]
    others = {one for one in parameters_of.values() if one != names}
    differing = {name for one in others for name in one - space | names - one}
    return Compatible(names, rows.where(kept), rows.where(~kept), tuple(sorted(differing)))


def with_known_values(
    rows: MeasurementRows, known: Mapping[str, Callable[[Value], bool]]
) -> tuple[MeasurementRows, list[str]]:
    """Keep the rows whose values the parameters still have, as `known` says of each by its name;
    also name the other settings."""
    table, configs = rows.columns.config_table, rows.of(rows.columns.configs.codes)
    is_gone, names = np.zeros(len(rows), dtype=np.bool_), list[str]()
    for name, values, codes in zip(table.names, table.values, table.codes.T, strict=True):
        if name not in known:
            continue
        gone = np.array([*(not known[name](value) for value in values), False])
        here = codes[configs]  # -1, no value, is the last
        is_gone |= gone[here]
        names += [f"{name}={shown(values[code])}" for code in np.unique(here[gone[here]]).tolist()]
    return rows.where(~is_gone), names
