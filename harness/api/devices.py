"""Open the devices that a request names, on this machine or in a cluster."""

from __future__ import annotations

import platform
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from harness.api.request import TuneRequest
from harness.core.errors import UsageError
from harness.fleet.measurers import FleetMeasurers, FleetRequest, fleet_measurers
from harness.measure.choose import open_measurers, open_models
from harness.measure.measurer import Measurer
from harness.results.url import shown_database
from harness.tuning.baton import Baton
from harness.tuning.devices import EqualDevices, Joining


def open_devices(
    request: TuneRequest, opened: ExitStack, say: Callable[[str], None]
) -> tuple[Measurer, str]:
    """Open the devices; return their measurer and why they were chosen. `opened` keeps a cluster
    open, and `say` shows what is waited for.

    Raises UsageError for several devices that differ, and for several where one input after
    another is sampled.
    """
    options, most = request.options, _most(request)
    measurers: Mapping[str, Measurer]
    joining: Joining | None = None
    if options.cluster is None:
        measurers, why = open_measurers(request.whole, options.backend, options.device, most)
    else:
        (fleet,) = _open_fleet(request, opened, say)
        measurers, why = fleet.opened.measurers, _why_of_fleet(request, fleet)
        joining = fleet.late if most > 1 and options.validate is None else None
    if len(measurers) == 1 and joining is None:
        return next(iter(measurers.values())), why
    try:
        if options.validate is not None:
            raise UsageError(
                f"--validate samples all inputs on one device, and --device names {len(measurers)};"
                " name one of them"
            )
        devices = EqualDevices(measurers, joining)
    except UsageError:
        for measurer in reversed([*measurers.values()]):
            measurer.close()
        raise
    return devices, f"{why}; {devices.describe()}"


@dataclass(frozen=True)
class ModelDevices:
    """The devices of one model, and why they were chosen. `name` is of the model; where two groups
    of devices share it, it has their driver as well."""

    name: str
    devices: EqualDevices
    why: str


def open_all_models(
    request: TuneRequest, opened: ExitStack, baton: Baton, say: Callable[[str], None]
) -> tuple[list[ModelDevices], list[str]]:
    """Open all devices; return them by model, and why others are not used. `opened` closes them.

    Raises UsageError and BackendUnavailable.
    """
    groups: list[tuple[Mapping[str, Measurer], Joining | None, str]]
    most, skipped = _most(request), list[str]()
    if request.options.cluster is None:
        models, unused = open_models(request.whole, request.options.backend, most)
        groups = [(model.measurers, None, model.why) for model in models]
        skipped.extend(unused)
    else:
        fleet = _open_fleet(request, opened, say)
        groups = [
            (each.opened.measurers, each.late if most > 1 else None, _why_of_fleet(request, each))
            for each in fleet
        ]
    devices = [EqualDevices(measurers, joining, baton) for measurers, joining, _ in groups]
    for each in devices:
        opened.callback(each.close)
    return [
        ModelDevices(name, each, f"{why}; {each.describe()}")
        for name, each, (_, _, why) in zip(_names(devices), devices, groups, strict=True)
    ], skipped


def _names(models: list[EqualDevices]) -> list[str]:
    """Return a name for each model, which no other one has."""
    environments = [devices.environment for devices in models]
    names = [environment.device for environment in environments]
    for more in ("driver", "platform", "compiler", "backend", "cache"):
        if len({*names}) < len(names):
            pairs = zip(names, environments, strict=True)
            names = [f"{name}, {more} {getattr(each, more)}" for name, each in pairs]
    return names


def _most(request: TuneRequest) -> int:
    return len(request.spec.inputs)  # an input is with one device


def _open_fleet(
    request: TuneRequest, opened: ExitStack, say: Callable[[str], None]
) -> list[FleetMeasurers]:
    options = request.options
    assert options.cluster is not None
    driver = f"{platform.node()}: {shown_database(request.database)}"
    names, most = options.device, _most(request)
    asked = FleetRequest(options.cluster, names, most, options.insecure, driver, say)
    return opened.enter_context(fleet_measurers(request.whole, asked))


def _why_of_fleet(request: TuneRequest, fleet: FleetMeasurers) -> str:
    return "; ".join([f"--cluster {request.options.cluster}", *fleet.opened.skipped])
