"""Measure a GPU's clock: how it rises after a pause, and what low clocks do to times.

After each pause a small kernel runs for half a second. `first` is the clock around its first
launch, `settled` the median of the last half, and `after` says when all later clocks are within 2 %
of it.

Then that kernel is measured against itself, in 20 interleaved rounds, once with all runs kept, as
harness did before it read the clock, and once with those at a low clock thrown away. `interval` is
the median width of the ratio's 95 % interval, `different` has the share of trials that call the
kernel different from itself, and `low` counts the runs that were thrown away, per kept one.

Where there is no GPU, this runs over the stand-in for its driver that the tests use, whose
stub.h describes the clocks that it can be given:

    python -m tests.helpers.stub_driver FOLDER
    export LD_LIBRARY_PATH=FOLDER CUDA_STUB_KERNEL_NS=5000 CUDA_STUB_SM_MHZ=990,1500,1980
    python -m benchmarks.measuring clock
"""

from __future__ import annotations

import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.frame import show
from harness.core.errors import HarnessError
from harness.core.observations import THROTTLED_SAMPLES
from harness.core.program import Binary, Launch, Program
from harness.core.records import Config, Input, Measurement
from harness.measure.clock_watch import GPU_WARMUP_S, ClockWatch
from harness.measure.cuda.device import CudaDevice
from harness.measure.cuda.gpus import list_gpus
from harness.measure.cuda.nvcc import Nvcc
from harness.measure.kernel_data import KernelData
from harness.measure.kernel_job import KernelJob
from harness.measure.kernel_runner import measure_interleaved
from harness.measure.verify import Tolerance
from harness.stats.timing import Sampling, TimeRatio, time_ratio

PAUSES_S = (0.1, 1.0, 5.0)
ROUNDS = 20
RUN_S = 0.5
_SETTLED_WITHIN = 0.02
SOURCE = """\
extern "C" __global__ void twice(const float *x, float *y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 2 * x[i];
}
"""
_X = np.ones(1 << 16, np.float32)
DATA = KernelData({"x": _X, "y": np.zeros_like(_X)}, {"y": 2 * _X}, ())
LAUNCHES = (Launch("twice", (256,), (_X.size // 256,), ("x", "y")),)


@dataclass(frozen=True)
class ClockRise:
    """The clock after a pause, in MHz; None where it is not known."""

    pause_s: float
    first_mhz: float | None = None
    settled_mhz: float | None = None
    settled_after_ms: float | None = None


@dataclass(frozen=True)
class EqualTimes:
    """What came of measuring a kernel against itself."""

    interval_percent: float
    different_percent: float
    low_percent: float


class IndulgentWatch(ClockWatch):
    """A watch for which no clock is low."""

    def is_low(self, mhz: float | None) -> bool:
        """Return False."""
        return False


def rise(device: CudaDevice, binary: Binary, pause_s: float) -> ClockRise:
    """Let the device pause, then launch a kernel for half a second, reading its clock."""
    module = device.load(binary)
    time.sleep(pause_s)
    began_s, found = time.perf_counter(), []
    while (now_s := time.perf_counter() - began_s) < RUN_S:
        device.launch(module, LAUNCHES)
        found.append((now_s, device.sm_clock_mhz() or np.nan))
    at_s, clocks_mhz = np.array(found).T
    if np.isnan(clocks_mhz).any():
        return ClockRise(pause_s)
    settled = float(np.median(clocks_mhz[len(found) // 2 :]))
    off = np.flatnonzero(abs(clocks_mhz / settled - 1) > _SETTLED_WITHIN)
    after_s = at_s[min(off[-1] + 1, len(found) - 1)] if len(off) else 0.0
    return ClockRise(pause_s, float(clocks_mhz[0]), settled, 1e3 * float(after_s))


def equal_times(device: CudaDevice, binary: Binary, watch: ClockWatch, trials: int) -> EqualTimes:
    """Measure the kernel against itself."""
    device.watch = watch
    sampling = Sampling(repeats=ROUNDS, warmup_time_s=GPU_WARMUP_S)
    job = KernelJob(
        config=Config({}),
        input=Input({}),
        binary=binary,
        sampling=sampling,
        launches=LAUNCHES,
        tolerance=Tolerance(),
    )
    pairs = [
        measure_interleaved(device, [DATA], [job, job], ROUNDS, seed) for seed in range(trials)
    ]
    ratios = [_ratio(*pair) for pair in pairs]
    thrown = sum(each.observed.get(THROTTLED_SAMPLES, 0) for pair in pairs for each in pair)
    return EqualTimes(
        interval_percent=100 * statistics.median(ratio.high - ratio.low for ratio in ratios),
        different_percent=100 * statistics.fmean(ratio.is_significant for ratio in ratios),
        low_percent=100 * thrown / (2 * ROUNDS * trials),
    )


def _ratio(one: Measurement, other: Measurement) -> TimeRatio:
    if one.timing is None or other.timing is None:
        raise HarnessError(f"the kernel failed: {one.message or other.message}")
    return time_ratio(one.timing, other.timing)


def measure_clock(trials: int) -> dict[str, Any]:
    """Measure on the first GPU, print tables, and return the figures; raises BackendUnavailable
    without a GPU."""
    device = CudaDevice()
    device.bind(DATA.arguments)
    binary = Nvcc(list_gpus()[0].arch).compile(Program(SOURCE, (), ()))
    rises = [asdict(rise(device, binary, pause_s)) for pause_s in PAUSES_S]
    full_mhz = device.watch.full_mhz
    watches = {"kept": IndulgentWatch(full_mhz), "thrown away": ClockWatch(full_mhz)}
    equal = {
        how: asdict(equal_times(device, binary, watch, trials)) for how, watch in watches.items()
    }
    head = ("pause, s", "first, MHz", "settled, MHz", "after, ms")
    show(head, [one.values() for one in rises], "the clock after a pause")
    head = ("low clocks", "interval, %", "different, %", "low, %")
    show(head, [(how, *one.values()) for how, one in equal.items()], "a kernel against itself")
    return {"rises": rises, "equal": equal}
