"""Several devices, each measured by a process of its own, which share their builds."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from harness.core.records import Outcome
from harness.measure.kernels.measurer import KernelMeasurer
from harness.results.view import Results, read_results, the_one
from harness.space_file import Spec
from harness.tuning.devices import DevicePool
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FAKE_SPACE, FakeBackend, read_journal
from tests.helpers.planted import descendants, is_running, program_of
from tests.helpers.replays import opened

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
INPUTS = ", ".join(f"{{n: {n}}}" for n in range(4, 10))


def write_spec(folder: Path) -> Spec:
    return write_fake(folder, space=FAKE_SPACE.replace("{n: 4}, {n: 5}", INPUTS))


@contextmanager
def two_devices(spec: Spec, journal: Path, **traits: Any) -> Iterator[DevicePool]:
    backend = FakeBackend("opencl", "opencl", "a fake", journal=journal, **traits)
    first = KernelMeasurer(spec, backend, devices=2)
    second = KernelMeasurer(spec, backend, equal=first, devices=2)
    with closing(DevicePool({"device 0": first, "device 1": second})) as devices:
        yield devices


def processes() -> set[int]:
    """Return the Python processes that descend from this one."""
    return {pid for pid in descendants(os.getpid()) if "python" in program_of(pid)}


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
