"""Devices that call Python functions: the CPU, and a GPU."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from harness.core.errors import HostTooSlow
from harness.core.machine import processor, usable_cores
from harness.core.program import PYTHON
from harness.core.records import WARM, DeviceLimits, Environment
from harness.measure.cuda.device import CudaDevice
from harness.measure.device.bound import BoundArray
from harness.measure.python.calling import BuiltCallable, CallingDevice
from harness.measure.python.frameworks import CudaBytes

_ALIGNMENT_BYTES = 64
_CACHE_BYTES = 1 << 25  # where the system does not say it


class CallingCpu(CallingDevice):
    """The CPU. A time is the wall time of the call."""

    clock = "wall time of the call"
    shares_cpu = True

    def __init__(self, framework: str, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the CPU's caches."""
        super().__init__(framework, MemoryError, "process", cache)

    def environment(self, compiler: str) -> Environment:
        """Return the processor, the framework with its clock, and Python's version."""
        return Environment(
            backend=PYTHON,
            device=f"{processor()}, {usable_cores()} cores",
            platform=self._how_timed,
            driver=f"{platform.python_implementation()} {platform.python_version()}",
            compiler=compiler,
            cache=self._cache,
        )

    @property
    def limits(self) -> DeviceLimits:
        """The number of cores; a callable has no groups."""
        most = 2**31 - 1
        return DeviceLimits(most, (most,) * 3, (most,) * 3, most, usable_cores(), 1)

    # ------------------------------------------------------------------------------ memory

    def _allocated(self, size_bytes: int) -> Any:
        memory = np.empty(size_bytes + _ALIGNMENT_BYTES, np.uint8)
        begin = -memory.ctypes.data % _ALIGNMENT_BYTES
        return memory[begin : begin + size_bytes]

    def _inside(self, memory: Any, offset: int, size_bytes: int) -> Any:
        return memory[offset : offset + size_bytes]

    def _write(self, memory: Any, offset: int, array: npt.NDArray[Any]) -> None:
        memory[offset : offset + array.nbytes] = array.reshape(-1).view(np.uint8)

    def _read(self, array: npt.NDArray[Any], memory: Any, offset: int) -> None:
        array.reshape(-1).view(np.uint8)[:] = memory[offset : offset + array.nbytes]

    def _fill(self, memory: Any, offset: int, byte: int, size_bytes: int) -> None:
        memory[offset : offset + size_bytes] = byte

    def _copy(self, memory: Any, offset: int, source: Any, size_bytes: int) -> None:
        memory[offset : offset + size_bytes] = source[:size_bytes]

    def _free(self, whole: Any, part: Any = None) -> None:
        """Do nothing: memory goes with the last array that is in it."""

    def _wait(self) -> None:
        """Do nothing: all has ended when a call returns."""

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        began_s = time.perf_counter()
        self._fill(memory, 0, 0, size_bytes)
        return time.perf_counter() - began_s

    @property
    def _cache_bytes(self) -> int:
        name = "SC_LEVEL3_CACHE_SIZE"
        return (os.sysconf(name) if name in os.sysconf_names else 0) or _CACHE_BYTES

    def _is_out_of_memory(self, error: Exception) -> bool:
        return True  # MemoryError says nothing else

    def _describe_memory(self) -> str:
        return f"harness holds {self._held_bytes:,} bytes; other programs may hold the rest"

    def _bytes(self, bound: BoundArray) -> Any:
        return bound.memory

    def _timed(self, built: BuiltCallable) -> tuple[float, object]:
        self._before_launch()
        return self._called(built)


class CallingGpu(CallingDevice, CudaDevice):
    """A GPU. A time is that between two events of CUDA around all that a call has queued."""

    clock = "CUDA events"

    def environment(self, compiler: str) -> Environment:
        """Return the GPU, its driver, and the framework with its clock."""
        environment = super().environment(compiler)
        return replace(
            environment, backend=PYTHON, platform=f"{self._how_timed}, {environment.platform}"
        )

    def _bytes(self, bound: BoundArray) -> Any:
        return CudaBytes(int(bound.memory), bound.size_bytes)

    def _compile(self, built: BuiltCallable) -> None:
        """Call for the first time, and find out whether the device may be held back meanwhile: not
        where the callable itself waits for it, whose time then holds the host's work."""
        self._call(built)
        built.is_held = True
        try:
            self._call(built)
        except HostTooSlow:
            built.is_held = False
        built.host_s.clear()

    def _timed(self, built: BuiltCallable) -> tuple[float, object]:
        called: list[tuple[float, object]] = []
        with self._errors("running the callable"):
            self._stream.queue(
                [lambda: called.append(self._called(built))], self._before_launch, built.is_held
            )
            self._wait()
            elapsed_s = self._stream.elapsed_s(1)
        host_s, returned = called[0]
        built.host_s.append(host_s)
        return elapsed_s, returned
