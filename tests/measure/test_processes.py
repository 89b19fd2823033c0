"""Processes that hang, die and are replaced, and end with their parent."""

from __future__ import annotations

import ctypes
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.core.errors import BuildFailed, UsageError
from harness.core.program import Binary, Program
from harness.measure.builds.queue import BuildQueue
from harness.measure.process.child import Child, ChildLost
from harness.measure.process.run_folder import run_folder
from tests.helpers.child_worker import Worker, end_once, raise_unreadable, refuse
from tests.helpers.fake_kernels import measure_kernels_here
from tests.helpers.planted import SOON_S, descendants, is_running, until

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def child() -> Iterator[Child]:
    with closing(Child(Worker)) as child:
        yield child


def run(
    child: Child, function: Callable[..., Any], *args: object, timeout_s: float = SOON_S
) -> Any:
    """Run any function in a child."""
    return child.call(Worker.run, function, *args, timeout_s=timeout_s)


def test_child_makes_one_worker_and_passes_it_to_every_function() -> None:
    with closing(Child(Worker)) as child:
        for number in (1, 2):
            child.call(Worker.append, number, timeout_s=SOON_S)
        assert child.call(list, timeout_s=SOON_S) == [1, 2]
        assert child.generation == 1
        child.replace()
        assert child.call(list, timeout_s=SOON_S) == []
        assert child.generation == 2
        child.call(Worker.append, "spoilt", timeout_s=SOON_S)
        assert child.call(list, timeout_s=SOON_S) == []
        assert child.generation == 3
    with pytest.raises(RuntimeError, match="ended"):
        child.call(list, timeout_s=SOON_S)


def test_new_processes_have_the_present_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(Child(Worker)) as child:
        for value in ("1", "2"):
            monkeypatch.setenv("HARNESS_SOME", value)
            child.replace()
            assert run(child, os.getenv, "HARNESS_SOME") == value


def test_what_a_process_prints_is_no_output_of_its_parent(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with closing(Child(Worker)) as child:
        run(child, os.write, 1, b"compiling")
    assert capfd.readouterr() == ("", "compiling")


@pytest.mark.parametrize("handler", [signal.SIG_DFL, signal.SIG_IGN])
def test_function_past_its_deadline_is_killed(
    child: Child, handler: signal.Handlers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also one that ignores SIGTERM."""
    monkeypatch.setattr("harness.measure.process.child._END_S", 0.2)
    pid = run(child, os.getpid)
    run(child, signal.signal, signal.SIGTERM, handler)
    begin = time.monotonic()
    with pytest.raises(ChildLost, match=r"did not end within 0.3 s and was killed") as caught:
        # Never back in Python, as in a driver: a signal handler of Python's would not run.
        run(child, sum, itertools.repeat(0), timeout_s=0.3)
    assert caught.value.hung
    assert time.monotonic() - begin < SOON_S
    assert not is_running(pid)
    assert run(child, abs, -1) == 1


@pytest.mark.parametrize(
    ("function", "arguments", "message"),
    [
        (os.abort, (), "died of SIGABRT"),
        (os._exit, (3,), "ended with exit status 3"),
        (sys.exit, (4,), "ended with exit status 4"),
        (ctypes.string_at, (0,), "died of SIGSEGV"),
        (signal.raise_signal, (signal.SIGKILL,), "died of SIGKILL, as when memory runs out"),
    ],
)
def test_process_that_dies_says_how_and_is_replaced(
    child: Child, function: Callable[..., object], arguments: tuple[int, ...], message: str
) -> None:
    with pytest.raises(ChildLost, match=message) as caught:
        run(child, function, *arguments)
    assert not caught.value.hung
    assert run(child, abs, -1) == 1


@pytest.mark.parametrize(
    ("number", "calls"), [(signal.SIGKILL, 2), (signal.SIGTERM, 2), (signal.SIGSEGV, 1)]
)
def test_call_whose_process_was_killed_from_outside_is_repeated_once(
    child: Child, tmp_path: Path, number: signal.Signals, calls: int
) -> None:
    journal = tmp_path / "journal"
    call = partial(child.call_again, Worker.run, end_once, journal, number, timeout_s=SOON_S)
    if calls == 1:
        with pytest.raises(ChildLost, match="SIGSEGV"):
            call()
    else:
        assert call() != os.getpid()
    assert journal.read_text().count("called") == calls


def test_standard_error_of_a_process_is_quoted_once(child: Child) -> None:
    run(child, os.write, 2, b"free(): invalid pointer\n")
    with pytest.raises(ChildLost, match=r"SIGABRT, with stderr: free\(\): invalid pointer$"):
        run(child, os.abort)
    with pytest.raises(ChildLost, match=r"SIGABRT$"):
        run(child, os.abort)


def test_interrupt_is_left_to_the_parent(child: Child) -> None:
    pid = run(child, os.getpid)
    assert os.getsid(pid) != os.getsid(0)
    os.kill(pid, signal.SIGINT)
    assert run(child, os.getpid) == pid


def test_process_outlives_the_thread_that_began_it() -> None:
    with closing(Child(Worker)) as child:
        pids: list[int] = []
        thread = threading.Thread(target=lambda: pids.append(run(child, os.getpid)))
        thread.start()
        thread.join()
        time.sleep(0.2)
        assert run(child, os.getpid) == pids[0]
    assert not is_running(pids[0])


def test_what_cannot_be_sent_is_an_error_of_the_call_alone(child: Child) -> None:
    for function, arguments, message in (
        (raise_unreadable, (), "Unreadable: 3"),
        (open, (os.devnull,), "cannot pickle"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=message):
            run(child, function, *arguments)
    assert run(child, abs, -1) == 1


def test_worker_that_cannot_be_made_is_the_error_of_the_call() -> None:
    with closing(Child(refuse)) as child, pytest.raises(ValueError, match="no worker"):
        child.call(abs, timeout_s=SOON_S)


def test_failure_in_a_full_temporary_folder_is_no_outcome(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def open_compiler(self) -> Refusing:
            return self

        def compile(self, program: Program) -> Binary:
            raise BuildFailed("as: cannot write")

    measure_kernels_here(monkeypatch)
    with closing(BuildQueue(Refusing(), "a compiler", at_once=1)) as builds:
        with pytest.raises(BuildFailed):
            builds.finish(Program("first", (), ()))
        full = SimpleNamespace(f_bavail=0, f_frsize=4096)
        monkeypatch.setattr(os, "statvfs", lambda folder: full)
        with pytest.raises(OSError, match="No space left on device"):
            builds.finish(Program("second", (), ()))


# ------------------------------------------------------------------------------- folders of runs

OWNER = """
import sys
from harness.measure.process.run_folder import run_folder
sys.setrecursionlimit(200)  # deeper folders take seconds
print(run_folder(), flush=True)
input()
"""


@contextmanager
def owner_in(folder: Path) -> Iterator[Path]:
    """A process with a folder of its own in this one, which ends in the end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as owner:
        yield Path(owner.stdout.readline().strip())
        if owner.poll() is None:
            owner.communicate("\n")


def abandoned(folder: Path) -> Path:
    """Kill a process with a folder of its own; return that."""
    with owner_in(folder) as own:
        pid = int(own.name.split("-")[2])
        os.kill(pid, signal.SIGKILL)
    return own


def test_next_run_removes_folders(tmp_path: Path) -> None:
    link = tmp_path / "link"  # as /tmp may be
    link.symlink_to(tmp_path)
    with owner_in(link) as mine:
        folder = abandoned(link)
        nested = "import os\nfor _ in range(300): os.mkdir('d'); os.chdir('d')"
        subprocess.run([sys.executable, "-c", nested], cwd=folder, check=True)
        (tmp_path / "harness-run-0-begins").mkdir()  # not locked yet
        with owner_in(link):
            assert not folder.exists()
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {"link", mine.name, "harness-run-0-begins"}
    assert not mine.exists()


@pytest.mark.parametrize(
    ("is_set", "reason"), [(True, "it is full, or no folder"), (False, "No such file")]
)
def test_folder_that_cannot_be_made_is_one_clear_error_and_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_set: bool, reason: str
) -> None:
    monkeypatch.setattr(os, "getpid", lambda: -1)  # whose folder is not made yet
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    if not is_set:
        monkeypatch.delenv("TMPDIR")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=rf"none cannot be written: {reason}.*set TMPDIR"):
        run_folder()


# ------------------------------------------------------------------------------- killed parents

SLEEPS = 'subprocess.run(["sleep", "600"], start_new_session=True)'
DRIVER = """
import itertools, subprocess
from harness.measure.process.child import Child
from harness.measure.programs.sandbox import end_programs_when_terminated

class Worker:
    def work(self):
        {work}

def main():
    Child(Worker).call(Worker.work, timeout_s=60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize(
    ("work", "count"),
    [
        (f"end_programs_when_terminated(); {SLEEPS}", 2),
        ("sum(itertools.repeat(0))", 1),  # never back in Python, as a kernel that hangs
    ],
)
def test_killed_parent_leaves_nothing_behind(tmp_path: Path, work: str, count: int) -> None:
    (tmp_path / "driver.py").write_text(DRIVER.format(work=work))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", "import driver; driver.main()"]
    with subprocess.Popen(command, env=environment) as parent:
        assert until(lambda: len(descendants(parent.pid)) == count)
        left = descendants(parent.pid)
        time.sleep(0.5)  # the work has begun
        parent.kill()
    ended = until(lambda: not any(map(is_running, left)))
    for pid in filter(is_running, left):
        os.kill(pid, signal.SIGKILL)
    assert ended
    assert any(f.name.startswith(f"harness-run-{parent.pid}-") for f in tmp_path.iterdir())
