"""What somebody who measures sees when processes are killed, hang, or have no disk left."""

import itertools
import os
import signal
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest

from harness.core.records import Outcome
from harness.measure.devices import choose_one
from harness.measure.kernels.measurer import KernelMeasurer
from harness.space_file import load_spec
from harness.tuning.devices import DevicePool
from tests.helpers.fake_kernels import FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST, FAKE_SPACE, FakeBackend, read_journal
from tests.helpers.planted import (
    FAULTS,
    GIVEN,
    assert_failed,
    assert_input_ends,
    assert_ok,
    descendants,
    fault,
    is_running,
    measured_fault,
    space_of,
    until,
)
from tests.helpers.replays import opened, stored

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs /proc")]


def program_of(pid):
    """Return the path of a process's program; empty where it has ended."""
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def processes():
    """Return the Python processes that descend from this one."""
    return {pid for pid in descendants(os.getpid()) if "python" in program_of(pid)}


class Run:
    """A measurer with processes of its own, and what they have begun."""

    def __init__(self, folder, backend, host=FAKE_HOST):
        self.before = processes()
        self.spec = write_fake(folder, host=host).with_measure({"timeout_s": 20})
        self._journal = backend.journal
        self.measurer = KernelMeasurer(self.spec, backend)
        self.space = space_of(self.spec, self.measurer, FOUR)

    def has_begun(self, event, count=1):
        """Wait until an event is in the journal so often."""
        self._journal.touch()
        return until(lambda: self._journal.read_text().count(event) >= count)

    def measure(self, number=0):
        """Measure one of the space's configurations."""
        return self.measurer.measure(self.space, FOUR, list(self.space)[number], None)


@pytest.fixture
def run(tmp_path):
    """Make runs of a fake backend with these traits."""
    with ExitStack() as opened:

        def made(host=FAKE_HOST, **traits):
            journal = tmp_path / "journal"
            backend = FakeBackend("opencl", "opencl", "a fake", journal=journal, **traits)
            begun = Run(tmp_path, backend, host)
            opened.callback(begun.measurer.close)
            return begun

        yield made


def kill_all(run):
    """Kill all processes of a run, as Linux does when memory runs out."""
    for pid in processes() - run.before:
        os.kill(pid, signal.SIGKILL)


def test_processes_killed_between_measurements_are_no_outcome(run):
    begun = run()
    for number in range(3):
        assert_ok(begun.measure(number))
        assert processes() - begun.before
        kill_all(begun)


@pytest.mark.parametrize("event", ["compile", "launch"])
def test_killed_at_work_is_no_outcome(run, tmp_path, event):
    begun = run(**{f"{event}_s": 0.4})
    begun.measure(0)
    seen = (tmp_path / "journal").read_text().count(event)

    def kill():
        if event == "launch":
            begun.has_begun(event, seen + 1)
        else:
            time.sleep(0.2)
        kill_all(begun)

    with ThreadPoolExecutor(1) as threads:
        threads.submit(kill)
        assert_ok(begun.measure(1))


DEADLY_HOST = f"""\
import os, signal
{FAKE_HOST}
def observe(config):
    if config["V"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{}}
"""


def test_configuration_whose_process_is_killed_again_has_crashed(run):
    begun = run(DEADLY_HOST)
    found = begun.measure(1)
    assert_failed(found, Outcome.CRASHED, "SIGKILL")
    assert_ok(begun.measure(0))


@pytest.mark.parametrize("event", ["compile", "launch"])
def test_ctrl_c_ends_all_processes(run, tmp_path, event):
    begun = run(**{f"{event}_s": 5.0})
    main = threading.get_ident()

    def interrupt():
        assert event == "compile" or begun.has_begun("compile")
        time.sleep(0.3)
        signal.pthread_kill(main, signal.SIGINT)

    began_s = time.monotonic()
    with ThreadPoolExecutor(1) as threads:
        threads.submit(interrupt)
        with pytest.raises(KeyboardInterrupt):
            begun.measure()
    pids = processes() - begun.before
    begun.measurer.close()
    assert time.monotonic() - began_s < 4.5
    assert not any(map(is_running, pids))


# -------------------------------------------------------------------------------- faulty kernels


@pytest.fixture(scope="module")
def faults():
    return load_spec(FAULTS / "faults.yaml")


@pytest.fixture(scope="module")
def local(faults):
    """A measurer on PoCL, which builds and runs in processes that kernels may end."""
    pytest.importorskip("pyopencl")
    with closing(KernelMeasurer(faults, choose_one("opencl"))) as measurer:
        yield measurer


@pytest.mark.parametrize("name, word", [("null_write", "SIGSEGV"), ("trap", "SIGILL")])
def test_crash_is_an_outcome_that_names_the_signal(faults, local, name, word):
    assert_failed(measured_fault(faults, local, name), Outcome.CRASHED, word)


def test_process_that_a_kernel_wrote_over_is_replaced(faults, local):
    space = space_of(faults, local)
    pids = []
    for name in ("none", "overrun_far", "none", "none"):
        measured = local.measure(space, GIVEN, fault(name), None)
        pids.append(measured.observed["pid"])
    assert_ok(measured)
    assert pids[0] == pids[1] != pids[2] == pids[3]


def test_host_module_that_fills_the_memory_ends_its_input_and_nothing_else(faults, local):
    assert_input_ends(faults, local, 3, r"\(n=3\).*SIGKILL.*enough memory")


# -------------------------------------------------------------------------------- several devices

INPUTS = ", ".join(f"{{n: {n}}}" for n in range(4, 7))


def write_spec(folder):
    return write_fake(folder, space=FAKE_SPACE.replace("{n: 4}, {n: 5}", INPUTS))


@contextmanager
def two_devices(spec, journal, **traits):
    backend = FakeBackend("opencl", "opencl", "a fake", journal=journal, **traits)
    first = KernelMeasurer(spec, backend, devices=2)
    second = KernelMeasurer(spec, backend, equal=first, devices=2)
    with closing(DevicePool({"device 0": first, "device 1": second})) as devices:
        yield devices


def tuned(spec, database, devices, when):
    """Tune all of a space on devices; `when` is called at each test, with its number."""
    with opened(spec, database, devices, test_limit=8) as (campaign, display):
        seen = display.test

        def test(progress):
            seen(progress)
            when(len(display))

        display.test = test
        campaign.run()
    return stored(database)


def test_nothing_compiles_while_a_device_measures_and_nothing_twice(tmp_path):
    """A device that shares the processor is disturbed by every build, also those of others. One
    process is killed in the middle, which is no configuration's fault."""
    spec, journal = write_spec(tmp_path), tmp_path / "journal"
    traits = {"shares_cpu": True, "compile_s": 0.02, "launch_s": 0.002}
    before = processes()
    with two_devices(spec, journal, **traits) as devices:

        def when(number):
            if number == 10:
                os.kill(max(processes() - before), signal.SIGKILL)

        results = tuned(spec, tmp_path / "r.db", devices, when)
    searched = [row.measurement for row in results.rows if row.stage == "search"]
    found = Counter((measured.input, measured.outcome) for measured in searched)
    assert found == {(problem, Outcome.OK): 8 for problem in spec.inputs}
    happened = list(read_journal(journal))
    assert [what for what, _, _ in happened].count("compile") == 8
    for build, launch in itertools.permutations(happened, 2):
        if (build[0], launch[0]) == ("compile", "launch"):
            assert build[2] <= launch[1] or launch[2] <= build[1]


def test_ctrl_c_ends_the_processes_of_all_devices_at_once(tmp_path):
    spec = write_spec(tmp_path)
    database, before = tmp_path / "r.db", processes()
    with two_devices(spec, tmp_path / "journal", launch_s=0.01) as devices:
        pids = processes() - before

        def when(number):
            if number == 6:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            tuned(spec, database, devices, when)
        assert len(pids) == 2
        assert not any(map(is_running, pids))
    results = stored(database)
    assert len(results.rows) >= 6
    assert {row.measurement.outcome for row in results.rows} == {Outcome.OK}
