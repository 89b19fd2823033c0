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
from harness.measure.kernels.measurer import KernelMeasurer
from harness.results.view import read_results, the_one
from harness.space import ConstrainedSpace
from harness.tuning.devices import DevicePool
from tests.helpers.fake_kernels import FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST, FAKE_SPACE, FakeBackend, read_journal
from tests.helpers.planted import assert_ok, descendants, is_running, program_of, until
from tests.helpers.replays import opened

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs /proc")]


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
        self.space = ConstrainedSpace.of(self.spec, FOUR, self.measurer.limits, "opencl")

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
    assert found.outcome is Outcome.CRASHED
    assert "SIGKILL" in found.message
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
    return the_one(read_results([str(database)]))


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
    results = the_one(read_results([str(database)]))
    assert len(results.rows) >= 6
    assert {row.measurement.outcome for row in results.rows} == {Outcome.OK}
