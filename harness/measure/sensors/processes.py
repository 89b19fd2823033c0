"""The processes of others that use a GPU, which may disturb its times."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Iterator
from dataclasses import dataclass

from harness.core.text import first_few, printable
from harness.measure.sensors.energy import SensorUnavailable
from harness.measure.sensors.nvml import NvmlGpu, load_nvml

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
