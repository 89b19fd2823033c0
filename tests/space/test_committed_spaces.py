"""Committed spaces beside the everyday ones: those of G-ADAPT and Starchart as published, and large
inputs."""

import pytest

from harness.core.records import Input, Outcome
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from tests import ROOT
from tests.helpers.commands import check
from tests.helpers.planted import measured

SPACES = ROOT / "spaces"
GADAPT = {
    "convolution": (
        10,
        {"ROW_TILE_W": 128, "COLUMN_TILE_W": 16, "COLUMN_TILE_H": 48, "UNROLLED": 16},
    ),
    "matmul": (9, {"TILE": 16, "UNROLL_K": 1}),
    "mvmul": (15, {"THRD": 256, "LU": 1}),
    "reduction": (15, {"BLOCK": 128}),
    "scalarprod": (7, {"GRID": 128, "BLOCK": 256}),
    "transpose": (18, {"BLOCK": 16}),
    "transpose_coalesced": (18, {"BLOCK": 16}),
}
"""The number of inputs, and the defaults."""

SHORT = {"warmup": 1, "repeats": 2, "min_repeats": 2}


def of_gadapt(name):
    return load_spec(SPACES / "gadapt" / f"{name}.yaml")


def test_inputs_and_defaults_are_the_published():
    for name, (inputs, defaults) in GADAPT.items():
        spec = of_gadapt(name)
        assert (len(spec.inputs), spec.search.technique) == (inputs, "HillClimb")
        assert {p.name: p.default for p in spec.parameters} == defaults


@pytest.mark.slow
def test_configurations_of_mvmul_and_reduction_verify(opencl):
    mvmul, small = of_gadapt("mvmul").with_measure(SHORT), Input({"m": 19, "n": 516})
    configs = map(dict, ConstrainedSpace.of(mvmul, small, None, "opencl"))
    reduction = of_gadapt("reduction").with_measure(SHORT)
    launches = reduction.inputs[-2]  # several launches
    runs = measured(mvmul, opencl, small, *configs)
    runs += measured(reduction, opencl, launches, {"BLOCK": 32}, {"BLOCK": 512})
    for run in runs:
        assert run.outcome is Outcome.OK, run.message


@pytest.mark.slow
def test_mvmul_takes_every_side_that_four_divides(tmp_path, opencl):
    sides = (4, 8, 12, 16, 20, 24, 28, 32)
    path = tmp_path / "sides.yaml"
    path.write_text(
        f"extends: {SPACES / 'gadapt' / 'mvmul.yaml'}\nname: sides\ntitle: Blocks of every side\n"
        "parameters:\n"
        f"  THRD: {{values: {[side * side for side in sides]}, role: launch, default: 256}}\n"
        "  LU: {type: integer, min: 1, max: 8, role: source, default: 1}\n"
        "constraints: [LU <= sqrt(THRD) / 4]\n"
    )
    problem = Input({"m": 37, "n": 3100})
    changes = [{"THRD": side * side, "LU": side // 4} for side in sides]
    for run in measured(load_spec(path).with_measure(SHORT), opencl, problem, *changes):
        assert run.outcome is Outcome.OK, run.message


# ---------------------------------------------------------------------------------------- Starchart

# No block, tile or number of threads is a power of two, and none divides its input.
CORNERS = {
    "bfs": (
        {"BLOCK": 77, "NPT": 5, "CONSEC": 1, "PA_ATTRIB": 1, "PA_STATUS": 0},
        Input({"nodes": 3001, "connectivity": 2}),
    ),
    "hotspot": (
        {"X": 13, "Y": 7, "T_TEMP": 1, "T_POWER": 0, "T_BUFFER": 1},
        Input({"rows": 37, "cols": 53, "iterations": 5}),
    ),
    "kmeans_swap": ({"PPB": 33, "TPP": 7, "CONSEC": 0}, Input({"points": 1001, "features": 61})),
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


def of_starchart(name):
    return load_spec(SPACES / "starchart" / f"{name}.yaml").with_measure(SHORT)


def test_space_has_as_many_designs_as_the_authors_sampled_from():
    for name, designs in {"bfs": 98_816, "kmeans_swap": 1_572}.items():
        spec = of_starchart(name)
        assert ConstrainedSpace.of(spec, spec.inputs[0], None, "opencl").count == designs


@pytest.mark.slow
@pytest.mark.parametrize("name", CORNERS)
def test_corner_between_powers_of_two_verifies(name, opencl):
    corner, problem = CORNERS[name]
    (run,) = measured(of_starchart(name), opencl, problem, corner)
    assert run.outcome is Outcome.OK, run.message


@pytest.mark.slow
@pytest.mark.parametrize("y", [2, 3, 5, 8])
def test_sums_of_a_body_are_added_whatever_the_number_of_threads(y, opencl):
    (run,) = measured(of_starchart("nbody"), opencl, Input({"n": 100}), {"X": 16, "Y": y})
    assert run.outcome is Outcome.OK, run.message


# ------------------------------------------------------------------------------------- large inputs


def test_check_accepts_the_large_spaces(capsys):
    spaces = sorted(map(str, (SPACES / "large").glob("*.yaml")))
    assert check([*spaces, "--no-compile"]) == 0
    assert f"{len(spaces)} spaces valid" in capsys.readouterr().out
