"""Choose the sensors of a device, say why some are missing, and read them beside a measurement."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass

from harness.core.errors import HostTooSlow
from harness.core.records import Environment
from harness.measure.sensors.energy import (
    EnergyCounter,
    RaplCounter,
    SensorUnavailable,
    measure_energy,
)
from harness.measure.sensors.nvml import NvmlGpu, load_nvml, of_both

PCI_BUS_ID = "pci_bus_id"
"""The note of an environment by which NVML finds the GPU."""


@dataclass(frozen=True)
class SensorFacts:
    """Why energy cannot be measured, None where it can; and what the user may not read."""

    no_energy: str | None = None
    denied: tuple[str, ...] = ()


def energy_notices(is_wanted: bool, no_energy: str | None) -> tuple[str, ...]:
    """Say why energy is not measured, where it was asked for."""
    return (f"energy is not measured: {no_energy}",) if is_wanted and no_energy else ()


@dataclass(frozen=True)
class Sensors:
    """The sensors of a device; without a GPU that NVML knows, or a counter, these are None."""

    gpu: NvmlGpu | None
    counter: EnergyCounter | None
    facts: SensorFacts

    def state(self) -> dict[str, float]:
        """Return temperature, memory clock and throttling, as observations."""
        return {} if self.gpu is None else self.gpu.state()


def open_sensors(environment: Environment, shares_cpu: bool) -> Sensors:
    """Open what there is; `shares_cpu` means that the device is the processor itself."""
    gpu: NvmlGpu | None = None
    try:
        if not shares_cpu:
            pci_bus_id = _pci_bus_id(environment)
            gpu = NvmlGpu(load_nvml(), pci_bus_id)
        counter = RaplCounter() if gpu is None else gpu.counter()
    except SensorUnavailable as error:
        return Sensors(gpu, None, SensorFacts(str(error), _denied(gpu)))
    return Sensors(gpu, counter, SensorFacts(denied=_denied(gpu)))


def _pci_bus_id(environment: Environment) -> str:
    found = environment.notes.get(PCI_BUS_ID)
    if found is None:
        raise SensorUnavailable(
            "harness reads it from GPUs with --backend cuda, and from processors"
        )
    return found


def _denied(gpu: NvmlGpu | None) -> tuple[str, ...]:
    """Try everything once; return what this user may not read."""
    if gpu is None:
        return ()
    gpu.state()
    return tuple(
        f"NVML refuses {call} ({reason}): its values are left out"
        for call, reason in gpu.denied.items()
    )


class SensorLog:
    """The `observed` state and energy of one configuration; nothing without sensors."""

    def __init__(self, sensors: Sensors | None) -> None:
        self.observed: dict[str, float] = {}
        self._sensors = sensors

    def read(self) -> None:
        """Read the state, before the samples and after them."""
        if self._sensors is not None:
            self.observed = of_both(self.observed, self._sensors.state())

    def measure_energy(
        self,
        run: Callable[[], float],
        restore: Callable[[], float],
        verify: Callable[[], None],
        seconds: float,
    ) -> None:
        """Measure the energy of a run, as `harness.measure.sensors.energy` says.

        A host that is too slow meanwhile does not undo the samples: the energy stays unknown.
        """
        counter = None if self._sensors is None else self._sensors.counter
        if counter is not None:
            with contextlib.suppress(HostTooSlow):
                self.observed |= measure_energy(run, restore, verify, counter, seconds)
