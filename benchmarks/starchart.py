"""Try Starchart's claims on its own spaces: few samples, a small error, and faster designs.

Each space of spaces/starchart/ is sampled uniformly, on a GPU on its largest input and on a CPU on
its smallest one: small inputs take a GPU less time than a launch. A tree learns from more and more
samples, as `tune --validate` does it: from 200 at least, and until the interval of its median
relative error on reserved samples is below the target. 100 reserved samples are then measured
twice, all in one random order: a target below the median relative difference of the two times is
not tried. The fastest sample and the default are measured again, interleaved. Run it where harness
is installed, on a machine that does nothing else:

    python -m benchmarks.starchart

It takes 5 minutes a kernel on a CPU. The last line is one JSON object of its figures, which
`benchmarks/papers.py` reads from results/starchart/. The paper, on GPUs: an error of 8 % from
200 samples; for 15 %, 3,200 samples of matrix and 400 of nbody; designs 6.3 times as fast as the
default on hotspot and 17 times on nbody.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks.frame import SEED, Figures, benchmark, option, show
from benchmarks.kernels import kernels, measured
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole
from harness.measure.devices import Backend
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec
from harness.stats import Estimate
from harness.stats.timing import TimeRatio, time_ratio
from harness.tuning.validation import CurvePoint, UniformSampling, validate

QUICK = {"repeats": 5, "min_repeats": 3}
ROUNDS = 20
PUBLISHED_SAMPLES, PUBLISHED_ERROR = 200, 0.08
MEASURED_TWICE = 100


def verdict(error: Estimate | None, target: float, noise: float) -> str:
    """Say whether an error reached its target; one below the noise is not tried."""
    if error is not None and error.value <= target:
        return "reached"
    return "not tried" if error is None or target < noise else "not reached"


class UniformSampler(UniformSampling):
    """Measures uniform samples of one input, in an order that the seed fixes."""

    def __init__(
        self, measurer: KernelMeasurer, space: ConstrainedSpace, problem: Input, seed: int
    ) -> None:
        self._measurer, self._space, self._problem, self._seed = measurer, space, problem, seed
        self.measured: dict[SampleRole, list[Measurement]] = {role: [] for role in SampleRole}

    def begin_samples(self, title: str, samples: int) -> None:
        """Say on standard error what is measured next."""
        print(f"  {title}", file=sys.stderr, flush=True)

    def is_time_up(self) -> bool:
        """Whether the time is up: there is no limit."""
        return False

    def draw_samples(
        self, role: SampleRole, problem: Input, draws: int, held_out: frozenset[Config]
    ) -> Sequence[Measurement]:
        """Return the first `draws` samples of a role; those of earlier calls are kept."""
        found = self.measured[role]
        rng = random.Random(f"{self._seed}:{role.value}:{len(found)}")
        taken = held_out.union(m.config for m in found)
        configs = self._space.sample(rng, draws - len(found), taken)
        self._measurer.expect(self._space, configs)
        for config in configs:
            found.append(self._measurer.measure(self._space, problem, config, None))
        return list(found)

    def noise(self) -> float:
        """Measure reserved samples twice, all in one random order; return the median relative
        difference of their times, infinity where none worked twice."""
        self.begin_samples("noise", 2 * MEASURED_TWICE)
        reserved = self.measured[SampleRole.RESERVED]
        worked = [m.config for m in reserved if m.outcome is Outcome.OK][:MEASURED_TWICE]
        order, times_s = 2 * worked, defaultdict[Config, list[float]](list)
        random.Random(self._seed).shuffle(order)
        for config in order:
            again = self._measurer.measure(self._space, self._problem, config, None)
            if again.outcome is Outcome.OK:
                times_s[config].append(again.time_s)
        pairs = [found for found in times_s.values() if len(found) == 2]
        differences = [abs(first - second) / second for first, second in pairs]
        return statistics.median(differences) if differences else math.inf


@benchmark(
    *kernels("starchart"),
    option("--samples", 400, "most samples to learn from"),
    option("--target", 0.15, "median relative error"),
    SEED,
)
def main(args: argparse.Namespace) -> Figures:
    """Sample each space."""
    figures, rows = measured(_row, args, QUICK)
    show([*rows[0]], [row.values() for row in rows], figures["device"])
    return {**figures, "target": args.target, "kernels": rows}


def _row(
    spec: Spec, backend: Backend, measurer: KernelMeasurer, args: argparse.Namespace
) -> dict[str, Any]:
    """Compute a line: `samples` is how many the tree learnt from when it reached the target, or in
    the end, `share` that of the legal configurations, `error` its median relative error then with a
    95 % interval, `error_of_200` that of the tree of 200 samples, None without so many, `noise` the
    median relative difference of two measurements of a reserved sample, `verdict` on the target,
    `verdict_of_200` on the paper's 8 %, `speedup` that of the best sample over the default."""
    problem = spec.inputs[-1 if backend.is_gpu else 0]
    space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
    sampler = UniformSampler(measurer, space, problem, args.seed)
    legal = space.count
    estimate = legal or space.estimate_count(random.Random(args.seed))[0]
    first, last, reserved = _sampled(sampler, {problem: estimate}, args)
    made = [m for role in sampler.measured.values() for m in role if m.outcome is Outcome.OK]
    best = min(made, key=lambda m: m.time_s).config
    ratio, noise = _over_default(measurer, space, problem, best), sampler.noise()
    of_200 = first.error.median if first.samples == PUBLISHED_SAMPLES else None
    return {
        "kernel": spec.path.stem,
        "input": str(problem),
        "legal": estimate,
        "reserved": reserved,
        "error_of_200": of_200,
        "verdict_of_200": verdict(of_200, PUBLISHED_ERROR, noise),
        "samples": last.samples,
        "share": last.samples / estimate,
        "failed": last.failed,
        "error": last.error.median,
        "noise": noise,
        "verdict": verdict(last.error.median, args.target, noise),
        "speedup": Estimate(ratio.value, ratio.low, ratio.high) if ratio else None,
    }


def _sampled(
    sampler: UniformSampler, counts: Mapping[Input, float], args: argparse.Namespace
) -> tuple[CurvePoint, CurvePoint, int]:
    """Return the tree of 200 samples, the one that reaches the target, or else the last, and the
    number of reserved samples."""
    limit = min(args.samples, PUBLISHED_SAMPLES)
    found = validate(sampler, counts, 0.0, limit, args.seed)
    of_first = found.curve[-1]
    if min(point.error.median.high for point in found.curve) > args.target:
        found = validate(sampler, counts, args.target, args.samples, args.seed)
    reached = [point for point in found.curve if point.error.median.high <= args.target]
    return of_first, (reached or found.curve[-1:])[0], found.reserved


def _over_default(
    measurer: KernelMeasurer, space: ConstrainedSpace, problem: Input, best: Config
) -> TimeRatio | None:
    """Measure the best and the default interleaved; None where one of them fails."""
    pair = measurer.measure_interleaved(space, problem, [space.default, best], ROUNDS)
    timings = [m.timing for m in pair]
    if timings[0] is None or timings[1] is None:
        return None
    return time_ratio(timings[0], timings[1])


if __name__ == "__main__":
    sys.exit(main())
