"""The benchmark of G-ADAPT's claims: its counts and its figures, from planted times."""

from __future__ import annotations

from dataclasses import astuple

import numpy as np
import pytest

from benchmarks.gadapt import SPACES, ProgramFigures, Times, climbing_tests, figures_of
from harness.core.records import Input
from harness.space import ConstrainedSpace, Space
from harness.space_file import Spec, load_spec


def program(name: str) -> tuple[Spec, dict[Input, Space]]:
    spec = load_spec(SPACES / f"{name}.yaml")
    return spec, {p: ConstrainedSpace.of(spec, p, None, "opencl") for p in spec.inputs}


def figures(name: str, best: list[int]) -> ProgramFigures:
    """The best takes 1 s, the next ones 2 s, 3 s ... by their distance."""
    spec, spaces = program(name)
    configs = list(next(iter(spaces.values())))
    times_s = 1.0 + np.abs(np.arange(len(configs)) - np.array(best)[:, None])
    times = Times(times_s, 2 * times_s, times_s == 1, np.ones(len(spaces)))
    return figures_of(spec, spaces, configs, times)


def test_hill_climbing_goes_up_by_the_fastest_step() -> None:
    """From 32 x 32 to 512 x 512: two steps are tried until one parameter is at its maximum."""
    _, spaces = program("scalarprod")
    space = next(iter(spaces.values()))
    grid_first = {config: 1.0 / config["GRID"] for config in space}  # type: ignore[operator]
    assert climbing_tests(space, grid_first) == 1 + 4 * 2 + 4
    assert climbing_tests(space, dict.fromkeys(space, 1.0)) == 13


def test_model_that_is_right_everywhere_has_the_best_performance() -> None:
    found = figures("transpose", [1] * 18)
    assert (found.tests, found.inputs, found.inputs_of_space) == (54, 18, 18)
    assert (found.accuracy, found.exact, found.fraction) == (1.0, 1.0, 1.0)
    assert (found.frequent, found.cross) == (1.0, 1.0)
    assert 54 <= found.training_s < 60  # a second a test, and the learning
    assert astuple(found.speedup) == pytest.approx((2.0, 2.0, 2.0))  # the default is one step away
    assert found.spread == 2.0
    assert found.best == {"BLOCK=8": 18}


def test_choice_is_judged_by_the_other_rounds() -> None:
    """The rounds that choose find 8 x 8 fastest; those that judge, the default 16 x 16."""
    spec, spaces = program("transpose")
    chosen_s, judged_s = np.tile([3.0, 1.0, 2.0], (18, 1)), np.tile([6.0, 3.0, 1.5], (18, 1))
    configs = list(next(iter(spaces.values())))
    found = figures_of(spec, spaces, configs, Times(chosen_s, judged_s, chosen_s == 1, np.ones(18)))
    assert (found.accuracy, found.fraction) == (1.0, 1.0)
    assert astuple(found.speedup) == pytest.approx((0.5, 0.5, 0.5))
    assert found.spread == 2.0


def test_label_of_tied_configurations_is_the_one_that_ties_on_most_inputs() -> None:
    """The first two configurations tie on every third input, the last two on the others."""
    spec, spaces = program("transpose")
    tied = np.array([[True, True, False], [False, True, True], [False, True, True]] * 6)
    times_s = np.where(tied, 1.01, 2.0)
    times_s[:, 0] -= 0.01 * tied[:, 0]  # the fastest by luck
    configs = list(next(iter(spaces.values())))
    found = figures_of(spec, spaces, configs, Times(times_s, times_s, tied, np.ones(18)))
    assert found.best == {"BLOCK=8": 18}
    assert (found.accuracy, found.frequent) == (1.0, 1.0)
    assert found.exact < 1


def test_cross_is_the_worst_time_with_the_best_of_another_input() -> None:
    spec, spaces = program("transpose")
    times_s = np.array([[1.0, 2.0, 4.0], [3.0, 1.0, 9.0]] * 9)
    configs = list(next(iter(spaces.values())))
    found = figures_of(spec, spaces, configs, Times(times_s, times_s, times_s == 1, np.ones(18)))
    assert (found.cross, found.spread, found.frequent) == (3.0, 9.0, 0.5)
