"""List the devices of this machine, each with why it cannot be used, and who uses it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from functools import cache

from harness.core.errors import BackendUnavailable
from harness.measure.cuda.gpus import (
    VISIBLE,
    CudaGpu,
    first_usable,
    list_gpus,
    load_driver,
    require_driver,
)
from harness.measure.devices import ListedDevice, device_line
from harness.measure.opencl import driver as opencl
from harness.measure.process.locks import holder_of
from harness.measure.sensors.nvml import other_processes

_ORDER = "CUDA_DEVICE_ORDER"


def inventory() -> Iterator[str]:
    """Yield the lines of the list, as `--device` names the devices."""
    yield "cuda"
    try:
        require_driver()
        gpus = list_gpus()
    except BackendUnavailable as error:
        yield f"  cannot be used: {error}"
    else:
        yield from _gpu_lines(gpus)
    yield "opencl"
    try:
        yield from (device_line(each) + _use(each) for each in opencl.usable_devices())
    except BackendUnavailable as error:
        yield f"  cannot be used: {error}"


def _gpu_lines(gpus: Sequence[CudaGpu]) -> Iterator[str]:
    for gpu in gpus:
        reason = _why_unusable(gpu.arch)
        yield device_line(gpu) + _use(gpu) + (f"; cannot be used: {reason}" if reason else "")
    hidden = os.environ.get(VISIBLE)
    if hidden is not None:
        yield f"  {VISIBLE}={hidden} chooses and numbers them"
    buses = [gpu.bus_id for gpu in gpus]
    if hidden is None and buses != sorted(buses):
        yield f"  nvidia-smi numbers them otherwise; with {_ORDER}=PCI_BUS_ID, CUDA does as well"


def _use(device: ListedDevice) -> str:
    """Say which process of harness measures on a device, and which others compute on it."""
    holder = holder_of(device.identity)
    if holder:
        return f"; {holder} measures on it"
    others = other_processes(device.bus_id, device.instance)
    return f"; used by {', '.join(others)}" if others else ""


@cache
def _why_unusable(arch: str) -> str:
    """Return why kernels for an architecture cannot be compiled or run here, else nothing."""
    try:
        load_driver()
        first_usable(arch)
    except BackendUnavailable as error:
        return str(error)
    return ""
