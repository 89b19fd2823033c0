"""The results of other devices for the same program: what a search may start from."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields

from sqlalchemy import Connection, func, select

from harness.core.records import Environment, Input
from harness.results import schema
from harness.results.columns import MeasurementRows
from harness.results.measured import by_input
from harness.results.notes import check_printable
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import refusing_damage
from harness.space_file import Spec


@dataclass(frozen=True)
class DeviceResults:
    """The campaign of another device, as far as it was `until` then: ISO 8601, by the clock that
    measured, so that it holds in every copy of the database."""

    device: str
    fingerprint: str
    campaign: int
    until: str


def other_devices(
    connection: Connection, spec: Spec, environment: Environment
) -> tuple[DeviceResults, ...]:
    """Return the last campaign of each other device that measured this space's program.

    Raises ResultsError where the database is damaged.
    """
    spaces, environments = schema.spaces, schema.environments
    runs, measurements = schema.runs, schema.measurements
    of_runs = (
        select(environments.c.device, environments.c.fingerprint, runs.c.campaign, runs.c.id)
        .select_from(runs.join(spaces).join(environments))
        .where(
            spaces.c.name == spec.name,
            spaces.c.program_sha256 == spec.program_sha256,
            environments.c.device != environment.device,
        )
        .subquery()
    )
    # An index finds the last row of each run. The times of all rows would take a read of them.
    last = (
        select(func.max(measurements.c.id).label("id"))
        .where(measurements.c.run_id.in_(select(of_runs.c.id)))
        .group_by(measurements.c.run_id)
        .subquery()
    )
    device, fingerprint, campaign = of_runs.c.device, of_runs.c.fingerprint, of_runs.c.campaign
    query = (
        select(device, fingerprint, campaign, func.max(measurements.c.measured_at))
        .select_from(measurements.join(last, last.c.id == measurements.c.id))
        .join(of_runs, of_runs.c.id == measurements.c.run_id)
        .group_by(device, fingerprint, campaign)
        .order_by(device, fingerprint, campaign)
    )
    with refusing_damage(connection):
        found = [DeviceResults(*row) for row in connection.execute(query)]
        return tuple({one.fingerprint: one for one in map(_checked, found)}.values())


def read_device(
    connection: Connection, spec: Spec, source: DeviceResults
) -> Mapping[Input, MeasurementRows]:
    """Return what the searches on another device measured by then, by input.

    Raises ResultsError where the database is damaged.
    """
    key = CampaignKey(spec.program_sha256, source.fingerprint, source.campaign)
    rows = read_measurements(connection, key, schema.SEARCHED, spec.name, builds=False)
    by_then = rows.of(rows.columns.measured_at) <= source.until.encode()
    return by_input(rows.where(by_then).by(spec.measure.statistic))


def as_note(sources: Iterable[DeviceResults]) -> str:
    """Write the note of a run that starts from these results."""
    return json.dumps([asdict(source) for source in sources])


def from_note(note: str) -> tuple[DeviceResults, ...]:
    """Read the note of a run, which may come from anywhere. Raises ValueError."""
    data = json.loads(note)
    check_printable(data)
    names = {field.name for field in fields(DeviceResults)}
    if not isinstance(data, list) or any(not isinstance(d, dict) or set(d) != names for d in data):
        raise ValueError(f"the note of a warm start is {note[:80]!r}")
    return tuple(_checked(DeviceResults(**one)) for one in data)


def _checked(source: DeviceResults) -> DeviceResults:
    texts = (source.device, source.fingerprint, source.until)
    if type(source.campaign) is not int or not all(isinstance(text, str) for text in texts):
        raise ValueError(f"the results of another device are {source}")
    return source
