"""Measure how much of a CUDA sample is the host's work: the times of an empty kernel.

There are two ways to launch it between two events:

    one call    what harness calls between the events
    held        as harness does: the device waits until the host has queued all of it

The cores are idle, or a process on each core keeps them busy, as compilers do. All figures are in
microseconds above the shortest time of a held launch. Where there is no GPU, this runs over the
stand-in for its driver that the tests use, with the device's time of the kernel given:

    python -m tests.helpers.stub_driver FOLDER
    LD_LIBRARY_PATH=FOLDER CUDA_STUB_KERNEL_NS=2000 python -m benchmarks.measuring host
"""

from __future__ import annotations

import contextlib
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import numpy.typing as npt

from benchmarks.frame import show
from harness.core.machine import usable_cores
from harness.measure.cuda.calls import CudaDriver, LaunchShape
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.stream import TimedStream

Times = npt.NDArray[np.float64]
"""Microseconds."""

Measured = Mapping[tuple[str, str], Times]
"""By what the cores do and the way to launch."""

_PTX = b"""\
.version 6.0
.target sm_50
.address_size 64
.visible .entry nothing() { ret; }
\0"""
_ONE = (1, 1, 1)


def host_times(samples: int) -> dict[tuple[str, str], Times]:
    """Time an empty kernel with idle and with busy cores, launched in each way.

    Raises BackendUnavailable without a GPU.
    """
    device = CudaDevice()
    driver = device.driver
    stream = TimedStream(driver, device.limits.compute_units)
    nothing = driver.function(driver.load(_PTX), "nothing")
    launch = partial(driver.launch, nothing, LaunchShape(_ONE, _ONE), b"")
    found = {}
    for cores, load in (("idle", contextlib.nullcontext), ("busy", _busy_cores)):
        with load():
            for way, is_held in (("one call", False), ("held", True)):
                found[cores, way] = _sample(driver, stream, launch, is_held, samples)
    return found


def _sample(
    driver: CudaDriver, stream: TimedStream, launch: Callable[[], None], is_held: bool, samples: int
) -> Times:
    times = np.empty(samples)
    for number in range(-1, samples):  # the first launch of a function is never held
        stream.queue([launch], _nothing, is_held and number >= 0)
        driver.synchronize()
        if number >= 0:
            times[number] = 1e6 * stream.elapsed_s(1)
    return times


def _nothing() -> None:
    pass


@contextlib.contextmanager
def _busy_cores() -> Iterator[None]:
    """Keep every core busy with a process of its own."""
    command = [sys.executable, "-c", "print(flush=True)\nwhile True: pass"]
    busy = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(usable_cores())]
    try:
        for process in busy:
            assert process.stdout is not None
            process.stdout.readline()
        yield
    finally:
        for process in busy:
            process.kill()
            process.wait()


def figures(measured: Measured) -> dict[str, dict[str, dict[str, float]]]:
    """Return the host's share of the times, in microseconds, by cores and way to launch."""
    least = min(times.min() for (_, way), times in measured.items() if way == "held")
    found: dict[str, dict[str, dict[str, float]]] = {}
    for (cores, way), times in measured.items():
        median, p99, most = np.quantile(times - least, [0.5, 0.99, 1.0])
        shares = {"median": median, "p99": p99, "max": most}
        found.setdefault(cores, {})[way] = {k: round(float(v), 3) for k, v in shares.items()}
    return found


def measure_host(samples: int) -> dict[str, dict[str, dict[str, float]]]:
    """Measure, print a table, and return its figures."""
    found = figures(host_times(samples))
    rows = [
        (cores, way, *shares.values())
        for cores, ways in found.items()
        for way, shares in ways.items()
    ]
    head = ("cores", "launch", "median", "99th percentile", "longest")
    show(head, rows, f"the host's share of an empty kernel's time, us; {samples:,} samples")
    return found
