"""Calls of a worker over a direct connection, several in one message.

A task of Dask costs its driver 3 ms: messages to and from the scheduler about its beginning, its
end and its result. Here a message of the driver has all calls that are due, and its answer all
results that are there. A message that waits for results is answered when the next one arrives, so
that a worker has at most two.
"""

from __future__ import annotations

import asyncio
import itertools
import threading
import uuid
from collections.abc import Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any

from harness.fleet import worker
from harness.fleet.engine import load_distributed

Call = tuple[int, str, bytes]
"""The number of a call, and the method and the message of `worker.call`."""

Answer = tuple[int, bytes | None, str]
"""The number of a call and its result; without one, why it failed."""

_CONNECT_S = 5.0
_POLL_S = 10.0
"""A message is answered after so long, also where no result is there."""


class Exchange:
    """The driver's end of a connection to one worker. All but `call` runs in Dask's event loop."""

    def __init__(self, client: Any, address: str) -> None:
        self._loop: asyncio.AbstractEventLoop = client.loop.asyncio_loop
        self._pool, self._address = client.rpc, address
        self._packed = load_distributed().protocol.pickle.dumps
        self._carry = self._packed(carry)
        self._name = uuid.uuid4().hex
        self._numbers = itertools.count()
        self._due: list[Call] = []
        self._waiting: dict[int, Future[bytes]] = {}
        self._messages: set[asyncio.Task[None]] = set()
        self._is_sending = False
        self._open = 0  # messages that are not answered yet

    async def is_reachable(self) -> bool:
        """Whether this machine can connect to the worker; perhaps only the scheduler can."""
        try:
            connected = await asyncio.wait_for(self._pool.connect(self._address), _CONNECT_S)
        except (OSError, asyncio.TimeoutError):
            return False
        self._pool.reuse(self._address, connected)
        return True

    def call(self, method: str, message: bytes) -> Future[bytes]:
        """Call a method of the worker's agent; any thread may."""
        answer: Future[bytes] = Future()
        self._loop.call_soon_threadsafe(self._add, method, message, answer)
        return answer

    def _add(self, method: str, message: bytes, answer: Future[bytes]) -> None:
        number = next(self._numbers)
        self._waiting[number] = answer
        self._due.append((number, method, message))
        self._send()

    def _send(self) -> None:
        """Send what is due, with what other threads add in the same round of the loop."""
        if not self._is_sending:
            self._is_sending = True
            self._open += 1
            task = self._loop.create_task(self._sent())
            self._messages.add(task)
            task.add_done_callback(self._messages.discard)

    async def _sent(self) -> None:
        self._is_sending = False
        calls, self._due = self._due, []
        arguments = self._packed((self._name, calls))
        try:
            called = self._pool(self._address).run(function=self._carry, args=arguments, wait=True)
            response = await called
            if response["status"] != "OK":
                raise RuntimeError(response.get("exception_text", "the worker cannot answer"))
            self._take(response["result"])
        except Exception as error:  # whatever Dask raises, or what comes in place of answers
            self._fail(error)
        self._open -= 1
        if self._waiting and self._open == 0:
            self._send()

    def _take(self, answers: Sequence[Answer]) -> None:
        for number, result, reason in answers:
            waiting = self._waiting.pop(number, None)
            if waiting is None:
                continue
            if result is None:
                waiting.set_exception(RuntimeError(reason))
            else:
                waiting.set_result(result)

    def _fail(self, error: Exception) -> None:
        """End all calls: an answer that was on its way is lost."""
        failed, self._waiting, self._due = self._waiting, {}, []
        for waiting in failed.values():
            waiting.set_exception(error)


# ---------------------------------------------------------------------------- on the worker


class _Desk:
    """The results of one driver's calls that it has not fetched yet."""

    def __init__(self) -> None:
        self.answers: list[Answer] = []
        self.changed = asyncio.Event()
        self.messages = 0

    def put(self, answer: Answer) -> None:
        """Add a result."""
        self.answers.append(answer)
        self.changed.set()

    async def fetch(self) -> list[Answer]:
        """Wait for results, until the driver's next message arrives or the time is up."""
        self.messages += 1
        message = self.messages
        self.changed.set()  # for the message before
        end_s = asyncio.get_running_loop().time() + _POLL_S
        with suppress(asyncio.TimeoutError):
            while not self.answers and message == self.messages:
                self.changed.clear()
                left_s = end_s - asyncio.get_running_loop().time()
                await asyncio.wait_for(self.changed.wait(), left_s)
        answers, self.answers = self.answers, []
        return answers


_desks: dict[str, _Desk] = {}
"""By the driver's end; one is small, so it stays when its driver has left."""


async def carry(name: str, calls: Sequence[Call]) -> list[Answer]:
    """Begin calls of a driver's end, and return the results that are there first."""
    desk = _desks.setdefault(name, _Desk())
    loop = asyncio.get_running_loop()
    for call in calls:
        # Each in a thread of its own, which does not keep the process alive.
        threading.Thread(target=_carried, args=(loop, desk, call), daemon=True).start()
    return await desk.fetch()


def _carried(loop: asyncio.AbstractEventLoop, desk: _Desk, call: Call) -> None:
    number, method, message = call
    answer: Answer
    try:
        answer = number, worker.call(method, message), ""
    except BaseException as error:
        answer = number, None, f"{type(error).__name__}: {error}"
    with suppress(RuntimeError):  # the loop has ended
        loop.call_soon_threadsafe(desk.put, answer)
