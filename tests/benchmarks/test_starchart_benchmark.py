"""The benchmark of Starchart's claims: its samples and its table."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import cast

from benchmarks.starchart import UniformSampler
from harness.core.records import Config, Input, Measurement, Outcome, SampleRole
from harness.measure.kernels import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

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


def sampler(seed: int = 0) -> tuple[UniformSampler, Input]:
    spec = load_spec(SPACE)
    problem = spec.inputs[0]
    space = ConstrainedSpace.of(spec, problem, None, "opencl")
    return UniformSampler(cast(KernelMeasurer, Untimed()), space, problem, seed), problem


def test_more_draws_keep_the_first_and_repeat_with_the_seed() -> None:
    drawn = []
    for _ in range(2):
        one, problem = sampler()
        few = one.draw_samples(SampleRole.RESERVED, problem, 5, NONE)
        more = one.draw_samples(SampleRole.RESERVED, problem, 30, NONE)
        assert [m.config for m in more[:5]] == [m.config for m in few]
        drawn.append([m.config for m in more])
    assert drawn[0] == drawn[1]
    assert len(set(drawn[0])) == 30


def test_training_samples_are_none_of_the_reserved() -> None:
    one, problem = sampler()
    reserved = {m.config for m in one.draw_samples(SampleRole.RESERVED, problem, 3000, NONE)}
    training = one.draw_samples(SampleRole.TRAINING, problem, 3000, frozenset(reserved))
    assert not reserved & {m.config for m in training}
    assert len(training) == 3000
