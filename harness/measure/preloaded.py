"""What the server loads that worker processes are forked from (`harness.measure.process_context`).

No other process imports this module. What ends a run by a signal to all its processes must not end
the server first: its workers would seem to die of faults of their own.
"""

from __future__ import annotations

import os
import signal

import numpy as np
import scipy.special  # noqa: F401

import harness.measure.device_worker  # noqa: F401
from harness.measure.process_context import ENDING

for _number in ENDING:
    signal.signal(_number, signal.SIG_IGN)
signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)


def _be_a_process_of_its_own() -> None:
    """Let a forked process end as others do, and draw numbers of its own.

    A person's script may have processes forked from this server too. The standard library's
    generators draw others by themselves.
    """
    for number in ENDING:
        if number != signal.SIGINT:  # the server's own code sets that again
            signal.signal(number, signal.SIG_DFL)
    np.random.seed()


os.register_at_fork(after_in_child=_be_a_process_of_its_own)
