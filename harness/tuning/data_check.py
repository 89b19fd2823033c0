"""Compare the data of measured inputs with those that the host module makes of them now."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress

from harness.core.errors import BackendUnavailable, HostModuleError
from harness.core.records import Input
from harness.display.progress import Display
from harness.measure.measurer import Measurer
from harness.results.columns import MeasurementRows
from harness.results.fitting import digests_of_data

_SHOWN_AFTER_S = 2.0


def present_digests(
    measured: Mapping[Input, MeasurementRows], devices: Sequence[Measurer], display: Display
) -> dict[Input, str | None]:
    """Return the digest of the present data of each input whose measurements have digests; None of
    one whose data differ each time. An input whose data cannot be made is missing.

    This takes as long as the host module's arguments(), once for each input; where that is long,
    progress is shown.
    """
    digests: dict[Input, str | None] = {}
    began_s, is_shown = time.monotonic(), False
    for number, (problem, rows) in enumerate(measured.items()):
        stored = digests_of_data(rows)
        if not stored:
            continue
        if not is_shown and time.monotonic() - began_s > _SHOWN_AFTER_S:
            is_shown = True
            display.begin_stage("data compared with the measured ones", len(measured) - number)
        try:
            digests[problem] = _digest(devices, problem, stored)
        except HostModuleError as error:  # it leaves the input out where more must be measured
            text = "its data cannot be compared with the measured ones"
            display.warn(f"({problem}): {text}: {error}")
        if is_shown:
            display.step(str(problem))
    return digests


def _digest(devices: Sequence[Measurer], problem: Input, stored: Collection[str]) -> str | None:
    """Ask the first device that answers: a worker may be lost before anything is measured."""
    for device in devices[:-1]:
        with suppress(BackendUnavailable):
            return device.data_sha256(problem, stored)
    return devices[-1].data_sha256(problem, stored)
