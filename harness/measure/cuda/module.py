"""Time launches on a CUDA stream, and keep the host's work out of their times; loaded modules, with
launches prepared so that a sample needs few calls.

Where the device reaches a start event before the host has queued the launch behind it, the time
between the events holds the host's delay: some microseconds, or milliseconds where the system lets
another process run. So a kernel that waits for the host stands before the first event, as in
nvbench, and the host lets it end when everything behind it is queued.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import HostTooSlow, LaunchFailed
from harness.core.program import ANY_CARVEOUT, Launch
from harness.core.records import DeviceLimits
from harness.core.text import first_few
from harness.measure.cuda.bindings import LaunchShape
from harness.measure.cuda.cubin import (
    ParameterPlace,
    kernel_symbol,
    packed_arguments,
    parameter_places,
    variable_names,
)
from harness.measure.cuda.gpus import CudaDriver
from harness.measure.device.arguments import Bound, BoundArray, Errors
from harness.measure.device.launch_checks import (
    LoadedModule,
    three,
    values_of,
    why_unlaunchable,
)

PTX = Path(__file__).with_name("kernels.ptx")
"""harness's own kernels, with what they do."""

LIMIT_NS = 500_000_000
"""The device waits no longer: a call that waits for the device would otherwise never return."""

QUEUED_AT_ONCE = 128
"""Launches with their events that are queued before the device may start. A stream takes about a
thousand entries; then the host would wait for the device."""

LEAST_NS = 50_000
"""The least interval of the clock: beside it, the 0.1 us that a kernel may need to see a step are
0.2 %."""

_MOST_MULTIPROCESSORS = 512
"""The rows for multiprocessors, whose numbers may have gaps."""

_RELEASED, _EXPIRED = 0, 1  # words that host and device share


class TimedStream:
    """The default stream of the current context, with events that are used again and again; and the
    clock of the multiprocessors around what was queued last.

    Two small kernels read this clock, as in nvbench. Each multiprocessor counts its own cycles, so
    that only counts of the same one are compared. The GPU's time has steps of 32 ns to 1 us, and
    more on some. Both kernels therefore wait for the beginning of a step, and the second one for
    the end of a least interval. Launches must not begin in step with the GPU's time, which times
    them as well (see harness.measure.device.clocks): the first kernel takes a whole number of
    steps. Every method may raise the driver's errors.
    """

    def __init__(self, driver: CudaDriver, multiprocessors: int) -> None:
        self._driver = driver
        module = driver.load(PTX.read_bytes() + b"\0")
        self._wait_for_host = driver.function(module, "wait_for_host")
        self._start_clock = driver.function(module, "start_clock")
        self._stop_clock = driver.function(module, "stop_clock")
        self._words, self._address = driver.share_words(2)
        self._waits = 0
        self._events: list[tuple[Any, Any]] = []
        self._multiprocessors = multiprocessors
        stamps, self._stamps_address = driver.share_words(4 * _MOST_MULTIPROCESSORS)
        self._stamps = stamps.reshape(_MOST_MULTIPROCESSORS, 4)
        self._has_clock = True
        # At its first launch the driver may load a kernel, and wait for a device that waits.
        self._read_clock(self._start_clock)
        self._read_clock(self._stop_clock, LEAST_NS)
        driver.synchronize()
        # Where the time stands still, each reading would take 4 ms, and find nothing.
        self._has_clock = self.mhz() is not None

    def queue(
        self, launches: Sequence[Callable[[], None]], first: Callable[[], None], device_waits: bool
    ) -> None:
        """Queue `first`, which is not timed, and then the launches, each between two events; what
        was queued before must have ended.

        Where `device_waits`, the device begins when all is queued. The driver may wait for the
        device at the first launch of a function: then the device must not wait.
        """
        driver = self._driver
        while len(self._events) < len(launches):
            self._events.append((driver.event(), driver.event()))
        # What a kernel may have written to the words must change no later wait. Nothing waits for
        # the host now.
        self._words[_RELEASED] = self._waits
        self._words[_EXPIRED] = 0
        self._stamps.fill(0)
        for begin in range(0, len(launches), QUEUED_AT_ONCE):
            end = min(begin + QUEUED_AT_ONCE, len(launches))
            with self._waiting() if device_waits else contextlib.nullcontext():
                if begin == 0:
                    first()
                    self._read_clock(self._start_clock)
                for number in range(begin, end):
                    start, stop = self._events[number]
                    driver.record(start)
                    launches[number]()
                    driver.record(stop)
                if end == len(launches):
                    self._read_clock(self._stop_clock, LEAST_NS)

    @contextlib.contextmanager
    def _waiting(self) -> Iterator[None]:
        """Let the device wait until the body has ended."""
        self._waits += 1
        self._queue_kernel(self._wait_for_host, 1, self._address, self._waits, LIMIT_NS)
        try:
            yield
        finally:
            self._words[_RELEASED] = self._waits

    def _read_clock(self, kernel: Any, *arguments: int) -> None:
        if self._has_clock:
            rows = len(self._stamps)
            blocks = self._multiprocessors
            self._queue_kernel(kernel, blocks, self._stamps_address, rows, *arguments)

    def _queue_kernel(self, kernel: Any, blocks: int, *arguments: int) -> None:
        """Queue one of harness's own kernels, in so many blocks; does not wait."""
        packed = np.array(arguments, np.uint64).tobytes()
        self._driver.launch(kernel, LaunchShape((blocks, 1, 1), (1, 1, 1)), packed)

    def elapsed_s(self, count: int) -> float:
        """Return the sum of the device times of the launches that were queued last, in seconds.

        They must have ended. Raises HostTooSlow where the device did not wait for all of them.
        """
        if self._words[_EXPIRED]:
            raise HostTooSlow(
                f"the device waited {LIMIT_NS * 1e-9:g} s in vain for the host to queue its work"
            )
        return sum(self._driver.elapsed_s(start, stop) for start, stop in self._events[:count])

    def mhz(self) -> float | None:
        """Return the highest clock of the multiprocessors, in MHz, after both readings have ended;
        None where they saw no time.

        A multiprocessor may not count where it has nothing to do, so that the highest clock is the
        device's. A row has cycles and nanoseconds of the first reading of a multiprocessor, and
        those of the second one; zeros where there was none.
        """
        begin_cycles, begin_ns, end_cycles, end_ns = self._stamps.view(np.int64).T
        is_complete = (begin_ns > 0) & (end_ns > begin_ns)
        if not is_complete.any():
            return None
        cycles = (end_cycles - begin_cycles)[is_complete]
        nanoseconds = (end_ns - begin_ns)[is_complete]
        return 1e3 * float((cycles / nanoseconds).max())


# ------------------------------------------------------------------------------- modules


@dataclass
class _CudaFunction:
    """A kernel, what it allows and needs; `has_run` once a launch has ended.

    `dynamic_bytes` are the most of dynamic shared memory that it was let have, `carveout` the
    percentage of shared memory that its launches now prefer.
    """

    handle: Any
    most_threads: int
    registers: int
    static_bytes: int
    places: tuple[ParameterPlace, ...] | None
    dynamic_bytes: int = 0
    carveout: int = ANY_CARVEOUT
    has_run: bool = False


@dataclass
class _PreparedLaunch:
    """A launch that was checked, with its packed arguments."""

    driver: CudaDriver
    function: _CudaFunction
    shape: LaunchShape
    packed: bytes
    carveout: int

    def queue(self) -> None:
        """Queue the launch on the default stream."""
        function = self.function
        if function.carveout != self.carveout:  # another launch of the function changed it
            name = "PREFERRED_SHARED_MEMORY_CARVEOUT"
            self.driver.set_function_attribute(function.handle, name, self.carveout)
            function.carveout = self.carveout
        self.driver.launch(function.handle, self.shape, self.packed)


class CudaModule(LoadedModule):
    """A module on the device."""

    def __init__(
        self,
        driver: CudaDriver,
        cubin: bytes,
        limits: DeviceLimits,
        errors: Errors,
    ) -> None:
        super().__init__(limits, errors)
        self._driver = driver
        self._module = driver.load(cubin)
        self._cubin = cubin
        self._functions: dict[str, _CudaFunction] = {}
        self._variables: dict[str, tuple[int, int]] = {}

    def variable(self, name: str, size_bytes: int) -> int:
        """Return the address of a variable of the module, such as a `__constant__` array.

        Raises LaunchFailed where there is none, or where it is smaller than what fills it.
        """
        if name not in self._variables:
            there = variable_names(self._cubin)
            if name not in there:
                listed = first_few(there, ", ") or "it has none"
                raise LaunchFailed(
                    f"CONSTANT names {name}, but the binary has no variable of this name; its "
                    f"variables: {listed}"
                )
            with self._errors(f"looking up the variable {name}"):
                self._variables[name] = self._driver.variable(self._module, name)
        address, most_bytes = self._variables[name]
        if size_bytes > most_bytes:
            raise LaunchFailed(
                f"the array {name} has {size_bytes:,} bytes, but the variable that it fills has "
                f"{most_bytes:,}"
            )
        return address

    def check(self, launch: Launch, bound: Bound) -> _PreparedLaunch:
        """Check a launch, and pack its arguments."""
        function = self._function(launch.function)
        reason = why_unlaunchable(launch, self._limits, function.static_bytes)
        if reason:
            raise LaunchFailed(reason)
        threads, _ = launch.block
        if threads > function.most_threads:
            raise LaunchFailed(
                f"group {launch.group} of {launch.function} has {threads:,} threads, but with its "
                f"{function.registers} registers and its launch bounds the kernel takes "
                f"{function.most_threads:,}"
            )
        self._allow_memory(function, launch)
        values: list[np.generic] = []
        are_arrays = []
        for value in values_of(launch, bound):
            if isinstance(value, BoundArray):
                values.append(np.uintp(value.memory))
                are_arrays.append(True)
            else:
                values.append(value)
                are_arrays.append(False)
        shape = LaunchShape(
            grid=three(launch.grid),
            group=three(launch.group),
            shared_bytes=launch.shared_bytes,
            cooperative=launch.cooperative,
        )
        packed = packed_arguments(launch, values, are_arrays, function.places)
        return _PreparedLaunch(self._driver, function, shape, packed, launch.carveout)

    def _allow_memory(self, function: _CudaFunction, launch: Launch) -> None:
        """Let a function have its dynamic shared memory, where that needs a permission."""
        wanted = launch.shared_bytes
        if function.static_bytes + wanted <= self._limits.max_local_bytes:
            return
        if wanted > function.dynamic_bytes:
            with self._errors(f"giving {launch.function} {wanted:,} bytes of shared memory"):
                name = "MAX_DYNAMIC_SHARED_SIZE_BYTES"
                self._driver.set_function_attribute(function.handle, name, wanted)
            function.dynamic_bytes = wanted

    def _function(self, name: str) -> _CudaFunction:
        if name in self._functions:
            return self._functions[name]
        driver = self._driver
        try:
            symbol = kernel_symbol(self._cubin, name)
        except LookupError as error:
            raise LaunchFailed(f"looking up {name}: {error}") from None
        with self._errors(f"looking up {name}"):
            handle = driver.function(self._module, symbol)
        with self._errors(f"asking what {name} needs"):
            function = _CudaFunction(
                handle,
                most_threads=driver.function_attribute(handle, "MAX_THREADS_PER_BLOCK"),
                registers=driver.function_attribute(handle, "NUM_REGS"),
                static_bytes=driver.function_attribute(handle, "SHARED_SIZE_BYTES"),
                places=parameter_places(self._cubin, symbol),
            )
        self._functions[name] = function
        return function
