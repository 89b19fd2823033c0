"""Open the devices that a request names, on this machine or in a cluster."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from harness.api.request import TuneRequest
from harness.core.errors import UsageError
from harness.fleet.measurers import Fleet, FleetRequest, open_fleet
from harness.measure.choose import open_measurers
from harness.measure.measurer import Measurer
from harness.results.url import shown_database
from harness.tuning.devices import DevicePool


def open_devices(
    request: TuneRequest, opened: ExitStack, say: Callable[[str], None]
) -> tuple[DevicePool, str]:
    """Open the devices; return them and why they were chosen. `opened` keeps a cluster
    open, and `say` shows what is waited for.

    Raises UsageError for several devices that differ, and for several where one input after
    another is sampled.
    """
    options, most = request.options, len(request.spec.inputs)  # an input is with one device
    measurers: Mapping[str, Measurer]
    joining: Fleet | None = None
    if options.cluster is None:
        measurers, why = open_measurers(request.whole, options.backend, options.device, most)
    else:
        driver = f"{platform.node()}: {shown_database(request.database)}"
        asked = FleetRequest(options.cluster, options.device, most, options.insecure, driver, say)
        fleet = opened.enter_context(open_fleet(request.whole, asked))
        measurers, why = (
            fleet.measurers,
            "; ".join([f"--cluster {options.cluster}", *fleet.skipped]),
        )
        joining = fleet if most > 1 and options.validate is None else None
    try:
        if options.validate is not None and len(measurers) > 1:
            raise UsageError(
                f"--validate samples all inputs on one device, and --device names {len(measurers)};"
                " name one of them"
            )
        pool = DevicePool(measurers, joining)
    except UsageError:
        for measurer in reversed([*measurers.values()]):
            measurer.close()
        raise
    return pool, f"{why}; {pool.describe()}" if pool.is_shared else why
