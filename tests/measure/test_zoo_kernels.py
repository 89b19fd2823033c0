"""A zoo of kernels that fake speed (data/zoo/kernels.cl), run on PoCL."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harness.core.records import Config, Input, Measurement, Outcome
from harness.measure.devices import Backend
from harness.measure.kernels import KernelMeasurer
from harness.space import ConstrainedSpace
from harness.space_file import load_spec

ZOO = Path(__file__).parents[1] / "data/zoo/kernels.yaml"
GIVEN = Input({"n": 100, "k": 64})

Measure = Callable[[str], Measurement]

HONEST = ("honest", "honest_with_scratch", "honest_with_local")

HARMLESS = (
    "result_kept_in_scratch",
    "result_kept_by_input",
    "result_kept_in_program",
    "half_kept_in_program",
    "result_kept_in_local",
    "result_kept_in_private",
    "result_kept_in_pointers",
)
"""Each of these is wrong in a run that finds what an earlier run has left."""

REFUSED = {
    "does_nothing": r"at the first run: y\[0\] was never written \(100 of 100 elements",
    "exits_early": r"at the first run: y\[\d+\] is -1,.*100 of 100 elements",
    "writes_zeros": r"at the first run: y\[\d+\] is 0.*100 of 100 elements",
    "result_kept_in_spare": r'no output \(spare\[\d+\] differs\).*SCRATCH = \("spare"',
    "result_kept_in_input": r"writes the argument x, which is no output",
    "result_kept_outside": r"writes outside of the argument y \(200 elements behind its end\)",
    "stale_memory": r"at the first run: y\[\d+\] is nan.*100 of 100 elements",
    "sorts_its_input": r"writes the argument x, which is no output",
    "spoils_its_input": r"at run 2: y\[\d+\] is 0.*100 of 100 elements",
    "answer_in_the_input": r"at the first run: y\[0\] was never written \(100 of 100 elements",
    "skips_the_tail": r"at the first run: y\[96\] was never written \(4 of 100 elements",
    "low_precision": r"at the first run: y\[\d+\] is \d+(\.\d+)?, expected",
    "some_elements": r"at the first run: y\[1\] was never written \(75 of 100 elements",
    "rarely_wrong": r"at run 13: y\[0\] is",
    "writes_past_the_end": r"writes outside of the argument y \(63 elements behind its end\)",
    "writes_before_the_start": r"writes outside of the argument y \(2 elements before its start\)",
}

CALLS_OUT = {
    "calls_the_system": "Cannot find symbol pthread_create",
    "has_assembly": "(?s)poisoned identifier.*harness refuses assembly on a CPU",
}


@pytest.fixture(scope="module")
def measure(module_opencl: Backend) -> Iterator[Measure]:
    """Measures a kernel of the zoo."""
    spec = load_spec(ZOO)
    with contextlib.closing(KernelMeasurer(spec, module_opencl)) as local:
        space = ConstrainedSpace.of(spec, GIVEN, local.limits, "opencl")
        config = {"std": "CL2.0"}  # which has variables of a program
        yield lambda name: local.measure(space, GIVEN, Config({**config, "CHEAT": name}), None)


def test_every_kernel_of_the_zoo_is_tested() -> None:
    cheats = next(p for p in load_spec(ZOO).parameters if p.name == "CHEAT")
    assert {*REFUSED, *HARMLESS, *HONEST, *CALLS_OUT} == set(cheats.values)


@pytest.mark.parametrize("name", HONEST)
def test_honest_kernel_is_accepted(measure: Measure, name: str) -> None:
    found = measure(name)
    assert found.outcome is Outcome.OK, found.message
    assert found.timing.count == 15


@pytest.mark.parametrize("name", REFUSED)
def test_kernel_that_fakes_its_speed_is_refused_for_what_it_does(
    measure: Measure, name: str
) -> None:
    found = measure(name)
    assert found.outcome is Outcome.WRONG_RESULT
    assert found.timing is None
    assert re.search(REFUSED[name], found.message), found.message


@pytest.mark.parametrize("name", HARMLESS)
def test_kernel_that_relies_on_an_earlier_run_does_its_work_in_every_run(
    measure: Measure, name: str
) -> None:
    found = measure(name)
    assert found.outcome is Outcome.OK, found.message


@pytest.mark.parametrize("name", CALLS_OUT)
def test_kernel_cannot_call_the_system_not_even_in_assembly(measure: Measure, name: str) -> None:
    found = measure(name)
    assert found.outcome is Outcome.BUILD_FAILED
    assert re.search(CALLS_OUT[name], found.message), found.message
