"""Judge what was learnt from one device on the others that the same databases hold."""

from __future__ import annotations

from collections.abc import Sequence

from harness.core.records import Environment
from harness.dispatch.candidates import matrix_of
from harness.dispatch.elsewhere import DeviceTransfer, transfer_to
from harness.dispatch.study import Study
from harness.results.view import Results


def results_elsewhere(campaigns: Sequence[Results], results: Results) -> list[Results]:
    """Return the last results of each other device, of the same kernel with the same caches."""
    here, latest = results.campaign, dict[tuple[str, str], Results]()
    for one in sorted(campaigns, key=lambda one: one.last_at, reverse=True):
        there = one.campaign.environment
        is_same = (
            one.campaign.space_name == here.space_name
            and one.campaign.key.program_sha256 == here.key.program_sha256
            and there.caches == here.environment.caches
        )
        if is_same and there.device != here.environment.device:
            latest.setdefault((there.device, there.platform), one)
    return list(latest.values())


def transfers(found: Study, name: str, elsewhere: Sequence[Results]) -> tuple[DeviceTransfer, ...]:
    """Judge a dispatcher on each of these devices; those with too few common times are left out."""
    judged = (
        transfer_to(found, name, matrix_of(one), one.campaign.environment) for one in elsewhere
    )
    return tuple(one for one in judged if one is not None)


def device_name(environment: Environment) -> str:
    """Name a device; one that was measured with cold and with warm caches counts as two."""
    return ", ".join(filter(None, (environment.device, environment.caches)))
