"""NVIDIA's management library (NVML): sensors, and the processes of others that disturb times.

The only module that imports nvidia-ml-py, as `pynvml`.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.core.text import first_few, printable
from harness.measure.sensors.energy import EnergyCounter, SensorUnavailable

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

_REASONS_CALLS = (
    "nvmlDeviceGetCurrentClocksThrottleReasons",
    "nvmlDeviceGetCurrentClocksEventReasons",  # its later name
)
_ENERGY_CALL = "nvmlDeviceGetTotalEnergyConsumption"
_POWER_CALL = "nvmlDeviceGetPowerUsage"


def load_nvml() -> Any:
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


class NvmlGpu:
    """A GPU as NVML sees it. `denied` has what this user may not read, and NVML's reason."""

    def __init__(self, library: Any, pci_bus_id: str, instance: str = "") -> None:
        """Find a GPU by the bus id that CUDA gives, or the instance of a divided one by its UUID;
        raises SensorUnavailable.

        NVML's own numbers are not CUDA's, which CUDA_VISIBLE_DEVICES changes.
        """
        self.denied: dict[str, str] = {}
        self._library = library
        self._refused: set[str] = set()
        try:
            self._handle = (
                library.nvmlDeviceGetHandleByUUID(instance)
                if instance
                else library.nvmlDeviceGetHandleByPciBusId(pci_bus_id)
            )
        except library.NVMLError as error:
            raise SensorUnavailable(f"NVML does not find the GPU {pci_bus_id}: {error}") from None

    def state(self) -> dict[str, float]:
        """Return what NVML says about the GPU now, as observations."""
        library = self._library
        temperature = self.ask("nvmlDeviceGetTemperature", library.NVML_TEMPERATURE_GPU)
        clock = self.ask("nvmlDeviceGetClockInfo", library.NVML_CLOCK_MEM)
        found = {TEMPERATURE: temperature, MEMORY_CLOCK: clock}
        known = {name: float(value) for name, value in found.items() if value is not None}
        return known | self._throttling()

    def _throttling(self) -> dict[str, float]:
        for call in _REASONS_CALLS:
            bits = self.ask(call)
            if bits is not None:
                there = [name for name, bit in _REASONS.items() if bits & bit]
                return {THROTTLED: float(bool(there))} | {f"{THROTTLED_BY}{n}": 1.0 for n in there}
        return {}

    def counter(self) -> EnergyCounter:
        """Return a counter of the whole GPU's energy; raises SensorUnavailable."""
        mig = self.ask("nvmlDeviceGetMigMode")
        if mig is not None and mig[0]:
            raise SensorUnavailable(
                "the GPU is divided into MIG instances, and NVML counts the energy of them all"
            )
        if self.ask(_ENERGY_CALL) is not None:
            return _TotalEnergy(self)
        if self.ask(_POWER_CALL) is not None:
            return _SummedPower(self)
        reasons = "; ".join(dict.fromkeys(self.denied.values())) or "this GPU does not measure it"
        raise SensorUnavailable(f"NVML gives neither energy nor power: {reasons}")

    def process_name(self, pid: int) -> str:
        """Return the name of a process; empty where this user may not know it."""
        try:
            name = self._library.nvmlSystemGetProcessName(pid)
        except self._library.NVMLError:
            return ""
        return name.decode(errors="replace") if isinstance(name, bytes) else str(name)

    def ask(self, call: str, *arguments: object) -> Any:
        """Call NVML; None where it refuses, after which this is not asked again."""
        if call in self._refused:
            return None
        library = self._library
        function = getattr(library, call, None)
        if function is None:  # another version of nvidia-ml-py
            return None
        try:
            return function(self._handle, *arguments)
        except library.NVMLError as error:
            self._refused.add(call)
            if isinstance(error, library.NVMLError_NoPermission):
                self.denied[call] = str(error)
        return None


class _TotalEnergy:
    """The counter of Volta and later GPUs; an `EnergyCounter`."""

    counts_host = False

    def __init__(self, gpu: NvmlGpu) -> None:
        self._gpu = gpu

    def read_j(self) -> float:
        """Return the joules since the driver was loaded."""
        return _known(self._gpu.ask(_ENERGY_CALL)) * 1e-3


class _SummedPower:
    """The energy of earlier GPUs: readings of the power, times the time since the reading before;
    an `EnergyCounter`."""

    counts_host = False

    def __init__(self, gpu: NvmlGpu) -> None:
        self._gpu = gpu
        self._energy_j = 0.0
        self._at_s = time.perf_counter()

    def read_j(self) -> float:
        """Return the joules since this counter was opened."""
        power_w = _known(self._gpu.ask(_POWER_CALL)) * 1e-3
        now_s = time.perf_counter()
        self._energy_j += power_w * (now_s - self._at_s)
        self._at_s = now_s
        return self._energy_j


def _known(value: int | None) -> int:
    if value is None:
        raise SensorUnavailable("NVML no longer gives the GPU's energy")
    return value


def of_both(before: Mapping[str, float], after: Mapping[str, float]) -> dict[str, float]:
    """Return the later state of a GPU, throttled by what throttled it in either."""
    throttled = {
        name: max(value, after.get(name, 0.0))
        for name, value in before.items()
        if name == THROTTLED or name.startswith(THROTTLED_BY)
    }
    return {**after, **throttled}


_PROCESSES_CALL = "nvmlDeviceGetComputeRunningProcesses"


@dataclass(frozen=True)
class GpuProcess:
    """A process that computes on a GPU; in a container, NVML says its number outside.

    `name` is empty, and `memory_bytes` None, where this user may not know them.
    """

    pid: int
    name: str
    memory_bytes: int | None

    def __str__(self) -> str:
        memory = "" if self.memory_bytes is None else f", {self.memory_bytes / 2**30:.1f} GiB"
        return f"{printable(self.name) or 'unknown'} (process {self.pid}{memory})"


def other_processes(bus_id: str, uuid: str = "") -> tuple[str, ...]:
    """Describe the processes of others that compute on a GPU; none where NVML does not say.

    Call it before this process uses the GPU: in a container, NVML's numbers of processes are not
    those that they have there, so this process would not know itself.
    """
    if not bus_id:
        return ()
    try:
        return tuple(map(str, _processes(NvmlGpu(load_nvml(), bus_id, uuid))))
    except SensorUnavailable:
        return ()


def processes_notice(processes: tuple[str, ...]) -> tuple[str, ...]:
    """Warn of other processes, if there are any."""
    if not processes:
        return ()
    listed = first_few(processes, ", ")
    return (
        f"other processes use this GPU and may disturb its times: {listed}. End them, or name "
        "another device with --device",
    )


def _processes(gpu: NvmlGpu) -> Iterator[GpuProcess]:
    asking = multiprocessing.parent_process()  # not the system's parent, which is a server
    ours = {os.getpid(), asking.pid if asking else None}
    for found in gpu.ask(_PROCESSES_CALL) or ():
        if found.pid not in ours:
            yield GpuProcess(found.pid, gpu.process_name(found.pid), found.usedGpuMemory)
