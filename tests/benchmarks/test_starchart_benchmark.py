"""The benchmarks of Starchart's and G-ADAPT's claims: samples, counts and figures."""

from dataclasses import astuple
from typing import cast

import numpy as np
import pytest

from benchmarks.gadapt import Times, figures_of
from benchmarks.kernels import SPACES
from benchmarks.starchart import UniformSampler
from harness.core.records import Measurement, Outcome, SampleRole, Timing
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

NONE = frozenset()


class Untimed:
    """A measurer that measures nothing."""

    def expect(self, space, configs):
        pass

    def measure(self, space, problem, config, best_s):
        return Measurement(config, problem, Outcome.CRASHED, message="it is a fake")


class Alternating(Untimed):
    """A measurer in which a configuration takes 1 s the first time, then 1.25 s and 1 s in turn."""

    def __init__(self):
        self.order = []

    def measure(self, space, problem, config, best_s):
        time_s = 1.25 if self.order.count(config) % 2 else 1.0
        self.order.append(config)
        return Measurement(config, problem, Outcome.OK, Timing((time_s,) * 3, 1))


def sampler(measurer, seed=0):
    spec = load_spec(SPACES / "starchart" / "kmeans_swap.yaml")
    problem = spec.inputs[0]
    space = ConstrainedSpace.of(spec, problem, None, "opencl")
    return UniformSampler(cast(KernelMeasurer, measurer), space, problem, seed), problem


def test_noise_is_the_difference_of_reserved_samples_measured_twice_in_random_order():
    measurer = Alternating()
    one, problem = sampler(measurer)
    reserved = one.draw_samples(SampleRole.RESERVED, problem, 130, NONE)
    assert one.noise() == pytest.approx(0.25)
    again = measurer.order[130:]
    assert sorted(map(str, again)) == sorted(2 * [str(m.config) for m in reserved[:100]])
    assert len(set(again[:100])) < 100  # neither one after the other nor in two rounds


def program(name):
    spec = load_spec(SPACES / "gadapt" / f"{name}.yaml")
    return spec, {p: ConstrainedSpace.of(spec, p, None, "opencl") for p in spec.inputs}


def figures(name, best):
    """The best takes 1 s, the next ones 2 s, 3 s ... by their distance."""
    spec, spaces = program(name)
    configs = list(next(iter(spaces.values())))
    times_s = 1.0 + np.abs(np.arange(len(configs)) - np.array(best)[:, None])
    times = Times(times_s, 2 * times_s, times_s == 1, np.ones(len(spaces)))
    return figures_of(spec, spaces, configs, times)


def test_model_that_is_right_everywhere_has_the_best_performance():
    found = figures("transpose", [1] * 18)
    assert (found["tests"], found["inputs"], found["inputs_of_space"]) == (54, 18, 18)
    for name in ("accuracy", "exact", "fraction", "frequent", "cross"):
        assert found[name] == 1.0, name
    assert 54 <= found["training_s"] < 60  # a second a test, and the learning
    assert astuple(found["speedup"]) == pytest.approx((2.0, 2.0, 2.0))  # the default is a step away
    assert found["spread"] == 2.0
    assert found["best"] == {"BLOCK=8": 18}


def test_choice_is_judged_by_the_other_rounds():
    """The rounds that choose find 8 x 8 fastest; those that judge, the default 16 x 16."""
    spec, spaces = program("transpose")
    chosen_s, judged_s = np.tile([3.0, 1.0, 2.0], (18, 1)), np.tile([6.0, 3.0, 1.5], (18, 1))
    configs = list(next(iter(spaces.values())))
    found = figures_of(spec, spaces, configs, Times(chosen_s, judged_s, chosen_s == 1, np.ones(18)))
    assert (found["accuracy"], found["fraction"], found["spread"]) == (1.0, 1.0, 2.0)
    assert astuple(found["speedup"]) == pytest.approx((0.5, 0.5, 0.5))


def test_label_of_tied_configurations_is_the_one_that_ties_on_most_inputs():
    """The first two configurations tie on every third input, the last two on the others."""
    spec, spaces = program("transpose")
    tied = np.array([[True, True, False], [False, True, True], [False, True, True]] * 6)
    times_s = np.where(tied, 1.01, 2.0)
    times_s[:, 0] -= 0.01 * tied[:, 0]  # the fastest by luck
    configs = list(next(iter(spaces.values())))
    found = figures_of(spec, spaces, configs, Times(times_s, times_s, tied, np.ones(18)))
    assert found["best"] == {"BLOCK=8": 18}
    assert (found["accuracy"], found["frequent"]) == (1.0, 1.0)
    assert found["exact"] < 1
