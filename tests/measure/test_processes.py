"""Processes that hang, die and are replaced, and end with their parent."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.core.errors import BuildFailed, UsageError
from harness.core.program import Binary
from harness.core.records import Outcome
from harness.measure.build_queue import BuildWorker
from harness.measure.forked import ForkLost, run_forked
from harness.measure.kernels import KernelMeasurer
from harness.measure.process_context import ProcessStarter
from harness.measure.processes import Processes, ProcessLost
from harness.measure.run_folder import RunFolder
from harness.space import ConstrainedSpace
from tests.helpers.fake_kernels import write_fake
from tests.helpers.fakes import FakeBackend, HereProcesses
from tests.helpers.planted import FAULTS, SOON_S, descendants, is_running, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    processes = Processes(1)
    yield processes
    processes.close()


def test_each_process_makes_one_worker_and_passes_it_to_every_function() -> None:
    processes = Processes(1, list)
    try:
        processes.run(list.append, 1, timeout_s=SOON_S)
        processes.run(list.append, 2, timeout_s=SOON_S)
        assert processes.run(list.copy, timeout_s=SOON_S) == [1, 2]
        processes.replace()
        assert processes.run(list.copy, timeout_s=SOON_S) == []
    finally:
        processes.close()


def draw() -> float:
    return np.random.random()


def test_new_processes_have_the_present_environment_and_draw_different_numbers(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.run(os.getpid, timeout_s=SOON_S)  # the server runs, with an older environment
    for variable, value in (("HARNESS_SOME", "1"), ("OMP_NUM_THREADS", "3")):
        monkeypatch.setenv(variable, value)
        with closing(Processes(1)) as others:
            assert others.run(os.getenv, variable, timeout_s=SOON_S) == value
            drawn = [each.run(draw, timeout_s=SOON_S) for each in (processes, others)]
    assert len({*drawn}) == 2


@pytest.mark.skipif(sys.platform != "linux", reason="nothing is forked elsewhere")
def test_processes_load_libraries_themselves_where_the_server_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    starter = ProcessStarter()
    assert starter.context().get_start_method() == "forkserver"
    with monkeypatch.context() as patch:
        patch.setenv("LD_LIBRARY_PATH", "/some", prepend=os.pathsep)
        assert starter.context().get_start_method() == "spawn"
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: 1)  # as in a fork of this process
        assert starter.context().get_start_method() == "spawn"
    assert starter.context().get_start_method() == "forkserver"


class _CtrlCInNotify(deque[Any]):
    """The waiters of a condition: Ctrl-C comes in the main thread, when one was woken."""

    def remove(self, value: Any) -> None:
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        super().remove(value)


def test_ctrl_c_while_a_function_is_scheduled_lets_the_processes_end() -> None:
    processes = Processes(1)
    idle = processes._pool._context.task_queue.not_empty
    assert until(lambda: bool(idle._waiters))
    idle._waiters = _CtrlCInNotify(idle._waiters)
    with suppress(KeyboardInterrupt):
        processes.run(abs, -1, timeout_s=SOON_S)
    thread = threading.Thread(target=processes.close, daemon=True)
    thread.start()
    thread.join(SOON_S)
    assert not thread.is_alive()


def test_function_past_its_deadline_is_killed(processes: Processes) -> None:
    pid = processes.run(os.getpid, timeout_s=SOON_S)
    begin = time.monotonic()
    with pytest.raises(ProcessLost, match=r"did not end within 0.3 s and was killed") as caught:
        # Never back in Python, as in a driver: a signal handler of Python's would not run.
        processes.run(sum, itertools.repeat(0), timeout_s=0.3)
    assert caught.value.hung
    assert time.monotonic() - begin < SOON_S
    assert until(lambda: not is_running(pid))
    assert processes.run(abs, -1, timeout_s=SOON_S) == 1


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (os.abort, (), "died of SIGABRT"),
        (os._exit, (3,), "ended with exit status 3"),
        (ctypes.string_at, (0,), "died of SIGSEGV"),
        (signal.raise_signal, (signal.SIGKILL,), "died of SIGKILL, as when memory runs out"),
    ],
)
def test_process_that_dies_says_how_and_is_replaced(
    processes: Processes, function: Callable[..., object], arguments: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ProcessLost, match=message) as caught:
        processes.run(function, *arguments, timeout_s=SOON_S)
    assert not caught.value.hung
    assert processes.run(abs, -1, timeout_s=SOON_S) == 1


def end_once(journal: Path, number: int) -> int:
    """End this process by a signal, but only at the first call."""
    with journal.open("a") as file:
        file.write("called\n")
    if len(journal.read_text().splitlines()) == 1:
        signal.raise_signal(number)
    return os.getpid()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_function_whose_process_was_killed_from_outside_runs_once_more(
    processes: Processes, tmp_path: Path, number: signal.Signals
) -> None:
    journal = tmp_path / "journal"
    assert processes.run(end_once, journal, number, timeout_s=SOON_S) != os.getpid()
    assert journal.read_text().count("called") == 2


@pytest.mark.parametrize(("number", "by_chance"), [(signal.SIGSEGV, False), (signal.SIGKILL, True)])
def test_fault_and_what_must_not_be_repeated_do_not_run_again(
    processes: Processes, tmp_path: Path, number: signal.Signals, by_chance: bool
) -> None:
    run = processes.run_once if by_chance else processes.run
    with pytest.raises(ProcessLost) as caught:
        run(end_once, tmp_path / "journal", number, timeout_s=SOON_S)
    assert caught.value.by_chance == by_chance
    assert (tmp_path / "journal").read_text().count("called") == 1


class _Killed(HereProcesses):
    """A fake whose process is killed by somebody, so many times."""

    times = 1

    def run_once(self, function: Callable[..., Any], *args: object, timeout_s: float) -> Any:
        """Call the function, or lose the process."""
        if self.times:
            self.times -= 1
            raise ProcessLost("died of SIGKILL", by_chance=True)
        return super().run_once(function, *args, timeout_s=timeout_s)


@pytest.mark.parametrize(("times", "outcome"), [(1, Outcome.OK), (2, Outcome.CRASHED)])
def test_killed_process_of_the_device_is_no_outcome_unless_it_is_killed_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, times: int, outcome: Outcome
) -> None:
    monkeypatch.setattr(_Killed, "times", times)
    monkeypatch.setattr("harness.measure.device_client.Processes", _Killed)
    monkeypatch.setattr("harness.measure.build_queue.Processes", HereProcesses)
    spec = write_fake(tmp_path)
    backend = FakeBackend("opencl", "opencl", "a fake", journal=tmp_path / "journal")
    with closing(KernelMeasurer(spec, backend)) as measurer:
        space = ConstrainedSpace.of(spec, spec.inputs[0], measurer.limits, "opencl")
        found = measurer.measure(space, spec.inputs[0], space.default, None)
    assert found.outcome is outcome
    assert outcome is Outcome.OK or "died of SIGKILL" in found.message


def test_standard_error_of_a_process_is_quoted_once(processes: Processes) -> None:
    processes.run(os.write, 2, b"free(): invalid pointer\n", timeout_s=SOON_S)
    with pytest.raises(ProcessLost, match=r"SIGABRT, with stderr: free\(\): invalid pointer$"):
        processes.run(os.abort, timeout_s=SOON_S)
    with pytest.raises(ProcessLost, match=r"SIGABRT$"):
        processes.run(os.abort, timeout_s=SOON_S)


@pytest.mark.parametrize("pause_s", [0.0, 0.3])
def test_death_of_an_idle_process_is_no_functions_fault(
    processes: Processes, pause_s: float
) -> None:
    pid = processes.run(os.getpid, timeout_s=SOON_S)
    os.kill(pid, signal.SIGKILL)
    time.sleep(pause_s)
    assert processes.run(os.getpid, timeout_s=SOON_S) != pid


def test_process_ends_at_sigterm_without_python_being_asked(processes: Processes) -> None:
    handler = processes.run(signal.getsignal, signal.SIGTERM, timeout_s=SOON_S)
    assert handler == signal.SIG_DFL


def test_interrupt_is_left_to_the_parent(processes: Processes) -> None:
    pid = processes.run(os.getpid, timeout_s=SOON_S)
    os.kill(pid, signal.SIGINT)
    assert processes.run(os.getpid, timeout_s=SOON_S) == pid


def test_processes_outlive_the_thread_that_began_them() -> None:
    begun: list[Processes] = []
    pids: list[int] = []

    def begin() -> None:
        begun.append(Processes(1))
        pids.append(begun[0].run(os.getpid, timeout_s=SOON_S))

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    time.sleep(0.2)
    assert begun[0].run(os.getpid, timeout_s=SOON_S) == pids[0]
    begun[0].close()
    assert until(lambda: not Path(f"/proc/{pids[0]}").exists())


def test_deadline_that_passed_while_the_machine_slept_is_no_functions_fault(
    processes: Processes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("harness.measure.processes._PAUSE_S", -10.0)  # every look finds a pause
    with pytest.raises(ProcessLost, match=r"did not end within 0.3 s") as caught:
        processes.run_once(time.sleep, SOON_S, timeout_s=0.3)
    assert caught.value.by_chance
    assert not caught.value.hung


def fill() -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/tmp/some")


def test_full_temporary_folder_is_one_clear_error(processes: Processes) -> None:
    message = (
        r"/tmp/some cannot be written: No space left on device; make room there, or set TMPDIR"
    )
    with pytest.raises(UsageError, match=message):
        processes.run(fill, timeout_s=SOON_S)
    with pytest.raises(FileNotFoundError):
        processes.run(os.stat, "/no/such/file", timeout_s=SOON_S)


def test_failure_while_the_temporary_folder_is_full_is_no_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Compiler:
        def compile(self, program: object) -> Binary:
            raise BuildFailed("as: cannot write")

    class Opens:
        def open_compiler(self) -> Compiler:
            return Compiler()

    worker: BuildWorker[Any] = BuildWorker(Opens())
    with pytest.raises(BuildFailed):
        worker.compile(None)
    monkeypatch.setattr("harness.measure.run_folder.room_bytes", lambda folder: 0)
    with pytest.raises(OSError, match="No space left on device"):
        worker.compile(None)


# ------------------------------------------------------------------------------- folders of runs

OWNER = """
import subprocess, sys, time
from harness.measure.run_folder import RunFolder
folder = RunFolder()
program = subprocess.Popen(["sleep", "600"], cwd=folder.path, start_new_session=True)
print(folder.path, program.pid, folder._waiting.pid, flush=True)
time.sleep(60)
"""


def abandoned(tmp_path: Path, *, kill_shell: bool) -> tuple[Path, int]:
    """Kill a process with a folder of its own; return the folder and a program that works in it."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, text=True, env=environment
    ) as owner:
        folder, program, shell = owner.stdout.readline().split()
        if kill_shell:
            os.kill(int(shell), signal.SIGKILL)
        owner.kill()
    return Path(folder), int(program)


def test_folder_and_programs_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    link = tmp_path / "link"  # as /tmp may be
    link.symlink_to(tmp_path)
    folder, program = abandoned(link, kill_shell=False)
    assert until(lambda: not folder.exists())
    assert until(lambda: not is_running(program))


def test_next_run_removes_the_folder_of_a_killed_one_and_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    mine = RunFolder()
    folder, program = abandoned(tmp_path, kill_shell=True)
    os.kill(program, signal.SIGKILL)
    assert folder.exists()
    (tmp_path / "harness-run-0-begins").mkdir()  # not locked yet
    RunFolder().close()
    assert not folder.exists()
    assert {path.name for path in tmp_path.iterdir()} == {mine.path.name, "harness-run-0-begins"}
    mine.close()
    assert not mine.path.exists()


def test_folders_that_python_cannot_remove_end_no_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nested_too_deep(*_: object, **__: object) -> None:
        raise RecursionError

    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(shutil, "rmtree", nested_too_deep)
    abandoned = tmp_path / "harness-run-0-dead"
    abandoned.mkdir()
    (abandoned / "owner").touch()
    folder = RunFolder()
    folder.close()
    assert not folder.path.exists()


def test_pool_that_cannot_start_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EMFILE, "Too many open files")

    monkeypatch.setattr("harness.measure.processes.ProcessPool", refuse)
    with pytest.raises(UsageError, match=r"cannot be started: .*Too many open files; see `ulimit"):
        Processes(1)


def test_folder_that_cannot_be_made_is_one_clear_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=r"none cannot be written: No such file.*set TMPDIR"):
        RunFolder()


# ------------------------------------------------------------------------------- killed parents

PARENT = """
import sys
from pathlib import Path
from harness.measure.backends.choose import choose
from harness.core.records import Config, Input
from harness.measure.run_folder import RunFolder
from harness.space import ConstrainedSpace
from harness.space_file import load_spec
from harness.measure.kernels import KernelMeasurer

if __name__ == "__main__":
    spec = load_spec(Path(sys.argv[1])).with_measure({"timeout_s": 60})
    measurer = KernelMeasurer(spec, choose("opencl"))
    space = ConstrainedSpace.of(spec, Input({"n": 100}), measurer.limits, "opencl")
    for fault in ("none", "hang"):
        print("next", flush=True)
        measurer.measure(space, Input({"n": 100}), Config({"FAULT": fault, "BLOCK": 8}), None)
"""


def cpu_s(pid: int) -> float:
    """The seconds that a process has spent computing, in all its threads."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return int(fields[11]) / os.sysconf("SC_CLK_TCK")


def spins(pids: set[int], before: dict[int, float]) -> bool:
    """Whether one of the processes has computed for longer than a compilation takes."""
    return any(cpu_s(pid) - before.get(pid, 0.0) > 2.0 for pid in pids)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
def test_killed_parent_leaves_no_process_behind_though_a_kernel_hangs(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(PARENT)
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(tmp_path)}
    parent = subprocess.Popen(
        [sys.executable, str(script), str(FAULTS / "faults.yaml")],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    with parent.stdout:
        assert [parent.stdout.readline() for _ in range(2)] == ["next\n", "next\n"]
    before = {pid: cpu_s(pid) for pid in descendants(parent.pid)}
    assert until(lambda: spins(descendants(parent.pid), before)), "the kernel that never ends"
    workers = descendants(parent.pid)
    assert len(workers) >= 2, "the device's process, and a builder's"
    parent.kill()
    parent.wait()
    ended = until(lambda: not any(map(is_running, workers)))
    for worker in filter(is_running, workers):
        os.kill(worker, signal.SIGKILL)
    assert ended
    assert until(lambda: list(tmp_path.iterdir()) == [script])


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_threads_that_ask_at_once_how_a_process_ended_get_one_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process: Any = ProcessStarter().context().Process(target=os._exit, args=(3,))  # type: ignore[attr-defined]
    process.start()
    read = forkserver.read_signed

    def read_late(sentinel: int) -> Any:
        time.sleep(0.2)  # the other thread asks meanwhile
        return read(sentinel)

    monkeypatch.setattr(forkserver, "read_signed", read_late)
    threads = [threading.Thread(target=process._popen.poll, args=(0,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert process.exitcode == 3


SERVER = """
import os, signal, sys, time
from multiprocessing import forkserver, resource_tracker
from harness.measure.processes import Processes

resource_tracker.ensure_running()
started = forkserver.util.spawnv_passfds

def start(*words):
    pid = started(*words)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        os.kill(pid, number)
    return pid

forkserver.util.spawnv_passfds = start
processes = Processes(1)
assert processes.run(os.getpid, timeout_s=60) != os.getpid()
assert processes.run(signal.pthread_sigmask, signal.SIG_BLOCK, (), timeout_s=60) == set()
processes.close()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="there is no server elsewhere")
def test_server_that_is_being_started_when_the_run_is_ended_says_nothing(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)  # longer than the address of a socket may be
    folder.mkdir()
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", SERVER], capture_output=True, text=True, env=environment
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(folder.iterdir()) == []


# --------------------------------------------------------------------------- copies of this process


def test_result_of_any_size_comes_back() -> None:
    content = os.urandom(3 << 20)
    assert run_forked(lambda: content, 60.0) == content


def test_what_the_child_changes_stays_there() -> None:
    changed = [1]

    def change() -> bytes:
        changed.append(2)
        return bytes(changed)

    assert run_forked(change, 60.0) == b"\1\2"
    assert changed == [1]


def test_function_that_raises_is_lost(capfd: pytest.CaptureFixture[str]) -> None:
    def fail() -> bytes:
        raise ValueError

    with pytest.raises(ForkLost, match="ended with status 1") as lost:
        run_forked(fail, 60.0)
    assert not lost.value.is_late


def test_child_that_hangs_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    fork, forked = os.fork, list[int]()

    def noting() -> int:
        forked.append(fork())
        return forked[-1]

    def hang() -> bytes:
        time.sleep(300)
        return b""

    monkeypatch.setattr(os, "fork", noting)
    with pytest.raises(ForkLost, match=r"did not finish within 0\.1 s and was killed") as lost:
        run_forked(hang, 0.1)
    assert lost.value.is_late
    with pytest.raises(ChildProcessError):  # it was waited for
        os.waitpid(forked[0], os.WNOHANG)


def test_child_that_dies_of_a_signal_without_a_name_is_lost() -> None:
    number = signal.SIGRTMIN + 5

    def die() -> bytes:
        os.kill(os.getpid(), number)
        return b""

    with pytest.raises(ForkLost, match=rf"crashed \(signal {number}\)"):
        run_forked(die, 60.0)


def test_result_comes_back_where_ended_children_are_not_kept() -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run_forked(lambda: b"result", 60.0) == b"result"
        with pytest.raises(ForkLost, match="ended without a result"):
            run_forked(lambda: os._exit(1), 60.0)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_no_process_left_is_one_error_and_no_pipe_stays_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def fork() -> int:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    before = os.listdir("/proc/self/fd")
    with pytest.raises(UsageError, match="cannot be started: Resource temporarily unavailable"):
        run_forked(lambda: b"", 60.0)
    assert len(os.listdir("/proc/self/fd")) == len(before)
