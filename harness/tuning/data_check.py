"""Compare the data of measured inputs with those that the host module makes of them now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from harness.core.errors import HostModuleError
from harness.core.records import Input
from harness.display.progress import Display
from harness.measure.measurer import Measurer
from harness.results.columns import MeasurementRows
from harness.results.present_data import digests_of_data

_SHOWN_AFTER_S = 2.0


@dataclass
class DataCheck:
    """The digests of inputs' present data, where they can be made; None where they `differ` each
    time."""

    digests: dict[Input, str | None] = field(default_factory=dict)
    differ: list[Input] = field(default_factory=list)


def check_data(
    measured: Mapping[Input, MeasurementRows], measurer: Measurer, display: Display
) -> DataCheck:
    """Ask for the data of each input whose measurements have digests.

    This takes as long as the host module's arguments(), once for each input; where that is long,
    progress is shown.
    """
    check, began_s, is_shown = DataCheck(), time.monotonic(), False
    for number, (problem, rows) in enumerate(measured.items()):
        stored = digests_of_data(rows)
        if not stored:
            continue
        if not is_shown and time.monotonic() - began_s > _SHOWN_AFTER_S:
            is_shown = True
            display.begin_stage("data compared with the measured ones", len(measured) - number)
        try:
            check.digests[problem] = measurer.data_sha256(problem, stored)
            if check.digests[problem] is None:
                check.differ.append(problem)
        except HostModuleError as error:  # it leaves the input out where more must be measured
            text = "its data cannot be compared with the measured ones"
            display.warn(f"({problem}): {text}: {error}")
        if is_shown:
            display.step(str(problem))
    return check
