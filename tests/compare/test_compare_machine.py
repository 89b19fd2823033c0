"""What speaks for the machine as the cause of a difference, by hand."""

from __future__ import annotations

import dataclasses
import math

import pytest

from harness.compare.machine import MachineEvidence, drift, evidence
from harness.compare.reading import InputResults, KernelResults
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


def results(
    *courses: tuple[float, ...], program: str = "p", device: str = "a device"
) -> KernelResults:
    inputs = {
        Input({"n": n}): InputResults({}, True, (), frozenset(), default_course=course)
        for n, course in enumerate(courses)
    }
    environment = dataclasses.replace(ENVIRONMENT, device=device)
    return KernelResults("kernel", environment, program, inputs)


# ------------------------------------------------------------------------------- same code


def test_code_is_the_same_where_sources_environment_and_configuration_are() -> None:
    same = MachineEvidence(same_code=True)
    assert same.is_same(measured(16), measured(16), ENVIRONMENT)
    assert not same.is_same(measured(16), measured(64), ENVIRONMENT)
    assert not same.is_same(None, measured(16), ENVIRONMENT)
    assert not same.is_same(measured(16), None, ENVIRONMENT)
    assert not MachineEvidence().is_same(measured(16), measured(16), ENVIRONMENT)


def test_a_program_is_the_same_where_its_binaries_are_known_and_equal() -> None:
    same = MachineEvidence(same_code=True)
    assert same.is_same(measured(16, "ab"), measured(16, "ab"), PROGRAM)
    assert not same.is_same(measured(16, "ab"), measured(16, "cd"), PROGRAM)
    assert not same.is_same(measured(16, "ab"), measured(16), PROGRAM)
    assert not same.is_same(measured(16), measured(16), PROGRAM)


@pytest.mark.parametrize(
    ("base", "candidate", "is_same"),
    [
        (results(), results(), True),
        (results(), results(program="q"), False),
        (results(), results(device="another"), False),
    ],
)
def test_other_sources_and_environments_are_not_the_same(
    base: KernelResults, candidate: KernelResults, is_same: bool
) -> None:
    assert evidence(base, candidate, 0.01).same_code is is_same


# ----------------------------------------------------------------------------- explanations


@pytest.mark.parametrize(("change", "sign"), [(SLOWER, 1), (FASTER, -1)])
def test_a_default_that_changed_as_much_explains_a_change(change: Change, sign: int) -> None:
    """The nearest bound, 6 %, less the threshold of 1 % is a change of 4.95 %."""
    explained = [
        MachineEvidence().explanation(change, changed(ratio**sign), 0.01) is not None
        for ratio in (1.06, 1.0494, 1.04, 0.9)
    ]
    assert explained == [True, False, False, False]
    assert MachineEvidence().explanation(change, changed(1.06 / 1.01), 0.0) is None
    assert MachineEvidence().explanation(change, None, 0.01) is None


@pytest.mark.parametrize("change", [SLOWER, FASTER])
def test_a_drift_as_large_explains_a_change(change: Change) -> None:
    found = MachineEvidence(drift=math.log(1.05)).explanation(change, changed(1.0), 0.01)
    assert found == "the default's times changed by up to 1.050x during a run"
    assert MachineEvidence(drift=math.log(1.049)).explanation(change, None, 0.01) is None


def test_no_drift_explains_nothing() -> None:
    at_the_threshold = Change(Estimate(1.05, 1.01, 1.1), 0.05, ChangeVerdict.SLOWER)
    assert MachineEvidence().explanation(at_the_threshold, None, 0.01) is None
    assert MachineEvidence().explanation(at_the_threshold, None, 0.011) is None


# ------------------------------------------------------------------------------------ drift


def test_drift_is_from_any_earlier_time_of_the_default_to_its_last_in_both_runs() -> None:
    found = evidence(results((0.0, 0.3, 0.1)), results((0.1, 0.15), (0.5,), ()), 0.01)
    assert found.drift == pytest.approx(0.2 + 0.05)
    assert evidence(results((0.2,)), results(()), 0.01).drift == 0


def test_four_changes_show_their_scatter_and_three_do_not() -> None:
    assert drift([0.05, -0.05, 0.05], 0.01) == 0.05
    assert drift([0.05, -0.05, 0.05, -0.05], 0.01) == 0.0


def test_drift_is_beyond_four_times_the_scatter_between_neighbours() -> None:
    """Equal steps of 0.02 are a standard deviation of 0.02 / 0.954, four of which are 0.084."""
    noise = [0.0, 0.02, 0.0, 0.02, 0.0, 0.02, 0.0]
    assert drift([*noise, 0.083], 0.01) == 0.0
    assert drift([*noise, 0.085], 0.01) == 0.085
    assert drift([*noise, 0.085], 0.1) == 0.0
