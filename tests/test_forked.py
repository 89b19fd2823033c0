"""Functions that run in a copy of this process."""

from __future__ import annotations

import os
import time

import pytest

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


def test_child_that_hangs_is_killed() -> None:
    def hang() -> bytes:
        time.sleep(300)
        return b""

    with pytest.raises(ForkLost, match=r"did not finish within 0\.1 s and was killed") as lost:
        run_forked(hang, 0.1)
    assert lost.value.is_late
    with pytest.raises(ChildProcessError):
        os.waitpid(-1, os.WNOHANG)
