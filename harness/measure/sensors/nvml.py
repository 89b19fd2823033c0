"""Read the sensors of a device: a GPU's state by NVIDIA's management library (NVML), the processes
that disturb its times, and the counter of its energy.

The only module that imports nvidia-ml-py, as `pynvml`.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.records import Environment
from harness.core.text import printable
from harness.measure.sensors.energy import EnergyCounter, SensorUnavailable

PCI_BUS_ID = "pci_bus_id"
"""The note of an environment by which NVML finds the GPU."""

TEMPERATURE = "temperature_c"
MEMORY_CLOCK = "memory_clock_mhz"
THROTTLED = "throttled"
THROTTLED_BY = "throttled_by_"
"""The observations. `throttled` is 1 where something slowed the clocks down, else 0; an observation
such as `throttled_by_sw_power_cap` names what did."""

_REASONS = {
    "sw_power_cap": 0x04,
    "hw_slowdown": 0x08,
    "sw_thermal": 0x20,
    "hw_thermal": 0x40,
    "hw_power_brake": 0x80,
}
"""NVML's bits. Not among them: an idle GPU, and clocks that somebody has set."""

_ENERGY_CALL = "nvmlDeviceGetTotalEnergyConsumption"


def _load_nvml() -> Any:
    """Import NVML and start it; raises SensorUnavailable."""
    try:
        import pynvml
    except ImportError:
        raise SensorUnavailable(
            "the library nvidia-ml-py is not installed. Run `pip install nvidia-ml-py`"
        ) from None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        raise SensorUnavailable(f"NVML does not start: {error}. Check nvidia-smi") from None
    return pynvml


class _NvmlGpu:
    """A GPU as NVML sees it."""

    def __init__(self, library: Any, pci_bus_id: str, instance: str = "") -> None:
        """Find a GPU by the bus id that CUDA gives, or the instance of a divided one by its UUID;
        raises SensorUnavailable.

        NVML's own numbers are not CUDA's, which CUDA_VISIBLE_DEVICES changes.
        """
        self._library = library
        self._refused: dict[str, str] = {}  # NVML's reasons, by calls
        try:
            if instance:
                self._handle = library.nvmlDeviceGetHandleByUUID(instance)
            else:
                self._handle = library.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
        except library.NVMLError as error:
            raise SensorUnavailable(f"NVML does not find the GPU {pci_bus_id}: {error}") from None

    def state(self) -> dict[str, float]:
        """Return what NVML says about the GPU now, as observations."""
        library = self._library
        observed: dict[str, float] = {}
        temperature = self.ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU)
        if temperature is not None:
            observed[TEMPERATURE] = float(temperature)
        clock = self.ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_MEM)
        if clock is not None:
            observed[MEMORY_CLOCK] = float(clock)
        bits = self.ask("nvmlDeviceGetCurrentClocksThrottleReasons")
        if bits is not None:
            observed[THROTTLED] = 0.0
            for name, bit in _REASONS.items():
                if bits & bit:
                    observed[THROTTLED] = observed[THROTTLED_BY + name] = 1.0
        return observed

    def counter(self) -> EnergyCounter:
        """Return a counter of the whole GPU's energy; raises SensorUnavailable."""
        mig = self.ask("nvmlDeviceGetMigMode")
        if mig is not None and mig[0]:
            raise SensorUnavailable(
                "the GPU is divided into MIG instances, and NVML counts the energy of them all"
            )
        self._total_j()
        return self._total_j

    def _total_j(self) -> float:
        """Return the joules since the driver was loaded, on Volta and later GPUs."""
        total_mj: int | None = self.ask(_ENERGY_CALL)
        if total_mj is None:
            reason = self._refused.get(_ENERGY_CALL, "this nvidia-ml-py has no call for it")
            raise SensorUnavailable(f"NVML does not give the GPU's energy: {reason}")
        return total_mj * 1e-3

    def processes(self) -> tuple[str, ...]:
        """Describe the processes of others that compute on the GPU."""
        ours = {os.getpid(), os.getppid()}  # the parent is the process that asks
        running = self.ask("nvmlDeviceGetComputeRunningProcesses") or ()
        return tuple(self._described(process) for process in running if process.pid not in ours)

    def _described(self, process: Any) -> str:
        """Describe a process; its name and memory may be secret."""
        name = ""
        with contextlib.suppress(self._library.NVMLError):
            name = self._library.nvmlSystemGetProcessName(process.pid)
        if isinstance(name, bytes):
            name = name.decode(errors="replace")
        memory = ""
        if process.usedGpuMemory is not None:
            memory = f", {process.usedGpuMemory / 2**30:.1f} GiB"
        return f"{printable(name) or 'unknown'} (process {process.pid}{memory})"

    def ask(self, call: str, *arguments: object) -> Any:
        """Call NVML; None where it refuses, after which this is not asked again."""
        function = getattr(self._library, call, None)
        if function is None or call in self._refused:  # another version of nvidia-ml-py lacks it
            return None
        try:
            return function(self._handle, *arguments)
        except self._library.NVMLError as error:
            self._refused[call] = str(error)
            return None


def of_both(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the later state of a GPU, throttled by what throttled it in either."""
    both = dict(after)
    for name, value in before.items():
        if name.startswith(THROTTLED):
            both[name] = max(value, after.get(name, 0.0))
    return both


def other_processes(bus_id: str, uuid: str = "") -> tuple[str, ...]:
    """Describe the processes of others that compute on a GPU; none where NVML does not say.

    Call it before this process uses the GPU: in a container, NVML's numbers of processes are not
    those that they have there, so this process would not know itself.
    """
    if bus_id:
        with contextlib.suppress(SensorUnavailable):
            return _NvmlGpu(_load_nvml(), bus_id, uuid).processes()
    return ()


def energy_notices(is_wanted: bool, no_energy: str | None) -> tuple[str, ...]:
    """Say why energy is not measured, where it was asked for."""
    return (f"energy is not measured: {no_energy}",) if is_wanted and no_energy else ()


@dataclass(frozen=True)
class Sensors:
    """The sensors of a device; without a GPU that NVML knows, or a counter, these are None.

    `no_energy` is why energy cannot be measured, None where it can.
    """

    gpu: _NvmlGpu | None = None
    counter: EnergyCounter | None = None
    no_energy: str | None = None

    def state(self) -> dict[str, float]:
        """Return temperature, memory clock and throttling, as observations."""
        return {} if self.gpu is None else self.gpu.state()


NO_SENSORS = Sensors()


def open_sensors(environment: Environment) -> Sensors:
    """Open what there is."""
    if PCI_BUS_ID not in environment.notes:
        return Sensors(no_energy="harness reads it from GPUs with --backend cuda")
    gpu = None
    try:
        gpu = _NvmlGpu(_load_nvml(), environment.notes[PCI_BUS_ID])
        return Sensors(gpu, gpu.counter())
    except SensorUnavailable as error:
        return Sensors(gpu, no_energy=str(error))
