"""The results of other devices for the same program: what a search may start from."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter
from sqlalchemy import Connection, func, select

from harness.core.records import Environment, Input
from harness.results import schema
from harness.results.columns import MeasurementRows
from harness.results.measured import by_input
from harness.results.notes import DeviceResults
from harness.results.read import CampaignKey, read_measurements
from harness.results.reader import refusing_damage
from harness.space_file import Spec

_FIELDS = ("device", "fingerprint", "campaign", "until")
_DEVICES = TypeAdapter(list[DeviceResults])


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
        rows = connection.execute(query).all()
        found = _DEVICES.validate_python([dict(zip(_FIELDS, row, strict=True)) for row in rows])
    return tuple({one.fingerprint: one for one in found}.values())


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
