"""Measure how much slower a kernel is if it finds nothing of its data in the device's caches.

The kernel is saxpy, y = a * x + y, on data of several sizes. It runs with warm caches, where each
run finds what the one before left, and with cold ones, which harness empties before each run
(`measure: {cache: ...}` in a space). Cold over warm is near 1 where the data are much larger than
the caches.
"""

from __future__ import annotations

import dataclasses
import statistics

import numpy as np

from benchmarks.frame import show
from harness.core.program import Binary, Launch, Program
from harness.core.records import COLD, WARM
from harness.measure.devices import Backend

SIZES_BYTES = tuple(1 << bits for bits in (16, 18, 20, 22, 24, 26, 28))
_GROUP = 256
_SAXPY = {
    "cuda": """extern "C" __global__ void saxpy(const float *x, float *y, float a)
{
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = a * x[i] + y[i];
}""",
    "opencl": """kernel void saxpy(global const float *x, global float *y, float a)
{
    int i = get_global_id(0);
    y[i] = a * x[i] + y[i];
}""",
}


def measure_caches(backend: Backend, samples: int) -> dict[str, float]:
    """Time saxpy with warm and with cold caches; print a table, and return cold over warm by the
    size of the data (both arrays together) in bytes."""
    binary = backend.open_compiler().compile(Program(_SAXPY[backend.language], (), ()))
    warm_s, cold_s = (
        _medians_s(dataclasses.replace(backend, cache=cache), binary, samples)
        for cache in (WARM, COLD)
    )
    found = list(zip(SIZES_BYTES, warm_s, cold_s, strict=True))
    show(
        ("data, MiB", "warm, us", "cold, us", "cold over warm"),
        [(size / 2**20, 1e6 * warm, 1e6 * cold, cold / warm) for size, warm, cold in found],
        f"saxpy; medians of {samples:,} samples",
    )
    return {str(size): cold / warm for size, warm, cold in found}


def _medians_s(backend: Backend, binary: Binary, samples: int) -> list[float]:
    device = backend.open_device()
    module, medians_s = device.load(binary), []
    for size_bytes in SIZES_BYTES:
        x = np.ones(size_bytes // 8, np.float32)
        device.bind({"x": x, "y": np.zeros_like(x), "a": np.float32(1)})
        launch = Launch("saxpy", (_GROUP,), (x.size // _GROUP,), ("x", "y", "a"))
        times_s = []
        for _ in range(samples + 1):  # the first run warms up
            device.restore({})
            times_s.append(device.launch(module, [launch]))
        medians_s.append(statistics.median(times_s[1:]))
    device.bind({})  # the next one has room
    return medians_s
