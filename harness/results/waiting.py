"""Wait for another process that writes what this one wants to write."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from harness.core.errors import DatabaseBusy

T = TypeVar("T")

_AGAIN_S = 1.0


def patiently(call: Callable[[], T], wait_s: float, say: Callable[[str], None]) -> T:
    """Call again and again while another process writes, for so many seconds; say so once.

    Raises DatabaseBusy where the other one writes for longer.
    """
    end_s = time.monotonic() + wait_s
    is_said = False
    while True:
        try:
            return call()
        except DatabaseBusy as busy:
            left_s = end_s - time.monotonic()
            if left_s <= 0:
                raise
            if not is_said:
                say(f"{busy.fact}; waiting for it for up to {wait_s:g} s (Ctrl-C ends this)")
            is_said = True
        time.sleep(min(_AGAIN_S, left_s))
