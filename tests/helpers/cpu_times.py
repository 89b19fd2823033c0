"""CPU seconds of each test, with those of the processes that it started."""

import os
from pathlib import Path

import pytest

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class CpuTimes:
    """Note the CPU time of each test, and name the dearest at the end.

    What several tests share, such as a process that a fixture starts, counts for the first of them.
    """

    def __init__(self, shown):
        self._shown = shown
        self._start_s = 0.0
        self._seconds = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self):
        """Note when a test starts."""
        self._start_s = used_s()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self,
    ):
        """Note in a test's last report what it took; pytest-xdist passes it on."""
        report = yield
        if report.when == "teardown":
            report.cpu_s = used_s() - self._start_s
        return report

    def pytest_runtest_logreport(self, report):
        """Gather the times of all workers."""
        if report.when == "teardown":
            self._seconds[report.nodeid] = report.cpu_s

    def pytest_terminal_summary(self, terminalreporter):
        """Print the dearest tests."""
        dearest = sorted(self._seconds.items(), key=lambda item: -item[1])
        total_s = sum(self._seconds.values())
        terminalreporter.section(f"dearest of {total_s:.0f} s of CPU in tests")
        for name, seconds in dearest[: self._shown]:
            terminalreporter.write_line(f"{seconds:6.2f} s {name}")


def used_s():
    """CPU seconds of this process, of those that it waited for, and of those that run now."""
    return sum(_process_s(pid) for pid in _running(os.getpid()))


def _running(pid):
    yield pid
    for thread in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            children = thread.read_text().split()
        except OSError:  # it has ended
            continue
        for child in children:
            yield from _running(int(child))


def _process_s(pid):
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:  # it has ended
        return 0.0
    _, _, fields = stat.rpartition(") ")
    ticks = fields.split()[11:15]  # user, system, and both of the children that were waited for
    return sum(map(int, ticks)) / _TICKS_PER_S
