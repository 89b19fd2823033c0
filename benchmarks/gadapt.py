"""Try G-ADAPT's claims on its programs: tests of hill climbing, accuracy, and what choices cost.

Each configuration of each space of spaces/gadapt/ is measured on every input, all of an input
interleaved. G-ADAPT's model learns from all inputs but one which configuration is best, and chooses
for that one. Of configurations that tie on an input, the best is the one that ties on most inputs.
Hill climbing walks over the measured times. The first half of the rounds says which configuration
is best; the second half says how fast it and the chosen one are. Inputs on which the default takes
longer than `--longest` are left out, so that a CPU is fast enough. Run it where harness is
installed, on a machine that does nothing else:

    python -m benchmarks.gadapt

All seven programs take 10 minutes on a CPU, `--kernel` one takes minutes or less. The last line is
one JSON object of its figures, which `benchmarks/papers.py` reads from results/gadapt/. The
paper, on a GPU: the best configuration on 80 to 100 % of the inputs, 1.5 to 2.8 times as fast as
the default, and up to 6.4 times slower with the best configuration of another input.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd

from benchmarks.frame import Figures, benchmark, option, show
from benchmarks.kernels import kernels, measured
from harness.core.arrays import Array
from harness.core.errors import UsageError
from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.devices import Backend
from harness.measure.kernels.measurer import KernelMeasurer
from harness.models.gadapt import judge
from harness.search.techniques import steps_up
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec
from harness.stats import Estimate
from harness.stats.samples import SampleStatistics, within_noise

CHOICE_SEEDS, JUDGE_SEEDS = (2,), (4,)  # of two sets of data each


@dataclass(frozen=True)
class Times:
    """Median seconds, shape (inputs, configurations), infinity for a failure: those that say which
    is best, those that judge it, and which of the first do not differ from the best. `test_s`,
    shape (inputs,), are the seconds that a test of the first half took with all its work."""

    chosen_s: Array
    judged_s: Array
    tied: npt.NDArray[np.bool_]
    test_s: Array


def climbing_tests(space: Space, times_s: Mapping[Config, float]) -> int:
    """Count the tests of G-ADAPT's hill climbing on an input whose times are known."""
    here = space.decode([0] * len(space.parameters))
    tested = {here}
    while steps := list(steps_up(space, here)):
        tested.update(steps)
        here = min(steps, key=lambda step: times_s[step])
    return len(tested)


def figures_of(
    spec: Spec, spaces: Mapping[Input, Space], configs: Sequence[Config], times: Times
) -> dict[str, Any]:
    """Compute a line from the times of all configurations on the inputs that were measured:
    `accuracy` is the share of inputs for which the model chose the best configuration or a tie,
    `exact` without ties, `frequent` what always choosing the most frequent label gives,
    `training_s` the seconds of the hill-climbing `tests`, builds included, and of the learning,
    `fraction` the geometric mean of the share of the best performance, `speedup` that of the choice
    over the default, with the least and the largest of an input, `cross` the largest ratio of an
    input's time with the best of another input to that with its own, `spread` the largest ratio of
    the worst to the best of an input, `best` the number of inputs of which each configuration is
    the label."""
    inputs = list(spaces)
    features = pd.DataFrame([dict(problem) for problem in inputs])
    candidates = pd.DataFrame([dict(config) for config in configs])
    best_s = times.chosen_s.min(axis=1, keepdims=True)
    # The model learns from the first of equal ones: those that tie on most inputs go first.
    order = np.argsort(-times.tied.sum(axis=0), kind="stable")
    with_ties_s = np.where(times.tied, best_s, times.chosen_s)[:, order]
    began_s = time.perf_counter()
    with_ties = judge(features, candidates.iloc[order], with_ties_s)
    learning_s = (time.perf_counter() - began_s) / len(inputs)
    exact = judge(features, candidates, times.chosen_s)
    rows = np.arange(len(inputs))
    chosen = times.judged_s[rows, order[with_ties.inputs["chosen"].to_numpy()]]
    labels = Counter(str(configs[order[label]]) for label in with_ties.inputs["best"])
    default = configs.index(spaces[inputs[0]].default)
    speedups = (times.judged_s[:, default] / chosen).tolist()
    winners = times.chosen_s.argmin(axis=1)
    best = times.judged_s[rows, winners]
    crossed = times.judged_s[:, winners] / best[:, None]
    worked = np.where(np.isinf(times.chosen_s), -np.inf, times.chosen_s)
    worst = times.judged_s[rows, worked.argmax(axis=1)]
    tests = [
        climbing_tests(space, dict(zip(configs, row, strict=True)))
        for space, row in zip(spaces.values(), times.chosen_s.tolist(), strict=True)
    ]
    return {
        "kernel": spec.path.stem,
        "inputs": len(inputs),
        "inputs_of_space": len(spec.inputs),
        "configurations": len(configs),
        "tests": sum(tests),
        "training_s": float(np.dot(tests, times.test_s)) + learning_s,
        "accuracy": with_ties.accuracy,
        "exact": exact.accuracy,
        "frequent": max(labels.values()) / len(inputs),
        "fraction": statistics.geometric_mean((best / chosen).tolist()),
        "speedup": Estimate(statistics.geometric_mean(speedups), min(speedups), max(speedups)),
        "cross": float(crossed[np.isfinite(crossed)].max()),
        "spread": float((worst / best).max()),
        "best": dict(labels.most_common()),
    }


@benchmark(
    *kernels("gadapt"),
    option("--rounds", 5, "of each half"),
    option("--longest", 0.3, "the longest time of the default, in seconds"),
)
def main(args: argparse.Namespace) -> Figures:
    """Measure each program."""
    figures, rows = measured(_row, args, {})
    show([*rows[0]][:-1], [[*row.values()][:-1] for row in rows], figures["device"])
    return {**figures, "programs": rows}


def _row(
    spec: Spec, _: Backend, measurer: KernelMeasurer, args: argparse.Namespace
) -> dict[str, Any]:
    """Measure all configurations of a space on the inputs that are small enough."""
    configs: list[Config] = []
    spaces: dict[Input, Space] = {}
    found: list[tuple[list[Measurement], list[Measurement]]] = []
    test_s: list[float] = []
    for problem in spec.inputs:
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        configs = configs or list(space)
        if list(space) != configs:
            raise UsageError(f"{spec.path}: ({problem}) has other legal configurations")
        first = measurer.measure(space, problem, space.default, None)
        print(f"  {spec.name}: {problem}: {first.time_s:.4g} s", file=sys.stderr, flush=True)
        if first.outcome is Outcome.OK and first.time_s <= args.longest:
            spaces[problem] = space
            began_s = time.perf_counter()
            chosen = measurer.measure_interleaved(
                space, problem, configs, args.rounds, CHOICE_SEEDS
            )
            test_s.append((time.perf_counter() - began_s) / len(configs))
            judged = measurer.measure_interleaved(space, problem, configs, args.rounds, JUDGE_SEEDS)
            found.append((chosen, judged))
    if len(found) < 2:
        raise UsageError(f"{spec.path}: two inputs are needed; use a larger --longest")
    return figures_of(spec, spaces, configs, _times(found, test_s))


def _times(
    found: Sequence[tuple[Sequence[Measurement], Sequence[Measurement]]], test_s: Sequence[float]
) -> Times:
    chosen, judged = (
        np.array([[m.time_s for m in pair[half]] for pair in found]) for half in (0, 1)
    )
    return Times(chosen, judged, np.array([_ties(pair[0]) for pair in found]), np.array(test_s))


def _ties(row: Sequence[Measurement]) -> list[bool]:
    """Say which configurations of an input do not differ significantly from its best."""
    timings = {place: m.timing for place, m in enumerate(row) if m.timing}
    if not timings:
        return [False] * len(row)
    found = SampleStatistics.of_timings(list(timings.values()))
    is_tied = within_noise(found, int(found.time.argmin()), np.arange(len(timings)))
    ties = dict(zip(timings, is_tied.tolist(), strict=True))
    return [ties.get(place, False) for place in range(len(row))]


if __name__ == "__main__":
    sys.exit(main())
