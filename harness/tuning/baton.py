"""Let one of several threads at a time run the code of a campaign.

The search, OpenTuner, the database and the display are written for one thread. A thread hands the
baton on only while it waits for its device or for builds.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np


class Baton:
    """Held by one thread at a time. Each thread finds Python's and numpy's global generators as it
    left them: techniques draw from them, and a seed shall repeat a search.
    """

    def __init__(self) -> None:
        self._free = threading.Condition(threading.Lock())
        self._states = threading.local()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the baton."""
        self._take()
        try:
            yield
        finally:
            self._give()

    @contextmanager
    def handed_on(self) -> Iterator[None]:
        """Let others hold the baton, and take it back at the end."""
        self._give()
        try:
            yield
        finally:
            self._take()

    def wait(self) -> None:
        """Hand the baton on until another thread calls `notify`."""
        self._save()
        self._free.wait()
        self._restore()

    def notify(self) -> None:
        """Wake the threads that wait; this one holds the baton."""
        self._free.notify_all()

    def keep(self) -> None:
        """Take the baton for ever, so that no other thread goes on."""
        self._free.acquire()

    def _take(self) -> None:
        self._free.acquire()
        self._restore()

    def _give(self) -> None:
        self._save()
        self._free.release()

    def _save(self) -> None:
        self._states.kept = random.getstate(), np.random.get_state()

    def _restore(self) -> None:
        if hasattr(self._states, "kept"):
            state, numpy_state = self._states.kept
            random.setstate(state)
            np.random.set_state(numpy_state)
