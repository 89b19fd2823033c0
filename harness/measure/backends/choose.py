"""Choose a backend, and say why; or what to install where the requested one cannot run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.core.errors import BackendUnavailable, UsageError
from harness.core.records import WARM
from harness.core.text import suggestion
from harness.measure.backends import cuda, cuda_device, empty_kernel, opencl, opencl_device
from harness.measure.backends.base import Compiler, Device
from harness.measure.backends.nvcc import Nvcc

BACKENDS = ("auto", "cuda", "opencl", "command")


@dataclass(frozen=True)
class Backend:
    """A chosen device, as it is sent to worker processes.

    `language` names the source that it compiles, `compiler` the flags that it understands.
    `arch` is the architecture to compile for; None means that of this machine's device. `cache` is
    what a run finds in the device's caches, WARM or COLD. With `arch_specific`, kernels may use
    what only devices of exactly this architecture have (sm_90a).
    """

    language: str
    compiler: str
    why: str
    opencl_device: opencl.DeviceName | None = None
    arch: str | None = None
    cache: str = WARM
    arch_specific: bool = False

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.opencl_device is None or self.opencl_device.is_gpu

    def open_device(self) -> Device:
        """Open the device in this process."""
        if self.opencl_device is not None:
            return opencl_device.OpenClDevice(self.opencl_device, self.cache)
        return cuda_device.CudaDevice(self.cache)

    def open_compiler(self) -> Compiler:
        """Open the compiler for the device in this process."""
        if self.opencl_device is not None:
            return opencl.OpenClCompiler(self.opencl_device)
        return Nvcc(self.arch or cuda.device_arch(), specific=self.arch_specific)

    def require_working(self, device: Device, compiler: Compiler) -> None:
        """Raise BackendUnavailable, with the cause and the cure, where a GPU runs no empty kernel.

        PoCL loads its compiler first, which takes a second: a command that measures nothing new
        would wait for it in vain.
        """
        if self.is_gpu:
            empty_kernel.require_working(device, compiler, self.language)


def choose(requested: str) -> Backend:
    """Return the requested backend; for `auto` CUDA with a GPU, else an OpenCL GPU, else PoCL.

    Raises BackendUnavailable, which says what is missing and what to install.
    """
    if requested == "cuda":
        try:
            return _cuda("it was requested")
        except BackendUnavailable as error:
            raise BackendUnavailable(f"--backend cuda cannot run here: {error}") from None
    if requested == "opencl":
        return _opencl(opencl.find_device(), "it was requested")
    if requested != "auto":
        raise UsageError(f"there is no backend `{requested}`; {suggestion(requested, BACKENDS)}")
    return _auto()


def _auto() -> Backend:
    try:
        return _cuda("CUDA comes first, and a GPU is here")
    except BackendUnavailable as error:
        no_cuda = str(error)
    try:
        device = opencl.find_device()
    except BackendUnavailable as error:
        raise BackendUnavailable(
            f"no backend can run here.\n  cuda: {no_cuda}\n  opencl: {error}"
        ) from None
    if device.is_gpu:
        return _opencl(device, f"an OpenCL GPU is here, and CUDA is not: {no_cuda}")
    # The whole reason is printed where CUDA is requested.
    return _opencl(device, f"no GPU can be used ({no_cuda.partition(':')[0]})")


def _cuda(why: str) -> Backend:
    # With its architecture known, no process that compiles asks the driver for it again.
    return Backend("cuda", "nvcc", why, arch=cuda.usable_arch())


def _opencl(device: opencl.DeviceName, why: str) -> Backend:
    return Backend("opencl", "opencl", why, device)
