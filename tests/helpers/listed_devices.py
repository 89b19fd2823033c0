"""Devices as CUDA and OpenCL list them, on machines that are not here."""

from dataclasses import replace

from harness.measure.devices import Backend
from harness.measure.listed_device import CUDA, OPENCL, ListedDevice

H100 = ListedDevice(
    CUDA,
    0,
    "NVIDIA H100",
    is_gpu=True,
    arch="sm_90",
    memory_bytes=80 << 30,
    bus_id="0000:1B:00.0",
    uuid="GPU-aa",
)
EQUAL = replace(H100, number=1, uuid="GPU-ab", bus_id="0000:1C:00.0")
CPU = ListedDevice(OPENCL, 0, "cpu", is_gpu=False, platform="Portable Computing Language", units=2)
AMD = ListedDevice(OPENCL, 0, "gfx90a", is_gpu=True, platform="AMD")


def backend_of(device, arch=None):
    """Make the backend of a device; of CUDA without one."""
    is_opencl = device is not None and device.interface == OPENCL
    language, compiler = ("opencl", "opencl") if is_opencl else ("cuda", "nvcc")
    return Backend(language, compiler, "a test", device, arch)
