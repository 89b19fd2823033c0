"""A worker process whose parent ends while the worker starts."""

from __future__ import annotations

import os
from multiprocessing.connection import Pipe
from multiprocessing.reduction import ForkingPickler

import pytest

from harness.core.machine import libc
from harness.measure.process.child import serve

pytestmark = pytest.mark.skipif(os.uname().sysname != "Linux", reason="ends with its parent")


def test_a_worker_whose_parent_has_ended_runs_no_call() -> None:
    libc()
    ours, theirs = Pipe()
    ours.send_bytes(ForkingPickler.dumps(list))
    ours.send_bytes(ForkingPickler.dumps((os.abort, ())))
    child = os.fork()
    if child == 0:
        serve(theirs, os.getppid() + 1)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 0
