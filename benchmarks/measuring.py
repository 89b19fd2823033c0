"""Measure how harness measures: what makes times differ, and what is called different.

    python -m benchmarks.measuring loads --space spaces/mvmul.yaml
    python -m benchmarks.measuring host ticks caches clock

    loads     what a load of the code and an allocation of the data change (measuring_loads.py)
    host      the host's share of the time of an empty CUDA kernel (measuring_host.py)
    ticks     how often kernels of a few clock ticks are called different, simulated
              (measuring_ticks.py)
    caches    how much slower a kernel is with cold caches (measuring_cache.py)
    clock     how a GPU's clock rises after a pause, and what low clocks do to times
              (measuring_clock.py)

Each part's file says what its figures mean. `host` and `clock` need a GPU, or the stand-in for
CUDA's driver. A part takes a minute or some. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.frame import Figures, benchmark, option
from benchmarks.measuring_cache import measure_caches
from benchmarks.measuring_clock import measure_clock
from benchmarks.measuring_host import measure_host
from benchmarks.measuring_loads import measure_loads
from benchmarks.measuring_ticks import measure_ticks
from harness.measure.devices import choose

Part = Callable[[argparse.Namespace], Mapping[str, Any]]

PARTS: Mapping[str, Part] = {
    "loads": lambda args: measure_loads(choose(args.backend), args.space, args.rounds),
    "host": lambda args: measure_host(args.samples),
    "ticks": lambda args: measure_ticks(args.trials),
    "caches": lambda args: measure_caches(choose(args.backend), args.samples),
    "clock": lambda args: measure_clock(args.trials),
}


@benchmark(
    option("part", what="loads, host, ticks, caches or clock", nargs="+", choices=PARTS),
    option("--space", Path("spaces/mvmul.yaml"), "the kernel's space, for loads"),
    option("--backend", "auto", "auto, cuda or opencl, for loads and caches"),
    option("--rounds", 100, "launches of each load"),
    option("--samples", 100, "samples of host and caches"),
    option("--trials", 50, "trials of ticks and clock"),
)
def main(args: argparse.Namespace) -> Figures:
    """Run the parts that are asked for."""
    return {part: PARTS[part](args) for part in args.part}


if __name__ == "__main__":
    sys.exit(main())
