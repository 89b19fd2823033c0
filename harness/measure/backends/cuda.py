"""CUDA through PyCUDA: find out whether it can be used here, and what its errors mean.

The only module that imports PyCUDA, when a device is opened or looked for.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any

from harness.core.errors import BackendUnavailable
from harness.measure.backends.cuda_driver import CudaGpu, list_gpus, require_driver
from harness.measure.backends.nvcc import Nvcc

ERROR_MEANINGS = {
    "Error": "the driver failed without a known reason",
    "LogicError": "the driver refused the call, or an earlier launch failed",
    "LaunchError": "the driver refused or aborted the launch",
    "MemoryError": "the device is out of memory",
    "RuntimeError": "the device or the binary cannot be used",
    "CompileError": "PyCUDA could not compile",
}
"""The meaning of each of PyCUDA's exception types; all of them become LaunchFailed."""


def load_pycuda() -> Any:
    """Import pycuda.driver, which initialises nothing; raises BackendUnavailable."""
    if importlib.util.find_spec("pycuda") is None:
        raise BackendUnavailable(
            "PyCUDA is not installed. In the clone of harness, run: pip install -e '.[cuda]'. It "
            "is built from source and needs a C++ compiler and the CUDA toolkit's headers"
        )
    try:
        return importlib.import_module("pycuda.driver")
    except ImportError as error:
        if "undefined symbol: cu" in str(error):
            raise BackendUnavailable(
                f"PyCUDA needs a newer NVIDIA driver than this machine's: {error}. Update the "
                "driver, or rebuild PyCUDA with a CUDA toolkit that is no newer than the driver"
            ) from error
        raise BackendUnavailable(
            f"PyCUDA is installed but cannot be imported: {error}. Rebuild it for this machine: "
            "pip install --force-reinstall --no-cache-dir --no-binary pycuda pycuda"
        ) from error


def meaning_of(error: BaseException) -> str:
    """Return the meaning of an exception of PyCUDA, by its type or nearest known base type."""
    for kind in type(error).__mro__:
        if kind.__name__ in ERROR_MEANINGS:
            return ERROR_MEANINGS[kind.__name__]
    raise TypeError(f"{type(error).__name__} is no exception of PyCUDA's driver")


def usable_gpus() -> tuple[CudaGpu, ...]:
    """Return this machine's GPUs; raises BackendUnavailable, with the next step, where CUDA kernels
    cannot run here.

    Initialises neither the driver nor a context in this process.
    """
    require_driver()
    load_pycuda()
    return list_gpus()


def usable_gpu() -> CudaGpu:
    """Return this machine's first GPU; raises BackendUnavailable as `usable_gpus` does, and where
    nvcc does not compile for it."""
    gpu = usable_gpus()[0]
    require_compiler(gpu.arch)
    return gpu


def require_compiler(arch: str) -> None:
    """Raise BackendUnavailable where this toolkit has dropped an architecture, or does not know it
    yet."""
    Nvcc(arch)


def device_arch() -> str:
    """Return the architecture of the first GPU, such as `sm_90`; opens nothing in this process.

    Raises BackendUnavailable without a GPU.
    """
    return list_gpus()[0].arch
