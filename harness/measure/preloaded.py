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

ENDS_A_RUN = (signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)

for _number in ENDS_A_RUN:
    signal.signal(_number, signal.SIG_IGN)
# The standard library's generators do so themselves.
os.register_at_fork(after_in_child=np.random.seed)
