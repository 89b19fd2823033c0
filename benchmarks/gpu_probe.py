"""Try what harness takes for granted of a GPU. A part takes a minute or less.

    python -m benchmarks.gpu_probe clock

    facts      the device, its driver, the compilers, the packages and the machine
    host       the host's share of a sample, with idle and with busy cores: the times of an empty
               kernel in microseconds above the shortest one that was held until all was queued, as
               harness does (`held`), and of one that was not (`one call`)
    events     the times between two events beside those that CUPTI reads, with and without CUPTI;
               needs cupti-python
    clock      the clock after a pause, and a small kernel measured against itself, with all runs
               kept, and with those at a low clock thrown away, as harness does
    caches     how much slower a kernel is with cold caches than with warm ones, by the size of its
               data: near 1 where they are much larger than the caches
    compilers  nvcc and NVRTC: the times to compile the defaults of some spaces, whether the machine
               code is equal, and the ratio of the kernels' times, interleaved, with its interval

The kernel is y = 2 x. Of the clock, `first` is that around the first launch after a pause,
`settled` the median of the last half of half a second, and `settled_after` says when all later
clocks are within 2 % of it; `different` has the share of trials that call the kernel different from
itself, `interval` the median width of the ratio's 95 % interval, and `low` the runs that were
thrown away per kept one. The last line is one JSON object. `benchmarks.gpu_hour` runs each part as
a step, with `--rehearse` without a GPU.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import importlib.metadata
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.frame import Figures, benchmark, busy, option
from harness.core.errors import HarnessError
from harness.core.machine import notes, usable_cores
from harness.core.observations import THROTTLED_SAMPLES
from harness.core.program import Binary, Launch, Program
from harness.core.records import COLD, WARM, Config, Input, Measurement
from harness.measure.cuda.bindings import LaunchShape
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import CUDA_COMPILERS, first_usable, list_gpus, open_cuda_compiler
from harness.measure.cuda.module import TimedStream
from harness.measure.device.clocks import GPU_WARMUP_S, ClockWatch
from harness.measure.device.launcher import Compiler
from harness.measure.device.verify import Tolerance
from harness.measure.kernels.data import KernelData, KernelJob, make_kernel_data
from harness.measure.kernels.trial import measure_interleaved
from harness.space import ConstrainedSpace
from harness.space.constrained import make_program
from harness.space_file import load_spec
from harness.stats.timing import Sampling, TimeRatio, time_ratio

ROUNDS = 20
RUN_S = 0.5
SPACES = Path(__file__).resolve().parents[1] / "spaces"
COMPILED = ("mvmul", "modern/gemm", "modern/softmax", "modern/spmv")
PACKAGES = ("cuda-bindings", "pycuda", "cupti-python", "nvidia-cuda-nvrtc", "nvidia-ml-py", "numpy")
TOOLS = (("nvidia-smi", "-q"), ("nvcc", "--version"), ("gcc", "--version"))
SOURCE = """\
extern "C" __global__ void nothing() {}
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
"""
_SETTLED_WITHIN = 0.02
_EVENT_BYTES = tuple(1 << bits for bits in (16, 22, 28))
_CACHE_BYTES = tuple(1 << bits for bits in range(16, 30, 2))
_CUPTI_BUFFER_BYTES = 1 << 23
_ONE = (1, 1, 1)
_GROUP = 256


def doubling(size_bytes: int) -> tuple[KernelData, tuple[Launch, ...]]:
    """Return the data of `twice`, so many bytes in both arrays, and its launch."""
    x = np.ones(size_bytes // 8, np.float32)
    launch = Launch("twice", (_GROUP,), (x.size // _GROUP,), ("x", "y"))
    return KernelData({"x": x, "y": np.zeros_like(x)}, {"y": 2 * x}, ()), (launch,)


DATA, LAUNCHES = doubling(1 << 19)


def _compiler() -> Compiler:
    arch = list_gpus()[0].arch
    return open_cuda_compiler(first_usable(arch), arch)


def opened(cache: str = WARM) -> tuple[CudaDevice, Binary]:
    """Open the first GPU, with SOURCE compiled; raises BackendUnavailable without a GPU."""
    return CudaDevice(cache), _compiler().compile(Program(SOURCE, (), ()))


def facts(args: argparse.Namespace) -> Figures:
    """Print what NVIDIA's tools say; return what is known of the device and the machine."""
    for command in TOOLS:
        with contextlib.suppress(OSError):
            subprocess.run(command, check=False, timeout=20)
    versions = {}
    for package in PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    device, _ = opened()
    known = {**asdict(device.environment(_compiler().identity)), "tick_s": device.tick_s}
    return {**known, "packages": versions, "machine": notes()}


# ---------------------------------------------------------------------------------- host


def host_times_us(samples: int) -> dict[str, list[float]]:
    """Time an empty kernel with idle and with busy cores, launched in each way."""
    found = {}
    device, binary = opened()
    stream = TimedStream(device.driver, device.limits.compute_units)
    nothing = device.driver.function(device.driver.load(binary.data), "nothing")
    once = partial(_time_us, device, stream, nothing)
    once(False)  # the first launch of a function is never held
    for cores, count in (("idle", 0), ("busy", usable_cores())):
        with busy(count):
            for way in ("one call", "held"):
                found[f"{cores}, {way}"] = [once(way == "held") for _ in range(samples)]
    return found


def _time_us(device: CudaDevice, stream: TimedStream, kernel: Any, device_waits: bool) -> float:
    launch = partial(device.driver.launch, kernel, LaunchShape(_ONE, _ONE), b"")
    stream.queue([launch], lambda: None, device_waits)
    device.driver.synchronize()
    return 1e6 * stream.elapsed_s(1)


def host_shares(times_us: Mapping[str, Sequence[float]]) -> dict[str, dict[str, float]]:
    """Return the host's share of the times: what they are above the shortest held launch."""
    least = min(min(times) for way, times in times_us.items() if way.endswith("held"))
    names = ("median", "p99", "max")
    return {
        way: dict(zip(names, (np.quantile(times, [0.5, 0.99, 1.0]) - least).tolist(), strict=True))
        for way, times in times_us.items()
    }


def host(args: argparse.Namespace) -> Figures:
    """Measure the host's share of a sample."""
    times_us = host_times_us(args.samples)
    return {**host_shares(times_us), "least_us": min(times_us["idle, held"])}


# ---------------------------------------------------------------------------------- times


def _times_s(device: CudaDevice, binary: Binary, size_bytes: int, samples: int) -> list[float]:
    """Time `twice`; the first run, which warms up, is not among the times."""
    data, launches = doubling(size_bytes)
    device.bind(data.arguments)
    module = device.load(binary)
    times_s = []
    for _ in range(samples + 1):
        device.arguments.restore({})
        times_s.append(device.launch(module, launches))
    return times_s[1:]


def _median_us(times_s: Sequence[float]) -> float:
    return 1e6 * statistics.median(times_s)


def events(args: argparse.Namespace) -> Figures:
    """Time `twice` by events alone, and by events and CUPTI at once."""
    cupti = importlib.import_module("cupti.cupti")
    kind = cupti.ActivityKind.CONCURRENT_KERNEL
    read_s: list[float] = []

    def completed(records: Sequence[Any]) -> None:
        read_s.extend(1e-9 * (one.end - one.start) for one in records if one.name == "twice")

    found = {}
    cupti.activity_register_callbacks(lambda: (_CUPTI_BUFFER_BYTES, 0), completed)
    device, binary = opened()
    for size_bytes in _EVENT_BYTES:
        alone_s = _times_s(device, binary, size_bytes, args.samples)
        cupti.activity_enable(kind)
        beside_s = _times_s(device, binary, size_bytes, args.samples)
        cupti.activity_flush_all(1)
        cupti.activity_disable(kind)
        if not read_s:
            raise HarnessError(f"CUPTI read none of {args.samples} launches of `twice`")
        times_s = {"alone_us": alone_s, "events_us": beside_s, "cupti_us": read_s}
        found[_size(size_bytes)] = {how: _median_us(one) for how, one in times_s.items()}
        read_s.clear()
    return found


def caches(args: argparse.Namespace) -> Figures:
    """Time `twice` with warm and with cold caches, on data of several sizes."""
    found: dict[str, dict[str, float]] = {}
    for cache in (WARM, COLD):
        device, binary = opened(cache)
        for size_bytes in _CACHE_BYTES:
            if size_bytes <= args.most_mib << 20:
                times_s = _times_s(device, binary, size_bytes, args.samples)
                found.setdefault(_size(size_bytes), {})[f"{cache}_us"] = _median_us(times_s)
    for one in found.values():
        one["cold_over_warm"] = one[f"{COLD}_us"] / one[f"{WARM}_us"]
    return found


def _size(size_bytes: int) -> str:
    return f"{size_bytes / 2**20:g} MiB"


# ---------------------------------------------------------------------------------- clock


class IndulgentWatch(ClockWatch):
    """A watch for which no clock is low."""

    def is_low(self, mhz: float | None) -> bool:
        """Return False."""
        return False


def rise(device: CudaDevice, binary: Binary, pause_s: float) -> dict[str, float]:
    """Let the device pause, then launch a kernel for half a second, reading its clock; return
    nothing where the clock is not known."""
    module = device.load(binary)
    time.sleep(pause_s)
    began_s, found = time.perf_counter(), []
    while (now_s := time.perf_counter() - began_s) < RUN_S:
        device.launch(module, LAUNCHES)
        found.append((now_s, device.sm_clock_mhz() or np.nan))
    at_s, clocks_mhz = np.array(found).T
    if np.isnan(clocks_mhz).any():
        return {}
    settled = float(np.median(clocks_mhz[len(found) // 2 :]))
    off = np.flatnonzero(abs(clocks_mhz / settled - 1) > _SETTLED_WITHIN)
    after_s = float(at_s[min(off[-1] + 1, len(found) - 1)]) if len(off) else 0.0
    first = float(clocks_mhz[0])
    return {"first_mhz": first, "settled_mhz": settled, "settled_after_ms": 1e3 * after_s}


def equal_times(
    device: CudaDevice, binary: Binary, watch: ClockWatch, trials: int
) -> dict[str, float]:
    """Measure the kernel against itself."""
    device.watch = watch
    jobs = [_job(binary, LAUNCHES)] * 2
    pairs = [
        measure_interleaved(device, [DATA], jobs, ROUNDS, seed).measured for seed in range(trials)
    ]
    ratios = [_ratio(*pair) for pair in pairs]
    thrown = sum(each.observed.get(THROTTLED_SAMPLES, 0) for pair in pairs for each in pair)
    return {
        "interval_percent": 100 * statistics.median(ratio.high - ratio.low for ratio in ratios),
        "different_percent": 100 * statistics.fmean(ratio.is_significant for ratio in ratios),
        "low_percent": 100 * thrown / (2 * ROUNDS * trials),
    }


def _job(binary: Binary, launches: tuple[Launch, ...]) -> KernelJob:
    return KernelJob(
        config=Config({}),
        input=Input({}),
        binary=binary,
        sampling=Sampling(repeats=ROUNDS, warmup_time_s=GPU_WARMUP_S),
        launches=launches,
        tolerance=Tolerance(),
    )


def _ratio(one: Measurement, other: Measurement) -> TimeRatio:
    if one.timing is None or other.timing is None:
        raise HarnessError(f"the kernel failed: {one.message or other.message}")
    return time_ratio(one.timing, other.timing)


def clock(args: argparse.Namespace) -> Figures:
    """Measure how the clock rises, and what low clocks do to times."""
    device, binary = opened()
    device.bind(DATA.arguments)
    rises = {f"{pause:g} s": rise(device, binary, pause) for pause in args.pauses}
    full_mhz = device.watch.full_mhz
    watches = {"kept": IndulgentWatch(full_mhz), "thrown away": ClockWatch(full_mhz)}
    equal = {how: equal_times(device, binary, watch, args.trials) for how, watch in watches.items()}
    return {"after_a_pause": rises, "low_clocks": equal}


# ---------------------------------------------------------------------------------- compilers


def compilers(args: argparse.Namespace) -> Figures:
    """Compile the defaults of some spaces with nvcc and with NVRTC, and run both interleaved."""
    found = {}
    for name in COMPILED:
        spec = load_spec(SPACES / f"{name}.yaml")
        problem = spec.inputs[0]
        data = make_kernel_data(spec.host, problem)
        device, _ = opened()
        device.bind(data.arguments)
        space = ConstrainedSpace.of(spec, problem, device.limits, "nvcc")
        program = make_program(spec, space, space.default, "cuda")
        launch = space.launch(space.default, spec.functions[0], tuple(data.arguments))
        both = [open_cuda_compiler(one, list_gpus()[0].arch) for one in CUDA_COMPILERS]
        made = [compiler.compile(program) for compiler in both]
        jobs = [_job(binary, (launch,)) for binary in made]
        ratio = _ratio(*measure_interleaved(device, [data], jobs, ROUNDS).measured)
        nvcc, nvrtc = (binary.build for binary in made)
        found[name] = {
            "nvcc_s": nvcc.compile_s,
            "nvrtc_s": nvrtc.compile_s,
            "is_equal": nvcc.binary_sha256 == nvrtc.binary_sha256,
            "nvcc_over_nvrtc": [ratio.value, ratio.low, ratio.high],
        }
    return found


PARTS: Mapping[str, Callable[[argparse.Namespace], Figures]] = {
    part.__name__: part for part in (facts, host, events, clock, caches, compilers)
}


@benchmark(
    option("part", what=", ".join(PARTS), choices=PARTS),
    option("--samples", 100, "samples of host, events and caches"),
    option("--trials", 50, "trials of clock"),
    option("--pauses", [0.1, 1.0, 5.0], "of clock, in seconds", nargs="+", type=float),
    option("--most-mib", 256, "the largest data of caches"),
)
def main(args: argparse.Namespace) -> Figures:
    """Run a part."""
    return PARTS[args.part](args)


if __name__ == "__main__":
    sys.exit(main())
