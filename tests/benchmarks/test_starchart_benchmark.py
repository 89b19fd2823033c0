"""The benchmark of Starchart's claims: its samples and its table."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import cast

import pytest

from benchmarks.starchart import UniformSampler, verdict
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole, Timing
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.stats import Estimate

SPACE = Path(__file__).parents[2] / "spaces" / "starchart" / "kmeans_swap.yaml"
NONE: frozenset[Config] = frozenset()


class Untimed:
    """A measurer that measures nothing."""

    def expect(self, space: ConstrainedSpace, configs: Iterable[Config]) -> None:
        pass

    def measure(
        self, space: ConstrainedSpace, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        return Measurement(config, problem, Outcome.CRASHED, message="it is a fake")


class Alternating(Untimed):
    """A measurer in which a configuration takes 1 s the first time, then 1.25 s and 1 s in turn."""

    def __init__(self) -> None:
        self.order: list[Config] = []

    def measure(
        self, space: ConstrainedSpace, problem: Input, config: Config, best_s: float | None
    ) -> Measurement:
        time_s = 1.25 if self.order.count(config) % 2 else 1.0
        self.order.append(config)
        return Measurement(config, problem, Outcome.OK, Timing((time_s,) * 3, 1))


def sampler(measurer: Untimed, seed: int = 0) -> tuple[UniformSampler, Input]:
    spec = load_spec(SPACE)
    problem = spec.inputs[0]
    space = ConstrainedSpace.of(spec, problem, None, "opencl")
    return UniformSampler(cast(KernelMeasurer, measurer), space, problem, seed), problem


def test_more_draws_keep_the_first_and_repeat_with_the_seed() -> None:
    drawn = []
    for _ in range(2):
        one, problem = sampler(Untimed())
        few = one.draw_samples(SampleRole.RESERVED, problem, 5, NONE)
        more = one.draw_samples(SampleRole.RESERVED, problem, 30, NONE)
        assert [m.config for m in more[:5]] == [m.config for m in few]
        drawn.append([m.config for m in more])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 30


def test_training_samples_are_none_of_the_reserved() -> None:
    one, problem = sampler(Untimed())
    reserved = {m.config for m in one.draw_samples(SampleRole.RESERVED, problem, 700, NONE)}
    training = one.draw_samples(SampleRole.TRAINING, problem, 700, frozenset(reserved))
    assert not reserved & {m.config for m in training}
    assert len(training) == 700


def test_noise_is_the_difference_of_reserved_samples_measured_twice_in_random_order() -> None:
    measurer = Alternating()
    one, problem = sampler(measurer)
    reserved = one.draw_samples(SampleRole.RESERVED, problem, 130, NONE)
    assert one.noise() == pytest.approx(0.25)
    again = measurer.order[130:]
    assert sorted(map(str, again)) == sorted(2 * [str(m.config) for m in reserved[:100]])
    assert len(set(again[:100])) < 100  # neither one after the other nor in two rounds


def test_noise_of_samples_that_fail_is_unknown() -> None:
    one, problem = sampler(Untimed())
    one.draw_samples(SampleRole.RESERVED, problem, 10, NONE)
    assert one.noise() == math.inf


@pytest.mark.parametrize(
    ("error", "noise", "said"),
    [(0.14, 0.2, "reached"), (0.16, 0.1, "not reached"), (0.16, 0.2, "not tried")],
)
def test_target_below_the_noise_is_not_tried(error: float, noise: float, said: str) -> None:
    assert verdict(Estimate(error, error, error), 0.15, noise) == said
    assert verdict(None, 0.15, noise) == "not tried"
