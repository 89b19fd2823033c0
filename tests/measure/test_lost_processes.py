"""What somebody who measures sees when processes are killed, hang, or have no disk left."""

from __future__ import annotations

import errno
import os
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.core.errors import UsageError
from harness.core.program import Binary, Program
from harness.core.records import Measurement, Outcome
from harness.measure.device import Compiler
from harness.measure.kernels.measurer import KernelMeasurer
from harness.results.view import Results, read_results, the_one
from harness.space import ConstrainedSpace
from harness.space_file import Spec
from harness.tuning.devices import DevicePool
from tests.helpers.fake_kernels import FOUR, write_fake
from tests.helpers.fakes import FAKE_HOST, FAKE_SPACE, FakeBackend, FakeCompiler, read_journal
from tests.helpers.planted import SOON_S, descendants, is_running, program_of, until
from tests.helpers.replays import opened

pytestmark = [pytest.mark.slow, pytest.mark.skipif(os.name != "posix", reason="needs /proc")]


def processes() -> set[int]:
    """Return the Python processes that descend from this one."""
    return {pid for pid in descendants(os.getpid()) if "python" in program_of(pid)}


class Run:
    """A measurer with processes of its own, and what they have begun."""

    def __init__(self, folder: Path, backend: FakeBackend, host: str = FAKE_HOST) -> None:
        self.before = processes()
        self.spec = write_fake(folder, host=host).with_measure({"timeout_s": 20})
        self._journal = backend.journal
        self.measurer = KernelMeasurer(self.spec, backend)
        self.space = ConstrainedSpace.of(self.spec, FOUR, self.measurer.limits, "opencl")

    def has_begun(self, event: str, count: int = 1) -> bool:
        """Wait until an event is in the journal so often."""
        return until(
            lambda: (
                self._journal.exists()
                and sum(what == event for what, _, _ in read_journal(self._journal)) >= count
            )
        )

    def measure(self, number: int = 0) -> Measurement:
        """Measure one of the space's configurations."""
        return self.measurer.measure(self.space, FOUR, list(self.space)[number], None)


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    """Make runs of a fake backend with these traits."""
    runs: list[Run] = []

    def made(host: str = FAKE_HOST, kind: type[FakeBackend] = FakeBackend, **traits: float) -> Run:
        backend = kind("opencl", "opencl", "a fake", journal=tmp_path / "journal", **traits)
        runs.append(Run(tmp_path, backend, host))
        return runs[-1]

    yield made
    for each in runs:
        each.measurer.close()


def in_thread(work: Callable[[], object]) -> threading.Thread:
    """Do this meanwhile."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    return thread


def kill_all(run: Run) -> None:
    """Kill all processes of a run, as Linux does when memory runs out."""
    for pid in processes() - run.before:
        os.kill(pid, signal.SIGKILL)


def test_processes_killed_between_measurements_are_no_outcome(run: Callable[..., Run]) -> None:
    begun = run()
    assert begun.measure(0).outcome is Outcome.OK
    assert processes() - begun.before
    kill_all(begun)
    found = begun.measure(1)
    assert found.outcome is Outcome.OK, found.message


@pytest.mark.parametrize("event", ["compile", "launch"])
def test_killed_at_work_is_no_outcome(run: Callable[..., Run], tmp_path: Path, event: str) -> None:
    begun = run(**{f"{event}_s": 0.4})
    begun.measure(0)
    seen = (tmp_path / "journal").read_text().count(event)

    def kill() -> None:
        if event == "launch":
            begun.has_begun(event, seen + 1)
        else:
            time.sleep(0.2)
        kill_all(begun)

    killing = in_thread(kill)
    found = begun.measure(1)
    killing.join(SOON_S)
    assert found.outcome is Outcome.OK, found.message


DEADLY_HOST = f"""\
import os, signal
{FAKE_HOST}
def observe(config):
    if config["V"] == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return {{}}
"""


def test_configuration_whose_process_is_killed_again_has_crashed(run: Callable[..., Run]) -> None:
    begun = run(DEADLY_HOST)
    found = begun.measure(1)
    assert found.outcome is Outcome.CRASHED
    assert "died of SIGKILL, as when memory runs out" in found.message
    assert begun.measure(0).outcome is Outcome.OK


@pytest.mark.parametrize("event", ["compile", "launch"])
def test_ctrl_c_ends_all_processes(run: Callable[..., Run], tmp_path: Path, event: str) -> None:
    begun = run(**{f"{event}_s": 5.0})
    main = threading.get_ident()

    def interrupt() -> None:
        assert event == "compile" or begun.has_begun("compile")
        time.sleep(0.3)
        signal.pthread_kill(main, signal.SIGINT)

    began_s = time.monotonic()
    interrupting = in_thread(interrupt)
    with pytest.raises(KeyboardInterrupt):
        begun.measure()
    interrupting.join(SOON_S)
    pids = processes() - begun.before
    begun.measurer.close()
    assert time.monotonic() - began_s < 4.5
    assert not any(map(is_running, pids))


class FullDisk(FakeBackend):
    """A backend that compiles where the disk is full."""

    def open_compiler(self) -> Compiler:
        """Open the compiler, which cannot write."""
        return _Unwritable()


class _Unwritable(FakeCompiler):
    def compile(self, program: Program) -> Binary:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/some")


def test_full_disk_ends_the_run_with_one_clear_error(run: Callable[..., Run]) -> None:
    begun = run(kind=FullDisk)
    with pytest.raises(UsageError, match="/some cannot be written: No space left"):
        begun.measure()


def test_no_process_can_start(run: Callable[..., Run], monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object, **more: object) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr("harness.measure.process.child.subprocess.Popen", refused)
    with pytest.raises(UsageError, match=r"cannot be started: .*Too many open files.*ulimit"):
        run()


# -------------------------------------------------------------------------------- several devices

INPUTS = ", ".join(f"{{n: {n}}}" for n in range(4, 7))


def write_spec(folder: Path) -> Spec:
    return write_fake(folder, space=FAKE_SPACE.replace("{n: 4}, {n: 5}", INPUTS))


@contextmanager
def two_devices(spec: Spec, journal: Path, **traits: Any) -> Iterator[DevicePool]:
    backend = FakeBackend("opencl", "opencl", "a fake", journal=journal, **traits)
    first = KernelMeasurer(spec, backend, devices=2)
    second = KernelMeasurer(spec, backend, equal=first, devices=2)
    with closing(DevicePool({"device 0": first, "device 1": second})) as devices:
        yield devices


def tuned(
    spec: Spec, database: Path, devices: DevicePool, when: Callable[[int], object]
) -> Results:
    """Tune all of a space on devices; `when` is called at each test, with its number."""
    with opened(spec, database, devices, test_limit=8) as (campaign, display):
        seen = display.test

        def test(progress: Any) -> None:
            seen(progress)
            when(len(display))

        display.test = test  # type: ignore[method-assign]
        campaign.run()
    return the_one(read_results([str(database)]))


def test_nothing_compiles_while_a_device_measures_and_nothing_twice(tmp_path: Path) -> None:
    """A device that shares the processor is disturbed by every build, also those of others. One
    process is killed in the middle, which is no configuration's fault."""
    spec, journal = write_spec(tmp_path), tmp_path / "journal"
    traits = {"shares_cpu": True, "compile_s": 0.02, "launch_s": 0.002}
    before = processes()
    with two_devices(spec, journal, **traits) as devices:

        def when(number: int) -> None:
            if number == 10:
                os.kill(max(processes() - before), signal.SIGKILL)

        results = tuned(spec, tmp_path / "r.db", devices, when)
    searched = [row.measurement for row in results.rows if row.stage == "search"]
    found = Counter((measured.input, measured.outcome) for measured in searched)
    assert found == {(problem, Outcome.OK): 8 for problem in spec.inputs}
    happened = list(read_journal(journal))
    compiled = [(begin, end) for what, begin, end in happened if what == "compile"]
    launched = [(begin, end) for what, begin, end in happened if what == "launch"]
    assert len(compiled) == 8
    assert not [None for a, b in compiled for c, d in launched if a < d and c < b]


def test_ctrl_c_ends_the_processes_of_all_devices_at_once(tmp_path: Path) -> None:
    spec = write_spec(tmp_path)
    database, before = tmp_path / "r.db", processes()
    with two_devices(spec, tmp_path / "journal", launch_s=0.01) as devices:
        pids = processes() - before

        def when(number: int) -> None:
            if number == 6:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            tuned(spec, database, devices, when)
        assert len(pids) == 2
        assert not any(map(is_running, pids))
    results = the_one(read_results([str(database)]))
    assert len(results.rows) >= 6
    assert {row.measurement.outcome for row in results.rows} == {Outcome.OK}
