"""Compare harness's measurements with OpenTuner's record of the search that asked for them.

OpenTuner's tables have what was searched: who asked for which configuration, on which input and
machine, and the time. Ours have what those cannot hold, such as samples. Where both have a fact,
both must agree, so that neither can be lost or changed unnoticed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterator
from typing import Any

from sqlalchemy import (
    Connection,
    Select,
    Text,
    and_,
    case,
    exists,
    func,
    not_,
    or_,
    select,
    type_coerce,
)

from harness.core.errors import ResultsError
from harness.core.records import Outcome, Statistic
from harness.core.text import first_few, printable
from harness.results import opentuner_tables as opentuner
from harness.results import schema
from harness.results.notes import OPENTUNER, STATISTIC

_ROUNDING = 1e-9
_IS_RECORDED = schema.runs.c.harness_version == OPENTUNER
"""Whether OpenTuner made a run without harness: its hashes, versions and paths are its own."""

_AGAIN = "copy the database again from the original"


def check_record(connection: Connection, tables: Collection[str], name: str) -> None:
    """Raise ResultsError where OpenTuner's record of a run is missing, or disagrees with ours.

    `tables` are the names of the tables that are there. Runs that name no run of OpenTuner's are
    not compared: no search made them, or an older version of harness merged them.
    """
    runs = schema.runs
    searched = select(func.count()).select_from(runs).where(runs.c.tuning_run_id.is_not(None))
    if not connection.execute(searched).scalar_one():
        return
    missing = sorted(set(opentuner.metadata.tables) - set(tables))
    if missing:
        raise ResultsError(
            f"{name} lacks tables of OpenTuner's record of the search "
            f"({first_few(missing, ', ')}), with which its measurements must agree; {_AGAIN}"
        )
    found = next(_disagreements(connection), None)
    if found is not None:
        raise ResultsError(f"{name} is damaged: {found}; {_AGAIN}")


def _disagreements(connection: Connection) -> Iterator[str]:
    """Describe where the tables disagree."""
    for row in connection.execute(_unlike_runs()):
        yield f"OpenTuner's tables have no run of the space of run {row.id}"
    for row in connection.execute(_inputs_of_runs()):
        path = row.path if isinstance(row.path, str) else ""
        if hashlib.sha256(path.encode()).hexdigest() != row.digest:
            yield f"the results of run {row.id} in OpenTuner's tables are on another input"
    for row in connection.execute(_unlike_tests().limit(1)):
        why = row.what or (
            f"has the state {printable(str(row.state))} and the time {printable(str(row.time))} s, "
            f"but harness has {printable(str(row.outcome))} and {row.time_s} s"
        )
        yield f"the result of test {row.id} in OpenTuner's tables {why}"


def _unlike_runs() -> Select[Any]:
    """Select the runs without a run of OpenTuner's, or with one of another space."""
    runs, there, version = schema.runs, opentuner.tuning_run, opentuner.program_version
    return (
        select(runs.c.id)
        .select_from(
            runs.join(schema.spaces)
            .outerjoin(there, there.c.id == runs.c.tuning_run_id)
            .outerjoin(version, version.c.id == there.c.program_version_id)
        )
        .where(runs.c.tuning_run_id.is_not(None))
        .where(
            case(
                (_IS_RECORDED, there.c.id.is_(None)),
                else_=version.c.version.is_distinct_from(schema.spaces.c.sha256),
            )
        )
    )


def _inputs_of_runs() -> Select[Any]:
    """Select the inputs of each run, by OpenTuner's record and by ours."""
    results, inputs = opentuner.result, opentuner.input_
    used = (
        select(results.c.tuning_run_id, results.c.input_id)
        .group_by(results.c.tuning_run_id, results.c.input_id)
        .subquery()
    )
    runs = schema.runs
    return (
        select(runs.c.id, inputs.c.path, schema.inputs.c.digest)
        .select_from(
            runs.join(schema.inputs)
            .join(used, used.c.tuning_run_id == runs.c.tuning_run_id)
            .outerjoin(inputs, inputs.c.id == used.c.input_id)
        )
        .where(not_(_IS_RECORDED))
    )


def _unlike_tests() -> Select[Any]:
    """Select the tests whose result is missing, or has another run, configuration, requestor, state
    or time."""
    tests, runs, ours = schema.tests, schema.runs, schema.measurements
    result, asked = opentuner.result, opentuner.desired_result
    is_asked = exists().where(
        asked.c.result_id == result.c.id,
        asked.c.configuration_id == result.c.configuration_id,
        asked.c.requestor == tests.c.requestor,
    )
    was_asked = or_(is_asked, _IS_RECORDED)
    works = ours.c.outcome == Outcome.OK.value
    is_mean = runs.c.notes[STATISTIC].as_string() == Statistic.MEAN.value
    time_s = case((is_mean, ours.c.mean_s), else_=ours.c.median_s)
    is_close = func.abs(result.c.time - time_s) <= _ROUNDING * time_s
    same_time = case(
        (works, and_(result.c.state == "OK", is_close)),
        else_=or_(result.c.state != "OK", _IS_RECORDED),
    )
    same_hash = opentuner.configuration.c.hash == schema.configurations.c.digest
    same_configuration = or_(same_hash, _IS_RECORDED)
    what = case(
        (result.c.id.is_(None), "is missing"),
        (result.c.tuning_run_id.is_distinct_from(runs.c.tuning_run_id), "is of another run"),
        (not_(func.coalesce(same_configuration, False)), "is of another configuration"),
        (not_(was_asked), "was asked for by another technique"),
    )
    agrees = and_(
        result.c.tuning_run_id == runs.c.tuning_run_id, same_configuration, same_time, was_asked
    )
    return (
        select(
            tests.c.id,
            what.label("what"),
            type_coerce(result.c.state, Text).label(
                "state"
            ),  # which may be none that OpenTuner has
            result.c.time,
            ours.c.outcome,
            time_s.label("time_s"),
        )
        .select_from(
            tests.join(runs)
            .join(ours, ours.c.id == tests.c.measurement_id)
            .join(schema.configurations)
            .outerjoin(result, result.c.id == tests.c.result_id)
            .outerjoin(
                opentuner.configuration, opentuner.configuration.c.id == result.c.configuration_id
            )
        )
        .where(runs.c.tuning_run_id.is_not(None), or_(not_(agrees), agrees.is_(None)))
    )
