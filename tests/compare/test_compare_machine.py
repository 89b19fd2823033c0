"""What speaks for the machine as the cause of a difference, by hand."""

from __future__ import annotations

import dataclasses

import pytest

from harness.compare.machine import default_explains, have_same_sources, is_same_code
from harness.compare.reading import KernelResults
from harness.compare.statistics import Change, ChangeVerdict
from harness.core.records import Build, Config, Environment, Input, Measurement, Outcome, Timing
from harness.stats import Estimate

ENVIRONMENT = Environment("opencl", "a device", "a platform", "1.0", "a compiler")
PROGRAM = dataclasses.replace(ENVIRONMENT, backend="command")

SLOWER = Change(Estimate(1.10, 1.06, 1.14), 0.001, ChangeVerdict.SLOWER)
FASTER = Change(Estimate(1 / 1.10, 1 / 1.14, 1 / 1.06), 0.001, ChangeVerdict.FASTER)


def changed(ratio: float) -> Change:
    return Change(Estimate(ratio, ratio, ratio), 1.0, ChangeVerdict.WITHIN_NOISE)


def measured(block: int = 16, binary: str | None = None) -> Measurement:
    build = Build("key", "", "a compiler", 0.1, binary) if binary else None
    timing = Timing((1e-3, 2e-3))
    return Measurement(Config({"BLOCK": block}), Input({"n": 8}), Outcome.OK, timing, build)


def results(program: str = "p", device: str = "a device") -> KernelResults:
    environment = dataclasses.replace(ENVIRONMENT, device=device)
    return KernelResults("kernel", environment, program, {})


def test_code_is_the_same_where_configurations_are() -> None:
    assert is_same_code(measured(16), measured(16), ENVIRONMENT)
    assert not is_same_code(measured(16), measured(64), ENVIRONMENT)
    assert not is_same_code(None, measured(16), ENVIRONMENT)
    assert not is_same_code(measured(16), None, ENVIRONMENT)


def test_a_program_is_the_same_where_its_binaries_are_known_and_equal() -> None:
    assert is_same_code(measured(16, "ab"), measured(16, "ab"), PROGRAM)
    assert not is_same_code(measured(16, "ab"), measured(16, "cd"), PROGRAM)
    assert not is_same_code(measured(16, "ab"), measured(16), PROGRAM)
    assert not is_same_code(measured(16), measured(16), PROGRAM)


def test_sources_are_the_same_in_one_environment() -> None:
    assert have_same_sources(results(), results())
    assert not have_same_sources(results(), results(program="q"))
    assert not have_same_sources(results(), results(device="another"))


@pytest.mark.parametrize(("change", "sign"), [(SLOWER, 1), (FASTER, -1)])
def test_a_default_that_changed_as_much_explains_a_change(change: Change, sign: int) -> None:
    """The nearest bound, 6 %, less the threshold of 1 % is a change of 4.95 %."""
    explained = [
        default_explains(change, changed(ratio**sign), 0.01) for ratio in (1.06, 1.0494, 1.04, 0.9)
    ]
    assert explained == [True, False, False, False]
    assert not default_explains(change, changed(1.06 / 1.01), 0.0)
