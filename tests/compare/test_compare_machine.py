"""What speaks for the machine as the cause of a difference, by hand."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
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


@pytest.mark.parametrize(
    ("base", "candidate", "environment", "is_same"),
    [
        (measured(16), measured(16), ENVIRONMENT, True),
        (measured(16), measured(64), ENVIRONMENT, False),
        (None, measured(16), ENVIRONMENT, False),
        (measured(16), None, ENVIRONMENT, False),
        # A program's sources may be incomplete: its binaries must be known and equal.
        (measured(16, "ab"), measured(16, "ab"), PROGRAM, True),
        (measured(16, "ab"), measured(16, "cd"), PROGRAM, False),
        (measured(16, "ab"), measured(16), PROGRAM, False),
        (measured(16), measured(16), PROGRAM, False),
    ],
)
def test_code_is_the_same_where_sources_environment_and_configuration_are(
    base: Measurement | None, candidate: Measurement | None, environment: Environment, is_same: bool
) -> None:
    assert MachineEvidence(same_code=True).is_same(base, candidate, environment) is is_same
    assert not MachineEvidence().is_same(base, candidate, environment)
    others = results(), results(program="q"), results(device="another")
    assert [evidence(results(), other, 0.01).same_code for other in others] == [True, False, False]


@pytest.mark.parametrize(("change", "sign"), [(SLOWER, 1), (FASTER, -1)])
def test_a_default_or_drift_that_changed_as_much_explains_it(change: Change, sign: int) -> None:
    """The nearest bound, 6 %, less the threshold of 1 % is a change of 4.95 %."""
    explained = [
        MachineEvidence().explanation(change, changed(ratio**sign), 0.01) is not None
        for ratio in (1.06, 1.0494, 1.04, 0.9)
    ]
    assert explained == [True, False, False, False]
    assert MachineEvidence().explanation(change, changed(1.06 / 1.01), 0.0) is None
    assert MachineEvidence().explanation(change, None, 0.01) is None
    found = MachineEvidence(drift=math.log(1.05)).explanation(change, changed(1.0), 0.01)
    assert found == "the default's times changed by up to 1.050x during a run"
    assert MachineEvidence(drift=math.log(1.049)).explanation(change, None, 0.01) is None


def test_no_drift_explains_nothing() -> None:
    at_the_threshold = Change(Estimate(1.05, 1.01, 1.1), 0.05, ChangeVerdict.SLOWER)
    for threshold in (0.01, 0.011):
        assert MachineEvidence().explanation(at_the_threshold, None, threshold) is None


def test_drift_is_from_any_earlier_time_of_the_default_to_its_last_in_both_runs() -> None:
    found = evidence(results((0.0, 0.3, 0.1)), results((0.1, 0.15), (0.5,), ()), 0.01)
    assert found.drift == pytest.approx(0.2 + 0.05)
    assert evidence(results((0.2,)), results(()), 0.01).drift == 0


NOISE = [0.0, 0.02, 0.0, 0.02, 0.0, 0.02, 0.0]


@pytest.mark.parametrize(
    ("changes", "threshold", "expected"),
    [
        # Equal steps of 0.02 are a standard deviation of 0.02 / 0.954, four of which are 0.084.
        ([*NOISE, 0.083], 0.01, 0.0),
        ([*NOISE, 0.085], 0.01, 0.085),
        ([*NOISE, 0.085], 0.1, 0.0),
        # Four changes show their scatter, and fewer do not: they count beyond the threshold.
        ([0.05, -0.05, 0.05, -0.05], 0.01, 0.0),
        ([0.05, -0.05, 0.05], 0.01, 0.05),
        ([0.005, -0.3], 0.01, 0.3),
        ([0.005], 0.01, 0.0),
        ([], 0.01, 0.0),
    ],
)
def test_drift_is_beyond_scatter(changes: list[float], threshold: float, expected: float) -> None:
    assert drift(changes, threshold) == expected


@pytest.mark.parametrize("early", [1, 4, 7, 8])
def test_a_step_in_the_defaults_times_is_drift_and_scatter_seldom_is(early: int) -> None:
    """The first inputs were searched before other work began, all finals came after it."""
    rng = np.random.default_rng(early)
    changes = rng.normal(0, 0.002, 8) + np.where(np.arange(8) < early, math.log(1.3), 0.0)
    assert drift(changes.tolist(), 0.01) == pytest.approx(math.log(1.3), abs=0.01)
    scattered = [drift(rng.normal(0, 0.05, 8).tolist(), 0.01) for _ in range(100)]
    assert sum(value > 0 for value in scattered) <= 15
