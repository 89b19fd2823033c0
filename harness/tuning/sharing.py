"""Share work on inputs out over equal devices, with a thread for each device.

A thread takes the next input and runs the campaign's own code for it. The search, OpenTuner, the
database and the display are written for one thread: so the thread that has the baton runs, and
hands it on only while it waits for its device or for builds. Whatever a thread has written is
committed before another one goes on, so that no rollback undoes the work of another.
"""

from __future__ import annotations

import queue
import threading
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Generic, TypeVar

from harness.core.arrays import own_random
from harness.core.errors import BackendUnavailable
from harness.core.records import Input
from harness.tuning.devices import MOST_FAULTS, SharedDevice
from harness.tuning.state import State

Work = TypeVar("Work")

_LOOK_S = 0.5


def run_stage(
    state: State,
    stage: str,
    title: str,
    work: Sequence[tuple[Input, Work]],
    step: Callable[[Input, Work], object],
    skipped: str,
) -> None:
    """Do a stage's work until the time is up.

    `skipped` describes the rest, with {} for a number such as "3 of 5".
    """
    display = state.display  # of all devices together
    display.begin_stage(title, len(work))
    state.stages[stage] = ""

    def do(problem: Input, item: Work) -> None:
        with state.leaving_out(problem):
            step(problem, item)
        display.step(str(problem))

    left = do_work(state, work, do, state.is_time_up)
    if left:
        rest = skipped.format(f"{left} of {len(work)}")
        notice = f"the time is up: {rest} skipped; tune again with a longer --max-time"
        state.stages[stage] = notice
        state.warn(notice)


def do_work(
    state: State,
    work: Sequence[tuple[Input, Work]],
    step: Callable[[Input, Work], object],
    is_over: Callable[[], bool] = lambda: False,
) -> int:
    """Do a step for each piece of work, in order or shared out over the devices, until it
    `is_over`; return how much is left."""
    if state.pool.is_shared:
        return _SharedWork(state, work, step, is_over).run()
    for number, (problem, item) in enumerate(work):
        if is_over():
            return len(work) - number
        step(problem, item)
    return 0


class _Stopped(BaseException):
    """The campaign ends, so this thread ends as well; like KeyboardInterrupt no error."""


class _SharedWork(Generic[Work]):
    """Work on inputs that is shared out over devices; an input is with one device at a time."""

    def __init__(
        self,
        state: State,
        work: Sequence[tuple[Input, Work]],
        step: Callable[[Input, Work], object],
        is_over: Callable[[], bool],
    ) -> None:
        """`step` does one piece of work. No other begins once `is_over`."""
        self._state = state
        self._pool = state.pool
        self._step = step
        self._is_over = is_over
        self._left: dict[Input, deque[Work]] = {}
        for problem, item in work:
            self._left.setdefault(problem, deque()).append(item)
        self._taken: set[Input] = set()
        self._baton = threading.Condition(threading.Lock())
        self._is_stopping = False
        self._threads: list[threading.Thread] = []
        # Not counted: Ctrl-C may come between an end and its count.
        self._ended: dict[threading.Thread, BaseException | None] = {}
        # A queue in C: Ctrl-C in the middle of a wait leaves it whole.
        self._ends: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run(self) -> int:
        """Do the work; return how much is left since it `is_over`.

        At an error, or at Ctrl-C here, all threads end; what had been measured by then is stored.
        """
        try:
            for device in tuple(self._pool.left):
                self._start(device)
            while self._is_running() and self._error() is None:
                self._wait_for_end()
                for device in self._pool.joined(self._state.warn):
                    self._start(device)
            if error := self._error():
                raise error
            for thread in self._threads:
                thread.join()
        except BaseException:
            self._stop()
            raise
        return sum(map(len, self._left.values()))

    def _start(self, device: SharedDevice) -> None:
        thread = threading.Thread(target=self._serve, args=(device,), daemon=True)
        self._threads.append(thread)
        thread.start()

    def _is_running(self) -> bool:
        """Whether a thread was started and has not ended."""
        return any(t.ident is not None and t not in self._ended for t in self._threads)

    def _error(self) -> BaseException | None:
        """Return the error with which a thread ended."""
        return next(filter(None, [*self._ended.values()]), None)

    def _wait_for_end(self) -> None:
        """Wait until a thread ends, or for a moment: another one may have received a signal."""
        with suppress(queue.Empty):
            self._ends.get(timeout=_LOOK_S)

    def _stop(self) -> None:
        """End all threads; they store what is measured already."""
        self._is_stopping = True
        try:
            self._pool.close()
            with self._baton:
                self._baton.notify_all()
            while self._is_running():
                self._wait_for_end()
            for thread in [*self._ended]:
                thread.join()
        except BaseException:  # Ctrl-C again: leave without those that hang, which get no baton
            self._baton.acquire()
            raise

    # ------------------------------------------------------------------- in a device's thread

    def _serve(self, device: SharedDevice) -> None:
        error: BaseException | None = None
        alone = device.wait_for
        try:
            self._pool.of_thread.device = device
            device.wait_for = self._wait_for
            with self._baton:
                try:
                    self._work_off(device)
                finally:
                    self._baton.notify_all()
        except _Stopped:
            pass
        except BaseException as raised:
            error = raised
        device.wait_for = alone
        self._ended[threading.current_thread()] = error
        self._ends.put(None)

    def _work_off(self, device: SharedDevice) -> None:
        """Do work until none is left for the device, or it has failed too often."""
        while device in self._pool.left:
            problem = self._next_input(device)
            if problem is None:
                break
            self._taken.add(problem)
            left = self._left[problem]
            try:
                while left and not self._is_over():
                    self._step(problem, left[0])
                    left.popleft()
            except BackendUnavailable as error:
                self._note_fault(device, error)
            self._taken.remove(problem)
            if not left:
                del self._left[problem]
            self._baton.notify_all()

    def _next_input(self, device: SharedDevice) -> Input | None:
        """Return the next input that the device may take; wait where it may get one later, from a
        device that fails."""
        while self._left and not self._is_over():
            if self._is_stopping:
                raise _Stopped
            for problem in self._left:
                home = self._pool.home.get(problem)
                is_free = home is device or home not in self._pool.left
                if is_free and problem not in self._taken:
                    return problem
            with own_random():
                self._baton.wait()
        return None

    def _note_fault(self, device: SharedDevice, error: BackendUnavailable) -> None:
        """Count a failure of a device, and take it out at the last one that is allowed; raise the
        error where no other device is left."""
        device.faults += 1
        if len(self._pool.left) == 1:
            raise error
        if device.faults < MOST_FAULTS:
            return
        self._pool.left.remove(device)
        for problem, config in device.failed:
            self._state.ledger.measure_again(problem, config)
        self._state.warn(
            f"{device} failed {MOST_FAULTS} times in a row and is not used any more, its inputs go "
            f"to the others: {error}"
        )

    def _wait_for(self, call: Callable[[], Any]) -> Any:
        """Hand the baton on during a call that waits. Raises _Stopped where the campaign ended
        before the call did."""
        if self._is_stopping:
            raise _Stopped
        with own_random():
            self._baton.release()
            try:
                return call()
            finally:
                is_late = self._is_stopping
                self._baton.acquire()
                if is_late:  # devices that were closed fail in every way: no fault of the kernel
                    raise _Stopped
