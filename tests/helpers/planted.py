"""A space of faults planted in a kernel (see data/faults), and a wait for processes."""

import time
from contextlib import closing, suppress
from pathlib import Path

import pytest

from harness.core.errors import HostModuleError
from harness.core.records import Config, Input, Outcome
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space import ConstrainedSpace
from tests import DATA

FAULTS = DATA / "faults"
GIVEN = Input({"n": 100})
SOON_S = 60.0


def fault(name, block=8):
    """Make the configuration with a fault."""
    return Config({"FAULT": name, "BLOCK": block})


def assert_ok(*measurements):
    """Assert that measurements ended well."""
    for measured in measurements:
        assert measured.outcome is Outcome.OK, measured.message


def assert_failed(measured, outcome, *words):
    """Assert how a measurement ended, and that its message has words."""
    assert measured.outcome is outcome, measured.message
    for word in words:
        assert word in measured.message


def space_of(spec, measurer, given=GIVEN):
    """Make the space of an input for a measurer."""
    return ConstrainedSpace.of(spec, given, measurer.limits, measurer.compiler)


def measured_fault(spec, local, name):
    """Measure a fault, and assert that the next configuration works; return the fault's."""
    space = space_of(spec, local)
    faulty = local.measure(space, GIVEN, fault(name), None)
    following = local.measure(space, GIVEN, fault("none"), None)
    assert_ok(following)
    assert faulty.config == fault(name)
    assert faulty.build is not None or faulty.outcome is Outcome.BUILD_FAILED
    return faulty


def assert_input_ends(spec, local, n, reason):
    """Assert that an input cannot be measured, and that the next one can."""
    given = Input({"n": n})
    with pytest.raises(HostModuleError, match=reason):
        local.measure(space_of(spec, local, given), given, fault("none"), None)
    following = local.measure(space_of(spec, local), GIVEN, fault("none"), None)
    assert_ok(following)


def is_running(pid):
    """Say whether a process runs; one that waits to be reaped does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def descendants(pid):
    """Return the processes that descend from one, from Linux's list of every thread's children."""
    found = set()
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):  # it has ended just now
            for child in map(int, task.read_text().split()):
                found |= {child} | descendants(child)
    return found


def until(condition):
    """Wait for a condition; return whether it became true."""
    end = time.monotonic() + SOON_S
    while not condition() and time.monotonic() < end:
        time.sleep(0.02)
    return condition()


def measured(spec, backend, problem, *changes):
    """Measure the default with each of these changes, which must be legal."""
    with closing(KernelMeasurer(spec, backend)) as measurer:
        space = space_of(spec, measurer, problem)
        configs = [Config({**space.default, **change}) for change in changes]
        assert [space.why_illegal(config) for config in configs] == [None] * len(configs)
        return [measurer.measure(space, problem, config, None) for config in configs]


def write_files(folder, files):
    """Write texts to paths inside a folder."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
