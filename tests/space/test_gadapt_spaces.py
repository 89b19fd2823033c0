"""G-ADAPT's spaces as published: parameters, defaults, numbers of inputs, and how many tests hill
climbing makes."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from harness.core.records import Config, Outcome
from harness.measure.backends.choose import Backend
from harness.measure.kernels import KernelMeasurer
from harness.search.techniques.self_contained import steps_up
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

SPACES = Path(__file__).parents[2] / "spaces"
DEFAULTS: dict[str, dict[str, int]] = {
    "convolution": {"ROW_TILE_W": 128, "COLUMN_TILE_W": 16, "COLUMN_TILE_H": 48, "UNROLLED": 16},
    "matmul": {"TILE": 16, "UNROLL_K": 1},
    "mvmul": {"THRD": 256, "LU": 1},
    "reduction": {"BLOCK": 128},
    "scalarprod": {"GRID": 128, "BLOCK": 256},
    "transpose": {"BLOCK": 16},
    "transpose_coalesced": {"BLOCK": 16},
}


def published(name: str) -> Spec:
    return load_spec(SPACES / "gadapt" / f"{name}.yaml")


def fewest_and_most_tests(spec: Spec) -> tuple[int, int]:
    """The tests of hill climbing on all inputs, whatever the times: each way up is followed."""
    space = ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl")

    def climbed(here: Config, known: dict[Config, tuple[int, int]]) -> tuple[int, int]:
        if here not in known:
            steps = list(steps_up(space, here))
            ways = [climbed(step, known) for step in steps] or [(0, 0)]
            fewest, most = min(low for low, _ in ways), max(high for _, high in ways)
            known[here] = fewest + len(steps), most + len(steps)
        return known[here]

    lowest = space.decode([0] * len(space.parameters))
    fewest, most = climbed(lowest, {})
    return len(spec.inputs) * (1 + fewest), len(spec.inputs) * (1 + most)


@pytest.mark.parametrize(
    ("name", "inputs", "tests"),
    [
        ("convolution", 10, (170, 230)),
        ("matmul", 9, (81, 99)),
        ("mvmul", 15, (180, 210)),
        ("reduction", 15, (75, 75)),
        ("scalarprod", 7, (91, 112)),
        ("transpose", 18, (54, 54)),
        ("transpose_coalesced", 18, (54, 54)),
    ],
)
def test_hill_climbing_makes_as_many_tests_as_documented(
    name: str, inputs: int, tests: tuple[int, int]
) -> None:
    spec = published(name)
    assert len(spec.inputs) == inputs
    assert spec.search.technique == "HillClimb"
    assert fewest_and_most_tests(spec) == tests


@pytest.mark.parametrize("name", DEFAULTS)
def test_parameters_and_defaults_are_the_published_ones(name: str) -> None:
    spec, everyday = published(name), load_spec(SPACES / f"{name}.yaml")
    assert {p.name: p.default for p in spec.parameters} == DEFAULTS[name]
    assert spec.functions == everyday.functions
    assert {spec.verify.rtol, spec.verify.atol} == {everyday.verify.rtol, everyday.verify.atol}


def test_reduction_verifies_with_its_block_alone(opencl: Backend) -> None:
    spec = published("reduction").with_measure({"warmup": 1, "repeats": 2, "min_repeats": 2})
    problem = spec.inputs[-2]  # several launches
    with closing(KernelMeasurer(spec, opencl)) as measurer:
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        for block in (32, 512):
            found = measurer.measure(space, problem, Config({"BLOCK": block}), None)
            assert found.outcome is Outcome.OK, found.message
