"""Measure how much slower a kernel is if it finds nothing of its data in the device's caches.

The kernel is saxpy, y = a * x + y, on data of several sizes. It runs with warm caches, where each
run finds what the one before left, and with cold ones, which harness empties before each run
(`measure: {cache: ...}` in a space). Cold over warm is near 1 where the data are much larger than
the caches.

    python -m benchmarks.measuring_cache
    python -m benchmarks.measuring_cache --backend cuda --samples 100

It takes a minute, or several on a CPU, whose caches take some 10 ms to empty. Times are medians of
the samples. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from rich.console import Console

from benchmarks.arguments import count, make_parser
from harness.commands.run import run_command
from harness.core.program import Binary, Launch, Program
from harness.core.records import COLD, WARM
from harness.display.text import make_table
from harness.measure.backends.choose import Backend, choose

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


@dataclass(frozen=True)
class CacheTimes:
    """The median times of saxpy on data of one size."""

    size_bytes: int
    warm_s: float
    cold_s: float

    @property
    def cold_over_warm(self) -> float:
        """How many times as long the kernel takes with cold caches."""
        return self.cold_s / self.warm_s


def cache_times(backend: Backend, sizes_bytes: Sequence[int], samples: int) -> list[CacheTimes]:
    """Time saxpy with warm and with cold caches, on data of these sizes (both arrays together)."""
    binary = backend.open_compiler().compile(Program(_SAXPY[backend.language], (), ()))
    warm_s, cold_s = (
        _medians_s(dataclasses.replace(backend, cache=cache), binary, sizes_bytes, samples)
        for cache in (WARM, COLD)
    )
    found = zip(sizes_bytes, warm_s, cold_s, strict=True)
    return [CacheTimes(size, warm, cold) for size, warm, cold in found]


def _medians_s(
    backend: Backend, binary: Binary, sizes_bytes: Sequence[int], samples: int
) -> list[float]:
    device = backend.open_device()
    try:
        module, medians_s = device.load(binary), []
        for size_bytes in sizes_bytes:
            x = np.ones(size_bytes // 8, np.float32)
            device.bind({"x": x, "y": np.zeros_like(x), "a": np.float32(1)})
            launch = Launch("saxpy", (_GROUP,), (x.size // _GROUP,), ("x", "y", "a"))
            times_s = []
            for _ in range(samples + 1):  # the first run warms up
                device.restore({})
                times_s.append(device.launch(module, [launch]))
            medians_s.append(statistics.median(times_s[1:]))
    finally:
        device.close()
    return medians_s


def print_cache_times(console: Console, backend: Backend, samples: int) -> dict[str, float]:
    """Measure and print a table; return cold over warm by the size of the data in bytes."""
    found = cache_times(backend, SIZES_BYTES, samples)
    rows = [
        (
            f"{one.size_bytes / 2**20:g} MiB",
            f"{1e6 * one.warm_s:,.1f}",
            f"{1e6 * one.cold_s:,.1f}",
            f"{one.cold_over_warm:.2f}",
        )
        for one in found
    ]
    head = ("data", "warm, us", "cold, us", "cold over warm")
    console.print(make_table(head, rows, title=f"saxpy; medians of {samples:,} samples"))
    return {str(one.size_bytes): round(one.cold_over_warm, 3) for one in found}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return its exit code."""
    parser = make_parser("measuring_cache", __doc__)
    parser.add_argument("--backend", default="auto", help="auto, cuda or opencl (default auto)")
    parser.add_argument("--samples", type=count, default=30, metavar="N", help="each (30)")
    return run_command(parser, arguments, _run)


def _run(args: argparse.Namespace) -> int:
    console = Console(width=100, highlight=False)
    ratios = print_cache_times(console, choose(args.backend), args.samples)
    print(json.dumps({"cold_over_warm": ratios}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
