"""The results of other devices for the same program: what a search may start from."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import TypeAdapter
from sqlalchemy import Connection

from harness.core.records import Environment, Input
from harness.results import schema
from harness.results.campaigns import campaigns, measured_campaigns
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
    until: dict[tuple[str, str, int], str] = {}
    same = (
        campaign
        for campaign in campaigns(connection)
        if (campaign.space_name, campaign.key.program_sha256) == (spec.name, spec.program_sha256)
        and campaign.environment.device != environment.device
    )
    for campaign, _, last_at in measured_campaigns(connection, same):
        key = campaign.key
        until[campaign.environment.device, key.fingerprint, key.campaign] = last_at
    with refusing_damage(connection):
        rows = [dict(zip(_FIELDS, (*key, until[key]), strict=True)) for key in sorted(until)]
        devices = _DEVICES.validate_python(rows)
    return tuple({device.fingerprint: device for device in devices}.values())


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
