"""Starchart's spaces as published: whole-number ranges, and kernels that are right between the
powers of two of the everyday spaces."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from harness.core.records import Config, Input, Outcome
from harness.measure.backends.choose import Backend
from harness.measure.kernels import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import Spec, load_spec

SPACES = Path(__file__).parents[2] / "spaces"
SHORT = {"warmup": 1, "repeats": 2, "min_repeats": 2}
# No block, tile or number of threads is a power of two, and none divides its input.
CORNERS: dict[str, tuple[dict[str, int], Input]] = {
    "bfs": (
        {"BLOCK": 77, "NPT": 5, "CONSEC": 1, "PA_ATTRIB": 1, "PA_STATUS": 0},
        Input({"nodes": 3001, "connectivity": 2}),
    ),
    "hotspot": (
        {"X": 13, "Y": 7, "T_TEMP": 1, "T_POWER": 0, "T_BUFFER": 1},
        Input({"rows": 37, "cols": 53, "iterations": 5}),
    ),
    "kmeans_swap": (
        {"PPB": 33, "TPP": 7, "CONSEC": 0},
        Input({"points": 1001, "features": 61}),
    ),
    "matrix": (
        {"X": 3, "Y": 11, "TILING": 7, "UNROLL_K": 5, "T_A": 1, "T_B": 1, "USE_SMEM": 1},
        Input({"hA": 37, "wA": 65, "wB": 29}),
    ),
    "nbody": ({"X": 19, "Y": 7, "UNROLL_PAIRS": 3}, Input({"n": 501})),
    "streamcluster": (
        {"BLOCK": 37, "PPT": 3, "PA_POINT": 0, "USE_SMEM": 1},
        Input({"points": 1001, "dims": 67, "centres": 11}),
    ),
}


def published(name: str) -> Spec:
    return load_spec(SPACES / "starchart" / f"{name}.yaml").with_measure(SHORT)


@pytest.mark.parametrize(("name", "points"), [("bfs", 98_816), ("kmeans_swap", 63_552)])
def test_space_has_the_published_number_of_points(name: str, points: int) -> None:
    spec = published(name)
    assert ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl").raw_count == points


@pytest.mark.parametrize("name", CORNERS)
def test_parameters_are_those_of_the_everyday_space(name: str) -> None:
    wide, everyday = published(name), load_spec(SPACES / f"{name}.yaml")
    defaults = {p.name: p.default for p in everyday.parameters}
    assert {p.name for p in wide.parameters} <= set(defaults)
    assert wide.functions == everyday.functions
    assert {wide.verify.rtol, wide.verify.atol} == {everyday.verify.rtol, everyday.verify.atol}


@pytest.mark.parametrize("name", CORNERS)
def test_corner_between_powers_of_two_verifies(name: str, opencl: Backend) -> None:
    spec, (corner, problem) = published(name), CORNERS[name]
    with closing(KernelMeasurer(spec, opencl)) as measurer:
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        config = Config({**space.default, **corner})
        assert space.why_illegal(config) is None
        found = measurer.measure(space, problem, config, None)
    assert found.outcome is Outcome.OK, found.message


@pytest.mark.parametrize("y", [2, 3, 5, 8])
def test_sums_of_a_body_are_added_whatever_the_number_of_threads(y: int, opencl: Backend) -> None:
    spec, problem = published("nbody"), Input({"n": 100})
    with closing(KernelMeasurer(spec, opencl)) as measurer:
        space = ConstrainedSpace.of(spec, problem, measurer.limits, measurer.compiler)
        config = Config({**space.default, "X": 16, "Y": y})
        found = measurer.measure(space, problem, config, None)
    assert found.outcome is Outcome.OK, found.message
