"""Something of a worker that one driver at a time uses."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar

from harness.core.errors import DeviceBusy

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
        self._calling = threading.Lock()  # held during a call
        self._changing = threading.RLock()  # held while the client changes
        self._is_called = False
        self._used_s = 0.0
        self.session: S | None = None
        self.client: C | None = None

    @contextmanager
    def used_by(self, session: S, open_client: Callable[[], C]) -> Iterator[C]:
        """Lend the client of a session.

        A session of the same driver takes the place of an earlier one at once: that one's process
        has ended, and whatever still runs for it is ended as well. Raises DeviceBusy where another
        driver uses it.
        """
        self._admit(session)
        with self._calling:
            with self._changing:
                self._admit(session)
                if self.client is None:
                    self.client, self.session = open_client(), session
                client, self._is_called = self.client, True
            try:
                yield client
            finally:
                self._is_called = False
                self._used_s = time.monotonic()

    def _admit(self, session: S) -> None:
        """End the client of another session; raises DeviceBusy where its driver has not left."""
        with self._changing:
            if self.client is None or self.session is None or self.session == session:
                return
            if self.session.driver != session.driver:
                idle_s = 0.0 if self._is_called else time.monotonic() - self._used_s
                if idle_s < IDLE_S:
                    raise DeviceBusy(
                        f"{self._name} is used by another driver, {idle_s:.0f} s ago; a device is "
                        f"free {IDLE_S:g} s after its last measurement"
                    )
            self.close()

    def release(self, session: S) -> bool:
        """End the processes of a session, if it is the present one's; the device is free then."""
        with self._changing:
            if self.session == session:
                self.close()
        return True

    def close(self) -> None:
        """End the processes; a call that waits for them raises."""
        with self._changing:
            if self.client is not None:
                self.client.close()
                self.client = None
