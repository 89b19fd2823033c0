"""Processes that hang, die and are replaced, and end with their parent."""

import errno
import itertools
import os
import signal
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import pytest

from harness.core.errors import BuildFailed, UsageError
from harness.core.program import Program
from harness.measure.builds.queue import BuildQueue
from harness.measure.process.child import Child, ChildLost
from harness.measure.process.run_folder import run_folder
from tests import ROOT
from tests.helpers.child_worker import Worker, end_once, raise_unreadable, refuse
from tests.helpers.fake_kernels import measure_kernels_here
from tests.helpers.planted import SOON_S, descendants, is_running, until


@pytest.fixture(scope="module")
def child():
    with closing(Child(Worker)) as child:
        yield child


def run(child, function, *args, timeout_s=SOON_S):
    """Run any function in a child."""
    return child.call(Worker.run, function, *args, timeout_s=timeout_s)


def test_child_makes_one_worker_until_it_is_replaced(monkeypatch):
    with closing(Child(Worker)) as child:
        for number in (1, 2):
            child.call(Worker.append, number, timeout_s=SOON_S)
        assert child.call(list, timeout_s=SOON_S) == [1, 2]
        monkeypatch.setenv("HARNESS_SOME", "now")
        child.replace()
        assert child.call(list, timeout_s=SOON_S) == []
        assert run(child, os.getenv, "HARNESS_SOME") == "now"
        child.call(Worker.append, "spoilt", timeout_s=SOON_S)
        assert not child.is_running
        assert child.call(list, timeout_s=SOON_S) == []
    with pytest.raises(RuntimeError, match="ended"):
        child.call(list, timeout_s=SOON_S)


def test_what_a_process_prints_is_no_output_of_its_parent(child, capfd):
    child.replace()
    run(child, os.write, 1, b"compiling")
    assert capfd.readouterr() == ("", "compiling")


def test_function_past_its_deadline_is_killed(child, monkeypatch):
    monkeypatch.setattr("harness.measure.process.child._END_S", 0.2)
    pid = run(child, os.getpid)
    run(child, signal.signal, signal.SIGTERM, signal.SIG_IGN)
    with pytest.raises(ChildLost, match=r"0\.3 s") as caught:
        # Never back in Python, as in a driver: a signal handler of Python's would not run.
        run(child, sum, itertools.repeat(0), timeout_s=0.3)
    assert caught.value.hung
    assert not is_running(pid)
    assert run(child, abs, -1) == 1


KILLED = signal.raise_signal, signal.SIGKILL


def test_process_that_dies_says_how_and_is_replaced(child):
    for end, message in (((sys.exit, 4), "exit status 4"), (KILLED, "SIGKILL.*memory")):
        with pytest.raises(ChildLost, match=message) as caught:
            run(child, *end)
        assert not caught.value.hung
        assert run(child, abs, -1) == 1


def test_call_whose_process_was_killed_from_outside_is_repeated(child, tmp_path):
    for number, end in enumerate((KILLED, (os._exit, 128 + signal.SIGTERM))):
        journal = tmp_path / str(number)
        assert child.call_again(Worker.run, end_once, journal, *end, timeout_s=SOON_S)
        assert journal.read_text() == "called\n" * 2


def test_call_that_crashed_is_not_repeated(child, tmp_path):
    journal, end = tmp_path / "journal", (signal.raise_signal, signal.SIGSEGV)
    with pytest.raises(ChildLost, match="SIGSEGV"):
        child.call_again(Worker.run, end_once, journal, *end, timeout_s=SOON_S)
    assert journal.read_text() == "called\n"


def test_standard_error_of_a_process_is_quoted_once(child):
    run(child, os.write, 2, b"free(): invalid pointer\n")
    with pytest.raises(ChildLost, match=r"SIGABRT, with stderr: free\(\): invalid pointer$"):
        run(child, os.abort)
    with pytest.raises(ChildLost, match=r"SIGABRT$"):
        run(child, os.abort)


def test_interrupt_is_left_to_the_parent(child):
    pid = run(child, os.getpid)
    assert os.getsid(pid) != os.getsid(0)
    os.kill(pid, signal.SIGINT)
    assert run(child, os.getpid) == pid


def test_process_outlives_the_thread_that_began_it(child):
    child.replace()
    with ThreadPoolExecutor(1) as threads:
        pid = threads.submit(run, child, os.getpid).result()
    time.sleep(0.2)
    assert run(child, os.getpid) == pid


def test_what_cannot_be_sent_is_an_error_of_the_call_alone(child):
    for function, arguments, message in (
        (raise_unreadable, (), "Unreadable: 3"),
        (open, (os.devnull,), "cannot pickle"),
    ):
        with pytest.raises((RuntimeError, TypeError), match=message):
            run(child, function, *arguments)
    assert run(child, abs, -1) == 1


def test_full_disk_is_an_error_of_the_call(child):
    with pytest.raises(UsageError, match="No space left"):
        run(child, Path("/dev/full").write_text, "text")


def test_process_that_cannot_start_is_an_error(monkeypatch):
    refused = Mock(side_effect=OSError(errno.EMFILE, os.strerror(errno.EMFILE)))
    monkeypatch.setattr("harness.measure.process.child.subprocess.Popen", refused)
    with closing(Child(Worker)) as child, pytest.raises(UsageError, match="Too many open files"):
        run(child, abs, -1)


def test_worker_that_cannot_be_made_is_the_error_of_the_call():
    with closing(Child(refuse)) as child, pytest.raises(ValueError, match="no worker"):
        child.call(abs, timeout_s=SOON_S)


def test_failure_in_a_full_temporary_folder_is_no_outcome(monkeypatch):
    backend = Mock()
    backend.open_compiler().compile.side_effect = BuildFailed("as: cannot write")
    measure_kernels_here(monkeypatch)
    with closing(BuildQueue(backend, "a compiler", at_once=1)) as builds:
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
def owner_in(folder):
    """A process with a folder of its own in this one, which ends in the end."""
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    command = [sys.executable, "-c", OWNER]
    with subprocess.Popen(command, text=True, env=environment, **pipes) as owner:
        yield Path(owner.stdout.readline().strip())
        if owner.poll() is None:
            owner.communicate("\n")


def test_next_run_removes_what_a_killed_one_left(tmp_path, monkeypatch):
    link = tmp_path / "link"  # as /tmp may be
    link.symlink_to(tmp_path)
    with owner_in(link) as mine:
        with owner_in(link) as left:
            os.kill(int(left.name.split("-")[2]), signal.SIGKILL)
        monkeypatch.chdir(left)
        for _ in range(300):
            os.mkdir("d")
            os.chdir("d")
        os.chdir(tmp_path)
        (tmp_path / "harness-run-0-begins").mkdir()  # not locked yet
        with owner_in(link):
            assert not left.exists()
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {"link", mine.name, "harness-run-0-begins"}
    assert not mine.exists()


@pytest.mark.parametrize("is_set, reason", [(True, "no folder"), (False, "No such file")])
def test_folder_that_cannot_be_made_is_one_clear_error_and_not_replaced(
    tmp_path, monkeypatch, is_set, reason
):
    monkeypatch.setattr(os, "getpid", lambda: -1)  # whose folder is not made yet
    monkeypatch.setenv("TMPDIR", str(tmp_path / "none"))
    if not is_set:
        monkeypatch.delenv("TMPDIR")
        monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(UsageError, match=rf"none .*{reason}.*TMPDIR"):
        run_folder()


# ------------------------------------------------------------------------------- killed parents

SLEEPS = 'subprocess.run(["sleep", "600"], start_new_session=True)'
DRIVER = """
import itertools, subprocess
from harness.measure.process.child import Child
from harness.measure.programs.sandbox import end_programs_when_terminated

class Worker:
    def work(self):
        open("begun", "w").close()
        {work}

def main():
    Child(Worker).call(Worker.work, timeout_s=60)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a child with its parent")
@pytest.mark.parametrize(
    "work, count",
    [
        (f"end_programs_when_terminated(); {SLEEPS}", 2),
        ("sum(itertools.repeat(0))", 1),  # never back in Python, as a kernel that hangs
    ],
)
def test_killed_parent_leaves_nothing_behind(tmp_path, work, count):
    (tmp_path / "driver.py").write_text(DRIVER.format(work=work))
    environment = os.environ | {"PYTHONPATH": f"{ROOT}:{tmp_path}", "TMPDIR": str(tmp_path)}
    command = [sys.executable, "-c", "import driver; driver.main()"]
    with subprocess.Popen(command, env=environment, cwd=tmp_path) as parent:
        assert until((tmp_path / "begun").exists)
        assert until(lambda: len(descendants(parent.pid)) == count)
        left = descendants(parent.pid)
        parent.kill()
    ended = until(lambda: not any(map(is_running, left)))
    for pid in filter(is_running, left):
        os.kill(pid, signal.SIGKILL)
    assert ended
    assert any(f.name.startswith(f"harness-run-{parent.pid}-") for f in tmp_path.iterdir())
