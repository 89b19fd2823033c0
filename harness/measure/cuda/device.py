"""Run CUDA kernels.

An illegal address, a trap or a launch that times out breaks the process's context for good:
every later call fails. `CudaDevice` checks this after each failure; then it `is_lost`. Its process
must be replaced, since no new device in it would work.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Sequence
from functools import cached_property, lru_cache
from typing import Any

from harness.core.errors import BackendUnavailable, LaunchFailed, OutOfDeviceMemory
from harness.core.program import Binary, Launch
from harness.core.records import COLD, DEVICE_UUID, WARM, DeviceLimits, Environment
from harness.measure.cuda import probe
from harness.measure.cuda.gpus import driver_version, listed_gpu, load_driver, require_driver
from harness.measure.cuda.module import CudaModule, TimedStream
from harness.measure.device.clocks import ClockWatch
from harness.measure.device.launch_checks import why_unloadable
from harness.measure.device.launcher import Device
from harness.measure.listed_device import ListedDevice

_MOST_MODULES = 2  # of a configuration, and of the one whose bits it must have


class CudaDevice(Device):
    """One GPU, with its primary context current in the thread that opened it.

    Raises BackendUnavailable.
    """

    shares_cpu = False
    """Compilers may run while a kernel does."""

    def __init__(self, cache: str = WARM, gpu: ListedDevice | None = None) -> None:
        """`cache` is WARM or COLD, what runs find in the GPU's caches; `gpu` is None for the first
        one."""
        require_driver()
        number = 0 if gpu is None else gpu.number
        if os.environ.get("CUDA_LAUNCH_BLOCKING", "0") != "0":
            raise BackendUnavailable(
                "CUDA_LAUNCH_BLOCKING is set: the host would wait for each launch, and the device "
                "for the next one, so that times hold the host's work. Unset it"
            )
        self.driver = load_driver()
        super().__init__(self.driver, "context", cache)
        self._module = lru_cache(maxsize=_MOST_MODULES)(self._make_module)
        try:
            self.driver.open(number)
            self._gpu = listed_gpu(probe.describe(number))
        except (self.driver.error, OSError) as error:
            raise BackendUnavailable(
                f"CUDA device {number} cannot be opened: {error}. Check nvidia-smi, "
                "and whether another process holds the device exclusively"
            ) from error
        if gpu is not None and self._gpu.uuid != gpu.uuid:
            raise BackendUnavailable(
                f"CUDA device {number} was {gpu}, but now is {self._gpu.uuid}: "
                "CUDA_VISIBLE_DEVICES or the machine has changed. Run the same command again"
            )
        self._stream = self._open_stream()

    def _open_stream(self) -> TimedStream:
        """Load the kernels that keep the host's work out of times and read the device's clock;
        raises BackendUnavailable."""
        ask = self.driver.device_attribute
        try:
            self.watch = ClockWatch(ask("CLOCK_RATE") * 1e-3 or None)
            return TimedStream(self.driver, ask("MULTIPROCESSOR_COUNT"))
        except self.driver.error as error:
            if _is_out_of_memory(error):
                raise BackendUnavailable(
                    f"the GPU has no memory left: {error}. Other programs hold it, as "
                    "nvidia-smi shows; run the same command again when they have ended"
                ) from error
            raise BackendUnavailable(
                f"the NVIDIA driver does not load harness's own kernels: {error}. Its "
                "compiler of PTX must be there (libnvidia-ptxjitcompiler.so), and "
                "CUDA_DISABLE_PTX_JIT unset"
            ) from error

    @cached_property
    def limits(self) -> DeviceLimits:
        ask = self._attribute
        return DeviceLimits(
            max_group_size=ask("MAX_THREADS_PER_BLOCK"),
            max_group_dims=(ask("MAX_BLOCK_DIM_X"), ask("MAX_BLOCK_DIM_Y"), ask("MAX_BLOCK_DIM_Z")),
            max_grid_dims=(ask("MAX_GRID_DIM_X"), ask("MAX_GRID_DIM_Y"), ask("MAX_GRID_DIM_Z")),
            max_local_bytes=ask("MAX_SHARED_MEMORY_PER_BLOCK"),
            compute_units=ask("MULTIPROCESSOR_COUNT"),
            warp_size=ask("WARP_SIZE"),
            opt_in_local_bytes=ask("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
            # PyCUDA knows neither the attribute nor such launches.
            is_cooperative=self.driver.is_cooperative and bool(ask("COOPERATIVE_LAUNCH")),
        )

    def environment(self, compiler: str) -> Environment:
        """Return the device, the driver's CUDA version and own version, and the compiler."""
        api = f"CUDA {_cuda_version()}"
        ask = self._attribute
        return Environment(
            backend="cuda",
            device=self._gpu.name,
            platform=api,
            driver=driver_version() or api,
            compiler=compiler,
            cache=self._cache,
            notes={
                DEVICE_UUID: self._gpu.uuid,
                "pci_bus_id": self._gpu.bus_id,
                "compute_capability": f"{self._gpu.arch[3:-1]}.{self._gpu.arch[-1]}",
                "memory_bytes": str(self._gpu.memory_bytes),
                "clock_khz": str(ask("CLOCK_RATE")),
                "memory_clock_khz": str(ask("MEMORY_CLOCK_RATE")),
                # No part of the environment: both packages make the same calls of the same driver.
                "driver_package": self.driver.package,
            },
        )

    def load(self, binary: Binary) -> CudaModule:
        """Load the binary's module, or return it if it was loaded last.

        The first launch of new code is slow, which says nothing of how it treats new data.
        """
        reason = why_unloadable(binary.build, self.limits)
        if reason:
            raise LaunchFailed(reason)
        try:
            with self.errors("loading the binary"):
                return self._module(binary.data)
        except OutOfDeviceMemory:
            raise
        except LaunchFailed as error:
            raise LaunchFailed(f"{error}{_advice(binary.build.compiler)}") from None

    def unload(self) -> None:
        """Forget the modules that were loaded last."""
        self._module.cache_clear()

    def _make_module(self, data: bytes) -> CudaModule:
        return CudaModule(self.driver, data, self.limits, self.errors)

    def launch(self, module: CudaModule, launches: Sequence[Launch]) -> float:
        """Run the launches in order, wait, and return the sum of their device times in seconds.

        Each launch is between two events of its own, so that the host's work between launches does
        not count, and the device starts when all is queued (see TimedStream). At the first launch
        of a function the driver may load code, for which it waits for the device: the device does
        not wait, and the time may include the host's work. Raises HostTooSlow where the host was
        too slow.
        """
        bound = self.arguments.bound
        prepared = [module.checked(launch, bound) for launch in launches]
        self._fill_variables(module, launches)
        device_waits = all(queued.function.has_run for queued in prepared)
        with self.errors("running " + ", ".join(launch.function for launch in launches)):
            if self._compares_clocks and self._cache == COLD:
                self._before_launch()
                self._wait()  # the caches are empty when the host's clock starts
            began_s = time.perf_counter()
            self._stream.queue(
                [queued.queue for queued in prepared], self._before_launch, device_waits
            )
            self._wait()
            for queued in prepared:
                queued.function.has_run = True
            elapsed_s = self._stream.elapsed_s(len(prepared))
        if device_waits:
            self._compare_clocks(elapsed_s, began_s, len(prepared))
        return elapsed_s

    def _fill_variables(self, module: CudaModule, launches: Sequence[Launch]) -> None:
        """Copy bound arrays into the module's variables of their names, in stream order."""
        names = set[str]()
        for launch in launches:
            names.update(launch.constants)
        for name in names:
            bound = self.arguments.array(name)
            address = module.variable(name, bound.size_bytes)
            with self.errors(f"filling the variable {name}"):
                self.driver.copy(address, bound.memory, bound.size_bytes)

    def sm_clock_mhz(self) -> float | None:
        """Return the clock of the multiprocessors around the last launches, in MHz; None where the
        GPU's time did not change meanwhile."""
        return self._stream.mhz()

    def _attribute(self, name: str) -> int:
        with self.errors(f"asking for {name}"):
            return self.driver.device_attribute(name)

    def _wait(self) -> None:
        self.driver.synchronize()

    def _timed_fill(self, memory: Any, size_bytes: int) -> float:
        start = self.driver.event()
        stop = self.driver.event()
        self.driver.record(start)
        self.driver.fill(memory, 0, size_bytes)
        self.driver.record(stop)
        self._wait()
        return self.driver.elapsed_s(start, stop)

    @cached_property
    def _cache_bytes(self) -> int:
        return self._attribute("L2_CACHE_SIZE")

    def _why_full(self, error: Exception, allocated_bytes: int) -> str:
        if not _is_out_of_memory(error):
            return ""
        try:
            free_bytes = self.driver.free_bytes()
        except self.driver.error:  # it is lost
            return "See nvidia-smi"
        return (
            f"{free_bytes:,} of the device's {self._gpu.memory_bytes:,} bytes are free; harness "
            f"holds {allocated_bytes:,}, and other programs may hold the rest (nvidia-smi lists "
            "them)"
        )


def _is_out_of_memory(error: Exception) -> bool:
    return "out of memory" in str(error)


def _advice(compiler: str) -> str:
    """Return what to do where the compiler is of a later CUDA than the driver knows.

    A driver runs the code of every toolkit with its own major version or an earlier one.
    """
    version = _cuda_version()
    newest = version.partition(".")[0]
    release = re.match(r"(nvcc|nvrtc) (\d+)\.", compiler)
    if release is None or int(release[2]) <= int(newest):
        return ""
    older = "set CUDACXX to an nvcc" if release[1] == "nvcc" else "install an NVRTC"
    return (
        f". This driver supports up to CUDA {version}, but the compiler is {compiler}: update the "
        f"driver, or {older} of CUDA {newest}"
    )


def _cuda_version() -> str:
    """Return the newest CUDA that the driver supports, such as 12.4."""
    number = probe.cuda_version()
    return f"{number // 1000}.{number % 1000 // 10}"
