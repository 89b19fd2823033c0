"""NVRTC compiles in a copy of the process."""

import os
import signal
import time
from functools import partial

import pytest

from harness.core.errors import BuildFailed, UsageError
from harness.core.machine import end_with_parent
from harness.measure.cuda import nvrtc


def test_result_of_any_size_comes_back():
    content = os.urandom(3 << 20)
    assert nvrtc.run_forked(lambda: content, 60.0) == content


def test_child_without_a_result_is_lost_and_was_waited_for(monkeypatch):
    fork, forked = os.fork, []

    def noting():
        forked.append(fork())
        return forked[-1]

    monkeypatch.setattr(os, "fork", noting)
    number = signal.SIGRTMIN + 5  # it has no name
    for function, arguments, message in (
        (bytes, ("no", "such", "encoding"), "ended with status 1"),
        (time.sleep, (300,), r"did not finish within 0\.1 s and was killed; .*build_timeout_s"),
        (signal.raise_signal, (number,), rf"crashed \(signal {number}\)"),
    ):
        is_late = function is time.sleep
        with pytest.raises(BuildFailed, match=message):
            nvrtc.run_forked(partial(function, *arguments), 0.1 if is_late else 60.0)
        with pytest.raises(ChildProcessError):
            os.waitpid(forked[-1], os.WNOHANG)


def test_result_comes_back_where_ended_children_are_not_kept():
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert nvrtc.run_forked(lambda: b"result", 60.0) == b"result"
        with pytest.raises(BuildFailed, match="ended without a result"):
            nvrtc.run_forked(lambda: os._exit(1), 60.0)
    finally:
        signal.signal(signal.SIGCHLD, before)


def test_no_process_left_is_an_error(monkeypatch):
    def fork():
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    with pytest.raises(UsageError, match="cannot be started: Resource temporarily unavailable"):
        nvrtc.run_forked(lambda: b"", 60.0)


def test_a_process_whose_parent_has_ended_before_it_begins_ends_too():
    with pytest.raises(BuildFailed, match="SIGKILL"):
        nvrtc.run_forked(lambda: end_with_parent(parent=1 << 30), 60.0)
