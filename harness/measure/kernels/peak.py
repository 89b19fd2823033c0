"""Measure a device's peak: the bytes that it copies in a second, and the float32 operations that
it calculates in fused multiply-adds. A kernel's work, divided by these, is the roofline's floor: no
run whose data come from memory takes less.

This is also the host module of `peak.cl`, for CUDA and OpenCL.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.errors import LaunchFailed
from harness.core.observations import PEAK_FRACTION, PEAKS, RATES
from harness.core.records import Input
from harness.measure.measurer import Measurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

Amounts = Mapping[str, float]
"""Bytes and float operations (`bytes`, `flops`): of a run, or of the device in a second."""

_STEPS = 512
_PER_UNIT = 1 << 16  # elements: a compute unit has several blocks
_ROUNDS = 5


def arguments(features: Mapping[str, Any], rng: np.random.Generator) -> dict[str, Any]:
    """Return what to copy, the result, and the two numbers of the multiply-adds.

    The elements are multiples of 1/1024 from 0 to 1, so that every step is exact.
    """
    n = int(features["n"])
    a = rng.integers(0, 1025, n, np.int16).astype(np.float32)
    a /= 1024
    b = np.zeros(n, np.float32)
    return {"a": a, "b": b, "p": np.float32(-1), "q": np.float32(1)}


def reference(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result: the input."""
    return {"b": arguments["a"]}


def measure_peak(opened: Callable[[Spec], Measurer], is_gpu: bool) -> Amounts:
    """Measure a device's peak: of each kind of kernel the least time of any configuration.

    `opened` returns a measurer of a space on the device. Raises LaunchFailed where nothing worked,
    HostModuleError where the data do not fit.
    """
    spec = load_spec(Path(__file__).with_suffix(".yaml"))
    peak: dict[str, float] = {}
    with closing(opened(spec)) as measurer:
        units = measurer.limits.compute_units if measurer.limits else 1
        copied = spec.inputs[0 if is_gpu else 1]
        calculated = Input({"n": _PER_UNIT * units})
        for kind, problem, steps, per_element in (
            ("bytes", copied, 0, 8),
            ("flops", calculated, _STEPS, 2 * _STEPS),
        ):
            space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
            configs = [config for config in space if config["STEPS"] == steps]
            measured = measurer.measure_interleaved(space, problem, configs, _ROUNDS)
            times_s = [min(m.timing.samples_s) for m in measured if m.timing]
            if not times_s:
                reason = measured[0].message if measured else "no group of 256 fits on it"
                raise LaunchFailed(reason)
            peak[kind] = per_element * int(str(problem["n"])) / min(times_s)
    return peak


def floor_s(work: Amounts, peak: Amounts) -> float:
    """Return the seconds that work takes at the device's peak; 0 where that is not known."""
    return max((work[kind] / peak[kind] for kind in work if kind in peak), default=0.0)


def rates(work: Amounts, peak: Amounts, time_s: float) -> dict[str, float]:
    """Return what a run of this time moves and calculates in a second, in 10^9, the peak of both,
    and the fraction of the peak, as observations."""
    observed = {RATES[kind]: 1e-9 * amount / time_s for kind, amount in work.items()}
    if peak:
        for kind in work:
            observed[PEAKS[kind]] = 1e-9 * peak[kind]
        observed[PEAK_FRACTION] = floor_s(work, peak) / time_s
    return observed
