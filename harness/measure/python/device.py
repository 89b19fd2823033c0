"""Devices that call Python functions: the CPU, and a GPU."""

from __future__ import annotations

import os
import platform
import time
from dataclasses import replace
from typing import Any

from harness.core.errors import HostTooSlow
from harness.core.machine import processor, usable_cores
from harness.core.program import PYTHON
from harness.core.records import WARM, DeviceLimits, Environment
from harness.measure.cuda.device import CudaDevice
from harness.measure.device.memory import NumpyMemory
from harness.measure.python.calling import BuiltCallable, CallingDevice

_CACHE_BYTES = 1 << 25  # where the system does not say it
_MOST = 2**31 - 1


class CallingCpu(CallingDevice):
    """The CPU. A time is the wall time of the call."""

    clock = "wall time of the call"
    shares_cpu = True

    def __init__(self, framework: str, cache: str = WARM) -> None:
        """`cache` is WARM or COLD, what runs find in the CPU's caches."""
        super().__init__(framework, NumpyMemory(), "process", cache)

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
        return DeviceLimits(
            max_group_size=_MOST,
            max_group_dims=(_MOST, _MOST, _MOST),
            max_grid_dims=(_MOST, _MOST, _MOST),
            max_local_bytes=_MOST,
            compute_units=usable_cores(),
            warp_size=1,
        )

    def _wait(self) -> None:
        """Do nothing: all has ended when a call returns."""

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        began_s = time.perf_counter()
        self._memory.fill(memory, 0, size_bytes)
        return time.perf_counter() - began_s

    @property
    def _cache_bytes(self) -> int:
        name = "SC_LEVEL3_CACHE_SIZE"
        if name not in os.sysconf_names:
            return _CACHE_BYTES
        return os.sysconf(name) or _CACHE_BYTES

    def _why_full(self, error: Exception, allocated_bytes: int) -> str:
        # MemoryError says nothing else.
        return f"harness holds {allocated_bytes:,} bytes; other programs may hold the rest"

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

    def _compile(self, built: BuiltCallable) -> None:
        """Call for the first time, and find out whether the device may wait meanwhile: not where
        the callable itself waits for it, whose time then includes the host's work."""
        self._call(built)
        built.device_waits = True
        try:
            self._call(built)
        except HostTooSlow:
            built.device_waits = False
        built.host_s.clear()

    def _timed(self, built: BuiltCallable) -> tuple[float, object]:
        called: list[tuple[float, object]] = []

        def call() -> None:
            called.append(self._called(built))

        with self.errors("running the callable"):
            self._stream.queue([call], self._before_launch, built.device_waits)
            self._wait()
            elapsed_s = self._stream.elapsed_s(1)
        host_s, returned = called[0]
        built.host_s.append(host_s)
        return elapsed_s, returned
