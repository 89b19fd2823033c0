"""Something of a worker that one driver at a time uses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from harness.core.errors import BackendUnavailable

IDLE_S = 60.0
"""What a driver asked for nothing for so long may be taken by another driver."""


class Session(Protocol):
    """How a driver uses it; `driver` identifies the campaign that asks."""

    @property
    def driver(self) -> str:
        """The campaign that asks."""


class Client(Protocol):
    """Child processes that serve a session."""

    def close(self) -> None:
        """End them."""


S = TypeVar("S", bound=Session)
C = TypeVar("C", bound=Client)


class Held(Generic[S, C]):
    """A device or a machine, by its name, and the client of the session that uses it."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._used_s = 0.0
        self.session: S | None = None
        self.client: C | None = None

    @contextmanager
    def used_by(self, session: S, open_client: Callable[[], C]) -> Iterator[C]:
        """Lend the client of a session; it takes the place of one that its driver has left.

        Raises BackendUnavailable where another driver uses it.
        """
        with self._lock:
            if self.client is not None and self.session != session:
                self._take_from_other(session)
            if self.client is None:
                self.client, self.session = open_client(), session
            try:
                yield self.client
            finally:
                self._used_s = time.monotonic()

    def _take_from_other(self, session: S) -> None:
        assert self.client is not None
        assert self.session is not None
        idle_s = time.monotonic() - self._used_s
        if self.session.driver != session.driver and idle_s < IDLE_S:
            raise BackendUnavailable(
                f"{self._name} is used by another driver, {idle_s:.0f} s ago; a device is free "
                f"{IDLE_S:g} s after its last measurement"
            )
        self.close()

    def release(self, session: S) -> bool:
        """End the processes of a session, if it is the present one's; the device is free then."""
        with self._lock:
            if self.session == session:
                self.close()
        return True

    def close(self) -> None:
        """End the processes."""
        if self.client is not None:
            self.client.close()
            self.client = None
