"""Functions that run in a copy of this process."""

from __future__ import annotations

import os
import signal
import time

import pytest

from harness.core.errors import UsageError
from harness.measure.forked import ForkLost, run_forked


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
