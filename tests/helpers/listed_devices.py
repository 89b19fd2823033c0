"""Devices as CUDA and OpenCL list them, on machines that are not here."""

from dataclasses import replace

from harness.measure.cuda.gpus import CudaGpu
from harness.measure.devices import Backend
from harness.measure.opencl.driver import DeviceName

H100 = CudaGpu(0, "NVIDIA H100", "GPU-aa", "0000:1B:00.0", "sm_90", 80 << 30)
EQUAL = replace(H100, ordinal=1, uuid="GPU-ab", bus_id="0000:1C:00.0")
CPU = DeviceName("Portable Computing Language", 0, "cpu", is_gpu=False)
AMD = DeviceName("AMD", 0, "gfx90a", is_gpu=True)


def backend_of(device, arch=None):
    """Make the backend of a device; of CUDA without one."""
    is_opencl = isinstance(device, DeviceName)
    language, compiler = ("opencl", "opencl") if is_opencl else ("cuda", "nvcc")
    return Backend(language, compiler, "a test", device, arch)
