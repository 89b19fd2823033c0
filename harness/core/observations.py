"""What is observed of a measurement besides its times: quantities by name, and a wrong element."""

from __future__ import annotations

from dataclasses import dataclass

CLOCK_ERROR = "clock_error_s"
"""The observation of a measurement whose times the clock may put off by so much."""

RUNS_PER_SAMPLE = "runs_per_sample"
"""The observation of a measurement whose samples are means of several runs."""

SM_CLOCK_MHZ = "sm_clock_mhz"
"""The observation of the GPU's clock in the runs of a measurement: their median."""

THROTTLED_SAMPLES = "throttled_samples"
"""The observation of how many runs were thrown away for a low clock; absent where none were."""

HOST_RETRIES = "host_retries"
"""The observation of how many runs were taken again since the host was too slow; absent where none
were."""

HOST = "host_s"
"""The observation of a callable on a GPU: the seconds that the host took for a call, from the call
to its return."""

UNTIMED = "untimed_s"
"""The observation of a program that reports its own time: the seconds of its process outside of
it."""

ENERGY_SPREAD = "energy_spread_j"
"""The observation of half the 95 % confidence interval of an energy."""

UNCLAIMED = "unclaimed"
"""The observation of a measurement whose gain its first runs on new data do not show: 1."""

OUTPUT_BITS = "output_bits"
"""The observation of a digest of a kernel's outputs on the search's data: a whole number below
2^48, equal where all bits are equal. It is VARYING_BITS where two runs differ."""

VARYING_BITS = 0.0

RATES = {"bytes": "gb_per_s", "flops": "gflop_per_s"}
"""The observations of a kernel whose space says its `work`: what it does in a second, in 10^9."""

PEAKS = {"bytes": "peak_gb_per_s", "flops": "peak_gflop_per_s"}
"""The observations of what its device does in a second at most, in 10^9."""

PEAK_FRACTION = "peak_fraction"
"""The observation of the least time that the work takes at the device's peak, over the time."""

SPILL_BYTES = "spill_bytes"
"""The observation of what a work-item spills of its registers; absent where it spills none."""

COUNTS = (THROTTLED_SAMPLES, HOST_RETRIES)
"""Observations that are counts of runs."""

HOW_TIMED = (
    *(CLOCK_ERROR, RUNS_PER_SAMPLE, *COUNTS, UNTIMED, ENERGY_SPREAD, UNCLAIMED, OUTPUT_BITS),
    *PEAKS.values(),
)
"""Observations of the measuring and the device, which say nothing of the configuration."""


@dataclass(frozen=True)
class WorstElement:
    """The element of an output that is farthest outside its tolerance.

    Integers stay integers, so that different integers above 2^53 do not look equal. For a complex
    element this is the part that is farther off: `argument` then ends in `.real` or `.imag`.
    """

    argument: str
    index: tuple[int, ...]
    found: int | float
    expected: int | float
    tolerance: int | float
    wrong_count: int
    count: int

    def __str__(self) -> str:
        index = ", ".join(map(str, self.index))
        return (
            f"{self.argument}[{index}] is {_exactly(self.found)}, expected "
            f"{_exactly(self.expected)} +- {self.tolerance:.3g}; "
            f"{self.wrong_count:,} of {self.count:,} elements are wrong"
        )


def _exactly(number: int | float) -> str:
    return str(number) if isinstance(number, int) else f"{number:.9g}"
